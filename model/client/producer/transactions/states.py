"""The states of a transactional producer (TransactionManager.State), and their legal moves.

Rules of this module: it holds the table and nothing else, and a pair of states that is not in the
table is refused. PREPARED_TRANSACTION (KIP-939, two-phase commit) is left out.
"""

from __future__ import annotations

from enum import Enum


class State(Enum):
    """What a transactional producer is doing."""

    UNINITIALIZED = "UNINITIALIZED"
    INITIALIZING = "INITIALIZING"  # asks for a producer id, or has its epoch raised
    READY = "READY"
    IN_TRANSACTION = "IN_TRANSACTION"
    COMMITTING_TRANSACTION = "COMMITTING_TRANSACTION"
    ABORTING_TRANSACTION = "ABORTING_TRANSACTION"
    ABORTABLE_ERROR = "ABORTABLE_ERROR"  # the transaction can only be aborted
    FATAL_ERROR = "FATAL_ERROR"  # the producer can only be closed


SOURCES: dict[State, tuple[State, ...]] = {
    State.UNINITIALIZED: (State.READY, State.ABORTABLE_ERROR),
    State.INITIALIZING: (
        State.UNINITIALIZED,
        State.COMMITTING_TRANSACTION,
        State.ABORTING_TRANSACTION,
    ),
    State.READY: (
        State.INITIALIZING,
        State.COMMITTING_TRANSACTION,
        State.ABORTING_TRANSACTION,
    ),
    State.IN_TRANSACTION: (State.READY,),
    State.COMMITTING_TRANSACTION: (State.IN_TRANSACTION,),
    State.ABORTING_TRANSACTION: (State.IN_TRANSACTION, State.ABORTABLE_ERROR),
    State.ABORTABLE_ERROR: (
        State.IN_TRANSACTION,
        State.COMMITTING_TRANSACTION,
        State.ABORTABLE_ERROR,
        State.INITIALIZING,
    ),
    State.FATAL_ERROR: tuple(State),
}
"""From which states each state may be entered (State.isTransitionValid, Kafka 4.1)."""
