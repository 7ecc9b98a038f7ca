"""The clock of the purgatory: it expires the operations that wait for too long.

Models DelayedOperationPurgatory and its timer. The partitions complete operations before their
deadline (:mod:`kafkasim.model.replication.partitions.delayed_operations`). A broker has few
distinct timeouts, so each timeout has a FIFO of deadlines, with one timer for its head. Completed
operations are removed when they reach the head. Expiry runs on lane ``purgatory``, Kafka's reaper
thread.

Left out: purge intervals, delayed ElectLeaders.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkasim.model.timers import Timers

LANE = "purgatory"


class DelayedOperation(Protocol):
    """A request that waits (kafka.server.DelayedOperation)."""

    deadline: int  # microseconds; set by the purgatory
    done: bool

    def expire(self, now: int) -> None:
        """Answer the request: its time is over."""
        ...


class ExpiryQueue:
    """The operations of one timeout in the order of their deadlines."""

    __slots__ = ("armed", "queue", "timeout_us", "timers")

    def __init__(self, timers: Timers, timeout_us: int) -> None:
        self.timers = timers
        self.timeout_us = timeout_us
        self.queue: deque[DelayedOperation] = deque()
        self.armed = False

    def arm(self, deadline: int) -> None:
        """Look at the operations at ``deadline``."""
        self.armed = True
        self.timers.arm(self, deadline, LANE, self._expire)

    def _expire(self, now: int) -> None:
        self.armed = False
        queue = self.queue
        while queue:
            operation = queue[0]
            if not operation.done:
                if operation.deadline > now:
                    self.arm(operation.deadline)
                    return
                operation.expire(now)
            queue.popleft()


class Purgatory:
    """The expiry queues of a broker, by timeout in milliseconds."""

    __slots__ = ("queues", "timers")

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self.queues: dict[int, ExpiryQueue] = {}

    def add(self, operation: DelayedOperation, timeout_ms: int, now: int) -> None:
        """Expire ``operation`` after ``timeout_ms`` unless it is done by then."""
        expiry = self.queues.get(timeout_ms)
        if expiry is None:
            expiry = self.queues[timeout_ms] = ExpiryQueue(self.timers, timeout_ms * 1000)
        queue = expiry.queue
        while queue and queue[0].done:
            queue.popleft()
        operation.deadline = deadline = now + expiry.timeout_us
        queue.append(operation)
        if not expiry.armed:
            expiry.arm(deadline)
