"""kafkasim ask: the questions that fit a cluster, and what their runs amount to."""

import json
from pathlib import Path
from typing import Any

import pytest

from kafkasim.analysis.answers import Timeouts, decided
from kafkasim.scenarios.cli import invoke
from kafkasim.scenarios.commands.spark.asking import timeouts
from kafkasim.scenarios.importing.questions import acks_of_hosts, questions
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import ClusterTable

SHOP: dict[str, Any] = {
    "name": "shop", "claim": "A shop.", "duration": "60s",
    "cluster": {"brokers": 2, "controllers": 1, "racks": ["zone a", "b"],
                "config": {"broker.session.timeout.ms": 6000,
                           "offsets.topic.num.partitions": 1}},
    "topics": [{"name": "orders", "partitions": 2, "replication-factor": 2}],
    "workload": [
        {"kind": "producer", "rate": "50/s", "config": {"acks": "all"}},
        {"kind": "producer", "transactional-id": "t", "rate": "1/s"},
    ],
    "faults": [{"kind": "crash", "node": "broker-1", "at": "1s"}],
}  # fmt: skip


def test_the_questions_that_fit_two_brokers_in_two_racks() -> None:
    found = list(questions(SHOP, parse(SHOP, "shop.toml")))
    pauses = [f"pause-broker-{n}-{seconds}s" for n in (1, 2) for seconds in (5, 15, 30)]
    assert [each.name for each in found] == [
        *pauses, "crash-broker-1", "crash-broker-2", "lose-rack-1", "lose-rack-2",
        "crash-controller", "rolling-restart", "fill-disk-broker-1",
    ]  # fmt: skip
    checked = [parse(each.data, each.name) for each in found]
    assert [len(each.faults) + len(each.operations) for each in checked] == [1] * len(found)
    assert checked[8].faults[0].rack == "zone a"


def test_a_producer_has_one_with_the_other_acks_beside_it() -> None:
    question = next(questions(SHOP, parse(SHOP, "shop.toml")))
    scenario = parse(question.data, "question")
    assert acks_of_hosts(scenario) == {
        "producer-1": "all", "producer-2": "1", "producer-3": "all",
    }  # fmt: skip


STATE = {"leaderless_s": 0.0, "under_min_s": 0.0, "needed": 2, "replicas": 3, "reasons": []}


@pytest.mark.parametrize(
    ("state", "stopped_s", "said"),
    [
        ({}, 0.2, "nothing stopped"),
        ({"reasons": ["controlled-shutdown"]}, 0.2, "controlled.shutdown"),
        ({"reasons": ["lag"]}, 30.5, "replica.lag.time.max.ms = 30000"),
        ({"reasons": ["lag", "fenced"]}, 6.5, "broker.session.timeout.ms = 6000"),
        ({"under_min_s": 12.0, "reasons": ["fenced"]}, 12.5, "min.insync.replicas = 2"),
        (
            {"leaderless_s": 9.0, "under_min_s": 9.0},
            9.5,
            "unclean.leader.election.enable = false: the in-sync replicas are away",
        ),
        (
            {"leaderless_s": 9.0, "replicas": 1},
            9.5,
            "replication factor 1: no other replica can lead",
        ),
        ({"reasons": ["fenced"]}, 9.4, "broker.session.timeout.ms = 6000"),
        (
            {"reasons": ["fenced"]},
            9.6,
            (
                "broker.session.timeout.ms = 6000, then request.timeout.ms = 10000 of clients that"
                " ask a silent broker"
            ),
        ),
        ({"unclean": True, "leaderless_s": 9.0}, 9.5, "unclean.leader.election.enable = true"),
        ({"reasons": ["dir-offline"]}, 2.0, "the failed log directory: its replicas leave at once"),
        (
            {},
            5.1,
            "ended before broker.session.timeout.ms = 6000 and replica.lag.time.max.ms = 30000",
        ),
    ],
)
def test_the_setting_that_decided(state: dict[str, Any], stopped_s: float, said: str) -> None:
    ends = Timeouts(*timeouts(ClusterTable.model_validate(SHOP["cluster"])), 10.0)
    assert decided({**STATE, **state}, stopped_s, ends) == said


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(300)
def test_a_broker_that_pauses_stops_acks_all_for_as_long(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "server.properties").write_text(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@a:9093\n"
        "offsets.topic.replication.factor=1\noffsets.topic.num.partitions=1\n"
    )
    file, out = str(tmp_path / "server.properties"), tmp_path / "asked"
    wanted = ["--runs", "1", "--only", "broker-1-5s", "--out", str(out), "--json"]
    assert invoke(["ask", file, *wanted]) == 0
    (answer,) = json.loads(capsys.readouterr().out)["answers"]
    assert answer["question"] == "broker-1 pauses 5 s"
    assert 4.0 < answer["waited"]["all"] < 9.0
    assert 4.0 < answer["waited"]["1"] < 9.0
    assert answer["lost"] == {}
    shown = answer["command"].split()
    assert shown[:2] == ["kafkasim", "run"]
    assert parse_file(shown[2]).faults[0].kind == "gc-pause"
    assert invoke(["report", str(out), "--out", str(tmp_path / "page.html")]) == 0
    assert "What breaks the cluster" in (tmp_path / "page.html").read_text()


def parse_file(path: str) -> Any:
    from kafkasim.scenarios.language import library

    return library.scenario(path)[0]


def test_a_question_that_is_none_is_told_with_those_there_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "server.properties"
    file.write_text("process.roles=broker,controller\ncontroller.quorum.voters=1@a:9093\n")
    assert invoke(["ask", str(file), "--only", "flood", "--out", str(tmp_path / "a")]) == 2
    error = capsys.readouterr().err
    assert "--only flood: is in the name of no question; there are: pause-broker-1-5s, " in error
