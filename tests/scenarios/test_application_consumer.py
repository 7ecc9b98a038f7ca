"""A user's consumer: what it reads, commits and is told; and files, which it does not have."""

from __future__ import annotations

from pathlib import Path
from textwrap import dedent

import kafkasim

SCENARIO = {
    "name": "own-consumer",
    "claim": "An application has the consumer's calls.",
    "duration": "5s",
    "cluster": {
        "brokers": 1,
        "controllers": 1,
        "config": {"offsets.topic.replication.factor": 1, "group.initial.rebalance.delay.ms": 0,
                   "offsets.topic.num.partitions": 1},
    },
    "topics": [{"name": "orders", "partitions": 2}],
    "workload": [
        {"kind": "producer", "rate": "40/s", "stop": "1s", "keys": "uniform:9",
         "value": "order {number}", "headers": {"of": "{producer}"}},
        {"kind": "consumer-group", "start": "1500ms",
         "config": {"auto.offset.reset": "earliest", "enable.auto.commit": False}},
    ],
    "expect": {"permits": ["duplicate", "skipped-by-commit"]},
}  # fmt: skip


def run(tmp_path: Path, body: str) -> kafkasim.Outcome:
    path = tmp_path / "app.py"
    path.write_text(dedent(body))
    return kafkasim.run(SCENARIO, seed=1, settings={"workload.1.app": str(path)})


def test_an_application_steers_what_it_reads(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        import asyncio
        from aiokafka import AIOKafkaConsumer, TopicPartition
        from aiokafka.errors import WakeupError

        ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)

        async def all_of(orders):
            found = []
            while batches := await orders.getmany(timeout_ms=300):
                for batch in batches.values():
                    found += batch
            return found

        async def main():
            orders = AIOKafkaConsumer()
            orders.subscribe(pattern="ord.*")
            await orders.start()
            await orders.getone()
            orders.pause(ZERO)
            assert orders.paused() == {ZERO}
            ones = await all_of(orders)
            assert {order.partition for order in ones} == {1}, ones
            first = min(ones, key=lambda order: order.offset)
            assert first.value.startswith(b"order ") and first.headers == (("of", b"producer-1"),)
            orders.resume(ZERO)
            zeros = await all_of(orders)
            assert {order.partition for order in zeros} == {0}, zeros
            middle = zeros[len(zeros) // 2]
            found = await orders.offsets_for_times({ZERO: middle.timestamp, ONE: 1 << 60})
            assert found == {ZERO: (middle.offset, middle.timestamp), ONE: None}, found
            await orders.seek_to_beginning()
            again = await all_of(orders)
            assert min(order.offset for order in again) == 0, again
            assert len(again) == 1 + len(ones) + len(zeros), (len(again), len(ones), len(zeros))
            await orders.seek_to_end(ZERO)
            assert await all_of(orders) == []
            asyncio.get_running_loop().call_later(0.05, orders.wakeup)
            try:
                await orders.getone()
            except WakeupError:
                await asyncio.sleep(100)
        """,
    )
    assert outcome.facts("ApplicationFailed").num_rows == 0, outcome.explain()


def test_an_application_commits_by_partition_and_hears_of_the_close(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        import asyncio
        from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, TopicPartition

        ZERO, ONE = TopicPartition("orders", 0), TopicPartition("orders", 1)

        class Listener(ConsumerRebalanceListener):
            def __init__(self, orders):
                self.orders, self.told = orders, []

            async def on_partitions_revoked(self, revoked):
                self.told.append(("revoked", sorted(revoked)))
                await self.orders.commit({ZERO: (3, "at the close")})

            def on_partitions_assigned(self, assigned):
                self.told.append(("assigned", sorted(assigned)))

        async def main():
            orders = AIOKafkaConsumer()
            listener = Listener(orders)
            orders.subscribe(["orders"], listener=listener)
            await orders.start()
            await orders.getone()
            await orders.commit({ZERO: (1, "by main"), ONE: 0})
            assert await orders.committed_metadata(ZERO) == (1, "by main")
            answers = []
            await orders.commit_async({ZERO: 2}, lambda offsets, error: answers.append(
                (offsets, error)))
            assert answers == []
            while not answers:
                await orders.getmany(timeout_ms=100)
            assert answers == [({ZERO: 2}, None)], answers
            await orders.stop()
            assert listener.told == [("assigned", [ZERO, ONE]), ("revoked", [ZERO, ONE])]
            reader = AIOKafkaConsumer()
            await reader.start()
            assert await reader.committed_metadata(ZERO) == (3, "at the close")
            await asyncio.sleep(100)
        """,
    )
    assert outcome.facts("ApplicationFailed").num_rows == 0, outcome.explain()


def test_files_are_refused_whichever_way_they_are_asked_for(tmp_path: Path) -> None:
    outcome = run(
        tmp_path,
        """
        import asyncio
        import gzip, io, linecache, logging, pathlib, traceback, zoneinfo

        async def main():
            for way in (
                lambda: pathlib.Path("/etc/hosts").read_text(),
                lambda: list(pathlib.Path("/").iterdir()),
                lambda: io.open("/etc/hosts"),
                lambda: gzip.open("/etc/hosts"),
                lambda: logging.FileHandler("/etc/hosts"),
            ):
                try:
                    way()
                except RuntimeError as error:
                    assert "app.py:" in str(error), error
                else:
                    raise AssertionError(way)
            assert io.BytesIO(gzip.compress(b"x")).read()
            try:
                raise ValueError("a traceback's lines are Python's own matter")
            except ValueError:
                assert "app.py" in traceback.format_exc()
            await asyncio.sleep(100)
        """,
    )
    assert outcome.facts("ApplicationFailed").num_rows == 0, outcome.explain()


def test_an_application_serializes_places_and_meets_a_record_it_cannot_read(
    tmp_path: Path,
) -> None:
    outcome = run(
        tmp_path,
        """
        import asyncio
        from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
        from aiokafka.errors import RecordDeserializationError
        from kafkasim import serializers

        ONE = TopicPartition("orders", 1)
        PAID = serializers.avro({"type": "record", "name": "Paid", "fields": [
            {"name": "order", "type": "long"}, {"name": "by", "type": "string"}]})

        async def main():
            reader = AIOKafkaConsumer(
                key_deserializer=serializers.json_text.deserializer,
                value_deserializer=PAID.deserializer)
            await reader.start()
            reader.assign([ONE])
            await reader.seek_to_end(ONE)
            await reader.getmany(timeout_ms=200)
            writer = AIOKafkaProducer(
                key_serializer=serializers.json_text.serializer,
                value_serializer=lambda value: value if isinstance(value, bytes)
                    else PAID.serializer(value),
                partitioner=lambda key, every, available: every[-1])
            async with writer:
                await writer.send("orders", {"order": 1, "by": "Zoë"}, key={"b": 2, "a": 1})
                bad = await writer.send_and_wait("orders", b"", key=3)
                await writer.send_and_wait("orders", {"order": 2, "by": "me"}, key=[4])
            assert bad.partition == 1, bad
            first = await reader.getone()
            assert (first.key, first.value) == ({"a": 1, "b": 2}, {"order": 1, "by": "Zoë"})
            for _ in range(2):
                try:
                    await reader.getmany(timeout_ms=500)
                    raise AssertionError("the record is read")
                except RecordDeserializationError as error:
                    assert (error.partition, error.offset) == (ONE, bad.offset), error
            reader.seek(ONE, bad.offset + 1)
            assert (await reader.getone()).key == [4]
            await asyncio.sleep(100)
        """,
    )
    assert outcome.facts("ApplicationFailed").num_rows == 0, outcome.explain()
