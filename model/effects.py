"""What goes into a process and what comes out of it: inputs, effects, and the process itself.

A :class:`Process` is everything that dies together: one broker, one controller, one client. It is
a deterministic function of its configuration, its durable files, its own ``random.Random`` and its
inputs. A handler runs to completion and never waits; it appends effects to ``out`` in the order in
which they must happen, and the host performs them in that order. That order is the durability
contract: what stands behind a :class:`Barrier` happens only once the barrier's file is durable.

Lanes are threads. Parts of a process share objects freely, as Kafka's threads share them under
locks; a lane decides *when* code runs: each lane runs one item at a time (the request handlers run
``threads`` at a time), and a lane that waits for a barrier or a slow disk delays only itself. Work
for another lane is handed over by :class:`Post`.

Times are integers of microseconds on the host's monotonic clock; the wall clock is
``now + clock_offset_us`` (:meth:`Process.wall_ms`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from itertools import count
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.timers import Timers
from kafkasim.model.values import value

if TYPE_CHECKING:
    from kafkasim.model.storage.files import Files

# --------------------------------------------------------------------------------------- inputs


@value
class Opened:
    """An outbound connection is established."""

    connection: int


@value
class OpenFailed:
    """An outbound connection could not be established (``refused`` or ``timeout``)."""

    connection: int
    reason: str


@value
class Request:
    """A request arrived on an inbound connection; answer it once with :class:`Respond`."""

    connection: int
    correlation: int
    message: Any
    received_us: int  # when the host's network thread had read it: the queue time is now minus this


@value
class Response:
    """The answer to a :class:`Send` on an outbound connection."""

    connection: int
    correlation: int
    message: Any


@value
class Closed:
    """A connection is gone: ``reset``, ``closed`` by the peer, ``half-open``."""

    connection: int
    reason: str


@value
class Posted:
    """A message from another lane of the same process."""

    handler: Callable[[Any, int], None]
    message: Any


@value
class Flushed:
    """A :class:`Flush` ended; ``error`` is None or the reason why the disk refused."""

    handler: Callable[[str | None, int], None]
    error: str | None


@value
class Call:
    """An application's call; answered once by :class:`Reply` with the same ``call``."""

    call: int
    method: str
    args: tuple[Any, ...]


@value
class ClockSet:
    """The wall clock is now ``now + offset_us``."""

    offset_us: int


# -------------------------------------------------------------------------------------- effects

Handler = Callable[[int], None]


@value
class Open:
    """Open a connection to an endpoint; its inputs arrive on ``lane``.

    ``purpose`` names what the connection is for (``raft-fetch``, ``heartbeat``, ``produce``…): a
    fault can cut one purpose alone.
    """

    connection: int
    address: str
    purpose: str
    lane: str


@value
class Send:
    """Send a request on an outbound connection. FIFO per connection."""

    connection: int
    correlation: int
    message: Any


@value
class Respond:
    """Answer a request and unmute its connection; ``message`` None only unmutes (acks=0)."""

    connection: int
    correlation: int
    message: Any


@value
class Push:
    """Send to the client of an inbound connection what answers no request that it waits for.

    Leaves the connection's muting alone: ZooKeeper's servers read on while they work, answer
    later, and tell watch events unasked.
    """

    connection: int
    correlation: int
    message: Any


@value
class Close:
    """Close a connection, inbound or outbound. It queues behind data already sent."""

    connection: int


@value
class Flush:
    """Make files durable in the background; ``handler(error, now)`` runs on the issuing lane."""

    files: tuple[str, ...]
    handler: Callable[[str | None, int], None]


@value
class Barrier:
    """Hold the rest of this outbox, and this lane, until the files are durable."""

    files: tuple[str, ...]


@value
class Then:
    """Run ``handler(now)`` on this lane when all before it in the outbox is done.

    Behind a :class:`Barrier` that is when its files are durable: what other lanes may see only then
    is changed by the handler, not before.
    """

    handler: Handler


@value
class Post:
    """Hand a message to another lane, as an event of its own after a seeded delay."""

    lane: str
    handler: Callable[[Any, int], None]
    message: Any


@value
class Reply:
    """Answer an application's call with a result or an exception."""

    call: int
    result: Any
    error: Exception | None


@value
class Exit:
    """The process ends itself: cleanly (controlled shutdown done) or because it must halt."""

    reason: str
    clean: bool


class Answerable(Protocol):
    """What a process keeps per outbound connection: see :class:`kafkasim.model.channel.Channel`."""

    def on_opened(self, now: int) -> None: ...
    def on_open_failed(self, reason: str, now: int) -> None: ...
    def on_response(self, correlation: int, message: Any, now: int) -> None: ...
    def on_closed(self, reason: str, now: int) -> None: ...


class Process:
    """A machine: one broker, controller or client, until it dies.

    A host calls :meth:`handle` with an input (:meth:`on_request`, :meth:`on_call` and the channel
    of a response directly: they are frequent), then drains ``out``; it keeps one wake-up armed for
    ``timers.next_deadline()`` and fires what is due through ``timers.pop_due`` and
    ``timers.fire``. Timers name their lane; a handler of a lane that waits is not run.

    Class attributes a subclass sets: ``lane_threads`` (lanes with more than one thread and their
    number), ``request_lanes`` (request type to lane; others go to ``requests``),
    ``queued_max_requests``.

    A process that is part of another (``whole``: a broker and a controller in one) shares with it
    what a host drains and wakes.
    """

    lane_threads: dict[str, int] = {}
    request_lanes: dict[type, str] = {}
    default_lane = "requests"
    queued_max_requests = 500  # queued.max.requests: a full queue stops the network threads

    def __init__(
        self, name: str, files: Files, rng: random.Random, now: int, whole: Process | None = None
    ) -> None:
        self.name = name
        self.files = files
        self.rng = rng
        self.started_us = now
        self.out: list[Any] = [] if whole is None else whole.out
        self.timers: Timers = Timers() if whole is None else whole.timers
        self.clock_offset_us = 0
        self.channels: dict[int, Answerable] = {} if whole is None else whole.channels
        self._connections: Iterator[int] = count(1) if whole is None else whole._connections
        self._dispatch: dict[type, Callable[[Any, int], None]] = {
            Request: self.on_request,
            Response: self._on_response,
            Posted: _on_posted,
            Opened: self._on_opened,
            OpenFailed: self._on_open_failed,
            Closed: self._on_closed,
            Flushed: _on_flushed,
            Call: self.on_call,
            ClockSet: self._on_clock_set,
        }

    def start(self, now: int) -> None:
        """Run once after construction, on lane ``main``: arm timers, open connections."""

    def on_barrier_failed(self, files: list[str], error: str, now: int) -> bool:
        """Hear that files of a Barrier could not be flushed; return whether the process goes on
        all the same. It halts otherwise."""
        return False

    def handle(self, item: Any, now: int) -> None:
        """Take one input; what follows from it is in ``out`` afterwards."""
        self._dispatch[type(item)](item, now)

    def wall_ms(self, now: int) -> int:
        """Return the host's wall clock in milliseconds."""
        return (now + self.clock_offset_us) // 1000

    def new_connection(self, channel: Answerable) -> int:
        """Return a fresh outbound connection number, whose inputs go to ``channel``."""
        connection = next(self._connections)
        self.channels[connection] = channel
        return connection

    # Overridden by subclasses.

    def accepted(self, connection: int, endpoint: str) -> None:
        """Hear of an inbound connection to one of this process's endpoints."""

    def lane_of(self, kind: type, connection: int) -> str:
        """Return the lane that serves a type of request."""
        return self.request_lanes.get(kind, self.default_lane)

    def on_request(self, item: Request, now: int) -> None:
        """Serve a request that arrived at one of this process's endpoints."""
        raise NotImplementedError(f"{self.name} takes no requests: {item}")

    def on_call(self, item: Call, now: int) -> None:
        """Serve a call of the application that owns this process."""
        raise NotImplementedError(f"{self.name} takes no calls: {item}")

    def shutdown(self, now: int) -> None:
        """Begin a clean stop (SIGTERM); the process ends it with :class:`Exit`."""
        self.out.append(Exit("shutdown", True))

    def ground_truth(self) -> list[Any]:
        """Return the facts about this process that close a run (FinalReplica, FinalOffset…)."""
        return []

    # Routing of what belongs to a connection: a late input for a channel that is gone is dropped.

    def _on_response(self, item: Response, now: int) -> None:
        channel = self.channels.get(item.connection)
        if channel is not None:
            channel.on_response(item.correlation, item.message, now)

    def _on_opened(self, item: Opened, now: int) -> None:
        channel = self.channels.get(item.connection)
        if channel is not None:
            channel.on_opened(now)

    def _on_open_failed(self, item: OpenFailed, now: int) -> None:
        channel = self.channels.pop(item.connection, None)
        if channel is not None:
            channel.on_open_failed(item.reason, now)

    def _on_closed(self, item: Closed, now: int) -> None:
        channel = self.channels.pop(item.connection, None)
        if channel is not None:
            channel.on_closed(item.reason, now)

    def _on_clock_set(self, item: ClockSet, now: int) -> None:
        self.clock_offset_us = item.offset_us


def _on_posted(item: Posted, now: int) -> None:
    item.handler(item.message, now)


def _on_flushed(item: Flushed, now: int) -> None:
    item.handler(item.error, now)
