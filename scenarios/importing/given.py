"""What the files of a user say: servers, topics, and what is to be told of the reading.

A :class:`Server` is one server.properties, or one service of a docker-compose file, or one replica
of a Strimzi resource. Nothing is judged here: :mod:`.cluster` makes a scenario of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Server:
    """A server of Kafka: where it is written, and its properties under Kafka's names."""

    place: str
    properties: Mapping[str, str]

    @property
    def roles(self) -> tuple[str, ...]:
        """process.roles in the alphabet's order; a server of ZooKeeper mode is a broker."""
        text = self.properties.get("process.roles", "")
        return tuple(sorted({each.strip() for each in text.split(",") if each.strip()}))

    @property
    def id(self) -> int | None:
        """node.id, else broker.id; None if neither is a number."""
        for key in ("node.id", "broker.id"):
            text = self.properties.get(key, "").strip()
            if text.isdigit():
                return int(text)
        return None

    def hosts(self, key: str) -> int:
        """Return how many hosts a property lists, without a ZooKeeper chroot."""
        text = self.properties.get(key, "").partition("/")[0]
        return len([each for each in text.split(",") if each.strip()])


@dataclass
class Given:
    """All that the files say. ``version`` is a release as they write it, such as ``3.9.1``.

    ``racks`` says that brokers are spread over racks whose names nobody wrote; ``took``,
    ``defaulted`` and ``left_out`` are lines for the user.
    """

    name: str = ""
    servers: list[Server] = field(default_factory=list)
    clients: list[str] = field(default_factory=list)  # files of clients' properties
    topics: list[dict[str, Any]] = field(default_factory=list)
    version: str = ""
    zookeepers: int = 0
    racks: bool = False
    all_servers: bool = False  # the servers are all there are
    brokers: int | None = None  # how many the user says that there are
    took: list[str] = field(default_factory=list)
    defaulted: list[str] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)
