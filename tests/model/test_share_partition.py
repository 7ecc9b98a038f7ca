"""Weak points of share partitions that Kafka 4.2 has, too (model/KAFKA.md, 3.6)."""

from __future__ import annotations

import pytest

from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchPartitionResponse
from kafkasim.model.messages.share import ACCEPT, StateBatch
from kafkasim.model.records import Record, RecordBatch, assigned, batch_of
from kafkasim.model.replication.share.partition.states import RecordState
from kafkasim.model.replication.share.rules import ShareRules
from tests.model.test_share_partition_codes import Starting
from tests.stateful.test_share_partition_stateful import LIMIT, LOCK_MS, TP, Shares


class Before(ShareRules):
    """Kafka 4.1.0: a record whose lock expired during a write that fails stays acquired."""

    def frees_expired_on_rollback(self) -> bool:
        return False


@pytest.mark.parametrize(("rules", "next_offset"), [(ShareRules(), 0), (Before(), 4)])
def test_a_record_below_the_log_start_is_fetched_for_ever_after_a_rollback(
    rules: ShareRules, next_offset: int
) -> None:
    """Its lock expires and the log forgets it while its acceptance is written, in vain."""
    shares = Shares()
    shares.share._rules = rules
    shares.share.cache._rules = rules
    shares.fetch("a", 100, 10, 3)
    shares.acknowledge_range("a", 0, 3, ACCEPT)
    shares.wait(1000)
    shares.forget_batches(1)
    assert shares.share.cache.start_offset == 4
    shares.persister_answers(ok=False)
    for _ in range(3):
        assert shares.share.cache.next_fetch_offset() == next_offset
        shares.share.log_start_moved(shares.log_start)  # what the answer out of range leads to


def test_a_gap_below_the_log_start_is_fetched_for_ever_by_each_leader() -> None:
    """What is behind it was accepted; what was in a member's hand is lost to the log."""
    shares = Shares()
    shares.fetch("a", 100, 1, 3)
    shares.acknowledge_range("a", 4, 5, ACCEPT)
    shares.persister_answers(ok=True)
    shares.another_leader_takes_over()
    shares.forget_batches(1)
    for _ in range(3):
        assert (shares.share.cache.start_offset, shares.share.cache.next_fetch_offset()) == (4, 0)
        shares.share.log_start_moved(shares.log_start)
    shares.another_leader_takes_over()
    assert (shares.share.cache.start_offset, shares.share.cache.next_fetch_offset()) == (4, 0)
    shares.forget_batches(1)  # all that was persisted
    assert (shares.share.cache.start_offset, shares.share.cache.next_fetch_offset()) == (6, 6)


def test_what_has_expired_for_the_last_time_is_answered_as_accepted_before_it_is_written() -> None:
    """The start offset moves behind it with the write of another record (acknowledge)."""
    shares = Shares()
    for _ in range(LIMIT - 1):
        shares.fetch("a", 100, 10, 2)
        shares.wait(LOCK_MS)
        while shares.persister.waiting:
            shares.persister_answers(ok=True)
    shares.fetch("a", 100, 10, 2)
    shares.acknowledge_range("a", 0, 3, ACCEPT)
    shares.wait(LOCK_MS)
    assert shares.share.cache.start_offset == 0
    shares.persister_answers(ok=True)  # of the acceptance; those of expired locks are under way
    assert shares.share.cache.start_offset == 6
    assert shares.persister.waiting
    shares.acknowledge_range("a", 4, 5, ACCEPT)
    assert shares.answers[-1] is Errors.NONE
    shares.another_leader_takes_over()
    assert (shares.share.cache.start_offset, shares.share.cache.next_fetch_offset()) == (4, 4)


def _acquired(starting: Starting, *ranges: tuple[int, int]) -> list[tuple[int, int]]:
    """Let a member fetch; the read has these batches."""
    batches: tuple[RecordBatch, ...] = tuple([
        assigned(batch_of((Record(None, 0, 10, 0),) * (last - first + 1)), first, 0)
        for first, last in ranges
    ])  # fmt: skip
    at = starting.share.cache.next_fetch_offset()
    read = FetchPartitionResponse(TP, Errors.NONE, 99, 99, 0, batches)
    found = starting.share.acquire("a", 100, 100, at, read, 0)
    return [(each.first_offset, each.last_offset) for each in found]


def test_a_gap_of_which_the_log_has_nothing_is_fetched_for_ever() -> None:
    """The read has what is done, and ends with its segment (SharePartition.acquire)."""
    starting = Starting()
    starting.initialize()
    starting.read(Errors.NONE, 10, StateBatch(21, 30, 2, 1))
    for _ in range(3):
        assert starting.share.cache.next_fetch_offset() == 10
        assert _acquired(starting, (21, 30)) == []
    assert _acquired(starting, (21, 30), (31, 35)) == [(31, 35)]  # of one segment


def test_in_front_of_such_a_gap_the_start_offset_stays() -> None:
    """SharePartition.canMoveStartOffset: no batch is at or below it."""
    starting = Starting()
    starting.initialize()
    starting.read(Errors.NONE, 10, StateBatch(21, 30, 2, 1))
    assert _acquired(starting, (31, 35)) == [(31, 35)]
    cache = starting.share.cache
    ((_, _, acquired),) = cache.last.states()
    acquired.state = RecordState.ACKNOWLEDGED
    assert (cache.move_start(), cache.start_offset, cache.next_fetch_offset()) == (False, 10, 36)
