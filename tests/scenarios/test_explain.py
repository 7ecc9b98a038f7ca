"""``kafkasim explain``: the chain of each anomaly names its cause, from the facts of the trace."""

from __future__ import annotations

import json
import re
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

from kafkasim.analysis.explain.chain import Explanation, Step, _shortened
from kafkasim.analysis.explain.chains import CHAINS, PRECEDED
from kafkasim.analysis.explain.explain import firsts
from kafkasim.analysis.judging.finding import ANOMALIES
from kafkasim.analysis.story.sentences import METHODS, SAID, Teller, rule
from kafkasim.model.facts import FACTS
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.language import library
from kafkasim.scenarios.running.runner import run
from kafkasim.scenarios.running.stored import explain

ROOT = Path(__file__).parents[2]
SECTIONS = re.findall(r"^##+ (\d+(?:\.\d+)?)\.? ", (ROOT / "model/KAFKA.md").read_text(), re.M)


@cache
def stored(name: str, seed: int = 1) -> Path:
    """Run a scenario, a script with its variant or (``NAME:twin``) a twin; return its directory."""
    place = Path(mkdtemp(prefix="kafkasim-test-"))
    name, _, twin = name.partition(":")
    scenario, variants = library.scenario(name, twin=bool(twin))
    run(scenario, seed, place, [name] if name in library.scripts() else variants)
    return place


def first(name: str, anomaly: str) -> Explanation:
    explained, _ = explain(stored(name), anomaly)
    return firsts(explained)[anomaly][0]


CAUSES: list[tuple[str, str, str, str]] = [
    # the follower truncates to its high watermark, and is then elected (KIP-101)
    ("B01-truncate-to-hw", "lost-write", "Truncated",
     ("broker-3 truncates orders-0 from offset 39 to 38, to follow leader epoch 2: 1 record cut,"
     " which had been committed")),
    # the replica joins the ISR before it has what an earlier leader exposed (KAFKA-7128)
    ("B06-isr-expand-at-hw", "ISRDATA", "PartitionChanged",
     "broker-3 joins the ISR of orders-0 (caught up); the ISR is now 1,2,3"),
    # a consumer reads what was never committed (KAFKA-14704)
    ("B10-follower-hw-before-truncate", "STABLEREAD", "Polled",
     "consumer-2 of group audit polls offsets 36 to 54 of orders-0"),
    ("B18-hw-under-min-isr", "MINISR", "HighWatermark",
     ("broker-1 advances the high watermark of orders-0 to 32 in leader epoch 0: replicas 1 are"
     " known to have the records, min.insync.replicas is 2")),
    ("B24-fenced-replica-rejoins-isr", "ISRELIG", "PartitionChanged",
     "broker-2 joins the ISR of orders-0 (caught up); the ISR is now 1,2,3"),
    ("B25-no-broker-epoch-in-isr", "ACKED", "LogLoaded",
     "broker-2 recovers its log of orders-0 after an unclean stop: offsets 0 to 101"),
    ("B30-unclean-election", "lost-write", "PartitionChanged",
     ("UNCLEAN election: broker-2, not in the ISR 1, leads orders-0 (leader epoch 1); records that"
     " only the ISR had are lost")),
    ("B41-raft-leader-same-epoch", "META", "RaftRole",
     "controller-1 is leader of the metadata quorum in epoch 1, leader 3001"),
    ("B04-no-fetch-epoch-fencing", "MATCH", "Replicated",
     "broker-3 fetches offsets 31 to 199 of orders-0 in leader epoch 1"),
    ("auto-commit-loses:twin", "skipped-by-commit", "OffsetCommitted",
     ("broker-3 acknowledges the commit of orders-1 at 61 by consumer-2, generation 1 of group"
     " billing")),
    ("consumer-crash-rebalance:twin", "duplicate", "Positioned",
     "consumer-1 will read orders-1 from offset 42: the offset that its group has committed"),
    ("flaky-network:twin", "duplicate", "Appended",
     ("broker-2, leader of orders-0 in leader epoch 0, appends record 195 of producer-1 at offset"
     " 197")),
    ("zombie-consumer:twin", "offset-regression", "OffsetCommitted",
     ("broker-3 acknowledges the commit of orders-0 at 47 by consumer-1, generation 1 of group"
     " billing")),
]  # fmt: skip
"""Scenario, anomaly, and the fact on which the anomaly turns."""


@pytest.mark.slow
@pytest.mark.parametrize(("name", "anomaly", "fact", "text"), CAUSES, ids=[c[0] for c in CAUSES])
def test_a_chain_turns_on_its_cause(name: str, anomaly: str, fact: str, text: str) -> None:
    found = first(name, anomaly)
    assert found.turn is not None
    assert (found.turn.fact, found.turn.text) == (fact, text)
    assert found.turn in found.steps
    assert found.steps == tuple(sorted(found.steps, key=lambda step: step.seq))
    assert found.place[:2] == (anomaly, fact)


@pytest.mark.slow
def test_the_loss_of_an_acknowledged_record_is_told_from_its_append_to_its_end() -> None:
    """Record, leader, epoch, acknowledgement, election and its reason, truncation, the end."""
    found = first("B01-truncate-to-hw", "lost-write")
    assert found.found.startswith("record 38 of producer-1 acknowledged at 38")
    assert [(step.fact, step.rule) for step in found.steps] == [
        ("Appended", "1.7"),
        ("Replicated", "1.4"),
        ("Replicated", "1.4"),
        ("HighWatermark", "1.5"),
        ("Acked", "1.7"),
        ("BecameFollower", "1.3"),
        ("Truncated", "1.4"),
        ("PartitionChanged", "1.8"),
        ("BecameLeader", "1.3"),
        ("Truncated", "1.4"),
        ("Truncated", "1.4"),
        ("FinalReplica", ""),
    ]
    told = [step.text for step in found.steps]
    assert told[0].endswith("in leader epoch 1, appends record 38 of producer-1 at offset 38")
    assert told[4].endswith("written to orders-0 at offset 38: acks=all")
    assert told[7] == (
        "broker-3 replaces broker-2 as leader of orders-0 (leader epoch 5): broker-2 is gone from"
        " ZooKeeper"
    )
    assert found.conclusion == (
        "broker-3 had offset 38 of orders-0 and dropped it, although it was below the high"
        " watermark. B01-truncate-to-hw (KIP-101) is in force, and Kafka's rule is not: A new"
        " follower truncates where the leader's epoch ended, not at its own high watermark."
    )


@pytest.mark.slow
def test_a_loss_with_acks_one_turns_on_the_acknowledgement_and_names_the_fault() -> None:
    found = first("acks-one-loses", "lost-write")
    assert found.excuse == "the scenario permits it"
    assert found.place == ("lost-write", "Acked", "1.7")
    facts = [step.fact for step in found.steps]
    assert facts.index("Acked") < facts.index("FaultStarted") < facts.index("PartitionChanged")
    assert "HighWatermark" not in facts  # it was never committed
    assert found.conclusion.startswith("acks=1 was answered before the commit")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "waits"),
    [
        ("B22-lost-alter-reply-not-idempotent",
         ("the ISR of orders-0 waits for broker-2: broker-1's proposal to add it was refused"
         " (INVALID_UPDATE_VERSION)")),
        ("B36-cached-zk-version-zombie-leader",
         "the ISR of orders-0 waits for broker-1, which has not heard of leader epoch 2"),
    ],
)  # fmt: skip
def test_a_stall_says_what_waits_for_what(name: str, waits: str) -> None:
    assert first(name, "no-progress").conclusion.startswith(waits)


def test_every_anomaly_that_a_run_can_name_has_a_chain() -> None:
    assert {*ANOMALIES} <= {*CHAINS, *PRECEDED}


def test_every_kind_of_fact_has_a_sentence_and_cites_a_section_that_exists() -> None:
    assert not set(SAID) & set(METHODS)
    teller = Teller({}, [])
    blank: dict[str, Any] = {"int": 1, "str": "x", "bool": True, "tuple[int, ...]": [1]}
    blank |= {"tuple[str, ...]": ["x"], "str | None": None}
    known = {"fault": "crash", "target": "broker-1"}
    seen: dict[str, str] = {}
    for kind, fact in FACTS.items():
        fields = fact.__dataclass_fields__.values()  # type: ignore[attr-defined]
        row = {field.name: blank[str(field.type)] for field in fields}
        row |= {name: value for name, value in known.items() if name in row}
        row = {**row, "seq": 5, "t_us": 1, "node": "broker-1", "kind": kind}
        text, behind = "; ".join(map(str, teller.of(row))), rule(row, zookeeper=False)
        assert text, kind
        if behind:
            assert behind in SECTIONS, (kind, behind)
        seen[kind] = text
    assert len(set(seen.values())) == len(seen)


def test_a_long_chain_keeps_its_ends_and_its_turn() -> None:
    steps = tuple(Step(number, number, "Polled", f"step {number}", "") for number in range(60))
    kept = [None if step is None else step.seq for step in _shortened(steps, steps[30])]
    assert kept == [*range(12), None, 30, None, *range(48, 60)]


@pytest.mark.slow
def test_the_command_explains_a_stored_run_or_runs_a_scenario(
    capsys: pytest.CaptureFixture[str],
) -> None:
    place = stored("B01-truncate-to-hw")
    assert invoke(["explain", str(place), "ISRDATA", "--json"]) == 0
    (told,) = json.loads(capsys.readouterr().out)
    assert (told["anomaly"], told["place"]) == ("ISRDATA", ["ISRDATA", "Truncated", "1.4"])
    assert invoke(["explain", str(place)]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split(" in ")[0] for line in lines if line.startswith(("A", "I", "l"))] == [
        "ISRDATA", "ACKED", "lost-write",
    ]  # fmt: skip
    assert sum("=>" in line for line in lines) == 3
    assert invoke(["explain", str(place), "unseen"]) == 2
    assert "unseen: not found in the run" in capsys.readouterr().err
    assert invoke(["explain", "B01-truncate-to-hw", "--seed", "1"]) == 0
    assert "nothing to explain" in capsys.readouterr().out


@pytest.mark.slow
def test_a_run_stored_without_findings_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = stored("B01-truncate-to-hw")
    manifest = json.loads((place / "manifest.json").read_text())
    del manifest["findings"]
    (tmp_path / "manifest.json").write_text(json.dumps(manifest))
    (tmp_path / "trace.parquet").write_bytes((place / "trace.parquet").read_bytes())
    assert invoke(["explain", str(tmp_path)]) == 2
    assert "has no findings: run the scenario again" in capsys.readouterr().err
