"""What brokers that do not lead, or whose limits are small, answer to raw requests."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.fidelity.conversations import leadership, limits, refused_batches
from tests.fidelity.conversations.holding import ask_kafka, hold
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.real_kafka import VERSIONS as KRAFT_VERSIONS
from tests.fidelity.real_zookeeper import VERSION as ZOOKEEPER
from tests.fidelity.sides import Side

HERE = Path(__file__).parent
VERSIONS = (*KRAFT_VERSIONS, ZOOKEEPER)
SETTINGS = limits.SETTINGS

CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    **leadership.CONVERSATIONS,
    "refused batches": refused_batches.refused_batches,
    **limits.CONVERSATIONS,
}


def ask(version: str) -> list[str]:
    """Return the answers of a cluster of a version."""
    return ask_kafka(version, CONVERSATIONS, SETTINGS)


def answers(side: Side) -> list[str]:
    """Run every conversation on one side; return a line per answer."""
    return hold(side, CONVERSATIONS)


def committed(version: str) -> list[str]:
    """Return the answers that a version of Kafka gave."""
    return (HERE / "refusals" / f"{version}.txt").read_text().splitlines()
