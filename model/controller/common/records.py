"""The records of the metadata log (metadata/src/main/resources/common/metadata/*.json).

They travel as ``Record.value`` objects of batches on ``__cluster_metadata-0``; replaying them into
a :class:`~kafkasim.model.controller.common.image.MetadataImage` is the only way in which metadata changes.

Left out on purpose: ACLs, quotas, delegation tokens, transactions of the metadata
log (an event with more records than a batch may hold is not atomic, as in QuorumController).
``reason`` and ``unclean`` are not Kafka's: they carry into the trace why a partition changed.
"""

from __future__ import annotations

import zlib
from dataclasses import field
from typing import Any

from kafkasim.model.records import RecordBatch
from kafkasim.model.values import value

NO_LEADER = -1
"""The partition has no leader: it is offline."""

NO_LEADER_CHANGE = -2
"""In a PartitionChangeRecord: the leader, and with it the leader epoch, stays."""

OWN_OFFSET = -1
"""In a RegisterBrokerRecord: the broker epoch is the record's own offset."""

RECOVERED = 0
RECOVERING = 1

ELR_FEATURE = "eligible.leader.replicas.version"
METADATA_VERSION = "metadata.version"


def placement(default: Any = ()) -> Any:
    """A field of log directories. It is not part of the repr, by which the trace's digest knows a
    record: most clusters have none. Who compares metadata asks :func:`placed`, too."""
    return field(default=default, repr=False)


def placed(record: Any) -> tuple[str, ...]:
    """Return the log directories that a record names."""
    found = getattr(record, "directories", None) or getattr(record, "log_dirs", None) or ()
    return tuple(found)


@value
class RegisterBrokerRecord:
    """A broker registered. It starts fenced. ``broker_epoch`` −1 stands for the record's offset;
    an incarnation that registers again keeps its epoch (KAFKA-16952)."""

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
    """A broker's registration is gone."""

    broker_id: int
    broker_epoch: int


@value
class BrokerRegistrationChangeRecord:
    """``fenced``: −1 unfence, 0 no change, +1 fence; ``in_controlled_shutdown``: 0 or +1."""

    broker_id: int
    broker_epoch: int
    fenced: int = 0
    in_controlled_shutdown: int = 0
    log_dirs: tuple[str, ...] = placement()  # those left online; () is no change


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
    """A partition in full."""

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
    """What changed of a partition; None (and −2, −1 for the ints) means no change.

    It always raises the partition epoch; it raises the leader epoch if it names a leader, be it the
    same one.
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
    """A topic's own setting under Kafka's property name; ``value`` None removes it."""

    topic: str
    name: str
    value: str | None


@value
class BrokerConfigRecord:
    """A broker's dynamic setting; ``broker_id`` −1 is the default of all; ``value`` None removes."""

    broker_id: int
    name: str
    value: str | None


@value
class ProducerIdsRecord:
    """A block of producer ids went to a broker; the next block starts at ``next_producer_id``."""

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
    """Moves the high watermark of an idle log (metadata.max.idle.interval.ms)."""


def chain_digest(digest: int, batch: RecordBatch) -> int:
    """Return the digest after a committed batch: equal logs give equal digests (META)."""
    values = [record.value for record in batch.records]
    text = repr((batch.base_offset, batch.leader_epoch, values))
    directories = [found for each in values if (found := placed(each))]
    if directories:
        text += repr(directories)
    return zlib.crc32(text.encode(), digest)
