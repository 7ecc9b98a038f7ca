"""Batches that an application puts together: create_batch and send_batch of aiokafka."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

import kafkasim
from tests.scenarios.test_application_consumer import SCENARIO
from tests.scenarios.test_application_surface import failures

HEAD = """
    import asyncio
    from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
    from aiokafka.errors import IllegalOperation, KafkaError, KafkaTimeoutError

    def filled(producer, count, size=10):
        batch = producer.create_batch()
        for number in range(count):
            made = batch.append(timestamp=None, key=None, value=b"x" * size)
            assert made.offset == number and made.crc is None, made
        return batch

    async def main():
        SETTINGS = {"linger_ms": 200}
        async with AIOKafkaProducer(**SETTINGS) as producer:
            await steps(producer)
        await asyncio.sleep(100)

    async def steps(producer):
"""


ONE_BROKER = {"transaction.state.log.replication.factor": 1, "transaction.state.log.min.isr": 1}


LITTLE_MEMORY = (
    '{"max_request_size": 8000, "max_batch_size": 4000, "buffer_memory": 8000,'
    ' "max_block_ms": 300, "linger_ms": 1000}'
)


def steps(
    tmp_path: Path,
    *lines: str,
    settings: str = '{"linger_ms": 200}',
    faults: Any = (),
    topics: Any = (),
) -> kafkasim.Outcome:
    head = HEAD.replace('{"linger_ms": 200}', settings)
    path = tmp_path / "app.py"
    path.write_text(dedent("\n".join([head, *["        " + line for line in lines]])))
    data: dict[str, Any] = deepcopy(SCENARIO)
    data["topics"] += [{"name": "receipts"}, *topics]
    data["cluster"]["config"] |= ONE_BROKER
    data["workload"][1]["app"] = str(path)
    data["faults"] = list(faults)
    return kafkasim.run(data, seed=1)


def batches(outcome: kafkasim.Outcome) -> list[int]:
    """Return how many records each acknowledged batch of the application has."""
    rows = outcome.facts("Acked").to_pylist()
    return [len(row["record_ids"]) for row in rows if row["record_ids"][0] >> 32 >= 1 << 20]


def test_a_batch_travels_as_one_and_tells_its_first_offset(tmp_path: Path) -> None:
    outcome = steps(
        tmp_path,
        "first = await producer.send_batch(filled(producer, 7), 'receipts', partition=0)",
        "second = await producer.send_batch(filled(producer, 3), 'receipts', partition=0)",
        "found = [await first, await second]",
        "assert [each.offset for each in found] == [0, 7], found",
        "assert found[0].topic_partition == TopicPartition('receipts', 0)",
        "async with AIOKafkaConsumer(auto_offset_reset='earliest') as reader:",
        "    reader.assign([TopicPartition('receipts', 0)])",
        "    read = [(await reader.getone()).value for _ in range(10)]",
        "assert read == [b'x' * 10] * 10, read",
    )
    assert (failures(outcome), batches(outcome)) == ([], [7, 3])


def test_a_record_has_the_timestamp_that_the_application_gives(tmp_path: Path) -> None:
    """RecordMetadata has it, too, but of a topic whose brokers stamp the records themselves."""
    outcome = steps(
        tmp_path,
        "batch = producer.create_batch()",
        "batch.append(timestamp=5, key=None, value=b'a')",
        "batch.append(timestamp=3, key=None, value=b'b')",
        "found = [await (await producer.send_batch(batch, 'receipts', partition=0))]",
        "found.append(await producer.send_and_wait('receipts', b'c', timestamp_ms=0))",
        "found.append(await producer.send_and_wait('stamped', b'd', timestamp_ms=7))",
        "assert [each.timestamp_type for each in found] == [0, 0, 1], found",
        "assert [each.timestamp for each in found[:2]] == [5, 0], found",
        "assert found[2].timestamp > 1_500_000_000_000, found",
        "async with AIOKafkaConsumer(auto_offset_reset='earliest') as reader:",
        "    reader.assign([TopicPartition('receipts', 0), TopicPartition('stamped', 0)])",
        "    read = [await reader.getone() for _ in range(4)]",
        "times = {each.value: each.timestamp for each in read}",
        "assert times == {b'a': 5, b'b': 3, b'c': 0, b'd': found[2].timestamp}, times",
        "try: await producer.send('receipts', b'e', timestamp_ms=-1)",
        "except ValueError as error: assert 'negative' in str(error)",
        "else: raise AssertionError",
        topics=[{"name": "stamped", "config": {"message.timestamp.type": "LogAppendTime"}}],
    )
    assert failures(outcome) == []


@pytest.mark.parametrize(("close", "expected"), [("pass", [5]), ("batch.close()", [4, 1])])
def test_what_is_sent_later_joins_only_an_open_batch(
    tmp_path: Path, close: str, expected: list[int]
) -> None:
    outcome = steps(
        tmp_path,
        "batch = filled(producer, 4)",
        close,
        "done = await producer.send_batch(batch, 'receipts', partition=0)",
        "assert batch.closed() and batch.append(timestamp=None, key=b'k', value=b'v') is None",
        "later = await producer.send('receipts', b'later', partition=0)",
        "assert ((await done).offset, (await later).offset) == (0, 4)",
    )
    assert (failures(outcome), batches(outcome)) == ([], expected)


def test_a_full_batch_takes_no_record_and_counts_bytes_as_kafka_does(tmp_path: Path) -> None:
    """61 bytes of the batch's head; a record of 10 bytes without a key takes 17."""
    outcome = steps(
        tmp_path,
        "batch = filled(producer, 14)",
        "assert (batch.size(), batch.record_count()) == (61 + 14 * 17, 14), batch.size()",
        "assert not batch.closed()",
        "assert batch.append(timestamp=None, key=None, value=b'x' * 10) is None",
        "assert batch.closed() and batch.record_count() == 14",
        "large = filled(producer, 1, size=5000)",
        "await (await producer.send_batch(large, 'receipts', partition=0))",
        "nothing = await producer.send_batch(producer.create_batch(), 'receipts', partition=0)",
        "assert await nothing is None",
        settings='{"max_batch_size": 316}',
    )
    assert (failures(outcome), batches(outcome)) == ([], [1])


def test_serializers_of_the_producer_make_bytes(tmp_path: Path) -> None:
    outcome = steps(
        tmp_path,
        "batch = producer.create_batch()",
        "batch.append(timestamp=None, key=None, value='text', headers=[('a', b'1')])",
        "await (await producer.send_batch(batch, 'receipts', partition=0))",
        "async with AIOKafkaConsumer(auto_offset_reset='earliest') as reader:",
        "    reader.assign([TopicPartition('receipts', 0)])",
        "    read = await reader.getone()",
        "assert (read.value, read.headers) == (b'text', (('a', b'1'),)), read",
        settings='{"value_serializer": str.encode}',
    )
    assert failures(outcome) == []


@pytest.mark.parametrize(
    ("end", "offsets"), [("commit_transaction", [0, 1, 2]), ("abort_transaction", [])]
)
def test_a_batch_belongs_to_the_open_transaction(
    tmp_path: Path, end: str, offsets: list[int]
) -> None:
    outcome = steps(
        tmp_path,
        "try:",
        "    await producer.send_batch(filled(producer, 1), 'receipts', partition=0)",
        "    raise AssertionError('there is no transaction')",
        "except KafkaError: pass",
        "await producer.begin_transaction()",
        "await (await producer.send_batch(filled(producer, 3), 'receipts', partition=0))",
        f"await producer.{end}()",
        "settings = dict(auto_offset_reset='earliest', isolation_level='read_committed')",
        "async with AIOKafkaConsumer(**settings) as reader:",
        "    reader.assign([TopicPartition('receipts', 0)])",
        "    read = await reader.getmany(timeout_ms=2000)",
        "found = [each.offset for some in read.values() for each in some]",
        f"assert found == {offsets}, found",
        settings='{"transactional_id": "t"}',
    )
    assert failures(outcome) == []


@pytest.mark.parametrize(
    ("line", "said"),
    [
        (
            "await producer.send_batch(filled(producer, 1, 9000), 'receipts', partition=0)",
            (
                "MessageSizeTooLargeError: [Error 10] MessageSizeTooLargeError: MESSAGE_TOO_LARGE:"
                " 9072 bytes"
            ),
        ),
        (
            "await producer.send_batch(filled(producer, 1), 'receipts', partition=7)",
            "KafkaTimeoutError: TIMED_OUT: no metadata of receipts-7",
        ),
        (
            "producer.create_batch().append(timestamp=-1, key=None, value=b'v')",
            "ValueError: timestamp: -1; it must not be negative",
        ),
        (
            "producer.create_batch().append(timestamp=None, key='k', value=b'v')",
            "TypeError: key: bytes are needed, not str; give a serializer",
        ),
    ],
)
def test_what_is_wrong_with_a_batch_is_said(tmp_path: Path, line: str, said: str) -> None:
    assert failures(steps(tmp_path, line, settings=LITTLE_MEMORY)) == [said]


PAUSE = {"kind": "gc-pause", "node": "broker-1", "at": "3s", "for": "2s"}


@pytest.mark.parametrize(
    ("fault", "said"), [(None, []), (PAUSE, ["KafkaTimeoutError: BUFFER_EXHAUSTED: no memory"])]
)
def test_a_batch_waits_for_memory(
    tmp_path: Path, fault: dict[str, Any] | None, said: list[str]
) -> None:
    """There is memory for two; one that waits has those before it sent without lingering."""
    outcome = steps(
        tmp_path,
        "async def one():",
        "    return await producer.send_batch(filled(producer, 1), 'receipts', partition=0)",
        "await (await one())",
        "await asyncio.sleep(1)",
        "began = asyncio.get_running_loop().time()",
        "done = [await one() for _ in range(5)]",
        "assert asyncio.get_running_loop().time() - began < 0.2",
        "assert [(await each).offset for each in done] == [1, 2, 3, 4, 5]",
        settings=LITTLE_MEMORY,
        faults=[] if fault is None else [fault],
    )
    assert [each.partition(" for a")[0] for each in failures(outcome)] == said
