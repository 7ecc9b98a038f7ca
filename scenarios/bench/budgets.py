"""CPU time of an exchange by budget: core, model, clients and applications, trace and checks.

Measured by sampling: every few milliseconds of CPU time a signal looks at the Python stack, and the
innermost frame of ours says which budget pays. C code is charged to the frame that called it, so
unlike a profile by events this slows nothing down and favours nobody. Frames of simpy count as core
and frames of asyncio as applications.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from types import FrameType

from kafkasim.scenarios.bench.clock import TimedRun
from kafkasim.scenarios.bench.reference import reference

ROOT = Path(__file__).parents[2]
SAMPLE_SECONDS = 0.001  # of CPU time; a kernel may round it up to its clock tick
RUNS = 2

BUDGETS = ("core", "model", "clients and applications", "trace and checks", "the rest")
CORE, MODEL, CLIENTS, TRACE, REST = BUDGETS

PREFIXES = (
    ("sim/trace/", TRACE),
    ("sim/apps/", CLIENTS),
    ("sim/", CORE),
    ("model/effects.py", CORE),
    ("model/timers.py", CORE),
    ("model/facts/", TRACE),
    ("model/client/", CLIENTS),
    ("model/", MODEL),
    ("analysis/judging/", TRACE),
    ("scenarios/running/workloads.py", CLIENTS),
    ("scenarios/", REST),
)
"""The budget of a file of ours: the first prefix of its path that fits."""

LIBRARIES = (("/simpy/", CORE), ("/asyncio/", CLIENTS), ("/pyarrow/", TRACE))


def budget(path: str) -> str | None:
    """Return the budget that a source file belongs to, None for files that ask their caller."""
    for part, paid in LIBRARIES:
        if part in path:
            return paid
    file = Path(path)
    if "site-packages" in path or not file.is_relative_to(ROOT):
        return None
    inside = str(file.relative_to(ROOT)).removeprefix(".package/kafkasim/")
    return next((paid for prefix, paid in PREFIXES if inside.startswith(prefix)), None)


class Sampler:
    """Counts how often it finds CPU time spent on each budget."""

    def __init__(self) -> None:
        self.samples = dict.fromkeys(BUDGETS, 0)
        self._known: dict[str, str | None] = {}

    def __enter__(self) -> Sampler:
        signal.signal(signal.SIGPROF, self._on_signal)
        signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
        return self

    def __exit__(self, *_: object) -> None:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, signal.SIG_DFL)

    def _on_signal(self, _: int, frame: FrameType | None) -> None:
        while frame is not None:
            path = frame.f_code.co_filename
            if path not in self._known:
                self._known[path] = budget(path)
            paid = self._known[path]
            if paid is not None:
                self.samples[paid] += 1
                return
            frame = frame.f_back
        self.samples[REST] += 1

    def shares(self) -> dict[str, float]:
        """Return the share of every budget."""
        total = sum(self.samples.values()) or 1
        return {name: count / total for name, count in self.samples.items()}


def table() -> Iterator[str]:
    """Yield the lines of the table: the reference run, CPU µs of an exchange by budget."""
    seconds, exchanges = 0.0, 0
    with Sampler() as sampler:
        for seed in range(1, RUNS + 1):
            timed = TimedRun(reference(), seed)
            exchanges += timed.execute().exchanges
            seconds += timed.seconds
    each = seconds * 1e6 / exchanges
    yield f"{'budget':26}  {'share':>6}  µs per exchange"
    for name, share in sampler.shares().items():
        yield f"{name:26}  {share:6.1%}  {share * each:15.1f}"
    count = sum(sampler.samples.values())
    yield f"{'all':26}  {1:6.1%}  {each:15.1f}   ({count} samples)"
