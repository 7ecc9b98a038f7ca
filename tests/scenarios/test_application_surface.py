"""A user's application has aiokafka's methods: what they do, and what is said of those left out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import kafkasim
from tests.scenarios.test_application_consumer import run

ROOT = Path(__file__).parents[2]

READING = """
    import asyncio
    from aiokafka import AIOKafkaConsumer, TopicPartition
    from aiokafka.errors import ConsumerStoppedError, IllegalStateError

    ZERO, ONE, NONE = (TopicPartition("orders", number) for number in (0, 1, 7))

    async def main():
        orders = AIOKafkaConsumer("orders")
        async with orders:
            await steps(orders)
        await asyncio.sleep(100)

    async def steps(orders):
"""


def steps(tmp_path: Path, *lines: str) -> kafkasim.Outcome:
    return run(tmp_path, "\n".join([READING, *["        " + line for line in lines]]))


def failures(outcome: kafkasim.Outcome) -> list[str]:
    rows = outcome.facts("ApplicationFailed").to_pylist()
    return [f"{row['exception']}: {row['reason']}" for row in rows]


def test_records_of_some_partitions_are_asked_for(tmp_path: Path) -> None:
    outcome = steps(
        tmp_path,
        "first = [await orders.getone(ONE) for _ in range(3)]",
        "assert [(each.partition, each.offset) for each in first] == [(1, 0), (1, 1), (1, 2)]",
        "batches = await orders.getmany(ZERO, timeout_ms=500, max_records=2)",
        "assert [each.offset for each in batches[ZERO]] == [0, 1] and len(batches) == 1, batches",
        "rest = await orders.getmany(timeout_ms=500)",
        "while len(rest) < 2:",
        "    rest.update(await orders.getmany(timeout_ms=500))",
        "assert (rest[ZERO][0].offset, rest[ONE][0].offset) == (2, 3), rest",
    )
    assert failures(outcome) == []


def test_positions_are_looked_up_and_gone_back_to(tmp_path: Path) -> None:
    outcome = steps(
        tmp_path,
        "assert orders.subscription() == {'orders'}",
        "await orders.getone()",
        "assert await orders.beginning_offsets([ZERO, ONE]) == {ZERO: 0, ONE: 0}",
        "ends = await orders.end_offsets([ZERO, ONE])",
        "assert min(ends.values()) > 4 and sum(ends.values()) == 40, ends",
        "await orders.commit({ZERO: 3})",
        "while not (await orders.getmany(ZERO, timeout_ms=500)): pass",
        "assert await orders.seek_to_committed() == {ZERO: 3, ONE: None}",
        "assert (await orders.getone(ZERO)).offset == 3",
    )
    assert failures(outcome) == []


@pytest.mark.parametrize("call", ["seek(NONE, 1)", "pause(NONE)", "resume(ZERO, NONE)"])
def test_a_partition_that_is_not_assigned_is_named(tmp_path: Path, call: str) -> None:
    outcome = steps(tmp_path, "await orders.getone()", f"orders.{call}")
    assert failures(outcome) == [
        "IllegalStateError: no current assignment for partition ('orders', 7)"
    ]


def test_a_stop_by_another_task_ends_the_loop(tmp_path: Path) -> None:
    outcome = steps(
        tmp_path,
        "async def later():",
        "    await asyncio.sleep(1)",
        "    await orders.stop()",
        "stopping = asyncio.create_task(later())",
        "offsets = [order.offset async for order in orders]",
        "assert len(offsets) == 40",
        "await stopping",
        "try:",
        "    await orders.getmany(timeout_ms=100)",
        "except ConsumerStoppedError:",
        "    return",
        "raise AssertionError('a consumer that is stopped returned records')",
    )
    assert failures(outcome) == []


def test_auto_commit_does_not_pass_over_records_of_a_paused_partition(tmp_path: Path) -> None:
    """The poll() has returned them, and the application has not got them."""
    outcome = run(
        tmp_path,
        """
        import asyncio
        from aiokafka import AIOKafkaConsumer, TopicPartition

        ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)

        async def main():
            settings = {"enable_auto_commit": True, "auto_commit_interval_ms": 100}
            orders = AIOKafkaConsumer("orders", **settings)
            await orders.start()
            first = await orders.getone()
            tp = TopicPartition("orders", first.partition)
            orders.pause(tp)
            for _ in range(10):
                await orders.getmany(timeout_ms=100)
            assert await orders.committed(tp) == first.offset + 1
            orders.resume(tp)
            assert (await orders.getone(tp)).offset == first.offset + 1
            await asyncio.sleep(100)
        """,
    )
    assert failures(outcome) == []


CLASSIC: dict[str, str] = {}
KIP_848 = {"group_protocol": "consumer"}
STATIC = {"group_instance_id": "desk-1"}


@pytest.mark.parametrize(
    ("settings", "leaves"), [(CLASSIC, True), (KIP_848, True), (STATIC, False)]
)
def test_a_consumer_that_unsubscribes_leaves_and_may_join_again(
    tmp_path: Path, settings: dict[str, str], leaves: bool
) -> None:
    """A static member of the classic protocol keeps its place, as with aiokafka and Java."""
    app = """
        import asyncio
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

        told = []

        class Listener(ConsumerRebalanceListener):
            def on_partitions_revoked(self, revoked): told.append(("revoked", len(revoked)))
            def on_partitions_assigned(self, assigned): told.append(("assigned", len(assigned)))

        async def main():
            orders = AIOKafkaConsumer(auto_offset_reset="earliest", **SETTINGS)
            orders.subscribe(["orders"], listener=Listener())
            async with orders:
                first = await orders.getone()
                orders.unsubscribe()
                assert (orders.assignment(), orders.subscription()) == (set(), set())
                assert await orders.getmany(timeout_ms=2000) == {}
                orders.subscribe(["orders"])
                assert (await orders.getone()).offset == 0
                assert told == [("assigned", 2)], told
                await asyncio.sleep(100)
    """
    outcome = run(tmp_path, app.replace("SETTINGS", repr(settings)))
    assert failures(outcome) == []
    reasons = [row["reason"] for row in outcome.facts("GroupState").to_pylist()]
    left = [each for each in reasons if "unsubscribed" in each or each.endswith("epoch -1")]
    assert (left != []) == leaves, left


def test_what_fetches_and_metadata_told_is_known_without_a_call(tmp_path: Path) -> None:
    outcome = steps(
        tmp_path,
        "assert orders.partitions_for_topic('orders') == {0, 1}",
        "assert orders.partitions_for_topic('receipts') is None",
        "assert await orders.topics() == {'orders'}, await orders.topics()",
        "import time",
        "started = int(time.time() * 1000)",
        "await orders.getmany(ZERO, timeout_ms=5000)",
        "await asyncio.sleep(4)",
        "await orders.getmany(timeout_ms=500)",
        "found = orders.highwater(ZERO), orders.highwater(ONE)",
        "assert sum(found) == 40, found",
        "assert orders.last_stable_offset(ZERO) == -1",
        "assert abs(orders.last_poll_timestamp(ZERO) - started) < 10_000",
        "orders.highwater(NONE)",
    )
    assert failures(outcome) == [
        "IllegalStateError: no current assignment for partition ('orders', 7)"
    ]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "import aiokafka.coordinator.assignors.sticky",
            (
                "the module aiokafka.coordinator.assignors.sticky ({}):"
                ' partition_assignment_strategy=["sticky"] names it'
            ),
        ),
        (
            "import aiokafka.util",
            (
                "the module aiokafka.util ({}): there are aiokafka, aiokafka.abc, aiokafka.errors,"
                " aiokafka.structs, aiokafka.helpers, aiokafka.cluster, aiokafka.coordinator,"
                " aiokafka.coordinator.protocol, aiokafka.coordinator.assignors,"
                " aiokafka.coordinator.assignors.abstract,"
                " aiokafka.coordinator.assignors.roundrobin,"
                " aiokafka.coordinator.assignors.range, aiokafka.partitioner, aiokafka.consumer,"
                " aiokafka.consumer.consumer, aiokafka.producer, aiokafka.producer.producer,"
                " aiokafka.admin, aiokafka.admin.client,"
                " aiokafka.admin.config_resource, aiokafka.admin.new_partitions,"
                " aiokafka.admin.new_topic, aiokafka.admin.records_to_delete"
            ),
        ),
        (
            "from confluent_kafka import Consumer",
            "the module confluent_kafka ({}): the simulated clients have aiokafka's names",
        ),
    ],
)
def test_what_is_left_out_is_named_with_what_there_is_instead(
    tmp_path: Path, line: str, said: str
) -> None:
    said = said.format("app.py:16")
    assert failures(steps(tmp_path, line)) == [f"NotSimulated: an application cannot use {said}"]


def test_partitions_come_in_one_order_whatever_python_hashes(tmp_path: Path) -> None:
    app = tmp_path / "app.py"
    app.write_text(
        """
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.abc import ConsumerRebalanceListener

class Listener(ConsumerRebalanceListener):
    def on_partitions_assigned(self, assigned):
        self.assigned = assigned

async def main():
    orders, listener = AIOKafkaConsumer(), Listener()
    orders.subscribe(["orders"], listener=listener)
    await orders.start()
    while len(orders.assignment()) < 8:
        await orders.getmany(timeout_ms=300)
    orders.pause(*orders.assignment())
    some = orders.assignment() - {TopicPartition("orders", 3)}
    told = [list(each) for each in (orders.assignment(), orders.paused(), some, listener.assigned)]
    raise RuntimeError([[tp.partition for tp in each] for each in told])
"""
    )
    code = (
        "import kafkasim, sys; from tests.scenarios.test_application_consumer import SCENARIO;"
        "settings = {'workload.1.app': sys.argv[1], 'topics.0.partitions': 8};"
        "outcome = kafkasim.run(SCENARIO, seed=1, settings=settings);"
        "print(outcome.facts('ApplicationFailed').to_pylist()[0]['reason'])"
    )
    environment = {**os.environ, "PYTHONHASHSEED": "5",
                   "PYTHONPATH": f"{ROOT / '.package'}:{ROOT}"}  # fmt: skip
    told = subprocess.run(
        [sys.executable, "-c", code, str(app)],
        env=environment, check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    every = list(range(8))
    assert told == str([every, every, [0, 1, 2, 4, 5, 6, 7], every])


def test_arguments_without_an_effect_are_told(tmp_path: Path) -> None:
    outcome = steps(
        tmp_path,
        "AIOKafkaConsumer(bootstrap_servers='kafka:9093', check_crcs=True, api_version='auto',",
        "                 security_protocol='SASL_SSL', sasl_plain_username='app')",
    )
    assert failures(outcome) == []
    told = "arguments of clients without an effect in a simulated cluster:"
    (line,) = [each for each in outcome.result.remarks if each.startswith(told)]
    assert line == f"{told} api_version, security_protocol, sasl_plain_username"


@pytest.mark.parametrize(
    ("argument", "why"),
    [
        ("session_timeout_ms=0", "session_timeout_ms: 0 is below 1"),
        ("check_crcs=False", "check_crcs: False would have no effect: a damaged batch has no"),
        ("sesion_timeout_ms=9", "sesion_timeout_ms: unknown argument; did you mean session_time"),
        ("sasl_mechanisim='PLAIN'", "sasl_mechanisim: unknown argument; "),
        ("rebalance_timeout_ms=9", "rebalance_timeout_ms: as in Kafka's consumer, max_poll_interv"),
    ],
)
def test_a_refused_argument_has_the_name_that_the_application_gave_it(
    tmp_path: Path, argument: str, why: str
) -> None:
    (found,) = failures(steps(tmp_path, f"AIOKafkaConsumer({argument})"))
    assert found.startswith(f"ValueError: AIOKafkaConsumer: {why}")
