"""Request metrics, summed per API and second (Kafka's RequestMetrics).

A request is counted when its response is given to the network (updateRequestMetrics). Its time is:

- queue: until a request handler takes it;
- local: until the handler is done with it. That includes page-cache writes that hold the handler.
  A request of a group is done as soon as it is handed to the coordinator's threads;
- remote: until the response is ready: in a purgatory, on a coordinator's threads;
- response queue: while the request's network thread waits for room in the request queue;
- throttle: how long the connection stays muted afterwards. That is no part of the total (KIP-219).

Left out: the time to send a response, which a socket's buffer takes at once; requests whose
connection is closed instead of an answer, or is lost before it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import ThrottledResponse
from kafkasim.model.errors import Errors
from kafkasim.model.facts import RequestStats
from kafkasim.model.messages import FetchRequest, request_name

if TYPE_CHECKING:
    from kafkasim.model.effects import Process, Served

PERIOD_US = 1_000_000
NONE = Errors.NONE


class _Sums:
    """What is counted of one API; times are in microseconds."""

    __slots__ = (
        "api", "count", "errors", "local_us", "queue_us", "remote_us", "response_queue_us",
        "slowest_us", "throttle_us",
    )  # fmt: skip

    def __init__(self, api: str) -> None:
        self.api = api
        self.count = self.errors = self.slowest_us = self.throttle_us = 0
        self.queue_us = self.local_us = self.remote_us = self.response_queue_us = 0

    def fact(self) -> RequestStats:
        """Return what was counted."""
        return RequestStats(
            self.api,
            self.count,
            self.errors,
            self.queue_us + self.local_us + self.remote_us + self.response_queue_us,
            self.queue_us,
            self.local_us,
            self.remote_us,
            self.response_queue_us,
            self.throttle_us,
            self.slowest_us,
        )


class RequestStatistics:
    """Counts answered requests; writes one fact per API for each second that had any."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._sums: dict[Any, _Sums] = {}  # by type of request; a follower's Fetch by True

    def start(self, now: int) -> None:
        """Report every second from now on."""
        self._process.timers.arm("request-stats", now + PERIOD_US, "scheduler", self._report)

    def count(
        self, request: Served, response: Any, ready_us: int, sent_us: int, throttle_ms: int
    ) -> None:
        """Add a request whose response was ready, and taken by its network thread, at these times.

        The response is None if nothing is sent.
        """
        message = request.message
        key: Any = type(message)
        if key is FetchRequest and message.replica_id >= 0:
            key = True
        sums = self._sums.get(key)
        if sums is None:
            sums = self._sums[key] = _Sums(request_name(message))
        sums.count += 1
        if response is not None and _failed(response):
            sums.errors += 1
        received_us, dequeued_us = request.received_us, request.dequeued_us
        handled_us = request.handled_us or ready_us
        sums.queue_us += dequeued_us - received_us
        sums.local_us += handled_us - dequeued_us
        sums.remote_us += ready_us - handled_us
        if sent_us != ready_us:
            sums.response_queue_us += sent_us - ready_us
        if throttle_ms:
            sums.throttle_us += throttle_ms * 1000
        if sent_us - received_us > sums.slowest_us:
            sums.slowest_us = sent_us - received_us

    def _report(self, now: int) -> None:
        self.start(now)
        sums, self._sums = self._sums, {}
        self._process.out.extend([each.fact() for each in sums.values()])


def _failed(response: Any) -> bool:
    """Return whether a response has an error, or one of its partitions (errorCounts)."""
    if type(response) is ThrottledResponse:
        response = response.message
    if getattr(response, "error", NONE) is not NONE:
        return True
    for partition in getattr(response, "partitions", ()):
        if getattr(partition, "error", NONE) is not NONE:
            return True
    return False
