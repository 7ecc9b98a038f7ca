"""The states of a transactional id, and which may follow which (TransactionState)."""

from __future__ import annotations

from enum import StrEnum


class TransactionState(StrEnum):
    """Kafka's names, as ListTransactions and DescribeTransactions have them."""

    EMPTY = "Empty"  # there has been no transaction under this epoch
    ONGOING = "Ongoing"
    PREPARE_COMMIT = "PrepareCommit"  # decided; markers are being written
    PREPARE_ABORT = "PrepareAbort"
    COMPLETE_COMMIT = "CompleteCommit"  # every marker is written
    COMPLETE_ABORT = "CompleteAbort"
    DEAD = "Dead"  # expires: only ever pending
    PREPARE_EPOCH_FENCE = "PrepareEpochFence"  # an abort that fences: only ever pending


EMPTY, ONGOING = TransactionState.EMPTY, TransactionState.ONGOING
PREPARE_COMMIT, PREPARE_ABORT = TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT
COMPLETE_COMMIT, COMPLETE_ABORT = TransactionState.COMPLETE_COMMIT, TransactionState.COMPLETE_ABORT
DEAD, PREPARE_EPOCH_FENCE = TransactionState.DEAD, TransactionState.PREPARE_EPOCH_FENCE

AT_REST = (EMPTY, COMPLETE_COMMIT, COMPLETE_ABORT)
"""No transaction is open; an id may expire only here (isExpirationAllowed)."""

DECIDED = (PREPARE_COMMIT, PREPARE_ABORT)
"""The outcome is in the log, and not yet in every partition."""

PREDECESSORS: dict[TransactionState, tuple[TransactionState, ...]] = {
    EMPTY: AT_REST,
    ONGOING: (ONGOING, *AT_REST),
    PREPARE_COMMIT: (ONGOING,),
    # Since KIP-890 a producer may abort a transaction that has no partition yet.
    PREPARE_ABORT: (ONGOING, PREPARE_EPOCH_FENCE, *AT_REST),
    COMPLETE_COMMIT: (PREPARE_COMMIT,),
    COMPLETE_ABORT: (PREPARE_ABORT,),
    DEAD: AT_REST,
    PREPARE_EPOCH_FENCE: (ONGOING,),
}
"""State to the states that it may follow (validPreviousStates)."""
