"""What every request of a member does to its group: topics, target assignment, reconciliation.

Kafka: what consumerGroupHeartbeat and classicGroupJoinToConsumerGroup of GroupMetadataManager
share. A step adds records to a list, and changes nothing but the deadline of the next lookup.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.checks import HeartbeatRefused, refuse_if
from kafkasim.model.group.modern.departures import Departures
from kafkasim.model.group.modern.log.records import (
    Entry,
    current_entry,
    epoch_entries,
    member_entry,
    removal_entries,
    target_entry,
)
from kafkasim.model.group.modern.regexes import RegularExpressions
from kafkasim.model.group.modern.state.assignment import EMPTY, Assignment
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.group.modern.state.current_assignment import UnknownStateError
from kafkasim.model.group.modern.state.member import ConsumerGroupMember
from kafkasim.model.group.modern.state.subscriptions import preferred_assignor, subscribed_topics
from kafkasim.model.group.modern.state.topics import TopicMetadata, TopicsImage, describe
from kafkasim.model.group.modern.target_assignment import PartitionAssignorError, compute_target
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.group.shard import GroupShard

METADATA_REFRESH_US = (2**31 - 1) * 1000
"""How long a lookup of topics is good if none of them changes (METADATA_REFRESH_INTERVAL_MS)."""


class MemberSteps:
    """Works out what a member's request changes."""

    def __init__(
        self,
        rules: GroupRules,
        image: TopicsImage,
        departures: Departures,
        regexes: RegularExpressions,
        default_assignor: str,
    ) -> None:
        self.rules = rules
        self.image = image
        self.departures = departures
        self.regexes = regexes
        self.default_assignor = default_assignor

    def join_static(
        self,
        group: ConsumerGroup,
        instance_id: str,
        member_id: str,
        is_classic: bool,
        entries: list[Entry],
    ) -> ConsumerGroupMember:
        """Return a static member that joins: a new one, or in place of one that is known.

        A member of the consumer protocol takes the place of another one if that is away.

        Raises:
            HeartbeatRefused: UNRELEASED_INSTANCE_ID; the other one has not left.
        """
        known = group.static_member(instance_id)
        if known is None:
            return group.members.get(member_id) or ConsumerGroupMember(member_id)
        if not is_classic and known.classic is None:
            refuse_if(not known.away, Errors.UNRELEASED_INSTANCE_ID)
        member = replace(known, member_id=member_id, member_epoch=0, previous_member_epoch=0)
        target = group.target.get(known.member_id, EMPTY)
        entries += removal_entries(group.group_id, known.member_id)
        entries.append(member_entry(group.group_id, member))
        entries.append(target_entry(group.group_id, member_id, target))
        entries.append(current_entry(group.group_id, member))
        return member

    def advance(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        bump: bool,
        owned: Assignment | None,
        entries: list[Entry],
        now: int,
    ) -> ConsumerGroupMember:
        """Return the member after its next step towards the target, which is computed if need be.

        ``member`` is what it was, ``updated`` what it told; ``bump`` says that the group epoch has
        to rise, ``owned`` what the member reports to own.

        Raises:
            HeartbeatRefused: UNKNOWN_SERVER_ERROR, or FENCED_MEMBER_EPOCH.
        """
        epoch, metadata = self._refresh(group, member, updated, bump, entries, now)
        target_epoch, target = self._target(group, member, updated, epoch, metadata, entries)
        return self._reconcile(shard, group, updated, target_epoch, target, owned, entries, now)

    def _refresh(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        bump: bool,
        entries: list[Entry],
        now: int,
    ) -> tuple[int, Mapping[str, TopicMetadata]]:
        """Look the topics up if need be; return the group epoch and the topics to be."""
        if not bump and not group.metadata_expired(now):
            return group.group_epoch, group.metadata
        regexes = self.regexes.after(group, member, updated)
        names = subscribed_topics(group.with_member(updated), regexes)
        metadata = describe(self.image, names, self.rules.counts_racks())
        hashed = self.rules.hashes_topics()
        bump = bump or metadata != group.metadata or (hashed and group.has_metadata_record)
        epoch = group.group_epoch
        if bump:
            epoch += 1
            entries += epoch_entries(group, epoch, metadata, hashed)
        group.refresh_deadline_us = now + METADATA_REFRESH_US
        group.refresh_epoch = epoch
        return epoch, metadata

    def _target(
        self,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        updated: ConsumerGroupMember,
        epoch: int,
        metadata: Mapping[str, TopicMetadata],
        entries: list[Entry],
    ) -> tuple[int, Assignment]:
        """Return the target assignment's epoch and the member's part, computed if it is old.

        Raises:
            HeartbeatRefused: UNKNOWN_SERVER_ERROR, the assignor has failed.
        """
        if epoch <= group.target_epoch:
            part = group.target_of(updated.member_id, updated.instance_id)
            return group.target_epoch, part
        members = group.with_member(updated)
        regexes = self.regexes.after(group, member, updated)
        assignor = self.rules.assignor(preferred_assignor(members) or self.default_assignor)
        try:
            computed, assigned = compute_target(
                group, epoch, members, regexes, metadata, self.image, assignor
            )
        except PartitionAssignorError:
            raise HeartbeatRefused(Errors.UNKNOWN_SERVER_ERROR) from None
        entries += computed
        return epoch, assigned.get(updated.member_id, EMPTY)

    def _reconcile(
        self,
        shard: GroupShard,
        group: ConsumerGroup,
        member: ConsumerGroupMember,
        target_epoch: int,
        target: Assignment,
        owned: Assignment | None,
        entries: list[Entry],
        now: int,
    ) -> ConsumerGroupMember:
        """Return the member after its next step towards the target (maybeReconcile).

        Raises:
            HeartbeatRefused: FENCED_MEMBER_EPOCH, the member is in an unknown state.
        """
        if member.is_reconciled_to(target_epoch):
            return member
        try:
            reconciled = self.rules.reconcile(
                member, target_epoch, target, group.partition_epoch, owned
            )
        except UnknownStateError:
            raise HeartbeatRefused(Errors.FENCED_MEMBER_EPOCH) from None
        if reconciled != member:
            entries.append(current_entry(group.group_id, reconciled))
            if reconciled.classic is None:
                self.departures.arm_rebalance(shard, group.group_id, reconciled, now)
        return reconciled
