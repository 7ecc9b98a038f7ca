"""What Kafka 3.9 answers its ZooKeeper controller, and the controller its brokers."""

from __future__ import annotations

from pathlib import Path

from tests.fidelity.conversations.control import CONVERSATIONS
from tests.fidelity.conversations.holding import ask_kafka, hold
from tests.fidelity.real_zookeeper import VERSION
from tests.fidelity.sides import Side

HERE = Path(__file__).parent
VERSIONS = (VERSION,)


def ask(version: str) -> list[str]:
    """Return the answers of brokers of a version."""
    return ask_kafka(version, CONVERSATIONS)


def answers(side: Side) -> list[str]:
    """Run every conversation on one side; return a line per answer."""
    return hold(side, CONVERSATIONS)


def committed(version: str) -> list[str]:
    """Return the answers that a version of Kafka gave."""
    return (HERE / "control" / f"{version}.txt").read_text().splitlines()
