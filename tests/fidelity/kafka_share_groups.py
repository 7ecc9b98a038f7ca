"""What Kafka answers to raw requests of share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path

from tests.fidelity.conversations import share_groups, share_records
from tests.fidelity.conversations.holding import ask_all, hold_all
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.sides import SETTINGS as COMMON
from tests.fidelity.sides import Side

HERE = Path(__file__).parent
VERSIONS = ("4.1.0",)

SETTINGS = {
    **COMMON,
    "share.coordinator.state.topic.num.partitions": "1",
    "share.coordinator.state.topic.replication.factor": "3",
}

CONVERSATIONS: dict[str, Callable[[Talk], None]] = {
    "turned off": share_groups.turned_off,
    "refusals": share_groups.refusals,
    "assignment": share_groups.assignment,
    "state": share_records.state,
    "fetching": share_records.fetching,
}

NARROW = {**SETTINGS, "group.share.max.size": "1", "group.share.max.share.sessions": "1"}
"""A group has one member, and a broker one share session."""

IN_NARROW: dict[str, Callable[[Talk], None]] = {"crowded": share_groups.crowded}

CLUSTERS = ((CONVERSATIONS, SETTINGS), (IN_NARROW, NARROW))


def ask(version: str) -> list[str]:
    """Return the answers of both clusters of a version."""
    return ask_all(version, CLUSTERS)


def answers(side_of: Callable[[Mapping[str, str]], Side]) -> list[str]:
    """Run every conversation on sides with their settings; return a line per answer."""
    return hold_all(side_of, CLUSTERS)


def committed(version: str) -> list[str]:
    """Return the answers that a version of Kafka gave."""
    return (HERE / "share_groups" / f"{version}.txt").read_text().splitlines()
