"""Sends the markers of decided transactions, and completes these (TransactionMarkerChannelManager).

    Prepare* committed ──▶ a marker for the leader of each partition, queued by destination
                                │ one WriteTxnMarkers request with all that wait for a broker
                                ▼
    all partitions answered ──▶ Complete* appended ──▶ the id may begin its next transaction

A marker is sent until it is answered. After a retriable error or a lost connection it is sent
again, to the leader that the partition then has. A deleted partition needs no marker. A failed
append of Complete* is tried again.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.facts import MarkerSkipped
from kafkasim.model.messages import WritableTxnMarker, WriteTxnMarkersRequest
from kafkasim.model.records import TopicPartition
from kafkasim.model.transaction.markers.completion_handler import CompletionHandler
from kafkasim.model.transaction.markers.ports import MarkerDestinations, MarkerSender
from kafkasim.model.transaction.markers.queues import Entry, PendingCompleteTxn, TxnMarkerQueue
from kafkasim.model.transaction.metadata import TransactionMetadata, TxnTransitMetadata
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.model.transaction.state_manager import TransactionStateManager
from kafkasim.model.transaction.states import COMPLETE_COMMIT, DECIDED

NONE = Errors.NONE
LANE = "txn-marker-sender"
UNKNOWN_DESTINATION_US = 50_000
"""Until a leader is looked for again; Kafka's thread looks all the time, without a pause."""

Answered = Callable[[Any, int], None]  # (response or Failed, now)


def _retried(error: Errors) -> bool:
    return error is Errors.COORDINATOR_NOT_AVAILABLE


class TransactionMarkerChannelManager:
    """Queues markers, and appends the completion of a transaction that has all of them.

    ``halt(reason)`` ends the broker: a marker was answered with an error that Kafka has no answer
    to (FatalExitError).
    """

    def __init__(
        self,
        manager: TransactionStateManager,
        rules: TransactionRules,
        destinations: MarkerDestinations,
        request_timeout_ms: int,
        halt: Callable[[str], None],
    ) -> None:
        self._manager = manager
        self._rules = rules
        self._destinations = destinations
        self._poll_us = request_timeout_ms * 1000  # a thread that nothing wakes sleeps as long
        self._completion = CompletionHandler(manager, rules, self, halt)
        self.sender: MarkerSender | None = None  # set once, by who built the thread
        self._queues: dict[str, TxnMarkerQueue] = {}  # by endpoint
        self._unknown_destination = TxnMarkerQueue()
        self._append_retries: list[PendingCompleteTxn] = []
        self._with_pending_markers: dict[str, PendingCompleteTxn] = {}  # by transactional id

    # ------------------------------------------------------------------------------ queues

    def add_txn_markers_to_send(
        self,
        coordinator_epoch: int,
        metadata: TransactionMetadata,
        completion: TxnTransitMetadata,
        now: int,
    ) -> None:
        """Send the markers of a decided transaction, then append ``completion``."""
        pending = PendingCompleteTxn(coordinator_epoch, metadata, completion)
        self._with_pending_markers[pending.transactional_id] = pending
        current = metadata.current
        marker = WritableTxnMarker(
            current.producer_id,
            current.producer_epoch,
            completion.state is COMPLETE_COMMIT,
            tuple(metadata.partitions),
            coordinator_epoch,
            current.client_transaction_version,
        )
        self.enqueue((pending, marker), marker.partitions, now)
        self.maybe_write_completion(pending.transactional_id, now)

    def enqueue(self, entry: Entry, partitions: tuple[TopicPartition, ...], now: int) -> None:
        """Queue a marker for the leaders of some partitions (addTxnMarkersToBrokerQueue)."""
        pending, marker = entry
        by_leader: dict[str | None, list[TopicPartition]] = {}
        for tp in partitions:
            by_leader.setdefault(self._destinations.leader_endpoint(tp), []).append(tp)
        txn_partition = self._manager.partition_for(pending.transactional_id)
        for leader, tps in by_leader.items():
            if leader is None:
                self._skip_deleted(entry, tps, now)
                continue
            part = WritableTxnMarker(
                marker.producer_id,
                marker.producer_epoch,
                marker.committed,
                tuple(tps),
                marker.coordinator_epoch,
                marker.transaction_version,
            )
            if leader:
                queue = self._queues.setdefault(leader, TxnMarkerQueue())
                self._sender().wakeup()
            else:
                queue = self._unknown_destination
                self._sender().wakeup_by(now + UNKNOWN_DESTINATION_US)
            queue.add(txn_partition, (pending, part))

    def _sender(self) -> MarkerSender:
        assert self.sender is not None, "the sender's thread is not built"
        return self.sender

    def _skip_deleted(self, entry: Entry, tps: list[TopicPartition], now: int) -> None:
        """Forget partitions that the broker does not know: they are likely to be deleted."""
        pending, marker = entry
        found = self._manager.get(pending.transactional_id)
        if isinstance(found, Errors):
            self.remove_markers_for_txn(pending)
            return
        assert found is not None, pending.transactional_id
        if found.coordinator_epoch != pending.coordinator_epoch:
            self.remove_markers_for_txn(pending)
            return
        for tp in tps:
            self.needs_no_marker(found.metadata, tp)
            self._manager.runtime.out.append(
                MarkerSkipped(
                    pending.transactional_id,
                    tp.topic,
                    tp.partition,
                    marker.producer_id,
                    marker.producer_epoch,
                    marker.coordinator_epoch,
                )
            )
        self.maybe_write_completion(pending.transactional_id, now)

    def remove_markers_for_txn_partition(self, txn_partition: int) -> None:
        """Forget the markers of a partition of ``__transaction_state``: another tenure begins."""
        for queue in (self._unknown_destination, *self._queues.values()):
            for pending, _ in queue.remove(txn_partition):
                self.remove_markers_for_txn(pending)

    def needs_no_marker(self, metadata: TransactionMetadata, tp: TopicPartition) -> None:
        """Take note that a partition has its marker, or needs none.

        A transaction that did not await its markers may be complete, and has no partitions then.
        """
        if metadata.state in DECIDED or self._rules.awaits_markers():
            metadata.remove_partition(tp)

    def remove_markers_for_txn(self, pending: PendingCompleteTxn) -> None:
        """Leave a transaction decided; no answer completes it any more."""
        known = self._with_pending_markers.get(pending.transactional_id)
        if known is not None and (known is pending or not self._rules.removes_own_markers_only()):
            del self._with_pending_markers[pending.transactional_id]

    # ------------------------------------------------------------------- the sender's thread

    def generate_requests(self, now: int) -> list[tuple[str, WriteTxnMarkersRequest, Answered]]:
        """Return for each broker one request with all its markers: (endpoint, request, done)."""
        retries, self._append_retries = self._append_retries, []
        for pending in retries:
            self._try_append(pending, now)
        for pending, marker in self._unknown_destination.drain():
            self.enqueue((pending, marker), marker.partitions, now)
        requests: list[tuple[str, WriteTxnMarkersRequest, Answered]] = []
        for address, queue in self._queues.items():
            entries = queue.drain()
            if entries:
                request = WriteTxnMarkersRequest(tuple([marker for _, marker in entries]))
                requests.append((address, request, partial(self._completion.complete, entries)))
        if self._append_retries and not self._unknown_destination:
            self._sender().wakeup_by(now + self._poll_us)
        return requests

    # --------------------------------------------------------------------------- completion

    def maybe_write_completion(self, transactional_id: str, now: int) -> None:
        """Append the completion of a transaction that waits for no marker any more.

        Whoever removes the transaction writes it, once (KAFKA-10080).
        """
        pending = self._with_pending_markers.get(transactional_id)
        if pending is None or (self._rules.awaits_markers() and pending.metadata.partitions):
            return
        del self._with_pending_markers[transactional_id]
        self._write_completion(pending, now)
        delay_us = self._rules.second_completion_us()
        if delay_us is not None:
            key = ("second-completion", transactional_id)
            again = partial(self._write_completion, pending)
            runtime = self._manager.runtime
            lane = runtime.lane_of(self._manager.partition_for(transactional_id))
            runtime.process.timers.arm(key, now + delay_us, lane, again)

    def _write_completion(self, pending: PendingCompleteTxn, now: int) -> None:
        found = self._manager.get(pending.transactional_id)
        if isinstance(found, Errors):
            return  # another coordinator completes it, or this one once it is loaded
        assert found is not None, pending.transactional_id
        if found.coordinator_epoch == pending.coordinator_epoch:
            self._try_append(pending, now)

    def _try_append(self, pending: PendingCompleteTxn, now: int) -> None:
        def appended(error: Errors, at: int) -> None:
            if error is Errors.COORDINATOR_NOT_AVAILABLE:
                if not self._append_retries:
                    self._sender().wakeup_by(at + self._poll_us)
                self._append_retries.append(pending)

        self._manager.append(
            pending.transactional_id,
            pending.coordinator_epoch,
            pending.completion,
            "markers",
            appended,
            now,
            _retried,
        )
