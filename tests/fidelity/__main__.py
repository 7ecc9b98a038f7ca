"""``make fidelity``: ask real Kafka again, and compare with what is committed.

``python -m tests.fidelity [--write] [PART …] [VERSION …]`` asks what :data:`PARTS` names, on real
Kafka of each version (all parts and versions by default). Differences from ``PART/VERSION.txt`` are
printed, and the exit code is 1; ``--write`` commits what Kafka says now to that file instead. The
model is held to those files by the test suite, without Java. Without a PART the schedules of faults
follow; ``python -m tests.fidelity.playing`` plays single ones.
"""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tests.fidelity import (
    kafka_access,
    kafka_assignors,
    kafka_cleaner,
    kafka_connections,
    kafka_consumer_groups,
    kafka_control,
    kafka_last_epochs,
    kafka_metrics,
    kafka_quorum,
    kafka_refusals,
    kafka_request_shares,
    kafka_server_assignors,
    kafka_settings,
    kafka_share_groups,
    kafka_topologies,
    kafka_worker_assignor,
    schema_table,
)
from tests.fidelity.conversations import all_answers
from tests.fidelity.playing import GROUPS, MIRRORS, STREAMS, TRANSACTIONS
from tests.fidelity.playing.__main__ import main as schedules
from tests.fidelity.real_kafka import VERSIONS, NoKafka, running
from tests.fidelity.real_zookeeper import VERSION as ZOOKEEPER
from tests.fidelity.real_zookeeper import cluster_of
from tests.fidelity.sides import SETTINGS, RealSide

HERE = Path(__file__).parent


class Part(NamedTuple):
    """One kind of comparison: Kafka's versions, and how to ask one of them for its lines.

    The lines are committed in the part's directory, a file a version, or in ``file``.
    """

    versions: tuple[str, ...]
    ask: Callable[[str], list[str]]
    file: Path | None = None


def answers(version: str) -> list[str]:
    """Return the answers of a cluster of a version to all raw requests."""
    with tempfile.TemporaryDirectory(prefix="kafkasim-fidelity-") as scratch:
        cluster = cluster_of(version, Path(scratch), SETTINGS)
        with running(cluster):
            return all_answers(RealSide(cluster))


PARTS = {
    "defaults": Part(kafka_settings.VERSIONS, kafka_settings.ask),
    "consumer_groups": Part(kafka_consumer_groups.VERSIONS, kafka_consumer_groups.ask),
    "share_groups": Part(kafka_share_groups.VERSIONS, kafka_share_groups.ask),
    "server_assignments": Part(kafka_server_assignors.VERSIONS, kafka_server_assignors.ask),
    "control": Part(kafka_control.VERSIONS, kafka_control.ask),
    "quorum": Part(kafka_quorum.VERSIONS, kafka_quorum.ask),
    "refusals": Part(kafka_refusals.VERSIONS, kafka_refusals.ask),
    "access": Part(kafka_access.VERSIONS, kafka_access.ask),
    "connections": Part(kafka_connections.VERSIONS, kafka_connections.ask),
    "request_shares": Part(kafka_request_shares.VERSIONS, kafka_request_shares.ask),
    "metrics": Part(kafka_metrics.VERSIONS, kafka_metrics.ask),
    "assignments": Part(kafka_assignors.VERSIONS, kafka_assignors.ask),
    "worker_assignments": Part(kafka_worker_assignor.VERSIONS, kafka_worker_assignor.ask),
    "last_epochs": Part(kafka_last_epochs.VERSIONS, kafka_last_epochs.ask),
    "cleaned": Part(kafka_cleaner.VERSIONS, kafka_cleaner.ask),
    "topologies": Part(kafka_topologies.VERSIONS, kafka_topologies.ask, kafka_topologies.ANSWERS),
    "schemas": Part((schema_table.VERSION,), schema_table.ask, schema_table.TABLE),
    "answers": Part((*VERSIONS, ZOOKEEPER), answers),
}
"""Name of a part, which is the directory of its files, to how it is asked."""

PLAYED = (*VERSIONS, ZOOKEEPER, *GROUPS, *TRANSACTIONS, *MIRRORS, *STREAMS)
"""The versions whose schedules are played: those that have histories."""


def main(arguments: list[str]) -> int:
    """Compare or write; return the exit code."""
    options = _options(arguments)
    write, named = options.write, options.named
    parts = [each for each in named if each in PARTS] or list(PARTS)
    versions = [each for each in named if each not in PARTS]
    different = False
    for part in parts:
        for version in PARTS[part].versions:
            if versions and version not in versions:
                continue
            try:
                lines = PARTS[part].ask(version)
            except NoKafka as missing:
                print(f"make fidelity: {missing}", file=sys.stderr)
                return 2
            different = settle(part, version, lines, write=write) or different
    flags = ["--write"] if write else []
    played = 0
    for version in () if named else PLAYED:
        played = max(played, schedules([*flags, "--version", version]))
    return max(played, 1 if different else 0)


def _options(arguments: list[str]) -> argparse.Namespace:
    known = [*PARTS, *dict.fromkeys(v for part in PARTS.values() for v in part.versions)]
    parser = argparse.ArgumentParser(
        prog="python -m tests.fidelity",
        description="Ask real Kafka again, and compare with what is committed.",
        epilog="Without names everything is asked, and then the schedules of faults are played.",
    )
    parser.add_argument("--write", action="store_true", help="commit what Kafka says now instead")
    parser.add_argument(
        "named", nargs="*", metavar="PART|VERSION", help=f"what to ask: {', '.join(known)}"
    )
    options = parser.parse_args(arguments)
    for name in options.named:
        if name not in known:
            parser.error(f"no part or version {name!r}; allowed: {', '.join(known)}")
    return options


def settle(part: str, version: str, lines: list[str], *, write: bool) -> bool:
    """Commit the lines or compare them with the committed ones; return whether they differ."""
    file = PARTS[part].file or HERE / part / f"{version}.txt"
    if write:
        file.write_text("\n".join(lines) + "\n")
        print(f"Kafka {version}: {len(lines)} lines written to {part}/{file.name}")
        return False
    stored = file.read_text().splitlines() if file.exists() else []
    rows = list(difflib.unified_diff(stored, lines, "committed", f"Kafka {version}", n=0))
    print("\n".join(rows) if rows else f"Kafka {version}: {len(lines)} {part} as committed")
    return bool(rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
