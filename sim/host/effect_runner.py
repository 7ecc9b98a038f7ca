"""The effect runner: performs the effects of a process in order, and keeps those that are delayed.

A Barrier holds its thread and the rest of the outbox until its files are durable. So do page-cache
writes that take 1 ms or more. Shorter writes only delay the messages of the handler and the lane's
next item. Facts are never delayed: they tell the state of the process's memory, and other lanes can
see that already.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, Protocol

from kafkasim.model.effects import (
    Admit,
    Barrier,
    Close,
    Exit,
    Flush,
    Flushed,
    Open,
    Post,
    Posted,
    Process,
    Push,
    Read,
    Reply,
    Respond,
    Send,
    Then,
    ThrottledResponse,
)
from kafkasim.sim.host.hardware import Hardware
from kafkasim.sim.host.lanes import Lane, LaneInput
from kafkasim.sim.host.ports import Recorder
from kafkasim.sim.host.wakeups import WakeUps
from kafkasim.sim.net.network import Network
from kafkasim.sim.net.sockets import Packet, Receiver, Socket

HOLD_US = 1000  # page-cache writes that take this long hold their outbox
POST_MIN_US = 5
POST_SPAN_US = 46  # a post takes 5 to 50 µs
IN_PLACE = (Send, Respond)  # effects that are performed in the loop itself: they are the bulk


class HeldEffects:
    """Effects that wait for the disk, and the lane whose thread waits with them; also an event."""

    __slots__ = ("callbacks", "effects", "error", "lane", "request")

    _ok = True

    def __init__(self, lane: Lane) -> None:
        self.callbacks: Any = None
        self.lane = lane
        self.effects: deque[Any] = deque()
        self.error: str | None = None  # why the files of the barrier are not durable
        self.request: Packet | None = None  # what the thread serves, if it is a request


class FlushPool:
    """The threads of a pool that flush, and the flushes that wait for one of them, oldest first."""

    __slots__ = ("free", "waiting")

    def __init__(self, threads: int) -> None:
        assert threads > 0, threads
        self.free = threads
        self.waiting: deque[tuple[Flush, Lane]] = deque()


class FreedThread(HeldEffects):
    """The thread of a pool whose flush has ended; it takes the next one."""

    __slots__ = ("pool",)

    def __init__(self, lane: Lane, pool: FlushPool) -> None:
        super().__init__(lane)
        self.pool = pool


class Lanes(Protocol):
    """What effects cause on the lanes of their process."""

    def lane(self, name: str) -> Lane:
        """Return a lane by name."""
        ...

    def receive(self, arrival: LaneInput) -> None:
        """Give an input to its lane now, or on resume if the process is paused."""
        ...

    def end_hold(self, held: HeldEffects) -> None:
        """Go on with the held effects now, or on resume, by :meth:`EffectRunner.go_on`."""
        ...

    def read_next(self, socket: Socket) -> None:
        """Read on from the buffer of a connection whose request is answered."""
        ...

    def admit(self, connection: int) -> None:
        """Read a connection that its acceptor has admitted."""
        ...

    def disconnected(self, socket: Socket) -> None:
        """Tell an acceptor that a connection which it was asked for has ended."""
        ...


class EffectRunner:
    """Performs the effects of one incarnation of a process.

    Args:
        process: whose ``out`` is performed.
        hardware: of the host that it runs on.
        draw: the host's random stream; returns 0 <= x < 1.
        exit_process: ends the process (reason, how its connections end, how long after now, and
            the error of a halt).
    """

    __slots__ = (
        "_answered",
        "_departs_us",
        "_disk",
        "_draw",
        "_ended",
        "_exit_process",
        "_hardware",
        "_hold_ends",
        "_kernel",
        "_lanes",
        "_latest_held",
        "_network",
        "_node",
        "_out",
        "_performers",
        "_pools",
        "_posts",
        "_process",
        "_receiver",
        "_sockets",
        "_trace",
        "_transmit",
        "_wakeups",
    )

    def __init__(
        self,
        process: Process,
        hardware: Hardware,
        network: Network,
        trace: Recorder,
        draw: Callable[[], float],
        lanes: Lanes,
        receiver: Receiver,
        wakeups: WakeUps,
        exit_process: Callable[[str, str, int, str], None],
    ) -> None:
        self._process = process
        self._answered = process.on_answered
        self._out = process.out
        self._node = process.name
        self._hardware = hardware
        self._kernel = network.kernel
        self._disk = hardware.disk
        self._sockets = hardware.card.sockets
        self._network = network
        self._transmit = network.transmit
        self._trace = trace
        self._draw = draw
        self._lanes = lanes
        self._receiver = receiver
        self._wakeups = wakeups
        self._exit_process = exit_process
        self._ended = False
        self._departs_us = 0  # how long after now the effects being performed leave the host
        self._latest_held: HeldEffects | None = None
        self._pools: dict[str, FlushPool] = {}
        self._posts = (lanes.receive,)
        self._hold_ends = (lanes.end_hold,)
        self._performers = self._performer_table()

    def _performer_table(self) -> dict[type, Callable[[Any, Lane], bool | None]]:
        """Return what performs each kind of effect; an effect that is not in it is a fact."""
        return {
            Push: self._push,
            Post: self._post,
            Open: self._open,
            Admit: self._admit,
            Close: self._close,
            Flush: self._flush,
            Read: self._read,
            Barrier: _keep_thread,
            Then: self._then,
            Reply: self._reply,
            Exit: self._exit,
        }

    def end(self) -> None:
        """Drop the outbox: the process died."""
        self._ended = True
        self._out.clear()
        self._pools.clear()

    def drain(self, lane: Lane, held: HeldEffects | None = None) -> bool:
        """Perform the outbox; return whether the thread is kept, or the process has ended.

        ``held`` are effects that waited: they come before those of the outbox.
        """
        out = self._out
        fresh = iter(out)
        if self._disk.written and self._charge(lane, fresh, held):
            return True
        sockets, transmit, merges = self._sockets, self._transmit, self._process.merges
        throttles = self._process.throttles
        for effect in fresh if held is None else _in_turn(held.effects, fresh):
            kind = type(effect)
            if kind is Respond:
                socket, message = sockets.get(effect.connection), effect.message
                if merges:
                    merge = merges.pop((effect.connection, effect.correlation), None)
                    message = message if merge is None else merge(message)
                throttle_ms = effect.throttle_ms
                if throttles:
                    message, throttle_ms = self._throttle(effect, message)
                if socket is None:
                    continue  # it is gone, and Closed is on its way
                assert socket.muted, f"{self._node} answers twice: {effect}"
                if socket.processor.stalled:
                    ready_us = self._hardware.local_now()
                    socket.processor.hold(
                        socket, effect.correlation, message, throttle_ms, ready_us
                    )
                else:
                    self._send_response(socket, effect.correlation, message, throttle_ms)
            elif kind is Send:
                socket = sockets.get(effect.connection)
                if socket is not None:
                    transmit(socket, effect.correlation, effect.message, self._departs_us)
            elif (perform := self._performers.get(kind)) is None:
                self._trace.record(self._kernel._now, self._node, effect)
            elif perform(effect, lane):
                if not self._ended:
                    self._disk.flush(effect.files, self._on_durable, self._hold(lane, fresh, held))
                self._departs_us = 0
                return True
        out.clear()
        self._departs_us = 0
        return self._ended

    def go_on(self, held: HeldEffects, now: int) -> bool:
        """Perform what was held; return as :meth:`drain` does.

        A process that cannot do without the files of the barrier halts, as Kafka does.
        """
        assert not self._out, self._out
        if isinstance(held, FreedThread):
            self._flush_next(held.pool)
            return True  # it is no thread of the lane
        if held.error is None:
            return self.drain(held.lane, held)
        files = list(getattr(held.error, "files", ()))
        if not self._process.on_barrier_failed(files, held.error, now):
            self._exit_process("halt", "reset", 0, f"a flush failed: {held.error}")
            return True
        self._out.extend(held.effects)  # behind what follows from the error
        return self.drain(held.lane)

    # -------------------------------------------------------------------------------- holding

    def hold_request(self, request: Packet) -> None:
        """Say which request the thread serves whose effects were held last."""
        if self._latest_held is not None and not self._ended:
            self._latest_held.request = request

    def _charge(self, lane: Lane, fresh: Iterator[Any], held: HeldEffects | None) -> bool:
        """Charge page-cache writes to the lane; return whether they hold the whole outbox."""
        disk = self._disk
        cost = disk.take_cost_us()
        if disk.stalled:
            disk.wait_stalled(self._on_durable, self._hold(lane, fresh, held))
            return True
        if not cost:
            return False
        now = self._kernel._now
        cost = lane.add_debt(cost, now)
        if cost < HOLD_US:
            self._departs_us = cost
            return False
        held = self._hold(lane, fresh, held)
        held.callbacks = self._hold_ends
        self._kernel.push(now + cost, held)
        return True

    def _hold(self, lane: Lane, fresh: Iterator[Any], held: HeldEffects | None) -> HeldEffects:
        """Empty the outbox: hold its effects behind those held already, record its facts now.

        ``fresh`` yields what of the outbox is not performed yet. What is held already stays where
        it is, so that an outbox with many barriers costs as much as one without.
        """
        if held is None:
            held = self._latest_held = HeldEffects(lane)
        now, rest, record = self._kernel._now, held.effects, self._trace.record
        for effect in fresh:
            if type(effect) in self._performers or type(effect) in IN_PLACE:
                rest.append(effect)
            else:
                record(now, self._node, effect)
        self._out.clear()
        return held

    def _on_durable(self, held: HeldEffects, error: str | None) -> None:
        held.error = error
        self._lanes.end_hold(held)

    # -------------------------------------------------------------------------- kind by kind

    def _push(self, effect: Push, lane: Lane) -> None:
        socket = self._sockets.get(effect.connection)
        if socket is not None:
            self._transmit(socket, effect.correlation, effect.message, self._departs_us)

    def _post(self, effect: Post, lane: Lane) -> None:
        posted = Posted(effect.handler, effect.message, effect.first)
        event = LaneInput(self._posts, self._lanes.lane(effect.lane), posted)
        delay = POST_MIN_US + int(self._draw() * POST_SPAN_US) + self._departs_us
        self._kernel.push(self._kernel._now + delay, event)

    def _open(self, effect: Open, lane: Lane) -> None:
        card, receiver = self._hardware.card, self._receiver
        inputs = self._lanes.lane(effect.lane)
        socket = Socket(card, receiver, effect.connection, inputs, effect.purpose, inbound=False)
        socket.client_id = effect.client_id
        self._sockets[effect.connection] = socket
        self._network.connector.connect(socket, effect.address)

    def _admit(self, effect: Admit, lane: Lane) -> None:
        self._lanes.admit(effect.connection)

    def _close(self, effect: Close, lane: Lane) -> None:
        socket = self._sockets.pop(effect.connection, None)
        if socket is not None:
            if socket.acceptor is not None:
                self._lanes.disconnected(socket)
            self._network.finish(socket, "closed", self._departs_us)

    def _throttle(self, effect: Respond, message: Any) -> tuple[Any, int]:
        """Return an answer, and how long its client must wait; the answer says so, too."""
        of_time = self._process.throttles.pop((effect.connection, effect.correlation), None)
        wait_ms = 0 if of_time is None else of_time(self._hardware.local_now())
        if wait_ms <= effect.throttle_ms:
            return message, effect.throttle_ms
        return message if message is None else ThrottledResponse(message, wait_ms), wait_ms

    def _send_response(
        self, socket: Socket, correlation: int, message: Any, throttle_ms: int, ready_us: int = 0
    ) -> None:
        """Send a response, and unmute its connection once its throttle time is over.

        ``ready_us`` is when it was ready, 0 if that is now.
        """
        if message is not None:
            self._transmit(socket, correlation, message, self._departs_us)
        self._network.exchanges += 1
        if self._answered is not None:
            now = self._hardware.local_now() + self._departs_us
            self._answered(socket.served, message, ready_us or now, now, throttle_ms)
        if throttle_ms:
            self._kernel.at(self._kernel._now + throttle_ms * 1000, partial(self._unmute, socket))
        else:
            socket.muted = False
            if socket.inbox:
                self._lanes.read_next(socket)

    def send_held(
        self, socket: Socket, correlation: int, message: Any, throttle_ms: int, ready_us: int
    ) -> None:
        """Send a response that waited for its processor; of a connection that is gone, drop it."""
        if self._sockets.get(socket.connection) is socket:
            self._send_response(socket, correlation, message, throttle_ms, ready_us)

    def _unmute(self, socket: Socket) -> None:
        """Read on from a connection that was throttled, if it is still there."""
        if self._sockets.get(socket.connection) is socket:
            socket.muted = False
            if socket.inbox:
                self._lanes.read_next(socket)

    def _flush(self, effect: Flush, lane: Lane) -> None:
        if not effect.pool:
            self._disk.flush(effect.files, self._on_flushed, (lane, effect.handler))
            return
        pool = self._pools.get(effect.pool)
        if pool is None:
            threads = self._process.lane_threads.get(effect.pool, 1)
            pool = self._pools[effect.pool] = FlushPool(threads)
        pool.waiting.append((effect, lane))
        if pool.free:
            pool.free -= 1
            self._flush_next(pool)

    def _flush_next(self, pool: FlushPool) -> None:
        """Let a thread of a pool flush what has waited longest, or be free."""
        if pool.waiting:
            effect, lane = pool.waiting.popleft()
            self._disk.flush(effect.files, self._on_pool_flushed, (lane, effect.handler, pool))
        else:
            pool.free += 1

    def _on_pool_flushed(self, flush: tuple[Lane, Any, FlushPool], error: str | None) -> None:
        lane, handler, pool = flush
        if pool.waiting:
            self._lanes.end_hold(FreedThread(lane, pool))
        else:
            pool.free += 1
        self._on_flushed((lane, handler), error)

    def _on_flushed(self, flush: tuple[Lane, Any], error: str | None) -> None:
        lane, handler = flush
        self._lanes.receive(LaneInput(None, lane, Flushed(handler, error)))

    def _read(self, effect: Read, lane: Lane) -> None:
        self._disk.load(effect.size, self._on_read, (lane, effect.handler))

    def _on_read(self, read: tuple[Lane, Any], _error: str | None) -> None:
        lane, handler = read
        self._lanes.receive(LaneInput(None, lane, Posted(handler, None)))

    def _then(self, effect: Then, lane: Lane) -> None:
        effect.handler(self._hardware.local_now())

    def _reply(self, effect: Reply, lane: Lane) -> None:
        self._wakeups.reply(effect)

    def _exit(self, effect: Exit, lane: Lane) -> bool:
        if effect.clean:
            self._exit_process("shutdown", "closed", self._departs_us, "")
        else:
            self._exit_process("halt", "reset", self._departs_us, effect.reason)
        return True


def _in_turn(held: deque[Any], fresh: Iterator[Any]) -> Iterator[Any]:
    """Yield the effects that were held, taking each away, then those of the outbox."""
    while held:
        yield held.popleft()
    yield from fresh


def _keep_thread(_effect: Barrier, _lane: Lane) -> bool:
    return True
