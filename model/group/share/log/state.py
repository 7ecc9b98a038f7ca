"""A share group (ShareGroup, ShareGroupMember, ModernGroup): changed by records only.

    EMPTY    no members
    STABLE   it has members; nobody waits for anybody: partitions are shared

The **group epoch** rises when a member joins, leaves or subscribes otherwise, when a subscribed
topic changes, and when share partitions were initialized that nobody is assigned yet. A member is
at the epoch of the target assignment as soon as it heartbeats.

A share partition is **initializing** from the record that says so until the share coordinator has
its first state, then **initialized**. Only then it is assigned. **Deleting** topics are those whose
state is being removed by an operator.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import field
from enum import Enum
from zlib import crc32

from kafkasim.model.group.modern.assignors.spec import SubscriptionType
from kafkasim.model.group.modern.state.assignment import EMPTY, Assignment
from kafkasim.model.group.modern.state.topics import TopicsImage, describe
from kafkasim.model.values import value


class ShareGroupState(Enum):
    """State of a group (ShareGroup.ShareGroupState); the values stand in the trace."""

    EMPTY = "Empty"
    STABLE = "Stable"


@value
class ShareGroupMember:
    """A member as its two records describe it."""

    member_id: str
    member_epoch: int = 0  # −1: its assignment is removed
    previous_member_epoch: int = -1
    assigned: Assignment = field(default_factory=dict)
    rack_id: str | None = None
    client_id: str = ""
    topics: tuple[str, ...] = ()  # subscribed names, rising


@value
class InitializedPartitions:
    """Partitions of a topic that are initializing, or initialized."""

    name: str
    partitions: tuple[int, ...]  # rising
    timestamp_ms: int  # when this coordinator applied the record; −1: unknown


Topics = Mapping[str, InitializedPartitions]
"""By topic id, rising."""


@value
class StatePartitions:
    """How far the share partitions of a group are (ShareGroupStatePartitionMetadataInfo)."""

    initializing: Topics = field(default_factory=dict)
    initialized: Topics = field(default_factory=dict)
    deleting: tuple[str, ...] = ()  # topic ids, rising


class ShareGroup:
    """The members of a group, its target assignment, and its share partitions."""

    def __init__(self, group_id: str) -> None:
        self.group_id = group_id
        self.group_epoch = 0
        self.metadata_hash = 0  # of the subscribed topics
        self.target_epoch = 0  # of the target assignment; −1: its records are removed
        self.members: dict[str, ShareGroupMember] = {}  # by id, in the order of joining
        self.target: dict[str, Assignment] = {}  # by member id
        self.state_partitions: StatePartitions | None = None  # None: there is no record of them
        # The subscribed topics are looked up again from this time on, or if the group epoch is
        # below that of the last lookup: the record of that lookup was never written.
        self.refresh_deadline_us = 0
        self.refresh_epoch = 0

    def copy(self) -> ShareGroup:
        """Return a group that is equal now, and stays as it is when this one changes."""
        other = ShareGroup(self.group_id)
        other.group_epoch, other.target_epoch = self.group_epoch, self.target_epoch
        other.metadata_hash = self.metadata_hash
        other.members, other.target = dict(self.members), dict(self.target)
        other.state_partitions = self.state_partitions
        other.refresh_deadline_us = self.refresh_deadline_us
        other.refresh_epoch = self.refresh_epoch
        return other

    @property
    def state(self) -> ShareGroupState:
        """The state, which follows from the members (maybeUpdateGroupState)."""
        return ShareGroupState.STABLE if self.members else ShareGroupState.EMPTY

    def metadata_expired(self, now: int) -> bool:
        """Return whether the subscribed topics have to be looked up again."""
        return now >= self.refresh_deadline_us or self.group_epoch < self.refresh_epoch

    def request_refresh(self) -> None:
        """Look the subscribed topics up with the next heartbeat: one of them has changed."""
        self.refresh_deadline_us = 0

    def initialized(self) -> Assignment:
        """Return the share partitions that may be assigned."""
        info = self.state_partitions
        known: Topics = {} if info is None else info.initialized
        return {topic_id: topic.partitions for topic_id, topic in known.items()}

    def assignment_pending(self) -> bool:
        """Return whether other share partitions are initialized than the target assignment has.

        (GroupMetadataManager.initializedAssignmentPending)
        """
        if self.state_partitions is None or not self.members:
            return False
        assigned: dict[str, dict[int, None]] = {}
        for assignment in self.target.values():
            for topic_id, numbers in assignment.items():
                assigned.setdefault(topic_id, {}).update(dict.fromkeys(numbers))
        found = {topic_id: tuple(sorted(numbers)) for topic_id, numbers in assigned.items()}
        return found != self.initialized()


Members = Mapping[str, ShareGroupMember]


def subscribed_topics(members: Members) -> dict[str, int]:
    """Return how many members subscribe to each topic, by name, rising."""
    counts: dict[str, int] = {}
    for member in members.values():
        for topic in member.topics:
            counts[topic] = counts.get(topic, 0) + 1
    return {topic: counts[topic] for topic in sorted(counts)}


def subscription_type(counts: Mapping[str, int], members: int) -> SubscriptionType:
    """Return whether all members subscribe to the same topics (ModernGroup.subscriptionType)."""
    same = all(count == members for count in counts.values())
    return SubscriptionType.HOMOGENEOUS if same else SubscriptionType.HETEROGENEOUS


def metadata_hash(names: Iterable[str], image: TopicsImage) -> int:
    """Return a number that changes with the subscribed topics, 0 if none exists.

    The racks of the replicas count. Kafka's hash is another one (ModernGroup.computeMetadataHash).
    """
    found = describe(image, names, with_racks=True)
    return crc32(repr(sorted(found.items())).encode()) if found else 0


def combined(one: Topics, other: Topics) -> Topics:
    """Return the partitions of both; what ``other`` says of name and time counts
    (combineInitMaps)."""
    topics: dict[str, InitializedPartitions] = {}
    for topic_id in sorted({*one, *other}):
        first, second = one.get(topic_id), other.get(topic_id)
        known = () if first is None else first.partitions
        more = () if second is None else second.partitions
        last = second or first
        assert last is not None, topic_id
        partitions = tuple(sorted({*known, *more}))
        topics[topic_id] = InitializedPartitions(last.name, partitions, last.timestamp_ms)
    return topics


def without(topics: Topics, gone: Mapping[str, tuple[int, ...]]) -> Topics:
    """Return the topics without some partitions; a topic of which none is left goes."""
    left: dict[str, InitializedPartitions] = {}
    for topic_id, topic in topics.items():
        removed = gone.get(topic_id, ())
        numbers = tuple([each for each in topic.partitions if each not in removed])
        if numbers:
            left[topic_id] = InitializedPartitions(topic.name, numbers, topic.timestamp_ms)
    return left


def target_of(group: ShareGroup, member_id: str) -> Assignment:
    """Return what a member is to consume."""
    return group.target.get(member_id, EMPTY)
