"""What never changes about one replica: its process, its identity, its settings and its rules.

Every part of the Raft client gets the same :class:`RaftContext`. It holds no state of the protocol.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.effects import Process, Request, Respond
from kafkasim.model.raft.rules import RaftRules

LANE = "raft"
"""The lane on which every part of the Raft client runs."""


class RaftContext:
    """The process that the replica runs in, its node id and directory id, settings and rules."""

    __slots__ = (
        "config",
        "directory_id",
        "fetch_timeout_us",
        "kraft_version",
        "node_id",
        "out",
        "process",
        "rules",
        "timers",
        "voter_directories",
    )

    def __init__(
        self,
        process: Process,
        node_id: int,
        directory_id: str,
        config: BrokerConfig,
        rules: RaftRules,
        voter_directories: Mapping[int, str] | None = None,
    ) -> None:
        self.process = process
        self.out = process.out
        self.timers = process.timers
        self.node_id = node_id
        self.directory_id = directory_id  # "" where directories have no ids
        self.kraft_version = 0 if voter_directories is None else 1  # 1: the voters may change
        self.voter_directories = voter_directories or {}  # of the first voters, by node id
        self.config = config
        self.rules = rules
        self.fetch_timeout_us = config.controller_quorum_fetch_timeout_ms * 1000

    def respond(self, item: Request, message: Any) -> None:
        """Answer a request."""
        self.out.append(Respond(item.connection, item.correlation, message))
