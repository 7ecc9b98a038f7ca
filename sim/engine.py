"""What runs a process: inputs onto lanes, effects out of the outbox, timers, requests in service.

This is the hot half of a host; the other half, its life and its faults, is in :mod:`sim.host`.

Whatever is on its way to a process (a post, a flush answer, the end of a service time) names that
process, and is dropped when another runs. A request is read when its connection is not muted and
the queue of its lane has room; it takes a thread for its service time, and its handler runs at the
end. All other inputs run at once while their lane has a free thread.

After a handler its outbox is performed in order. A Barrier, or page-cache writes of 1 ms and more,
keep the thread and the rest of the outbox until they are done; cheaper writes only postpone what
departs and the lane's next item. Facts are never held: they tell what the process's memory says,
and other lanes can see that already.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from heapq import heappush
from typing import Any, Protocol

from model.effects import (
    Barrier,
    Call,
    Close,
    Exit,
    Flush,
    Flushed,
    Open,
    Post,
    Posted,
    Process,
    Reply,
    Request,
    Respond,
    Send,
)
from sim.clock import HostClock
from sim.disk import Disk
from sim.kernel import Kernel, Local
from sim.lanes import Lane
from sim.network import Network
from sim.sockets import END, Packet, Socket

FAR = 2**62
HOLD_US = 1000  # page-cache writes that take this long hold their outbox
POST_MIN_US = 5
POST_SPAN_US = 46  # a post takes 5–50 µs


class Recorder(Protocol):
    """The trace, as a host needs it."""

    def record(self, t_us: int, node: str, fact: Any) -> None:
        """Append a fact."""
        ...


class Loop(Protocol):
    """An application's event loop on a host (sim/apps.py)."""

    def on_reply(self, reply: Reply, now: int) -> None:
        """Note the answer to a call; :meth:`run` follows."""
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


class Engine:
    """Runs the process of a host. ``running`` is False while it is paused or dead."""

    def __init__(
        self, name: str, kernel: Kernel, network: Network, trace: Recorder, clock: HostClock, disk: Disk
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
        self._lane_of_request: dict[type, Lane] = {}
        self._queued_max = 500
        self._last_inbound = 0
        self._departs_us = 0  # how long after now the effects being performed leave the host
        self._timer_heap: list[Any] = []
        self._wake_local = FAR
        self._wake_event: Local | None = None
        self._app_ready = False
        self._app_running = False
        self._backlog: list[tuple[int, float, int, Callable[[Any], None], Any]] = []
        self._stretched: list[tuple[Packet, int]] = []  # requests in service: what remains
        self._paused_us = 0  # total of all pauses
        self._pause_began_us = 0
        self._draw = random.Random(0).random
        self._served = (self._on_served,)
        self._posts = (self._on_posted,)
        self._wakes = (self._on_wake,)
        self._hold_ends = (self._on_hold_over,)
        self._performers: dict[type, Callable[[Any, Lane], bool | None]] = {
            Send: self._send,
            Respond: self._respond,
            Post: self._post,
            Open: self._open,
            Close: self._close,
            Flush: self._flush,
            Barrier: _hold_here,
            Reply: self._reply,
            Exit: self._exit,
        }

    # --------------------------------------------------------------------------------- inputs

    def local_now(self) -> int:
        """Return the host's monotonic time."""
        return self.clock.read(int(self.kernel._now))

    def lane(self, name: str) -> Lane:
        """Return a lane of the present process."""
        lane = self._lanes.get(name)
        if lane is None:
            assert self.process is not None, name
            threads = self.process.lane_threads.get(name, 1)
            self._lanes[name] = lane = Lane(name, threads)
        return lane

    def deliver(self, lane: Lane, item: Any) -> None:
        """Give an input to a lane of the running process."""
        if lane.free:
            process = self.process
            assert process is not None
            offset = self.clock.plain_offset_us
            process.handle(item, self.local_now() if offset is None else self.kernel._now + offset)
            if (process.out or self.disk.written) and self._drain(lane):
                lane.free -= 1
            heap = self._timer_heap
            if (heap and heap[0][0] < self._wake_local) or self._app_ready:
                self._settle()
        else:
            lane.queue.append(item)

    def call(self, call: Call) -> None:
        """Give an application's call to the process, on lane ``main``, at this instant."""
        assert self.running, f"{self.name} does not run: {call}"
        self.deliver(self.lane("main"), call)

    def receive_input(self, socket: Socket, item: Any) -> None:
        """Give an input that belongs to an outbound connection to its lane, now or on resume."""
        assert socket.lane is not None
        self._receive(Local(None, self.process, socket.lane, item))

    def open_failed(self, socket: Socket, item: Any) -> None:
        """Hear that a handshake failed."""
        socket.dead = True
        self.connection_ended(socket, item)

    def connection_ended(self, socket: Socket, item: Any) -> None:
        """Hear that a connection is gone; a server's process is not told."""
        self.sockets.pop(socket.connection, None)
        if not socket.inbound:
            self.receive_input(socket, item)

    def _receive(self, event: Local) -> None:
        if event.process is not self.process:
            return
        if self.running:
            self.deliver(event.lane, event.item)
        else:
            self.postpone(self._receive, event)

    def postpone(self, callback: Callable[[Any], None], event: Any) -> None:
        """Put aside what falls due during a pause."""
        self._backlog.append(
            (int(self.kernel._now), self._draw(), len(self._backlog), callback, event)
        )

    # ------------------------------------------------------------------------------- requests

    def receive_request(self, socket: Socket, packet: Packet) -> None:
        """Read a request from an unmuted connection, or leave it if the queue is full."""
        kind = type(packet.message)
        lane = self._lane_of_request.get(kind)
        if lane is None:
            assert self.process is not None
            lane = self.lane(self.process.request_lanes.get(kind, "requests"))
            self._lane_of_request[kind] = lane
        if len(lane.queue) >= self._queued_max:
            socket.inbox.appendleft(packet)
            lane.blocked.append(socket)
            return
        sender = socket.peer
        assert sender is not None
        sender.unread -= packet.size
        if sender.queue:
            self.network.room_made(sender)
        socket.muted = True
        packet.process = self.process
        packet.lane = lane
        offset = self.clock.plain_offset_us
        packet.received_us = self.local_now() if offset is None else self.kernel._now + offset
        if lane.free:
            lane.free -= 1
            self._serve(lane, packet)
        else:
            lane.queue.append(packet)

    def _serve(self, lane: Lane, packet: Packet) -> None:
        kernel = self.kernel
        duration = self.service_us + (packet.size * self.service_us_per_kib >> 10)
        if lane.debt_us:
            duration += lane.debt_us
            lane.debt_us = 0
        elif lane.busy_until_us > kernel._now:
            duration += lane.busy_until_us - int(kernel._now)
        packet.pauses_us = self._paused_us
        packet.callbacks = self._served
        heappush(kernel._queue, (kernel._now + duration, 1, next(kernel._eid), packet))  # type: ignore[misc, arg-type]

    def _on_served(self, packet: Packet) -> None:
        process = self.process
        if packet.process is not process or process is None:
            return
        if packet.pauses_us != self._paused_us or not self.running:
            self._stretch(packet)
            return
        offset = self.clock.plain_offset_us
        process.handle(
            Request(
                packet.socket.connection, packet.correlation, packet.message, packet.received_us
            ),
            self.local_now() if offset is None else self.kernel._now + offset,
        )
        lane = packet.lane
        if not ((process.out or self.disk.written) and self._drain(lane)):
            if lane.queue:
                self._release(lane)
            else:
                lane.free += 1
        heap = self._timer_heap
        if (heap and heap[0][0] < self._wake_local) or self._app_ready:
            self._settle()

    def _stretch(self, packet: Packet) -> None:
        """Add to a service time the pauses that fell into it."""
        now = int(self.kernel._now)
        remains = self._paused_us - packet.pauses_us
        packet.pauses_us = self._paused_us
        if self.running:
            packet.callbacks = self._served
            self.kernel.push(now + remains, packet)
        else:
            self._stretched.append((packet, now - self._pause_began_us + remains))

    def _read_next(self, socket: Socket) -> None:
        """Read on from the buffer of a connection that was unmuted."""
        packet = socket.inbox.popleft()
        if packet.correlation == END:
            self.network.end(socket, packet.message)
        else:
            self.receive_request(socket, packet)

    def _release(self, lane: Lane) -> None:
        """Let a thread that is done take what waits on its lane, or be free."""
        process = self.process
        while lane.queue:
            item = lane.queue.popleft()
            if type(item) is Packet:
                self._serve(lane, item)
                while lane.blocked and len(lane.queue) < self._queued_max:
                    socket = lane.blocked.popleft()
                    if socket.inbox and not socket.muted:
                        self._read_next(socket)
                return
            assert process is not None
            if type(item) is tuple:
                process.timers.fire(item[0], item[1], self.local_now())
            else:
                process.handle(item, self.local_now())
            if (process.out or self.disk.written) and self._drain(lane):
                return
        lane.free += 1

    # -------------------------------------------------------------------------------- effects

    def _drain(self, lane: Lane) -> bool:
        """Perform the outbox; return whether the thread is kept (or the process ended)."""
        process = self.process
        assert process is not None
        out = process.out
        if self.disk.written and self._charge(lane):
            return True
        performer_of = self._performers.get
        index = 0
        for effect in out:
            index += 1
            perform = performer_of(type(effect))
            if perform is None:
                self.trace.record(self.kernel._now, process.name, effect)  # type: ignore[arg-type]
            elif perform(effect, lane):
                if self.process is process:
                    held = self._hold(lane, index)
                    self.disk.flush(effect.files, self._on_durable, held)
                self._departs_us = 0
                return True
        out.clear()
        self._departs_us = 0
        return self.process is not process

    def _charge(self, lane: Lane) -> bool:
        """Charge page-cache writes to the lane; return whether they hold the whole outbox."""
        disk = self.disk
        cost = disk.take_cost_us()
        if disk.stalled:
            disk.wait_stalled(self._on_durable, self._hold(lane, 0))
            return True
        now = int(self.kernel._now)
        if lane.threads == 1:
            until = (lane.busy_until_us if lane.busy_until_us > now else now) + cost
            lane.busy_until_us = until
            cost = until - now
        elif cost < HOLD_US:
            lane.debt_us += cost
        if cost < HOLD_US:
            self._departs_us = cost
            return False
        held = self._hold(lane, 0)
        held.callbacks = self._hold_ends
        self.kernel.push(now + cost, held)
        return True

    def _hold(self, lane: Lane, index: int) -> Local:
        """Take the outbox from ``index`` on, without its facts, which are recorded now."""
        process = self.process
        assert process is not None
        rest, record = [], self.trace.record
        now = int(self.kernel._now)
        for effect in process.out[index:]:
            if type(effect) in self._performers:
                rest.append(effect)
            else:
                record(now, process.name, effect)
        process.out.clear()
        return Local(None, process, lane, rest)

    def _on_durable(self, held: Local, error: str | None) -> None:
        """Go on behind a barrier; a process that cannot persist what it must halts, as Kafka."""
        if held.process is self.process and error is not None:
            self.process_ended("halt", "reset")
        else:
            self._on_hold_over(held)

    def _on_hold_over(self, held: Local) -> None:
        process = self.process
        if held.process is not process or process is None:
            return
        if not self.running:
            self.postpone(self._on_hold_over, held)
            return
        assert not process.out, process.out
        process.out.extend(held.item)
        if not self._drain(held.lane):
            self._release(held.lane)
        self._settle()

    def _send(self, effect: Send, lane: Lane) -> None:
        socket = self.sockets.get(effect.connection)
        if socket is not None:  # else it is gone, and Closed is on its way
            self.network.transmit(socket, effect.correlation, effect.message, self._departs_us)

    def _respond(self, effect: Respond, lane: Lane) -> None:
        socket = self.sockets.get(effect.connection)
        if socket is None:
            return
        assert socket.muted, f"{self.name} answers twice: {effect}"
        if effect.message is not None:
            self.network.transmit(socket, effect.correlation, effect.message, self._departs_us)
        socket.muted = False
        if socket.inbox:
            self._read_next(socket)

    def _post(self, effect: Post, lane: Lane) -> None:
        event = Local(
            self._posts,
            self.process,
            self.lane(effect.lane),
            Posted(effect.handler, effect.message),
        )
        delay = POST_MIN_US + int(self._draw() * POST_SPAN_US) + self._departs_us
        self.kernel.push(int(self.kernel._now) + delay, event)

    def _on_posted(self, event: Local) -> None:
        self._receive(event)

    def _open(self, effect: Open, lane: Lane) -> None:
        self.sockets[effect.connection] = self.network.connect(
            self, effect.connection, effect.address, effect.purpose, self.lane(effect.lane)
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

    def _reply(self, effect: Reply, lane: Lane) -> None:
        if self.app is not None:
            self.app.on_reply(effect, self.local_now())
            self._app_ready = True

    def _exit(self, effect: Exit, lane: Lane) -> bool:
        if effect.clean:
            self.process_ended("shutdown", "closed")
        else:
            self.process_ended("halt", "reset")
        return True

    def process_ended(self, reason: str, how: str | None) -> None:
        """End the process; a host says what that means."""
        raise NotImplementedError

    # ---------------------------------------------------------------------- timers, application

    def _on_wake(self, event: Local) -> None:
        process = self.process
        if event is not self._wake_event or process is None:
            return
        self._wake_event = None
        self._wake_local = FAR
        if not self.running:
            return  # resume looks for what is due
        now = self.local_now()
        due = []
        while (entry := process.timers.pop_due(now)) is not None:
            due.append(entry)
        for entry in due:
            self._run_timer(Local(None, process, None, entry))
        if self.running and self.process is process:
            self._run_due_app(now)
            self._arm()

    def _run_timer(self, event: Local) -> None:
        process = self.process
        if event.process is not process or process is None:
            return
        if not self.running:
            self.postpone(self._run_timer, event)
            return
        key, sequence, lane_name = event.item
        lane = self.lane(lane_name)
        if not lane.free:
            lane.queue.append((key, sequence))
            return
        process.timers.fire(key, sequence, self.local_now())
        if (process.out or self.disk.written) and self._drain(lane):
            lane.free -= 1

    def _settle(self) -> None:
        """After inputs: run the application if it was answered, then look at the wake-up."""
        if self._app_ready and not self._app_running and self.running:
            self._run_app()
        self._arm()

    def _run_due_app(self, now: int) -> None:
        if self.app is not None:
            deadline = self.app.next_deadline()
            if self._app_ready or (deadline is not None and deadline <= now):
                self._run_app()

    def _run_app(self) -> None:
        """Let the application run until it has nothing ready, however its calls are answered."""
        assert not self._app_running
        self._app_running = True
        self._app_ready = True
        while self._app_ready and self.app is not None:
            self._app_ready = False
            self.app.run(self.local_now())
        self._app_ready = False
        self._app_running = False

    def _arm(self) -> None:
        """Arm the wake-up for the earliest deadline, if it is earlier than the one armed."""
        process = self.process
        if process is None:
            return
        deadline = process.timers.next_deadline()
        if self.app is not None:
            wanted = self.app.next_deadline()
            if wanted is not None and (deadline is None or wanted < deadline):
                deadline = wanted
        if deadline is not None and deadline < self._wake_local:
            self._wake_local = deadline
            self._wake_event = Local(self._wakes, process, None, None)
            at = self.clock.simulated(deadline, int(self.kernel._now))
            self.kernel.push(at, self._wake_event)


def _hold_here(effect: Barrier, lane: Lane) -> bool:
    return True
