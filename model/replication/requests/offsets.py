"""ListOffsets and OffsetsForLeaderEpoch, a partition at a time.

Models Partition.fetchOffsetForTimestamp and Partition.lastOffsetForLeaderEpoch.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    CONSUMER_REPLICA_ID,
    DEBUGGING_REPLICA_ID,
    EARLIEST_LOCAL_TIMESTAMP,
    EARLIEST_TIMESTAMP,
    LATEST_TIERED_TIMESTAMP,
    LATEST_TIMESTAMP,
    MAX_TIMESTAMP,
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    OffsetForLeaderEpochPartition,
)

if TYPE_CHECKING:
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.partitions.partition import Partition
    from kafkasim.model.replication.rules import ReplicationRules
    from kafkasim.model.storage.log.unified_log import UnifiedLog

NONE = Errors.NONE


class OffsetQueries:
    """Answers where a leader's log has an offset for a timestamp or for the end of an epoch."""

    def __init__(self, hosted: HostedPartitions, rules: ReplicationRules) -> None:
        self._hosted = hosted
        self._rules = rules

    def list_offsets(self, request: ListOffsetsRequest) -> tuple[ListOffsetsPartitionResponse, ...]:
        """Answer ListOffsets; a partition that stands twice is refused."""
        times = Counter([asked.tp for asked in request.partitions])
        answered = request.partitions
        if self._rules.answers_once():
            answered = tuple({each.tp: each for each in request.partitions}.values())
        return tuple(
            [
                self.list_offset(request, asked)
                if times[asked.tp] == 1
                else _offset_error(asked, Errors.INVALID_REQUEST)
                for asked in answered
            ]
        )

    def list_offset(
        self, request: ListOffsetsRequest, asked: ListOffsetsPartition
    ) -> ListOffsetsPartitionResponse:
        """Answer one partition of ListOffsets; offset −1 where no record is young enough.

        The order of the checks is that of ReplicaManager.fetchOffset. A consumer gets
        OFFSET_NOT_AVAILABLE for what a new leader cannot know yet: how much the leader before it
        had exposed (KIP-207). A debugging replica (−2) is answered by followers, too.
        """
        tp, timestamp = asked.tp, asked.timestamp
        if timestamp < LATEST_TIERED_TIMESTAMP:  # isListOffsetsTimestampUnsupported
            return _offset_error(asked, Errors.UNSUPPORTED_VERSION)
        only_leader = request.replica_id != DEBUGGING_REPLICA_ID
        partition, error = self._partition(asked, only_leader)
        if partition is None:
            return _offset_error(asked, error)
        if partition.untold:
            partition.tell_read("ListOffsets", request.replica_id, only_leader)
        log, leader = partition.log, partition.leadership
        if timestamp in (EARLIEST_TIMESTAMP, EARLIEST_LOCAL_TIMESTAMP):
            start = log.log_start_offset
            return ListOffsetsPartitionResponse(tp, NONE, -1, start, log.epochs.epoch_for(start))
        if timestamp == LATEST_TIERED_TIMESTAMP:  # nothing is tiered
            return _offset_error(asked, NONE)
        end, unavailable = log.log_end_offset, False
        if request.replica_id == CONSUMER_REPLICA_ID:
            # Not the rule consumer_bound: its fault is in positions, which only reads use.
            end = log.last_stable_offset if request.isolation_level else log.high_watermark
            unavailable = leader is not None and log.high_watermark < leader.leader_epoch_start
        if timestamp == LATEST_TIMESTAMP and not unavailable:
            return ListOffsetsPartitionResponse(tp, NONE, -1, end, partition.leader_epoch)
        found = None
        if timestamp == MAX_TIMESTAMP:
            found = _of_max_timestamp(log)
        elif timestamp >= 0:
            found = log.local.offset_for_timestamp(timestamp, log.log_start_offset)
        if found is None or found[1] >= end:
            return _offset_error(asked, Errors.OFFSET_NOT_AVAILABLE if unavailable else NONE)
        epoch = log.epochs.epoch_for(found[1])
        return ListOffsetsPartitionResponse(tp, NONE, found[0], found[1], epoch)

    def epoch_end_offset(self, asked: OffsetForLeaderEpochPartition) -> EpochEndOffset:
        """Answer one partition of OffsetsForLeaderEpoch."""
        partition, error = self._partition(asked, True)
        if partition is None:
            return EpochEndOffset(asked.tp, error, -1, -1)
        if partition.untold:
            partition.tell_read("OffsetForLeaderEpoch", CONSUMER_REPLICA_ID, True)
        log = partition.log
        found = log.epochs.end_offset_for(asked.leader_epoch, log.log_end_offset)
        epoch, end = self._rules.lookup_reply(*found)
        return EpochEndOffset(asked.tp, NONE, epoch, end)

    def _partition(
        self, asked: ListOffsetsPartition | OffsetForLeaderEpochPartition, only_leader: bool
    ) -> tuple[Partition | None, Errors]:
        """Return the partition that answers, or None and why it does not."""
        partition = self._hosted.online.get(asked.tp)
        if partition is None:
            return None, self._hosted.error_of_missing(asked.tp)
        error = partition.check_leader(asked.current_leader_epoch, only_leader)
        return (partition, NONE) if error is NONE else (None, error)


def _of_max_timestamp(log: UnifiedLog) -> tuple[int, int] | None:
    """Return (timestamp, offset) of the first of the youngest records (fetchOffsetByTimestamp)."""
    segment = max(log.local.segments, key=lambda each: each.largest_timestamp_ms)
    return segment.find_timestamp(segment.largest_timestamp_ms, 0)


def _offset_error(asked: ListOffsetsPartition, error: Errors) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(asked.tp, error, -1, -1, -1)
