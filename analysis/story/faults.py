"""Faults in words: which traffic is cut between whom, which disk fails and how.

A trace names a fault by its kind and its hosts: ``near|far`` for the two sides of a link, each of
them hosts joined by ``+``. The scenario, which the manifest of a run contains, has the numbers of
the fault (delay, loss). If a number was drawn from a range, or several faults of a kind hit
different hosts, the text leaves the number out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Numbers = Mapping[str, Any]
"""The keys of the scenario's fault that caused it, without those that are not given."""

STOPS = ("crash", "power-loss", "stop", "restart", "rack-loss")
"""Faults that end processes: the processes' own stops and starts tell the rest."""


def sides(target: str) -> tuple[list[str], list[str]]:
    """Return the hosts on the near and on the far side of a fault; no host is on both."""
    near, _, far = target.partition("|")
    hosts = near.split("+")
    return hosts, [host for host in far.split("+") if host and host not in hosts]


def name(kind: str, target: str, numbers: Numbers) -> str:
    """Return what a fault is called: its kind and the hosts that it hits."""
    near, far = sides(target)
    what = NAMES.get(kind, kind)
    if kind in ("hold", "cut-purpose"):
        what = f"{what} of {_which(numbers)}"
    if not far:
        return f"{what} of {listing(near)}"
    if kind == "partition-oneway":
        return f"{what} from {each_of(near)} to {each_of(far)}"
    return f"{what} between {each_of(near)} and {each_of(far)}"


def effect(kind: str, numbers: Numbers) -> str:
    """Return what a fault does while it lasts, without the hosts."""
    if kind == "rack-loss":
        kind = numbers.get("how", "power-loss")
    words = EFFECTS[kind]
    return words if isinstance(words, str) else words(numbers)


def numbers_of(faults: Sequence[Mapping[str, Any]], kind: str, target: str) -> Numbers:
    """Return the scenario's numbers for a fault in the trace, nothing where they are not certain.

    ``faults`` are those of the scenario, as the manifest has them.
    """
    near, _ = sides(target)
    same = [fault for fault in faults if fault.get("kind") == kind]
    named = [fault for fault in same if fault.get("node") in near]
    found = [
        {key: value for key, value in fault.items() if key in _NUMBERS and value is not None}
        for fault in named or same
    ]
    if not found or any(other != found[0] for other in found):
        return {}
    return found[0]


_NUMBERS = (
    "extra", "loss", "factor", "offset", "ppm", "how", "path", "dir", "api", "purpose", "direction",
)  # fmt: skip


def listing(hosts: Sequence[str]) -> str:
    """Return hosts by name: ``broker-1, broker-2``, or ``producer-1 to producer-9`` for many."""
    kinds: dict[str, list[str]] = {}
    for host in hosts:
        kinds.setdefault(host.rpartition("-")[0], []).append(host)
    parts = []
    for some in kinds.values():
        numbers = [host.rpartition("-")[2] for host in some]
        first = int(numbers[0]) if numbers[0].isdigit() else 0
        row = [str(number) for number in range(first, first + len(some))]
        parts += [f"{some[0]} to {some[-1]}"] if len(some) > 3 and numbers == row else some
    return ", ".join(parts)


def each_of(hosts: Sequence[str]) -> str:
    """Return one side of a link."""
    return hosts[0] if len(hosts) == 1 else f"each of {listing(hosts)}"


# ------------------------------------------------------------------------------- kind by kind

NAMES = {
    "gc-pause": "GC pause",
    "power-loss": "power loss",
    "stop": "clean stop",
    "rack-loss": "rack loss",
    "partition": "network partition",
    "partition-oneway": "one-way partition",
    "isolate": "isolation",
    "slow-link": "slow link",
    "flaky": "packet loss",
    "reset": "reset of connections",
    "half-open": "half-open connections",
    "cut-purpose": "cut",
    "slow-disk": "slow disk",
    "disk-stall": "disk stall",
    "disk-full": "full disk",
    "disk-read-error": "read errors",
    "flush-error": "flush errors",
    "disk-failure": "disk failure",
    "bit-rot": "bit rot",
    "clock-step": "clock step",
    "clock-drift": "clock drift",
}
"""What a kind of fault is called; the others have the name of their kind."""


def _which(numbers: Numbers) -> str:
    """Return which messages a fault selects, e.g. ``messages on raft-fetch connections``."""
    what = "messages" if "direction" not in numbers else f"{numbers['direction']}s"
    api = f"{numbers['api']} " if "api" in numbers else ""
    purpose = f" on {numbers['purpose']} connections" if "purpose" in numbers else ""
    return f"{api}{what}{purpose}"


def _slow(numbers: Numbers) -> str:
    extra = f"{duration(_us(numbers['extra']))} " if "extra" in numbers else ""
    return f"every packet takes {extra}longer"


def _flaky(numbers: Numbers) -> str:
    loss = numbers.get("loss")
    return f"{'some' if loss is None else f'{loss:.0%}'} of the packets are lost and sent again"


def _disk(numbers: Numbers) -> str:
    return f"log directory {numbers['dir']}" if "dir" in numbers else "the disk"


def _slow_disk(numbers: Numbers) -> str:
    factor = numbers.get("factor")
    return "every operation is slow" if factor is None else f"{factor:g} times slower"


def _step(numbers: Numbers) -> str:
    offset = numbers.get("offset")
    if offset is None:
        return "the wall clock jumps"
    us = _us(offset)
    return f"the wall clock jumps {duration(abs(us))} {'back' if us < 0 else 'ahead'}"


def _drift(numbers: Numbers) -> str:
    ppm = numbers.get("ppm")
    if ppm is None:
        return "the clock drifts"
    return f"the clock runs {abs(ppm)} ppm too {'slow' if ppm < 0 else 'fast'}"


EFFECTS: dict[str, str | Callable[[Numbers], str]] = {
    "gc-pause": "it runs no code, its connections stay open",
    "crash": "killed as by kill -9, the page cache survives",
    "power-loss": "data that was not flushed to disk is lost",
    "restart": "its process is killed and started again",
    "stop": "SIGTERM, so a controlled shutdown",
    "isolate": "no traffic between it and any other host",
    "partition": "no traffic passes",
    "partition-oneway": "the other direction works",
    "slow-link": _slow,
    "flaky": _flaky,
    "reset": "both ends notice at once",
    "half-open": "messages over them are lost and neither end notices",
    "hold": "they wait and arrive when it ends",
    "cut-purpose": "they are lost, all other traffic passes",
    "slow-disk": _slow_disk,
    "disk-stall": "reads and writes do not return",
    "disk-full": lambda numbers: f"{_disk(numbers)} takes no write",
    "disk-read-error": lambda numbers: f"reads from {_disk(numbers)} fail",
    "flush-error": lambda numbers: f"fsync on {_disk(numbers)} fails",
    "disk-failure": lambda numbers: f"{_disk(numbers)} answers with I/O errors",
    "bit-rot": "one record batch is corrupted",
    "clock-step": _step,
    "clock-drift": _drift,
}


def _us(text: str) -> int:
    """Return a duration of the manifest in microseconds."""
    return int(text.removesuffix("us"))


def duration(us: int) -> str:
    """Return a duration in the unit that suits it: ``6.4 s``, ``200 ms``."""
    if us >= 120_000_000:
        return f"{us / 60e6:g} min"
    if us >= 1_000_000:
        return f"{us / 1e6:.1f} s"
    return f"{us / 1000:g} ms"
