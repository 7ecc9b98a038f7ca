"""``make fidelity``: ask real Kafka again, and compare with what is committed.

``python -m tests.fidelity [--write] [VERSION …]`` runs every conversation on a real cluster of each
version (4.0.0 and 4.1.0 by default). Differences from ``answers/VERSION.txt`` are printed, and the
exit code is 1; ``--write`` commits the new answers to that file instead. The model is held to those
files by the test suite, without Java.
"""

from __future__ import annotations

import difflib
import sys
import tempfile
from pathlib import Path

from tests.fidelity.conversations import all_answers
from tests.fidelity.real_kafka import VERSIONS, NoKafka, running
from tests.fidelity.sides import SETTINGS, RealSide

ANSWERS = Path(__file__).parent / "answers"


def main(arguments: list[str]) -> int:
    """Compare or write; return the exit code."""
    write = "--write" in arguments
    versions = [each for each in arguments if not each.startswith("-")] or list(VERSIONS)
    different = False
    for version in versions:
        try:
            with (
                tempfile.TemporaryDirectory(prefix="kafkasim-fidelity-") as scratch,
                running(version, Path(scratch), SETTINGS) as cluster,
            ):
                lines = all_answers(RealSide(cluster))
        except NoKafka as missing:
            print(f"make fidelity: {missing}", file=sys.stderr)
            return 2
        file = ANSWERS / f"{version}.txt"
        if write:
            file.write_text("\n".join(lines) + "\n")
            print(f"Kafka {version}: {len(lines)} answers written to {file.name}")
            continue
        stored = file.read_text().splitlines()
        rows = list(difflib.unified_diff(stored, lines, "committed", f"Kafka {version}", n=0))
        print("\n".join(rows) if rows else f"Kafka {version}: {len(lines)} answers as committed")
        different = different or bool(rows)
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
