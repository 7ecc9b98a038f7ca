"""The parts of a partition and of a fetcher, each without its owner."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from kafkasim.model.effects import Post, Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterPartitionData,
    AlterPartitionRequest,
    AlterPartitionResponse,
    FetchPartition,
    FetchRequest,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.replication.alter_partition import AlterPartitionManager
from kafkasim.model.replication.partitions.isr import committed
from kafkasim.model.replication.partitions.leader_state import LeaderState
from kafkasim.model.replication.partitions.partition import FollowerState
from kafkasim.model.replication.partitions.role_locks import RoleLocks
from kafkasim.model.timers import Timers
from tests.model.replica_harness import TP, Trio, registration

OTHER = TopicPartition("u", 0)


def request(*partitions: TopicPartition) -> Request:
    asked = tuple(FetchPartition(tp, "", 0, 0, 1, -1, 1) for tp in partitions)
    return Request(1, 1, FetchRequest(-1, -1, 0, 1, 1, 0, asked), 0)


def test_requests_of_a_locked_partition_are_served_when_it_is_released() -> None:
    out: list[Any] = []
    served: list[Request] = []
    locks = RoleLocks(out, lambda item, _now: served.append(item))
    locks.acquire(TP, "holder")
    touching, session, other = request(OTHER, TP), request(), request(OTHER)
    assert [locks.put_aside(touching), locks.put_aside(session, (TP,)), locks.put_aside(other)] == [
        True,
        True,
        False,
    ]
    locks.release(OTHER)
    assert out == []
    locks.release(TP)
    assert [type(effect) for effect in out] == [Post, Post]
    for effect in out:
        effect.handler(effect.message, 0)
    assert served == [touching, session]
    assert locks.held == {}


def test_a_proposal_is_committed_or_falls_back_to_the_very_state_before() -> None:
    first = committed((1, 2))
    expanding = first.expand(3)
    assert (expanding.isr, expanding.maximal, expanding.proposed) == ((1, 2), (1, 2, 3), (1, 2, 3))
    shrinking = first.shrink((2,))
    assert (shrinking.isr, shrinking.maximal, shrinking.proposed) == ((1, 2), (1, 2), (1,))
    assert [state.in_flight for state in (first, expanding, shrinking)] == [False, True, True]
    assert expanding.last is shrinking.last is first


def test_a_partition_has_one_role_and_nothing_of_the_other() -> None:
    trio = Trio()
    node = trio.nodes[1]
    trio.tell(1)
    partition = node.partition
    led = partition.role
    assert isinstance(led, LeaderState)
    assert (partition.leadership, partition.leader_id) == (led, 1)
    trio.elect(2)
    trio.tell(1)
    assert partition.role == FollowerState(2, 2, 1, (1, 2, 3))
    assert (partition.leadership, partition.remote(2)) == (None, None)
    assert (led.leading, led.isr) == (False, ())
    trio.elect(1)
    trio.tell(1)
    assert partition.role is not led
    assert [remote.leo for remote in node.leader.remotes.values()] == [-1, -1]


def test_an_answer_of_the_controller_to_a_role_that_ended_changes_nothing() -> None:
    trio = Trio(replica_lag_time_max_ms=1000)
    trio.tell()
    trio.produce(1, 7)
    trio.now += 5_000_000
    trio.shrink(1)
    trio.elect(2)
    trio.tell(1)
    before = len(trio.facts)
    trio.registration = registration(1, 1, 0)  # the controller served the proposal before
    trio.controller(1)
    assert trio.nodes[1].partition.role == FollowerState(2, 2, 1, (1, 2, 3))
    assert len(trio.facts) == before


def test_a_deletion_that_waits_ends_with_the_leadership() -> None:
    trio = Trio()
    trio.tell(1)
    partition = trio.nodes[1].partition
    seen: list[TopicPartition] = []

    class Waiter:
        def try_complete(self, tp: TopicPartition, now: int) -> None:
            seen.append(tp)

        def fail(self, tp: TopicPartition, error: Errors, now: int) -> None:
            raise AssertionError(error)

    partition.delayed.deletes[Waiter()] = None
    partition.delayed.high_watermark_changed(0)
    partition.delayed.leadership_ended(Errors.NOT_LEADER_OR_FOLLOWER, 0)
    assert seen == [TP, TP]


def test_a_new_proposal_does_not_wait_for_the_pause_after_an_error() -> None:
    """AlterPartitionManager.submit asks for no more than that no request is in flight."""
    sent: list[tuple[tuple[int, ...], Any]] = []

    def send(message: AlterPartitionRequest, _now: int, done: Any) -> None:
        sent.append((tuple(data.partition for data in message.partitions), done))

    process: Any = SimpleNamespace(timers=Timers(), broker_id=1, broker_epoch=5)
    manager = AlterPartitionManager(process, SimpleNamespace(send=send))
    leader: Any = None
    for number in (0, 1):
        data = AlterPartitionData("T", number, 0, ((1, 5),), 0)
        assert manager.submit(data, leader, committed((1,)), number)
        if number == 0:
            sent[0][1](AlterPartitionResponse(Errors.STALE_BROKER_EPOCH, ()), 0)
    assert [partitions for partitions, _ in sent] == [(0,), (0, 1)]
    sent[1][1](AlterPartitionResponse(Errors.STALE_BROKER_EPOCH, ()), 2)
    due = process.timers.pop_due(50_000)
    process.timers.fire(due[0], due[1], 50_000)
    assert [partitions for partitions, _ in sent] == [(0,), (0, 1), (0, 1)]
