"""What Kafka's coordinator answers to raw heartbeats of consumer groups (KIP-848)."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.fidelity.conversations.consumer_groups import CONVERSATIONS
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.real_kafka import running
from tests.fidelity.real_zookeeper import cluster_of
from tests.fidelity.sides import SETTINGS, RealSide, Side

HERE = Path(__file__).parent
VERSIONS = ("4.0.0", "4.1.0")


def ask(version: str) -> list[str]:
    """Return the answers of a cluster of a version."""
    with tempfile.TemporaryDirectory(prefix="kafkasim-fidelity-") as scratch:
        cluster = cluster_of(version, Path(scratch), SETTINGS)
        with running(cluster):
            return answers(RealSide(cluster))


def answers(side: Side) -> list[str]:
    """Run every conversation on one side; return a line per answer."""
    lines: list[str] = []
    for name, conversation in CONVERSATIONS.items():
        talk = Talk(side, name)
        conversation(talk)
        lines += talk.lines
    return lines


def committed(version: str) -> list[str]:
    """Return the answers that a version of Kafka gave."""
    return (HERE / "consumer_groups" / f"{version}.txt").read_text().splitlines()
