"""What all requests and responses share, and their sizes."""

from __future__ import annotations

from typing import Any

HEADER = 40
PER_PARTITION = 40


class Message:
    """Base of all requests and responses."""

    __slots__ = ()

    def wire_size(self) -> int:
        """Return the size in bytes on the network."""
        return 120


def request_name(message: Any) -> str:
    """Return Kafka's API name of a request: ``Produce``, ``FetchFollower``, ``Vote``…"""
    name = type(message).__name__
    if name == "FetchRequest":
        return "FetchFollower" if message.replica_id >= 0 else "FetchConsumer"
    return name.removesuffix("Request")
