"""What brokers that do not lead, whose limits are small, or whose disk failed, answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.fidelity.conversations import failed_directory, leadership, limits, refused_batches
from tests.fidelity.conversations.holding import ask_all, hold_all
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.real_kafka import VERSIONS as KRAFT_VERSIONS
from tests.fidelity.real_zookeeper import VERSION as ZOOKEEPER
from tests.fidelity.sides import Side

HERE = Path(__file__).parent
VERSIONS = (*KRAFT_VERSIONS, ZOOKEEPER)

CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    **leadership.CONVERSATIONS,
    "refused batches": refused_batches.refused_batches,
    **limits.CONVERSATIONS,
}

CLUSTERS = (
    (CONVERSATIONS, limits.SETTINGS),
    (failed_directory.CONVERSATIONS, failed_directory.SETTINGS),
)


def ask(version: str) -> list[str]:
    """Return the answers of both clusters of a version."""
    return ask_all(version, CLUSTERS)


def answers(side_of: Callable[[Mapping[str, str]], Side]) -> list[str]:
    """Run every conversation on sides with their settings; return a line per answer."""
    return hold_all(side_of, CLUSTERS)


def committed(version: str) -> list[str]:
    """Return the answers that a version of Kafka gave."""
    return (HERE / "refusals" / f"{version}.txt").read_text().splitlines()
