"""One connection to one endpoint, and its requests in flight (NetworkClient, for one node).

The channel opens its connection when a request needs it, numbers the requests, and hands each
response to the callback that came with its request. When the connection ends, every request in
flight fails. A request without a response within its timeout closes the connection, as in
NetworkClient.handleTimedOutRequests. If the connection is not open yet, the attempt to open it ends
as well (BrokerBlockingSender, ControllerChannelManager's RequestSendThread). On a ``queued``
channel such a request fails alone, and the attempt goes on: nothing was sent
(InterBrokerSendThread.failExpiredRequests). One timer is armed for the oldest request; a response
does not move it, so it may fire early and is armed again.

After a connection has ended, the channel waits before it connects again: reconnect.backoff.ms at
first, then twice as long each time, give or take 20 %, and reconnect.backoff.max.ms at most
(ClusterConnectionStates.updateReconnectBackoff, KIP-580). A send during this backoff fails with
``backoff``. On a ``patient`` channel it waits for the connection instead; the channels between
servers are patient.

Not modelled: that clients, too, go on connecting when a request expires that was not sent
(ConsumerNetworkClient.failExpiredRequests); ApiVersions exchange, authentication, several requests
coalesced into one packet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import Close, Open, Send, ThrottledResponse
from kafkasim.model.values import value

if TYPE_CHECKING:
    from kafkasim.model.effects import Handler, Process


@value
class Failed:
    """What a request gets in place of a response.

    After ``refused`` and ``backoff`` the request was not executed; after any other reason it may
    have been.
    """

    reason: str  # ``refused``, ``reset``, ``closed``, ``timeout`` or ``backoff``


Done = Callable[[Any, int], None]  # (response message or Failed, now)

NEVER_US = 1 << 62
LOST_US = 1_000_000  # after which TCP repeats the first packet of a connection

NO_BACKOFF_MS = (0, 0)
"""Of servers whose senders wait by themselves: BrokerBlockingSender, ControllerChannelManager."""

SERVER_BACKOFF_MS = (50, 50)
"""Of InterBrokerSendThread's clients in a broker and of NodeToControllerChannelManager."""


class Channel:
    """Requests to one endpoint over one connection, opened when first needed.

    ``name`` distinguishes the channels of one process that share purpose, endpoint and lane.
    ``on_open(now)`` runs when a connection is up, ``on_drop(now)`` when one is gone, after
    everything in flight on it has failed.
    """

    __slots__ = (
        "_armed_us",
        "_attempted_us",
        "_backoff_max_us",
        "_backoff_min_us",
        "_backoff_us",
        "_key",
        "_next_correlation",
        "_on_drop",
        "_on_open",
        "_pending",
        "address",
        "client_id",
        "connection",
        "in_flight",
        "lane",
        "not_before",
        "open",
        "patient",
        "process",
        "purpose",
        "queued",
        "request_timeout_us",
        "throttled_until",
    )

    def __init__(
        self,
        process: Process,
        address: str,
        purpose: str,
        lane: str,
        request_timeout_ms: int,
        patient: bool = False,
        queued: bool = False,
        name: str = "",
        on_open: Handler | None = None,
        on_drop: Handler | None = None,
        reconnect_backoff_ms: tuple[int, int] = (50, 1000),
        client_id: str = "",
    ) -> None:
        """``reconnect_backoff_ms`` is reconnect.backoff.ms and reconnect.backoff.max.ms."""
        self.client_id = client_id
        self.process = process
        self.address = address
        self.purpose = purpose
        self.lane = lane
        self.request_timeout_us = request_timeout_ms * 1000
        self.patient = patient
        self.queued = queued
        self.connection: int | None = None
        self.open = False
        self._attempted_us = 0  # when the attempt to open the connection began
        # correlation -> (deadline, done), oldest first: answers arrive in order
        self.in_flight: dict[int, tuple[int, Done]] = {}
        self._pending: deque[tuple[int, Any]] = deque()  # sends before the connection is open
        self._next_correlation = 0
        # When the timer fires: at the first deadline in flight, or of a request answered since.
        self._armed_us = NEVER_US
        self.not_before = 0  # the end of the reconnect backoff
        self.throttled_until = 0  # the owner sends nothing before (NetworkClient.maybeThrottle)
        least_ms, most_ms = reconnect_backoff_ms
        self._backoff_min_us = min(least_ms, most_ms) * 1000
        self._backoff_max_us = most_ms * 1000
        self._backoff_us = 0  # the last one; 0 after a connection was established
        self._key = ("channel", name, purpose, address, lane)
        self._on_open = on_open
        self._on_drop = on_drop

    def ready(self, now: int) -> bool:
        """Return whether a request may be sent now: False during the reconnect backoff."""
        return self.connection is not None or now >= self.not_before

    def connect(self, now: int) -> bool:
        """Begin to connect; return False during the reconnect backoff, True otherwise.

        True also if the connection is already open or being opened.
        """
        if self.connection is None:
            if now < self.not_before:
                return False
            self._connect(now)
        return True

    def send(self, message: Any, now: int, done: Done, timeout_us: int = 0) -> None:
        """Send a request; ``done(answer, now)`` gets the response message or a Failed.

        ``timeout_us`` replaces the channel's request timeout for this request; 0 keeps it.

        ``done`` never runs inside this call: a timer of the same instant delivers a refusal during
        the reconnect backoff.
        """
        self._next_correlation = correlation = self._next_correlation + 1
        connection = self.connection
        if connection is None:
            if now < self.not_before and not self.patient:
                self.process.timers.arm(
                    (*self._key, correlation),
                    now,
                    self.lane,
                    lambda at: done(Failed("backoff"), at),
                )
                return
            self._connect(now)
        deadline = now + (timeout_us or self.request_timeout_us)
        if deadline < self._armed_us:
            self._arm(deadline)
        self.in_flight[correlation] = (deadline, done)
        if self.open:
            assert connection is not None
            self.process.out.append(Send(connection, correlation, message))
        else:
            self._pending.append((correlation, message))

    def throttle(self, time_ms: int, now: int) -> None:
        """Note that the peer has asked to wait before the next request (KIP-219)."""
        self.throttled_until = max(self.throttled_until, now + time_ms * 1000)

    def send_unanswered(self, message: Any) -> None:
        """Send a request that gets no response (Produce with acks=0) on the open connection."""
        assert self.open, self.address
        assert self.connection is not None, self.address
        self._next_correlation += 1
        self.process.out.append(Send(self.connection, self._next_correlation, message))

    def close(self, now: int) -> None:
        """Close the connection; what is in flight fails with ``closed``."""
        if self.connection is not None:
            self.process.out.append(Close(self.connection))
            self._drop("closed", now)

    def hurry(self, now: int) -> None:
        """Begin an attempt to connect anew if the network has lost its first packet."""
        if self.connection is None or self.open or now < self._attempted_us + LOST_US:
            return
        process = self.process
        process.out.append(Close(self.connection))
        process.channels.pop(self.connection, None)
        self.connection = process.new_connection(self)
        self._open(now)

    def dispose(self) -> None:
        """Close the connection and forget what is in flight: no callback runs.

        For an owner that closes itself, or that replaces the channel.
        """
        if self.connection is not None:
            self.process.out.append(Close(self.connection))
            self.process.channels.pop(self.connection, None)
            self.connection = None
        self.open = False
        self.in_flight.clear()
        self._pending.clear()
        self._armed_us = NEVER_US
        self.process.timers.cancel(self._key)

    # The connection's inputs, which the process hands to its channel.

    def on_opened(self, now: int) -> None:
        """Send the requests that waited for the connection: it is established."""
        self.open = True
        self._backoff_us = 0
        assert self.connection is not None
        while self._pending:
            correlation, message = self._pending.popleft()
            self.process.out.append(Send(self.connection, correlation, message))
        if self._on_open is not None:
            self._on_open(now)

    def on_open_failed(self, reason: str, now: int) -> None:
        """Fail the requests that waited for the connection: it could not be established."""
        self._drop(reason, now)

    def on_response(self, correlation: int, message: Any, now: int) -> None:
        """Hand a response to the callback of its request."""
        entry = self.in_flight.pop(correlation, None)
        if entry is not None:
            if type(message) is ThrottledResponse:
                self.throttle(message.throttle_time_ms, now)
                message = message.message
            entry[1](message, now)

    def on_closed(self, reason: str, now: int) -> None:
        """Fail the requests in flight: the peer or the network ended the connection."""
        self._drop(reason, now)

    # The inside.

    def _connect(self, now: int) -> None:
        process = self.process
        self.connection = process.new_connection(self)
        if now < self.not_before:  # patient: connect when the backoff is over
            process.timers.arm((*self._key, "connect"), self.not_before, self.lane, self._open)
        else:
            self._open(now)

    def _open(self, now: int) -> None:
        assert self.connection is not None
        self._attempted_us = now
        opened = Open(self.connection, self.address, self.purpose, self.lane, self.client_id)
        self.process.out.append(opened)

    def _arm(self, deadline: int) -> None:
        self._armed_us = deadline
        self.process.timers.arm(self._key, deadline, self.lane, self._on_deadline)

    def _on_deadline(self, now: int) -> None:
        """Drop the connection if a request has expired (InFlightRequests.hasExpiredRequest)."""
        self._armed_us = NEVER_US
        if not self.in_flight:
            return  # idle: the next request arms it anew
        first = min([deadline for deadline, _ in self.in_flight.values()])
        if first > now:
            self._arm(first)
            return
        if self.connection is not None and not self.open and self.queued:
            self._fail_unsent(now)
            return
        if self.connection is not None:
            self.process.out.append(Close(self.connection))
        self._drop("timeout", now)

    def _fail_unsent(self, now: int) -> None:
        """Fail the requests that have waited too long for a connection, which opens meanwhile."""
        expired = [each for each, (deadline, _) in self.in_flight.items() if deadline <= now]
        lost = [self.in_flight.pop(correlation)[1] for correlation in expired]
        self._pending = deque([each for each in self._pending if each[0] not in expired])
        if self.in_flight:
            self._arm(min([deadline for deadline, _ in self.in_flight.values()]))
        for done in lost:
            done(Failed("timeout"), now)

    def _next_backoff_us(self) -> int:
        """Return how long to wait this time; without jitter if that never grows."""
        least, most = self._backoff_min_us, self._backoff_max_us
        self._backoff_us = min(self._backoff_us * 2 or least, most)
        if least == most:
            return most
        return min(int(self._backoff_us * (0.8 + 0.4 * self.process.rng.random())), most)

    def _drop(self, reason: str, now: int) -> None:
        process = self.process
        if self.connection is not None:
            process.channels.pop(self.connection, None)
        self.connection = None
        self.open = False
        self._pending.clear()
        self._armed_us = NEVER_US
        process.timers.cancel(self._key)
        process.timers.cancel((*self._key, "connect"))
        self.not_before = now + self._next_backoff_us()
        lost, self.in_flight = self.in_flight, {}
        for _, done in lost.values():
            done(Failed(reason), now)
        if self._on_drop is not None:
            self._on_drop(now)
