"""What committed metadata has changed (org.apache.kafka.image.MetadataDelta)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.controller.common.image import (
    BrokerImage,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from kafkasim.model.controller.common.records import (
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from kafkasim.model.records import RecordBatch


class MetadataDelta:
    """Applies records to ``image`` at once and notes what they touched, in order of the first
    touch.

    A delta may cover several leader epochs of a partition. ``changed_partitions`` has only the
    final state (MetadataDelta; KAFKA.md, 2.3), ``former_partitions`` the one before the delta.
    """

    __slots__ = (
        "changed_broker_configs",
        "changed_brokers",
        "changed_configs",
        "changed_partitions",
        "deleted_topics",
        "former_partitions",
        "image",
        "new_topics",
    )

    def __init__(self, image: MetadataImage) -> None:
        self.image = image
        self.changed_partitions: dict[tuple[str, int], PartitionRegistration] = {}
        # Of the changed partitions, as they were; None: new.
        self.former_partitions: dict[tuple[str, int], PartitionRegistration | None] = {}
        self.new_topics: dict[str, TopicImage] = {}  # by topic id
        self.deleted_topics: dict[str, TopicImage] = {}  # by topic id, as they were
        self.changed_brokers: dict[int, BrokerImage | None] = {}  # None: unregistered
        self.changed_configs: dict[str, None] = {}  # topic names whose settings changed
        self.changed_broker_configs: dict[int, None] = {}  # −1: the default of all brokers

    @property
    def empty(self) -> bool:
        """Whether the records have touched nothing but the offset."""
        return not (
            self.changed_partitions
            or self.new_topics
            or self.deleted_topics
            or self.changed_brokers
            or self.changed_configs
            or self.changed_broker_configs
        )

    def apply_batch(self, batch: RecordBatch, applied: int = 0) -> None:
        """Apply a committed batch, whose first ``applied`` records have been applied already.

        A control batch belongs to Raft and is skipped.
        """
        if batch.control:
            return
        offset = batch.base_offset + applied
        for record in batch.records[applied:]:
            self.apply(record.value, offset, batch.leader_epoch)
            offset += 1

    def apply(self, record: Any, offset: int, epoch: int) -> None:
        """Replay one record into the image and note what it touched."""
        image = self.image
        kind = type(record)
        if kind is ClearElrRecord:
            for change in image.cleared_elrs(record):
                partition = image.topics[change.topic_id].partitions[change.partition]
                key = (change.topic_id, change.partition)
                self.change_partition(key, partition, partition.merge(change))
        if kind is RemoveTopicRecord:
            self.forget_topic(record.topic_id)
        if kind is PartitionChangeRecord or kind is PartitionRecord:
            key = (record.topic_id, record.partition)
            before = image.topics[record.topic_id].partitions.get(record.partition)
            image.apply(record, offset, epoch)
            after = image.topics[record.topic_id].partitions[record.partition]
            self.change_partition(key, before, after)
            return
        image.apply(record, offset, epoch)
        if kind is TopicRecord:
            self.new_topics[record.topic_id] = image.topics[record.topic_id]
        elif kind is ConfigRecord:
            self.changed_configs[record.topic] = None
        elif kind is BrokerConfigRecord:
            self.changed_broker_configs[record.broker_id] = None
        elif kind in _BROKER_RECORDS:
            self.changed_brokers[record.broker_id] = image.brokers.get(record.broker_id)

    def change_partition(
        self,
        key: tuple[str, int],
        before: PartitionRegistration | None,
        after: PartitionRegistration,
    ) -> None:
        """Note a change of a partition; ``before`` is None for a new one."""
        self.former_partitions.setdefault(key, before)
        self.changed_partitions[key] = after

    def forget_topic(self, topic_id: str) -> None:
        """Note that a topic is deleted, and drop what was noted about it before."""
        topic = self.image.topics[topic_id]
        for partition in topic.partitions:
            self.changed_partitions.pop((topic_id, partition), None)
            self.former_partitions.pop((topic_id, partition), None)
        self.new_topics.pop(topic_id, None)
        self.changed_configs.pop(topic.name, None)
        self.deleted_topics[topic_id] = topic


_BROKER_RECORDS = frozenset(
    {RegisterBrokerRecord, UnregisterBrokerRecord, BrokerRegistrationChangeRecord}
)
