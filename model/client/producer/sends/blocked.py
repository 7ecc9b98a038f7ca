"""A send that waits, as KafkaProducer.send() blocks its caller."""

from __future__ import annotations

from enum import Enum
from typing import Any


class Missing(Enum):
    """What a send waits for."""

    METADATA = "metadata"  # of its topic or partition
    MEMORY = "memory"  # for a new batch


class BlockedSend:
    """A send that waits for metadata or memory."""

    __slots__ = ("args", "call", "deadline", "since", "waits")

    def __init__(self, call: int, args: tuple[Any, ...], since: int, deadline: int) -> None:
        self.call = call
        self.args = args
        self.since = since
        self.deadline = deadline
        self.waits = True  # False: it has been replied to
