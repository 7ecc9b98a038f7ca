"""What becomes of markers that were sent (TransactionMarkerRequestCompletionHandler).

NONE                                   the partition is done
UNKNOWN_TOPIC_OR_PARTITION, NOT_LEADER_OR_FOLLOWER, NOT_ENOUGH_REPLICAS(_AFTER_APPEND),
REQUEST_TIMED_OUT, KAFKA_STORAGE_ERROR, or no answer
                                       sent again, to the leader of that time
INVALID_PRODUCER_EPOCH, TRANSACTION_COORDINATOR_FENCED
                                       given up: somebody newer is at work
UNSUPPORTED_FOR_MESSAGE_FORMAT, UNSUPPORTED_VERSION
                                       the partition is done: it has none of the producer's data
any other                              the broker halts
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kafkasim.model.channel import Failed
from kafkasim.model.errors import Errors
from kafkasim.model.facts import MarkerGivenUp
from kafkasim.model.records import TopicPartition
from kafkasim.model.transaction.markers.queues import Entry, PendingCompleteTxn
from kafkasim.model.transaction.metadata import TransactionMetadata
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.model.transaction.state_manager import TransactionStateManager

NEEDS_NO_MARKER = (Errors.UNSUPPORTED_FOR_MESSAGE_FORMAT, Errors.UNSUPPORTED_VERSION)
RETRIABLE = (
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.NOT_ENOUGH_REPLICAS,
    Errors.NOT_ENOUGH_REPLICAS_AFTER_APPEND,
    Errors.REQUEST_TIMED_OUT,
    Errors.KAFKA_STORAGE_ERROR,
)


class Queues(Protocol):
    """The markers that wait, and the transactions that wait for them."""

    def enqueue(self, entry: Entry, partitions: tuple[TopicPartition, ...], now: int) -> None:
        """Queue a marker for the leaders of some partitions."""
        ...

    def needs_no_marker(self, metadata: TransactionMetadata, tp: TopicPartition) -> None:
        """Take note that a partition has its marker, or needs none."""
        ...

    def remove_markers_for_txn(self, pending: PendingCompleteTxn) -> None:
        """Leave a transaction decided."""
        ...

    def maybe_write_completion(self, transactional_id: str, now: int) -> None:
        """Complete a transaction that waits for no marker any more."""
        ...


class CompletionHandler:
    """Takes the answers to WriteTxnMarkers; ``halt(reason)`` ends the broker."""

    def __init__(
        self,
        manager: TransactionStateManager,
        rules: TransactionRules,
        queues: Queues,
        halt: Callable[[str], None],
    ) -> None:
        self._manager = manager
        self._rules = rules
        self._queues = queues
        self._halt = halt

    def complete(self, entries: list[Entry], answer: Any, now: int) -> None:
        """Take the answer to a request that carried ``entries``, or a Failed."""
        errors: dict[int, dict[TopicPartition, Errors]] = {}
        if not isinstance(answer, Failed):
            for producer_id, results in answer.results:
                errors.setdefault(producer_id, {}).update(results)
        for entry in entries:
            pending, marker = entry
            found = self._manager.get(pending.transactional_id)
            if isinstance(found, Errors):
                self._queues.remove_markers_for_txn(pending)
                continue
            assert found is not None, pending.transactional_id
            if found.coordinator_epoch != marker.coordinator_epoch:
                self._queues.remove_markers_for_txn(pending)
            elif isinstance(answer, Failed):
                self._queues.enqueue(entry, marker.partitions, now)
            else:
                self._take(entry, found.metadata, errors[marker.producer_id], now)

    def _take(
        self,
        entry: Entry,
        metadata: TransactionMetadata,
        errors: dict[TopicPartition, Errors],
        now: int,
    ) -> None:
        pending, given_up = entry[0], False
        retry: list[TopicPartition] = []
        for tp, error in errors.items():
            if error is Errors.NONE or error in NEEDS_NO_MARKER:
                self._queues.needs_no_marker(metadata, tp)
            elif self._rules.gives_up_marker(error):
                self._queues.remove_markers_for_txn(pending)
                self._tell(entry, tp, error)
                given_up = True
            elif error in RETRIABLE:
                retry.append(tp)
            else:
                self._halt(f"{error.name} for a marker of {pending.transactional_id} in {tp}")
                return
        if given_up:
            return
        if retry:
            self._queues.enqueue(entry, tuple(retry), now)
        else:
            self._queues.maybe_write_completion(pending.transactional_id, now)

    def _tell(self, entry: Entry, tp: TopicPartition, error: Errors) -> None:
        pending, marker = entry
        self._manager.runtime.out.append(
            MarkerGivenUp(
                pending.transactional_id,
                tp.topic,
                tp.partition,
                marker.producer_id,
                marker.producer_epoch,
                marker.coordinator_epoch,
                error.name,
            )
        )
