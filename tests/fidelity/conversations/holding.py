"""Hold conversations with one side, a real cluster or the model: a line for each answer."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from tests.fidelity.conversations.talk import Talk
from tests.fidelity.real_kafka import running
from tests.fidelity.real_zookeeper import cluster_of
from tests.fidelity.sides import SETTINGS, RealSide, Side

Conversations = Mapping[str, Callable[[Talk], None]]

Clusters = Sequence[tuple[Conversations, Mapping[str, str]]]
"""The conversations with each cluster, and its brokers' settings."""


def hold(side: Side, conversations: Conversations) -> list[str]:
    """Run every conversation on one side; return a line per answer."""
    lines: list[str] = []
    for name, conversation in conversations.items():
        talk = Talk(side, name)
        conversation(talk)
        lines += talk.lines
    return lines


def hold_all(side_of: Callable[[Mapping[str, str]], Side], clusters: Clusters) -> list[str]:
    """Run the conversations with each cluster on a side with its settings; return all lines."""
    return [line for held, settings in clusters for line in hold(side_of(settings), held)]


def ask_kafka(
    version: str, conversations: Conversations, settings: Mapping[str, str] = SETTINGS
) -> list[str]:
    """Start a cluster of a version with these brokers' settings; return its answers."""
    with tempfile.TemporaryDirectory(prefix="kafkasim-fidelity-") as scratch:
        cluster = cluster_of(version, Path(scratch), settings)
        with running(cluster):
            return hold(RealSide(cluster), conversations)


def ask_all(version: str, clusters: Clusters) -> list[str]:
    """Start one cluster of a version after the other; return their answers."""
    return [line for held, settings in clusters for line in ask_kafka(version, held, settings)]
