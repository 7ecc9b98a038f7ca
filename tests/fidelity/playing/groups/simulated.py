"""A schedule of groups on the model: an ordinary run, and the log of its group coordinators."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafkasim.model.group import records as classic
from kafkasim.model.group.modern.log import records as modern
from kafkasim.model.group.modern.state.member import ClassicMemberMetadata
from kafkasim.model.messages import Subscription, user_data_of
from kafkasim.model.records import GROUP_METADATA_TOPIC, TopicPartition
from tests.fidelity.playing.groups.history import GroupHistory
from tests.fidelity.playing.groups.log import Entry
from tests.fidelity.playing.simulated import SimulatedClientPlay


class SimulatedGroupPlay(SimulatedClientPlay):
    """One schedule on the model, and the only partition of ``__consumer_offsets``."""

    def _told(self) -> list[str]:
        created = self.run.progress.topics
        ends = {}
        for each in created.values():
            for number in range(each.partitions):
                log = self._replica(each.topic, number)
                if log is not None:  # else the topic is deleted
                    ends[each.topic, number] = log.log_end_offset
        topics = {topic_id: each.topic for topic_id, each in created.items()}
        return GroupHistory(topics, ends).lines(self._group_entries())

    def _group_entries(self) -> list[Entry]:
        return [
            _as_kafka(batch.base_offset + delta, batch.leader_epoch, record.key, record.value)
            for batch in self._replica(GROUP_METADATA_TOPIC, 0).batches_from(0)
            if not batch.control
            for delta, record in enumerate(batch.records)
        ]


def _as_kafka(offset: int, epoch: int, key: Any, found: Any) -> Entry:
    """Return a record under Kafka's names."""
    kind = type(key).__name__.removesuffix("Key")
    fields = None if found is None else _FIELDS[kind](found)
    return Entry(offset, epoch, kind, _camelled(key), fields)


def _camelled(found: Any) -> dict[str, Any]:
    """Return the fields of a value whose names are Kafka's, but for their form."""
    fields = {_camel(name): getattr(found, name) for name in type(found).__dataclass_fields__}
    return {_KEYS.get(name, name): field for name, field in fields.items()}


_KEYS = {"regex": "regularExpression"}


def _group(found: classic.GroupMetadataValue) -> dict[str, Any]:
    return _camelled(found) | {"members": [_member(each) for each in found.members]}


def _member(found: classic.MemberMetadata) -> dict[str, Any]:
    return {
        "memberId": found.member_id,
        "groupInstanceId": found.instance_id,
        "clientId": found.client_id,
        "rebalanceTimeout": found.rebalance_timeout_ms,
        "sessionTimeout": found.session_timeout_ms,
        "subscription": _subscription(found.subscription),
        "assignment": _partitions(found.assignment),
        "assignmentUserData": user_data_of(found.assignment),
    }


def _subscription(found: Subscription) -> dict[str, Any]:
    return _camelled(found) | {"ownedPartitions": _partitions(found.owned_partitions)}


def _partitions(found: Iterable[TopicPartition]) -> list[tuple[str, int]]:
    return [(tp.topic, tp.partition) for tp in found]


def _topics(found: modern.ConsumerGroupPartitionMetadataValue) -> dict[str, Any]:
    return {
        "topics": [
            {"topicId": each.topic_id, "topicName": name, "numPartitions": each.partitions}
            for name, each in found.topics
        ]
    }


def _consumer(found: modern.ConsumerGroupMemberMetadataValue) -> dict[str, Any]:
    return _camelled(found) | {
        "subscribedTopicNames": found.topics,
        "subscribedTopicRegex": found.regex,
        "classicMemberMetadata": None if found.classic is None else _classic(found.classic),
    }


def _classic(found: ClassicMemberMetadata) -> dict[str, Any]:
    return {
        "sessionTimeoutMs": found.session_timeout_ms,
        "supportedProtocols": [{"name": name} for name, _ in found.protocols],
    }


def _current(found: modern.ConsumerGroupCurrentMemberAssignmentValue) -> dict[str, Any]:
    return _camelled(found) | {
        "assignedPartitions": _assigned(found.assigned),
        "partitionsPendingRevocation": _assigned(found.revoking),
    }


def _assigned(found: Any) -> list[dict[str, Any]]:
    return [{"topicId": each, "partitions": list(numbers)} for each, numbers in found.items()]


_FIELDS: dict[str, Callable[[Any], dict[str, Any]]] = {
    "OffsetCommit": _camelled,
    "GroupMetadata": _group,
    "ConsumerGroupMetadata": _camelled,
    "ConsumerGroupPartitionMetadata": _topics,
    "ConsumerGroupMemberMetadata": _consumer,
    "ConsumerGroupRegularExpression": _camelled,
    "ConsumerGroupTargetAssignmentMetadata": _camelled,
    "ConsumerGroupTargetAssignmentMember": lambda found: {"topicPartitions": _assigned(found)},
    "ConsumerGroupCurrentMemberAssignment": _current,
}
"""What the value of each kind of record is in Kafka's schema."""


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
