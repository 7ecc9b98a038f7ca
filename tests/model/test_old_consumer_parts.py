"""The parts of the old consumer: assignors, settings, streams."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.client.legacy.assignors import (
    ASSIGNORS,
    AssignmentContext,
    assign_range,
    assign_round_robin,
)
from kafkasim.model.client.legacy.streams import Chunk, PartitionTopicInfo, Stream
from kafkasim.model.config import ConfigError, LegacyConsumerConfig
from kafkasim.model.errors import NONE
from kafkasim.model.messages import FetchPartitionResponse
from kafkasim.model.records import Record, RecordBatch, TopicPartition


def context(consumer, subscriptions, partitions):
    return AssignmentContext(
        consumer, subscriptions[consumer], subscriptions, partitions, tuple(subscriptions), 1
    )


def test_range_is_that_of_kafkas_example() -> None:
    """Two consumers with two streams each, and five partitions (RangeAssignor's scaladoc)."""
    both = {"C1": {"t": 2}, "C2": {"t": 2}}
    assigned = [assign_range(context(each, both, {"t": (0, 1, 2, 3, 4)})) for each in both]
    t = [TopicPartition("t", number) for number in range(5)]
    assert assigned == [
        {t[0]: "C1-0", t[1]: "C1-0", t[2]: "C1-1"},
        {t[3]: "C2-0", t[4]: "C2-1"},
    ]


def test_round_robin_deals_by_the_hash_of_the_names() -> None:
    """A consumer that does not read a topic loses its turn (KAFKA-2434): t0 t1 t2 u0 u1."""
    both = {"C1": {"t": 1, "u": 1}, "C2": {"t": 1}}
    partitions = {"t": (0, 1, 2), "u": (0, 1)}
    assigned = [assign_round_robin(context(each, both, partitions)) for each in both]
    names = [[f"{tp.topic}{tp.partition}" for tp in each] for each in assigned]
    assert names == [["t0", "t2", "u0", "u1"], ["t1"]]


def test_a_consumer_that_is_not_registered_fails_to_assign() -> None:
    alone = AssignmentContext("C1", {"t": 1}, {}, {"t": (0,)}, (), 1)
    with pytest.raises(KafkaError, match="NO_CONSUMER"):
        assign_range(alone)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    st.sampled_from(sorted(ASSIGNORS)),
    st.dictionaries(
        st.sampled_from(("A", "B", "B-0", "C")),
        st.dictionaries(st.sampled_from(("t", "u")), st.integers(1, 2), min_size=1),
        min_size=1,
    ),
    st.integers(0, 7),
)
def test_all_together_have_each_partition_once(strategy, subscriptions, size) -> None:
    topics = {topic for each in subscriptions.values() for topic in each}
    partitions = {topic: tuple(range(size)) for topic in sorted(topics)}
    shares = [
        ASSIGNORS[strategy](context(consumer, subscriptions, partitions))
        for consumer in subscriptions
    ]
    dealt = sorted([tp for share in shares for tp in share])
    assert dealt == sorted([TopicPartition(t, n) for t in partitions for n in partitions[t]])


def test_defaults_follow_from_other_settings() -> None:
    config = LegacyConsumerConfig.from_properties(
        {"group.id": "g", "zookeeper.session.timeout.ms": 400, "zookeeper.sync.time.ms": 30}
    )
    derived = (
        config.client_id,
        config.zookeeper_connection_timeout_ms,
        config.rebalance_backoff_ms,
    )
    assert derived == ("g", 400, 30)
    assert LegacyConsumerConfig().rebalance_backoff_ms == 2000


@pytest.mark.parametrize(
    ("key", "given_"),
    [
        ("auto.offset.reset", "earliest"),
        ("offsets.storage", "kafka"),
        ("partition.assignment.strategy", "sticky"),
        ("enable.auto.commit", True),
        ("fetch.wait.max.ms", 40_000),
    ],
)
def test_a_setting_of_the_java_consumer_is_refused(key: str, given_: object) -> None:
    with pytest.raises(ConfigError):
        LegacyConsumerConfig.from_properties({key: given_})


T0 = TopicPartition("t", 0)


def batch(base: int, values: tuple[int, ...], control: bool = False) -> RecordBatch:
    records = tuple([Record(None, value, 10, 0) for value in values])
    last = base + len(values) - 1
    return RecordBatch(base, last, 0, -1, -1, -1, records, 100, 0, control=control)


def chunk(info: PartitionTopicInfo, *batches: object) -> Chunk:
    return Chunk(info, FetchPartitionResponse(T0, NONE, 9, 9, 0, batches))  # type: ignore[arg-type]


def offsets(read: Chunk) -> list[int]:
    found = []
    while (record := read.next()) is not None:
        found.append(record[0])
    return found


def test_a_chunk_begins_at_the_consumed_offset_and_passes_over_markers() -> None:
    info = PartitionTopicInfo(T0, 2)
    read = chunk(info, batch(0, (10, 11, 12, 13)), batch(4, (0,), control=True), batch(5, (15,)))
    assert (offsets(read), read.end) == ([2, 3, 5], 6)


def test_a_corrupt_batch_fails_the_iterator_behind_the_records_before_it() -> None:
    read = chunk(PartitionTopicInfo(T0, 0), batch(0, (10,)), object())
    assert read.next() is not None
    with pytest.raises(KafkaError, match="CORRUPT_MESSAGE"):
        read.next()


def given_after_a_reset(taken: int) -> list[int]:
    """Return the offsets that an application gets which took some of 0 to 3 before a reset to 9.

    What was fetched before is two chunks, 0 to 3 and 4 to 5.
    """
    info = PartitionTopicInfo(T0, 0)
    stream = Stream(None, 3)  # type: ignore[arg-type]  # nobody waits for room
    for fetched in ((batch(0, (10, 11)), batch(2, (12, 13))), (batch(4, (14, 15)),)):
        read = chunk(info, *fetched)
        assert list(stream.put(read)) == []
        info.fetched_offset = read.end
    got = [stream.take(0) for _ in range(taken)]
    info.reset(9)
    assert list(stream.put(chunk(info, batch(9, (19,))))) == []
    while (record := stream.take(0)) is not None:
        got.append(record)
    return [record[0] for _, record in got if record is not None]


@pytest.mark.parametrize(
    ("taken", "offsets"),
    [(1, [0, 3, 4, 5, 9]), (3, [0, 1, 2, 3, 4, 5, 9]), (4, [0, 1, 2, 3, 5, 9])],
)
def test_a_reset_leaves_the_last_record_of_the_chunk_that_is_read(
    taken: int, offsets: list[int]
) -> None:
    """The first chunk of which a record is asked for; the next is read in full, if it was not that
    one (ConsumerIterator.makeNext)."""
    assert given_after_a_reset(taken) == offsets
