"""How the Scala coordinator removes offsets and groups (GroupMetadataManager.cleanupGroupMetadata).

It forgets first and writes the tombstones afterwards, with acks=0 and whatever becomes of them.
When the append fails, the next coordinator finds in the log what this one has forgotten. The
coordinator of 4.0 appends first; that is in membership.py and offsets.py.

An empty group that has lost its last offset is DEAD. It leaves the cache at once, unless the
partition is offline on this broker. Then it stays until a later cleanup finds the partition online,
or the broker resigns, and requests about it get COORDINATOR_NOT_AVAILABLE.
"""

from __future__ import annotations

from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.group.classic.group import ClassicGroup, ClassicGroupState
from kafkasim.model.group.classic.rebalance import ClassicRebalance
from kafkasim.model.group.records import group_record, offset_commit_record
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.records import TopicPartition

DEAD, EMPTY = ClassicGroupState.DEAD, ClassicGroupState.EMPTY


class ScalaCleanup:
    """Removes what has expired, or what an operator deletes."""

    def __init__(self, runtime: CoordinatorRuntime, rebalance: ClassicRebalance) -> None:
        self._runtime = runtime
        self._rebalance = rebalance

    def clean(
        self,
        shard: GroupShard,
        group: ClassicGroup,
        gone: list[TopicPartition],
        reason: str,
        now: int,
    ) -> None:
        """Remove offsets, and the group if it is empty and has none left."""
        stored = [tp for tp in gone if shard.latest(group.group_id, tp) is not None]
        shard.forget_offsets(group.group_id, gone)
        if group.state is EMPTY and not shard.has_offsets(group.group_id):
            self.end(group, reason, now)
        if self._runtime.log.is_online(shard.context.tp):
            self._write(shard, group, stored, now)

    def end(self, group: ClassicGroup, reason: str, now: int) -> None:
        """Make an empty group DEAD."""
        group.transition_to(DEAD, self._runtime.wall_ms(now))
        self._rebalance.trace.record_dead(group, reason)

    def _write(
        self, shard: GroupShard, group: ClassicGroup, stored: list[TopicPartition], now: int
    ) -> None:
        """Drop a dead group from the cache, and append the tombstones.

        A group of generation 0 has offsets only and no record of its own.
        """
        group_id, wall_ms = group.group_id, self._runtime.wall_ms(now)
        tombstones = [
            offset_commit_record(group_id, tp, None, i, wall_ms) for i, tp in enumerate(stored)
        ]
        if group.state is DEAD:
            shard.remove_classic(group_id)
            self._rebalance.cancel_timers(group)
            if group.generation > 0:
                tombstones.append(group_record(group_id, None, len(tombstones), wall_ms))
        if tombstones:
            self._runtime.append_unacknowledged(shard.context, tuple(tombstones), now)
