"""A host: the machine that a process runs on, its life and its faults.

The process dies and is started again as a new incarnation, with a random stream of its own; the
host, its disk and its clock survive. How a process is run is in :mod:`kafkasim.sim.host.engine`.

A GC pause lets nothing run: the kernel goes on receiving into bounded socket buffers, what falls
due is put aside, and on resume it is merged with the due timers by due time, ties by a draw, and
handled at the late ``now``. A crash resets the peers at once and keeps the page cache; a power loss
is silent, and a peer hears a reset only for what it sends after the boot.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import ClockSet, Process
from kafkasim.model.facts import ClockStepped, HostPaused, HostResumed, HostStarted, HostStopped
from kafkasim.model.storage.files import DiskError, Files
from kafkasim.sim.clock import HostClock
from kafkasim.sim.disk.device import Disk
from kafkasim.sim.host.engine import Engine
from kafkasim.sim.host.outbox import Loop
from kafkasim.sim.kernel import Local
from kafkasim.sim.net.sockets import Socket

if TYPE_CHECKING:
    from kafkasim.sim.world import World

Factory = Callable[[Files, random.Random, int], Process]


class Host(Engine):
    """One machine of a world. Build it with :meth:`kafkasim.sim.world.World.add_host`."""

    __slots__ = (
        "_disk_capacity",
        "_disks",
        "_epoch_us",
        "_factory",
        "_pause_ends_us",
        "_streams",
        "_world",
        "clock_step_us",
        "endpoints",
        "incarnation",
        "on_start",
        "on_stop",
    )

    def __init__(
        self,
        world: World,
        name: str,
        endpoints: tuple[str, ...],
        clock: HostClock,
        disk_capacity: int | None,
    ) -> None:
        self.name = name
        self._streams = world.streams
        self._disks = 0
        self._disk_capacity = disk_capacity
        self._epoch_us = world.epoch_us
        super().__init__(
            name, world.kernel, world.network, world.trace, clock, self._new_disk(world)
        )
        self.endpoints = endpoints
        self.incarnation = -1
        self.clock_step_us = 0
        self.on_start: list[Callable[[Host], None]] = []
        self.on_stop: list[Callable[[Host, str], None]] = []
        self._world = world
        self._factory: Factory | None = None
        self._pause_ends_us = 0

    # ----------------------------------------------------------------------------------- life

    @property
    def alive(self) -> bool:
        """Whether a process exists, running or paused."""
        return self.process is not None

    @property
    def paused(self) -> bool:
        """Whether the process exists and is paused."""
        return self.process is not None and not self.running

    def start(self, factory: Factory | None = None) -> Process | None:
        """Start the process as a new incarnation; without a factory, by the last one. None: it
        could not read its disk, and has ended."""
        assert self.process is None, f"{self.name} runs already"
        assert self.powered, f"{self.name} has no power"
        self._factory = factory = factory or self._factory
        assert factory is not None, f"{self.name} was never started"
        self.incarnation += 1
        self._draw = self._streams.stream(self.name, self.incarnation, "host").random
        rng = self._streams.stream(self.name, self.incarnation, "process")
        now = self.local_now()
        self.trace.record(self.kernel._now, self.name, HostStarted(self.incarnation))
        try:
            process = factory(self.disk, rng, now)
        except DiskError:
            self.trace.record(self.kernel._now, self.name, HostStopped("disk-error"))
            return None
        process.clock_offset_us = self._wall_offset_us()
        self.process = process
        self.running = True
        self._lanes = {}
        self._lanes_of_requests = {}
        self._queued_max = process.queued_max_requests
        self._timer_heap = process.timers.heap
        self._out = process.out
        self._channels = process.channels
        self._node = process.name
        process.start(now)
        main = self.lane("main")
        if self._drain(main):
            main.free -= 1
        for callback in self.on_start:
            callback(self)
        self._settle()
        return process

    def attach(self, loop: Loop) -> None:
        """Give the host an application; it runs now, and is discarded when the process dies."""
        assert self.process is not None, f"{self.name} has no process to call"
        self.app = loop
        self._app_ready = True
        if not self._app_running:
            self._settle()

    def stop(self) -> None:
        """Ask the process to stop cleanly (SIGTERM); it ends itself with Exit."""
        self._stop(Local(None, self.process, None, None))

    def _stop(self, event: Local) -> None:
        process = self.process
        if process is None or event.process is not process:
            return
        if not self.running:
            self.postpone(self._stop, event)
            return
        process.shutdown(self.local_now())
        lane = self.lane("main")
        if self._drain(lane):
            lane.free -= 1
        self._settle()

    def crash(self) -> None:
        """Kill the process: peers hear a reset, the page cache stays. No process is no error."""
        if self.process is not None:
            self.process_ended("crash", "reset")

    def restart(self) -> Process | None:
        """Crash the process if there is one, and start it again."""
        self.crash()
        return self.start()

    def power_loss(self) -> None:
        """Cut the power: silence, and the disk keeps what the platter has.

        A machine whose process had ended before loses its page cache all the same, so it is told.
        """
        had_power, self.powered = self.powered, False
        if self.process is not None:
            self.process_ended("power-loss", None)
        elif had_power:
            self.trace.record(self.kernel._now, self.name, HostStopped("power-loss"))
        self.disk.power_loss()

    def boot(self) -> Process | None:
        """Give power back and start the process."""
        self.powered = True
        return self.start()

    def process_ended(self, reason: str, how: str | None) -> None:
        """Drop everything volatile; connections end by ``how``, None is silence."""
        process = self.process
        assert process is not None
        process.out.clear()
        self.process = None
        self.running = False
        self._forget_wakes()
        self._timer_heap = []
        self._channels = {}
        self._backlog.clear()
        self._stretched.clear()
        for lane in self._lanes.values():
            lane.discard()
        self.trace.record(self.kernel._now, self.name, HostStopped(reason))
        sockets, self.sockets = self.sockets, {}
        for socket in sockets.values():
            if how is None:
                self.network.vanish(socket)
            else:
                self.network.finish(socket, how, self._departs_us)
        app, self.app = self.app, None
        self._app_ready = False
        if app is not None:
            app.discard()
        for callback in self.on_stop:
            callback(self, reason)

    def ground_truth(self) -> list[Any]:
        """Return the facts about the end of the run, none if no process lives."""
        return self.process.ground_truth() if self.process is not None else []

    # ---------------------------------------------------------------------------------- pause

    def pause(self, duration_us: int) -> None:
        """Stop the process and its application for a while (GC); within a pause, extend it."""
        assert duration_us > 0, duration_us
        if self.process is None:
            return
        now = self.kernel._now
        if self.running:
            self.running = False
            self._pause_began_us = now
            self._pause_ends_us = 0
        self._pause_ends_us = max(self._pause_ends_us, now + duration_us)
        self.trace.record(now, self.name, HostPaused(duration_us))
        self.kernel.at(now + duration_us, self._end_pause, self.process)

    def _end_pause(self, process: Process) -> None:
        if process is self.process and not self.running:
            if self.kernel._now >= self._pause_ends_us:
                self.resume()

    def resume(self) -> None:
        """End a pause: what fell due meanwhile is handled now, in the order it fell due."""
        process = self.process
        assert process is not None
        assert not self.running, f"{self.name} is not paused"
        now = self.kernel._now
        self.running = True
        self._paused_us += now - self._pause_began_us
        self.trace.record(now, self.name, HostResumed())
        stretched, self._stretched = self._stretched, []
        for packet, remains in stretched:
            packet.pauses_us = self._paused_us
            packet.callbacks = self._served
            self.kernel.push(now + remains, packet)
        backlog, self._backlog = self._backlog, []
        backlog += self._due_timers(process, len(backlog))
        backlog.sort(key=_due)
        for _, _, _, callback, event in backlog:
            callback(event)
        if self.running and self.process is process:
            self._run_due_app(self.local_now())
            self._arm()

    def _due_timers(self, process: Process, index: int) -> list[Any]:
        due: list[Any] = []
        local = self.local_now()
        while (deadline := process.timers.next_deadline()) is not None and deadline <= local:
            entry = process.timers.pop_due(local)
            event = Local(None, process, None, entry)
            at = self.clock.simulated(deadline, -1)
            due.append((at, self._draw(), index + len(due), self._run_timer, event))
        return due

    # ---------------------------------------------------------------------------------- clock

    def step_clock(self, offset_us: int) -> None:
        """Set the wall clock to true time plus an offset; the monotonic clock does not move."""
        self.clock_step_us = offset_us
        self.trace.record(self.kernel._now, self.name, ClockStepped(offset_us))
        self._tell_wall_clock()

    def set_drift(self, drift_ppm: int) -> None:
        """Let the monotonic clock gain ``drift_ppm`` µs a second from now on."""
        self.clock.set_drift(drift_ppm, self.kernel._now)
        self._forget_wakes()
        self._arm()

    def _tell_wall_clock(self) -> None:
        if self.process is not None:
            item = ClockSet(self._wall_offset_us())
            self._receive(Local(None, self.process, self.lane("main"), item))

    def _wall_offset_us(self) -> int:
        true = self._epoch_us + self.kernel._now
        return true + self.clock_step_us - self.local_now()

    # -------------------------------------------------------------------------------- network

    def listens(self, address: str) -> bool:
        """Return whether a process here accepts connections to the endpoint."""
        return self.process is not None and address in self.endpoints

    def accept(self, client: Socket, endpoint: str) -> Socket:
        """Create the server's end of a connection; the kernel does so even in a pause."""
        process = self.process
        assert process is not None, endpoint
        self._last_inbound -= 1
        socket = Socket(self, self._last_inbound, None, client.purpose, inbound=True)
        socket.peer = client
        client.peer = socket
        self.sockets[socket.connection] = socket
        socket.lane_of_request = self._lanes_of_requests.setdefault(endpoint, {})
        process.accepted(socket.connection, endpoint)
        return socket

    # ----------------------------------------------------------------------------------- disk

    def replace_disk(self) -> Disk:
        """Put in an empty disk; the process must be down."""
        assert self.process is None, f"{self.name} runs"
        self.disk = self._new_disk(self._world)
        return self.disk

    def _new_disk(self, world: World) -> Disk:
        self._disks += 1
        rng = self._streams.stream("disk", self.name, self._disks)
        return Disk(world.kernel, rng, self._disk_capacity)


def _due(entry: tuple[int, float, int, Any, Any]) -> tuple[int, float, int]:
    return entry[:3]
