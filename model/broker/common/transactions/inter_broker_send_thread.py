"""A thread that sends requests to other brokers (InterBrokerSendThread).

A part that has something to send implements :class:`RequestSource` and calls
:meth:`InterBrokerSendThread.wakeup`. The thread then drains the source and sends what it got, one
request in flight to each broker. What is drained while a request is in flight waits for its turn:
so the source decides by what it queues which markers or transactions share a request.

Each answer makes the thread drain its source once more. A connection that ends fails its request
and all that wait for that broker. The completion handlers then queue their work in the source
again, perhaps for another broker; until the reconnect backoff (50 ms, as both users of the thread
in Kafka have it) is over, nothing is sent to the old one.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.channel import SERVER_BACKOFF_MS, Channel, Done, Failed
from kafkasim.model.effects import Post
from kafkasim.model.values import value

if TYPE_CHECKING:
    from kafkasim.model.effects import Process


@value
class RequestAndCompletionHandler:
    """A request for a broker; ``done(answer, now)`` gets its response, or a Failed."""

    address: str  # the broker's endpoint
    message: Any
    done: Done


class RequestSource(Protocol):
    """Something that has requests to send to brokers."""

    def generate_requests(self, now: int) -> list[RequestAndCompletionHandler]:
        """Return the requests that are ready, and keep none of them."""
        ...


class InterBrokerSendThread:
    """Sends what one source generates; everything runs on lane ``name``."""

    def __init__(
        self, process: Process, name: str, request_timeout_ms: int, source: RequestSource
    ) -> None:
        self.process = process
        self.name = name
        self.source = source
        self._request_timeout_ms = request_timeout_ms
        self._channels: dict[str, Channel] = {}  # by endpoint
        self._unsent: dict[str, deque[RequestAndCompletionHandler]] = {}
        self._awake = False  # a run of the thread is on its way
        self._stopped = False

    def wakeup(self) -> None:
        """Have the thread ask its source. Callable on any lane."""
        if not self._awake and not self._stopped:
            self._awake = True
            self.process.out.append(Post(self.name, self._work, None))

    def wakeup_by(self, deadline: int) -> None:
        """Have the thread ask its source at ``deadline``, if nothing wakes it before."""
        self.process.timers.arm((self.name, "poll"), deadline, self.name, self._send_requests)

    def stop(self, now: int) -> None:
        """Send nothing any more; close the connections."""
        self._stopped = True
        self.process.timers.cancel((self.name, "poll"))
        for address, channel in self._channels.items():
            channel.dispose()
            self.process.timers.cancel((self.name, address))
        self._unsent.clear()

    def _work(self, _: None, now: int) -> None:
        self._awake = False
        if not self._stopped:
            self._send_requests(now)

    def _send_requests(self, now: int) -> None:
        """Drain the source, and send what may be sent (pollOnce)."""
        for each in self.source.generate_requests(now):
            self._unsent.setdefault(each.address, deque()).append(each)
        for address in list(self._unsent):
            self._send(address, now)

    def _send(self, address: str, now: int) -> None:
        """Send the first request to a broker, unless one is in flight or its backoff goes on."""
        unsent, channel = self._unsent.get(address), self._channel(address)
        if not unsent or channel.in_flight:
            return
        if not channel.ready(now):
            timers = self.process.timers
            timers.arm((self.name, address), channel.not_before, self.name, self._retry(address))
            return
        request = unsent.popleft()
        channel.send(request.message, now, lambda answer, at: self._done(request, answer, at))

    def _retry(self, address: str) -> Any:
        return lambda now: self._send(address, now)

    def _channel(self, address: str) -> Channel:
        channel = self._channels.get(address)
        if channel is None:
            timeout_ms = self._request_timeout_ms
            channel = self._channels[address] = Channel(
                self.process,
                address,
                self.name,
                self.name,
                timeout_ms,
                reconnect_backoff_ms=SERVER_BACKOFF_MS,
            )
        return channel

    def _done(self, request: RequestAndCompletionHandler, answer: Any, now: int) -> None:
        waiting: deque[RequestAndCompletionHandler] = deque()
        if isinstance(answer, Failed):
            waiting = self._unsent.pop(request.address, waiting)
        request.done(answer, now)
        for each in waiting:  # checkDisconnects
            each.done(answer, now)
        self._send_requests(now)
