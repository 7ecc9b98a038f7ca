"""ListOffsets and OffsetsForLeaderEpoch, a partition at a time.

Models Partition.fetchOffsetForTimestamp and Partition.lastOffsetForLeaderEpoch.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    OffsetForLeaderEpochPartition,
)

if TYPE_CHECKING:
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.partitions.leader_state import LeaderState
    from kafkasim.model.replication.rules import ReplicationRules

NONE = Errors.NONE


class OffsetQueries:
    """Answers where a leader's log has an offset for a timestamp or for the end of an epoch."""

    def __init__(self, hosted: HostedPartitions, rules: ReplicationRules) -> None:
        self._hosted = hosted
        self._rules = rules

    def list_offset(
        self, request: ListOffsetsRequest, asked: ListOffsetsPartition
    ) -> ListOffsetsPartitionResponse:
        """Answer one partition of ListOffsets; offset −1 where no record is young enough.

        A consumer gets OFFSET_NOT_AVAILABLE for what a new leader cannot know yet: how much the
        leader before it had exposed (KIP-207).
        """
        leader, error = self._leader(asked)
        if leader is None:
            return _offset_error(asked, error)
        log = leader.log
        timestamp = asked.timestamp
        if timestamp == EARLIEST_TIMESTAMP:
            start = log.log_start_offset
            epoch = log.epochs.epoch_for(start)
            return ListOffsetsPartitionResponse(asked.tp, NONE, -1, start, epoch)
        consumer = request.replica_id < 0
        end = log.log_end_offset
        if consumer:  # not the rule consumer_bound: its fault is in positions, which only reads use
            end = log.last_stable_offset if request.isolation_level else log.high_watermark
        latest = timestamp == LATEST_TIMESTAMP
        found = (-1, end) if latest else log.offset_for_timestamp(timestamp)
        if consumer:
            beyond = found is not None and found[1] >= end
            if log.high_watermark < leader.leader_epoch_start and (latest or beyond):
                return _offset_error(asked, Errors.OFFSET_NOT_AVAILABLE)
            if beyond and timestamp >= 0:
                found = None
        if found is None:
            return _offset_error(asked, NONE)
        epoch = log.epochs.epoch_for(found[1]) if timestamp >= 0 else leader.leader_epoch
        return ListOffsetsPartitionResponse(asked.tp, NONE, found[0], found[1], epoch)

    def epoch_end_offset(self, asked: OffsetForLeaderEpochPartition) -> EpochEndOffset:
        """Answer one partition of OffsetsForLeaderEpoch."""
        leader, error = self._leader(asked)
        if leader is None:
            return EpochEndOffset(asked.tp, error, -1, -1)
        log = leader.log
        found = log.epochs.end_offset_for(asked.leader_epoch, log.log_end_offset)
        epoch, end = self._rules.lookup_reply(*found)
        return EpochEndOffset(asked.tp, NONE, epoch, end)

    def _leader(
        self, asked: ListOffsetsPartition | OffsetForLeaderEpochPartition
    ) -> tuple[LeaderState | None, Errors]:
        """Return the leader that answers, or None and why it does not."""
        partition = self._hosted.online.get(asked.tp)
        if partition is None:
            return None, self._hosted.error_of_missing(asked.tp)
        error = partition.check_leader(asked.current_leader_epoch)
        return (partition.leadership, NONE) if error is NONE else (None, error)


def _offset_error(asked: ListOffsetsPartition, error: Errors) -> ListOffsetsPartitionResponse:
    return ListOffsetsPartitionResponse(asked.tp, error, -1, -1, -1)
