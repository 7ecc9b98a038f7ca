"""The interface between the model and the world (the simulator): processes, inputs, effects.

**Process.** A process is one broker, controller, client or ZooKeeper server. It is a deterministic
function of its configuration, its durable files, its own ``random.Random`` and its inputs. Only the
files survive a restart. The host is the part of the world that runs a process.

**Handler.** The host gives a process one input at a time. The handler runs to completion; it never
waits, and ``now`` does not change meanwhile. If something must happen outside the process, the
handler appends an effect to ``out``. After the handler the host performs the effects and empties
``out``.

**Order.** The host performs the effects of one handler in the order of ``out``. That order is the
durability contract:

- Writes to files happen at once, in the handler, and are durable only after a flush.
- The host performs the effects after a :class:`Barrier` in ``out`` once the barrier's files are
  durable. If the process dies before, it never performs them. So a vote is sent after it is on
  disk.
- A fact (``kafkasim.model.facts``) is an effect that only the trace sees. A barrier does not delay
  it: it records the state of the process's memory, which other lanes can read already.

**Lanes.** A lane is a thread of Kafka. Every input belongs to a lane. A lane with one thread takes
one input at a time; a lane with more threads (the request handlers) takes as many inputs. While a
lane's thread waits for a barrier, for a slow disk or for a request's service time, it delays only
its own lane. Parts of a process read and write each other's objects from any lane, as Kafka's
threads do under locks: no handler interrupts another. A part that needs code to run on another lane
appends :class:`Post`, which becomes an input of that lane after a random delay of microseconds. So
races between threads exist, and each race is visible as a Post.

**Pools.** Lanes that are named ``pool/key`` share the threads of their pool. One thread at a time
serves such a lane. When it has finished, it draws the next lane from those that wait. A request for
such a lane needs a free thread of the default lane for a moment, which hands it on.

**Requests.** The host reads a request from a connection, mutes the connection, keeps a thread of
the request's lane for the service time, and then calls :meth:`Process.on_request`. The connection
stays muted until :class:`Respond`, in this handler or in a later one. So a client has one request
in service per connection, and a server that answers late does not read ahead.

**Time.** ``now`` and all names in ``_us`` are integers of microseconds on the host's monotonic
clock, which may drift. The wall clock is ``now + clock_offset_us`` (:meth:`Process.wall_ms`), and
faults may move it.
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
    """A connection that this process opened is established."""

    connection: int


@value
class OpenFailed:
    """A connection that this process tried to open could not be established."""

    connection: int
    reason: str  # ``refused`` or ``timeout``


@value
class Request:
    """A request on an inbound connection; the process answers it once, with :class:`Respond`."""

    connection: int
    correlation: int
    message: Any
    received_us: int  # when the host read it


class Served(Protocol):
    """A request that a server answers, and when its handling began and ended (host time, µs)."""

    message: Any
    received_us: int
    dequeued_us: int  # when a request handler took it
    handled_us: int  # when the handler was done with it; 0: it still is at it


@value
class Response:
    """The answer to a :class:`Send`, or an unsolicited message of the server (:class:`Push`)."""

    connection: int
    correlation: int
    message: Any


@value
class Closed:
    """A connection that this process opened has ended.

    A server hears of the end of an inbound connection only where it asked to, by
    :attr:`Process.watched`; what it sends there is lost.
    """

    connection: int
    reason: str  # ``reset``, ``closed`` (by the peer) or ``half-open``


@value
class Posted:
    """The arrival of a :class:`Post`, or the end of a :class:`Read`.

    The host calls ``handler(message, now)``.
    """

    handler: Callable[[Any, int], None]
    message: Any
    first: bool = False  # of those that wait on its lane


@value
class Flushed:
    """The end of a :class:`Flush`: the host calls ``handler(error, now)``."""

    handler: Callable[[str | None, int], None]
    error: str | None  # None: the files are durable; else why the disk refused


@value
class Call:
    """An application calls its client; the process answers once, with :class:`Reply`."""

    call: int  # a number of the caller's
    method: str
    args: tuple[Any, ...]


@value
class ClockSet:
    """The host's wall clock was set; it shows ``now + offset_us`` from now on."""

    offset_us: int


@value
class Peer:
    """Who opened an inbound connection, as its authentication has shown (RequestContext)."""

    principal: str  # User:alice
    host: str  # its IP address: the host's name, or the address that hosts share behind a NAT
    client_id: str = ""  # client.id of who opened it; Kafka has it in each request's header

    @property
    def user(self) -> str:
        """The principal's name, as quotas have it."""
        return self.principal.partition(":")[2]


ANONYMOUS = "User:ANONYMOUS"
"""The principal of a connection without authentication (KafkaPrincipal.ANONYMOUS)."""


# -------------------------------------------------------------------------------------- effects

Handler = Callable[[int], None]  # (now)


@value
class Open:
    """Open a connection to an endpoint. :class:`Opened` or :class:`OpenFailed` follows."""

    connection: int  # from :meth:`Process.new_connection`
    address: str  # the endpoint: ``broker-1``, ``controller-1``, ``zookeeper-1``
    purpose: str  # ``raft-fetch``, ``heartbeat``, ``produce``…: a fault can cut one purpose alone
    lane: str  # where the connection's inputs arrive
    client_id: str = ""  # the client.id of its requests


@value
class Send:
    """Send a request on an outbound connection; requests arrive in the order of sending.

    A Send on a connection that has ended does nothing: :class:`Closed` is on its way.
    """

    connection: int
    correlation: int
    message: Any


@value
class Respond:
    """Answer a request and unmute its connection."""

    connection: int
    correlation: int
    message: Any  # None: unmute and send nothing (acks=0, or a Push follows)
    throttle_ms: int = 0  # how long the connection stays muted after it


@value
class ThrottledResponse:
    """A response on its way, and how long the client must not send to this broker (KIP-219).

    Produce, Fetch and those that change topics have a field for throttle_time_ms; all others have
    it so.
    """

    message: Any
    throttle_time_ms: int

    def wire_size(self) -> int:
        """Return the bytes of the response."""
        size: int = self.message.wire_size()
        return size


@value
class Admit:
    """Let a network thread read an inbound connection, for which :class:`Acceptor` was asked."""

    connection: int


@value
class Push:
    """Send an unsolicited message to the client of an inbound connection; its muting is unchanged.

    A ZooKeeper server unmutes each connection at once, answers by Push when it can, and pushes
    watch events.
    """

    connection: int
    correlation: int
    message: Any


@value
class Close:
    """Close a connection, inbound or outbound. The peer sees it after all data sent before."""

    connection: int


@value
class Flush:
    """Make files durable in the background; the effects behind it do not wait.

    ``handler(error, now)`` runs on the same lane at the end (:class:`Flushed`). A pool has
    :attr:`Process.lane_threads` threads and one flush under way on each; the others wait their turn
    in the process, and make durable what the files hold when it comes.
    """

    files: tuple[str, ...]
    handler: Callable[[str | None, int], None]
    pool: str = ""  # whose thread flushes; empty: one that does nothing else


@value
class Barrier:
    """Hold back the effects behind this one, and this lane's thread, until the files are durable.

    If the disk refuses, :meth:`Process.on_barrier_failed` decides whether the process goes on.
    """

    files: tuple[str, ...]


@value
class Read:
    """Read ``size`` bytes that no page cache holds; the effects behind it do not wait.

    What they hold is known to the caller. ``handler(None, now)`` runs on the same lane once the
    disk has read them (:class:`Posted`).
    """

    size: int
    handler: Callable[[None, int], None]


@value
class Then:
    """Call ``handler(now)`` on this lane when all effects before this one are performed.

    Behind a :class:`Barrier` the handler can change state that other lanes must not see before the
    files are durable.
    """

    handler: Handler


@value
class Post:
    """Have ``handler(message, now)`` called on a lane, as an input of its own after a short delay.

    Two Posts to one lane may arrive in either order. With ``first`` this one is served before all
    that waits on the lane when it arrives.
    """

    lane: str
    handler: Callable[[Any, int], None]
    message: Any
    first: bool = False


@value
class Reply:
    """Answer an application's :class:`Call`."""

    call: int
    result: Any
    error: Exception | None  # None: the call returns ``result``; else it raises this


@value
class Exit:
    """The process ends; effects behind this one are not performed."""

    reason: str
    clean: bool  # True: a shutdown, peers see a close; False: Kafka halts, peers see a reset


class Answerable(Protocol):
    """What a process keeps for each connection that it opened: it gets the connection's inputs.

    ``kafkasim.model.channel.Channel`` is the usual one.
    """

    def on_opened(self, now: int) -> None: ...
    def on_open_failed(self, reason: str, now: int) -> None: ...
    def on_response(self, correlation: int, message: Any, now: int) -> None: ...
    def on_closed(self, reason: str, now: int) -> None: ...


class Acceptor(Protocol):
    """Decides on new connections to one endpoint of a process, on a lane of its own.

    The host gives it a connection that the kernel has accepted, if it is ``limiting`` then, and
    reads nothing from the connection before :class:`Admit`. It also gives it the end of each of
    these connections. While it is ``full`` the kernel accepts no more.
    """

    @property
    def lane(self) -> str: ...
    @property
    def limiting(self) -> bool: ...
    @property
    def full(self) -> bool: ...
    def on_connection(self, connection: int, now: int) -> None: ...
    def on_disconnected(self, connection: int, now: int) -> None: ...


class Process:
    """One broker, controller, client or ZooKeeper server, from its start to its death.

    A host calls :meth:`handle` with an input, and performs what is then in ``out``. For frequent
    inputs it calls :meth:`on_request`, :meth:`on_call` or a channel's ``on_response`` directly.
    It wakes the process at ``timers.next_deadline()`` and runs what is due by ``timers.pop_due``
    and ``timers.fire``, each on the lane that the timer names.

    A process that is a part of another one (``whole``: combined mode has a broker and a controller
    in one process) shares its outbox, its timers and its connections.
    """

    lane_threads: dict[str, int] = {}  # threads of the lanes and pools that have more than one
    request_lanes: dict[type, str] = {}  # the lane of each type of request
    default_lane = "requests"  # the lane of any other request
    queued_max_requests = 500  # queued.max.requests: a full queue stalls the network threads
    network_threads = 3  # num.network.threads: of each endpoint
    connection_queue = 20  # how many new connections a network thread sets up before it polls

    def __init__(
        self, name: str, files: Files, rng: random.Random, now: int, whole: Process | None = None
    ) -> None:
        self.name = name
        self.files = files
        self.rng = rng  # the only source of randomness
        self.started_us = now
        self.out: list[Any] = [] if whole is None else whole.out
        self.timers: Timers = Timers() if whole is None else whole.timers
        self.clock_offset_us = 0
        self.channels: dict[int, Answerable] = {} if whole is None else whole.channels
        # Inbound connections whose end the process hears of: lane and handler(connection, now).
        self.watched: dict[int, tuple[str, Callable[[int, int], None]]] = (
            {} if whole is None else whole.watched
        )
        self.acceptors: dict[str, Acceptor] = (
            {} if whole is None else whole.acceptors
        )  # by endpoint
        # What becomes of the answer to a request, by (connection, correlation), as it is sent.
        self.merges: dict[tuple[int, int], Callable[[Any], Any]] = (
            {} if whole is None else whole.merges
        )
        # How long a connection stays muted after the answer to a request, in ms, asked for at the
        # time when it is sent.
        self.throttles: dict[tuple[int, int], Callable[[int], int]] = (
            {} if whole is None else whole.throttles
        )
        # Takes note of an answer: the request, the response (None: nothing is sent), when it was
        # ready, when its network thread took it, and the throttle time in ms.
        self.on_answered: Callable[[Served, Any, int, int, int], None] | None = None
        # What the host knows of inbound connections; it sets these as of the next input: who opened
        # one; all of them, and when the last bytes came or went; whether none has reset one.
        self.peer_of: Callable[[int], Peer] = _anonymous
        self.last_active: Callable[[], list[tuple[int, int]]] = list
        self.is_open: Callable[[int], bool] = _always
        self.service_us: Callable[[Any], int] = _no_time  # how long a handler takes for a message
        if whole is not None:
            self._know_as(whole)
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

    def _know_as(self, whole: Process) -> None:
        """Ask the whole process for what the host tells it."""
        self.peer_of = lambda connection: whole.peer_of(connection)
        self.is_open = lambda connection: whole.is_open(connection)
        self.last_active = lambda: whole.last_active()
        self.service_us = lambda message: whole.service_us(message)

    def start(self, now: int) -> None:
        """Arm timers, open connections. The host calls it once after construction, on ``main``."""

    def on_barrier_failed(self, files: list[str], error: str, now: int) -> bool:
        """Handle a :class:`Barrier` whose files could not be flushed; return False to halt.

        If the process goes on, the host performs the effects behind the barrier.
        """
        return False

    def handle(self, item: Any, now: int) -> None:
        """Handle one input; its effects are in ``out`` afterwards."""
        self._dispatch[type(item)](item, now)

    def wall_ms(self, now: int) -> int:
        """Return the host's wall clock in milliseconds."""
        return (now + self.clock_offset_us) // 1000

    def new_connection(self, channel: Answerable) -> int:
        """Return the number of a new outbound connection, whose inputs go to ``channel``."""
        connection = next(self._connections)
        self.channels[connection] = channel
        return connection

    # A subclass overrides what concerns it.

    def accepted(self, connection: int, endpoint: str) -> None:
        """Take note of a new inbound connection to one of this process's endpoints."""

    def lane_of(self, message: Any, connection: int) -> str:
        """Return the lane that serves a request on this connection.

        That depends on the request's type and the endpoint; only within a pool also on its fields.
        """
        return self.request_lanes.get(type(message), self.default_lane)

    def on_request(self, item: Request, now: int) -> None:
        """Serve a request; its :class:`Respond` may come later.

        Raises:
            NotImplementedError: this process takes no requests.
        """
        raise NotImplementedError(f"{self.name} takes no requests: {item}")

    def on_call(self, item: Call, now: int) -> None:
        """Serve a call of the owning application; its :class:`Reply` may come later.

        Raises:
            NotImplementedError: this process takes no calls.
        """
        raise NotImplementedError(f"{self.name} takes no calls: {item}")

    def shutdown(self, now: int) -> None:
        """Begin a clean stop (SIGTERM); the process ends it with :class:`Exit`."""
        self.out.append(Exit("shutdown", True))

    def ground_truth(self) -> list[Any]:
        """Return the facts that record this process's state at the end of a run.

        These are FinalReplica, FinalCleaned, FinalOffset, FinalPosition, FinalSharePartition.
        """
        return []

    # Inputs of a connection go to its channel; one that comes after the channel's end is dropped.

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


def _anonymous(_connection: int) -> Peer:
    return Peer(ANONYMOUS, "")


def _always(_connection: int) -> bool:
    return True


def _no_time(_message: Any) -> int:
    return 0


def _on_posted(item: Posted, now: int) -> None:
    item.handler(item.message, now)


def _on_flushed(item: Flushed, now: int) -> None:
    item.handler(item.error, now)
