"""An application's own assignor: it decides who reads what, and its mistakes are its own."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import pytest

import kafkasim
from kafkasim.scenarios.applications.consuming.assignors import (
    ClusterMetadata,
    ConsumerProtocolMemberMetadata,
    RangePartitionAssignor,
    RoundRobinPartitionAssignor,
)
from tests.scenarios.test_user_application import SCENARIO

APP = """
    import asyncio
    from aiokafka import AIOKafkaConsumer
    from aiokafka.coordinator.assignors.abstract import AbstractPartitionAssignor
    from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
    from aiokafka.coordinator.protocol import (
        ConsumerProtocolMemberAssignment, ConsumerProtocolMemberMetadata,
    )

    class Own(AbstractPartitionAssignor):
        name = "own"
        told = []

        @classmethod
        def metadata(cls, topics):
            return ConsumerProtocolMemberMetadata(0, list(topics), b"3")

        @classmethod
        def on_assignment(cls, assignment):
            cls.told.append(assignment.partitions())

        @classmethod
        def assign(cls, cluster, members):
            numbers = sorted(cluster.partitions_for_topic("orders"))
            return {member: assignment(part(numbers, place))
                    for place, member in enumerate(sorted(members))}

    def assignment(numbers):
        topics = [("orders", numbers)] if numbers else []
        return ConsumerProtocolMemberAssignment(0, topics, b"")

    def part(numbers, place):
        return [numbers[:-1], numbers[-1:]][place]

    async def main():
        async with AIOKafkaConsumer(
            "orders", auto_offset_reset="earliest", partition_assignment_strategy=(Own,),
        ) as orders:
            async for order in orders:
                assert not Own.told or Own.told[-1] == sorted(orders.assignment())
"""

LINE = next(n for n, line in enumerate(dedent(APP).splitlines(), 1) if "return [numbers" in line)


def run(tmp_path: Path, old: str = "", new: str = "") -> kafkasim.Outcome:
    text = dedent(APP)
    assert old in text, old
    app = tmp_path / "app.py"
    app.write_text(text.replace(old, new) if old else text)
    settings = {"workload.1.app": str(app), "workload.1.count": 2, "topics.0.partitions": 6}
    return kafkasim.run(SCENARIO, seed=1, settings=settings)


def failures(outcome: kafkasim.Outcome) -> set[str]:
    rows = outcome.facts("ApplicationFailed").to_pylist()
    return {f"{row['exception']}: {row['reason']}" for row in rows}


def test_an_assignor_decides_who_reads_what(tmp_path: Path) -> None:
    outcome = run(tmp_path)
    assert (outcome.verdict, failures(outcome)) == ("pass", set()), outcome.explain()
    last = {row["node"]: row["assignment"] for row in outcome.facts("ConsumerAssigned").to_pylist()}
    assert sorted(last.values(), key=len) == [["orders-5"], [f"orders-{n}" for n in range(5)]]
    assert outcome.facts("GroupState").to_pylist()[-1]["protocol"] == "own"


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "return [numbers[:-1], numbers[-1:]][place]",
            "return numbers[place // 0]",
            f"ZeroDivisionError: own.assign() (app.py:{LINE}): integer division or modulo by zero",
        ),
        (
            "return [numbers[:-1], numbers[-1:]][place]",
            "assert place > 7, place",
            f"AssertionError: own.assign() (app.py:{LINE}): 0",
        ),
        (
            "return [numbers[:-1], numbers[-1:]][place]",
            "raise SystemExit(place)",
            f"SystemExit: own.assign() (app.py:{LINE}): 0",
        ),
        (
            "return [numbers[:-1], numbers[-1:]][place]",
            "import threading",
            (f"NotSimulated: own.assign() (app.py:{LINE}): an application cannot use the module"
            f" threading (app.py:{LINE}): it leaves the simulation"),
        ),
        (
            "sorted(cluster.partitions_for_topic",
            "cluster.brokers() or (cluster.partitions_for_topic",
            ("NotSimulated: own.assign() (app.py:24): an application cannot use"
            " ClusterMetadata.brokers() (app.py:24): it is not simulated; an assignor is told of"
            " topics and partitions"),
        ),
        (
            'return ConsumerProtocolMemberAssignment(0, topics, b"")',
            "return topics",
            ("ASSIGNOR: own.assign() returned [('orders', [0, 1, 2, 3, 4])], no"
            " ConsumerProtocolMemberAssignment"),
        ),
        (
            'return ConsumerProtocolMemberAssignment(0, topics, b"")',
            "return ConsumerProtocolMemberAssignment(0, topics, 'text')",
            ("ASSIGNOR: own.assign() returned ConsumerProtocolMemberAssignment(version=0,"
            " assignment=[('orders', [0, 1, 2, 3, 4])], user_data='text'), no"
            " ConsumerProtocolMemberAssignment"),
        ),
        (
            'list(topics), b"3"',
            "['orders', 'more'], b''",
            ("ASSIGNOR: own.metadata() subscribes to ['orders', 'more'], the consumer to"
            " ['orders']"),
        ),
        (
            "return ConsumerProtocolMemberMetadata(",
            "(",
            "ASSIGNOR: own.metadata() returned None, no ConsumerProtocolMemberMetadata",
        ),
        (
            "cls.told.append(assignment.partitions())",
            "raise LookupError('no store')",
            "LookupError: own.on_assignment() (app.py:20): no store",
        ),
    ],
)  # fmt: skip
def test_what_an_assignor_does_wrong_fails_the_call_that_polls(
    tmp_path: Path, old: str, new: str, said: str
) -> None:
    assert failures(run(tmp_path, old, new)) == {f"KafkaError: {said}"}


TELLS = "assert assignment.user_data == b'owns %d' % len(assignment.partitions())"


@pytest.mark.parametrize(("says", "failed"), [("b'owns %d' % len(numbers)", 0), ("b''", 2)])
def test_what_the_leader_says_comes_to_each_member(tmp_path: Path, says: str, failed: int) -> None:
    app = tmp_path / "app.py"
    text = dedent(APP).replace("cls.told.append(assignment.partitions())", TELLS)
    app.write_text(text.replace('(0, topics, b"")', f"(0, topics, {says})"))
    settings = {"workload.1.app": str(app), "workload.1.count": 2, "topics.0.partitions": 6}
    outcome = kafkasim.run(SCENARIO, seed=1, settings=settings)
    assert outcome.facts("ApplicationFailed").num_rows == failed, failures(outcome)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("(int,)", "int is no assignor: it has no name and no assign and no metadata and no on_"),
        ("(AbstractPartitionAssignor,)", "AbstractPartitionAssignor.name is no text: <property"),
        ("7", "7 is no list of assignors"),
        ("['stickiest']", "partition.assignment.strategy: 'stickiest' is not one of range,"),
    ],
)
def test_what_is_no_assignor_is_refused(tmp_path: Path, given: str, said: str) -> None:
    (told,) = failures(run(tmp_path, "(Own,)", given))
    assert said in told, told
    assert told.startswith("ValueError"), told


@pytest.mark.parametrize("given", ["(RoundRobinPartitionAssignor,)", "['roundrobin']"])
def test_an_assignor_of_kafka_is_chosen_by_its_class_or_name(tmp_path: Path, given: str) -> None:
    outcome = run(tmp_path, "(Own,)", given)
    assert outcome.facts("GroupState").to_pylist()[-1]["protocol"] == "roundrobin"


def test_assignors_of_kafka_can_be_called() -> None:
    cluster = ClusterMetadata({"a": 3, "b": 2, "__offsets": 1})
    assert cluster.topics() == {"a", "b"}
    assert cluster.partitions_for_topic("c") is None
    members = {
        name: ConsumerProtocolMemberMetadata(0, topics, b"")
        for name, topics in {"m1": ["a"], "m2": ["a", "b"]}.items()
    }
    found = {
        each.name: {name: made.partitions() for name, made in each.assign(cluster, members).items()}
        for each in (RangePartitionAssignor, RoundRobinPartitionAssignor)
    }
    assert found == {
        "range": {"m1": [("a", 0), ("a", 1)], "m2": [("a", 2), ("b", 0), ("b", 1)]},
        "roundrobin": {"m1": [("a", 0), ("a", 2)], "m2": [("a", 1), ("b", 0), ("b", 1)]},
    }
