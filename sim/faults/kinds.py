"""Faults as data: what breaks, when and for how long; and checks of a user's faults.

A :class:`Fault` is frozen. :mod:`kafkasim.sim.faults.injector` performs it. It starts at a
time, or after a condition is met (a :class:`When`: the n-th fact of a kind, or the n-th message of
an API, with given fields).
Times count from the moment at which the cluster is ready.

Targets are hosts, racks or data centres. A broker can also be named by its role at the moment at
which the fault starts: ``leader:TOPIC-PARTITION``, ``follower:TOPIC-PARTITION`` (the first member
of the ISR that does not lead), ``active-controller``, and ``@node``, the node of the fact that met
the condition, or the client of the message that did.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from kafkasim.model.facts import COLUMNS, FACTS

Parameter = int | float | str

COUNTED = ("int64", "list<int64>", "list<string>")
"""Types of fields that a condition may bound: numbers, and lists by their length."""


class FaultError(ValueError):
    """A fault is not valid; the message is one line that names the field and what is allowed."""

    def __init__(self, field: str, problem: str) -> None:
        super().__init__(field, problem)
        self.field = field
        self.problem = problem

    def __str__(self) -> str:
        return f"{self.field}: {self.problem}"


@dataclass(frozen=True, slots=True)
class When:
    """A condition: the ``count``-th fact or message of a kind whose fields have these values.

    One of ``fact``, ``request`` and ``response`` is given. A request counts when its client sends
    it, a response when the server sends it. The host of both is the client. The field ``topic`` may
    be asked of every fact that has a ``topic_id``. ``least`` and ``most`` bound numbers, and lists
    by their length: an ISR of at most one replica. What comes within the first ``after_us`` does
    not count.
    """

    fact: str = ""  # the kind
    fields: tuple[tuple[str, Any], ...] = ()  # an error is named
    node: str | None = None  # a host, or a role that the fact's host has by then; None is any host
    count: int = 1
    least: tuple[tuple[str, int], ...] = ()
    most: tuple[tuple[str, int], ...] = ()
    request: str = ""  # Kafka's name of an API
    response: str = ""
    after_us: int = 0


EVER_US = 1 << 60
"""The duration of a fault that nobody ends."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a run."""

    kind: str
    targets: tuple[str, ...]  # the places that it hits
    others: tuple[str, ...] = ()  # the far side of a link
    at_us: int = 0  # after the cluster is ready or, with ``when``, after the condition is met
    when: When | None = None
    duration_us: int | None = None  # None: until the end of the safety phase; EVER_US: no end
    parameters: tuple[tuple[str, Parameter], ...] = ()
    guarded: bool = False  # it does not start if the no-loss budget does not allow it then
    until: When | None = None  # ends it, unless its duration has

    def parameter(self, name: str) -> Any:
        """Return the value of a parameter, or its default."""
        for known, found in self.parameters:
            if known == name:
                return found
        return KINDS[self.kind].parameters[name].default

    @property
    def lasts(self) -> bool:
        """Whether nobody ends it, not even when all others are healed."""
        return self.duration_us == EVER_US

    @property
    def target(self) -> str:
        """Return the targets as the trace names them."""
        near = "+".join(self.targets)
        return f"{near}|{'+'.join(self.others)}" if self.others else near


@dataclass(frozen=True, slots=True)
class Allowed:
    """The values that a parameter may have; without a default it is ``required`` or may be None."""

    type: type
    default: Parameter | None = None
    lowest: float | None = None
    highest: float | None = None
    choices: tuple[str, ...] = ()
    required: bool = False


@dataclass(frozen=True, slots=True)
class Kind:
    """What a fault of one kind must and may say."""

    link: bool = False  # it has two sides
    duration: str = "optional"  # or "required", or "none"
    parameters: Mapping[str, Allowed] = ()  # type: ignore[assignment]
    stops: bool = False  # the process ends
    loses_data: bool = False  # writes that were not flushed are lost

    def __post_init__(self) -> None:
        object.__setattr__(self, "parameters", dict(self.parameters))


_MESSAGES = {
    "api": Allowed(str),
    "direction": Allowed(str, choices=("request", "response")),
    "purpose": Allowed(str),
}

_PREFIX = {"path": Allowed(str, "")}
"""Files below this path fail: one log directory, or all of the disk."""

KINDS: dict[str, Kind] = {
    "gc-pause": Kind(duration="required"),
    "crash": Kind(stops=True),
    "power-loss": Kind(stops=True, loses_data=True),
    "restart": Kind(duration="none", stops=True),
    "stop": Kind(stops=True),
    "partition": Kind(link=True),
    "partition-oneway": Kind(link=True),
    "isolate": Kind(),
    "slow-link": Kind(
        link=True,
        parameters={"extra-us": Allowed(int, lowest=1, highest=600_000_000, required=True)},
    ),
    "flaky": Kind(
        link=True, parameters={"loss": Allowed(float, lowest=0, highest=1, required=True)}
    ),
    "reset": Kind(link=True, duration="none"),
    "half-open": Kind(link=True, duration="none"),
    "hold": Kind(link=True, parameters=_MESSAGES),
    "cut-purpose": Kind(
        link=True, parameters={"purpose": Allowed(str, required=True), "api": Allowed(str)}
    ),
    "slow-disk": Kind(parameters={"factor": Allowed(float, 10.0, lowest=1, highest=1_000_000)}),
    "disk-stall": Kind(),
    "disk-full": Kind(parameters=_PREFIX),
    "disk-read-error": Kind(parameters=_PREFIX),
    "flush-error": Kind(parameters=_PREFIX),
    "disk-failure": Kind(parameters=_PREFIX),
    "bit-rot": Kind(
        duration="none", parameters={"path": Allowed(str, ""), "index": Allowed(int, lowest=0)}
    ),
    "clock-step": Kind(parameters={"offset-us": Allowed(int, required=True)}),
    "clock-drift": Kind(
        parameters={"ppm": Allowed(int, lowest=-999_999, highest=999_999, required=True)}
    ),
    "rack-loss": Kind(
        parameters={"how": Allowed(str, "power-loss", choices=("crash", "power-loss", "isolate"))},
    ),
}
"""Every kind of fault. ``rack-loss`` takes racks or data centres and hits all their hosts."""

ROLES = ("leader:", "follower:", "active-controller", "@node")


def validate(fault: Fault, places: Mapping[str, Any] | None = None) -> None:
    """Check a fault; ``places`` are the names that a target may have besides the roles.

    Raises:
        FaultError: one line that names the field and what is allowed.
    """
    kind = KINDS.get(fault.kind)
    if kind is None:
        raise FaultError("kind", f"{fault.kind!r} is none of {', '.join(KINDS)}")
    if not fault.targets:
        raise FaultError("targets", f"{fault.kind} needs at least one")
    if kind.link and not fault.others:
        raise FaultError("others", f"{fault.kind} needs the far side of the link")
    if not kind.link and fault.others:
        raise FaultError("others", f"{fault.kind} has no far side")
    for field, names in (("targets", fault.targets), ("others", fault.others)):
        for name in names:
            _validate_place(field, name, fault, places)
    if fault.at_us < 0:
        raise FaultError("at", f"must not be negative, is {fault.at_us}")
    _validate_duration(fault, kind)
    _validate_parameters(fault, kind)
    for key, condition in (("when", fault.when), ("until", fault.until)):
        if condition is not None:
            validate_when(condition, key)
    if fault.until is not None and kind.duration != "optional":
        raise FaultError("until", f"{fault.kind} does not last until a fact")


def validate_when(when: When, key: str) -> None:
    """Check a condition; errors name it by ``key``.

    Raises:
        FaultError: one line that names the field and what is allowed.
    """
    if sum(map(bool, (when.fact, when.request, when.response))) != 1:
        raise FaultError(key, "give one of fact, request and response")
    if when.fact:
        _validate_fields(when, key)
    if when.count < 1:
        raise FaultError(f"{key}.count", f"must be at least 1, is {when.count}")


def _validate_fields(when: When, key: str) -> None:
    """Check the kind of a fact and its fields; what sends messages knows theirs."""
    fact = FACTS.get(when.fact)
    if fact is None:
        raise FaultError(f"{key}.fact", f"{when.fact!r} is none of {', '.join(FACTS)}")
    fields = list(fact.__dataclass_fields__)  # type: ignore[attr-defined]
    if "topic_id" in fields and "topic" not in fields:
        fields.append("topic")
    for name, _ in (*when.fields, *when.least, *when.most):
        if name not in fields:
            allowed = ", ".join(fields) or "no field"
            raise FaultError(f"{key}.{name}", f"{when.fact} has {allowed}")
    for name, _ in (*when.least, *when.most):
        if COLUMNS[name] not in COUNTED:
            raise FaultError(f"{key}.{name}", "only numbers and lists can be bounded")


def _validate_place(field: str, name: str, fault: Fault, places: Mapping[str, Any] | None) -> None:
    if name == "@node" and fault.when is None:
        raise FaultError(field, "'@node' needs a when")
    if name.startswith(ROLES[:2]):
        topic, dash, partition = name.partition(":")[2].rpartition("-")
        if not (topic and dash and partition.isdigit()):
            raise FaultError(field, f"{name!r} must be like 'leader:orders-0'")
    elif name not in ROLES and places is not None and name not in places:
        raise FaultError(field, f"{name!r} is none of {', '.join(places)}")


def _validate_duration(fault: Fault, kind: Kind) -> None:
    if kind.duration == "required" and fault.duration_us is None:
        raise FaultError("for", f"{fault.kind} needs a duration")
    if kind.duration == "none" and fault.duration_us is not None:
        raise FaultError("for", f"{fault.kind} has no duration")
    if fault.duration_us is not None and fault.duration_us <= 0:
        raise FaultError("for", f"must be positive, is {fault.duration_us}")


def _validate_parameters(fault: Fault, kind: Kind) -> None:
    given = dict(fault.parameters)
    for name in given:
        if name not in kind.parameters:
            allowed = ", ".join(kind.parameters) or "no parameter"
            raise FaultError(name, f"{fault.kind} has {allowed}")
    for name, allowed_ in kind.parameters.items():
        if name in given:
            _validate_parameter(name, given[name], allowed_)
        elif allowed_.required:
            raise FaultError(name, f"{fault.kind} needs it")


def _validate_parameter(name: str, found: Any, allowed: Allowed) -> None:
    fits = isinstance(found, (int, float) if allowed.type is float else allowed.type)
    if not fits or isinstance(found, bool):
        raise FaultError(name, f"must be a {allowed.type.__name__}, is {found!r}")
    if allowed.choices and found not in allowed.choices:
        raise FaultError(name, f"{found!r} is none of {', '.join(allowed.choices)}")
    if allowed.lowest is not None and found < allowed.lowest:
        raise FaultError(name, f"must be at least {allowed.lowest}, is {found}")
    if allowed.highest is not None and found > allowed.highest:
        raise FaultError(name, f"must be at most {allowed.highest}, is {found}")
