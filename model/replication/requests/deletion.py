"""DeleteRecords (KIP-107): the leader raises its log start; done when every live replica followed.

Followers hear of the new start in their next fetch replies and report theirs in the fetches after,
so a request waits as DelayedDeleteRecords until the smallest log start of the live replicas, the
*low watermark*, has reached the offset.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.effects import Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.replication.manager import ReplicaManager
    from kafkasim.model.replication.partition.partition import Partition

NONE = Errors.NONE
HIGH_WATERMARK = -1


class DelayedDeleteRecords:
    """A request that waits for followers' log starts."""

    __slots__ = ("deadline", "deletion", "done", "item", "results", "started", "waiting")

    def __init__(self, deletion: RecordDeletion, item: Request, now: int) -> None:
        self.deletion = deletion
        self.item = item
        self.started = now
        self.deadline = 0
        self.done = False
        self.results: dict[TopicPartition, DeleteRecordsPartitionResult] = {}
        self.waiting: dict[TopicPartition, tuple[Partition, int]] = {}  # with the offset to reach

    def check(self, partition: Partition, now: int) -> None:
        """A follower of ``partition`` reported another log start, or leadership is lost."""
        tp = partition.tp
        low = self.deletion.low_watermark(partition)
        if not partition.leading:
            error = Errors.KAFKA_STORAGE_ERROR if partition.offline else NOT_LEADER
        elif low >= self.waiting[tp][1]:
            error = NONE
        else:
            return
        del partition.waiting_deletes[self]
        del self.waiting[tp]
        self.results[tp] = DeleteRecordsPartitionResult(tp, error, -1 if error else low)
        if not self.waiting:
            self.done = True
            self.deletion.answer(self, now)

    def expire(self, now: int) -> None:
        """The request's timeout is over; the log starts stay where they are."""
        self.done = True
        for tp, (partition, _) in self.waiting.items():
            del partition.waiting_deletes[self]
            timed_out = DeleteRecordsPartitionResult(tp, Errors.REQUEST_TIMED_OUT, -1)
            self.results[tp] = timed_out
        self.waiting.clear()
        self.deletion.answer(self, now)


NOT_LEADER = Errors.NOT_LEADER_OR_FOLLOWER


class RecordDeletion:
    """Serves DeleteRecords over the hosted partitions (ReplicaManager.deleteRecords)."""

    def __init__(self, manager: ReplicaManager) -> None:
        self.manager = manager

    def serve(self, item: Request, now: int) -> None:
        """Raise the log starts, then answer or wait for the followers."""
        request: DeleteRecordsRequest = item.message
        waiting = DelayedDeleteRecords(self, item, now)
        for tp, offset in request.partitions:
            error, reached = self._delete(tp, offset)
            low = -1
            if error is NONE:
                partition = self.manager.partitions[tp]
                low = self.low_watermark(partition)
                if low < reached:
                    waiting.waiting[tp] = (partition, reached)
                    partition.waiting_deletes[waiting] = reached
            waiting.results[tp] = DeleteRecordsPartitionResult(tp, error, low)
        if waiting.waiting:
            self.manager.purgatory.add(waiting, request.timeout_ms, now)
        else:
            self.answer(waiting, now)

    def _delete(self, tp: TopicPartition, offset: int) -> tuple[Errors, int]:
        """Return the error, or the offset that the low watermark must reach."""
        partition = self.manager.partitions.get(tp)
        if tp.topic.startswith("__"):
            return Errors.INVALID_TOPIC_EXCEPTION, -1
        if partition is None:
            return self.manager.unknown_partition(tp), -1
        error = partition.check_leader(-1)
        if error is not NONE:
            return error, -1
        log = partition.log
        if "delete" not in log.config.cleanup_policy:
            return Errors.POLICY_VIOLATION, -1
        if offset == HIGH_WATERMARK:
            offset = log.high_watermark
        if not 0 <= offset <= log.high_watermark:
            return Errors.OFFSET_OUT_OF_RANGE, -1
        if log.raise_log_start(offset, "delete-records"):
            partition.changed()
        return NONE, offset

    def low_watermark(self, partition: Partition) -> int:
        """Return the smallest log start of the live replicas (lowWatermarkIfLeader)."""
        low = partition.log.log_start_offset
        for replica, remote in partition.remotes.items():
            broker = partition.brokers.get(replica)
            if broker is not None and not broker.fenced:
                low = min(low, remote.log_start_offset)
        return low

    def answer(self, operation: DelayedDeleteRecords, now: int) -> None:
        """Send the answer, in the order of the request."""
        item = operation.item
        results = tuple([operation.results[tp] for tp, _ in item.message.partitions])
        self.manager.out.append(
            Respond(item.connection, item.correlation, DeleteRecordsResponse(results))
        )
        failed = any(result.error is not NONE for result in results)
        self.manager.process.count_request(
            "DeleteRecords", failed, item.received_us, operation.started, now
        )
