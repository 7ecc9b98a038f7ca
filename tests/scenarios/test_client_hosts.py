"""What client hosts are made of: the rack of consumers, and programs that only produce."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkasim.model import facts
from kafkasim.scenarios.commands.runs import for_consumers
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.running.runner import ScenarioRun

SENDS_TWENTY = """
from aiokafka import AIOKafkaProducer

async def main():
    async with AIOKafkaProducer() as producer:
        for _ in range(20):
            await producer.send_and_wait("orders", b"x")
"""


def scenario(*workload: dict[str, Any]) -> dict[str, Any]:
    config = {"offsets.topic.num.partitions": 1, "offsets.topic.replication.factor": 1}
    return {
        "name": "hosts",
        "claim": "C.",
        "duration": "2s",
        "cluster": {"brokers": 1, "controllers": 1, "config": config},
        "topics": [{"name": "orders"}],
        "workload": [*workload],
    }


@pytest.mark.parametrize("kind", ["consumer-group", "processor"])
def test_the_rack_of_a_workload_is_the_client_rack_of_its_consumers(kind: str) -> None:
    table = {"kind": kind, "rack": "a"} | ({"output": "out"} if kind == "processor" else {})
    other = table | {"group": "other", "config": {"client.rack": "b"}}
    given = scenario(table, other)
    given["topics"].append({"name": "out"})
    clients = ScenarioRun(parse(given, "test"), 0, None, ()).cluster.clients
    clients.start_workloads()
    clients._world.run(1)
    found = [configs["consumer"].client_rack for configs in clients._configs.values()]
    assert found == ["a", "b"]


def test_a_program_that_only_produces_runs_for_a_workload_of_kind_producer(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(SENDS_TWENTY)
    run = ScenarioRun(parse(scenario({"kind": "producer", "app": str(app)}), "test"), 0, None, ())
    acked: list[tuple[str, int]] = []
    run.trace.subscribe(
        facts.Acked, lambda _seq, _t, node, fact: acked.extend((node, i) for i in fact.record_ids)
    )
    assert run.execute().verdict == "pass"
    assert acked == [("producer-1", 1 << 32 | number) for number in range(20)]


def test_app_takes_the_place_of_producers_where_there_is_no_group() -> None:
    assert for_consumers("producer-timeout", "/a.py") == ['workload.0.app="/a.py:main"']


def test_a_program_decides_what_it_sends(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(SENDS_TWENTY)
    table = {"kind": "producer", "app": str(app), "value": "x"}
    with pytest.raises(ScenarioError, match=r"workload\.0\.value: the application decides it"):
        parse(scenario(table), "test")
