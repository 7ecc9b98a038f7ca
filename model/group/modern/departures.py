"""How members go: they leave, or they are fenced when one of their timers ends (KIP-848).

    session      no heartbeat for group.consumer.session.timeout.ms
    rebalance    partitions not given up within its rebalance timeout (max.poll.interval.ms)

Kafka: GroupMetadataManager.consumerGroupLeave, consumerGroupFenceMember and their timers. A timer
whose write fails is tried again half a second later (CoordinatorTimer). The timers of a member go
before the write that removes it, so a member whose leaving cannot be written stays without a
session until it heartbeats again, or another coordinator loads the group; so it is in Kafka.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.log.records import (
    Entry,
    current_entry,
    epoch_entry,
    metadata_entry,
    regex_entry,
    removal_entries,
)
from kafkasim.model.group.modern.log.writer import ConsumerGroupWriter
from kafkasim.model.group.modern.state.assignment import EMPTY
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.modern.state.member import ConsumerGroupMember, MemberState
from kafkasim.model.group.modern.state.subscriptions import regex_counts, subscribed_topics
from kafkasim.model.group.modern.state.topics import describe
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.messages import LEAVE_GROUP_STATIC_MEMBER_EPOCH

RETRY_US = 500_000
"""How long a timer waits after a write that failed."""


class Departures:
    """Removes members, and has the timers that do."""

    def __init__(
        self, runtime: CoordinatorRuntime, config: BrokerConfig, writer: ConsumerGroupWriter
    ) -> None:
        self.runtime = runtime
        self.writer = writer
        self._session_us = config.group_consumer_session_timeout_ms * 1000

    # What it takes, as records.

    def leave_for_a_while(self, group: ConsumerGroup, member: ConsumerGroupMember) -> list[Entry]:
        """Return the record of a static member that will come back: it keeps its partitions."""
        away = replace(member, member_epoch=LEAVE_GROUP_STATIC_MEMBER_EPOCH, revoking=EMPTY)
        return [current_entry(group.group_id, away)]

    def fence(self, group: ConsumerGroup, member: ConsumerGroupMember) -> list[Entry]:
        """Return the records that remove a member, and let its timers go."""
        group_id = group.group_id
        entries = removal_entries(group_id, member.member_id)
        regexes = group.regexes
        if regex_counts(group.members).get(member.regex) == 1:
            entries.append(regex_entry(group_id, member.regex, None))
            regexes = {key: found for key, found in regexes.items() if key != member.regex}
        others = {key: m for key, m in group.members.items() if key != member.member_id}
        metadata = describe(self.writer.image, subscribed_topics(others, regexes))
        if metadata != group.metadata:
            entries.append(metadata_entry(group_id, metadata))
        entries.append(epoch_entry(group_id, group.group_epoch + 1))
        self.cancel_timers(group_id, member.member_id)
        return entries

    # Timers.

    def arm_session(self, shard: GroupShard, group_id: str, member_id: str, now: int) -> None:
        """Let a member's session start anew."""

        def due(_member: ConsumerGroupMember) -> str:
            return f"session of {member_id} expired"

        self._arm("session", shard, group_id, member_id, now + self._session_us, due)

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
        for kind in ("session", "rebalance"):
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
            entries = self.fence(group, member)
            if self.writer.write(shard, group_id, entries, reason, now) is not Errors.NONE:
                self.runtime.arm(key, now + RETRY_US, on_timer)

        self.runtime.arm(key, deadline, on_timer)


def _key(kind: str, group_id: str, member_id: str) -> tuple[str, str, str]:
    return f"consumer-group-{kind}", group_id, member_id
