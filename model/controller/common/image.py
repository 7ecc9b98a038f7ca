"""The metadata image: the state after a replay of the metadata log (org.apache.kafka.image.*).

Every process owns one image and replays committed records into it. The active controller has a
second one, which also holds records that are not committed yet. In ZooKeeper mode a broker fills
the same image from UpdateMetadata. The values inside (:class:`BrokerImage`,
:class:`PartitionRegistration`) are never changed in place, so :meth:`MetadataImage.copy` is shallow
below the topics.

Kafka makes a new image for each delta. Here a :class:`MetadataDelta` applies records to the one
image at once and notes what they touched. Left out: SCRAM.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.controller.common.records import (
    ELR_FEATURE,
    GROUP_VERSION,
    METADATA_VERSION,
    METADATA_VERSION_4_0_IV0,
    METADATA_VERSION_4_0_IV2,
    NO_LEADER_CHANGE,
    OWN_OFFSET,
    SHARE_VERSION,
    TRANSACTION_VERSION,
    AccessControlEntryRecord,
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    FeatureLevelRecord,
    GroupConfigRecord,
    NoOpRecord,
    PartitionChangeRecord,
    PartitionRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
)
from kafkasim.model.directories import MIGRATING
from kafkasim.model.messages.clients.acls import AclBinding
from kafkasim.model.messages.clients.admin import QuotaEntity
from kafkasim.model.values import value

EVERY_BROKER = -1
"""Stands in place of a broker id for the cluster-wide default of a dynamic broker setting."""


@value
class BrokerImage:
    """A broker's registration (BrokerRegistration)."""

    id: int
    epoch: int  # the metadata offset of the incarnation's first registration record
    incarnation_id: str
    address: str
    rack: str | None
    fenced: bool
    in_controlled_shutdown: bool
    features: tuple[tuple[str, int, int], ...] = ()
    directories: tuple[str, ...] = ()  # the ids of its online log directories; (): unknown


@value
class PartitionRegistration:
    """The state of a partition (PartitionRegistration).

    ``leader`` is −1 if there is none; without ELR the ISR then has one member.
    ``leader_recovery_state`` is RECOVERED or RECOVERING.
    """

    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    removing_replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    leader: int
    leader_epoch: int
    partition_epoch: int
    leader_recovery_state: int
    elr: tuple[int, ...]
    last_known_elr: tuple[int, ...]
    directories: tuple[str, ...] = ()  # of the replicas; (): all are MIGRATING

    def directory(self, replica: int) -> str:
        """Return the log directory of one of the replicas."""
        return self.directories[self.replicas.index(replica)] if self.directories else MIGRATING

    @property
    def reassigning(self) -> bool:
        """Whether a reassignment of the partition is in progress."""
        return bool(self.adding_replicas or self.removing_replicas)

    def merge(self, record: PartitionChangeRecord) -> PartitionRegistration:
        """Return the partition after ``record`` (PartitionRegistration.merge)."""
        if record.leader == NO_LEADER_CHANGE:
            leader, leader_epoch = self.leader, self.leader_epoch
        else:
            leader, leader_epoch = record.leader, self.leader_epoch + 1
        recovery = record.leader_recovery_state
        return PartitionRegistration(
            self.replicas if record.replicas is None else record.replicas,
            self.isr if record.isr is None else record.isr,
            _or(record.removing_replicas, self.removing_replicas),
            _or(record.adding_replicas, self.adding_replicas),
            leader,
            leader_epoch,
            self.partition_epoch + 1,
            self.leader_recovery_state if recovery == -1 else recovery,
            self.elr if record.elr is None else record.elr,
            _or(record.last_known_elr, self.last_known_elr),
            self.directories if record.directories is None else record.directories,
        )


class TopicImage:
    """A topic and its partitions by number."""

    __slots__ = ("name", "partitions", "topic_id")

    def __init__(self, name: str, topic_id: str) -> None:
        self.name = name
        self.topic_id = topic_id
        self.partitions: dict[int, PartitionRegistration] = {}

    def __repr__(self) -> str:
        return f"TopicImage({self.name}, {self.topic_id}, {self.partitions})"


class MetadataImage:
    """All metadata up to and including the record at ``offset``, which was written in ``epoch``."""

    __slots__ = (
        "acls",
        "broker_configs",
        "brokers",
        "client_quotas",
        "configs",
        "epoch",
        "features",
        "group_configs",
        "next_producer_id",
        "offset",
        "registration_offsets",
        "topic_names",
        "topics",
    )

    def __init__(self) -> None:
        self.offset = -1
        self.epoch = -1
        self.brokers: dict[int, BrokerImage] = {}
        # Where each broker's last RegisterBrokerRecord was replayed, by broker id; at the end of a
        # snapshot for those in it (ClusterControlManager.registerBrokerRecordOffsets). An amended
        # registration keeps its broker epoch, and its record has another offset.
        self.registration_offsets: dict[int, int] = {}
        self.topics: dict[str, TopicImage] = {}  # by topic id
        self.topic_names: dict[str, str] = {}  # name to topic id
        self.configs: dict[str, dict[str, str]] = {}  # topic name to its own settings
        self.broker_configs: dict[int, dict[str, str]] = {}  # dynamic; −1: the default of all
        self.group_configs: dict[str, dict[str, str]] = {}  # by group id
        self.client_quotas: dict[QuotaEntity, dict[str, float]] = {}
        self.acls: dict[str, AclBinding] = {}  # by id
        self.features: dict[str, int] = {}
        self.next_producer_id = 0

    def partition(self, topic_id: str, partition: int) -> PartitionRegistration | None:
        """Return a partition, or None if the topic or the partition is unknown."""
        topic = self.topics.get(topic_id)
        return None if topic is None else topic.partitions.get(partition)

    def topic_by_name(self, name: str) -> TopicImage | None:
        """Return the topic of that name, or None."""
        topic_id = self.topic_names.get(name)
        return None if topic_id is None else self.topics[topic_id]

    def dynamic_config(self, broker_id: int) -> dict[str, str]:
        """Return a broker's dynamic settings: its own above the default of all brokers."""
        own = self.broker_configs.get(broker_id, {})
        return {**self.broker_configs.get(EVERY_BROKER, {}), **own}

    def is_active(self, broker_id: int) -> bool:
        """Return whether the broker is registered, unfenced and not in controlled shutdown."""
        broker = self.brokers.get(broker_id)
        return broker is not None and not broker.fenced and not broker.in_controlled_shutdown

    @property
    def elr_enabled(self) -> bool:
        """Whether eligible leader replicas (KIP-966) are kept."""
        return self.features.get(ELR_FEATURE, 0) > 0

    @property
    def metadata_version(self) -> int:
        """The finalized metadata.version; 0 before the first active controller has set it."""
        return self.features.get(METADATA_VERSION, 0)

    @property
    def transaction_version(self) -> int:
        """The finalized transaction.version; what kafka-storage format writes for the metadata
        version unless somebody chose another: that is implied, where Kafka has one more record."""
        implied = 2 if self.metadata_version >= METADATA_VERSION_4_0_IV2 else 0
        return self.features.get(TRANSACTION_VERSION, implied)

    @property
    def group_version(self) -> int:
        """The finalized group.version: 1 lets groups use the consumer protocol (KIP-848). That of
        kafka-storage format is implied, too."""
        implied = int(self.metadata_version >= METADATA_VERSION_4_0_IV0)
        return self.features.get(GROUP_VERSION, implied)

    @property
    def share_version(self) -> int:
        """The finalized share.version: 1 lets brokers serve share groups (KIP-932)."""
        return self.features.get(SHARE_VERSION, 0)

    def finalized_features(self) -> dict[str, int]:
        """Return the finalized level of each feature that is on."""
        levels = {
            **self.features,
            GROUP_VERSION: self.group_version,
            TRANSACTION_VERSION: self.transaction_version,
        }
        return {name: level for name, level in levels.items() if level > 0}

    def copy(self) -> MetadataImage:
        """Return an independent copy."""
        twin = MetadataImage()
        twin.offset = self.offset
        twin.epoch = self.epoch
        twin.brokers = dict(self.brokers)
        twin.registration_offsets = dict(self.registration_offsets)
        for topic_id, topic in self.topics.items():
            twin.topics[topic_id] = topic_twin = TopicImage(topic.name, topic_id)
            topic_twin.partitions = dict(topic.partitions)
        twin.topic_names = dict(self.topic_names)
        twin.configs = {name: dict(entries) for name, entries in self.configs.items()}
        twin.broker_configs = {key: dict(own) for key, own in self.broker_configs.items()}
        twin.client_quotas = {key: dict(own) for key, own in self.client_quotas.items()}
        twin.group_configs = {key: dict(own) for key, own in self.group_configs.items()}
        twin.acls = dict(self.acls)
        twin.features = dict(self.features)
        twin.next_producer_id = self.next_producer_id
        return twin

    def contents(self) -> tuple[Any, ...]:
        """Return the whole image as one value that can be compared (invariants REPLAY, META)."""
        return (
            self.offset,
            self.epoch,
            sorted((key, repr(broker)) for key, broker in self.brokers.items()),
            sorted((key, repr(topic)) for key, topic in self.topics.items()),
            _settings(self.configs),
            _settings(self.broker_configs),
            _settings(self.group_configs),
            sorted(self.features.items()),
            self.next_producer_id,
            *[(entity, sorted(own.items())) for entity, own in self.client_quotas.items()],
            *sorted((key, repr(binding)) for key, binding in self.acls.items()),
        )

    def apply(self, record: Any, offset: int, epoch: int) -> None:
        """Replay the record at ``offset`` of the log, which was written in ``epoch``."""
        assert offset > self.offset, f"replay of {record} at {offset} after {self.offset}"
        _REPLAY[type(record)](self, record, offset)
        self.offset = offset
        self.epoch = epoch

    def _register_broker(self, record: RegisterBrokerRecord, offset: int) -> None:
        epoch = offset if record.broker_epoch == OWN_OFFSET else record.broker_epoch
        self.registration_offsets[record.broker_id] = offset
        self.brokers[record.broker_id] = BrokerImage(
            record.broker_id,
            epoch,
            record.incarnation_id,
            record.address,
            record.rack,
            record.fenced,
            record.in_controlled_shutdown,
            record.features,
            record.log_dirs,
        )

    def _unregister_broker(self, record: UnregisterBrokerRecord, offset: int) -> None:
        del self.brokers[record.broker_id], self.registration_offsets[record.broker_id]

    def _change_broker(self, record: BrokerRegistrationChangeRecord, offset: int) -> None:
        broker = self.brokers[record.broker_id]
        assert broker.epoch == record.broker_epoch, f"{record} at {offset} for {broker}"
        self.brokers[record.broker_id] = BrokerImage(
            broker.id,
            broker.epoch,
            broker.incarnation_id,
            broker.address,
            broker.rack,
            record.fenced > 0 or (record.fenced == 0 and broker.fenced),
            record.in_controlled_shutdown > 0 or broker.in_controlled_shutdown,
            broker.features,
            record.log_dirs or broker.directories,
        )

    def _topic(self, record: TopicRecord, offset: int) -> None:
        assert record.name not in self.topic_names, f"{record} at {offset} exists"
        self.topics[record.topic_id] = TopicImage(record.name, record.topic_id)
        self.topic_names[record.name] = record.topic_id

    def _remove_topic(self, record: RemoveTopicRecord, offset: int) -> None:
        topic = self.topics.pop(record.topic_id)
        del self.topic_names[topic.name]
        self.configs.pop(topic.name, None)

    def _partition(self, record: PartitionRecord, offset: int) -> None:
        self.topics[record.topic_id].partitions[record.partition] = PartitionRegistration(
            record.replicas,
            record.isr,
            record.removing_replicas,
            record.adding_replicas,
            record.leader,
            record.leader_epoch,
            record.partition_epoch,
            record.leader_recovery_state,
            record.elr,
            record.last_known_elr,
            record.directories,
        )

    def _change_partition(self, record: PartitionChangeRecord, offset: int) -> None:
        partitions = self.topics[record.topic_id].partitions
        partitions[record.partition] = partitions[record.partition].merge(record)

    def _config(self, record: ConfigRecord, offset: int) -> None:
        entries = self.configs.setdefault(record.topic, {})
        if record.value is None:
            entries.pop(record.name, None)
        else:
            entries[record.name] = record.value

    def _broker_config(self, record: BrokerConfigRecord, offset: int) -> None:
        entries = self.broker_configs.setdefault(record.broker_id, {})
        if record.value is None:
            entries.pop(record.name, None)
        else:
            entries[record.name] = record.value

    def _group_config(self, record: GroupConfigRecord, offset: int) -> None:
        entries = self.group_configs.setdefault(record.group, {})
        if record.value is None:
            entries.pop(record.name, None)
        else:
            entries[record.name] = record.value

    def _client_quota(self, record: ClientQuotaRecord, offset: int) -> None:
        entries = self.client_quotas.setdefault(record.entity, {})
        if record.value is None:
            entries.pop(record.key, None)
            if not entries:
                del self.client_quotas[record.entity]
        else:
            entries[record.key] = record.value

    def _acl(self, record: AccessControlEntryRecord, offset: int) -> None:
        assert record.id not in self.acls, f"{record} at {offset} exists"
        self.acls[record.id] = record.binding

    def _remove_acl(self, record: RemoveAccessControlEntryRecord, offset: int) -> None:
        del self.acls[record.id]

    def cleared_elrs(self, record: ClearElrRecord) -> list[PartitionChangeRecord]:
        """Return the change that a record makes to each partition with an ELR or a last known
        leader (TopicDelta.replay(ClearElrRecord))."""
        return [
            PartitionChangeRecord(
                topic.topic_id, number, elr=(), last_known_elr=(), reason="min-isr"
            )
            for topic in self.topics.values()
            if record.topic in ("", topic.name)
            for number, partition in topic.partitions.items()
            if partition.elr or partition.last_known_elr
        ]

    def _clear_elr(self, record: ClearElrRecord, offset: int) -> None:
        for change in self.cleared_elrs(record):
            self._change_partition(change, offset)

    def _producer_ids(self, record: ProducerIdsRecord, offset: int) -> None:
        assert record.next_producer_id > self.next_producer_id, f"{record} at {offset}"
        self.next_producer_id = record.next_producer_id

    def _feature_level(self, record: FeatureLevelRecord, offset: int) -> None:
        if record.name == METADATA_VERSION and METADATA_VERSION in self.features:
            # A newer metadata version changes no other feature.
            self.features.setdefault(GROUP_VERSION, self.group_version)
            self.features.setdefault(TRANSACTION_VERSION, self.transaction_version)
        self.features[record.name] = record.feature_level

    def _no_op(self, record: NoOpRecord, offset: int) -> None:
        pass


_REPLAY: dict[type, Callable[[MetadataImage, Any, int], None]] = {
    RegisterBrokerRecord: MetadataImage._register_broker,
    UnregisterBrokerRecord: MetadataImage._unregister_broker,
    BrokerRegistrationChangeRecord: MetadataImage._change_broker,
    TopicRecord: MetadataImage._topic,
    RemoveTopicRecord: MetadataImage._remove_topic,
    PartitionRecord: MetadataImage._partition,
    PartitionChangeRecord: MetadataImage._change_partition,
    ConfigRecord: MetadataImage._config,
    BrokerConfigRecord: MetadataImage._broker_config,
    ClientQuotaRecord: MetadataImage._client_quota,
    AccessControlEntryRecord: MetadataImage._acl,
    RemoveAccessControlEntryRecord: MetadataImage._remove_acl,
    GroupConfigRecord: MetadataImage._group_config,
    ClearElrRecord: MetadataImage._clear_elr,
    ProducerIdsRecord: MetadataImage._producer_ids,
    FeatureLevelRecord: MetadataImage._feature_level,
    NoOpRecord: MetadataImage._no_op,
}


def _settings(configs: dict[Any, dict[str, str]]) -> list[Any]:
    """Return all settings in one order; a resource without settings equals a missing one."""
    return sorted((key, sorted(entries.items())) for key, entries in configs.items() if entries)


def _or(new: tuple[int, ...] | None, old: tuple[int, ...]) -> tuple[int, ...]:
    return old if new is None else new
