"""What runs a process: inputs onto lanes, requests in service, timers, the application's turn.

This and the outbox are the hot half of a host; the other half, its life and its faults, is in
:mod:`kafkasim.sim.host.host`.

Whatever is on its way to a process (a post, a flush answer, the end of a service time) names that
process, and is dropped when another runs. A request is read when its connection is not muted and
the queue of its lane has room; it takes a thread for its service time, and its handler runs at the
end. All other inputs run at once while their lane has a free thread.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

from kafkasim.model.effects import Call, Response
from kafkasim.sim.clock import HostClock
from kafkasim.sim.disk.device import Disk
from kafkasim.sim.host.lanes import Lane
from kafkasim.sim.host.outbox import FAR, Outbox, Recorder
from kafkasim.sim.kernel import Kernel, Local
from kafkasim.sim.net.network import Network
from kafkasim.sim.net.sockets import END, Packet, Socket


class Engine(Outbox):
    """Runs the process of a host."""

    __slots__ = ("_served", "_stretched", "_wakes", "arrives_at_client", "arrives_at_server")

    def __init__(
        self,
        name: str,
        kernel: Kernel,
        network: Network,
        trace: Recorder,
        clock: HostClock,
        disk: Disk,
    ) -> None:
        super().__init__(name, kernel, network, trace, clock, disk)
        self._stretched: list[tuple[Packet, int]] = []  # requests in service: what remains
        self._served = (self._on_served,)
        self._wakes = (self._on_wake,)
        self.arrives_at_server = (self._on_request,)
        self.arrives_at_client = (self._on_response,)

    # --------------------------------------------------------------------------------- inputs

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
            if (self._out or self.disk.written) and self._drain(lane):
                lane.free -= 1
            heap = self._timer_heap
            if (heap and heap[0][0] < self._wake_local) or self._app_ready:
                self._settle()
        else:
            lane.queue.append(item)

    def call(self, call: Call) -> None:
        """Give an application's call to the process, on lane ``main``, at this instant."""
        process = self.process
        assert self.running, f"{self.name} does not run: {call}"
        assert process is not None, call
        lane = self._lanes.get("main") or self.lane("main")
        if lane.free:
            offset = self.clock.plain_offset_us
            now = self.local_now() if offset is None else self.kernel._now + offset
            process.on_call(call, now)
            if (self._out or self.disk.written) and self._drain(lane):
                lane.free -= 1
            if not self._app_running:
                self._settle()  # else it follows when the application waits
        else:
            lane.queue.append(call)

    def _on_response(self, packet: Packet) -> None:
        """An answer arrives: give it to its channel here if nothing is in its way, as usual."""
        socket = packet.socket
        lane, sender = socket.lane, socket.peer
        assert lane is not None
        assert sender is not None
        channel = self._channels.get(socket.connection)
        if channel is None or not lane.free or not self.running or socket.dead or sender.queue:
            self.network.arrive(packet)
            return
        sender.unread -= packet.size
        now = self.kernel._now
        offset = self.clock.plain_offset_us
        now = self.local_now() if offset is None else now + offset
        channel.on_response(packet.correlation, packet.message, now)
        if (self._out or self.disk.written) and self._drain(lane):
            lane.free -= 1
        heap = self._timer_heap
        if (heap and heap[0][0] < self._wake_local) or self._app_ready:
            self._settle()

    def receive_response(self, socket: Socket, packet: Packet) -> None:
        """Give an answer to its channel, if that is still there, or to the queue of its lane."""
        assert socket.lane is not None
        answer = Response(socket.connection, packet.correlation, packet.message)
        self.deliver(socket.lane, answer)

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
        """Put aside what falls due during a pause; what one connection brings stays in order."""
        now, backlog = self.kernel._now, self._backlog
        tie = None
        if type(event) is Packet:
            for at, earlier, _, _, other in reversed(backlog):
                if at != now:
                    break
                if type(other) is Packet and other.socket is event.socket:
                    tie = earlier
                    break
        if tie is None:
            tie = self._draw()
        backlog.append((now, tie, len(backlog), callback, event))

    # ------------------------------------------------------------------------------- requests

    def _on_request(self, packet: Packet) -> None:
        """A request arrives: read it and let a thread begin with it, if nothing is in its way."""
        socket = packet.socket
        lane = socket.lane_of_request.get(type(packet.message))
        sender = socket.peer
        assert sender is not None
        kernel = self.kernel
        now = kernel._now
        if (
            lane is None
            or not lane.free
            or lane.busy_until_us > now
            or socket.muted
            or socket.inbox
            or not self.running
            or socket.dead
            or sender.queue
        ):
            self.network.arrive(packet)
            return
        sender.unread -= packet.size
        socket.muted = True
        lane.free -= 1
        packet.connection = socket.connection
        packet.process = self.process
        packet.lane = lane
        offset = self.clock.plain_offset_us
        packet.received_us = self.local_now() if offset is None else now + offset
        packet.pauses_us = self._paused_us
        packet.callbacks = self._served
        ends = now + self.service_us + (packet.size * self.service_us_per_kib >> 10)
        heappush(kernel._queue, (ends, 1, next(kernel._eid), packet))

    def receive_request(self, socket: Socket, packet: Packet) -> None:
        """Read a request from an unmuted connection, or leave it if the queue is full."""
        kind = type(packet.message)
        lane = socket.lane_of_request.get(kind)
        if lane is None:
            process = self.process
            assert process is not None
            lane = self.lane(process.lane_of(kind, socket.connection))
            socket.lane_of_request[kind] = lane
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
        packet.connection = socket.connection
        packet.process = self.process
        packet.lane = lane
        packet.received_us = self.local_now()
        if lane.free:
            lane.free -= 1
            self._serve(lane, packet)
        else:
            lane.queue.append(packet)

    def _serve(self, lane: Lane, packet: Packet) -> None:
        """Let a thread begin with a request; its handler runs at the end of the service time."""
        kernel = self.kernel
        duration = self.service_us + (packet.size * self.service_us_per_kib >> 10)
        if lane.busy_until_us > kernel._now and not lane.free:
            duration += lane.take_debt(kernel._now)
        packet.pauses_us = self._paused_us
        packet.callbacks = self._served
        heappush(kernel._queue, (kernel._now + duration, 1, next(kernel._eid), packet))

    def _on_served(self, packet: Packet) -> None:
        process = self.process
        if packet.process is not process or process is None:
            return
        if packet.pauses_us != self._paused_us or not self.running:
            self._stretch(packet)
            return
        offset = self.clock.plain_offset_us
        now = self.local_now() if offset is None else self.kernel._now + offset
        request: Any = packet
        process.on_request(request, now)
        lane = packet.lane
        if not ((self._out or self.disk.written) and self._drain(lane)):
            if lane.queue:
                self._release(lane)
            else:
                lane.free += 1
        heap = self._timer_heap
        if (heap and heap[0][0] < self._wake_local) or self._app_ready:
            self._settle()

    def _stretch(self, packet: Packet) -> None:
        """Add to a service time the pauses that fell into it."""
        now = self.kernel._now
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
            if (self._out or self.disk.written) and self._drain(lane):
                return
        lane.free += 1

    # ---------------------------------------------------------------------- timers, application

    def _on_wake(self, event: Local) -> None:
        process = self.process
        if event.item is None or process is None:
            return  # forgotten, or one of the same instant came first
        armed = self._armed
        while event.item is not None:
            armed.pop().item = None
        self._wake_local = armed[-1].item if armed else FAR
        if not self.running:
            return  # resume looks for what is due
        offset = self.clock.plain_offset_us
        now = self.local_now() if offset is None else self.kernel._now + offset
        heap = self._timer_heap
        if heap and heap[0][0] <= now:
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
        if (self._out or self.disk.written) and self._drain(lane):
            lane.free -= 1

    def _forget_wakes(self) -> None:
        for event in self._armed:
            event.item = None
        self._armed.clear()
        self._wake_local = FAR

    def _settle(self) -> None:
        """After inputs: run the application if it was answered, then look at the wake-up."""
        if self._app_ready and not self._app_running and self.running:
            self._run_app(self.local_now())
        self._arm()

    def _run_due_app(self, now: int) -> None:
        if self.app is not None:
            deadline = self.app.next_deadline()
            if self._app_ready or (deadline is not None and deadline <= now):
                self._run_app(now)

    def _run_app(self, now: int) -> None:
        """Let the application run until it has nothing ready, however its calls are answered."""
        assert not self._app_running
        self._app_running = True
        self._app_ready = True
        while self._app_ready and self.app is not None:
            self._app_ready = False  # set again if one was attached meanwhile
            self.app.run(now)
        self._app_running = False

    def _arm(self) -> None:
        """Arm a wake-up for the earliest deadline, unless one is armed for then or before.

        Later ones stay on the kernel's queue and count again when this one is over.
        """
        process = self.process
        if process is None:
            return
        heap = self._timer_heap
        deadline = heap[0][0] if heap else None
        if deadline is not None and deadline < self._wake_local:
            deadline = process.timers.next_deadline()  # the top may be stale
        if self.app is not None:
            wanted = self.app.next_deadline()
            if wanted is not None and (deadline is None or wanted < deadline):
                deadline = wanted
        if deadline is not None and deadline < self._wake_local:
            self._wake_local = deadline
            event = Local(self._wakes, process, None, deadline)
            self._armed.append(event)
            kernel = self.kernel
            at = self.clock.simulated(deadline, kernel._now)
            heappush(kernel._queue, (at, 1, next(kernel._eid), event))
