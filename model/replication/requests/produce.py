"""Produce requests: append to the leader's log, then answer or wait for the high watermark.

Models ReplicaManager.appendRecords, Partition.appendRecordsToLeader and DelayedProduce. Transaction
markers take the same way. Coordinators append here, too, and await the high watermark themselves.

A transactional request is verified first (:class:`TransactionVerification`, KIP-890).

A client above its quota is told how long to wait, in the answer (KIP-219).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeAlias

from kafkasim.model.effects import Close, Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.facts import BatchUnverified
from kafkasim.model.messages import ProducePartitionResponse, ProduceRequest, ProduceResponse
from kafkasim.model.records import COORDINATOR_TOPICS, NO_TIMESTAMP, RecordBatch, TopicPartition
from kafkasim.model.replication.ports import NoQuota, NoRequestQuota
from kafkasim.model.replication.requests.transactions.verification import (
    NOTHING_TO_VERIFY,
    Verified,
)
from kafkasim.model.storage.files import DiskError
from kafkasim.model.storage.log.validation import AppendOrigin

if TYPE_CHECKING:
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.partitions.leader_state import LeaderState
    from kafkasim.model.replication.partitions.partition import Partition
    from kafkasim.model.replication.partitions.role_locks import RoleLocks
    from kafkasim.model.replication.ports import BrokerProcess, ClientQuota, RequestQuota
    from kafkasim.model.replication.requests.purgatory import Purgatory
    from kafkasim.model.replication.requests.transactions.verification import (
        TransactionVerification,
    )
    from kafkasim.model.replication.rules import ReplicationRules
    from kafkasim.model.storage.log.producers.verification import VerificationStateEntry

NONE = Errors.NONE
VALID_ACKS = (-1, 1, 0)


class ProduceStatus:
    """The answer to one partition of a produce request, while it is not known for good."""

    __slots__ = (
        "base_offset",
        "current_leader",
        "error",
        "log_append_time_ms",
        "log_start_offset",
        "topic_id",
        "tp",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.error = NONE
        self.base_offset = -1
        self.log_append_time_ms = NO_TIMESTAMP
        self.log_start_offset = -1
        self.current_leader: tuple[int, int] | None = None  # KIP-951
        self.topic_id = ""  # of the log that has the batch

    def fail(self, error: Errors) -> None:
        """Answer with an error; the offset of what was appended stays (DelayedProduce)."""
        self.error = error


Answer: TypeAlias = Callable[[Request, list[ProduceStatus], int], None]
"""Answers a request with its statuses; the last is now."""


class LeaderAppend:
    """A batch in a leader's log: acks=all waits for a high watermark of at least ``required``."""

    __slots__ = ("leader", "partition", "required", "status")

    def __init__(
        self, partition: Partition, leader: LeaderState, required: int, status: ProduceStatus
    ) -> None:
        self.partition = partition
        self.leader = leader
        self.required = required
        self.status = status


class DelayedProduce:
    """A produce request with acks=all that waits for high watermarks."""

    __slots__ = ("_answer", "_hosted", "awaited", "deadline", "done", "item", "statuses")

    def __init__(
        self,
        item: Request,
        statuses: list[ProduceStatus],
        hosted: HostedPartitions,
        answer: Answer,
        now: int,
    ) -> None:
        self.item = item
        self.statuses = statuses
        self.deadline = 0
        self.done = False
        self.awaited: dict[TopicPartition, LeaderAppend] = {}
        self._hosted = hosted
        self._answer = answer

    def wait_for(self, append: LeaderAppend) -> None:
        """Wait for one more partition."""
        partition = append.partition
        self.awaited[partition.tp] = append
        partition.delayed.produces[self] = None

    def try_complete(self, tp: TopicPartition, now: int) -> None:
        """Complete a partition whose high watermark has come far enough."""
        awaited = self.awaited[tp]
        leader = awaited.leader
        if leader.log.high_watermark >= awaited.required:
            self._complete(tp, leader.rules.after_append_error(leader), now)

    def fail(self, tp: TopicPartition, error: Errors, now: int) -> None:
        """Complete a partition whose leadership is lost."""
        if error is Errors.NOT_LEADER_OR_FOLLOWER:
            self.awaited[tp].status.current_leader = self._hosted.current_leader(tp)
        self._complete(tp, error, now)

    def _complete(self, tp: TopicPartition, error: Errors, now: int) -> None:
        awaited = self.awaited.pop(tp)
        del awaited.partition.delayed.produces[self]
        if error is not NONE:
            awaited.status.fail(error)
        if not self.awaited:
            self.done = True
            self._answer(self.item, self.statuses, now)

    def expire(self, now: int) -> None:
        """Answer REQUEST_TIMED_OUT; what was appended may still be committed."""
        self.done = True
        for awaited in self.awaited.values():
            del awaited.partition.delayed.produces[self]
            awaited.status.fail(Errors.REQUEST_TIMED_OUT)
        self._answer(self.item, self.statuses, now)


class ProduceHandler:
    """Serves Produce, and the group coordinator's appends."""

    def __init__(
        self,
        process: BrokerProcess,
        rules: ReplicationRules,
        hosted: HostedPartitions,
        locks: RoleLocks,
        purgatory: Purgatory,
        verification: TransactionVerification,
    ) -> None:
        self._process = process
        self._rules = rules
        self._hosted = hosted
        self._locks = locks
        self._purgatory = purgatory
        self._verification = verification
        self.quota: ClientQuota = NoQuota()
        self.request_quota: RequestQuota = NoRequestQuota()

    def serve(self, item: Request, now: int) -> None:
        """Append to each partition, then answer or wait for high watermarks."""
        if self._locks.held and self._locks.put_aside(item):
            return
        request: ProduceRequest = item.message
        if request.acks not in VALID_ACKS:
            self._answer(item, [self._refused(data.tp) for data in request.partitions], now)
            return
        if request.transactional_id is None:
            outcome = NOTHING_TO_VERIFY
            for data in request.partitions:
                if data.batch.transactional:  # KafkaApis refuses the request as a whole
                    outcome = _unauthorized(request)
                    break
            self.append_records(item, request, AppendOrigin.CLIENT, self._answer, now, outcome)
            return

        def verified(outcome: Verified, at: int) -> None:
            if not self._locks.held or not self._locks.put_aside(item):
                self.append_records(item, request, AppendOrigin.CLIENT, self._answer, at, outcome)

        self._verification.verify_produce(request, verified, now)

    def _is_closed(self, tp: TopicPartition, verified: Verified) -> bool:
        """Return whether clients may not append to a partition that is here."""
        of_coordinator = tp.topic in COORDINATOR_TOPICS and tp not in verified.errors
        return of_coordinator or tp in self._hosted.unnamed

    def _refuse(self, status: ProduceStatus, tp: TopicPartition, of_client: bool) -> None:
        """Answer for a partition that is not here, or not for clients.

        The metadata cache lacks it (handleProduceRequest), or it is a coordinator's
        (appendToLocalLog; Kafka lets the client id ``__admin_client`` append).
        """
        known = tp not in self._hosted.unnamed and self._hosted.cache.knows_partition(tp)
        if of_client and not known:
            status.error = Errors.UNKNOWN_TOPIC_OR_PARTITION
            return
        if of_client and tp.topic in COORDINATOR_TOPICS:
            status.error = Errors.INVALID_TOPIC_EXCEPTION
            return
        status.error = self._hosted.error_of_missing(tp)
        status.current_leader = self._hosted.current_leader(tp)

    def append_records(
        self,
        item: Request,
        request: ProduceRequest,
        origin: AppendOrigin,
        answer: Answer,
        now: int,
        verified: Verified = NOTHING_TO_VERIFY,
    ) -> None:
        """Append to each partition; call ``answer`` at once or when the high watermarks are there
        (ReplicaManager.appendRecords).

        ``item`` is what the answer is for: a Produce or a WriteTxnMarkers request.
        """
        of_client = origin is AppendOrigin.CLIENT
        statuses: list[ProduceStatus] = []
        grown: list[Partition] = []
        waiting: DelayedProduce | None = None
        for data in request.partitions:
            tp = data.tp
            status = ProduceStatus(tp)
            statuses.append(status)
            partition = self._hosted.online.get(tp)
            if partition is None or (of_client and self._is_closed(tp, verified)):
                self._refuse(status, tp, of_client)
                continue
            guard = verified.guards.get(tp)
            if tp in verified.errors:
                status.error = verified.errors[tp]
                self._tell_unverified(partition, data.batch, guard, status.error)
                continue
            appended = self._append(partition, data.batch, request, origin, guard, status, now)
            if appended is None:
                continue
            grown.append(partition)
            if request.acks != -1:
                continue
            leader = appended.leader
            if leader.log.high_watermark >= appended.required:
                status.error = self._rules.after_append_error(leader)
                continue
            if waiting is None:
                waiting = DelayedProduce(item, statuses, self._hosted, answer, now)
            waiting.wait_for(appended)
        for partition in grown:
            partition.delayed.log_grew(now)
        if waiting is not None:
            self._purgatory.add(waiting, request.timeout_ms, now)
        else:
            answer(item, statuses, now)

    def _tell_unverified(
        self,
        partition: Partition,
        batch: RecordBatch,
        guard: VerificationStateEntry | None,
        error: Errors,
    ) -> None:
        """Tell of a batch about which the coordinator did not say yes, unless the question is out
        of date: the producer has appended meanwhile, or its transaction has ended."""
        if guard is None or not partition.log.producers.is_current(batch.producer_id, guard):
            return
        self._process.out.append(
            BatchUnverified(
                partition.topic_id,
                partition.tp.partition,
                partition.leader_epoch,
                batch.producer_id,
                batch.producer_epoch,
                batch.base_sequence,
                error.name,
            )
        )

    def _refused(self, tp: TopicPartition) -> ProduceStatus:
        """Refuse the acks of a request (ReplicaManager.appendRecords, isValidRequiredAcks).

        KafkaApis has looked for the partition in the metadata cache before.
        """
        status = ProduceStatus(tp)
        known = self._hosted.cache.knows_partition(tp)
        status.error = Errors.INVALID_REQUIRED_ACKS if known else Errors.UNKNOWN_TOPIC_OR_PARTITION
        return status

    def _append(
        self,
        partition: Partition,
        batch: RecordBatch,
        request: ProduceRequest,
        origin: AppendOrigin,
        guard: VerificationStateEntry | None,
        status: ProduceStatus,
        now: int,
    ) -> LeaderAppend | None:
        """Append one batch (Partition.appendRecordsToLeader); return None if it was refused."""
        leader = partition.leadership
        if leader is None:
            if partition.offline:
                status.error = Errors.KAFKA_STORAGE_ERROR
            else:
                status.error = Errors.NOT_LEADER_OR_FOLLOWER
                status.current_leader = (partition.leader_id, partition.leader_epoch)
            return None
        if request.acks == -1 and not self._rules.enough_replicas(leader):
            status.error = Errors.NOT_ENOUGH_REPLICAS
            return None
        try:
            version = request.transaction_version
            result = partition.append_as_leader(leader, batch, now, origin, version, guard)
        except DiskError as error:
            status.error = Errors.KAFKA_STORAGE_ERROR
            partition.mark_offline()
            self._process.log_dir_failed(error, now)
            return None
        if result.error is not NONE:
            status.error = result.error
            return None
        status.base_offset = result.base_offset
        status.log_append_time_ms = result.log_append_time_ms
        status.topic_id = partition.topic_id
        status.log_start_offset = partition.log.log_start_offset
        leader.advance_high_watermark(now)
        required = self._rules.required_offset(result.last_offset, result.duplicate)
        return LeaderAppend(partition, leader, required, status)

    def _answer(self, item: Request, statuses: list[ProduceStatus], now: int) -> None:
        """Send the answer; acks=0 has none, and an error there closes the connection."""
        process, quota, request = self._process, self.quota, item.message
        throttle_ms = 0
        if quota.enabled:
            user = process.peer_of(item.connection).user
            throttle_ms = max(
                quota.record(request.client_id, request.wire_size(), now, user),
                self.request_quota.record(item, now),
            )
        if request.acks != 0:
            parts = tuple([response_of(status) for status in statuses])
            response = ProduceResponse(parts, throttle_ms)
            if throttle_ms and not self._rules.answers_before_throttle():
                self._answer_late(item, ProduceResponse(parts), now + throttle_ms * 1000)
            else:
                answer = Respond(item.connection, item.correlation, response, throttle_ms)
                process.out.append(answer)
        elif any(status.error is not NONE for status in statuses):
            process.out.append(Close(item.connection))
        else:
            process.out.append(Respond(item.connection, item.correlation, None, throttle_ms))

    def _answer_late(self, item: Request, response: ProduceResponse, at: int) -> None:
        """Keep an answer for the throttle time (A10)."""
        process = self._process
        answer = Respond(item.connection, item.correlation, response)
        key = ("throttled", item.connection, item.correlation)
        process.timers.arm(key, at, process.default_lane, lambda _at: process.out.append(answer))

    def append_from_coordinator(
        self,
        tp: TopicPartition,
        batch: RecordBatch,
        now: int,
        transaction_version: int = 0,
        guard: VerificationStateEntry | None = None,
        acks: int = -1,
    ) -> tuple[Errors, int]:
        """Append a coordinator's batch; return the error and the offset after the batch, or −1.

        The coordinator answers its clients once the high watermark has reached that offset.
        ``transaction_version`` counts for a marker, ``guard`` for a transaction's offsets. With
        ``acks`` 0 too small an ISR is no error.
        """
        partition = self._hosted.online.get(tp)
        if partition is None:
            return self._hosted.error_of_missing(tp), -1
        leader = partition.leadership
        if leader is None:
            return partition.check_leader(-1), -1
        if acks == -1 and not self._rules.enough_replicas(leader):
            return Errors.NOT_ENOUGH_REPLICAS, -1
        try:
            origin = AppendOrigin.COORDINATOR
            result = partition.append_as_leader(
                leader, batch, now, origin, transaction_version, guard
            )
        except DiskError as error:
            partition.mark_offline()
            self._process.log_dir_failed(error, now)
            return Errors.KAFKA_STORAGE_ERROR, -1
        if result.error is not NONE:
            return result.error, -1
        leader.advance_high_watermark(now)
        partition.delayed.log_grew(now)
        return NONE, result.last_offset + 1


def _unauthorized(request: ProduceRequest) -> Verified:
    """Refuse a transaction's records that come without a transactional id."""
    error = Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    return Verified({data.tp: error for data in request.partitions}, {})


def response_of(status: ProduceStatus) -> ProducePartitionResponse:
    """Build one partition's part of the response."""
    return ProducePartitionResponse(
        status.tp,
        status.error,
        status.base_offset,
        status.log_append_time_ms,
        status.log_start_offset,
        status.current_leader,
        status.topic_id,
    )
