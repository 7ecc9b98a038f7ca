"""Play schedules on real Kafka again, and compare with what is committed.

``python -m tests.fidelity.playing [--write] [--version VERSION] [--jobs N] [NAME …]`` plays those
schedules, or all that have a history of the version, and prints what differs from
``histories/VERSION/NAME.txt``; the exit code is then 1. ``--write`` stores the histories instead.
``--jobs`` is how many clusters run at once. ``--model`` prints the model's histories, without Java.
"""

from __future__ import annotations

import argparse
import difflib
import signal
import sys
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

from kafkasim.scenarios.language.tables import Scenario
from tests.fidelity.playing import (
    GROUPS,
    MIRRORS,
    STREAMS,
    TRANSACTIONS,
    ZOOKEEPER,
    load,
    names,
    stored,
)
from tests.fidelity.playing.clients import RealClientPlay
from tests.fidelity.playing.groups.real import group_history
from tests.fidelity.playing.groups.simulated import SimulatedGroupPlay
from tests.fidelity.playing.mirrors.real import RealMirrorPlay
from tests.fidelity.playing.mirrors.simulated import SimulatedMirrorPlay
from tests.fidelity.playing.nodes import class_archive
from tests.fidelity.playing.real import Disturbed, RealPlay
from tests.fidelity.playing.simulated import SimulatedPlay
from tests.fidelity.playing.streams.real import streams_history
from tests.fidelity.playing.streams.simulated import SimulatedStreamsPlay
from tests.fidelity.playing.transactions.real import transaction_history
from tests.fidelity.playing.transactions.simulated import SimulatedTransactionPlay
from tests.fidelity.playing.zookeeper import RealZooKeeperPlay, SimulatedZooKeeperPlay
from tests.fidelity.real_kafka import VERSIONS, NoKafka

ATTEMPTS = 3

BOOT_SECONDS = 15
"""The JVMs of a schedule boot and stop for about so long."""

PLAYS: dict[str, tuple[Callable[[Scenario, str, Path], RealPlay], type[SimulatedPlay]]] = {
    ZOOKEEPER: (RealZooKeeperPlay, SimulatedZooKeeperPlay),
    **dict.fromkeys(GROUPS, (partial(RealClientPlay, group_history), SimulatedGroupPlay)),
    **dict.fromkeys(
        TRANSACTIONS, (partial(RealClientPlay, transaction_history), SimulatedTransactionPlay)
    ),
    **dict.fromkeys(MIRRORS, (RealMirrorPlay, SimulatedMirrorPlay)),
    **dict.fromkeys(STREAMS, (partial(RealClientPlay, streams_history), SimulatedStreamsPlay)),
}
"""How the schedules of a version are played that are not those of KRaft mode."""


def real_history(name: str, version: str) -> list[str]:
    """Return the history of a schedule on real Kafka, asked again where it was disturbed."""
    for attempt in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix="kafkasim-fidelity-") as scratch:
            try:
                play, _ = PLAYS.get(version, (RealPlay, SimulatedPlay))
                return play(load(name, version), version, Path(scratch)).play()
            except Disturbed as reason:
                print(f"{name}: {reason}", file=sys.stderr)
                if attempt == ATTEMPTS - 1:
                    raise
    raise AssertionError("unreachable")


def settle(name: str, version: str, *, write: bool) -> bool:
    """Play a schedule; commit its history or compare it. Return whether it differed."""
    began = time.monotonic()
    lines = real_history(name, version)
    file = stored(version, name)
    before = file.read_text().splitlines() if file.exists() else []
    rows = list(difflib.unified_diff(before, lines, f"committed {name}", "now", n=0, lineterm=""))
    took = f"{time.monotonic() - began:.0f} s"
    print("\n".join(rows) if rows else f"{name}: as committed ({took})", flush=True)
    if write:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("\n".join(lines) + "\n")
    return bool(rows)


def seconds(name: str, version: str) -> float:
    """Return about how long a schedule takes on real Kafka: it runs in real time, after boots."""
    return load(name, version).duration / 1_000_000 + BOOT_SECONDS


def simulated(name: str, version: str) -> SimulatedPlay:
    """Return the model's play of a schedule."""
    _, play = PLAYS.get(version, (RealPlay, SimulatedPlay))
    return play(load(name, version))


def main(arguments: list[str]) -> int:
    """Compare or write; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity.playing")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--version", default=VERSIONS[0], choices=(*VERSIONS, *PLAYS))
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--model", action="store_true")
    options = parser.parse_args(arguments)
    version, write = options.version, options.write
    for name in options.names:
        if name not in names(version):
            known = ", ".join(names(version))
            parser.error(f"no schedule {name!r} of {version}; allowed: {known}")
    chosen = options.names or [name for name in names(version) if stored(version, name).exists()]
    if options.model:
        for name in chosen:
            print("\n".join(simulated(name, version).play()))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that no process is left behind
    began = time.monotonic()
    minutes = sum(seconds(name, version) for name in chosen) / options.jobs / 60
    print(f"{len(chosen)} schedules on Kafka {version}, about {minutes:.0f} min", flush=True)
    try:
        class_archive(version.partition("-")[0])  # once, and not by two jobs at a time
        with ThreadPoolExecutor(options.jobs) as pool:
            different = sum(pool.map(lambda name: settle(name, version, write=write), chosen))
    except (NoKafka, Disturbed) as reason:
        print(f"make fidelity: {reason}", file=sys.stderr)
        return 2
    print(f"{time.monotonic() - began:.0f} s on Kafka {version}, {different} different")
    return 1 if different and not write else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
