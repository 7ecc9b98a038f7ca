"""Facts: the rows of a run's trace, one class for each kind.

A process appends a fact to its ``out`` like any effect; the world records facts of its own. A fact
becomes the row ``(seq, t_us, node, kind, …its fields…)`` of one wide table, in one total order.
``node`` is the process that recorded it (``broker-1``), ``kind`` the name of its class.

The columns and the version of the schema derive from the classes, and the import fails if they do
not fit together: a field name has one type in all kinds, and a field is an int, a str, a bool, a
str or None, or a tuple of ints or strs. The digest of a run is taken over its rows, and the checks
of ``analysis`` read them by name: a new kind, field or order of fields changes both.

Conventions of the fields:

- a partition is ``topic_id`` and ``partition``; a group and an offset of it name the ``topic``;
- offsets are Kafka's, epochs are leader epochs unless they say otherwise;
- names in ``_us`` are durations in microseconds;
- ``record_ids`` are the unique values of a workload's records, ``producer index << 32 | counter``;
  those of internal topics have none;
- ``error`` is the name of Kafka's error code, NONE for success.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from operator import attrgetter
from types import ModuleType
from typing import Any

from kafkasim.model.facts import (
    clients,
    groups,
    metadata,
    replication,
    streams,
    transactions,
    truth,
    world,
    zookeeper,
)
from kafkasim.model.facts.clients import (
    Acked,
    AuditCounted,
    AuditPublished,
    CheckpointEmitted,
    CommitChosen,
    CommitResult,
    ConsumerAssigned,
    ConsumerRevoked,
    EpochBegun,
    KeySent,
    OffsetSynced,
    OutputSent,
    Polled,
    Positioned,
    Processed,
    ReadReplica,
    Rebalanced,
    Rebootstrapped,
    SendFailed,
    SequencesRewritten,
    SubscribedByPattern,
    WorkAssigned,
    WorkStarted,
    WorkStopped,
)
from kafkasim.model.facts.groups import (
    CoordinatorLoaded,
    CoordinatorLoadFailed,
    GroupAssigned,
    GroupConverted,
    GroupState,
    InstanceIdHeld,
    LoadInProgress,
    MemberExpired,
    MemberIdReverted,
    MemberRequest,
    OffsetCommitted,
    OffsetExpired,
    OffsetFetched,
    OffsetsDeleted,
    ShareGroupAssigned,
    ShareGroupState,
    ShareStateInitialized,
    ShareStatesLoaded,
)
from kafkasim.model.facts.metadata import (
    AclChanged,
    Authorized,
    BrokerHeartbeat,
    BrokerRegistration,
    ConfigChanged,
    ControllerActive,
    ControlRequest,
    CreationRefused,
    MetadataCommitted,
    MetadataSnapshot,
    PartitionChanged,
    RaftRole,
    SessionEnded,
    StateChangeFailed,
    TopicCreated,
    TopicDeleted,
    TopicDeletionQueued,
    VotersChanged,
    ZkControllerWrite,
)
from kafkasim.model.facts.replication import (
    Appended,
    BecameFollower,
    BecameLeader,
    BrokerState,
    Cleaned,
    CleaningFailed,
    ConnectionLimited,
    ExpansionForgotten,
    HighWatermark,
    IsrChanged,
    IsrProposed,
    IsrUpdateFailed,
    KeysAppended,
    LogDeleted,
    LogDirOffline,
    LogLoaded,
    LogPlaced,
    LogStart,
    PreferredReadReplica,
    ReadServed,
    ReplicaFailed,
    Replicated,
    RequestStats,
    StaleReplyUsed,
    Throttled,
    Truncated,
)
from kafkasim.model.facts.share import records as share_records
from kafkasim.model.facts.share.records import (
    FinalSharePartition,
    ShareAcknowledged,
    ShareAcquired,
    ShareMoved,
    SharePartitionClosed,
    SharePartitionLoaded,
    SharePolled,
    ShareStaleArchived,
    ShareStartFailed,
    ShareStartMoved,
)
from kafkasim.model.facts.streams import (
    Checkpointed,
    RecordDropped,
    RestoreBegan,
    Restored,
    StateOpened,
    StateWiped,
    StreamsSent,
    StreamsStarted,
    StreamThreadState,
    TaskCommitted,
    TaskFlushed,
    TaskPunctuated,
    TasksAssigned,
    TaskState,
    TaskTook,
)
from kafkasim.model.facts.transactions import (
    BatchUnverified,
    EpochsExhausted,
    MarkerGivenUp,
    MarkerSkipped,
    MarkerWritten,
    ProcessorStarted,
    ProducerIdExpired,
    ReadsCommitted,
    TransactionBegun,
    TransactionEnded,
    TransactionEnding,
    TransactionOffsets,
    TransactionSent,
    TransactionsLoaded,
    TransactionState,
    VerificationSkipped,
)
from kafkasim.model.facts.truth import (
    FinalCleaned,
    FinalOffset,
    FinalPosition,
    FinalReplica,
    FinalResults,
)
from kafkasim.model.facts.world import (
    ApplicationFailed,
    ClockDrifted,
    ClockStepped,
    DiskDamaged,
    DiskFilled,
    DiskReplaced,
    FaultEnded,
    FaultStarted,
    HangingSought,
    HoleEntered,
    HostPaused,
    HostResumed,
    HostStarted,
    HostStopped,
    Operated,
    Phase,
    RestartBackOff,
    RuleActed,
    TimeLimit,
    Waiting,
)
from kafkasim.model.facts.zookeeper import (
    PartitionOwner,
    RebalanceAttempt,
    ZooKeeperConnection,
    ZooKeeperRole,
    ZooKeeperSession,
)

_MODULES: tuple[ModuleType, ...] = (
    world,
    metadata,
    replication,
    groups,
    clients,
    streams,
    transactions,
    zookeeper,
    truth,
    share_records,
)

FACTS: dict[str, type] = {
    name: thing
    for module in _MODULES
    for name, thing in vars(module).items()
    if isinstance(thing, type) and thing.__module__ == module.__name__
}
"""Every kind of fact by name, module by module in the order of ``_MODULES``."""

_TYPES: dict[Any, str] = {
    "int": "int64",
    "str": "string",
    "bool": "bool",
    "str | None": "string",
    "tuple[int, ...]": "list<int64>",
    "tuple[str, ...]": "list<string>",
}
"""Annotations of fields, as the modules of facts write them, and Arrow's names for their types."""

HEAD = {"seq": "int64", "t_us": "int64", "node": "string", "kind": "string"}
"""The columns that every row has."""


def _columns() -> dict[str, str]:
    columns = dict(HEAD)
    for name, fact in FACTS.items():
        for field in fields(fact):
            declared = _TYPES.get(field.type)
            assert declared is not None, f"{name}.{field.name}: {field.type} is no fact type"
            assert field.name not in HEAD, f"{name}.{field.name} is a column of every row"
            known = columns.setdefault(field.name, declared)
            assert known == declared, f"{name}.{field.name} is {declared}, elsewhere {known}"
    return columns


COLUMNS: dict[str, str] = _columns()
"""The columns of the trace: name to type, under Arrow's names for types."""

SCHEMA_VERSION = hashlib.sha256(
    repr([(n, [f.name for f in fields(f_)]) for n, f_ in FACTS.items()] + [COLUMNS]).encode()
).hexdigest()[:12]
"""The version of the schema; it changes with every kind, field and type."""


def _getter(fact: type) -> Any:
    names = [field.name for field in fields(fact)]
    if not names:
        return lambda _: ()
    if len(names) == 1:
        single = attrgetter(names[0])
        return lambda value_: (single(value_),)
    return attrgetter(*names)


ROW: dict[type, Any] = {fact: _getter(fact) for fact in FACTS.values()}
"""For each kind the function from a fact to the tuple of its fields."""

__all__ = [
    "COLUMNS",
    "FACTS",
    "ROW",
    "SCHEMA_VERSION",
    "Acked",
    "AclChanged",
    "Appended",
    "ApplicationFailed",
    "AuditCounted",
    "AuditPublished",
    "Authorized",
    "BatchUnverified",
    "BecameFollower",
    "BecameLeader",
    "BrokerHeartbeat",
    "BrokerRegistration",
    "BrokerState",
    "CheckpointEmitted",
    "Checkpointed",
    "Cleaned",
    "CleaningFailed",
    "ClockDrifted",
    "ClockStepped",
    "CommitChosen",
    "CommitResult",
    "ConfigChanged",
    "ConnectionLimited",
    "ConsumerAssigned",
    "ConsumerRevoked",
    "ControlRequest",
    "ControllerActive",
    "CoordinatorLoadFailed",
    "CoordinatorLoaded",
    "CreationRefused",
    "DiskDamaged",
    "DiskFilled",
    "DiskReplaced",
    "EpochBegun",
    "EpochsExhausted",
    "ExpansionForgotten",
    "FaultEnded",
    "FaultStarted",
    "FinalCleaned",
    "FinalOffset",
    "FinalPosition",
    "FinalReplica",
    "FinalResults",
    "FinalSharePartition",
    "GroupAssigned",
    "GroupConverted",
    "GroupState",
    "HangingSought",
    "HighWatermark",
    "HoleEntered",
    "HostPaused",
    "HostResumed",
    "HostStarted",
    "HostStopped",
    "InstanceIdHeld",
    "IsrChanged",
    "IsrProposed",
    "IsrUpdateFailed",
    "KeySent",
    "KeysAppended",
    "LoadInProgress",
    "LogDeleted",
    "LogDirOffline",
    "LogLoaded",
    "LogPlaced",
    "LogStart",
    "MarkerGivenUp",
    "MarkerSkipped",
    "MarkerWritten",
    "MemberExpired",
    "MemberIdReverted",
    "MemberRequest",
    "MetadataCommitted",
    "MetadataSnapshot",
    "OffsetCommitted",
    "OffsetExpired",
    "OffsetFetched",
    "OffsetSynced",
    "OffsetsDeleted",
    "Operated",
    "OutputSent",
    "PartitionChanged",
    "PartitionOwner",
    "Phase",
    "Polled",
    "Positioned",
    "PreferredReadReplica",
    "Processed",
    "ProcessorStarted",
    "ProducerIdExpired",
    "RaftRole",
    "ReadReplica",
    "ReadServed",
    "ReadsCommitted",
    "RebalanceAttempt",
    "Rebalanced",
    "Rebootstrapped",
    "RecordDropped",
    "ReplicaFailed",
    "Replicated",
    "RequestStats",
    "RestartBackOff",
    "RestoreBegan",
    "Restored",
    "RuleActed",
    "SendFailed",
    "SequencesRewritten",
    "SessionEnded",
    "ShareAcknowledged",
    "ShareAcquired",
    "ShareGroupAssigned",
    "ShareGroupState",
    "ShareMoved",
    "SharePartitionClosed",
    "SharePartitionLoaded",
    "SharePolled",
    "ShareStaleArchived",
    "ShareStartFailed",
    "ShareStartMoved",
    "ShareStateInitialized",
    "ShareStatesLoaded",
    "StaleReplyUsed",
    "StateChangeFailed",
    "StateOpened",
    "StateWiped",
    "StreamThreadState",
    "StreamsSent",
    "StreamsStarted",
    "SubscribedByPattern",
    "TaskCommitted",
    "TaskFlushed",
    "TaskPunctuated",
    "TaskState",
    "TaskTook",
    "TasksAssigned",
    "Throttled",
    "TimeLimit",
    "TopicCreated",
    "TopicDeleted",
    "TopicDeletionQueued",
    "TransactionBegun",
    "TransactionEnded",
    "TransactionEnding",
    "TransactionOffsets",
    "TransactionSent",
    "TransactionState",
    "TransactionsLoaded",
    "Truncated",
    "VerificationSkipped",
    "VotersChanged",
    "Waiting",
    "WorkAssigned",
    "WorkStarted",
    "WorkStopped",
    "ZkControllerWrite",
    "ZooKeeperConnection",
    "ZooKeeperRole",
    "ZooKeeperSession",
]
