"""A stopped application closes its clients: what each of them still sends before it ends."""

from __future__ import annotations

from typing import Any

from kafkasim.model.config import ConsumerConfig, ProducerConfig
from kafkasim.model.effects import Exit
from kafkasim.model.errors import NONE
from kafkasim.model.facts import Acked
from kafkasim.model.messages import (
    LeaveGroupRequest,
    OffsetCommitRequest,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import Cluster, Harness
from tests.model.test_consumer_group import Group, polled

T0 = TopicPartition("t", 0)
EXIT = Exit("shutdown", True)


def consumer(records: int, **settings: Any) -> tuple[Harness, Group]:
    cluster = Cluster()
    group = Group(cluster, records)
    config = ConsumerConfig(group_id="g", auto_offset_reset="earliest", **settings)
    return Harness(config, cluster), group


def stop(h: Harness) -> None:
    """Send SIGTERM."""
    h.process.shutdown(h.now)
    h.drain()


def test_a_stopped_consumer_commits_leaves_and_ends() -> None:
    """ConsumerCoordinator.close: maybeAutoCommitOffsetsSync, then maybeLeaveGroup."""
    h, group = consumer(3)
    h.call("subscribe", ("t",))
    polled(h)
    assert h.result("poll", 100) == ("records", {})
    stop(h)
    h.run(100)
    (leave,) = h.cluster.requests(LeaveGroupRequest)
    assert (group.committed, leave.members[0][2]) == ({T0: 3}, "the consumer is being closed")
    assert h.of(Exit) == [EXIT]


def test_a_stopped_consumer_first_lets_the_application_handle_its_records() -> None:
    """KafkaConsumer.wakeup: the poll() under way or the next one ends; then comes close()."""
    h, group = consumer(3)
    h.call("subscribe", ("t",))
    polled(h)
    stop(h)
    h.run(1000)
    assert (group.committed, h.of(Exit)) == ({}, [])
    poll = h.call("poll", 1000)
    h.run(1000)
    assert (group.committed, h.of(Exit), poll in h.replies) == ({T0: 3}, [EXIT], False)


def test_a_poll_under_way_ends_without_a_reply() -> None:
    h, _ = consumer(0)
    h.call("subscribe", ("t",))
    polled(h, 100)
    poll = h.call("poll", 60_000)
    stop(h)
    h.run(100)
    assert (h.of(Exit), poll in h.replies) == ([EXIT], False)
    assert h.process.timers.next_deadline() is None


def test_the_close_of_a_consumer_with_assigned_partitions_commits() -> None:
    """ConsumerCoordinator.close commits whether or not the group assigned the partitions."""
    h, group = consumer(3)
    h.call("assign", (T0,))
    polled(h)
    assert h.result("close") is None
    (commit,) = h.cluster.requests(OffsetCommitRequest)
    assert (commit.generation_id, group.committed) == (-1, {T0: 3})
    assert h.cluster.requests(LeaveGroupRequest) == []


def test_without_auto_commit_nothing_is_committed_at_the_close() -> None:
    h, group = consumer(3, enable_auto_commit=False)
    h.call("assign", (T0,))
    polled(h)
    assert h.result("close") is None
    assert group.committed == {}


def test_a_stopped_producer_flushes_and_takes_no_more_records() -> None:
    """KafkaProducer.close waits for the sender to complete every batch."""
    cluster = Cluster()
    cluster.handlers[ProduceRequest] = lambda _n, m: ProduceResponse(
        tuple(ProducePartitionResponse(p.tp, NONE, 0, -1, -1) for p in m.partitions)
    )
    h = Harness(ProducerConfig(linger_ms=1000), cluster)
    h.call("send", "t", None, 1, 10, None, False)
    h.run(20)
    stop(h)
    late = h.call("send", "t", None, 2, 10, None, False)
    h.run(100)
    assert [a.record_ids for a in h.of(Acked)] == [(1,)]
    assert (h.of(Exit), late in h.replies) == ([EXIT], False)
