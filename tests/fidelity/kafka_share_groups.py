"""What Kafka answers to raw requests of share groups (KIP-932)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from tests.fidelity.conversations import share_groups, share_records
from tests.fidelity.conversations.holding import ask_kafka, hold
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


def ask(version: str) -> list[str]:
    """Return the answers of a cluster of a version."""
    return ask_kafka(version, CONVERSATIONS, SETTINGS)


def answers(side: Side) -> list[str]:
    """Run every conversation on one side; return a line per answer."""
    return hold(side, CONVERSATIONS)


def committed(version: str) -> list[str]:
    """Return the answers that a version of Kafka gave."""
    return (HERE / "share_groups" / f"{version}.txt").read_text().splitlines()
