"""One ShareAcknowledge of a member to a node, with its retries (AcknowledgeRequestState)."""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.consumer.share.acknowledgements import (
        Acknowledgements,
        ByPartition,
        TopicIdPartition,
    )
    from kafkasim.model.errors import Errors


class Kind(Enum):
    """What a request is sent for (AcknowledgeRequestType)."""

    ASYNC = "async"
    SYNC = "sync"
    CLOSE = "close"


class AcknowledgeState:
    """What is to be acknowledged, what is on its way, and what has to be sent again."""

    __slots__ = (
        "_done",
        "attempts",
        "closed",
        "deadline",
        "in_flight",
        "incomplete",
        "kind",
        "not_before",
        "to_send",
    )

    def __init__(
        self,
        kind: Kind,
        to_send: ByPartition,
        deadline: int,
        done: Callable[[TopicIdPartition, Acknowledgements, Errors, int], None],
    ) -> None:
        self.kind = kind
        self.to_send = to_send
        self.in_flight: ByPartition = {}
        self.incomplete: ByPartition = {}  # failed in a way that may pass
        self.deadline = deadline
        self.attempts = 0
        self.not_before = 0  # the end of the backoff
        self.closed = False  # a request that closes the session was answered
        self._done = done

    @property
    def in_progress(self) -> bool:
        """Whether something waits to be sent or answered."""
        if self.kind is Kind.CLOSE:
            return not self.closed
        return bool(self.to_send or self.in_flight or self.incomplete)

    def take(self) -> ByPartition:
        """Return what to send now; it is in flight from now on."""
        if self.incomplete:
            taken, self.incomplete = self.incomplete, {}
        else:
            taken, self.to_send = self.to_send, {}
        self.in_flight.update(taken)
        return taken

    def complete(self, key: TopicIdPartition, error: Errors, now: int) -> None:
        """Tell the result of one partition."""
        acknowledgements = self.in_flight.pop(key, None)
        if acknowledgements is not None:
            self._done(key, acknowledgements, error, now)

    def complete_all(self, error: Errors, now: int) -> None:
        """Tell one result of all that is in flight."""
        for key in list(self.in_flight):
            self.complete(key, error, now)

    def fail_waiting(self, error: Errors, now: int) -> None:
        """Tell one result of all that waits to be sent."""
        waiting = {**self.to_send, **self.incomplete}
        self.to_send, self.incomplete = {}, {}
        for key, acknowledgements in waiting.items():
            self._done(key, acknowledgements, error, now)
