"""Verification guards and tentative sequences in one log (KIP-890, KAFKA-14884, KAFKA-14920)."""

from __future__ import annotations

import pytest

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.records import EndTransactionMarker, end_transaction_marker
from kafkasim.model.storage.log.producers.verification import VerificationStateEntry
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.log.validation import AppendOrigin
from kafkasim.model.storage.rules import StorageRules
from tests.model.storage_support import make_log
from tests.model.test_storage_transactions import data

WRONG_SEQUENCE = Errors.OUT_OF_ORDER_SEQUENCE_NUMBER
UNVERIFIED = Errors.INVALID_TXN_STATE


@pytest.fixture
def log() -> UnifiedLog:
    return make_log(verifies_transactions=True)


def ask(
    log: UnifiedLog, sequence: int = 0, epoch: int = 0, bump: bool = False, now: int = 0
) -> VerificationStateEntry | Errors | None:
    return log.producers.start_verification(1, sequence, epoch, bump, now)


def send(
    log: UnifiedLog, guard: VerificationStateEntry | Errors | None, sequence: int, epoch: int = 0
) -> Errors:
    assert not isinstance(guard, Errors)
    return log.append_as_leader(data(1, sequence, epoch), 0, 0, guard=guard).error


def end(log: UnifiedLog, epoch: int = 0) -> Errors:
    marker = end_transaction_marker(1, epoch, EndTransactionMarker(False, 0), 0)
    return log.append_as_leader(marker, 0, 0, AppendOrigin.COORDINATOR).error


def test_only_the_first_batch_of_a_transaction_needs_a_guard(log: UnifiedLog) -> None:
    assert send(log, None, 0) is UNVERIFIED
    assert send(log, ask(log), 0) is NONE
    assert ask(log) is None
    assert send(log, None, 1) is NONE
    assert end(log) is NONE
    assert send(log, None, 2) is UNVERIFIED


def test_guard_of_an_ended_transaction_does_not_count(log: UnifiedLog) -> None:
    """KAFKA-14884: verified, then aborted, then appended; or appended in the next transaction."""
    late = ask(log)
    assert end(log) is NONE
    assert send(log, late, 0) is UNVERIFIED
    assert ask(log) is not late
    assert send(log, late, 0) is UNVERIFIED


class TrustsOldAnswers(StorageRules):
    """B47."""

    def is_verified(
        self, known: VerificationStateEntry | None, guard: VerificationStateEntry | None
    ) -> bool:
        return guard is not None


def test_without_the_rule_a_late_answer_opens_a_transaction() -> None:
    log = make_log(rules=TrustsOldAnswers(), verifies_transactions=True)
    late = ask(log)
    end(log)
    assert send(log, late, 0) is NONE
    assert log.transactions.undecided == {1: 1}


def test_questions_share_a_guard_until_an_append(log: UnifiedLog) -> None:
    guard = ask(log, 0)
    assert ask(log, 1) is guard
    assert [send(log, guard, 0), send(log, guard, 1)] == [NONE, NONE]
    end(log)
    assert ask(log, 2) is not guard


def test_question_of_an_old_epoch_is_refused(log: UnifiedLog) -> None:
    send(log, ask(log, epoch=1), 0, epoch=1)
    assert ask(log, epoch=0) is Errors.INVALID_PRODUCER_EPOCH
    # An open transaction of an older epoch is not this producer's.
    assert isinstance(ask(log, epoch=2), VerificationStateEntry)


def test_batch_may_not_overtake_one_that_waits(log: UnifiedLog) -> None:
    first = ask(log, 0)
    assert send(log, ask(log, 1), 1) is WRONG_SEQUENCE
    assert [send(log, first, 0), send(log, first, 1)] == [NONE, NONE]


def test_lowest_sequence_is_the_lowest_of_all_questions_of_an_epoch(log: UnifiedLog) -> None:
    """KAFKA-16386: the lower batch may be the later question; a new epoch starts again."""
    ask(log, 1)
    assert send(log, ask(log, 0), 1) is WRONG_SEQUENCE
    guard = ask(log, 5, epoch=1)
    assert isinstance(guard, VerificationStateEntry)
    assert (guard.epoch, guard.lowest_sequence) == (1, 5)


def test_transaction_of_version_2_begins_with_sequence_0(log: UnifiedLog) -> None:
    assert send(log, ask(log, 3, bump=True), 3) is WRONG_SEQUENCE
    other = make_log(verifies_transactions=True)
    assert send(other, ask(other, 3), 3) is NONE


def test_old_guards_expire() -> None:
    log = make_log(verifies_transactions=True, producer_id_expiration_ms=100)
    guard = ask(log, now=0)
    log.producers.remove_expired(100)
    assert send(log, guard, 0) is UNVERIFIED


def test_log_may_leave_verification_out() -> None:
    assert send(make_log(), None, 0) is NONE
