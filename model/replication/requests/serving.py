"""The hot paths of ReplicaManager: produce and fetch, and what wakes what.

    produce -> append -> followers' parked fetches -> followers append and fetch again
            -> high watermark -> parked produces, consumers' parked fetches

Nothing of an answer is built before it is sent; a partition without news answers with one shared
object. As in Kafka a fetch updates the follower's state only on its first read, and that answer
carries the high watermark from before the update.

Followers fetch in sessions (:mod:`kafkasim.model.replication.requests.session_serving`); fetches without one, such as
consumers', are served here, by followers too, up to their own high watermark (KIP-392).
Left out: quotas of clients.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeAlias

from kafkasim.model.effects import Close, Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    ProduceRequest,
)
from kafkasim.model.records import RecordBatch, TopicPartition
from kafkasim.model.replication.partition.partition import EMPTY, Partition
from kafkasim.model.replication.partition.selector import NO_PREFERENCE, preferred_read_replica
from kafkasim.model.replication.requests.purgatory import (
    DelayedFetch,
    DelayedProduce,
    ProduceStatus,
    Purgatory,
    produce_response,
)
from kafkasim.model.replication.requests.session_serving import SessionServing
from kafkasim.model.replication.requests.sessions import FINAL_EPOCH
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.image import BrokerImage
    from kafkasim.model.replication.logs.log_dirs import ReplicaDirectories
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.replication.rules import ReplicationRules

NONE = Errors.NONE

Read: TypeAlias = "tuple[Partition | None, int, FetchPartitionResponse | None]"
"""What one partition's read found: the high watermark from before any update, and its answer,
None where there is nothing new."""


class ReplicaServing(SessionServing):
    """Serves Produce and Fetch over the hosted partitions."""

    process: BrokerProcess
    config: BrokerConfig
    rules: ReplicationRules
    brokers: dict[int, BrokerImage]
    out: list[Any]
    purgatory: Purgatory
    partitions: dict[TopicPartition, Partition]
    selects_replicas: bool  # replica.selector.class is set
    settling: dict[TopicPartition, Partition]
    log_dirs: ReplicaDirectories

    # ------------------------------------------------------------------------------------ produce

    def produce(self, item: Request, now: int) -> None:
        """Serve a produce request: append, then answer or wait for high watermarks."""
        if self.settling and self.hold(item):
            return
        request: ProduceRequest = item.message
        acks = request.acks
        statuses: list[ProduceStatus] = []
        appended: list[Partition] = []
        waiting: DelayedProduce | None = None
        for data in request.partitions:
            status = ProduceStatus(data.tp, NONE)
            partition = self.partitions.get(data.tp)
            index = len(statuses)
            statuses.append(status)
            if partition is None:
                status.error = self.unknown_partition(data.tp)
                status.current_leader = self.current_leader(data.tp)
                continue
            required = self._append(partition, data.batch, acks, status, now)
            if status.error is not NONE:
                continue
            appended.append(partition)
            if acks == -1 and required > partition.log.high_watermark:
                if waiting is None:
                    waiting = DelayedProduce(self, item, statuses, now)
                waiting.pending += 1
                waiting.partitions.append(partition)
                status.pending = True
                partition.waiting_produces[waiting] = (required, index)
            elif acks == -1:
                status.error = self.rules.after_append_error(partition)
        for partition in appended:
            partition.wake_followers(now)
        if waiting is not None:
            self.purgatory.add(waiting, request.timeout_ms, now)
        else:
            self.answer_produce(item, statuses, now, now)

    def _append(
        self, partition: Partition, batch: RecordBatch, acks: int, status: ProduceStatus, now: int
    ) -> int:
        """Append one batch (Partition.appendRecordsToLeader); return the offset acks=all needs."""
        if not partition.leading:
            if partition.offline:
                status.error = Errors.KAFKA_STORAGE_ERROR
            else:
                status.error = Errors.NOT_LEADER_OR_FOLLOWER
                status.current_leader = (partition.leader, partition.leader_epoch)
            return -1
        if acks == -1 and not self.rules.enough_replicas(partition):
            status.error = Errors.NOT_ENOUGH_REPLICAS
            return -1
        try:
            result = partition.append_as_leader(batch, now, "client")
        except DiskError as error:
            status.error = Errors.KAFKA_STORAGE_ERROR
            partition.mark_offline()
            self.process.log_dir_failed(error, now)
            return -1
        if result.error is not NONE:
            status.error = result.error
            return -1
        status.base_offset = result.base_offset
        status.log_start_offset = partition.log.log_start_offset
        if partition.advance_high_watermark(now):
            partition.wake(now)
        return self.rules.required_offset(partition, result.last_offset, result.duplicate)

    def answer_produce(
        self, item: Request, statuses: list[ProduceStatus], started: int, now: int
    ) -> None:
        """Send the answer; acks=0 has none, and an error there closes the connection."""
        failed = False
        for status in statuses:
            if status.error is not NONE:
                failed = True
        if item.message.acks != 0:
            response = produce_response(statuses)
            self.out.append(Respond(item.connection, item.correlation, response))
        elif failed:
            self.out.append(Close(item.connection))
        else:
            self.out.append(Respond(item.connection, item.correlation, None))
        self.process.count_request("Produce", failed, item.received_us, started, now)

    # -------------------------------------------------------------------------------------- fetch

    def fetch(self, item: Request, now: int) -> None:
        """Serve a fetch: read, take note of a follower's progress, answer or wait."""
        if self.settling and self.hold(item):
            return
        request: FetchRequest = item.message
        if request.session_epoch != FINAL_EPOCH:
            self.fetch_in_session(item, now)
            return
        urgent, total, reads = self._read_all(request, now)
        if (
            not urgent
            and total < request.min_bytes
            and (not total or self.available_bytes(request) < request.min_bytes)
        ):
            partitions = [partition for partition, _, _ in reads if partition is not None]
            waiting = DelayedFetch(self, item, request, partitions, now)
            waiting.park()
            self.purgatory.add(waiting, request.max_wait_ms, now)
            return
        found: list[FetchPartitionResponse] = []
        for partition, mark, answer in reads:
            if answer is None:
                assert partition is not None
                answer = partition.nothing_new(mark)
            found.append(answer)
        self._answer_fetch(item, found, now, now)

    def _read_all(self, request: FetchRequest, now: int) -> tuple[bool, int, list[Read]]:
        """First read: return whether to answer at once, the bytes read, and a Read a partition."""
        replica = request.replica_id
        replica_epoch = request.replica_epoch
        budget = request.max_bytes
        stale = False
        if replica < 0:
            budget = min(budget, self.config.fetch_max_bytes)
        else:
            stale = self.rules.is_stale_replica_epoch(self.brokers, replica, replica_epoch)
        total = 0
        urgent = request.max_wait_ms <= 0 or not request.partitions
        find = self.partitions.get
        isolation_level = request.isolation_level
        consumer_bound = self.rules.consumer_bound
        redirects = self.selects_replicas and replica < 0 and request.rack_id != ""
        reads: list[Read] = []
        for asked in request.partitions:
            partition = find(asked.tp)
            if partition is None:
                urgent = True
                reads.append((None, -1, self._unknown(asked)))
                continue
            log = partition.log
            mark = log.high_watermark
            answer = partition.check_fetch(asked, replica)
            if answer is None and stale:
                answer = partition.fetch_error(Errors.NOT_LEADER_OR_FOLLOWER)
            elif answer is None and redirects and partition.leading:
                answer = self._redirect(partition, asked, request)
            if answer is not None:
                urgent = True
                reads.append((partition, mark, answer))
                continue
            leader_end = bound = log.log_end_offset
            if replica < 0:
                bound = consumer_bound(log, isolation_level)
            if asked.fetch_offset < bound:
                min_one = total == 0
                answer, size = self._read(partition, asked, mark, bound, budget, min_one, now)
                total += size
                budget = max(0, budget - size)
            if answer is not None and answer.error is not NONE:
                urgent = True
                if replica >= 0:
                    partition.read_failed(replica)
            elif replica >= 0:
                partition.update_follower(asked, replica, replica_epoch, leader_end, now)
            reads.append((partition, mark, answer))
        return urgent, total, reads

    def _redirect(
        self, partition: Partition, asked: FetchPartition, request: FetchRequest
    ) -> FetchPartitionResponse | None:
        """Send a consumer to a replica of its own rack, if there is one (KIP-392)."""
        offset = asked.fetch_offset
        preferred = preferred_read_replica(partition, request.rack_id, offset)
        if preferred == NO_PREFERENCE:
            return None
        log = partition.log
        return FetchPartitionResponse(
            asked.tp,
            NONE,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            EMPTY,
            preferred_read_replica=preferred,
        )

    def _read(
        self,
        partition: Partition,
        asked: FetchPartition,
        mark: int,
        bound: int,
        budget: int,
        min_one: bool,
        now: int,
    ) -> tuple[FetchPartitionResponse | None, int]:
        """Read one partition; return its answer (None: nothing fits) and the bytes read."""
        log = partition.log
        limit = asked.partition_max_bytes
        if budget < limit:
            limit = budget
        try:
            batches = log.read(asked.fetch_offset, limit, bound, min_one)
        except DiskError as error:
            self.process.log_dir_failed(error, now)
            return partition.fetch_error(Errors.KAFKA_STORAGE_ERROR), 0
        if not batches:
            return None, 0
        size = 0
        for batch in batches:
            size += batch.size
        start = log.log_start_offset
        return FetchPartitionResponse(asked.tp, NONE, mark, mark, start, batches), size

    def answer_parked_fetch(
        self, item: Request, request: FetchRequest, started: int, now: int
    ) -> None:
        """Read again for a completed DelayedFetch and answer; followers' state stays as it is."""
        replica = request.replica_id
        budget = request.max_bytes
        answers: list[FetchPartitionResponse] = []
        total = 0
        find = self.partitions.get
        for asked in request.partitions:
            partition = find(asked.tp)
            if partition is None:
                answers.append(self._unknown(asked))
                continue
            log = partition.log
            mark = log.high_watermark
            if replica >= 0:
                bound = log.log_end_offset
            else:
                bound = log.last_stable_offset if request.isolation_level else mark
            if (
                asked.fetch_offset == bound
                and partition.leading
                and asked.current_leader_epoch == partition.leader_epoch
            ):
                answer = partition.empty_answer
                if (
                    answer is None
                    or answer.high_watermark != mark
                    or answer.log_start_offset != log.log_start_offset
                ):
                    answer = partition.nothing_new(mark)
                answers.append(answer)
                continue
            answer = partition.check_fetch(asked, replica)
            if answer is None and asked.fetch_offset < bound:
                answer, size = self._read(partition, asked, mark, bound, budget, total == 0, now)
                total += size
                budget = max(0, budget - size)
            answers.append(partition.nothing_new(mark) if answer is None else answer)
        self._answer_fetch(item, answers, started, now)

    def _answer_fetch(
        self, item: Request, answers: list[FetchPartitionResponse], started: int, now: int
    ) -> None:
        failed = False
        for answer in answers:
            if answer.error is not NONE:
                failed = True
        self.out.append(
            Respond(item.connection, item.correlation, FetchResponse(NONE, tuple(answers)))
        )
        api = "FetchFollower" if item.message.replica_id >= 0 else "FetchConsumer"
        self.process.count_request(api, failed, item.received_us, started, now)

    def available_bytes(self, request: FetchRequest) -> int:
        """Return what a parked fetch could read now, up to its ``min_bytes``."""
        total = 0
        for asked in request.partitions:
            partition = self.partitions.get(asked.tp)
            if partition is None or partition.check_fetch(asked, request.replica_id) is not None:
                return request.min_bytes  # an error answers at once
            log = partition.log
            if request.replica_id >= 0:
                bound = log.log_end_offset
            else:
                bound = log.last_stable_offset if request.isolation_level else log.high_watermark
            if asked.fetch_offset < bound:
                if log.segment_index(asked.fetch_offset) < log.segment_index(bound):
                    return request.min_bytes  # a read ends with its segment: nothing to wait for
                missing = min(asked.partition_max_bytes, request.min_bytes - total)
                for batch in log.read(asked.fetch_offset, missing, bound):
                    total += batch.size
                if total >= request.min_bytes:
                    break
        return total

    def hold(self, item: Request) -> bool:
        """Keep a request that touches a partition whose leadership is not durable yet."""
        raise NotImplementedError

    # ------------------------------------------------------------------------------------- errors

    def unknown_partition(self, tp: TopicPartition) -> Errors:
        """Return the error for a partition that this broker does not host."""
        if tp in self.log_dirs.offline:
            return Errors.KAFKA_STORAGE_ERROR
        if self.process.knows_partition(tp):
            return Errors.NOT_LEADER_OR_FOLLOWER
        return Errors.UNKNOWN_TOPIC_OR_PARTITION

    def current_leader(self, tp: TopicPartition) -> tuple[int, int] | None:
        """Return leader and epoch for an answer (KIP-951): the replica's, else the metadata's."""
        partition = self.partitions.get(tp)
        if partition is not None:
            return partition.leader, partition.leader_epoch
        return self.process.cached_leader(tp)

    def _unknown(self, asked: FetchPartition) -> FetchPartitionResponse:
        error = self.unknown_partition(asked.tp)
        leader = self.current_leader(asked.tp)
        return FetchPartitionResponse(asked.tp, error, -1, -1, -1, EMPTY, None, leader)
