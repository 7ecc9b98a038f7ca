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
from typing import Any, get_type_hints

from model.values import value

# ------------------------------------------------------------------------- the world (sim/)


@value
class HostStarted:
    """A process started on its host; ``incarnation`` counts from 0."""

    incarnation: int


@value
class HostStopped:
    """A process ended: ``reason`` is crash, power-loss, shutdown (clean) or halt (gave up)."""

    reason: str


@value
class HostPaused:
    """A stop-the-world pause of ``duration_us`` began."""

    duration_us: int


@value
class HostResumed:
    """The pause ended."""


@value
class ClockStepped:
    """The wall clock is now offset by ``offset_us``."""

    offset_us: int


@value
class FaultStarted:
    """A fault of the scenario began on ``target`` (a node, or what it names)."""

    fault: str
    target: str


@value
class FaultEnded:
    """The fault was healed."""

    fault: str
    target: str


@value
class Phase:
    """The run entered a phase: ready, safety, liveness, end. ``reason`` says why it ended."""

    phase: str
    reason: str


# --------------------------------------------------------------------- Raft and the controller


@value
class RaftRole:
    """A voter changed its role: unattached, prospective, candidate, follower, leader, resigned."""

    role: str
    epoch: int
    leader: int


@value
class MetadataCommitted:
    """A replica of the metadata log applied up to ``offset``; ``digest`` chains what it applied."""

    offset: int
    epoch: int
    digest: int


@value
class ControllerActive:
    """A controller claims (``active``) or renounces leadership of the metadata."""

    epoch: int
    active: bool


@value
class TopicCreated:
    """A topic exists, as committed by the active controller at metadata ``offset``."""

    offset: int
    topic_id: str
    topic: str
    partitions: int
    replication_factor: int
    min_isr: int


@value
class BrokerRegistration:
    """A broker's registration, as committed at metadata ``offset``.

    ``change``: registered | fenced | unfenced | shutting-down | unregistered.
    ``fenced`` and ``shutting_down`` are the state afterwards.
    """

    offset: int
    broker: int
    broker_epoch: int
    change: str
    fenced: bool
    shutting_down: bool
    rack: str | None


@value
class PartitionChanged:
    """A partition's state, as committed at metadata ``offset``.

    An offset counts once: a new controller repeats what its predecessor committed and could not
    tell, so a reader ignores an offset not above the last one it saw (so too for the two facts
    above). ``reason``: created | lag | caught-up | fenced |
    unfenced | controlled-shutdown | reassignment | unclean | dir-offline | preferred | registered;
    ``unclean`` is True when the leader was elected outside ISR and ELR.
    """

    offset: int
    topic_id: str
    partition: int
    leader: int
    leader_epoch: int
    partition_epoch: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    reason: str
    unclean: bool


# --------------------------------------------------------------------------------- replication


@value
class BrokerState:
    """A broker's lifecycle: STARTING, RECOVERY, RUNNING, PENDING_CONTROLLED_SHUTDOWN, ...,
    and the controller's word to it: FENCED, UNFENCED."""

    state: str


@value
class BecameLeader:
    """A replica took leadership; ``start_offset`` is the leader epoch's start (its LEO)."""

    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    start_offset: int
    high_watermark: int
    isr: tuple[int, ...]


@value
class BecameFollower:
    """A replica follows ``leader`` (−1: none) under ``leader_epoch``."""

    topic_id: str
    partition: int
    leader_epoch: int
    leader: int
    log_end_offset: int


@value
class Appended:
    """A leader appended a batch at ``base_offset`` up to ``next_offset`` (exclusive)."""

    topic_id: str
    partition: int
    leader_epoch: int
    base_offset: int
    next_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_ids: tuple[int, ...]


@value
class Replicated:
    """A follower appended what it fetched: ``base_offset`` up to ``next_offset`` (exclusive).

    ``leader_epoch`` is the epoch it fetched with, ``batch_epoch`` the last batch's.
    """

    topic_id: str
    partition: int
    leader_epoch: int
    batch_epoch: int
    base_offset: int
    next_offset: int


@value
class HighWatermark:
    """A leader's high watermark advanced; ``min_isr`` is the effective min ISR at that moment.

    ``acknowledged`` are the replicas (leader included) known to have a LEO ≥ it.
    """

    topic_id: str
    partition: int
    leader_epoch: int
    high_watermark: int
    min_isr: int
    acknowledged: tuple[int, ...]


@value
class Truncated:
    """A replica cut its log from ``log_end_offset`` down to ``offset``."""

    topic_id: str
    partition: int
    leader_epoch: int
    log_end_offset: int
    offset: int


@value
class LogStart:
    """A replica's log start offset moved to ``offset``; ``reason``: retention, leader, reset…"""

    topic_id: str
    partition: int
    offset: int
    reason: str


@value
class LogLoaded:
    """A log was loaded at start; ``clean`` is False after recovery from an unclean stop."""

    topic_id: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    clean: bool


@value
class IsrChanged:
    """A leader's AlterPartition succeeded: ticks IsrShrinksPerSec or IsrExpandsPerSec.

    ``change``: shrink | expand; ``replica_ids``: who left or joined; ``isr`` afterwards.
    """

    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    change: str
    replica_ids: tuple[int, ...]
    isr: tuple[int, ...]


@value
class IsrUpdateFailed:
    """A leader's AlterPartition was refused: ticks FailedIsrUpdatesPerSec."""

    topic_id: str
    partition: int
    leader_epoch: int
    error: str


@value
class ReplicaFailed:
    """A follower stopped fetching a partition (failed partition), or a log directory died."""

    topic_id: str
    partition: int
    reason: str


@value
class RequestStats:
    """Requests of one API that a broker completed in the last second (RequestMetrics).

    Times are sums over ``count`` requests, ``total_max_us`` is the slowest.
    """

    api: str
    count: int
    errors: int
    total_us: int
    queue_us: int
    local_us: int
    remote_us: int
    total_max_us: int


# -------------------------------------------------------------------------------------- groups


@value
class CoordinatorLoaded:
    """A broker took over (``loaded``) or gave up an offsets partition under ``leader_epoch``."""

    partition: int
    leader_epoch: int
    loaded: bool


@value
class GroupState:
    """The coordinator's group changed its state or generation."""

    group: str
    state: str
    generation: int
    member_ids: tuple[str, ...]
    protocol: str
    reason: str


@value
class GroupAssigned:
    """The coordinator's view of what a member owns in a generation, as ``topic-partition``."""

    group: str
    generation: int
    member_id: str
    assignment: tuple[str, ...]


@value
class OffsetCommitted:
    """The coordinator acknowledged a commit: it is below the HW of the offsets partition.

    ``coordinator_epoch`` is the leader epoch of that partition.
    """

    group: str
    topic: str
    partition: int
    offset: int
    generation: int
    member_id: str
    coordinator_epoch: int


@value
class OffsetFetched:
    """The coordinator answered an OffsetFetch (−1: none); ``coordinator_epoch`` as above."""

    group: str
    topic: str
    partition: int
    offset: int
    coordinator_epoch: int


# ------------------------------------------------------------------------------------- clients


@value
class Acked:
    """A producer's batch was acknowledged. ``base_offset`` −1 when unknown (acks=0, duplicate).

    ``acks`` is −1 for all. ``latency_us`` from the first record's send() to now.
    """

    topic_id: str
    partition: int
    base_offset: int
    record_ids: tuple[int, ...]
    acks: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    latency_us: int
    attempts: int


@value
class SendFailed:
    """A producer gave a batch up. ``indeterminate``: it may have been appended all the same."""

    topic_id: str
    partition: int
    record_ids: tuple[int, ...]
    error: str
    indeterminate: bool
    latency_us: int
    attempts: int


@value
class Positioned:
    """A consumer's position was set, not advanced: a new covered range starts at ``offset``.

    ``reason``: committed | earliest | latest | seek | truncation | none (it lost the partition).
    """

    group: str
    member_id: str
    topic_id: str
    partition: int
    offset: int
    reason: str


@value
class Polled:
    """poll() returned records of one partition; ``offsets`` and ``record_ids`` run in parallel.

    ``position`` is the consumer's position afterwards, ``high_watermark`` the last it heard (−1).
    """

    group: str
    member_id: str
    topic_id: str
    partition: int
    position: int
    high_watermark: int
    offsets: tuple[int, ...]
    record_ids: tuple[int, ...]


@value
class Processed:
    """The application finished processing what poll() returned, up to ``offset`` (exclusive)."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    base_offset: int
    offset: int


@value
class ConsumerAssigned:
    """The client's view: a member owns ``assignment`` (``topic-partition``) in ``generation``."""

    group: str
    member_id: str
    generation: int
    assignment: tuple[str, ...]


@value
class ConsumerRevoked:
    """The client gave partitions up; ``lost`` without a chance to commit."""

    group: str
    member_id: str
    generation: int
    assignment: tuple[str, ...]
    lost: bool


@value
class Rebalanced:
    """A member finished a rebalance; ``latency_us`` from the first JoinGroup to the assignment."""

    group: str
    member_id: str
    generation: int
    latency_us: int


@value
class CommitResult:
    """A client's commit was answered; ``error`` is NONE on success. ``kind``: auto, sync, async."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    offset: int
    generation: int
    kind: str
    error: str


# -------------------------------------------------------------------------------- ground truth


@value
class FinalReplica:
    """The end of a run, for one replica: its log and offsets. Lists run in parallel by batch.

    ``epoch_starts`` is the leader-epoch cache as ``epoch, start, epoch, start…``. ``leading`` says
    whether it believes itself leader. ``record_counts`` cuts ``record_ids`` into batches.
    """

    topic_id: str
    partition: int
    leading: bool
    leader_epoch: int
    log_start_offset: int
    high_watermark: int
    last_stable_offset: int
    log_end_offset: int
    epoch_starts: tuple[int, ...]
    base_offsets: tuple[int, ...]
    next_offsets: tuple[int, ...]
    batch_epochs: tuple[int, ...]
    producer_ids: tuple[int, ...]
    base_sequences: tuple[int, ...]
    record_counts: tuple[int, ...]
    record_ids: tuple[int, ...]


@value
class FinalOffset:
    """The end of a run: a committed offset at the current coordinator."""

    group: str
    topic: str
    partition: int
    offset: int


@value
class FinalPosition:
    """The end of a run: a live consumer's position."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    position: int


# ----------------------------------------------------------------------------------- the schema

FACTS: dict[str, type] = {
    name: thing
    for name, thing in list(globals().items())
    if isinstance(thing, type) and thing.__module__ == __name__
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
