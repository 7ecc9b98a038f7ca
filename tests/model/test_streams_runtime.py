"""The pure parts of the Streams runtime: queues, states, user data, partition counts, metadata."""

from __future__ import annotations

import pytest

from kafkasim.model.config import ConfigError
from kafkasim.model.config.streams import streams_settings
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.assignment.info import (
    NEVER_MS,
    AssignmentInfo,
    AssignorError,
    SubscriptionInfo,
)
from kafkasim.model.streams.assignment.topics import partition_groups, repartition_counts
from kafkasim.model.streams.declared import topology_of
from kafkasim.model.streams.errors import StreamsError
from kafkasim.model.streams.records import StreamRecord, Windowed
from kafkasim.model.streams.states import THREAD_MOVES, ThreadState
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.streams.tasks.partition_group import DISABLED, Head, PartitionGroup, Queued
from kafkasim.model.streams.tasks.stream_task import decode_metadata, encode_metadata
from kafkasim.model.streams.told import told, untold

LEFT, RIGHT = TopicPartition("left", 0), TopicPartition("right", 0)


def queued(*times: int) -> list[Queued]:
    return [Queued(offset, offset, None, time) for offset, time in enumerate(times)]


def deserialized(_: TopicPartition, queued: Queued) -> StreamRecord | None:
    """A record whose id is negative is corrupt."""
    return None if queued.record_id < 0 else StreamRecord(None, queued.record_id, queued.timestamp)


def grouped(max_task_idle_ms: int) -> PartitionGroup:
    return PartitionGroup((LEFT, RIGHT), max_task_idle_ms, deserialized)


def taken(group: PartitionGroup) -> tuple[str, int]:
    found = group.take()
    assert found is not None
    queue, record = found
    return queue.tp.topic, record.timestamp


def test_the_head_with_the_smallest_timestamp_is_next() -> None:
    group = grouped(DISABLED)
    group.add(LEFT, queued(5, 1))
    group.add(RIGHT, queued(3))
    assert [taken(group) for _ in range(3)] == [("right", 3), ("left", 5), ("left", 1)]
    assert (group.stream_time, group.take()) == (5, None)


def test_heads_with_equal_timestamps_take_turns() -> None:
    """A queue is offered again behind those that it equals (PriorityQueue)."""
    group = grouped(DISABLED)
    group.add(LEFT, queued(7, 7, 7))
    group.add(RIGHT, queued(7, 7))
    assert [taken(group)[0] for _ in range(5)] == ["left", "right", "left", "right", "left"]


def test_the_last_of_corrupt_records_stands_for_them_only_at_the_end_of_a_queue() -> None:
    group = grouped(DISABLED)
    corrupt = [Queued(offset, -1, None, 5) for offset in (1, 2, 3)]
    assert group.add(LEFT, [*queued(4), *corrupt]) == 4
    assert taken(group) == ("left", 4)
    assert (group.head_offset(LEFT), len(group.queues[LEFT])) == (3, 1)
    assert group.add(LEFT, [Queued(4, 9, None, 6)]) == 2
    assert group.take() == (group.queues[LEFT], Head(3, None, -1))
    assert group.take() == (group.queues[LEFT], Head(4, StreamRecord(None, 9, 6), 6))
    assert group.stream_time == 6


def test_a_task_waits_for_a_partition_until_its_lag_is_known_to_be_zero() -> None:
    group = grouped(0)
    group.add(LEFT, queued(1))
    ready = [group.ready(0)]
    for lag in (None, 4, 0):
        group.update_lags({RIGHT: lag})
        ready.append(group.ready(0))
    assert ready == [False, False, False, True]


def test_a_task_idles_for_max_task_idle_ms_on_top() -> None:
    group = grouped(100)
    group.add(LEFT, queued(1))
    group.update_lags({RIGHT: 0})
    assert [group.ready(at) for at in (1000, 1099, 1100)] == [False, False, True]


def test_without_idling_a_task_is_always_ready() -> None:
    assert grouped(DISABLED).ready(0)


def test_a_thread_that_shuts_down_can_only_die() -> None:
    assert THREAD_MOVES[ThreadState.PENDING_SHUTDOWN] == (ThreadState.DEAD,)
    assert ThreadState.RUNNING not in THREAD_MOVES[ThreadState.PARTITIONS_REVOKED]


def test_user_data_say_what_they_were_made_of() -> None:
    sent = SubscriptionInfo("P1", {TaskId(0, 1): -2, TaskId(1, 0): 7}, 300, AssignorError.NONE)
    got = SubscriptionInfo.decode(sent.encode())
    assert (got.process_id, got.offset_sums, got.unique) == ("P1", sent.offset_sums, 300 & 0xFF)
    given = AssignmentInfo([TaskId(0, 1)], {TaskId(1, 0): [LEFT]}, NEVER_MS, AssignorError.NONE)
    back = AssignmentInfo.decode(given.encode())
    assert (back.active, back.standby, back.next_rebalance_ms) == (
        given.active, given.standby, NEVER_MS,
    )  # fmt: skip


def test_partition_times_travel_with_offsets() -> None:
    assert decode_metadata(encode_metadata(17, {"a": 3})) == (17, {"a": 3})
    assert decode_metadata("") == (-1, {})


@pytest.mark.parametrize("data", [None, 3, "x", [1, "a"], Windowed("k", 0, 5), b"ab"])
def test_a_fact_tells_keys_and_values_with_their_types(data: object) -> None:
    expected = data.hex() if isinstance(data, bytes) else data
    assert (untold(told(data)), type(untold(told(data)))) == (expected, type(expected))


REKEYED = [
    {"stream": "in", "steps": [
        {"select-key": "value"}, "group-by-key", "count", "to-stream", {"to": "out"}]},
]  # fmt: skip


def test_a_repartition_topic_has_as_many_partitions_as_what_feeds_it() -> None:
    topology = topology_of(REKEYED)
    subtopologies = topology.subtopologies("app")
    found = repartition_counts(subtopologies, topology.copartition_groups("app"), {"in": 3})
    assert list(found.values()) == [3]
    tasks = partition_groups(subtopologies, {"in": 3, **found})
    assert sorted(tasks) == [TaskId(s, p) for s in range(2) for p in range(3)]


JOINED = [
    {"stream": "a", "as": "a", "steps": [{"filter": "True"}]},
    {"stream": "b", "steps": [{"join": "a", "value": "left", "within": "1s"}, {"to": "out"}]},
]


def test_topics_of_a_join_must_have_equally_many_partitions() -> None:
    topology = topology_of(JOINED)
    groups = topology.copartition_groups("app")
    with pytest.raises(StreamsError, match="not co-partitioned: a has 3, b has 4"):
        repartition_counts(topology.subtopologies("app"), groups, {"a": 3, "b": 4})


def test_settings_go_to_the_clients_that_know_them() -> None:
    found = streams_settings(
        {
            "application.id": "app", "processing.guarantee": "exactly_once_v2",
            "session.timeout.ms": 9000, "restore.consumer.max.poll.records": 10,
        }
    )  # fmt: skip
    assert found.streams.commit_interval_ms == 100
    assert (found.consumer["session.timeout.ms"], found.restore["max.poll.records"]) == (9000, 10)
    assert (found.consumer["max.poll.records"], found.producer["linger.ms"]) == (1000, 100)
    with pytest.raises(ConfigError, match=r"num\.stream\.thread"):
        streams_settings({"application.id": "app", "num.stream.thread": 2})
