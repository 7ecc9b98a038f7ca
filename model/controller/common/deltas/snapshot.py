"""Snapshots of the metadata image: when one is due, writing one as records, and loading one.

Models ImageWriter and the ``write`` methods of org.apache.kafka.image, MetadataDelta.finishSnapshot
(what a loaded snapshot does not name is gone), and SnapshotGenerator, which every controller and
every broker has. A snapshot is due after metadata.log.max.record.bytes.between.snapshots of
records, or metadata.log.max.snapshot.interval.ms after the last one, as soon as something is
published.

:class:`DigestRecord` is not Kafka's. It carries the digest of the log below the snapshot, by which
the invariant META compares controllers and brokers.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
from kafkasim.model.controller.common.image import MetadataImage, TopicImage
from kafkasim.model.controller.common.records import (
    AccessControlEntryRecord,
    BrokerConfigRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    GroupConfigRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    TopicRecord,
)
from kafkasim.model.values import value


@value
class DigestRecord:
    """The digest of all batches below the snapshot's end."""

    digest: int


@value
class Snapshot:
    """A snapshot to load. ``values`` stand for all records below ``end_offset``."""

    end_offset: int
    epoch: int
    values: list[Any]


class SnapshotGenerator:
    """Counts the bytes published since the last snapshot (SnapshotGenerator)."""

    __slots__ = ("_bytes", "_interval_us", "_max_bytes", "_since_us")

    def __init__(self, config: BrokerConfig, now: int) -> None:
        self._max_bytes = config.metadata_log_max_record_bytes_between_snapshots
        self._interval_us = config.metadata_log_max_snapshot_interval_ms * 1000
        self._bytes = 0
        self._since_us = now

    def published(self, size: int, now: int) -> bool:
        """Count ``size`` published bytes; return whether a snapshot is due, and reset if it is."""
        self._bytes += size
        late = self._interval_us and now - self._since_us >= self._interval_us
        if self._bytes < self._max_bytes and not late:
            return False
        self.reset(now)
        return True

    def reset(self, now: int) -> None:
        """Count from zero: a snapshot was taken or loaded."""
        self._bytes = 0
        self._since_us = now


def image_values(image: MetadataImage, digest: int) -> list[Any]:
    """Return the digest's record and the records whose replay gives ``image``."""
    values: list[Any] = [DigestRecord(digest)]
    values += [FeatureLevelRecord(name, level) for name, level in image.features.items()]
    for broker in image.brokers.values():
        values.append(
            RegisterBrokerRecord(
                broker.id,
                broker.incarnation_id,
                broker.address,
                broker.rack,
                broker.fenced,
                broker.in_controlled_shutdown,
                broker.epoch,
                broker.features,
                broker.directories,
            )
        )
    for topic in image.topics.values():
        values.append(TopicRecord(topic.name, topic.topic_id))
        values += _partitions(topic)
    for name, entries in image.configs.items():
        values += [ConfigRecord(name, key, entries[key]) for key in entries]
    for broker_id, entries in image.broker_configs.items():
        values += [BrokerConfigRecord(broker_id, key, entries[key]) for key in entries]
    for group, entries in image.group_configs.items():
        values += [GroupConfigRecord(group, key, entries[key]) for key in entries]
    for entity, quotas in image.client_quotas.items():
        values += [ClientQuotaRecord(entity, key, quotas[key]) for key in quotas]
    values += [AccessControlEntryRecord(key, image.acls[key]) for key in image.acls]
    if image.next_producer_id:
        values.append(ProducerIdsRecord(-1, -1, image.next_producer_id))
    return values


def load_snapshot(delta: MetadataDelta, snapshot: Snapshot) -> int:
    """Replace the image of ``delta`` by that of a snapshot; return the snapshot's digest.

    ``delta`` then names everything that differs between the two.
    """
    image = delta.image
    fresh = MetadataImage()
    digest, *records = snapshot.values
    for record in records:
        fresh.offset = -1  # the records stand for one offset
        fresh.apply(record, 0, snapshot.epoch)
    fresh.offset = snapshot.end_offset - 1
    fresh.registration_offsets = dict.fromkeys(fresh.brokers, fresh.offset)
    fresh.epoch = snapshot.epoch
    _compare(image, fresh, delta)
    for name in MetadataImage.__slots__:
        known, loaded = getattr(image, name), getattr(fresh, name)
        if isinstance(known, dict):  # other parts hold a reference to it
            known.clear()
            known.update(loaded)
        else:
            setattr(image, name, loaded)
    return int(digest.digest)


def _partitions(topic: TopicImage) -> list[Any]:
    return [
        PartitionRecord(
            topic.topic_id,
            number,
            partition.replicas,
            partition.isr,
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.removing_replicas,
            partition.adding_replicas,
            partition.leader_recovery_state,
            partition.elr,
            partition.last_known_elr,
            "snapshot",
            partition.directories,
        )
        for number, partition in topic.partitions.items()
    ]


def _compare(old: MetadataImage, new: MetadataImage, delta: MetadataDelta) -> None:
    """Note in ``delta`` everything in which ``new`` differs from ``old``."""
    for topic_id in old.topics:
        if topic_id not in new.topics:
            delta.forget_topic(topic_id)
    for topic_id, topic in new.topics.items():
        before = old.topics.get(topic_id)
        if before is None:
            delta.new_topics[topic_id] = topic
        for number, partition in topic.partitions.items():
            former = None if before is None else before.partitions.get(number)
            if former != partition:
                delta.change_partition((topic_id, number), former, partition)
    for broker_id in [*old.brokers, *new.brokers]:
        if old.brokers.get(broker_id) != new.brokers.get(broker_id):
            delta.changed_brokers[broker_id] = new.brokers.get(broker_id)
    for name in [*old.configs, *new.configs]:
        if old.configs.get(name, {}) != new.configs.get(name, {}):
            delta.changed_configs[name] = None
    for broker_id in [*old.broker_configs, *new.broker_configs]:
        if old.broker_configs.get(broker_id, {}) != new.broker_configs.get(broker_id, {}):
            delta.changed_broker_configs[broker_id] = None
