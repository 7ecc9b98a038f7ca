"""What OffsetCommit and TxnOffsetCommit share: the check of the committer, and the records."""

from __future__ import annotations

from typing import TypeAlias

from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.group import ClassicGroup, ClassicGroupState
from kafkasim.model.group.records import OffsetCommitValue, offset_commit_record
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.messages import OffsetCommitRequest, TxnOffsetCommitRequest
from kafkasim.model.records import Record, TopicPartition

NONE = Errors.NONE
Commit: TypeAlias = OffsetCommitRequest | TxnOffsetCommitRequest


def validate_offset_commit(
    rules: GroupRules, group: ClassicGroup, request: Commit, transactional: bool
) -> Errors:
    """Return why a classic group refuses a commit, or NONE (ClassicGroup.validateOffsetCommit).

    A transaction's commit may come without a member (from a client before KIP-447), and in any
    state of the group.
    """
    generation, instance_id = request.generation_id, request.group_instance_id
    if group.state is ClassicGroupState.DEAD:
        return Errors.COORDINATOR_NOT_AVAILABLE
    if generation < 0 and group.state is ClassicGroupState.EMPTY:
        return NONE
    if generation < 0 and not request.member_id and instance_id is None:
        return NONE if transactional else Errors.UNKNOWN_MEMBER_ID
    error = rules.check_committer(group, request.member_id, instance_id)
    if error is NONE:
        error = rules.check_generation(group, generation)
    if error is NONE and not transactional and not rules.accepts_commit_in_state(group.state):
        error = Errors.REBALANCE_IN_PROGRESS
    return error


def offset_records(
    request: Commit, metadata_max_bytes: int, now_ms: int
) -> tuple[list[Record], tuple[tuple[TopicPartition, Errors], ...]]:
    """Return the records of a commit, and what each of its partitions is answered.

    An offset whose metadata is longer than offset.metadata.max.bytes has no record.
    """
    records: list[Record] = []
    results: list[tuple[TopicPartition, Errors]] = []
    for tp, offset, leader_epoch, metadata in request.offsets:
        if len(metadata) > metadata_max_bytes:
            results.append((tp, Errors.OFFSET_METADATA_TOO_LARGE))
            continue
        value = OffsetCommitValue(offset, leader_epoch, metadata, now_ms)
        records.append(offset_commit_record(request.group_id, tp, value, len(records), now_ms))
        results.append((tp, NONE))
    return records, tuple(results)
