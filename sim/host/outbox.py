"""The outbox of a process: its effects, performed in order, and what holds them back.

A Barrier, or page-cache writes of 1 ms and more, keep the thread and the rest of the outbox until
they are done; cheaper writes only postpone what departs and the lane's next item. Facts are never
held: they tell what the process's memory says, and other lanes can see that already.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any, Protocol

from kafkasim.model.effects import (
    Answerable,
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
    Reply,
    Respond,
    Send,
    Then,
)
from kafkasim.sim.clock import HostClock
from kafkasim.sim.disk.device import Disk
from kafkasim.sim.host.lanes import Lane
from kafkasim.sim.kernel import Kernel, Local
from kafkasim.sim.net.network import Network
from kafkasim.sim.net.sockets import Socket

FAR = 2**62
IN_PLACE = (Send, Respond)  # effects that are performed in the loop itself: they are the bulk
HOLD_US = 1000  # page-cache writes that take this long hold their outbox
POST_MIN_US = 5
POST_SPAN_US = 46  # a post takes 5–50 µs


class Recorder(Protocol):
    """The trace, as a host needs it."""

    def record(self, t_us: int, node: str, fact: Any) -> None:
        """Append a fact."""
        ...


class Loop(Protocol):
    """An application's event loop on a host (sim/apps/apps.py)."""

    def on_reply(self, reply: Reply) -> None:
        """Note the answer to a call; :meth:`run` follows, or takes it up if it is in progress."""
        ...

    def run(self, now: int) -> None:
        """Run all callbacks that are ready or due."""
        ...

    def next_deadline(self) -> int | None:
        """Return the earliest timer, in host time."""
        ...

    def discard(self) -> None:
        """Drop all tasks without running their ``finally``: the host died."""
        ...


class Held:
    """The effects that a lane holds back: of a process, until a disk is done; also an event."""

    __slots__ = ("callbacks", "effects", "error", "lane", "process")

    _ok = True

    def __init__(self, process: Process, lane: Lane) -> None:
        self.callbacks: Any = None
        self.process = process
        self.lane = lane
        self.effects: deque[Any] = deque()
        self.error: str | None = None  # why the disk could not do what they wait for


class Outbox:
    """State of a host that runs a process, and the effects of that process.

    ``running`` is False while the process is paused or dead.
    """

    __slots__ = (
        "_app_ready",
        "_app_running",
        "_armed",
        "_backlog",
        "_channels",
        "_departs_us",
        "_draw",
        "_hold_ends",
        "_lanes",
        "_lanes_of_requests",
        "_last_inbound",
        "_node",
        "_out",
        "_pause_began_us",
        "_paused_us",
        "_performers",
        "_posts",
        "_queued_max",
        "_timer_heap",
        "_transmit",
        "_wake_local",
        "app",
        "clock",
        "disk",
        "interface_free_us",
        "kernel",
        "name",
        "network",
        "powered",
        "process",
        "running",
        "service_us",
        "service_us_per_kib",
        "sockets",
        "trace",
    )

    def __init__(
        self,
        name: str,
        kernel: Kernel,
        network: Network,
        trace: Recorder,
        clock: HostClock,
        disk: Disk,
    ) -> None:
        self.name = name
        self.kernel = kernel
        self.network = network
        self.trace = trace
        self.clock = clock
        self.disk = disk
        self.process: Process | None = None
        self.app: Loop | None = None
        self.running = False
        self.powered = True
        self.sockets: dict[int, Socket] = {}
        self.service_us = 50
        self.service_us_per_kib = 1
        self.interface_free_us = 0  # when the network interface has sent what it was given
        self._lanes: dict[str, Lane] = {}
        self._lanes_of_requests: dict[str, dict[type, Lane]] = {}  # endpoint -> request -> lane
        self._queued_max = 500
        self._last_inbound = 0
        self._departs_us = 0  # how long after now the effects being performed leave the host
        # The process's own, kept here because they are asked for all the time.
        self._timer_heap: list[Any] = []
        self._out: list[Any] = []
        self._channels: dict[int, Answerable] = {}
        self._node = name
        self._wake_local = FAR
        self._armed: list[Local] = []  # wake-ups on the kernel's queue, the earliest last
        self._app_ready = False
        self._app_running = False
        self._backlog: list[tuple[int, float, int, Callable[[Any], None], Any]] = []
        self._paused_us = 0  # total of all pauses
        self._pause_began_us = 0
        self._draw = random.Random(0).random
        self._transmit = network.transmit
        self._posts, self._hold_ends = (self._on_posted,), (self._on_hold_over,)
        self._performers = self._performer_table()

    def _performer_table(self) -> dict[type, Callable[[Any, Lane], bool | None]]:
        """Return what performs each kind of effect; what is not in it is a fact."""
        return {
            Push: self._push,
            Post: self._post,
            Open: self._open,
            Close: self._close,
            Flush: self._flush,
            Barrier: _hold_here,
            Then: self._then,
            Reply: self._reply,
            Exit: self._exit,
        }

    def local_now(self) -> int:
        """Return the host's monotonic time."""
        offset = self.clock.plain_offset_us
        now = self.kernel._now
        return self.clock.read(now) if offset is None else now + offset

    # -------------------------------------------------------------------------------- effects

    def _drain(self, lane: Lane, held: Held | None = None) -> bool:
        """Perform the outbox; return whether the thread is kept (or the process ended).

        ``held`` are effects that waited: they come before what is in the outbox.
        """
        process = self.process
        assert process is not None
        out = self._out
        fresh = iter(out)
        if self.disk.written and self._charge(lane, fresh, held):
            return True
        sockets, transmit = self.sockets, self._transmit
        for effect in fresh if held is None else _in_turn(held.effects, fresh):
            kind = type(effect)
            if kind is Respond:
                socket = sockets.get(effect.connection)
                if socket is None:
                    continue  # it is gone, and Closed is on its way
                assert socket.muted, f"{self.name} answers twice: {effect}"
                if effect.message is not None:
                    transmit(socket, effect.correlation, effect.message, self._departs_us)
                self.network.exchanges += 1
                socket.muted = False
                if socket.inbox:
                    self._read_next(socket)
            elif kind is Send:
                socket = sockets.get(effect.connection)
                if socket is not None:
                    transmit(socket, effect.correlation, effect.message, self._departs_us)
            elif (perform := self._performers.get(kind)) is None:
                self.trace.record(self.kernel._now, self._node, effect)
            elif perform(effect, lane):
                if self.process is process:
                    held = self._hold(lane, fresh, held)
                    self.disk.flush(effect.files, self._on_durable, held)
                self._departs_us = 0
                return True
        out.clear()
        self._departs_us = 0
        return self.process is not process

    def _charge(self, lane: Lane, fresh: Iterator[Any], held: Held | None) -> bool:
        """Charge page-cache writes to the lane; return whether they hold the whole outbox."""
        disk = self.disk
        cost = disk.take_cost_us()
        if disk.stalled:
            disk.wait_stalled(self._on_durable, self._hold(lane, fresh, held))
            return True
        if not cost:
            return False
        now = self.kernel._now
        cost = lane.add_debt(cost, now)
        if cost < HOLD_US:
            self._departs_us = cost
            return False
        held = self._hold(lane, fresh, held)
        held.callbacks = self._hold_ends
        self.kernel.push(now + cost, held)
        return True

    def _hold(self, lane: Lane, fresh: Iterator[Any], held: Held | None) -> Held:
        """Empty the outbox: hold its effects behind those held already, record its facts now.

        ``fresh`` yields what of the outbox is not performed yet. What is held stays where it is,
        so that an outbox with many barriers costs as much as one without.
        """
        process = self.process
        assert process is not None
        if held is None:
            held = Held(process, lane)
        now, rest, record = self.kernel._now, held.effects, self.trace.record
        for effect in fresh:
            if type(effect) in self._performers or type(effect) in IN_PLACE:
                rest.append(effect)
            else:
                record(now, process.name, effect)
        process.out.clear()
        return held

    def _on_durable(self, held: Held, error: str | None) -> None:
        held.error = error
        self._on_hold_over(held)

    def _on_hold_over(self, held: Held) -> None:
        """Go on behind a barrier; a process that cannot persist what it must halts, as Kafka."""
        process = self.process
        if held.process is not process or process is None:
            return
        if not self.running:
            self.postpone(self._on_hold_over, held)
            return
        assert not process.out, process.out
        if held.error is None:
            kept = self._drain(held.lane, held)
        else:
            files = list(getattr(held.error, "files", ()))
            if not process.on_barrier_failed(files, held.error, self.local_now()):
                self.process_ended("halt", "reset")
                return
            process.out.extend(held.effects)  # behind what follows from the error
            kept = self._drain(held.lane)
        if not kept:
            self._release(held.lane)
        self._settle()

    def _push(self, effect: Push, lane: Lane) -> None:
        socket = self.sockets.get(effect.connection)
        if socket is not None:
            self.network.transmit(socket, effect.correlation, effect.message, self._departs_us)

    def _post(self, effect: Post, lane: Lane) -> None:
        event = Local(
            self._posts,
            self.process,
            self.lane(effect.lane),
            Posted(effect.handler, effect.message),
        )
        delay = POST_MIN_US + int(self._draw() * POST_SPAN_US) + self._departs_us
        self.kernel.push(self.kernel._now + delay, event)

    def _on_posted(self, event: Local) -> None:
        self._receive(event)

    def _open(self, effect: Open, lane: Lane) -> None:
        host: Any = self  # a host is the only outbox there is
        self.sockets[effect.connection] = self.network.connector.connect(
            host, effect.connection, effect.address, effect.purpose, self.lane(effect.lane)
        )

    def _close(self, effect: Close, lane: Lane) -> None:
        socket = self.sockets.pop(effect.connection, None)
        if socket is not None:
            self.network.finish(socket, "closed", self._departs_us)

    def _flush(self, effect: Flush, lane: Lane) -> None:
        token = Local(None, self.process, lane, effect.handler)
        self.disk.flush(effect.files, self._on_flushed, token)

    def _on_flushed(self, token: Local, error: str | None) -> None:
        token.item = Flushed(token.item, error)
        self._receive(token)

    def _then(self, effect: Then, lane: Lane) -> None:
        effect.handler(self.local_now())

    def _reply(self, effect: Reply, lane: Lane) -> None:
        if self.app is not None:
            self.app.on_reply(effect)
            self._app_ready = not self._app_running  # it takes the answer up in this very run

    def _exit(self, effect: Exit, lane: Lane) -> bool:
        if effect.clean:
            self.process_ended("shutdown", "closed")
        else:
            self.process_ended("halt", "reset")
        return True

    # ------------------------------------------------------------- what the engine and host add

    def lane(self, name: str) -> Lane:
        """Return a lane of the present process."""
        raise NotImplementedError

    def postpone(self, callback: Callable[[Any], None], event: Any) -> None:
        """Put aside what falls due during a pause."""
        raise NotImplementedError

    def process_ended(self, reason: str, how: str | None) -> None:
        """Drop everything volatile; connections end by ``how``, None is silence."""
        raise NotImplementedError

    def _receive(self, event: Local) -> None:
        raise NotImplementedError

    def _release(self, lane: Lane) -> None:
        raise NotImplementedError

    def _read_next(self, socket: Socket) -> None:
        raise NotImplementedError

    def _settle(self) -> None:
        raise NotImplementedError


def _in_turn(held: deque[Any], fresh: Iterator[Any]) -> Iterator[Any]:
    """Yield the effects that were held, taking each away, then those of the outbox."""
    while held:
        yield held.popleft()
    yield from fresh


def _hold_here(_effect: Barrier, _lane: Lane) -> bool:
    return True
