"""The records of ``__consumer_offsets``: keys, values, and their sizes on disk.

Kafka: OffsetCommitKey v1, OffsetCommitValue v3, GroupMetadataKey v2, GroupMetadataValue v3. A
record whose value is None is a tombstone. Sizes in bytes assume ASCII names and a client host of
ten characters.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.messages import StickyUserData, Subscription, user_data_of
from kafkasim.model.records import Record, TopicPartition, record_size
from kafkasim.model.values import value

CLIENT_HOST_SIZE = 10


@value
class OffsetCommitKey:
    """The key of a committed offset's record."""

    group: str
    topic: str
    partition: int


@value
class OffsetCommitValue:
    """A committed offset (OffsetAndMetadata)."""

    offset: int  # of the next record to read
    leader_epoch: int  # of the last record that was read; −1 unknown
    metadata: str
    commit_timestamp_ms: int  # the coordinator's wall clock


@value
class GroupMetadataKey:
    """The key of a classic group's record."""

    group: str


@value
class MemberMetadata:
    """A member in a group's record; of its subscriptions the one to the chosen protocol."""

    member_id: str
    instance_id: str | None
    client_id: str
    rebalance_timeout_ms: int
    session_timeout_ms: int
    subscription: Subscription
    assignment: tuple[TopicPartition, ...]


@value
class GroupMetadataValue:
    """A classic group as it was at the end of a rebalance."""

    protocol_type: str | None
    generation: int
    protocol: str | None
    leader: str | None
    current_state_timestamp_ms: int
    members: tuple[MemberMetadata, ...]


def offset_commit_record(
    group: str, tp: TopicPartition, committed: OffsetCommitValue | None, delta: int, now_ms: int
) -> Record:
    """Return the record of a committed offset, or its tombstone if ``committed`` is None.

    ``delta`` is its place in the batch.
    """
    key = OffsetCommitKey(group, tp.topic, tp.partition)
    key_size = 10 + len(group) + len(tp.topic)
    value_size = -1 if committed is None else 24 + len(committed.metadata)
    return Record(key, committed, record_size(key_size, value_size, delta, 0), now_ms)


def group_record(
    group: str, metadata: GroupMetadataValue | None, delta: int, now_ms: int
) -> Record:
    """Return the record of a group, or its tombstone if ``metadata`` is None.

    ``delta`` is its place in the batch.
    """
    value_size = -1 if metadata is None else group_size(metadata)
    size = record_size(4 + len(group), value_size, delta, 0)
    return Record(GroupMetadataKey(group), metadata, size, now_ms)


def group_size(metadata: GroupMetadataValue) -> int:
    """Return the bytes of the value of a classic group's record."""
    total = 24 + sum(
        [len(text or "") for text in (metadata.protocol_type, metadata.protocol, metadata.leader)]
    )
    for member in metadata.members:
        total += 24 + CLIENT_HOST_SIZE + len(member.member_id) + len(member.instance_id or "")
        total += len(member.client_id) + subscription_size(member.subscription)
        data = _user_data_size(user_data_of(member.assignment))
        total += _partitions_size(member.assignment) + data + 6 if member.assignment or data else 0
    return total


def subscription_size(subscription: Subscription) -> int:
    """Return the bytes of a subscription (ConsumerProtocolSubscription)."""
    topics = sum([2 + len(topic) for topic in subscription.topics])
    rack = len(subscription.rack_id or "")
    owned = _partitions_size(subscription.owned_partitions)
    return 16 + topics + owned + rack + _user_data_size(subscription.user_data)


def _user_data_size(data: Any) -> int:
    """Return the bytes of an assignor's user data: nothing, a generation, or an assignment.

    An assignor of the user's may have bytes.
    """
    if data is None:
        return 0
    if isinstance(data, StickyUserData):
        return 4 + _partitions_size(data.partitions)
    if isinstance(data, bytes):
        return len(data)
    return 4 if isinstance(data, int) else len(str(data))


def _partitions_size(partitions: tuple[TopicPartition, ...]) -> int:
    by_topic: dict[str, int] = {}
    for tp in partitions:
        by_topic[tp.topic] = by_topic.get(tp.topic, 0) + 1
    return 4 + sum([6 + len(topic) + 4 * count for topic, count in by_topic.items()])
