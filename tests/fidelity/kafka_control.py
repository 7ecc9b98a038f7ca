"""What Kafka 3.9 answers its ZooKeeper controller, and the controller its brokers."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.fidelity.conversations.control import CONVERSATIONS
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.real_kafka import running
from tests.fidelity.real_zookeeper import VERSION, cluster_of
from tests.fidelity.sides import SETTINGS, RealSide, Side

HERE = Path(__file__).parent
VERSIONS = (VERSION,)


def ask(version: str) -> list[str]:
    """Return the answers of brokers of a version."""
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
    return (HERE / "control" / f"{version}.txt").read_text().splitlines()
