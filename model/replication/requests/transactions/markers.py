"""WriteTxnMarkers: a leader ends transactions in its partitions (KIP-98).

Models KafkaApis.handleWriteTxnMarkersRequest. The request comes from a transaction coordinator, or
from an operator who aborts a hanging transaction (KIP-664). Each of its markers is one append with
acks=all; the response is sent once every append is answered.

The marker of ``__consumer_offsets`` belongs to the group coordinator, which writes it, and then
makes the transaction's offsets visible or drops them (:class:`GroupTransactions`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkasim.model.effects import Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    ProducePartition,
    ProduceRequest,
    WritableTxnMarker,
    WriteTxnMarkersRequest,
    WriteTxnMarkersResponse,
)
from kafkasim.model.records import (
    GROUP_METADATA_TOPIC,
    EndTransactionMarker,
    TopicPartition,
    end_transaction_marker,
    names_producer,
)
from kafkasim.model.storage.log.validation import AppendOrigin

if TYPE_CHECKING:
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.partitions.role_locks import RoleLocks
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.replication.requests.produce import ProduceHandler, ProduceStatus

NONE = Errors.NONE
ACKS_ALL = -1
COORDINATOR_ERRORS = (
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.NOT_COORDINATOR,
)
"""Errors of a group coordinator that a transaction coordinator does not expect."""

Done: TypeAlias = Callable[[Errors, int], None]
"""Takes the error of one partition, and now."""


class GroupTransactions(Protocol):
    """The group coordinator, as far as it takes part in transactions."""

    def complete_transaction(
        self, tp: TopicPartition, marker: WritableTxnMarker, done: Done, now: int
    ) -> None:
        """Write a marker to a partition of ``__consumer_offsets`` and apply it to its offsets.

        ``done(error, now)`` is called once the marker is committed or refused. Callable on the lane
        of the request handlers (GroupCoordinator.completeTransaction).
        """
        ...


class PendingMarkers:
    """One request: the errors of its partitions so far, by producer."""

    __slots__ = ("_missing", "errors", "failed", "item")

    def __init__(self, item: Request) -> None:
        request: WriteTxnMarkersRequest = item.message
        self.item = item
        self.errors: dict[int, dict[TopicPartition, Errors]] = {
            marker.producer_id: {} for marker in request.markers
        }
        self._missing = sum([len(marker.partitions) for marker in request.markers])
        self.failed = False  # answered as a whole; what is still appended is not answered

    @property
    def done(self) -> bool:
        """Whether every partition of every marker has its error."""
        return self._missing == 0 and not self.failed

    def fail(self, error: Errors) -> None:
        """Give all partitions of all markers one error."""
        self.failed = True
        for marker in self.item.message.markers:
            self.errors[marker.producer_id].update(dict.fromkeys(marker.partitions, error))

    def add(self, producer_id: int, tp: TopicPartition, error: Errors) -> None:
        """Take the error of one marker in one partition."""
        if not self.failed:
            self.errors[producer_id][tp] = error
            self._missing -= 1

    def response(self) -> WriteTxnMarkersResponse:
        """Return the response of the whole request; a marker without partitions is not in it."""
        return WriteTxnMarkersResponse(
            tuple([(pid, tuple(errors.items())) for pid, errors in self.errors.items() if errors])
        )


class TransactionMarkers:
    """Serves WriteTxnMarkers. ``groups`` is set by the broker that has a group coordinator."""

    def __init__(
        self,
        process: BrokerProcess,
        hosted: HostedPartitions,
        locks: RoleLocks,
        producing: ProduceHandler,
        request_timeout_ms: int,
    ) -> None:
        self.groups: GroupTransactions | None = None
        self._process = process
        self._hosted = hosted
        self._locks = locks
        self._producing = producing
        self._timeout_ms = request_timeout_ms

    def serve(self, item: Request, now: int) -> None:
        """Append every marker; respond when the last one is replicated or refused."""
        request: WriteTxnMarkersRequest = item.message
        if self._locks.held:
            asked = [tp for marker in request.markers for tp in marker.partitions]
            if self._locks.wait_for(asked, item):
                return
        pending = PendingMarkers(item)
        if pending.done:
            self._respond(pending)
        for marker in request.markers:
            if not names_producer(marker.producer_id, marker.producer_epoch):
                pending.fail(Errors.UNKNOWN_SERVER_ERROR)
                self._respond(pending)
                return
            self._write(marker, pending, now)

    def _write(self, marker: WritableTxnMarker, pending: PendingMarkers, now: int) -> None:
        data: list[ProducePartition] = []
        value = EndTransactionMarker(marker.committed, marker.coordinator_epoch)
        batch = end_transaction_marker(
            marker.producer_id, marker.producer_epoch, value, self._process.wall_ms(now)
        )
        groups = self.groups
        for tp in marker.partitions:
            partition = self._hosted.online.get(tp)
            if partition is None or partition.offline:
                error = Errors.UNKNOWN_TOPIC_OR_PARTITION
                self._add(marker.producer_id, pending, tp, error, now)
            elif groups is not None and tp.topic == GROUP_METADATA_TOPIC:
                done = partial(self._completed, marker.producer_id, pending, tp)
                groups.complete_transaction(tp, marker, done, now)
            else:
                data.append(ProducePartition(tp, batch))
        if data:
            version = marker.transaction_version
            append = ProduceRequest(ACKS_ALL, self._timeout_ms, tuple(data), None, version)
            answer = partial(self._appended, marker.producer_id, pending)
            self._producing.append_records(
                pending.item, append, AppendOrigin.COORDINATOR, answer, now
            )

    def _appended(
        self,
        producer_id: int,
        pending: PendingMarkers,
        item: Request,
        statuses: list[ProduceStatus],
        now: int,
    ) -> None:
        for status in statuses:
            self._add(producer_id, pending, status.tp, status.error, now)

    def _completed(
        self,
        producer_id: int,
        pending: PendingMarkers,
        tp: TopicPartition,
        error: Errors,
        now: int,
    ) -> None:
        if error in COORDINATOR_ERRORS:
            error = Errors.NOT_LEADER_OR_FOLLOWER
        self._add(producer_id, pending, tp, error, now)

    def _add(
        self,
        producer_id: int,
        pending: PendingMarkers,
        tp: TopicPartition,
        error: Errors,
        now: int,
    ) -> None:
        pending.add(producer_id, tp, error)
        if pending.done:
            self._respond(pending)

    def _respond(self, pending: PendingMarkers) -> None:
        item = pending.item
        self._process.out.append(Respond(item.connection, item.correlation, pending.response()))
