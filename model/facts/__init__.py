"""Facts: what a run writes into its trace, one slots dataclass per kind.

A fact is appended to a process's ``out`` like any effect (or recorded by the world itself) and
becomes a row ``(seq, t_us, node, kind, …its fields…)`` of one wide table, in one total order. The
table's schema, its version and the types derive from the classes below and are checked at import: a
field name has one type everywhere. Fields are int, str, bool, None or tuples of int or str.

Conventions: partitions are named by ``topic_id`` and ``partition``; ``offset``s are Kafka's;
``*_us`` are durations in microseconds; ``record_ids`` are the unique values of workload records
(``producer index << 32 | counter``), empty for internal topics; ``error`` is Kafka's error name.
``node`` (a host's process, e.g. ``broker-1``) is added by the host.
"""

from __future__ import annotations

import hashlib
from dataclasses import fields
from operator import attrgetter
from types import ModuleType
from typing import Any, get_type_hints

from kafkasim.model.facts import clients, groups, metadata, replication, truth, world, zookeeper
from kafkasim.model.facts.clients import (
    Acked,
    CommitResult,
    ConsumerAssigned,
    ConsumerRevoked,
    Polled,
    Positioned,
    Processed,
    ReadReplica,
    Rebalanced,
    SendFailed,
)
from kafkasim.model.facts.groups import (
    CoordinatorLoaded,
    GroupAssigned,
    GroupState,
    OffsetCommitted,
    OffsetFetched,
)
from kafkasim.model.facts.metadata import (
    BrokerRegistration,
    ConfigChanged,
    ControllerActive,
    ControlRequest,
    MetadataCommitted,
    MetadataSnapshot,
    PartitionChanged,
    RaftRole,
    TopicCreated,
    TopicDeleted,
    VotersChanged,
    ZkControllerWrite,
)
from kafkasim.model.facts.replication import (
    Appended,
    BecameFollower,
    BecameLeader,
    BrokerState,
    HighWatermark,
    IsrChanged,
    IsrUpdateFailed,
    LogDeleted,
    LogDirOffline,
    LogLoaded,
    LogPlaced,
    LogStart,
    ReplicaFailed,
    Replicated,
    RequestStats,
    Truncated,
)
from kafkasim.model.facts.truth import FinalOffset, FinalPosition, FinalReplica
from kafkasim.model.facts.world import (
    ClockStepped,
    DiskReplaced,
    FaultEnded,
    FaultStarted,
    HostPaused,
    HostResumed,
    HostStarted,
    HostStopped,
    Operated,
    Phase,
)
from kafkasim.model.facts.zookeeper import ZooKeeperConnection, ZooKeeperRole, ZooKeeperSession

_MODULES: tuple[ModuleType, ...] = (world, metadata, replication, groups, clients, zookeeper, truth)

FACTS: dict[str, type] = {
    name: thing
    for module in _MODULES
    for name, thing in vars(module).items()
    if isinstance(thing, type) and thing.__module__ == module.__name__
}
"""Every kind of fact by name, in the order of this file."""

_TYPES: dict[Any, str] = {
    int: "int64",
    str: "string",
    bool: "bool",
    str | None: "string",
    tuple[int, ...]: "list<int64>",
    tuple[str, ...]: "list<string>",
}


def _columns() -> dict[str, str]:
    columns = {"seq": "int64", "t_us": "int64", "node": "string", "kind": "string"}
    for name, fact in FACTS.items():
        hints = get_type_hints(fact)
        for field in fields(fact):
            declared = _TYPES.get(hints[field.name])
            assert declared is not None, f"{name}.{field.name}: {hints[field.name]} is no fact type"
            known = columns.setdefault(field.name, declared)
            assert known == declared, f"{name}.{field.name} is {declared}, elsewhere {known}"
    return columns


COLUMNS: dict[str, str] = _columns()
"""Columns of the wide trace table: name to type (Arrow's names)."""

SCHEMA_VERSION = hashlib.sha256(
    repr([(n, [f.name for f in fields(f_)]) for n, f_ in FACTS.items()] + [COLUMNS]).encode()
).hexdigest()[:12]
"""Changes whenever a kind, a field or a type changes."""


def _getter(fact: type) -> Any:
    names = [field.name for field in fields(fact)]
    if not names:
        return lambda _: ()
    if len(names) == 1:
        single = attrgetter(names[0])
        return lambda value_: (single(value_),)
    return attrgetter(*names)


ROW: dict[type, Any] = {fact: _getter(fact) for fact in FACTS.values()}
"""Per kind, the function from a fact to the tuple of its fields."""

__all__ = [
    "COLUMNS",
    "FACTS",
    "ROW",
    "SCHEMA_VERSION",
    "_MODULES",
    "_TYPES",
    "Acked",
    "Appended",
    "BecameFollower",
    "BecameLeader",
    "BrokerRegistration",
    "BrokerState",
    "ClockStepped",
    "CommitResult",
    "ConfigChanged",
    "ConsumerAssigned",
    "ConsumerRevoked",
    "ControlRequest",
    "ControllerActive",
    "CoordinatorLoaded",
    "DiskReplaced",
    "FaultEnded",
    "FaultStarted",
    "FinalOffset",
    "FinalPosition",
    "FinalReplica",
    "GroupAssigned",
    "GroupState",
    "HighWatermark",
    "HostPaused",
    "HostResumed",
    "HostStarted",
    "HostStopped",
    "IsrChanged",
    "IsrUpdateFailed",
    "LogDeleted",
    "LogDirOffline",
    "LogLoaded",
    "LogPlaced",
    "LogStart",
    "MetadataCommitted",
    "MetadataSnapshot",
    "OffsetCommitted",
    "OffsetFetched",
    "Operated",
    "PartitionChanged",
    "Phase",
    "Polled",
    "Positioned",
    "Processed",
    "RaftRole",
    "ReadReplica",
    "Rebalanced",
    "ReplicaFailed",
    "Replicated",
    "RequestStats",
    "SendFailed",
    "TopicCreated",
    "TopicDeleted",
    "Truncated",
    "VotersChanged",
    "ZkControllerWrite",
    "ZooKeeperConnection",
    "ZooKeeperRole",
    "ZooKeeperSession",
]
