"""Weak points of share partitions that Kafka 4.2 has, too (model/KAFKA.md, 3.6)."""

from __future__ import annotations

import pytest

from kafkasim.model.errors import Errors
from kafkasim.model.facts import ShareStartFailed
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


def _between_batches() -> Shares:
    """The log starts at 14, behind a batch of which a part was accepted; 16 and 17 are acquired."""
    shares = Shares()
    shares.fetch("a", 100, 20, 5)
    shares.acknowledge_range("a", 10, 11, ACCEPT)
    shares.persister_answers(ok=True)
    shares.produce([2, 1], 2)
    shares.forget_batches(5)
    assert shares.share.cache.start_offset == 14
    shares.fetch("a", 100, 2, 1)
    return shares


def _told(shares: Shares) -> int:
    return shares.context.out.count(ShareStartFailed("g", "id", 0, 0, 14))


def test_a_write_is_not_answered_while_the_start_offset_has_no_state() -> None:
    """SharePartition.canMoveStartOffset throws; what was written stays."""
    shares = _between_batches()
    known = list(shares.answers)
    for first, last in ((16, 16), (17, 17)):
        shares.acknowledge_range("a", first, last, ACCEPT)
        shares.persister_answers(ok=True)
    assert (shares.answers, _told(shares)) == (known, 2)
    done = [state.state for first, _, state in shares.share.cache.last.states() if first > 15]
    assert done == [RecordState.ACKNOWLEDGED] * 2
    assert shares.share.cache.start_offset == 14
    shares.forget_batches(1)
    assert shares.share.cache.start_offset == 18


def test_such_a_write_that_fails_is_answered() -> None:
    """SharePartition.rollbackOrProcessStateUpdates looks at the start offset after a success."""
    shares = _between_batches()
    shares.acknowledge_range("a", 16, 17, ACCEPT)
    shares.persister.answer(Errors.COORDINATOR_NOT_AVAILABLE, 0)
    assert (shares.answers[-1], _told(shares)) == (Errors.COORDINATOR_NOT_AVAILABLE, 0)


def test_what_expires_meanwhile_is_available_all_the_same() -> None:
    """SharePartition.releaseAcquisitionLockOnTimeout: nobody waits for that write."""
    shares = _between_batches()
    shares.wait(LOCK_MS)
    while shares.persister.waiting:
        shares.persister_answers(ok=True)
    assert shares.share.cache.next_fetch_offset() == 16
    assert _told(shares) > 0


class Before42(ShareRules):
    """Kafka 4.1: batches below a gap lead the fetch back to its begin."""

    def gap_behind(self, last_offset: int, gap_start: int) -> int:
        return last_offset + 1


@pytest.mark.parametrize(("rules", "next_offset"), [(ShareRules(), 12), (Before42(), 7)])
def test_a_gap_is_fetched_from_where_it_was_read_to(rules: ShareRules, next_offset: int) -> None:
    """SharePartition.nextFetchOffset: 5 and 6 were in the first read, 8 to 11 in the second."""
    starting = Starting()
    starting.share.cache._rules = rules
    starting.initialize()
    starting.read(Errors.NONE, 5, StateBatch(15, 18, 2, 1))
    assert _acquired(starting, (5, 6)) == [(5, 6)]
    assert _acquired(starting, (8, 11)) == [(8, 11)]
    assert starting.share.cache.next_fetch_offset() == next_offset
