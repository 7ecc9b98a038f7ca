"""Rules of the idempotent producer, each broken in one way.

A mutation is a method of the producer with something left out or added. ``MUTATIONS`` has for each
the number of a history that shows it (``test_producer_stateful.py``); after a change of the
histories another one may.

What only costs attempts and epochs no history shows, since the leader refuses what is out of order:
a retry that goes behind new batches (test_producer_retry.py does), and the rules of
test_producer_sequences.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from kafkasim.model.client.producer.batches import PartitionQueue, TxnPartitionEntry
from kafkasim.model.client.producer.sender import Sender
from kafkasim.model.client.producer.sequences import ProducerSequences
from kafkasim.model.client.producer.transaction_manager import TransactionManager
from kafkasim.model.errors import Errors
from kafkasim.model.records import NO_SEQUENCE, add_sequence

Original = Callable[..., Any]


class Mutation(NamedTuple):
    """What replaces a method."""

    owner: type
    method: str
    replacement: Callable[..., Any]
    history: int


MUTATIONS: dict[str, Mutation] = {}


def _mutation(owner: type, method: str, history: int) -> Callable[[Original], Original]:
    """Register a function that is called with the original method before its arguments."""
    original = getattr(owner, method)

    def register(function: Original) -> Original:
        def replacement(*args: Any) -> Any:
            return function(original, *args)

        MUTATIONS[function.__name__] = Mutation(owner, method, replacement, history)
        return function

    return register


# Which batch may be sent.


@_mutation(ProducerSequences, "may_send", 0)
def any_batch_at_any_time(_original: Original, _self: Any, _batch: Any) -> bool:
    return True


@_mutation(ProducerSequences, "may_send", 0)
def a_retry_need_not_be_the_first(original: Original, self: Any, batch: Any) -> bool:
    return True if batch.base_sequence != NO_SEQUENCE else bool(original(self, batch))


@_mutation(ProducerSequences, "may_send", 3)
def unresolved_sequences_do_not_hold(original: Original, self: Any, batch: Any) -> Any:
    entry = batch.queue.sequences
    unresolved, entry.unresolved = entry.unresolved, None
    try:
        return original(self, batch)
    finally:
        entry.unresolved = unresolved


# The order of retries.


@_mutation(PartitionQueue, "reenqueue", 0)
def a_retry_goes_to_the_front(_original: Original, self: Any, batch: Any) -> None:
    self.batches.appendleft(batch)


# Sequences.


@_mutation(ProducerSequences, "assign", 0)
def sequences_count_batches(original: Original, self: Any, batch: Any) -> None:
    original(self, batch)
    batch.queue.sequences.next_sequence = add_sequence(batch.base_sequence, 1)


@_mutation(ProducerSequences, "assign", 0)
def a_new_epoch_does_not_begin_at_0(original: Original, self: Any, batch: Any) -> None:
    entry = batch.queue.sequences
    entry.producer_id, entry.producer_epoch = self.producer_id, self.producer_epoch
    original(self, batch)


@_mutation(ProducerSequences, "start_at_beginning", 0)
def batches_in_flight_are_not_renumbered(original: Original, self: Any, entry: Any) -> None:
    kept, entry.in_flight = entry.in_flight, []
    original(self, entry)
    entry.in_flight = kept


@_mutation(ProducerSequences, "start_at_beginning", 0)
def the_next_sequence_survives_an_epoch(original: Original, self: Any, entry: Any) -> None:
    kept = entry.next_sequence
    original(self, entry)
    entry.next_sequence = kept


@_mutation(ProducerSequences, "start_at_beginning", 156)
def the_last_acked_survives_an_epoch(original: Original, self: Any, entry: Any) -> None:
    kept = entry.last_acked_sequence
    original(self, entry)
    entry.last_acked_sequence = kept


@_mutation(ProducerSequences, "on_completed", 0)
def an_acked_batch_stays_in_flight(
    original: Original, self: Any, batch: Any, base_offset: int
) -> None:
    entry = batch.queue.sequences
    kept = list(entry.in_flight)
    original(self, batch, base_offset)
    entry.in_flight[:] = kept


@_mutation(TxnPartitionEntry, "remove", 3)
def the_first_in_flight_is_removed(_original: Original, self: Any, _batch: Any) -> None:
    if self.in_flight:
        del self.in_flight[0]


# Batches that are given up.


@_mutation(TransactionManager, "on_failed", 3)
def a_failed_batch_stays_in_flight(
    _original: Original, self: Any, batch: Any, _error: Errors, _adjust: bool
) -> None:
    if batch.base_sequence != NO_SEQUENCE:
        self._request_epoch_bump(batch.queue.sequences)


@_mutation(TransactionManager, "on_expired", 3)
def an_expired_batch_leaves_no_gap(
    original: Original, self: Any, batch: Any, _in_retry: bool
) -> None:
    original(self, batch, False)


@_mutation(TransactionManager, "on_expired", 3)
def an_expired_batch_stays_in_flight(
    _original: Original, self: Any, batch: Any, in_retry: bool
) -> None:
    if in_retry and batch.base_sequence != NO_SEQUENCE:
        self._sequences.mark_unresolved(batch)
        self.work_pending = True


@_mutation(TransactionManager, "on_expired", 13)
def an_expired_batch_raises_the_epoch_at_once(
    original: Original, self: Any, batch: Any, in_retry: bool
) -> None:
    original(self, batch, False)
    if in_retry and batch.base_sequence != NO_SEQUENCE:
        self._request_epoch_bump(batch.queue.sequences)


@_mutation(ProducerSequences, "resolve", 3)
def gaps_are_not_seen(original: Original, self: Any) -> list[Any]:
    original(self)
    return []


@_mutation(ProducerSequences, "resolve", 13)
def gaps_are_final_while_batches_are_in_flight(_original: Original, self: Any) -> list[Any]:
    gaps = []
    for entry in list(self.unresolved):
        del self.unresolved[entry]
        entry.unresolved = None
        if entry.next_sequence != add_sequence(entry.last_acked_sequence, 1):
            gaps.append(entry)
    return gaps


@_mutation(ProducerSequences, "resolve", 3)
def nothing_is_resolved(_original: Original, _self: Any) -> list[Any]:
    return []


@_mutation(Sender, "on_response", 3)
def a_late_answer_counts_again(
    original: Original, self: Any, batch: Any, response: Any, now: int
) -> None:
    if batch.done and response.error:
        batch.done = False
    original(self, batch, response, now)


# Errors, and the epochs that they raise.


@_mutation(ProducerSequences, "is_out_of_turn", 1)
def every_gap_is_real(_original: Original, _self: Any, _batch: Any) -> bool:
    return False


@_mutation(TransactionManager, "can_retry", 0)
def out_of_order_is_final(original: Original, self: Any, batch: Any, response: Any) -> Any:
    if response.error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER:
        return False
    return original(self, batch, response)


@_mutation(TransactionManager, "can_retry", 1)
def out_of_order_always_raises_the_epoch(
    original: Original, self: Any, batch: Any, response: Any
) -> Any:
    if response.error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER:
        self._request_epoch_bump(batch.queue.sequences)
        return True
    return original(self, batch, response)


@_mutation(TransactionManager, "can_retry", 0)
def unknown_producer_is_final(original: Original, self: Any, batch: Any, response: Any) -> Any:
    if response.error is Errors.UNKNOWN_PRODUCER_ID:
        return False
    return original(self, batch, response)


@_mutation(TransactionManager, "can_retry", 0)
def unknown_producer_raises_no_epoch(
    original: Original, self: Any, batch: Any, response: Any
) -> Any:
    return response.error is Errors.UNKNOWN_PRODUCER_ID or original(self, batch, response)


@_mutation(TransactionManager, "can_retry", 2)
def a_moved_leader_is_final(original: Original, self: Any, batch: Any, response: Any) -> Any:
    if response.error is Errors.NOT_LEADER_OR_FOLLOWER:
        return False
    return original(self, batch, response)
