"""One call of an admin client: its deadline, its retries, its reply (KafkaAdminClient.Call).

:class:`SingleRequest` is a call that one request answers. Calls that need several requests are in
``reset_offsets.py`` and ``delete_records.py``.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Failed
from kafkasim.model.client.admin.nodes import FOR_CONTROLLER, Nodes, is_not_controller
from kafkasim.model.client.exceptions import KafkaError, KafkaTimeoutError
from kafkasim.model.effects import Reply
from kafkasim.model.errors import RETRIABLE
from kafkasim.model.messages import MetadataResponse, RaftVoterResponse

if TYPE_CHECKING:
    from kafkasim.model.channel import Channel
    from kafkasim.model.client.net.connections import Connections
    from kafkasim.model.effects import Handler

API_TIMEOUT_US = 60_000_000  # default.api.timeout.ms


class AdminCalls:
    """The calls of one admin client that have no result yet."""

    def __init__(self, connections: Connections, nodes: Nodes) -> None:
        self.connections = connections
        self.nodes = nodes
        self._process = connections.process
        self._under_way: dict[int, None] = {}
        self._idle: list[Callable[[], None]] = []  # called once none is under way

    def begin(self, call: int) -> None:
        """Note a call that needs a result."""
        self._under_way[call] = None

    def has(self, call: int) -> bool:
        """Return whether a call has no result yet."""
        return call in self._under_way

    def end(self, call: int, result: Any, error: KafkaError | None) -> None:
        """Give the application the result of a call, or an error."""
        del self._under_way[call]
        self._process.out.append(Reply(call, result, error))
        self._tell_idle()

    def when_idle(self, then: Callable[[], None]) -> None:
        """Call ``then()`` when no call is under way."""
        self._idle.append(then)
        self._tell_idle()

    def _tell_idle(self) -> None:
        if not self._under_way:
            idle, self._idle = self._idle, []
            for then in idle:
                then()


class AdminCall:
    """What every call has: the application that waits for it, a deadline and a count of retries."""

    def __init__(self, calls: AdminCalls, call: int, what: str, now: int) -> None:
        calls.begin(call)
        self._calls = calls
        self._connections = calls.connections
        self._process = calls.connections.process
        self._call = call
        self._key = ("admin", self._connections.name, call)
        self._what = what  # named by the error of a call that ran out of time
        self._deadline = now + API_TIMEOUT_US
        self.retries = 0
        self.partial: Any = None  # the result so far, which a call that runs out of time replies

    def retry(self, attempt: Callable[[int], None], now: int) -> None:
        """Run ``attempt(now)`` after the backoff; reply a timeout if the deadline is earlier."""
        self.retries += 1
        at = now + self._connections.backoff.after_us(self.retries)
        if at >= self._deadline:
            self._time_out(now)
        else:
            self._process.timers.arm(self._key, at, "main", attempt)

    def least_loaded(self, attempt: Handler, now: int) -> Channel | None:
        """Return the channel to the least loaded node.

        If there is none, or no metadata yet, return None and call ``attempt(now)`` later. If the
        call has timed out, return None.
        """
        nodes = self._calls.nodes
        if not self._resume():
            return None
        if not nodes.ready:
            self._wait()
            nodes.when_ready(attempt, now)
            return None
        return self.any_node(attempt, now)

    def any_node(self, attempt: Handler, now: int) -> Channel | None:
        """Return the channel to the least loaded node, which may be a bootstrap server.

        If none can be connected to, return None and call ``attempt(now)`` after the backoff.
        """
        channel = self._connections.least_loaded(now)
        if channel is None:
            self.retry(attempt, now)
        return channel

    def controller(self, attempt: Handler, now: int) -> Channel | None:
        """Return the channel to the controller; None as for :meth:`least_loaded`.

        None also while the controller has asked to wait (NetworkClient.ready).
        """
        if not self._resume():
            return None
        channel = self._calls.nodes.controller(attempt, now)
        if channel is None:
            self._wait()
        elif channel.throttled_until > now:
            if channel.throttled_until < self._deadline:
                self._process.timers.arm(self._key, channel.throttled_until, "main", attempt)
            else:
                self._wait()
            return None
        return channel

    def _wait(self) -> None:
        """Reply a timeout at the deadline, unless an attempt is made before."""
        self._process.timers.arm(self._key, self._deadline, "main", self._time_out)

    def _resume(self) -> bool:
        """Stop waiting; return False if the call timed out meanwhile."""
        self._process.timers.cancel(self._key)
        return self._calls.has(self._call)

    def _time_out(self, _now: int) -> None:
        if self.partial is not None:
            self.reply(self.partial)
            return
        self._calls.end(self._call, None, KafkaTimeoutError("TIMED_OUT", self._what))

    def reply(self, result: Any) -> None:
        """Give the application its result."""
        self._calls.end(self._call, result, None)


class SingleRequest:
    """A call that one request answers, of the least loaded node or of the controller.

    A request that gets no response is sent again, and so is one whose response carries a retriable
    error. Every other error is part of the result.
    """

    def __init__(
        self,
        calls: AdminCalls,
        call: int,
        request: Any,
        now: int,
        *,
        at_once: bool = False,
        as_it_is: bool = False,
    ) -> None:
        """``at_once``: a bootstrap server may serve the request, before there is metadata.

        ``as_it_is``: any response is the result, whatever errors it has.
        """
        self._as_it_is = as_it_is
        self._nodes = calls.nodes
        self._at_once = at_once
        self._call = AdminCall(calls, call, type(request).__name__, now)
        self._request = request
        self._for_controller = isinstance(request, FOR_CONTROLLER)

    def attempt(self, now: int) -> None:
        """Send the request, or try later if no node can be connected to."""
        call = self._call
        if self._at_once:
            channel = call.any_node(self.attempt, now)
        elif self._for_controller:
            channel = call.controller(self.attempt, now)
        else:
            channel = call.least_loaded(self.attempt, now)
        if channel is not None:
            channel.send(self._request, now, partial(self._on_response, channel))

    def _on_response(self, channel: Channel, response: Any, now: int) -> None:
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms:
            channel.throttle(throttle_ms, now)
        if self._for_controller and is_not_controller(response):
            self._nodes.moved(now)
            self._call.retry(self.attempt, now)
            return
        result = self._result(response)
        if result is None:
            self._call.retry(self.attempt, now)
        else:
            self._call.reply(result)

    def _result(self, response: Any) -> Any:
        """Return the call's result, or None if the request must be sent again."""
        if isinstance(response, Failed):
            return None
        if self._as_it_is:
            return response
        if isinstance(response, MetadataResponse):
            for topic in response.topics:
                if topic.error or any(p.leader < 0 for p in topic.partitions):
                    return None
            return response
        if isinstance(response, RaftVoterResponse):
            return response  # every error of a change of voters is its result
        return None if getattr(response, "error", None) in RETRIABLE else response
