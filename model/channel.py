"""One connection to one endpoint with its requests in flight: Kafka's NetworkClient for a node.

The channel opens its connection on demand, numbers the requests, hands each answer to the callback
that came with the request, and fails everything in flight when the connection goes. A request that
is not answered within its timeout closes the connection, as NetworkClient.handleTimedOutRequests
does; its timer stays armed for the oldest request there was, so an answer touches no timer.
Reconnecting backs off from reconnect.backoff.ms, doubling up to reconnect.backoff.max.ms with 20 %
jitter; a send during the backoff fails at once with ``backoff``, unless ``patient``: then it waits
for the connection (the inter-broker channels, which retry for ever, are patient).

Not modelled: ApiVersions exchange, authentication, several requests coalesced into one packet.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import Close, Open, Send
from kafkasim.model.values import value

if TYPE_CHECKING:
    from kafkasim.model.effects import Handler, Process


@value
class Failed:
    """Why a request has no answer: ``refused``, ``reset``, ``closed``, ``timeout``, ``backoff``.

    Only ``refused`` and ``backoff`` say that the request was surely not executed.
    """

    reason: str


Done = Callable[[Any, int], None]  # (response message or Failed, now)


class Channel:
    """Requests to one endpoint over one connection, opened when first needed.

    ``name`` tells the channels of one process apart that share purpose, endpoint and lane.
    ``on_open(now)`` runs when a connection is up, ``on_drop(now)`` when one is gone, after
    everything in flight on it has failed.
    """

    __slots__ = (
        "_armed",
        "_backoff_us",
        "_key",
        "_next_correlation",
        "_on_drop",
        "_on_open",
        "_pending",
        "address",
        "connection",
        "in_flight",
        "lane",
        "not_before",
        "open",
        "patient",
        "process",
        "purpose",
        "request_timeout_us",
    )

    RECONNECT_BACKOFF_US = 50_000
    RECONNECT_BACKOFF_MAX_US = 1_000_000

    def __init__(
        self,
        process: Process,
        address: str,
        purpose: str,
        lane: str,
        request_timeout_ms: int,
        patient: bool = False,
        name: str = "",
        on_open: Handler | None = None,
        on_drop: Handler | None = None,
    ) -> None:
        self.process = process
        self.address = address
        self.purpose = purpose
        self.lane = lane
        self.request_timeout_us = request_timeout_ms * 1000
        self.patient = patient
        self.connection: int | None = None
        self.open = False
        # correlation -> (deadline, done), oldest first: answers arrive in order
        self.in_flight: dict[int, tuple[int, Done]] = {}
        self._pending: deque[tuple[int, Any]] = deque()  # sends before the connection is open
        self._next_correlation = 0
        self._armed = False  # the timer of the oldest request, or of one answered since
        self.not_before = 0  # the end of the reconnect backoff
        self._backoff_us = 0
        self._key = ("channel", name, purpose, address, lane)
        self._on_open = on_open
        self._on_drop = on_drop

    def ready(self, now: int) -> bool:
        """Return whether a request may be sent now: connected, or free to connect."""
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

        Never calls ``done`` from inside: a refusal during the reconnect backoff is delivered by
        a timer at the same instant.
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
        if not self._armed:
            self._arm(deadline)
        self.in_flight[correlation] = (deadline, done)
        if self.open:
            assert connection is not None
            self.process.out.append(Send(connection, correlation, message))
        else:
            self._pending.append((correlation, message))

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
        self._armed = False
        self.process.timers.cancel(self._key)

    # Inputs, routed here by the process.

    def on_opened(self, now: int) -> None:
        """The connection is up: send what waited for it."""
        self.open = True
        self._backoff_us = 0
        assert self.connection is not None
        while self._pending:
            correlation, message = self._pending.popleft()
            self.process.out.append(Send(self.connection, correlation, message))
        if self._on_open is not None:
            self._on_open(now)

    def on_open_failed(self, reason: str, now: int) -> None:
        """The connection could not be made."""
        self._drop(reason, now)

    def on_response(self, correlation: int, message: Any, now: int) -> None:
        """Hand an answer to the callback of its request."""
        entry = self.in_flight.pop(correlation, None)
        if entry is not None:
            entry[1](message, now)

    def on_closed(self, reason: str, now: int) -> None:
        """The peer or the network ended the connection."""
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
        self.process.out.append(Open(self.connection, self.address, self.purpose, self.lane))

    def _arm(self, deadline: int) -> None:
        self._armed = True
        self.process.timers.arm(self._key, deadline, self.lane, self._on_deadline)

    def _on_deadline(self, now: int) -> None:
        self._armed = False
        for deadline, _ in self.in_flight.values():
            if deadline > now:
                self._arm(deadline)
                return
            break
        else:
            return  # idle: the next request arms it anew
        if self.connection is not None:
            self.process.out.append(Close(self.connection))
        self._drop("timeout", now)

    def _drop(self, reason: str, now: int) -> None:
        process = self.process
        if self.connection is not None:
            process.channels.pop(self.connection, None)
        self.connection = None
        self.open = False
        self._pending.clear()
        self._armed = False
        process.timers.cancel(self._key)
        process.timers.cancel((*self._key, "connect"))
        doubled = self._backoff_us * 2 or self.RECONNECT_BACKOFF_US
        self._backoff_us = min(doubled, self.RECONNECT_BACKOFF_MAX_US)
        jitter = 0.8 + 0.4 * process.rng.random()
        self.not_before = now + int(self._backoff_us * jitter)
        lost, self.in_flight = self.in_flight, {}
        for _, done in lost.values():
            done(Failed(reason), now)
        if self._on_drop is not None:
            self._on_drop(now)
