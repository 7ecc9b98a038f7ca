"""Rules of the transactional producer, each broken in one way that the drawn histories show.

A mutation is a method with something left out or added: (class, its name, what replaces it).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from kafkasim.model.client.producer.sender import Sender
from kafkasim.model.client.producer.sequences import ProducerSequences
from kafkasim.model.client.producer.transactions.manager import TransactionalManager
from kafkasim.model.client.producer.transactions.requests import (
    EndTxn,
    InitProducerId,
    Then,
    TxnOffsetCommit,
    TxnRequest,
)
from kafkasim.model.client.producer.transactions.sending import TransactionalSending
from kafkasim.model.client.producer.transactions.states import State
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.records import NO_SEQUENCE

Original = Callable[..., Any]
MUTATIONS: dict[str, tuple[type, str, Original]] = {}


def _mutation(owner: type, method: str) -> Callable[[Original], Original]:
    """Register a function that is called with the original method before its arguments."""
    original = getattr(owner, method)

    def register(function: Original) -> Original:
        def replacement(*args: Any) -> Any:
            return function(original, *args)

        MUTATIONS[function.__name__] = (owner, method, replacement)
        return function

    return register


@_mutation(TransactionalManager, "has_request")
def the_end_does_not_wait_for_batches(original: Original, self: Any, _incomplete: bool) -> Any:
    return original(self, False)


@_mutation(TransactionalManager, "require_bump")
def no_error_raises_the_epoch(_original: Original, _self: Any) -> None:
    return None


@_mutation(TransactionalManager, "ended")
def the_epoch_of_the_end_is_not_taken(original: Original, self: Any, *_new: int) -> None:
    original(self, -1, -1)


@_mutation(TransactionalManager, "ended")
def partitions_stay_in_the_next_transaction(original: Original, self: Any, *new: int) -> None:
    kept = dict(self.partitions)
    original(self, *new)
    self.partitions |= kept


@_mutation(TransactionalManager, "_terminate_with_error")
def requests_go_on_after_an_error(_original: Original, _self: Any, _request: Any) -> bool:
    return False


@_mutation(TransactionalManager, "added")
def added_partitions_do_not_start_a_transaction(
    original: Original, self: Any, partitions: Any, error: Any
) -> None:
    started = self._started
    original(self, partitions, error)
    self._started = started


@_mutation(TransactionalManager, "abortable")
def an_error_fails_an_abort_again(_original: Original, self: Any, error: Any) -> None:
    self._set(State.ABORTABLE_ERROR, error)


@_mutation(TransactionalSending, "may_send")
def batches_do_not_wait_for_requests(original: Original, self: Any, batch: Any, now: int) -> Any:
    busy, self._busy = self._busy, False
    try:
        return original(self, batch, now)
    finally:
        self._busy = busy


@_mutation(TransactionalSending, "may_send")
def batches_go_to_partitions_that_were_not_added(
    _original: Original, self: Any, batch: Any, _now: int
) -> Any:
    given_up = self._manager.aborts_batches and batch.base_sequence == NO_SEQUENCE
    return not self._busy and not given_up and self._sequences.may_send(batch)


@_mutation(ProducerSequences, "is_out_of_turn")
def every_gap_is_final(_original: Original, _self: Any, _batch: Any) -> bool:
    return False


@_mutation(Sender, "abort")
def batches_in_flight_are_given_up(
    original: Original, self: Any, error: str, _undrained: bool, now: int
) -> None:
    original(self, error, False, now)


@_mutation(EndTxn, "__init__")
def every_end_is_a_commit(
    original: Original, self: Any, owner: Any, _committed: bool, version: int
) -> None:
    original(self, owner, True, version)


@_mutation(InitProducerId, "message")
def a_new_epoch_is_asked_for_without_the_old_one(original: Original, self: Any) -> Any:
    return replace(original(self), producer_id=-1, producer_epoch=-1)


@_mutation(TxnRequest, "refuse")
def a_fenced_producer_tries_again(original: Original, self: Any, error: Errors) -> None:
    if error is Errors.PRODUCER_FENCED:
        self.follow(Then.RETRY, error)
    else:
        original(self, error)


@_mutation(TxnOffsetCommit, "disconnected")
def offsets_without_an_answer_count_as_taken(_original: Original, self: Any) -> None:
    self.owner.pending_offsets.clear()
    self.result.done()


@_mutation(TxnOffsetCommit, "handle")
def one_stored_offset_counts_for_all(original: Original, self: Any, response: Any) -> None:
    if any(error is NONE for _, error in response.results):
        self.owner.pending_offsets.clear()
    original(self, response)
