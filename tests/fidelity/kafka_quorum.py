"""What Kafka answers about its quorum, whose voters are fixed or may change, and to brokers."""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.fidelity.conversations import brokers, fenced_replica, other_cluster, voting
from tests.fidelity.conversations.quorum import CONVERSATIONS, IF_CHANGEABLE
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.real_kafka import VERSIONS as KRAFT_VERSIONS
from tests.fidelity.real_kafka import RealCluster, running
from tests.fidelity.sides import SETTINGS as COMMON
from tests.fidelity.sides import RealSide, Side

HERE = Path(__file__).parent
VERSIONS = KRAFT_VERSIONS
SETTINGS = {**COMMON, "metadata.log.max.record.bytes.between.snapshots": "2000"}
"""Snapshots are made soon."""

QUORUMS = {"static": 0, "dynamic": 1}
"""What a quorum is called, and its kraft.version."""


def ask(version: str) -> list[str]:
    """Return the answers of both kinds of clusters of a version."""
    lines: list[str] = []
    for kind, kraft_version in QUORUMS.items():
        with tempfile.TemporaryDirectory(prefix="kafkasim-fidelity-") as scratch:
            cluster = RealCluster(version, Path(scratch), SETTINGS, kraft_version)
            with running(cluster):
                lines += answers(kind, RealSide(cluster))
    return lines


def answers(kind: str, side: Side) -> list[str]:
    """Run every conversation with a quorum on one side; return a line per answer."""
    lines: list[str] = []
    if QUORUMS[kind]:
        conversations = {
            **IF_CHANGEABLE, **voting.CONVERSATIONS, **other_cluster.CONVERSATIONS,
        }  # fmt: skip
        del conversations["replicating"]  # formatting makes the oldest snapshot: none is offered
    else:
        conversations = {
            **CONVERSATIONS, **brokers.CONVERSATIONS, **fenced_replica.CONVERSATIONS,
            **voting.CONVERSATIONS, **other_cluster.CONVERSATIONS,
        }  # fmt: skip
    for name, conversation in conversations.items():
        talk = Talk(side, f"{kind}: {name}")
        conversation(talk)
        lines += talk.lines
    return lines


def committed(version: str) -> list[str]:
    """Return the answers that a version of Kafka gave."""
    return (HERE / "quorum" / f"{version}.txt").read_text().splitlines()
