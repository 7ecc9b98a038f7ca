"""The lane scheduler: gives a process its inputs, each on its lane, and fires its timers.

There is one for each incarnation of a process; it dies with it. Events for a dead incarnation (a
post, the end of a flush or of a service time) are dropped on arrival.

A request is read when its connection is not muted and the request queue has room for what its
network thread has read (:mod:`kafkasim.sim.host.processors`). It takes a thread for its service
time, and its handler runs at the end. All other inputs run at once while
their lane has a free thread. After every input the effects of the process are performed.

In a GC pause nothing runs. The kernel receives into bounded socket buffers, and due inputs are put
aside. After the pause they run with the due timers, in the order of their due times; ``now`` is the
end of the pause. A pause extends the service times during which it happens.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappush
from typing import Any

from kafkasim.model.effects import (
    ANONYMOUS,
    Call,
    Closed,
    Opened,
    OpenFailed,
    Peer,
    Posted,
    Process,
    Response,
)
from kafkasim.sim.host.backlog import Backlog
from kafkasim.sim.host.effect_runner import EffectRunner, HeldEffects
from kafkasim.sim.host.hardware import Hardware
from kafkasim.sim.host.lanes import Lane, LaneInput, LaneTable
from kafkasim.sim.host.ports import ApplicationLoop, Recorder
from kafkasim.sim.host.processors import Acceptor, Processor
from kafkasim.sim.host.wakeups import WakeUp, WakeUps
from kafkasim.sim.net.network import Network
from kafkasim.sim.net.sockets import END, Packet, Socket


class LaneScheduler:
    """The lanes of one incarnation; ``running`` is False while it is paused, and once it died.

    Args:
        process: which runs.
        hardware: of the host that it runs on.
        draw: the host's random stream; returns 0 <= x < 1.
        exit_process: ends the process (reason, how its connections end, how long after now, and
            the error of a halt).
        pool_draws: returns the random stream of a pool of threads.
    """

    __slots__ = (
        "_acceptors", "_backlog", "_channels", "_clock", "_disk", "_drain", "_effects", "_ended",
        "_hardware",
        "_kernel", "_lanes", "_lanes_of_requests", "_network", "_out", "_pause_began_us",
        "_paused_us", "_queued_max", "_served", "_stretched", "_timer_heap", "arrives_at_client",
        "arrives_at_server", "lane", "postpone", "process", "running", "wakeups",
    )  # fmt: skip

    def __init__(
        self,
        process: Process,
        hardware: Hardware,
        network: Network,
        trace: Recorder,
        draw: Callable[[], float],
        exit_process: Callable[[str, str, int, str], None],
        pool_draws: Callable[[str], Callable[[], float]],
    ) -> None:
        self.process = process
        self.running = True
        self._ended = False
        self._hardware = hardware
        self._network = network
        self._kernel = network.kernel
        self._clock = hardware.clock
        self._disk = hardware.disk
        # The process's own, kept here because they are asked for all the time.
        self._out = process.out
        self._timer_heap = process.timers.heap
        self._channels = process.channels
        self._queued_max = process.queued_max_requests
        process.peer_of = self._peer_of
        process.is_open = self._is_open
        process.last_active = self._last_active
        process.service_us = self._service_us
        self._lanes = LaneTable(process.lane_threads, process.default_lane, pool_draws)
        self.lane = self._lanes.lane
        self._lanes_of_requests: dict[str, dict[type, Lane]] = {}  # endpoint -> request -> lane
        self._acceptors: dict[str, Acceptor] = {}  # by endpoint
        self._backlog = Backlog(network.kernel, draw)
        self.postpone = self._backlog.postpone
        self._stretched: list[tuple[Packet, int]] = []  # requests in service: what remains
        self._paused_us = 0  # how long all pauses were that are over
        self._pause_began_us = 0
        self._served = (self._on_served,)
        self.arrives_at_server = (self._on_request,)
        self.arrives_at_client = (self._on_response,)
        wakes = (self._on_wake,)
        self.wakeups = wakeups = WakeUps(network.kernel, hardware.clock, process.timers, wakes)
        self._effects = EffectRunner(
            process, hardware, network, trace, draw, self, self, wakeups, exit_process
        )
        self._drain = self._effects.drain

    # ----------------------------------------------------------------------------------- life

    def start(self, now: int) -> None:
        """Let the process start, on lane ``main``."""
        self.process.start(now)
        self._finish_on(self.lane("main"))

    def shut_down(self, _: Any = None) -> None:
        """Ask the process to stop cleanly, on resume if it is paused."""
        if self._ended:
            return
        if not self.running:
            self.postpone(self.shut_down, None)
            return
        self.process.shutdown(self._hardware.local_now())
        self._finish_on(self.lane("main"))
        self.after_input()

    def end(self) -> None:
        """Drop all that waits: the process died."""
        self.running = False
        self._ended = True
        self._effects.end()
        self.wakeups.forget()
        self._backlog.clear()
        self._stretched.clear()
        self._lanes.discard()

    def pause(self) -> None:
        """Stop everything until :meth:`resume`."""
        assert self.running, self.process
        self.running = False
        self._pause_began_us = self._kernel._now

    def resume(self) -> None:
        """Handle what fell due in the pause, in the order in which it did."""
        assert not self.running, self.process
        now = self._kernel._now
        self.running = True
        self._paused_us += now - self._pause_began_us
        stretched, self._stretched = self._stretched, []
        for packet, remains in stretched:
            packet.pauses_us = self._paused_us
            packet.callbacks = self._served
            self._kernel.push(now + remains, packet)
        local, timers = self._hardware.local_now(), self.process.timers
        while (deadline := timers.next_deadline()) is not None and deadline <= local:
            due = self._clock.simulated(deadline, -1)
            self._backlog.add(due, self._run_timer, timers.pop_due(local))
        for _, _, _, callback, event in self._backlog.take():
            callback(event)
        if self.running:
            self.wakeups.run_due_app(self._hardware.local_now())
            self.wakeups.arm()

    # ----------------------------------------------------------------------------------- inputs

    def receive(self, arrival: LaneInput) -> None:
        """Give an input to its lane now, or on resume if the process is paused."""
        if self.running:
            self.deliver(arrival.lane, arrival.item)
        elif not self._ended:
            self.postpone(self.receive, arrival)

    def deliver(self, lane: Lane, item: Any) -> None:
        """Give an input to a lane of the running process."""
        if lane.free:
            offset = self._clock.plain_offset_us
            kernel_now = self._kernel._now
            now = self._clock.read(kernel_now) if offset is None else kernel_now + offset
            self.process.handle(item, now)
            if (self._out or self._disk.written) and self._drain(lane):
                lane.free -= 1
            heap, wakeups = self._timer_heap, self.wakeups
            if (heap and heap[0][0] < wakeups.armed_us) or wakeups.app_ready:
                self.after_input()
        elif type(item) is Posted and item.first:
            lane.put_first(item)
        else:
            lane.put(item)

    def call(self, call: Call) -> None:
        """Give an application's call to the process, on lane ``main``, at this instant."""
        assert self.running, f"{self.process.name} does not run: {call}"
        lane = self._lanes.by_name.get("main") or self.lane("main")
        if lane.free:
            offset = self._clock.plain_offset_us
            kernel_now = self._kernel._now
            now = self._clock.read(kernel_now) if offset is None else kernel_now + offset
            self.process.on_call(call, now)
            if (self._out or self._disk.written) and self._drain(lane):
                lane.free -= 1
            if not self.wakeups.app_running:
                self.after_input()  # else it follows when the application waits
        else:
            lane.put(call)

    def end_hold(self, held: HeldEffects) -> None:
        """Go on with the effects that a lane held back, on resume if the process is paused."""
        if self.running:
            now = self._hardware.local_now()
            if not self._effects.go_on(held, now):
                if held.request is not None and not held.request.handled_us:
                    held.request.handled_us = now
                self._release(held.lane)
            self.after_input()
        elif not self._ended:
            self.postpone(self.end_hold, held)

    def _release(self, served: Lane) -> None:
        """Let a thread that is done take what waits on its lane or in its pool, or be free."""
        process = self.process
        served.free += 1
        while (lane := served.next_lane()) is not None:
            lane.free -= 1
            served = lane
            item = lane.queue.popleft()
            if type(item) is Packet:
                handed_on = item.lane is not lane
                if lane.front is lane:
                    item.dequeue(self._hardware.local_now())
                if handed_on:
                    self._give(item.lane, item)
                else:
                    self._serve(lane, item)
                while lane.blocked and len(lane.queue) < self._queued_max:
                    self._run_processor(lane.blocked.popleft())
                if not handed_on:
                    return
                lane.free += 1
                continue
            if type(item) is tuple:
                process.timers.fire(item[0], item[1], self._hardware.local_now())
            else:
                process.handle(item, self._hardware.local_now())
            if (self._out or self._disk.written) and self._drain(lane):
                return
            lane.free += 1

    def _finish_on(self, lane: Lane) -> None:
        """Perform what followed from an input; the lane's thread may be kept by it."""
        if (self._out or self._disk.written) and self._drain(lane):
            lane.free -= 1

    # ------------------------------------------------------------------------------ connections

    def accept(self, client: Socket, address: str) -> Socket | None:
        """Return the server's end of a connection; the kernel makes it even in a pause.

        It makes none while the backlog of an acceptor is full.
        """
        limits = self.process.acceptors.get(address)
        if limits is not None and limits.limiting and limits.full:
            return None
        card = self._hardware.card
        card.last_inbound -= 1
        socket = Socket(card, self, card.last_inbound, None, client.purpose, inbound=True)
        socket.peer = client
        client.peer = socket
        card.sockets[socket.connection] = socket
        socket.lane_of_request = self._lanes_of_requests.setdefault(address, {})
        processors = self._acceptors.get(address)
        if processors is None:
            processors = self._acceptors[address] = Acceptor(self.process.network_threads)
        socket.processor = processors.assign()
        self.process.accepted(socket.connection, address)
        if limits is not None and limits.limiting:
            socket.acceptor = limits
            socket.muted = True  # until it is admitted
            asked = Posted(limits.on_connection, socket.connection)
            arrival = LaneInput((self.receive,), self.lane(limits.lane), asked)
            self._kernel.push(self._kernel._now, arrival)
        elif self._hardware.card.connection_us:
            socket.muted = True
            self._set_up_later(socket)
        return socket

    def admit(self, connection: int) -> None:
        """Read a connection that its acceptor has admitted; one that is gone is disconnected."""
        socket = self._hardware.card.sockets.get(connection)
        if socket is None:
            return
        if self._hardware.card.connection_us:
            self._set_up_later(socket)
        else:
            self._begin_to_read(socket)

    def _begin_to_read(self, socket: Socket) -> None:
        socket.muted = False
        if socket.inbox:
            self.read_next(socket)

    def _set_up_later(self, socket: Socket) -> None:
        """Let the network thread of a new connection set it up (Processor.accept)."""
        processor: Processor = socket.processor
        processor.fresh.append(socket)
        if not processor.stalled:
            self._set_up(processor)

    def _set_up(self, processor: Processor) -> None:
        """Let a network thread begin with its new connections (configureNewConnections)."""
        processor.stalled = True
        count = min(len(processor.fresh), self.process.connection_queue)
        ends = self._kernel._now + count * self._hardware.card.connection_us
        self._kernel.at(ends, self._on_set_up, (processor, count))

    def _on_set_up(self, done: tuple[Processor, int]) -> None:
        if not self.running:
            if not self._ended:
                self.postpone(self._on_set_up, done)
            return
        processor, count = done
        for _ in range(count):
            self._begin_to_read(processor.fresh.popleft())
        self._run_processor(processor)
        self.after_input()

    def _peer_of(self, connection: int) -> Peer:
        """Return who is at the other end of an inbound connection that is or was just alive."""
        socket = self._hardware.card.sockets.get(connection)
        client = None if socket is None else socket.peer
        if client is None:
            return Peer(ANONYMOUS, "")
        return Peer(client.card.principal, client.card.ip, client.client_id)

    def _last_active(self) -> list[tuple[int, int]]:
        """Return the inbound connections, and when the last bytes came or went."""
        now = self._kernel._now
        local = self._hardware.local_now()
        found = []
        for socket in self._hardware.card.sockets.values():
            if socket.inbound and socket.peer is not None:
                last_us = max(socket.last_arrival_us, socket.peer.last_arrival_us)
                found.append((socket.connection, local - max(now - last_us, 0)))
        return found

    def _is_open(self, connection: int) -> bool:
        """Return whether no reset of an inbound connection has arrived here."""
        socket = self._hardware.card.sockets.get(connection)
        if socket is None:
            return False
        return all(each.correlation != END or each.message != "reset" for each in socket.inbox)

    def opened(self, socket: Socket) -> None:
        """Tell the process that its connection is established."""
        assert socket.lane is not None
        self.receive(LaneInput(None, socket.lane, Opened(socket.connection)))

    def open_failed(self, socket: Socket, reason: str) -> None:
        """Tell the process that its connection was refused, or timed out."""
        socket.dead = True
        self._lose(socket, OpenFailed(socket.connection, reason))

    def ended(self, socket: Socket, reason: str) -> None:
        """Tell the process that its connection is gone; a server hears of those it watches."""
        self._lose(socket, Closed(socket.connection, reason))

    def _lose(self, socket: Socket, item: OpenFailed | Closed) -> None:
        self._hardware.card.sockets.pop(socket.connection, None)
        if socket.acceptor is not None:
            self.disconnected(socket)
        if socket.lane is not None:
            self.receive(LaneInput(None, socket.lane, item))
        elif socket.connection in self.process.watched:
            lane, handler = self.process.watched.pop(socket.connection)
            told = LaneInput((self.receive,), self.lane(lane), Posted(handler, socket.connection))
            self._kernel.push(self._kernel._now, told)  # not amid the effects that unmuted it

    def disconnected(self, socket: Socket) -> None:
        """Tell an acceptor that a connection which it was asked for has ended."""
        acceptor = socket.acceptor
        ended = Posted(acceptor.on_disconnected, socket.connection)
        told = LaneInput((self.receive,), self.lane(acceptor.lane), ended)
        self._kernel.push(self._kernel._now, told)  # not amid the effects that ended it

    def _on_response(self, packet: Packet) -> None:
        """Give a response to its channel here if nothing is in its way, which is the usual case."""
        socket = packet.socket
        lane, sender = socket.lane, socket.peer
        assert lane is not None
        assert sender is not None
        channel = self._channels.get(socket.connection)
        if channel is None or not lane.free or not self.running or socket.dead or sender.queue:
            self._network.arrive(packet)
            return
        sender.unread -= packet.size
        now = self._kernel._now
        offset = self._clock.plain_offset_us
        now = self._clock.read(now) if offset is None else now + offset
        channel.on_response(packet.correlation, packet.message, now)
        if (self._out or self._disk.written) and self._drain(lane):
            lane.free -= 1
        heap, wakeups = self._timer_heap, self.wakeups
        if (heap and heap[0][0] < wakeups.armed_us) or wakeups.app_ready:
            self.after_input()

    def receive_response(self, socket: Socket, packet: Packet) -> None:
        """Give a response to its lane; the process drops it if its channel is gone."""
        assert socket.lane is not None
        self.deliver(socket.lane, Response(socket.connection, packet.correlation, packet.message))

    # --------------------------------------------------------------------------------- requests

    def _on_request(self, packet: Packet) -> None:
        """Let a thread begin with a request here if nothing is in its way, the usual case."""
        socket = packet.socket
        lane = socket.lane_of_request.get(type(packet.message))
        sender = socket.peer
        assert sender is not None
        kernel = self._kernel
        now = kernel._now
        if (
            lane is None
            or not lane.free
            or lane.busy_until_us > now
            or socket.muted
            or socket.inbox
            or socket.processor.stalled
            or not self.running
            or socket.dead
            or sender.queue
        ):
            self._network.arrive(packet)
            return
        sender.unread -= packet.size
        socket.muted = True
        lane.free -= 1
        packet.connection = socket.connection
        packet.lane = lane
        offset = self._clock.plain_offset_us
        received_us = self._clock.read(now) if offset is None else now + offset
        packet.received_us = packet.dequeued_us = received_us
        packet.handled_us = 0
        socket.served = packet
        packet.pauses_us = self._paused_us
        packet.callbacks = self._served
        hardware = self._hardware
        ends = now + hardware.service_us + (packet.size * hardware.service_us_per_kib >> 10)
        heappush(kernel._queue, (ends, 1, next(kernel._eid), packet))

    def receive_request(self, socket: Socket, packet: Packet) -> None:
        """Read a request from an unmuted connection; leave it if its processor stalls."""
        processor: Processor = socket.processor
        if processor.stalled:
            socket.inbox.appendleft(packet)
            processor.readable.append(socket)
            return
        kind = type(packet.message)
        lane = socket.lane_of_request.get(kind)
        if lane is None:
            lane = self.lane(self.process.lane_of(packet.message, socket.connection))
            if type(lane) is Lane:  # one of a pool depends on what the request says
                socket.lane_of_request[kind] = lane
        front = lane.front
        if len(front.queue) >= self._queued_max:
            socket.inbox.appendleft(packet)
            processor.stall(socket)
            front.blocked.append(processor)
            return
        sender = socket.peer
        assert sender is not None
        sender.unread -= packet.size
        if sender.queue:
            self._network.room_made(sender)
        socket.muted = True
        packet.connection = socket.connection
        packet.lane = lane
        packet.received_us = self._hardware.local_now()
        socket.served = packet
        if front.free:
            packet.dequeue(packet.received_us)
            self._give(lane, packet)
        else:
            front.put(packet)

    def _give(self, lane: Lane, packet: Packet) -> None:
        """Let a thread of a request's lane begin with it now, or later."""
        if lane.free:
            lane.free -= 1
            self._serve(lane, packet)
        else:
            lane.put(packet)

    def _run_processor(self, processor: Processor) -> None:
        """Let a stalled processor go on until it stalls again or has nothing to do."""
        while True:
            processor.stalled = False
            while processor.receives:
                socket = processor.receives.popleft()
                if socket.inbox and not socket.muted:
                    self.read_next(socket)
                    if processor.stalled:
                        return
            processor.stalled = True  # what it reads on from a connection waits for its next poll
            while processor.responses:
                self._effects.send_held(*processor.responses.popleft())
            if processor.readable:
                processor.poll()
                continue
            if processor.fresh:
                self._set_up(processor)
            else:
                processor.stalled = False
            return

    def read_next(self, socket: Socket) -> None:
        """Read on from the buffer of a connection that was unmuted."""
        packet = socket.inbox.popleft()
        if packet.correlation == END:
            self._network.end(socket, packet.message)
        else:
            self.receive_request(socket, packet)

    def _serve(self, lane: Lane, packet: Packet) -> None:
        """Let a thread begin with a request; its handler runs at the end of the service time."""
        kernel, hardware = self._kernel, self._hardware
        duration = hardware.service_us + (packet.size * hardware.service_us_per_kib >> 10)
        if lane.busy_until_us > kernel._now and not lane.free:
            duration += lane.take_debt(kernel._now)
        packet.pauses_us = self._paused_us
        packet.callbacks = self._served
        heappush(kernel._queue, (kernel._now + duration, 1, next(kernel._eid), packet))

    def _service_us(self, message: Any) -> int:
        """Return how long a thread serves a request."""
        hardware = self._hardware
        size: int = message.wire_size()
        return hardware.service_us + (size * hardware.service_us_per_kib >> 10)

    def _on_served(self, packet: Packet) -> None:
        if packet.pauses_us != self._paused_us or not self.running:
            self._stretch(packet)
            return
        offset = self._clock.plain_offset_us
        kernel_now = self._kernel._now
        now = self._clock.read(kernel_now) if offset is None else kernel_now + offset
        request: Any = packet
        self.process.on_request(request, now)
        lane = packet.lane
        if (self._out or self._disk.written) and self._drain(lane):
            self._effects.hold_request(packet)
        else:
            if not packet.handled_us:
                packet.handled_us = now
            if lane.queue or lane.others:
                self._release(lane)
            else:
                lane.free += 1
        heap, wakeups = self._timer_heap, self.wakeups
        if (heap and heap[0][0] < wakeups.armed_us) or wakeups.app_ready:
            self.after_input()

    def _stretch(self, packet: Packet) -> None:
        """Add to a service time the pauses that fell into it."""
        if self._ended:
            return
        now = self._kernel._now
        remains = self._paused_us - packet.pauses_us
        packet.pauses_us = self._paused_us
        if self.running:
            packet.callbacks = self._served
            self._kernel.push(now + remains, packet)
        else:
            self._stretched.append((packet, now - self._pause_began_us + remains))

    # ---------------------------------------------------------------------- timers, application

    def attach(self, app: ApplicationLoop) -> None:
        """Give the process an application; it runs now, or when the present one waits."""
        self.wakeups.attach(app)
        if not self.wakeups.app_running:
            self.after_input()

    def after_input(self) -> None:
        """After inputs: run the application if it was answered, then look at the wake-up."""
        wakeups = self.wakeups
        if wakeups.app_ready and not wakeups.app_running and self.running:
            wakeups.run_app(self._hardware.local_now())
        if not self._ended:
            wakeups.arm()

    def _on_wake(self, event: WakeUp) -> None:
        if not self.wakeups.rang(event) or not self.running:
            return  # void; or resume looks for what is due
        now = self._hardware.local_now()
        heap, timers = self._timer_heap, self.process.timers
        if heap and heap[0][0] <= now:
            due = []
            while (entry := timers.pop_due(now)) is not None:
                due.append(entry)
            for entry in due:
                self._run_timer(entry)
        if self.running:
            self.wakeups.run_due_app(now)
            if not self._ended:
                self.wakeups.arm()

    def _run_timer(self, entry: tuple[Any, int, str]) -> None:
        """Run the handler of a due timer, or queue it on its lane."""
        if not self.running:
            if not self._ended:
                self.postpone(self._run_timer, entry)
            return
        key, sequence, lane_name = entry
        lane = self.lane(lane_name)
        if not lane.free:
            put = lane.put_first if self.process.timers.goes_first(key) else lane.put
            put((key, sequence))
            return
        self.process.timers.fire(key, sequence, self._hardware.local_now())
        self._finish_on(lane)

    def clock_changed(self) -> None:
        """Look at the deadlines again: the host's clock has another rate."""
        self.wakeups.forget()
        self.wakeups.arm()
