"""The scenario language: one phenomenon as data, read from TOML and checked before anything runs.

A scenario has a claim, a cluster, topics, workloads, faults, operations, an expectation and a twin.
Property names are Kafka's. Every mistake is one line that names the file, the key and what is
allowed (:class:`ScenarioError`).
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    model_validator,
)

from kafkasim.scenarios.language.units import Duration, DurationSpan, Rate, Size, Span
from kafkasim.scenarios.language.verbs import VERBS
from kafkasim.sim.faults.faults import KINDS


def flatten(table: Any, prefix: str = "") -> Any:
    """Return properties under their full names: TOML reads ``a.b.c = 1`` as tables in tables."""
    if not isinstance(table, Mapping):
        return table
    flat: dict[str, Any] = {}
    for key, value in table.items():
        nested = isinstance(value, Mapping)
        flat.update(flatten(value, f"{prefix}{key}.") if nested else {f"{prefix}{key}": value})
    return flat


Properties = Annotated[dict[str, str | int | float | bool | list[str]], BeforeValidator(flatten)]

FAULT_KINDS = (*KINDS, "nemesis")
OPERATIONS = tuple(VERBS)

ANOMALIES = (
    "lost-write",
    "unseen",
    "duplicate",
    "inconsistent-offsets",
    "poll-skip",
    "nonmonotonic-poll",
    "nonmonotonic-send",
    "offset-regression",
    "skipped-by-commit",
    "double-owner",
    "zombie-owner",
    "stale-fetch",
    "last-replica-standing",
)


class ScenarioError(ValueError):
    """A scenario cannot be used; the message is one line naming file, key and what is allowed."""


class Section(BaseModel):
    """Base of all tables: unknown keys are errors; keys are written with dashes."""

    model_config = ConfigDict(
        extra="forbid", frozen=True, alias_generator=lambda name: name.replace("_", "-")
    )


class Host(Section):
    """What one node has that the others have not; ``start`` is how much later it is switched on."""

    config: Properties = {}
    rack: str | None = None
    fsync: Duration | None = None
    start: Duration = 0
    kafka_version: Literal["2.8-zk", "3.9", "4.0"] | None = None  # else the cluster's


class Cluster(Section):
    """The servers. ``config`` holds broker properties (server.properties) for every broker.

    Of the controllers the first ``combined`` run in the processes of broker-1… (process.roles =
    broker,controller), the others on hosts of their own; ``standby-controllers`` follow them
    without a vote until they are added (KIP-853).

    ``features`` are what kafka-storage format --feature sets. ``config-file``, a path beside the scenario, is read into ``config`` before (properties.py).
    """

    mode: Literal["kraft", "zookeeper"] = "kraft"
    kafka_version: Literal["2.8-zk", "3.9", "4.0"] = "4.0"
    brokers: int = Field(3, ge=1, le=100)
    controllers: Literal[1, 3, 5] = 3
    combined: int = Field(0, ge=0, le=5)
    standby_controllers: int = Field(0, ge=0, le=5)
    zookeepers: Literal[1, 3, 5] = 3  # servers of the ensemble; in ZooKeeper mode there are no
    zookeeper_config: Properties = {}  # controllers but the brokers. Keys of zoo.cfg
    racks: list[str] = []
    config: Properties = {}
    features: dict[str, int] = {}
    nodes: dict[str, Host] = {}
    variants: list[str] = []

    @model_validator(mode="before")
    @classmethod
    def _version(cls, data: Any) -> Any:
        """In ZooKeeper mode the newest version that still has it is the default."""
        if isinstance(data, Mapping) and data.get("mode") == "zookeeper":
            return {"kafka-version": "3.9", **data}
        return data


class Topic(Section):
    """A topic that exists before the workloads start."""

    name: str = Field(pattern=r"^[A-Za-z0-9._-]+$", max_length=249)
    partitions: int = Field(1, ge=1, le=10000)
    replication_factor: int = Field(1, ge=1)
    assignment: list[list[int]] = []  # brokers of each partition, preferred leader first
    config: Properties = {}


class Producer(Section):
    """``count`` client hosts that each send ``rate`` records a second to ``topic``.

    ``keys``: none | uniform:N | zipf:N:S (N keys; S is the exponent).
    """

    kind: Literal["producer"]
    count: int = Field(1, ge=1, le=1000)
    topic: str | None = None
    rate: Rate = 100.0
    keys: str = Field("none", pattern=r"^(none|uniform:[1-9][0-9]*|zipf:[1-9][0-9]*:[0-9.]+)$")
    value_size: Size = 100
    rack: str | None = None
    start: Duration = 0
    stop: Duration | None = None
    config: Properties = {}


class ConsumerGroup(Section):
    """``count`` members of ``group``.

    ``commit``: auto | sync | async (after processing) | first (before processing) | none.
    ``processing``: how long a record takes; ``handover`` True hands records to a worker and polls
    on, as applications do that process in another thread.
    """

    kind: Literal["consumer-group"]
    group: str = "group"
    count: int = Field(1, ge=1, le=1000)
    topics: list[str] = []
    processing: DurationSpan = Span(0, 0)
    commit: Literal["auto", "sync", "async", "first", "none"] = "auto"
    handover: bool = False
    stuck_at: Duration | None = None
    stuck_for: Duration | None = None
    rack: str | None = None
    start: Duration = 0
    config: Properties = {}


class When(Section):
    """A condition: the ``count``-th fact of ``fact`` whose fields equal ``fields``."""

    fact: str
    node: str | None = None
    fields: dict[str, str | int | bool] = {}
    count: int = Field(1, ge=1)


class Fault(Section):
    """A fault of one kind, at a time (repeated with ``every``) or on a condition (``at`` later).

    ``node`` names a node or a selector: leader:TOPIC-P, follower:TOPIC-P, active-controller,
    coordinator:GROUP, any-broker, any-controller, any-consumer, any-producer, @node (the node of
    the fact in ``when``). ``peers`` is the far side of a link, all other nodes by default. A crash
    or power loss lasts ``for``; without it the node stays down until the end of the faults.
    ``until`` ends the fault at a fact that comes after its start, if ``for`` is not over before.
    ``dir`` is one of the node's log.dirs: a disk's fault hits the files of that directory only.
    """

    kind: Literal[FAULT_KINDS]  # type: ignore[valid-type]
    node: str | None = None
    nodes: list[str] = []
    rack: str | None = None
    peers: list[str] = []
    at: DurationSpan | None = None
    every: DurationSpan | None = None
    count: int = Field(1, ge=1, le=10000)
    for_: DurationSpan | None = Field(None, alias="for")
    when: When | None = None
    until: When | None = None
    extra: Duration | None = None
    loss: float | None = Field(None, ge=0, le=1)
    factor: float | None = Field(None, ge=1)
    offset: Duration | None = None
    ppm: int | None = None
    how: Literal["crash", "power-loss", "isolate"] | None = None
    path: str | None = None
    dir: str | None = None
    api: str | None = None
    purpose: str | None = None
    direction: Literal["request", "response"] | None = None
    kinds: list[str] = []
    gap: Duration | None = None


class Operation(Section):
    """What an operator does at a time; which verb takes what is in :mod:`kafkasim.scenarios.language.verbs`."""

    kind: Literal[OPERATIONS]  # type: ignore[valid-type]
    at: DurationSpan
    node: str | None = None
    nodes: list[str] = []
    kill: bool = False
    pause: DurationSpan = Span(5_000_000, 5_000_000)
    topic: str | None = None
    config: Properties = {}
    remove: list[str] = []  # settings that alter-config takes away
    partition: int | None = Field(None, ge=0)
    replicas: list[int] = []
    cancel: bool = False
    election: Literal["preferred", "unclean"] = "preferred"
    partitions: int = Field(1, ge=1, le=10000)
    replication_factor: int = Field(1, ge=1)
    assignment: list[list[int]] = []
    offset: int = Field(-1, ge=-1)
    group: str | None = None
    kafka_version: Literal["2.8-zk", "3.9", "4.0"] | None = None
    features: dict[str, int] = {}
    to: Literal["earliest", "latest"] | int = "latest"


class Expect(Section):
    """What a run may show and must show.

    ``permits``: anomalies that this configuration allows, in one topic as ``anomaly:TOPIC``.
    ``must-see``: observations that every run must show; ``never``: observations no run may show;
    ``in-time``: what it must show before its faults are healed. ``within`` is how long it may take
    to converge after that; without it the limit comes from the configuration.
    """

    permits: list[str] = []
    must_see: list[str] = []
    in_time: list[str] = []
    within: Duration | None = None
    fleet_must_see: list[str] = []
    never: list[str] = []


class Twin(Section):
    """The same scenario with something taken away: its check must fail.

    ``set`` overrides keys by path (``workload.0.config.acks``); ``fails`` names what must then be
    found: anomalies or ``missing:<observation>`` or ``seen:<observation>``.
    """

    claim: str
    set: dict[str, Any] = {}
    variants: list[str] = []
    fails: list[str] = Field(min_length=1)
    seeds: int = Field(5, ge=1)


class Scenario(Section):
    """One phenomenon. Durations count from the moment the cluster is ready."""

    name: str = Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9-]*$")
    claim: str
    duration: Duration
    cluster: Cluster = Field(default_factory=lambda: Cluster.model_validate({}))
    topics: list[Topic] = []
    workload: list[Annotated[Producer | ConsumerGroup, Field(discriminator="kind")]] = []
    faults: list[Fault] = []
    operations: list[Operation] = []
    expect: Expect = Expect()
    twin: Twin | None = None

    @model_validator(mode="after")
    def _consistent(self) -> Scenario:
        from kafkasim.scenarios.language.validate import check

        check(self)
        return self


def parse(data: Mapping[str, Any], source: str) -> Scenario:
    """Check a scenario's data.

    Raises:
        ScenarioError: naming ``source``, the key and what is allowed.
    """
    try:
        return Scenario.model_validate(data)
    except ValidationError as error:
        raise ScenarioError(f"{source}: {_one_line(error)}") from None


def load(path: Path) -> Scenario:
    """Read and check a scenario file.

    Raises:
        ScenarioError: no such file, not TOML, or not a scenario.
    """
    return parse(read_toml(path), str(path))


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file.

    Raises:
        ScenarioError: no such file, or not TOML.
    """
    try:
        with path.open("rb") as file:
            return tomllib.load(file)
    except FileNotFoundError:
        raise ScenarioError(f"{path}: no such file") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ScenarioError(f"{path}: not TOML: {error}") from None
    except OSError as error:
        raise ScenarioError(f"{path}: cannot be read: {error.strerror}") from None


def override(data: Mapping[str, Any], path: str, value: Any, source: str) -> dict[str, Any]:
    """Return ``data`` with one key replaced: ``cluster.config.replica.lag.time.max.ms=5000``.

    Inside a ``config`` table the rest of the path is one Kafka property name.

    Raises:
        ScenarioError: the path leads through something that is no table or list.
    """
    head, _, rest = path.partition(".")
    copy: Any = dict(data)
    if head == "config" and rest:
        copy[head] = {**copy.get(head, {}), rest: value}
    elif not rest:
        copy[head] = value
    else:
        child = copy.get(head, {})
        if isinstance(child, list):
            index, _, deeper = rest.partition(".")
            if not index.isdigit() or int(index) >= len(child):
                raise ScenarioError(
                    f"{source}: {path}: {head} has entries 0 to {len(child) - 1}, not {index!r}"
                )
            items = list(child)
            items[int(index)] = (
                override(items[int(index)], deeper, value, source) if deeper else value
            )
            copy[head] = items
        elif isinstance(child, Mapping):
            copy[head] = override(child, rest, value, source)
        else:
            raise ScenarioError(f"{source}: {path}: {head} is not a table")
    return dict(copy)


def _one_line(error: ValidationError) -> str:
    first = error.errors()[0]
    place = ".".join(str(part) for part in first["loc"] if part not in _WORKLOADS)
    kind = first["type"]
    if kind == "extra_forbidden":
        return f"{place}: unknown key; allowed: {', '.join(_allowed(first['loc']))}"
    if kind == "missing":
        return f"{place}: is missing"
    message = str(first["msg"]).removeprefix("Value error, ")
    if kind == "value_error":
        return f"{place}: {message}" if place else message
    return f"{place}: {message}, not {first['input']!r}"


def _allowed(location: tuple[int | str, ...]) -> list[str]:
    """Return the keys of the table that a misspelt key stands in."""
    model: Any = Scenario
    for part in location[:-1]:
        if isinstance(part, int):
            continue
        if part in _WORKLOADS:
            model = _WORKLOADS[part]
            continue
        for name, field in model.model_fields.items():
            if (field.alias or name) == part:
                model = next((m for m in _SECTIONS if m.__name__ in str(field.annotation)), model)
    return sorted(field.alias or name for name, field in model.model_fields.items())


_WORKLOADS: dict[Any, Any] = {"producer": Producer, "consumer-group": ConsumerGroup}
_SECTIONS = (Cluster, Topic, Fault, Operation, Expect, Twin, When, Host)
