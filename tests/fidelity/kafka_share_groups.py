"""What Kafka answers to raw requests of share groups (KIP-932)."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path

from tests.fidelity.conversations import share_groups, share_records
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.real_kafka import running
from tests.fidelity.real_zookeeper import cluster_of
from tests.fidelity.sides import SETTINGS as COMMON
from tests.fidelity.sides import RealSide, Side

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
    return (HERE / "share_groups" / f"{version}.txt").read_text().splitlines()
