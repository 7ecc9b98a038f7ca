"""A journal gives its session again: the same facts, judged."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.wire.failures import JournalError
from kafkasim.scenarios.wire.journal import Head, Journal, read_head, read_inputs, replay_journal
from kafkasim.scenarios.wire.session import LiveRun
from kafkasim.sim.apps.loop import generator_hooks
from kafkasim.sim.trace.store import code_version
from tests.scenarios.wire.batches import ROWS, built
from tests.scenarios.wire.outside import PORTS, STRICT, Connection, Recorded, cluster

SEED, EPOCH_US = 5, 1_750_000_000_000_000


def head() -> Head:
    return Head(cluster(), SEED, [], EPOCH_US, PORTS, False, False, code_version())


def session(path: Path, acks: int) -> tuple[str, int]:
    """Play a session with a split brain; return its digest and how many records were acked.

    The leader of ``orders-0`` is cut off while a client goes on writing to it.
    """
    run = LiveRun(cluster(), SEED, None, [], EPOCH_US)
    run.boot()
    journal = Journal(path, head())
    live = Recorded(run, PORTS, STRICT, journal)
    acked = 0
    with generator_hooks():
        client = Connection(live, "broker-1", "payments")
        client.create("orders", 1)
        leader = client.leader("orders")
        writer = Connection(live, leader, "payments")
        live.inject({"kind": "partition", "node": leader, "peers": ["servers"], "for": "20s"})
        for number in range(8):
            data = built([*ROWS, (None, b"%d" % number, [])])
            if acks == 1:
                acked += writer.produce("orders", data, acks)["ErrorCode"] == 0
            else:
                rows = [{"Name": "orders", "PartitionData": [{"Index": 0, "Records": data}]}]
                writer.write("Produce", {"Acks": -1, "TimeoutMs": 5000, "TopicData": rows}, 12)
            writer.run(2_000_000)
        writer.run(20_000_000)
        live.close(writer.number)
        live.close(client.number)
    digest, rows = run.trace.digest, run.trace.rows
    journal.write(run.world.now, "end", digest, rows)
    journal.close()
    return digest, acked


def test_a_replay_has_the_live_digest_and_finds_what_clients_lost(tmp_path: Path) -> None:
    path = tmp_path / "session.kafkasim"
    _, acked = session(path, acks=1)
    assert acked == 8
    again = replay_journal(path, tmp_path / "run")
    assert again.same_digest is True
    assert again.same_code
    assert (again.result.verdict, again.result.anomalies) == ("fail", ["lost-write"])
    lost = [each for each in again.result.findings if each.name == "lost-write"]
    assert sum(each.count for each in lost) == 8 * (len(ROWS) + 1)
    assert invoke(["explain", str(tmp_path / "run")]) == 0
    assert invoke(["replay", str(tmp_path / "run")]) == 2  # its manifest names the journal


def test_what_nobody_acknowledged_is_not_lost(tmp_path: Path) -> None:
    path = tmp_path / "session.kafkasim"
    session(path, acks=-1)
    again = replay_journal(path, None)
    assert again.same_digest is True
    assert again.result.verdict == "pass", again.result.anomalies


def test_a_journal_that_was_cut_off_is_replayed_up_to_there(tmp_path: Path) -> None:
    path = tmp_path / "session.kafkasim"
    session(path, acks=1)
    text = path.read_text()
    path.write_text(text[: text.rindex('"end"') + 3])
    assert replay_journal(path, None).same_digest is None


def test_another_digest_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "session.kafkasim"
    digest, _ = session(path, acks=-1)
    path.write_text(path.read_text().replace(digest, "0" * 64))
    assert invoke(["replay", str(path)]) == 12
    assert "digest is not that of the session" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("lines", "said"),
    [
        ([""], "x:1: not a journal"),
        (["[]"], "x:1: not a journal"),
        (["{"], "x:1: not a journal"),
        (['{"kafkasim-journal": 2}'], "x:1: format 2"),
        (['{"kafkasim-journal": 1, "spec": {}}'], "x:1: "),
        (["HEAD", '[1, "open"]'], "x:2: not an input"),
        (["HEAD", '[1, "eval", "1"]'], "x:2: not an input"),
        (["HEAD", '[9000005, "heal"]', '[9000004, "heal"]'], "x:3: not an input"),
        (["HEAD", '[5, "heal"]'], "an input at 5 µs, before the cluster is ready"),
        (["HEAD", '[1, "data", 1, "***"]'], "x:2: not an input"),
        (["HEAD", "nonsense"], "x:2: not an input"),
        (["HEAD", '[9000000, "open", 1, "broker-9", "a"]'], "no broker 'broker-9'"),
        (["HEAD", '[9000000, "fault", {"kind": "crash", "node": "/etc"}]'], "/etc"),
    ],
)
def test_a_wrong_journal_is_one_line(tmp_path: Path, lines: list[Any], said: str) -> None:
    path = tmp_path / "x"
    path.write_text("\n".join(head().line() if each == "HEAD" else each for each in lines) + "\n")
    with pytest.raises(JournalError) as told:
        replay_journal(path, None)
    assert said in str(told.value)
    assert "\n" not in str(told.value)


def test_a_journal_says_all_that_decides_a_session(tmp_path: Path) -> None:
    path = tmp_path / "x"
    journal = Journal(path, head())
    journal.write(7, "data", 3, b"\0\xff")
    journal.close()
    assert read_head(path) == head()
    assert list(read_inputs(path)) == [[7, "data", 3, b"\0\xff"]]
    assert json.loads(path.read_text().splitlines()[0])["seed"] == SEED
