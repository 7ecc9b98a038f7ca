"""How members go: they leave, or they are fenced when one of their timers ends (KIP-848).

    session      no heartbeat for group.consumer.session.timeout.ms
    rebalance    partitions not given up within its rebalance timeout (max.poll.interval.ms)
    join, sync   a classic member has its rebalance timeout for each of these requests

Kafka: GroupMetadataManager.consumerGroupLeave, consumerGroupFenceMember and their timers. A timer
whose write fails is tried again half a second later (CoordinatorTimer). A write that has only timed
out is tried again, too, so a member that has joined again meanwhile is removed twice. The timers of
a member are cancelled before the write that removes it. If that write fails, the member has no
session until it heartbeats again, or another coordinator loads the group. Kafka does the same.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.errors import Errors
from kafkasim.model.group.classic.rebalance import ClassicRebalance
from kafkasim.model.group.modern.log.records import (
    Entry,
    current_entry,
    epoch_entries,
    regex_entry,
    removal_entries,
)
from kafkasim.model.group.modern.log.writer import Change, ConsumerGroupWriter
from kafkasim.model.group.modern.migration.conversion import (
    downgrade_entries,
    downgraded,
    may_downgrade,
)
from kafkasim.model.group.modern.state.assignment import EMPTY
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.modern.state.member import ConsumerGroupMember, MemberState
from kafkasim.model.group.modern.state.subscriptions import regex_counts, subscribed_topics
from kafkasim.model.group.modern.state.topics import describe
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.messages import LEAVE_GROUP_STATIC_MEMBER_EPOCH

RETRY_US = 500_000
"""How long a timer waits after a write that failed."""


class Departures:
    """Removes members, and has the timers that do."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        config: BrokerConfig,
        rules: GroupRules,
        writer: ConsumerGroupWriter,
        classic: ClassicRebalance,
    ) -> None:
        """``classic`` takes the groups over that become classic ones."""
        self.runtime = runtime
        self.writer = writer
        self._config = config
        self._with_racks = rules.counts_racks()
        self._hashed = rules.hashes_topics()
        self._classic = classic
        self._session_us = config.group_consumer_session_timeout_ms * 1000

    # What it takes, as records.

    def leave_for_a_while(self, group: ConsumerGroup, member: ConsumerGroupMember) -> list[Entry]:
        """Return the record of a static member that will come back: it keeps its partitions."""
        away = replace(member, member_epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH, revoking=EMPTY)
        return [current_entry(group.group_id, away)]

    def remove(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        members: list[ConsumerGroupMember],
        change: Change,
        now: int,
    ) -> None:
        """Add to ``change`` what removes members; the group may become a classic one.

        (consumerGroupFenceMembers) The timers of the members go at once, unless it does.
        """
        if not members:
            return
        group_id, policy = group.group_id, self._config.group_consumer_migration_policy
        gone = [member.member_id for member in members]
        if may_downgrade(group, gone, policy, self._config.group_max_size):
            self.downgrade(shard, group, gone, None, change, now)
            return
        entries = change.entries
        for member_id in gone:
            entries += removal_entries(group_id, member_id)
        others = {key: m for key, m in group.members.items() if key not in gone}
        left = regex_counts(others)
        unused = [regex for regex in regex_counts(group.members) if regex not in left]
        entries += [regex_entry(group_id, regex, None) for regex in unused]
        regexes = {key: found for key, found in group.regexes.items() if key not in unused}
        names = subscribed_topics(others, regexes)
        metadata = describe(self.writer.image, names, self._with_racks)
        entries += epoch_entries(group, group.group_epoch + 1, metadata, self._hashed)
        for member_id in gone:
            self.cancel_timers(group_id, member_id)

    def downgrade(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        leaving: list[str],
        joining: ConsumerGroupMember | None,
        change: Change,
        now: int,
    ) -> None:
        """Add to ``change`` what makes a classic group of a consumer group (convertToClassicGroup).

        When members leave, those that stay have to rebalance. ``joining`` is a static member that
        takes another one's place; then nobody has to.
        """
        now_ms, image = self.runtime.wall_ms(now), self.writer.image
        made = downgraded(group, leaving, joining, image, now_ms)
        change.entries += downgrade_entries(group, joining, made, now_ms)
        change.converts_to = "classic"
        known = list(group.members)
        instance_id = None if joining is None else joining.instance_id
        replaced = group.static_members.get(instance_id or "", "")

        def follow(at: int) -> None:
            for member_id in known:
                self.cancel_timers(group.group_id, member_id)
            shard.put_classic(made)
            self.writer.record_left(shard, made, leaving)
            self._classic.trace.record_state(made, "was a consumer group")
            for member in made.members.values():
                self._classic.arm_session(shard, made, member, at)
            if joining is None:
                self._classic.prepare(shard, made, "downgrade from consumer to classic", at)
            else:
                joined = made.members[joining.member_id]
                self.writer.record_replaced(shard, made, replaced, joined)

        change.then.append(follow)

    # Timers.

    def arm_session(
        self, shard: GroupShard, group_id: str, member_id: str, now: int, timeout_ms: int = 0
    ) -> None:
        """Let a member's session start anew; ``timeout_ms`` is a classic member's own."""
        duration_us = timeout_ms * 1000 or self._session_us

        def due(_member: ConsumerGroupMember) -> str:
            return f"session of {member_id} expired"

        self._arm("session", shard, group_id, member_id, now + duration_us, due)

    def session_left_us(self, group_id: str, member_id: str, now: int) -> int:
        """Return for how long a member's session still lasts, −1 if it has none."""
        ends = self.runtime.deadline(_key("session", group_id, member_id))
        return -1 if ends is None else ends - now

    def await_join(
        self, shard: GroupShard, group_id: str, member: ConsumerGroupMember, now: int
    ) -> None:
        """Give a classic member its rebalance timeout to join again, once."""
        if not self.runtime.armed(_key("join", group_id, member.member_id)):
            self._arm_classic("join", shard, group_id, member, now)

    def await_sync(
        self, shard: GroupShard, group_id: str, member: ConsumerGroupMember, now: int
    ) -> None:
        """Give a classic member its rebalance timeout from its join to its SyncGroup."""
        self.runtime.cancel(_key("join", group_id, member.member_id))
        self._arm_classic("sync", shard, group_id, member, now)

    def synced(self, group_id: str, member_id: str) -> None:
        """Wait for a classic member's SyncGroup no longer."""
        self.runtime.cancel(_key("sync", group_id, member_id))

    def _arm_classic(
        self, kind: str, shard: GroupShard, group_id: str, member: ConsumerGroupMember, now: int
    ) -> None:
        def due(_member: ConsumerGroupMember) -> str:
            return f"{member.member_id} did not {kind} within {member.rebalance_timeout_ms} ms"

        deadline = now + member.rebalance_timeout_ms * 1000
        self._arm(kind, shard, group_id, member.member_id, deadline, due)

    def arm_rebalance(
        self, shard: GroupShard, group_id: str, member: ConsumerGroupMember, now: int
    ) -> None:
        """Wait until a member has given up what it has to, or cease to wait."""
        if member.state is not MemberState.UNREVOKED_PARTITIONS:
            self.runtime.cancel(_key("rebalance", group_id, member.member_id))
            return
        epoch, timeout_ms = member.member_epoch, member.rebalance_timeout_ms

        def due(late: ConsumerGroupMember) -> str:
            if late.member_epoch != epoch:
                return ""
            return f"{late.member_id} has not left epoch {epoch} within {timeout_ms} ms"

        deadline = now + timeout_ms * 1000
        self._arm("rebalance", shard, group_id, member.member_id, deadline, due)

    def cancel_timers(self, group_id: str, member_id: str) -> None:
        """Cancel the timers of a member."""
        for kind in ("session", "rebalance", "join", "sync"):
            self.runtime.cancel(_key(kind, group_id, member_id))

    def _arm(
        self,
        kind: str,
        shard: GroupShard,
        group_id: str,
        member_id: str,
        deadline: int,
        due: Callable[[ConsumerGroupMember], str],
    ) -> None:
        """Fence a member at ``deadline``; ``due(member)`` says why, or "" if not."""
        key = _key(kind, group_id, member_id)

        def on_timer(now: int) -> None:
            group = shard.consumer_groups.get(group_id)
            member = None if group is None else group.members.get(member_id)
            reason = "" if member is None else due(member)
            if group is None or member is None or not reason:
                return
            change = Change()
            self.remove(shard, group, [member], change, now)
            error = self.writer.write(shard, group_id, change, reason, now)
            if error is Errors.NONE:
                self.runtime.defer(shard.context, on_written, None, now)
            else:
                on_written(None, error, now)

        def on_written(_: None, error: Errors, now: int) -> None:
            if error is not Errors.NONE and shard.context.is_active:
                self.runtime.arm(shard.context, key, now + RETRY_US, on_timer)

        self.runtime.arm(shard.context, key, deadline, on_timer)


def _key(kind: str, group_id: str, member_id: str) -> tuple[str, str, str]:
    return f"consumer-group-{kind}", group_id, member_id
