"""A transaction that no epoch is left to end (TransactionMetadata; tests/fidelity/last_epochs)."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kafkasim.model.errors import Errors
from kafkasim.model.facts import EpochsExhausted
from kafkasim.model.transaction.rules import TransactionRules
from tests.model.transaction_harness import ID, Bench

NONE = Errors.NONE
FAILED = (Errors.UNKNOWN_SERVER_ERROR, -1, -1)
LAST, FENCING = 32_766, 32_767


class Kafka41(TransactionRules):
    def fence_is_in_memory_first(self) -> bool:
        return False


def _open_under_the_last_epoch(rules: TransactionRules) -> Bench:
    bench = Bench(2, rules).elect()
    bench.init(timeout_ms=1000)
    bench.metadata.current = replace(bench.metadata.current, producer_epoch=LAST)
    bench.add(1000, LAST)
    return bench


def _reasons(bench: Bench) -> list[tuple[int, str]]:
    """Return the attempts in vain: epoch and reason."""
    told = [fact for fact in bench.facts if isinstance(fact, EpochsExhausted)]
    return [(fact.producer_epoch, fact.reason) for fact in told if fact.transactional_id == ID]


def test_an_abort_of_what_timed_out_is_answered_with_an_epoch_that_nothing_ends() -> None:
    """4.1: the timeout brings no other producer id, and the producer's abort is a repeated one."""
    bench = _open_under_the_last_epoch(Kafka41())
    bench.wait(11)
    bench.answer()
    assert bench.state() == ("CompleteAbort", 1000, FENCING)
    assert bench.end(1000, LAST, False) == (NONE, 1000, FENCING)
    assert bench.end(1000, FENCING, False) == FAILED  # of nothing
    assert bench.add(1000, FENCING) is NONE
    assert bench.end(1000, FENCING, True) == FAILED
    assert bench.end(1000, FENCING, False) == FAILED
    assert bench.init() == FAILED
    assert bench.state() == ("Ongoing", 1000, FENCING)
    assert _reasons(bench) == [(FENCING, reason) for reason in ("end", "end", "end", "fence")]


@pytest.mark.parametrize("fenced_by", ["timeout", "fence"])
def test_the_fence_of_the_last_epoch_overflows_in_memory(fenced_by: str) -> None:
    """4.0 raises the epoch twice, so the first fence fails already."""
    bench = _open_under_the_last_epoch(TransactionRules())
    if fenced_by == "fence":
        assert bench.init() == FAILED
    else:
        bench.wait(11)
    assert _reasons(bench)[0] == (FENCING, fenced_by)
    assert bench.state() == ("Ongoing", 1000, FENCING)
    assert bench.end(1000, LAST, True) == (Errors.PRODUCER_FENCED, -1, -1)
    assert bench.init() == FAILED


def test_the_exception_ends_the_search_for_transactions_that_timed_out() -> None:
    """abortTimedOutTransactions: those behind it in the search are not aborted, either."""
    bench = _open_under_the_last_epoch(TransactionRules())
    other = "refunds"
    _, producer_id, epoch = bench.init(transactional_id=other, timeout_ms=1000) or FAILED
    bench.add(producer_id, epoch, transactional_id=other)
    bench.wait(31)
    assert _reasons(bench) == [(FENCING, "timeout")] * len(_reasons(bench))
    assert len(_reasons(bench)) > 1
    transactions = bench.coordinator.owned.by_partition[0].transactions
    assert transactions[other].state.value == "Ongoing"
