"""What Kafka's coordinator answers to raw heartbeats of consumer groups (KIP-848)."""

from __future__ import annotations

from pathlib import Path

from tests.fidelity.conversations.consumer_groups import CONVERSATIONS
from tests.fidelity.conversations.holding import ask_kafka, hold
from tests.fidelity.sides import Side

HERE = Path(__file__).parent
VERSIONS = ("4.0.0", "4.1.0")


def ask(version: str) -> list[str]:
    """Return the answers of a cluster of a version."""
    return ask_kafka(version, CONVERSATIONS)


def answers(side: Side) -> list[str]:
    """Run every conversation on one side; return a line per answer."""
    return hold(side, CONVERSATIONS)


def committed(version: str) -> list[str]:
    """Return the answers that a version of Kafka gave."""
    return (HERE / "consumer_groups" / f"{version}.txt").read_text().splitlines()
