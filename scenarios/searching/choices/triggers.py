"""Choices between the kinds of triggers: the facts at which a fault begins or ends.

A trigger is a fact alone, a fact with fields, a fact of a host with a role, a fact with a bound (of
a number, or of a list by its length), or the n-th fact of a kind. Each kind is drawn equally often
(:data:`KINDS`), for ends as for beginnings:

- Some faults end at a trigger, if it comes before their time is over. They last some seconds.
- Some seeds get one more fault, which begins at a trigger, and may end at another.
- An end that hardly ever comes in time is replaced by another.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.language.units import duration_us
from kafkasim.scenarios.searching.chains import events
from kafkasim.scenarios.searching.chains.anchor import Anchor
from kafkasim.scenarios.searching.chains.disturbances import DISTURBANCES
from kafkasim.scenarios.searching.chains.pace import Pace
from kafkasim.scenarios.searching.shapes.apart import has_second_process, is_about_its_faults
from kafkasim.scenarios.searching.shapes.focus import Focus, ms
from kafkasim.sim.faults.kinds import KINDS as FAULTS

Trigger = dict[str, Any]

ENDED = 0.12
"""The share of seeds of which some faults end at a trigger."""

BEGUN = 0.12
"""The share of seeds with one more fault, which begins at a trigger."""

MOST_ENDS = 3
"""So many faults of a seed get an end, at most."""

WAITED_MS = 4000
"""A fault that ends at a trigger lasts at least so long if none comes."""

LATE_ENDS = ("BrokerRegistration", "ControllerActive", "Truncated")
"""Ends that a fault of a second or two hardly ever lives to see."""


class Sights:
    """What can be seen in one scenario."""

    def __init__(self, rng: random.Random, data: dict[str, Any]) -> None:
        self.rng = rng
        self.topic: dict[str, Any] = data["topics"][0]
        self.name = {"topic": self.topic["name"]}
        self.factor: int = self.topic["replication-factor"]
        self.in_zookeeper = data["cluster"].get("mode") == "zookeeper"
        self.faults = [each["kind"] for each in data["faults"] if each["kind"] != "nemesis"]
        kept = [each for each in data["workload"] if each.get("protocol") != "zookeeper"]
        kinds = ("consumer-group", "processor")
        self.groups = [each["group"] for each in kept if each["kind"] in kinds]
        known = max(self.topic["partitions"], len(self.topic.get("assignment", ())))
        self.partition = f"{self.topic['name']}-{rng.randrange(known)}"

    def often(self) -> int:
        """Draw which one counts of facts that come many times a second."""
        return self.rng.choice((2, 5, 10, 20, 40))


def fact(sights: Sights) -> Trigger:
    """Draw a fact alone."""
    names = ["PartitionChanged", "BecameLeader", "IsrChanged", "HostStopped", "FaultEnded"]
    if sights.groups:
        names += ["OffsetCommitted", "GroupState"]
    return {"fact": sights.rng.choice(names)}


def fields(sights: Sights) -> Trigger:
    """Draw a fact with fields: why a partition changed, which fault, whose registration."""
    rng = sights.rng
    choices: list[Trigger] = [
        {"fact": "PartitionChanged", "fields": {**sights.name, "reason": reason}}
        for reason in ("fenced", "lag", "caught-up", "controlled-shutdown")
    ]
    choices += [{"fact": "BrokerRegistration", "fields": {"change": change}}
                for change in ("registered", "fenced", "unfenced")]  # fmt: skip
    choices += [{"fact": name, "fields": {"fault": rng.choice(sights.faults)}}
                for name in ("FaultStarted", "FaultEnded") if sights.faults]  # fmt: skip
    choices += [{"fact": "OffsetCommitted", "fields": {"group": group}} for group in sights.groups]
    return rng.choice(choices)


def role(sights: Sights) -> Trigger:
    """Draw a fact of a leader, of a follower, or of the active controller, whoever it is then."""
    rng = sights.rng
    leader, follower = f"leader:{sights.partition}", f"follower:{sights.partition}"
    choices: list[Trigger] = [
        {"fact": "HighWatermark", "node": leader, "count": sights.often()},
        {"fact": "Appended", "node": leader, "count": sights.often()},
        {"fact": "BecameLeader", "node": leader},
        {"fact": "PartitionChanged", "node": "active-controller", "count": rng.choice((1, 2, 5))},
        {"fact": "BrokerRegistration", "node": "active-controller"},
    ]
    if sights.factor > 1:
        choices.append({"fact": "Replicated", "node": follower, "count": sights.often()})
        choices.append({"fact": "IsrChanged", "node": leader})
    return rng.choice(choices)


def bound(sights: Sights) -> Trigger:
    """Draw a fact with a bound: of an ISR, an epoch, a generation, or of who has some records."""
    rng = sights.rng
    changed = {"fact": "PartitionChanged", "fields": sights.name}
    choices: list[Trigger] = [
        {**changed, "at-least": {"leader_epoch": rng.choice((1, 2, 3))}},
        {"fact": "HostStarted", "at-least": {"incarnation": 1}},
    ]
    if sights.factor > 1:
        fewer = sights.factor - 1
        choices += [
            {**changed, "at-most": {"isr": fewer}},
            {**changed, "at-least": {"isr": sights.factor, "partition_epoch": 1}},
            {"fact": "HighWatermark", "fields": sights.name, "at-most": {"acknowledged": fewer}},
        ]
    if sights.groups:
        choices.append({"fact": "GroupState", "at-least": {"generation": rng.choice((1, 2))}})
    return rng.choice(choices)


def count(sights: Sights) -> Trigger:
    """Draw the n-th fact of a kind."""
    rng = sights.rng
    choices: list[Trigger] = [
        {"fact": "Appended", "count": sights.often()},
        {"fact": "HighWatermark", "count": sights.often()},
        {"fact": "PartitionChanged", "count": rng.choice((2, 3, 5))},
        {"fact": "BecameLeader", "count": rng.choice((2, 3))},
    ]
    often = "ControlRequest" if sights.in_zookeeper else "MetadataCommitted"
    choices.append({"fact": often, "count": sights.often()})
    if sights.factor > 1:
        choices.append({"fact": "Replicated", "count": sights.often()})
    if sights.groups:
        choices.append({"fact": "OffsetCommitted", "count": rng.choice((2, 5, 10))})
    return rng.choice(choices)


KINDS: tuple[Callable[[Sights], Trigger], ...] = (fact, fields, role, bound, count)
"""The kinds of triggers; each has the same share."""

AWAY = (events.leader_away, events.broker_away, events.controller_away)


def triggers(rng: random.Random, data: dict[str, Any], mode: str) -> None:
    """Let faults of some seeds begin and end at triggers of all kinds.

    Where a second process of a broker runs, no broker goes away (choices/operators.py:duplicates).
    """
    if is_about_its_faults(data):
        return
    if has_second_process(data):
        return
    sights = Sights(rng, data)
    for each in data["faults"]:
        if each.get("until", {}).get("fact") in LATE_ENDS and len(each["until"]) == 1:
            _end(each, sights)
    if rng.random() < ENDED:
        endless = [each for each in data["faults"] if _may_end(each)]
        for each in rng.sample(endless, min(len(endless), MOST_ENDS)):
            _end(each, sights)
    if rng.random() < BEGUN:
        _begin(rng, data, mode, sights)


def _begin(rng: random.Random, data: dict[str, Any], mode: str, sights: Sights) -> None:
    """Add a fault that begins at a trigger; half of those that may end at one do so."""
    focus = Focus.beside(rng, data, mode)
    known = len(focus.faults)
    pace = Pace.of(rng, mode, focus.config)
    anchor = Anchor(rng.choice((0.1, 5.0, 30.0, pace.near())), rng.choice(KINDS)(sights))
    rng.choice(rng.choice((AWAY, DISTURBANCES[mode])))(focus, pace, anchor)
    added = focus.faults[known]
    if _may_end(added) and rng.random() < 0.5:
        _end(added, sights)


def _end(fault: dict[str, Any], sights: Sights) -> None:
    """Let a fault end at a trigger of any kind, and last until it comes, up to a limit."""
    fault["until"] = sights.rng.choice(KINDS)(sights)
    lasts = fault["for"]
    if duration_us(lasts[-1] if isinstance(lasts, list) else lasts) < 1000 * WAITED_MS:
        fault["for"] = ms(WAITED_MS)


def _may_end(fault: dict[str, Any]) -> bool:
    kind = FAULTS.get(fault["kind"])  # a nemesis is none
    return (
        "for" in fault
        and "until" not in fault
        and kind is not None
        and (kind.duration == "optional")
    )
