"""The tables of a scenario file and their keys: types, defaults and ranges.

A scenario has a claim, a cluster, topics, workloads, faults, operations, an expectation and a
twin. Keys are written with dashes; property names are Kafka's. README.md is the reference with
units and examples. What concerns several tables is checked in :mod:`.checks`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from kafkasim.model.effects import ANONYMOUS
from kafkasim.model.messages.clients.acls import (
    ALLOW,
    CLUSTER,
    CLUSTER_NAME,
    DENY,
    GROUP,
    OPERATIONS,
    TOPIC,
    TRANSACTIONAL_ID,
    AclBinding,
)
from kafkasim.model.transaction.metadata import MAX_EPOCH
from kafkasim.scenarios.language.units import (
    Bandwidth,
    Duration,
    DurationSpan,
    LastingSpan,
    Offset,
    Rate,
    Size,
    Span,
)
from kafkasim.scenarios.language.vocabulary import VERBS, VERSIONS, Release, Version
from kafkasim.sim.faults.kinds import KINDS
from kafkasim.sim.net.topology import WAN_BYTES_PER_US


def flatten(table: Any, prefix: str = "") -> Any:
    """Return properties under their full names: TOML reads ``a.b.c = 1`` as nested tables."""
    if not isinstance(table, Mapping):
        return table
    flat: dict[str, Any] = {}
    for key, value in table.items():
        nested = isinstance(value, Mapping)
        flat.update(flatten(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value})
    return flat


Properties = Annotated[dict[str, str | int | float | bool | list[str]], BeforeValidator(flatten)]

Policy = Literal["never", "on-failure", "always"]
"""Who starts a client's process again that its application has ended (running/restarting.py)."""

FAULT_KINDS = (*KINDS, "nemesis")
OPERATION_KINDS = tuple(VERBS)

NAME = r"^[A-Za-z0-9][A-Za-z0-9-]*$"
TOPIC_NAME = r"^[A-Za-z0-9._-]+$"
PRINCIPAL = r"^[A-Za-z]+:.+$"
ADDRESS = r"^[A-Za-z0-9.:-]+$"
KEYS = r"^(none|(uniform|cycle):[1-9][0-9]*|zipf:[1-9][0-9]*:[0-9.]+)$"


def _is_empty(tables: Any) -> bool:
    """Return whether a list is left out of a scenario's data, as a scenario of one cluster does."""
    return not tables


class Table(BaseModel):
    """Base of all tables: unknown keys are errors; keys are written with dashes."""

    model_config = ConfigDict(
        extra="forbid",
        frozen=True,
        alias_generator=lambda name: name.replace("_", "-"),
        defer_build=True,  # a validator of the whole scenario is built, and none of its parts
    )


class NodeTable(Table):
    """Settings of one host (``[cluster.nodes.broker-1]``) that differ from the cluster's.

    ``start`` delays the host's first start by that long.
    """

    config: Properties = {}
    rack: str | None = None
    disk_capacity: Size | None = None  # None: the cluster's
    fsync: Duration | None = None  # refused: not modelled; manifests of earlier runs name it
    start: Duration = 0
    kafka_version: Release | None = None  # None: the cluster's


class ClusterTable(Table):
    """The servers. ``config`` holds the properties (server.properties) of every server.

    The first ``combined`` controllers run in the processes of broker-1, broker-2… (process.roles =
    broker,controller), the others on hosts of their own. ``standby-controllers`` follow the
    quorum as observers until an operation adds them as voters (KIP-853). ``features`` are the
    levels that kafka-storage format --feature sets. In ZooKeeper mode there are no controllers
    beside the brokers, and ``zookeepers`` is the size of the ensemble.
    """

    mode: Literal["kraft", "zookeeper"] = "kraft"
    kafka_version: Release = "4.0"
    brokers: int = Field(3, ge=1, le=100)
    controllers: Literal[1, 3, 5] = 3
    combined: int = Field(0, ge=0, le=5)
    standby_controllers: int = Field(0, ge=0, le=5)
    zookeepers: Literal[1, 3, 5] = 3
    zookeeper_config: Properties = {}  # keys of zoo.cfg
    disk_capacity: Size | None = None  # bytes of each log directory of a broker; None: no limit
    racks: list[str] = []  # broker-1 is in the first, broker-2 in the second, … and around again
    config: Properties = {}
    features: dict[str, int] = {}
    principal: str = Field(ANONYMOUS, pattern=PRINCIPAL)  # of the servers, and of the operator
    connection_setup: Duration = 0  # of a network thread of a server, for each new connection
    nodes: dict[str, NodeTable] = {}
    variants: list[str] = []
    watched: list[str] = []  # variants that are asked, too, and do not decide (fact RuleActed)

    @property
    def versions(self) -> list[Version]:
        """The releases that nodes start with, the oldest first: storage is formatted for that."""
        own = [node.kafka_version or self.kafka_version for node in self.nodes.values()]
        return sorted([self.kafka_version, *own], key=VERSIONS.index)

    @model_validator(mode="before")
    @classmethod
    def _version(cls, data: Any) -> Any:
        """Make 3.9, the last release with ZooKeeper, the default of ZooKeeper mode."""
        if isinstance(data, Mapping) and data.get("mode") == "zookeeper":
            return {"kafka-version": "3.9", **data}
        return data


class AclTable(Table):
    """Access control entries, one for each of ``operations``, as kafka-acls adds them.

    They ``allow`` or ``deny`` a principal (``User:alice``, or ``User:*`` for everybody) the
    operations on one ``topic``, ``group`` or ``transactional-id``, or with ``cluster = true`` on
    the cluster. With ``pattern`` prefixed they are of all resources whose names begin so; the name
    ``*`` stands for every name.
    """

    allow: str | None = None
    deny: str | None = None
    operations: list[Literal[OPERATIONS]] = Field(min_length=1)  # type: ignore[valid-type]
    topic: str | None = Field(None, min_length=1)
    group: str | None = Field(None, min_length=1)
    transactional_id: str | None = Field(None, min_length=1)
    cluster: bool = False
    pattern: Literal["literal", "prefixed"] = "literal"
    host: str = "*"

    @property
    def bindings(self) -> list[AclBinding]:
        """The entries."""
        named = ((TOPIC, self.topic), (GROUP, self.group),
                 (TRANSACTIONAL_ID, self.transactional_id))  # fmt: skip
        kind, name = next((each for each in named if each[1] is not None), (CLUSTER, CLUSTER_NAME))
        permission = ALLOW if self.deny is None else DENY
        principal = self.allow or self.deny
        assert name is not None, self
        assert principal is not None, self
        return [
            AclBinding(kind, name, self.pattern, principal, self.host, operation, permission)
            for operation in self.operations
        ]


class TopicTable(Table):
    """A topic that exists before the workloads start."""

    name: str = Field(pattern=TOPIC_NAME, max_length=249)
    partitions: int = Field(1, ge=1, le=10000)
    replication_factor: int = Field(1, ge=1)
    assignment: list[list[int]] = []  # brokers of each partition, preferred leader first
    config: Properties = {}

    @model_validator(mode="before")
    @classmethod
    def _assigned(cls, data: Any) -> Any:
        """Take from an assignment how many partitions and replicas there are, unless it is said."""
        assignment = data.get("assignment") if isinstance(data, Mapping) else None
        if isinstance(assignment, list) and assignment and isinstance(assignment[0], list):
            factor = max(1, len(assignment[0]))
            return {"partitions": len(assignment), "replication-factor": factor, **data}
        return data


class ProducerTable(Table):
    """``count`` client hosts that each send ``rate`` records a second to ``topic``.

    Without ``topic`` they send to the scenario's first topic. ``keys`` is none, uniform:N (N keys
    of equal weight), zipf:N:S (N keys, exponent S) or cycle:N (N keys in turn). ``value`` and
    ``headers`` are texts in which {key}, {number} and {producer} are filled in; without ``value`` a
    record has ``value-size`` bytes. With ``key-order`` the judge of ordering per key looks at the
    records (reordered-key). ``tombstone-share`` of the records have no value: they delete their
    keys in a compacted topic. A record's timestamp is its host's time plus ``timestamp-offset``,
    counted in ``timestamp-unit`` though Kafka counts in milliseconds. ``start`` and ``stop`` count
    from t = 0.

    With a ``transactional-id`` they send in transactions of ``transaction-records`` records, that
    last ``transaction-time`` at most; ``abort-share`` of them are aborted. Of several hosts each
    has the id with its number behind it. ``epochs-used`` is how many epochs of its producer id an
    id has used before the run (:func:`.nodes.epochs_used`). ``when-fenced`` is what an application
    does that another producer has fenced: make a new producer (renew), or end (exit).
    """

    kind: Literal["producer"]
    count: int = Field(1, ge=1, le=1000)
    topic: str | None = None
    rate: Rate = 100.0
    keys: str = Field("none", pattern=KEYS)
    value_size: Size = 100
    value: str | None = None
    headers: dict[str, str] = {}
    key_order: bool = False
    tombstone_share: float = Field(0.0, ge=0, le=1)
    timestamp_offset: Offset = 0
    timestamp_unit: Literal["s", "ms", "us"] = "ms"
    rack: str | None = None
    restart: Policy = "never"
    principal: str = Field(ANONYMOUS, pattern=PRINCIPAL)
    ip: str | None = Field(None, pattern=ADDRESS)
    start: Duration = 0
    stop: Duration | None = None
    transactional_id: str | None = Field(None, min_length=1)
    epochs_used: int = Field(0, ge=0, le=MAX_EPOCH)
    transaction_records: int = Field(10, ge=1)
    transaction_time: Duration = 1_000_000
    abort_share: float = Field(0.0, ge=0, le=1)
    when_fenced: Literal["renew", "exit"] = "renew"
    app: str | None = None
    app_digest: str | None = None  # of the file, in the manifest of a run
    audit: str | None = None  # the topic of its monitoring events
    audit_window: Duration = 5_000_000
    config: Properties = {}


class ProcessorTable(Table):
    """``count`` members of ``group`` that write each record of ``topics`` to ``output``.

    ``guarantee`` says how: exactly-once (outputs and offsets of a poll in one transaction,
    KIP-447), at-least-once (the offsets are committed when the outputs are acknowledged) or
    at-most-once (the offsets are committed first). With ``offset-epochs`` a transaction's offsets
    have leader epochs. The transactional id is ``transactional-id``, or the group's name, with the
    number of the member. ``config`` is for its consumer, ``producer-config`` for its producer.
    """

    kind: Literal["processor"]
    group: str = "processors"
    count: int = Field(1, ge=1, le=1000)
    topics: list[str] = []
    output: str
    guarantee: Literal["exactly-once", "at-least-once", "at-most-once"] = "exactly-once"
    offset_epochs: bool = True
    transactional_id: str | None = Field(None, min_length=1)
    epochs_used: int = Field(0, ge=0, le=MAX_EPOCH)
    abort_share: float = Field(0.0, ge=0, le=1)
    when_fenced: Literal["renew", "exit"] = "renew"
    processing: DurationSpan = Span(0, 0)
    value_size: Size = 100
    rack: str | None = None
    restart: Policy = "never"
    principal: str = Field(ANONYMOUS, pattern=PRINCIPAL)
    ip: str | None = Field(None, pattern=ADDRESS)
    start: Duration = 0
    config: Properties = {}
    producer_config: Properties = {}


class ConsumerGroupTable(Table):
    """``count`` members of ``group``, each on a host of its own.

    Without ``topics`` they subscribe to the scenario's first topic; with ``pattern`` to all topics
    whose whole name matches it, as the consumer finds out; with ``subscription-pattern`` the
    coordinator does (KIP-848), in the classic protocol the consumer if both are given.
    ``processing`` is the time a record takes. With ``handover`` the
    poll loop passes records to a worker and polls on, as an application with a processing thread
    does. ``commit`` is auto (enable.auto.commit), sync or async (after processing), first
    (synchronously before processing) or none. The callback of async-retry commits the same offsets
    again when an async commit has failed for now, that of async-ordered-retry only if no later
    commit was sent since. The first member stays away from poll() for
    ``stuck-for`` (default 10 minutes) once ``stuck-at`` has passed. ``poison-record`` is the number
    of a record of producer-1, from 0, that the application cannot process: it tries again for ever
    (``on-poison`` retry), skips it, or writes it to the topic ``dead-letter``. With
    ``app = "FILE[:FUNCTION]"`` the members run that function of a Python file, and keys about the
    built-in application say nothing.
    ``protocol`` zookeeper makes them old consumers, which keep the group in ZooKeeper (KAFKA.md,
    3.5); the others have a coordinator.

    ``store`` keeps the results in a SQLite database on the host's disk, with ``synchronous`` as
    SQLite's pragma (running/outside/storing.py). With ``remote-offsets = "a"`` a member first
    commits where the group was in cluster a, as its checkpoints translate that.
    """

    kind: Literal["consumer-group"]
    protocol: Literal["coordinator", "zookeeper"] = "coordinator"
    group: str = "group"
    count: int = Field(1, ge=1, le=1000)
    topics: list[str] = []
    pattern: str | None = None
    subscription_pattern: str | None = None
    processing: DurationSpan = Span(0, 0)
    commit: Literal[
        "auto", "sync", "async", "async-retry", "async-ordered-retry", "first", "none"
    ] = "auto"
    handover: bool = False
    stuck_at: Duration | None = None
    stuck_for: Duration | None = None
    poison_record: int | None = Field(None, ge=0)
    on_poison: Literal["retry", "skip", "dead-letter"] = "retry"
    dead_letter: str | None = None
    audit: str | None = None  # the topic whose monitoring events it compares with its counts
    store: Literal["append", "unique-keys", "offsets"] | None = None
    synchronous: Literal["FULL", "OFF"] = "FULL"
    remote_offsets: str | None = Field(None, exclude_if=_is_empty)  # of a cluster, mirrored here
    rack: str | None = None
    restart: Policy = "never"
    principal: str = Field(ANONYMOUS, pattern=PRINCIPAL)
    ip: str | None = Field(None, pattern=ADDRESS)
    start: Duration = 0
    config: Properties = {}
    app: str | None = None
    output: str | None = None  # the topic that gets one record of the application for each input
    app_digest: str | None = None  # of the file, in the manifest of a run


class ShareGroupTable(Table):
    """``count`` members of the share group ``group`` (KIP-932), each on a host of its own.

    Several members read one partition, and each record is acknowledged by itself. Without
    ``topics`` they subscribe to the scenario's first topic. ``processing`` is the time a record
    takes. ``acknowledge`` is share.acknowledgement.mode. The acknowledgements go with the next
    poll(), or by ``commit`` sync or async after processing. An explicit application releases the
    record ``poison-record`` of producer-1 (from 0) whenever it gets it, or rejects it
    (``on-poison``); and it draws ``release-share`` and ``reject-share`` of all records to release
    and to reject. The first member stays away from poll() for ``stuck-for`` once ``stuck-at`` has
    passed, records in hand. ``group-config`` are the group's own settings, as an operator sets
    them before the members start.
    """

    kind: Literal["share-group"]
    group: str = "share-group"
    count: int = Field(1, ge=1, le=1000)
    topics: list[str] = []
    processing: DurationSpan = Span(0, 0)
    acknowledge: Literal["implicit", "explicit"] = "implicit"
    commit: Literal["poll", "sync", "async"] = "poll"
    poison_record: int | None = Field(None, ge=0)
    on_poison: Literal["release", "reject"] = "release"
    release_share: float = Field(0.0, ge=0, le=1)
    reject_share: float = Field(0.0, ge=0, le=1)
    stuck_at: Duration | None = None
    stuck_for: Duration | None = None
    rack: str | None = None
    restart: Policy = "never"
    principal: str = Field(ANONYMOUS, pattern=PRINCIPAL)
    ip: str | None = Field(None, pattern=ADDRESS)
    start: Duration = 0
    config: Properties = {}
    group_config: Properties = {}


class StreamsTable(Table):
    """``count`` instances of an application of Kafka Streams, each on a host of its own.

    ``topology`` is a list of chains of steps (model/streams/declared). ``config`` are the
    properties of StreamsConfig, and of its clients with or without their prefixes (``consumer.``,
    ``main.consumer.``, ``restore.consumer.``, ``producer.``). ``processing`` is the time a record
    takes. A store's memtable is flushed when it has ``write-buffer`` bytes. ``on-error`` is what
    the uncaught exception handler answers. The instances start ``start-every`` apart.
    """

    application_id: str = Field(pattern=TOPIC_NAME)
    count: int = Field(1, ge=1, le=1000)
    topology: list[dict[str, Any]]
    processing: DurationSpan = Span(0, 0)
    write_buffer: Size = 16 << 20
    on_error: Literal["shutdown-client", "replace-thread", "shutdown-application"] = (
        "shutdown-client"
    )
    rack: str | None = None
    start: Duration = 0
    start_every: Duration = 0
    restart: Policy = "never"
    principal: str = Field(ANONYMOUS, pattern=PRINCIPAL)
    ip: str | None = Field(None, pattern=ADDRESS)
    config: Properties = {}

    @property
    def properties(self) -> dict[str, Any]:
        """``config`` with the application's id."""
        return {**self.config, "application.id": self.application_id}


class WhenTable(Table):
    """A condition: from ``after`` on the ``count``-th ``fact`` whose fields equal ``fields``.

    ``request`` and ``response`` are messages of an API, whose host is the client. ``node`` is a
    host, or a role that it has by then. ``at-least`` and ``at-most`` bound numbers and lengths.
    """

    fact: str = ""
    request: str = ""
    response: str = ""
    node: str | None = None
    fields: dict[str, str | int | bool] = {}
    at_least: dict[str, int] = {}
    at_most: dict[str, int] = {}
    after: Duration = 0
    count: int = Field(1, ge=1)


class FaultTable(Table):
    """A fault of one kind, at a time or on a condition.

    The fault starts at ``at``, or ``at`` after the fact in ``when``. It is repeated ``count`` times
    with ``every`` between the starts. It ends after ``for``, or at the first fact that matches
    ``until``, whichever comes first; without both it lasts until all faults are healed. One
    ``for = "ever"`` is not healed then either.

    ``node`` is a host or a selector: leader:TOPIC-P, follower:TOPIC-P, active-controller,
    coordinator:GROUP, any-broker, any-controller, any-zookeeper, any-producer, any-consumer, or
    @node (the host of the fact or message in ``when``). ``peers`` is the far side of a link; by
    default it is every other host. ``dir`` is one of the node's log.dirs: the fault of a disk then
    hits the files of that directory only. A ``guarded`` fault does not start if the no-loss budget
    does not allow it at that moment. README.md says which kind takes which of the other keys.
    """

    kind: Literal[FAULT_KINDS]  # type: ignore[valid-type]
    node: str | None = None
    nodes: list[str] = []
    rack: str | None = None
    peers: list[str] = []
    at: DurationSpan | None = None
    every: DurationSpan | None = None
    count: int = Field(1, ge=1, le=10000)
    for_: LastingSpan | None = Field(None, alias="for")
    when: WhenTable | None = None
    until: WhenTable | None = None
    guarded: bool = False  # a nemesis is, always
    extra: Duration | None = None  # slow-link: added to every message
    loss: float | None = Field(None, ge=0, le=1)  # flaky: the share of lost segments
    factor: float | None = Field(None, ge=1)  # slow-disk: times as slow
    offset: Offset | None = None  # clock-step: negative is back
    ppm: int | None = None  # clock-drift: parts per million
    how: Literal["crash", "power-loss", "isolate"] | None = None  # rack-loss
    path: str | None = None  # faults of disks: the beginning of the paths that they hit
    dir: str | None = None
    api: str | None = None  # hold, cut-purpose: Kafka's name of the request
    purpose: str | None = None  # hold, cut-purpose: what the connection is for
    direction: Literal["request", "response"] | None = None  # hold
    kinds: list[str] = []  # nemesis: the kinds that it draws from
    gap: Duration | None = None  # nemesis: the mean time between its faults
    purposes: list[str] = []  # nemesis: of connections that it cuts; none: those of KRaft


class OperationTable(Table):
    """What an operator does at a time, or ``at`` after the fact in ``when``.

    ``vocabulary.VERBS`` says which kind takes which keys.
    """

    kind: Literal[OPERATION_KINDS]  # type: ignore[valid-type]
    at: DurationSpan | None = None
    when: WhenTable | None = None
    node: str | None = None
    nodes: list[str] = []
    kill: bool = False
    pause: Duration = 5_000_000  # how long a restarted node stays down
    topic: str | None = None
    client_id: str | None = None  # alter-client-quotas, like user
    user: str | None = None
    ip: str | None = None  # alter-client-quotas
    config: Properties = {}
    remove: list[str] = []  # properties that alter-config, upgrade and deployments drop
    partition: int | None = Field(None, ge=0)
    replicas: list[int] = []
    cancel: bool = False
    election: Literal["preferred", "unclean"] = "preferred"
    partitions: int = Field(1, ge=1, le=10000)
    replication_factor: int = Field(1, ge=1)
    assignment: list[list[int]] = []
    offset: int = Field(-1, ge=-1)  # delete-records: the new log start; −1 is the high watermark
    group: str | None = None
    kafka_version: Release | None = None
    features: dict[str, int] = {}
    downgrade: Literal["safe", "unsafe"] | None = None  # update-features; None: an upgrade
    acls: list[AclTable] = []  # add-acls, remove-acls
    to: Literal["earliest", "latest"] | int = "latest"
    by_duration: Duration | None = Field(None, gt=0, exclude_if=_is_empty)  # reset-offsets
    open_for: Duration = 900_000_000  # abort-hanging: transactions that are open for longer


WorkloadTable = Annotated[
    ProducerTable | ConsumerGroupTable | ProcessorTable | ShareGroupTable,
    Field(discriminator="kind"),
]


class ExpectTable(Table):
    """What a run may show, must show and must never show.

    ``permits`` lists anomalies that the configuration allows, in one topic only as
    ``anomaly:TOPIC``; of those of lost records the ones with a cause (judging/README.md). Every run
    must show the observations of ``must-see``, those of ``in-time``
    before the faults are healed, and none of ``never``; at least one run of a fleet must show
    those of ``fleet-must-see``. ``no-progress`` in ``permits`` and ``must-see`` says that a healed
    cluster stands still for ever. ``within`` is how long a healed cluster may take to converge;
    ``time_limits.py:limit_us`` computes the default from the configuration, and
    ``time_limits.py:reading_us`` what groups get more then that have only to read on.
    """

    permits: list[str] = []
    must_see: list[str] = []
    in_time: list[str] = []
    within: Duration | None = None
    fleet_must_see: list[str] = []
    never: list[str] = []


class TwinTable(Table):
    """The same scenario without something it depends on; its check must fail.

    ``set`` overrides keys by path (``workload.0.config.acks``) and ``variants`` adds variants.
    ``fails`` names what some run must then show: an invariant, an anomaly,
    ``missing:OBSERVATION`` or ``seen:OBSERVATION``. ``seeds`` is how many runs may be needed.
    """

    claim: str
    set: dict[str, Any] = {}
    variants: list[str] = []
    fails: list[str] = Field(min_length=1)
    seeds: int = Field(5, ge=1, le=10_000)


class MemberTable(Table):
    """One of several clusters: ``name``, ``site``, and the keys of a scenario of it alone.

    Inside it hosts have the names that they have alone. Elsewhere broker-1 of cluster a is
    ``a.broker-1``. ``site`` is where all its hosts are, a data centre; it is ``name`` unless it is
    given. ``expect`` is about this cluster; its ``within`` is the scenario's.
    """

    name: str = Field(pattern=NAME)
    site: str | None = Field(None, pattern=NAME)
    cluster: ClusterTable = Field(default_factory=lambda: ClusterTable.model_validate({}))
    topics: list[TopicTable] = []
    acls: list[AclTable] = Field([], exclude_if=_is_empty)
    workload: list[WorkloadTable] = []
    streams: list[StreamsTable] = Field([], exclude_if=_is_empty)
    faults: list[FaultTable] = []
    operations: list[OperationTable] = []
    expect: ExpectTable = ExpectTable()


class MirrorTable(Table):
    """A dedicated MirrorMaker 2 that copies from cluster ``source`` to ``target``.

    It runs at the target's site: as ``workers`` nodes that form a Connect group and share its
    tasks; without that, as one node that runs every task and is in no group. ``config`` has Kafka's
    names of the flow's settings, without ``source->target.`` in front of them. It starts ``start``
    after t = 0.
    """

    source: str
    target: str
    workers: int | None = Field(None, ge=1)
    start: Duration = 0
    principal: str = Field(ANONYMOUS, pattern=PRINCIPAL)
    config: Properties = {}


class LinkTable(Table):
    """The link between two ``sites``: its latency in one direction, and its bandwidth.

    A site that no link names reaches all others in 60 ms, with 1 Gbit/s.
    """

    sites: list[str] = Field(min_length=2, max_length=2)
    latency: Duration
    bandwidth: Bandwidth = WAN_BYTES_PER_US


class LevelTable(Table):
    """One level of an axis: settings by path that go together, under a name."""

    name: str = Field(min_length=1)
    set: dict[str, Any]


class AxisTable(Table):
    """What a sweep changes: the ``values`` of a ``key``, a ``range`` of it, or named ``levels``."""

    name: str = ""
    key: str = ""
    values: list[Any] = []
    range: list[str | int | float] = Field([], max_length=2)
    levels: list[LevelTable] = []


class SweepTable(Table):
    """What ``kafkasim sweep`` does with the scenario when the command names no axes.

    ``question`` is what the sweep answers, ``measures`` what is shown and drawn, the first first.
    ``runs`` is how many seeds each point has; ``sample`` (``lhs:N``, ``sobol:N``) draws N points
    instead of the full grid. It decides nothing of a single run.
    """

    question: str
    axes: list[AxisTable] = Field(min_length=1)
    measures: list[str] = []
    runs: int = Field(50, ge=1)
    sample: str | None = None


class Scenario(Table):
    """One phenomenon: a claim, and what it takes to test it.

    t = 0 is the moment at which all brokers are unfenced and all topics exist. With ``clusters``
    they have the servers, topics, workloads and operations, and ``faults`` hit sites, clusters and
    hosts of any of them.
    """

    name: str = Field(pattern=NAME)
    claim: str
    duration: Duration
    cluster: ClusterTable = Field(default_factory=lambda: ClusterTable.model_validate({}))
    topics: list[TopicTable] = []
    acls: list[AclTable] = []  # that exist before the workloads start
    workload: list[WorkloadTable] = []
    streams: list[StreamsTable] = Field([], exclude_if=_is_empty)
    faults: list[FaultTable] = []
    operations: list[OperationTable] = []
    clusters: list[MemberTable] = Field([], exclude_if=_is_empty)
    links: list[LinkTable] = Field([], exclude_if=_is_empty)
    mirrors: list[MirrorTable] = Field([], exclude_if=_is_empty)
    expect: ExpectTable = ExpectTable()
    twin: TwinTable | None = None
    sweep: SweepTable | None = Field(None, exclude=True)  # no part of what decides a run
