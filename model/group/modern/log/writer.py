"""Appends the records of consumer groups and applies them: append first, then replay.

Every change of a consumer group is a list of records, worked out from a state that is not touched
meanwhile. The list is appended as a whole or not at all, to the log or to the open batch. Kafka
replays it first, into timelines that go back to a snapshot if the append fails. Here the append
comes first; only when an open batch is lost there is something to undo (unflushed.py).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable

from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.errors import Errors
from kafkasim.model.facts import GroupAssigned, GroupConverted, GroupState
from kafkasim.model.group.classic.group import ClassicGroup, ClassicMember
from kafkasim.model.group.modern.log.records import Entry, records_of
from kafkasim.model.group.modern.state.assignment import partitions_of, union
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.modern.state.subscriptions import preferred_assignor
from kafkasim.model.group.modern.state.topics import TopicsImage
from kafkasim.model.group.shard import GroupShard

REVERTED = "reverted"
"""Why a group is what it was: the batch with its change could not be appended."""

Owned = dict[str, tuple[tuple[str, int], ...]]
"""Member id to its partitions, each by topic id and number."""


class Change:
    """The records of one change of a group, and what follows once they are appended."""

    __slots__ = ("converts_to", "entries", "replaces", "then")

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries = list(entries)
        self.then: list[Callable[[int], None]] = []
        self.converts_to = ""  # classic or consumer, if members stay in it under another protocol
        self.replaces: ClassicGroup | None = None  # an empty group that is deleted by it


class ConsumerGroupWriter:
    """Writes consumer groups, and the facts about what became of them.

    The fact that a group has changed comes with the write. The facts of who owns what come when the
    write is committed: until then another leader's log may replace it.
    """

    def __init__(self, runtime: CoordinatorRuntime, image: TopicsImage, assignor: str) -> None:
        """``assignor`` is the default one."""
        self.runtime = runtime
        self.image = image
        self.assignor = assignor
        self._uncommitted: dict[int, deque[tuple[int, list[GroupAssigned]]]] = {}  # by partition

    def write(
        self, shard: GroupShard, group_id: str, change: Change, reason: str, now: int
    ) -> Errors:
        """Append and apply the records of one group; on an error nothing has changed."""
        if not change.entries:
            return Errors.NONE
        now_ms = self.runtime.wall_ms(now)
        records = records_of(change.entries, now_ms)
        error = self.runtime.append(shard.context, records, now)
        if error is not Errors.NONE:
            return error
        before = self._seen(shard, group_id)
        for record in records:
            shard.replay(record, shard.context.last_written, now_ms)
        if change.replaces is not None:
            dead = change.replaces
            known = GroupState(group_id, "Dead", dead.generation, (), dead.protocol or "", reason)
            self.runtime.out.append(known)
        if change.converts_to:
            self.runtime.out.append(GroupConverted(group_id, change.converts_to, reason))
        if change.converts_to != "classic":
            self._record_changes(shard, group_id, before, reason)
        for follow in change.then:
            follow(now)
        return error

    def on_reverted(
        self,
        shard: GroupShard,
        group_id: str,
        classic: ClassicGroup | None,
        modern: ConsumerGroup | None,
    ) -> None:
        """Write what became of a group whose last change could not be appended.

        ``classic`` and ``modern`` are what it was by that change.
        """
        waiting = self._uncommitted.get(shard.context.partition)
        while waiting and waiting[-1][0] > shard.context.last_written:
            waiting.pop()
        group, out = shard.consumer_groups.get(group_id), self.runtime.out
        known = shard.groups.get(group_id)
        if group is not None and classic is not None and classic.members:
            out.append(GroupConverted(group_id, "consumer", REVERTED))
        elif known is not None and known.members and modern is not None:
            out.append(GroupConverted(group_id, "classic", REVERTED))
        if group is not None:
            self._record_state(group, REVERTED)
        elif known is None:
            out.append(GroupState(group_id, "Dead", 0, (), "", REVERTED))
        elif modern is not None and not known.members:  # the classic group that it had replaced
            state, protocol = known.state.value, known.protocol or ""
            out.append(GroupState(group_id, state, known.generation, (), protocol, REVERTED))

    def on_loaded(self, shard: GroupShard) -> None:
        """Write the facts of the groups that were read from the log."""
        for group in shard.consumer_groups.values():
            self._record_state(group, "loaded")
            group_id, members = group.group_id, group.members
            owned = [
                self._assigned(group_id, members[member_id].member_epoch, member_id, partitions)
                for member_id, partitions in self._owned(group).items()
            ]
            self._record_owned(shard, owned)
        self.on_committed(shard)

    def record_left(self, shard: GroupShard, group: ClassicGroup, members: list[str]) -> None:
        """Write that members own nothing, once what was appended last is committed.

        The group has become a classic one without them.
        """
        epoch = group.generation
        left = [GroupAssigned(group.group_id, epoch, member_id, ()) for member_id in members]
        self._record_owned(shard, left)

    def record_replaced(
        self, shard: GroupShard, group: ClassicGroup, old_id: str, member: ClassicMember
    ) -> None:
        """Write that a static member's partitions have another member id, once that is committed.

        The group has become a classic one by it. Older changes of the group that wait for their
        commit are written before.
        """
        epoch, owned = group.generation, tuple([str(tp) for tp in member.assignment])
        ids = ((old_id, ()), (member.member_id, owned))
        changed = [GroupAssigned(group.group_id, epoch, each, its) for each, its in ids]
        self._record_owned(shard, changed)

    def on_unloaded(self, shard: GroupShard) -> None:
        """Write nothing more of a partition."""
        self._uncommitted.pop(shard.context.partition, None)

    def on_committed(self, shard: GroupShard) -> None:
        """Write the facts that the high watermark has passed."""
        waiting = self._uncommitted.get(shard.context.partition)
        while waiting and waiting[0][0] <= shard.context.last_committed:
            self.runtime.out.extend(waiting.popleft()[1])

    def _forget_owned(self, shard: GroupShard, group_id: str) -> None:
        """Drop what members got that was not committed when the group was deleted.

        They may still be told. The group that takes its name, of the classic protocol too, begins
        with generation 1 again. That members own nothing any more is kept.
        """
        for _, owned in self._uncommitted.get(shard.context.partition, ()):
            owned[:] = [each for each in owned if each.group != group_id or not each.assignment]

    def _record_owned(self, shard: GroupShard, owned: list[GroupAssigned]) -> None:
        if owned:
            waiting = self._uncommitted.setdefault(shard.context.partition, deque())
            waiting.append((shard.context.last_written, owned))

    def _seen(self, shard: GroupShard, group_id: str) -> tuple[object, Owned]:
        """Return what the facts tell of a group, and who owns what.

        A classic group that becomes a consumer group tells itself what its members own. Until that
        is committed it may be told after the change, so who is gone by the change is told, too.
        """
        group, classic = shard.consumer_groups.get(group_id), shard.groups.get(group_id)
        if group is None:
            return None, {} if classic is None else dict.fromkeys(classic.members, ())
        return (group.state, group.group_epoch, tuple(group.members)), self._owned(group)

    def _record_changes(
        self, shard: GroupShard, group_id: str, before: tuple[object, Owned], reason: str
    ) -> None:
        """Write what differs from ``before``: state, epoch and members; who owns what."""
        group = shard.consumer_groups.get(group_id)
        out = self.runtime.out
        state, owned_before = before
        if group is None:
            if state is not None:
                self._forget_owned(shard, group_id)
                out.append(GroupState(group_id, "Dead", 0, (), "", reason))
            return
        now_state, owned = self._seen(shard, group_id)
        if now_state != state:
            self._record_state(group, reason)
        gone = [each for each in owned_before if each not in owned]
        changed = [self._assigned(group_id, group.group_epoch, each, ()) for each in gone]
        for member_id, partitions in owned.items():
            if partitions != owned_before.get(member_id, ()):
                epoch = group.members[member_id].member_epoch
                changed.append(self._assigned(group_id, epoch, member_id, partitions))
        self._record_owned(shard, changed)

    def _record_state(self, group: ConsumerGroup, reason: str) -> None:
        assignor = preferred_assignor(group.members) or self.assignor
        members = tuple(group.members)
        self.runtime.out.append(
            GroupState(
                group.group_id, group.state.value, group.group_epoch, members, assignor, reason
            )
        )

    def _owned(self, group: ConsumerGroup) -> Owned:
        """Return what each member owns, what it has not yet revoked included."""
        return {
            member_id: tuple(partitions_of(union(member.assigned, member.revoking)))
            for member_id, member in group.members.items()
        }

    def _assigned(
        self, group: str, epoch: int, member_id: str, owned: tuple[tuple[str, int], ...]
    ) -> GroupAssigned:
        topics = self.image.topics
        names = [
            f"{topics[topic_id].name if topic_id in topics else topic_id}-{partition}"
            for topic_id, partition in owned
        ]
        ids = tuple([topic_id for topic_id, _ in owned])
        return GroupAssigned(group, epoch, member_id, tuple(names), ids)
