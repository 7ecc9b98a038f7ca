"""Play schedules on real Kafka again, and compare with what is committed.

``python -m tests.fidelity.playing [--write] [--version VERSION] [NAME …]`` plays all schedules, or
those named, and prints what differs from ``histories/VERSION/NAME.txt``; the exit code is then 1.
``--write`` stores the histories instead. ``--model`` prints the model's without any Java.
"""

from __future__ import annotations

import argparse
import difflib
import signal
import sys
import tempfile
import time
from pathlib import Path

from tests.fidelity.playing import ZOOKEEPER, load, names, stored
from tests.fidelity.playing.real import Disturbed, RealPlay
from tests.fidelity.playing.simulated import SimulatedPlay
from tests.fidelity.playing.zookeeper import RealZooKeeperPlay, SimulatedZooKeeperPlay
from tests.fidelity.real_kafka import VERSIONS, NoKafka

ATTEMPTS = 3


def real_history(name: str, version: str) -> list[str]:
    """Return the history of a schedule on real Kafka, asked again where it was disturbed."""
    for attempt in range(ATTEMPTS):
        with tempfile.TemporaryDirectory(prefix="kafkasim-fidelity-") as scratch:
            try:
                play = RealZooKeeperPlay if version == ZOOKEEPER else RealPlay
                return play(load(name, version), version, Path(scratch)).play()
            except Disturbed as reason:
                print(f"{name}: {reason}", file=sys.stderr)
                if attempt == ATTEMPTS - 1:
                    raise
    raise AssertionError("unreachable")


def simulated(name: str, version: str) -> SimulatedPlay:
    """Return the model's play of a schedule."""
    play = SimulatedZooKeeperPlay if version == ZOOKEEPER else SimulatedPlay
    return play(load(name, version))


def main(arguments: list[str]) -> int:
    """Compare or write; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m tests.fidelity.playing")
    parser.add_argument("names", nargs="*")
    parser.add_argument("--version", default=VERSIONS[0], choices=(*VERSIONS, ZOOKEEPER))
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--model", action="store_true")
    options = parser.parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # so that no process is left behind
    began, different = time.monotonic(), 0
    for name in options.names or names(options.version):
        if options.model:
            print("\n".join(simulated(name, options.version).play()))
            continue
        asked = time.monotonic()
        try:
            lines = real_history(name, options.version)
        except (NoKafka, Disturbed) as reason:
            print(f"make fidelity: {name}: {reason}", file=sys.stderr)
            return 2
        file = stored(options.version, name)
        before = file.read_text().splitlines() if file.exists() else []
        rows = list(difflib.unified_diff(before, lines, f"committed {name}", "now", n=0))
        took = f"{time.monotonic() - asked:.0f} s"
        print("\n".join(rows) if rows else f"{name}: as committed ({took})", flush=True)
        different += bool(rows)
        if options.write:
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text("\n".join(lines) + "\n")
    print(f"{time.monotonic() - began:.0f} s on Kafka {options.version}, {different} different")
    return 1 if different and not options.write else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
