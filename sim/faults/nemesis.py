"""The nemesis: draws a schedule of faults for a cluster, from a random stream of its own.

A schedule is plain data, drawn before the run. It does not depend on what happens in the run, so a
new draw in the model moves no fault. Its faults are guarded: a fault that would leave the no-loss
budget (:mod:`kafkasim.sim.faults.budget`) at its time does not start.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kafkasim.sim.faults.kinds import KINDS, Fault, FaultError, Parameter

SECOND = 1_000_000

WEIGHTS: dict[str, int] = {
    "gc-pause": 10,
    "crash": 8,
    "power-loss": 6,
    "restart": 4,
    "stop": 4,
    "partition": 8,
    "partition-oneway": 6,
    "isolate": 6,
    "slow-link": 5,
    "flaky": 5,
    "reset": 3,
    "half-open": 2,
    "cut-purpose": 5,
    "slow-disk": 5,
    "disk-stall": 3,
    "clock-step": 3,
    "clock-drift": 2,
}
"""How often each kind is drawn, unless a scenario says otherwise.

Kinds that break a claim by themselves (disk-failure, disk-full, disk-read-error, flush-error,
bit-rot) and the loss of whole racks are drawn only if a scenario asks for them."""

PURPOSES = ("raft-fetch", "heartbeat", "alter-partition", "replica-fetch")
"""Purposes of the connections that servers of a KRaft cluster open."""


@dataclass(frozen=True, slots=True)
class Nemesis:
    """What a schedule is drawn from.

    Raises:
        FaultError: there is no server, a weight is not valid, or no kind of fault can be drawn.
    """

    servers: Sequence[str]  # the hosts that break
    duration_us: int  # faults start and end within it
    clients: Sequence[str] = ()  # other hosts that the far side of a link may be
    racks: Sequence[str] = ()  # that can be lost as a whole
    mean_gap_us: int = 8 * SECOND  # between the starts of two faults
    shortest_us: int = SECOND // 2  # a fault lasts from this
    longest_us: int = 15 * SECOND  # to this
    weights: Mapping[str, int] = field(default_factory=lambda: WEIGHTS)
    purposes: Sequence[str] = PURPOSES  # of connections that a cut-purpose cuts

    def __post_init__(self) -> None:
        if not self.servers:
            raise FaultError("servers", "the nemesis needs at least one")
        if not 0 < self.shortest_us <= self.longest_us:
            raise FaultError("shortest", f"must be positive and at most {self.longest_us}")
        for kind, weight in self.weights.items():
            if kind not in KINDS:
                raise FaultError("weights", f"{kind!r} is none of {', '.join(KINDS)}")
            if weight < 0:
                raise FaultError("weights", f"{kind} must not be negative, is {weight}")
        if not any(self._possible().values()):
            raise FaultError("weights", "no kind of fault can be drawn")

    def draw(self, rng: random.Random) -> tuple[Fault, ...]:
        """Return a schedule, ordered by time. The same random stream gives the same schedule."""
        weights = self._possible()
        total = sum(list(weights.values()))
        faults: list[Fault] = []
        at_us = 0
        while True:
            at_us += 1 + int(rng.random() * 2 * self.mean_gap_us)
            if at_us >= self.duration_us:
                return tuple(faults)
            mark = int(rng.random() * total)
            for kind, weight in weights.items():
                mark -= weight
                if mark < 0:
                    faults.append(self._draw_fault(kind, at_us, rng))
                    break

    def _possible(self) -> dict[str, int]:
        """Return the weights of the kinds that this cluster can suffer."""
        others = len(self.servers) + len(self.clients) > 1
        return {
            kind: weight
            for kind, weight in self.weights.items()
            if (others or not KINDS[kind].link) and (self.racks or kind != "rack-loss")
        }

    def _draw_fault(self, kind: str, at_us: int, rng: random.Random) -> Fault:
        spec = KINDS[kind]
        places = self.racks if kind == "rack-loss" else self.servers
        target = places[int(rng.random() * len(places))]
        others: tuple[str, ...] = ()
        if spec.link:
            far = [name for name in (*self.servers, *self.clients) if name != target]
            others = (far[int(rng.random() * len(far))],)
        length = self.longest_us - self.shortest_us
        lasts = self.shortest_us + int(rng.random() * (length + 1))
        duration = None if spec.duration == "none" else min(lasts, self.duration_us - at_us)
        parameters = _draw_parameters(kind, rng, self.purposes)
        return Fault(kind, (target,), others, at_us, None, duration, parameters, guarded=True)


def _draw_parameters(
    kind: str, rng: random.Random, purposes: Sequence[str]
) -> tuple[tuple[str, Parameter], ...]:
    """Return parameters for a fault; it costs one draw, whatever the kind."""
    draw = rng.random()
    if kind == "slow-link":
        return (("extra-us", 1000 + int(draw * 500_000)),)
    if kind == "flaky":
        return (("loss", (1 + int(draw * 30)) / 100),)
    if kind == "cut-purpose":
        return (("purpose", purposes[int(draw * len(purposes))]),)
    if kind == "slow-disk":
        return (("factor", 2 + int(draw * 98)),)
    if kind == "clock-step":
        return (("offset-us", int((draw - 0.5) * 20 * SECOND) or SECOND),)
    if kind == "clock-drift":
        return (("ppm", int((draw - 0.5) * 400) or 1),)
    if kind == "rack-loss":
        return (("how", ("crash", "power-loss", "isolate")[int(draw * 3)]),)
    return ()
