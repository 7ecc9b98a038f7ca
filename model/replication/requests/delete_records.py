"""DeleteRecords (KIP-107): the leader raises its log start and waits for all live replicas.

The leader's next fetch responses carry the new log start to the followers, and their fetches after
that report theirs. A request waits as DelayedDeleteRecords until the *low watermark*, the smallest
log start of the live replicas, has reached the offset.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkasim.model.effects import Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    DeleteRecordsPartitionResult,
    DeleteRecordsRequest,
    DeleteRecordsResponse,
)
from kafkasim.model.records import COORDINATOR_TOPICS, TopicPartition
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.partitions.leader_state import LeaderState
    from kafkasim.model.replication.partitions.partition import Partition
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.replication.requests.purgatory import Purgatory

NONE = Errors.NONE
INTERNAL_TIMEOUT_MS = 30000  # of a coordinator
HIGH_WATERMARK = -1
"""The offset of a request that means the high watermark."""


def low_watermark(leader: LeaderState) -> int:
    """Return the smallest log start of the live replicas (lowWatermarkIfLeader)."""
    low = leader.log.log_start_offset
    for replica, remote in leader.remotes.items():
        broker = leader.brokers.get(replica)
        if broker is not None and not broker.fenced:
            low = min(low, remote.log_start_offset)
    return low


class DelayedDeleteRecords:
    """A request that waits for followers' log starts."""

    __slots__ = ("_answer", "awaited", "deadline", "done", "item", "results")

    def __init__(self, item: Request, answer: Callable[[DelayedDeleteRecords, int], None]) -> None:
        self.item = item
        self.deadline = 0
        self.done = False
        self.results: dict[TopicPartition, DeleteRecordsPartitionResult] = {}
        self.awaited: dict[TopicPartition, tuple[Partition, int]] = {}  # with the offset to reach
        self._answer = answer

    def wait_for(self, partition: Partition, offset: int) -> None:
        """Wait until the low watermark of one more partition reaches ``offset``."""
        self.awaited[partition.tp] = (partition, offset)
        partition.delayed.deletes[self] = None

    def try_complete(self, tp: TopicPartition, now: int) -> None:
        """Complete a partition that has come far enough, or whose leadership is lost."""
        partition, offset = self.awaited[tp]
        leader = partition.leadership
        if leader is None:
            offline = partition.offline
            error = Errors.KAFKA_STORAGE_ERROR if offline else Errors.NOT_LEADER_OR_FOLLOWER
            self.results[tp] = DeleteRecordsPartitionResult(tp, error, -1)
        else:
            low = low_watermark(leader)
            if low < offset:
                return
            self.results[tp] = DeleteRecordsPartitionResult(tp, NONE, low)
        del partition.delayed.deletes[self]
        del self.awaited[tp]
        if not self.awaited:
            self.done = True
            self._answer(self, now)

    def expire(self, now: int) -> None:
        """Answer REQUEST_TIMED_OUT; the log starts stay where they are."""
        self.done = True
        for tp, (partition, _) in self.awaited.items():
            del partition.delayed.deletes[self]
            self.results[tp] = DeleteRecordsPartitionResult(tp, Errors.REQUEST_TIMED_OUT, -1)
        self._answer(self, now)


class RecordDeletion:
    """Serves DeleteRecords (ReplicaManager.deleteRecords)."""

    def __init__(
        self, process: BrokerProcess, hosted: HostedPartitions, purgatory: Purgatory
    ) -> None:
        self._process = process
        self._hosted = hosted
        self._purgatory = purgatory

    def serve(self, item: Request, now: int) -> None:
        """Raise the log starts, then answer or wait for the followers."""
        self._serve(item, self._answer, False, now)

    def delete_internal(
        self, tp: TopicPartition, offset: int, done: Callable[[Errors, int], None], now: int
    ) -> None:
        """Delete the records of a coordinator's topic below an offset, then call
        ``done(error, now)`` (CoordinatorPartitionWriter.deleteRecords)."""
        request = DeleteRecordsRequest(((tp, offset),), INTERNAL_TIMEOUT_MS)

        def answer(operation: DelayedDeleteRecords, at: int) -> None:
            done(operation.results[tp].error, at)

        self._serve(Request(-1, -1, request, now), answer, True, now)

    def _serve(
        self,
        item: Request,
        answer: Callable[[DelayedDeleteRecords, int], None],
        internal: bool,
        now: int,
    ) -> None:
        request: DeleteRecordsRequest = item.message
        waiting = DelayedDeleteRecords(item, answer)
        for tp, offset in request.partitions:
            partition = self._hosted.online.get(tp)
            error, reached = NONE if internal else self._refusal(tp), -1
            if error is NONE:
                error, reached = self._delete(tp, partition, offset, now)
            low = -1
            leader = None if partition is None else partition.leadership
            if error is NONE and partition is not None and leader is not None:
                low = low_watermark(leader)
                if low < reached:
                    waiting.wait_for(partition, reached)
            waiting.results[tp] = DeleteRecordsPartitionResult(tp, error, low)
        if waiting.awaited:
            self._purgatory.add(waiting, request.timeout_ms, now)
        else:
            answer(waiting, now)

    def _refusal(self, tp: TopicPartition) -> Errors:
        """Return why a client may not delete records of a partition, or NONE.

        The metadata cache lacks it (handleDeleteRecordsRequest), or it is a coordinator's
        (deleteRecordsOnLocalLog).
        """
        if tp in self._hosted.unnamed or not self._hosted.cache.knows_partition(tp):
            return Errors.UNKNOWN_TOPIC_OR_PARTITION
        return Errors.INVALID_TOPIC_EXCEPTION if tp.topic in COORDINATOR_TOPICS else NONE

    def _delete(
        self, tp: TopicPartition, partition: Partition | None, offset: int, now: int
    ) -> tuple[Errors, int]:
        """Return the error, or the offset that the low watermark must reach."""
        if partition is None:
            return self._hosted.error_of_missing(tp), -1
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
        try:
            moved = log.raise_log_start(offset, "delete-records")
        except DiskError as failure:  # of the epochs' checkpoint
            self._process.log_dir_failed(failure, now)
            return Errors.KAFKA_STORAGE_ERROR, -1
        if moved:
            partition.delayed.mark_dirty()
        return NONE, offset

    def _answer(self, operation: DelayedDeleteRecords, now: int) -> None:
        """Send the answer, in the order of the request."""
        item = operation.item
        results = tuple([operation.results[tp] for tp, _ in item.message.partitions])
        response = DeleteRecordsResponse(results)
        self._process.out.append(Respond(item.connection, item.correlation, response))
