"""The image of the committed metadata, and the facts about its changes.

Lane ``raft`` feeds it when the high watermark rises. The Raft leader records the facts at that
moment, before any other node can learn of the commit. A new leader also commits records that the
leader before it appended; if that one had committed them as well, both record them. Readers of the
trace ignore a metadata offset that they have seen before.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.client_quotas import entity_text, rate_text
from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
from kafkasim.model.controller.common.deltas.snapshot import Snapshot, load_snapshot
from kafkasim.model.controller.common.image import (
    EVERY_BROKER,
    MetadataImage,
    PartitionRegistration,
)
from kafkasim.model.controller.common.records import (
    NO_LEADER,
    AccessControlEntryRecord,
    BrokerConfigRecord,
    BrokerRegistrationChangeRecord,
    ClearElrRecord,
    ClientQuotaRecord,
    ConfigRecord,
    GroupConfigRecord,
    PartitionChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    RemoveAccessControlEntryRecord,
    RemoveTopicRecord,
    TopicRecord,
    UnregisterBrokerRecord,
    chain_digest,
)
from kafkasim.model.facts import (
    AclChanged,
    BrokerRegistration,
    ConfigChanged,
    HoleEntered,
    MetadataCommitted,
    PartitionChanged,
    TopicCreated,
    TopicDeleted,
)
from kafkasim.model.records import RecordBatch


class CommittedMetadata:
    """The image of all committed records, and a digest of them.

    Equal logs have equal digests, by which the invariant META compares controllers and brokers.
    """

    __slots__ = ("_created", "config", "digest", "end_offset", "image", "out")

    def __init__(self, out: list[Any], config: BrokerConfig) -> None:
        self.out = out
        self.config = config
        self.image = MetadataImage()
        self.digest = 0
        self.end_offset = 0  # the offset after the last committed batch seen
        self._created: _CreatedTopics | None = None  # of the batch being applied, when needed

    def apply(self, batch: RecordBatch, report: bool) -> None:
        """Replay a committed batch; record its changes as facts if ``report`` is True."""
        assert batch.base_offset >= self.end_offset, f"{batch} applied after {self.end_offset}"
        image = self.image
        self._created = None
        if not batch.control:
            epoch = batch.leader_epoch
            offset = batch.base_offset
            for record in batch.records:
                change = record.value
                before = _before(image, change)
                image.apply(change, offset, epoch)
                if report and type(change) is ClearElrRecord:
                    self.out += [
                        self._partition_changed(each, offset, batch, None) for each in before
                    ]
                    self.out += [
                        HoleEntered("cleared-elr", each.topic_id, each.partition)
                        for each in before
                        if self._partition(each).leader == NO_LEADER
                    ]
                elif report:
                    describe = _FACTS.get(type(change))
                    if describe is not None:
                        self.out.append(describe(self, change, offset, batch, before))
                offset += 1
        self.digest = chain_digest(self.digest, batch)
        self.end_offset = batch.last_offset + 1
        self.out.append(MetadataCommitted(batch.last_offset, batch.leader_epoch, self.digest))

    def load(self, snapshot: Snapshot) -> None:
        """Replace the image by a snapshot of everything committed below the snapshot's end."""
        self.digest = load_snapshot(MetadataDelta(self.image), snapshot)
        self.end_offset = snapshot.end_offset
        self.out.append(MetadataCommitted(snapshot.end_offset - 1, snapshot.epoch, self.digest))

    def _topic_created(
        self, record: TopicRecord, offset: int, batch: RecordBatch, before: Any
    ) -> TopicCreated:
        if self._created is None:
            self._created = _CreatedTopics(batch)
        partitions = self._created.partitions.get(record.topic_id, [])
        min_isr = self._created.min_isr.get(record.name, self.config.min_insync_replicas)
        factor = len(partitions[0].replicas) if partitions else 0
        return TopicCreated(offset, record.topic_id, record.name, len(partitions), factor, min_isr)

    def _partition(self, record: Any) -> PartitionRegistration:
        return self.image.topics[record.topic_id].partitions[record.partition]

    def _partition_changed(
        self,
        record: PartitionRecord | PartitionChangeRecord,
        offset: int,
        batch: RecordBatch,
        before: Any,
    ) -> PartitionChanged:
        partition = self._partition(record)
        known = partition.isr or partition.elr or partition.last_known_elr
        if before is not None and before.leader == partition.leader == NO_LEADER and not known:
            self.out.append(HoleEntered("last-leader-unknown", record.topic_id, record.partition))
        return PartitionChanged(
            offset,
            record.topic_id,
            record.partition,
            partition.leader,
            partition.leader_epoch,
            partition.partition_epoch,
            partition.isr,
            partition.replicas,
            record.reason,
            type(record) is PartitionChangeRecord and record.unclean,
            partition.elr,
            partition.last_known_elr,
            partition.adding_replicas,
            partition.removing_replicas,
            partition.leader_recovery_state,
        )

    def _topic_deleted(
        self, record: RemoveTopicRecord, offset: int, batch: RecordBatch, before: Any
    ) -> TopicDeleted:
        return TopicDeleted(offset, record.topic_id, before.name)

    def _config_changed(
        self, record: ConfigRecord, offset: int, batch: RecordBatch, before: Any
    ) -> ConfigChanged:
        return ConfigChanged(offset, f"topic:{record.topic}", record.name, record.value)

    def _group_config_changed(
        self, record: GroupConfigRecord, offset: int, batch: RecordBatch, before: Any
    ) -> ConfigChanged:
        return ConfigChanged(offset, f"group:{record.group}", record.name, record.value)

    def _broker_config_changed(
        self, record: BrokerConfigRecord, offset: int, batch: RecordBatch, before: Any
    ) -> ConfigChanged:
        name = "" if record.broker_id == EVERY_BROKER else str(record.broker_id)
        return ConfigChanged(offset, f"broker:{name}", record.name, record.value)

    def _quota_changed(
        self, record: ClientQuotaRecord, offset: int, batch: RecordBatch, before: Any
    ) -> ConfigChanged:
        text = None if record.value is None else rate_text(record.value)
        return ConfigChanged(offset, entity_text(record.entity), record.key, text)

    def _acl_added(
        self, record: AccessControlEntryRecord, offset: int, batch: RecordBatch, before: Any
    ) -> AclChanged:
        return AclChanged(offset, True, record.id, *record.binding)

    def _acl_removed(
        self, record: RemoveAccessControlEntryRecord, offset: int, batch: RecordBatch, before: Any
    ) -> AclChanged:
        return AclChanged(offset, False, record.id, *before)

    def _broker_changed(
        self, record: Any, offset: int, batch: RecordBatch, before: Any
    ) -> BrokerRegistration:
        broker = before or self.image.brokers[record.broker_id]
        return BrokerRegistration(
            offset,
            broker.id,
            broker.epoch,
            _change(record),
            broker.fenced,
            broker.in_controlled_shutdown,
            broker.rack,
        )


class _CreatedTopics:
    """What a batch says about the topics that it creates, by topic id and by name."""

    def __init__(self, batch: RecordBatch) -> None:
        self.partitions: dict[str, list[PartitionRecord]] = {}
        self.min_isr: dict[str, int] = {}
        for record in [each.value for each in batch.records]:
            if type(record) is PartitionRecord:
                self.partitions.setdefault(record.topic_id, []).append(record)
            elif type(record) is ConfigRecord and record.name == "min.insync.replicas":
                if record.value is not None:
                    self.min_isr[record.topic] = int(record.value)


def _before(image: MetadataImage, record: Any) -> Any:
    """Return what a record is about to change: a partition, a broker, a topic or ELRs, or None."""
    if type(record) is ClearElrRecord:
        return image.cleared_elrs(record)
    if type(record) is RemoveAccessControlEntryRecord:
        return image.acls[record.id]
    if type(record) is UnregisterBrokerRecord:
        return image.brokers[record.broker_id]
    if type(record) is PartitionChangeRecord:
        return image.topics[record.topic_id].partitions[record.partition]
    return image.topics[record.topic_id] if type(record) is RemoveTopicRecord else None


def _change(record: Any) -> str:
    if type(record) is RegisterBrokerRecord:
        return "registered"
    if type(record) is UnregisterBrokerRecord:
        return "unregistered"
    if record.in_controlled_shutdown:
        return "shutting-down"
    if not record.fenced:
        return "dir-offline"
    return "fenced" if record.fenced > 0 else "unfenced"


_FACTS: dict[type, Callable[[CommittedMetadata, Any, int, RecordBatch, Any], Any]] = {
    TopicRecord: CommittedMetadata._topic_created,
    RemoveTopicRecord: CommittedMetadata._topic_deleted,
    ConfigRecord: CommittedMetadata._config_changed,
    BrokerConfigRecord: CommittedMetadata._broker_config_changed,
    GroupConfigRecord: CommittedMetadata._group_config_changed,
    ClientQuotaRecord: CommittedMetadata._quota_changed,
    AccessControlEntryRecord: CommittedMetadata._acl_added,
    RemoveAccessControlEntryRecord: CommittedMetadata._acl_removed,
    PartitionRecord: CommittedMetadata._partition_changed,
    PartitionChangeRecord: CommittedMetadata._partition_changed,
    RegisterBrokerRecord: CommittedMetadata._broker_changed,
    UnregisterBrokerRecord: CommittedMetadata._broker_changed,
    BrokerRegistrationChangeRecord: CommittedMetadata._broker_changed,
}
