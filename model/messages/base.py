"""The base of all requests and responses, and what their sizes are made of."""

from __future__ import annotations

from typing import Any

HEADER = 40  # bytes of a message's fixed part
PER_PARTITION = 40  # bytes for each partition that it names

CLUSTER_ID = "4L6g3nShT-eMCtK--X86sw"
"""The cluster.id with which every directory is formatted: a run has one cluster."""


class Message:
    """Base of all requests and responses."""

    __slots__ = ()

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return 120


def request_name(message: Any) -> str:
    """Return Kafka's name of a request's API: ``Produce``, ``FetchFollower``, ``Vote``…"""
    name = type(message).__name__
    if name == "FetchRequest":
        return "FetchFollower" if message.replica_id >= 0 else "FetchConsumer"
    return api_of(name)


def api_of(name: str) -> str:
    """Return Kafka's name of the API to which a class of requests or responses belongs."""
    api = name.removesuffix("Request").removesuffix("Response")
    return "OffsetForLeaderEpoch" if api == "OffsetsForLeaderEpoch" else api  # Kafka's exception
