"""Which states may follow which: Kafka's tables, and a move outside of them is a bug.

The tables are those of TransactionState.validPreviousStates, with KIP-890's abort of a transaction
that has no partition yet, and of MemberState.previousValidStates. Classic groups have theirs in
test_group_membership.py, producers in tests/stateful/transactional_rules.py.
"""

from __future__ import annotations

from dataclasses import replace
from itertools import product

from kafkasim.model.client.consumer.modern import member_state, membership_manager
from kafkasim.model.client.consumer.modern.member_state import MemberState
from kafkasim.model.transaction import states
from kafkasim.model.transaction.states import TransactionState
from tests.model.transaction_harness import Bench

TRANSACTIONS = {
    "Empty": "Empty CompleteCommit CompleteAbort",
    "Ongoing": "Ongoing Empty CompleteCommit CompleteAbort",
    "PrepareCommit": "Ongoing",
    "PrepareAbort": "Ongoing PrepareEpochFence Empty CompleteCommit CompleteAbort",
    "CompleteCommit": "PrepareCommit",
    "CompleteAbort": "PrepareAbort",
    "Dead": "Empty CompleteAbort CompleteCommit",
    "PrepareEpochFence": "Ongoing",
}

MEMBERS = {
    "STABLE": "JOINING ACKNOWLEDGING RECONCILING",
    "RECONCILING": "STABLE JOINING ACKNOWLEDGING RECONCILING",
    "ACKNOWLEDGING": "RECONCILING",
    "FATAL": "JOINING STABLE RECONCILING ACKNOWLEDGING PREPARE_LEAVING LEAVING UNSUBSCRIBED",
    "FENCED": "JOINING STABLE RECONCILING ACKNOWLEDGING PREPARE_LEAVING LEAVING",
    "JOINING": "FENCED UNSUBSCRIBED STALE",
    "PREPARE_LEAVING": "JOINING STABLE RECONCILING ACKNOWLEDGING UNSUBSCRIBED",
    "LEAVING": "PREPARE_LEAVING",
    "UNSUBSCRIBED": "PREPARE_LEAVING LEAVING FENCED",
    "STALE": "LEAVING",
}


def moves(table: dict[str, str]) -> set[tuple[str, str]]:
    return {(old, new) for new, before in table.items() for old in before.split()}


def test_a_transaction_moves_as_in_kafka_and_any_other_move_is_a_bug() -> None:
    assert {(old, new) for new in TransactionState for old in states.PREDECESSORS[new]} == moves(
        TRANSACTIONS
    )
    bench = Bench().elect()
    bench.init()
    made = set()
    for old, new in product(TransactionState, TransactionState):
        metadata = bench.metadata
        metadata.current, metadata.pending = replace(metadata.current, state=old), None
        try:
            metadata._prepare(new)
        except AssertionError:
            continue
        made.add((old, new))
    assert made == moves(TRANSACTIONS)


def test_a_member_of_a_consumer_group_moves_as_in_kafka_and_any_other_move_is_a_bug() -> None:
    table = member_state.PREDECESSORS
    assert {(old.name, new.name) for new in MemberState for old in table[new]} == moves(MEMBERS)
    manager = object.__new__(membership_manager.ConsumerMembershipManager)
    made = set()
    for old, new in product(MemberState, MemberState):
        manager.state = old
        try:
            manager._to(new)
        except AssertionError:
            continue
        made.add((old.name, new.name))
    staying = {(state.name, state.name) for state in MemberState}
    assert made == moves(MEMBERS) | staying
