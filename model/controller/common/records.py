"""The records of the metadata log (metadata/src/main/resources/common/metadata/*.json).

A record is the ``value`` of a ``Record`` in a batch of ``__cluster_metadata-0``. In KRaft mode the
metadata changes only by replaying records into a ``MetadataImage``.

Left out on purpose: delegation tokens, and transactions of the metadata log (an event
with more records than a batch may hold is not atomic). The fields ``reason`` and ``unclean`` are
not Kafka's: they tell the trace why a partition changed.
"""

from __future__ import annotations

import zlib
from dataclasses import field
from typing import Any

from kafkasim.model.messages.clients.acls import AclBinding
from kafkasim.model.messages.clients.admin import QuotaEntity
from kafkasim.model.records import RecordBatch
from kafkasim.model.values import value

NO_LEADER = -1
"""The partition has no leader: it is offline."""

NO_LEADER_CHANGE = -2
"""In a PartitionChangeRecord: leader and leader epoch stay."""

OWN_OFFSET = -1
"""In a RegisterBrokerRecord: the broker epoch is the record's own offset."""

RECOVERED = 0
RECOVERING = 1

ELR_FEATURE = "eligible.leader.replicas.version"
METADATA_VERSION = "metadata.version"
TRANSACTION_VERSION = "transaction.version"  # 2: each transaction has an epoch (KIP-890)
GROUP_VERSION = "group.version"  # 1: groups may use the consumer protocol (KIP-848)
SHARE_VERSION = "share.version"  # 1: there are share groups (KIP-932)
KRAFT_VERSION = "kraft.version"  # 1: the voters may change (KIP-853); no record of the metadata
METADATA_VERSION_4_0_IV0 = 22  # the first whose default of group.version is 1
METADATA_VERSION_4_0_IV2 = 24  # the first whose default of transaction.version is 2


def placement(default: Any = ()) -> Any:
    """Return a field of log directories, which the record's repr leaves out.

    :func:`chain_digest` adds the directories to the repr where there are any, so that clusters
    without them keep their digests.
    """
    return field(default=default, repr=False)


def placed(record: Any) -> tuple[str, ...]:
    """Return the log directories that a record names."""
    found = getattr(record, "directories", None) or getattr(record, "log_dirs", None) or ()
    return tuple(found)


@value
class RegisterBrokerRecord:
    """A broker registered. A new incarnation starts fenced.

    ``broker_epoch`` −1 stands for the record's own offset. An incarnation that registers again
    keeps its epoch (KAFKA-16952).
    """

    broker_id: int
    incarnation_id: str
    address: str
    rack: str | None
    fenced: bool = True
    in_controlled_shutdown: bool = False
    broker_epoch: int = OWN_OFFSET
    features: tuple[tuple[str, int, int], ...] = ()  # (name, lowest, highest) that it supports
    log_dirs: tuple[str, ...] = placement()  # ids of the online directories, sorted


@value
class UnregisterBrokerRecord:
    """A broker was unregistered."""

    broker_id: int
    broker_epoch: int


@value
class BrokerRegistrationChangeRecord:
    """A broker's state changed.

    ``fenced``: −1 unfences, 0 is no change, +1 fences. ``in_controlled_shutdown``: 0 is no change,
    +1 begins the shutdown.
    """

    broker_id: int
    broker_epoch: int
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: tuple[str, ...] = placement()  # those still online; () is no change


@value
class TopicRecord:
    """A topic was created."""

    name: str
    topic_id: str


@value
class RemoveTopicRecord:
    """A topic was deleted."""

    topic_id: str


@value
class PartitionRecord:
    """The whole state of a partition."""

    topic_id: str
    partition: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]
    leader: int
    leader_epoch: int = 0
    partition_epoch: int = 0
    removing_replicas: tuple[int, ...] = ()
    adding_replicas: tuple[int, ...] = ()
    leader_recovery_state: int = RECOVERED
    elr: tuple[int, ...] = ()
    last_known_elr: tuple[int, ...] = ()
    reason: str = "created"
    directories: tuple[str, ...] = placement()  # of the replicas; (): all are MIGRATING


@value
class PartitionChangeRecord:
    """A change of a partition.

    None is no change, and neither are −2 in ``leader`` and −1 in ``leader_recovery_state``.
    Replaying it raises the partition epoch by one, and the leader epoch too if it names a leader,
    even the same one.
    """

    topic_id: str
    partition: int
    isr: tuple[int, ...] | None = None
    leader: int = NO_LEADER_CHANGE
    replicas: tuple[int, ...] | None = None
    removing_replicas: tuple[int, ...] | None = None
    adding_replicas: tuple[int, ...] | None = None
    leader_recovery_state: int = -1
    elr: tuple[int, ...] | None = None
    last_known_elr: tuple[int, ...] | None = None
    reason: str = ""
    unclean: bool = False
    directories: tuple[str, ...] | None = placement(None)


@value
class ConfigRecord:
    """A topic's setting, under Kafka's property name; ``value`` None removes it."""

    topic: str
    name: str
    value: str | None


@value
class ClientQuotaRecord:
    """A quota of an entity. ``value`` is in bytes a second; None removes it."""

    entity: QuotaEntity
    key: str
    value: float | None


@value
class AccessControlEntryRecord:
    """An entry was added to the access control lists (KIP-801)."""

    id: str
    binding: AclBinding


@value
class RemoveAccessControlEntryRecord:
    """An entry of the access control lists was removed."""

    id: str


ACL_RECORDS = (AccessControlEntryRecord, RemoveAccessControlEntryRecord)


@value
class BrokerConfigRecord:
    """A broker's dynamic setting; ``value`` None removes it.

    ``broker_id`` −1 is the default of all brokers.
    """

    broker_id: int
    name: str
    value: str | None


@value
class GroupConfigRecord:
    """A group's setting, under Kafka's property name; ``value`` None removes it."""

    group: str
    name: str
    value: str | None


@value
class ClearElrRecord:
    """The ELR and the last known leaders of a topic are void; of all topics if ``topic`` is ""."""

    topic: str


@value
class ProducerIdsRecord:
    """A broker got a block of producer ids; the next block starts at ``next_producer_id``."""

    broker_id: int
    broker_epoch: int
    next_producer_id: int


@value
class FeatureLevelRecord:
    """A feature's finalized level."""

    name: str
    feature_level: int


@value
class NoOpRecord:
    """Changes nothing; it moves the high watermark of an idle log
    (metadata.max.idle.interval.ms)."""


def chain_digest(digest: int, batch: RecordBatch) -> int:
    """Return the digest of a log after a committed batch, from the digest before it.

    Equal logs have equal digests (invariant META).
    """
    values = [record.value for record in batch.records]
    text = repr((batch.base_offset, batch.leader_epoch, values))
    directories = [found for each in values if (found := placed(each))]
    if directories:
        text += repr(directories)
    return zlib.crc32(text.encode(), digest)
