"""Appends the records of share groups, applies them, and tells the trace of it."""

from __future__ import annotations

from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ShareGroupState
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.group.share.log.records import Entry, records_of
from kafkasim.model.group.share.log.state import ShareGroup


class ShareGroupWriter:
    """Writes share groups, and the facts about their members."""

    def __init__(self, runtime: CoordinatorRuntime) -> None:
        self.runtime = runtime

    def write(
        self, shard: GroupShard, group_id: str, entries: list[Entry], reason: str, now: int
    ) -> Errors:
        """Append and apply the records of one group; on an error nothing has changed."""
        if not entries:
            return Errors.NONE
        now_ms = self.runtime.wall_ms(now)
        records = records_of(entries, now_ms)
        error = self.runtime.append(shard.context, records, now)
        if error is not Errors.NONE:
            return error
        before = _seen(shard.share_groups.get(group_id))
        for record in records:
            shard.replay(record, shard.context.last_written, now_ms)
        if _seen(shard.share_groups.get(group_id)) != before:
            self.record(shard, group_id, reason)
        return error

    def record(self, shard: GroupShard, group_id: str, reason: str) -> None:
        """Write what a group is now; ``Dead`` stands for one that is gone."""
        group = shard.share_groups.get(group_id)
        if group is None:
            fact = ShareGroupState(group_id, "Dead", 0, (), reason)
        else:
            members, state = tuple(group.members), group.state.value
            fact = ShareGroupState(group_id, state, group.group_epoch, members, reason)
        self.runtime.out.append(fact)


def _seen(group: ShareGroup | None) -> tuple[object, ...]:
    if group is None:
        return ()
    return (group.group_epoch, tuple(group.members))
