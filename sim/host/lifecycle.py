"""A host: the machine that a process runs on, its life and its faults.

A process dies and is started again as a new incarnation, with a random stream of its own; the host
with its hardware survives. :mod:`kafkasim.sim.host.lane_scheduler` runs a process.

In a GC pause nothing runs. A crash resets the peers' connections at once and keeps the page cache.
A power loss resets nothing; a peer gets a reset only when it sends something after the boot.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from kafkasim.model.effects import Call, ClockSet, Process
from kafkasim.model.facts import (
    ClockDrifted,
    ClockStepped,
    DiskFilled,
    HostPaused,
    HostResumed,
    HostStarted,
    HostStopped,
)
from kafkasim.model.storage.files import DiskError, Files
from kafkasim.sim.clock import HostClock
from kafkasim.sim.disk.device import Disk
from kafkasim.sim.host.hardware import Hardware
from kafkasim.sim.host.lane_scheduler import LaneScheduler
from kafkasim.sim.host.lanes import LaneInput
from kafkasim.sim.host.ports import ApplicationLoop, Recorder
from kafkasim.sim.net.network import Network
from kafkasim.sim.net.sockets import NetworkCard
from kafkasim.sim.streams import Streams

Factory = Callable[[Files, random.Random, int], Process]


class Host:
    """One machine of a world. Build it with :meth:`kafkasim.sim.world.World.add_host`.

    ``on_start`` and ``on_stop`` are called when a process has started or ended (with the reason).

    Args:
        name: of the host.
        domain: of the part of the world that the host is in, with its dot; "" without parts.
        network: that the card is plugged into.
        trace: takes the facts of the host and of its process.
        streams: of the run's seed.
        epoch_us: the wall clock at simulated time 0.
        clock: the host's monotonic clock.
        volumes: capacities of its disk in bytes, by path prefix.
        service_us: how long a request takes a thread.
        service_us_per_kib: how much longer for each KiB of its size.
    """

    def __init__(
        self,
        name: str,
        domain: str,
        network: Network,
        trace: Recorder,
        streams: Streams,
        epoch_us: int,
        clock: HostClock,
        volumes: Mapping[str, int],
        service_us: int,
        service_us_per_kib: int,
    ) -> None:
        self.name = name
        self.kernel = network.kernel
        self.trace = trace
        self.clock = clock
        self.card = NetworkCard(name, domain)
        self.clock_step_us = 0  # how far the wall clock is from true time
        self.incarnation = -1  # the first start makes it 0
        self.on_start: list[Callable[[Host], None]] = []
        self.on_stop: list[Callable[[Host, str], None]] = []
        self._network = network
        self._streams = streams
        self._epoch_us = epoch_us
        self._disks = 0
        self._volumes = volumes
        self._hardware = Hardware(
            self.kernel, clock, self._new_disk(), self.card, service_us, service_us_per_kib
        )
        self._factory: Factory | None = None
        self._lanes: LaneScheduler | None = None  # of the process that lives
        self._pause_ends_us = 0

    # ----------------------------------------------------------------------------------- life

    @property
    def process(self) -> Process | None:
        """The process, running or paused; None if none lives."""
        return None if self._lanes is None else self._lanes.process

    @property
    def lanes(self) -> LaneScheduler:
        """The lanes of the process, which must live."""
        assert self._lanes is not None, f"{self.name} has no process"
        return self._lanes

    @property
    def alive(self) -> bool:
        """Whether a process exists, running or paused."""
        return self._lanes is not None

    @property
    def paused(self) -> bool:
        """Whether the process exists and is paused."""
        return self._lanes is not None and not self._lanes.running

    @property
    def powered(self) -> bool:
        """Whether the machine has power."""
        return self.card.powered

    @property
    def app(self) -> ApplicationLoop | None:
        """The application of the process that lives, if it has one."""
        return None if self._lanes is None else self._lanes.wakeups.app

    def start(self, factory: Factory | None = None) -> Process | None:
        """Start the process as a new incarnation; without a factory, by the last one.

        Returns None if the process could not read its disk, and has ended.
        """
        assert self._lanes is None, f"{self.name} runs already"
        assert self.powered, f"{self.name} has no power"
        self._factory = factory = factory or self._factory
        assert factory is not None, f"{self.name} was never started"
        self.incarnation += 1
        draw = self._streams.stream(self.name, self.incarnation, "host").random
        rng = self._streams.stream(self.name, self.incarnation, "process")
        now = self.local_now()
        self._record(HostStarted(self.incarnation))
        self.disk.process_starts()
        try:
            process = factory(self.disk, rng, now)
        except DiskError:
            self._record(HostStopped("disk-error"))
            return None
        process.clock_offset_us = self._wall_offset_us()
        lanes = LaneScheduler(
            process, self._hardware, self._network, self.trace, draw, self._end, self._pool_draws
        )
        self._lanes = self.card.listener = lanes
        lanes.start(now)
        for callback in self.on_start:
            callback(self)
        lanes.after_input()
        return process

    def _pool_draws(self, pool: str) -> Callable[[], float]:
        return self._streams.stream(self.name, self.incarnation, "threads", pool).random

    def attach(self, loop: ApplicationLoop) -> None:
        """Give the host an application; it runs now, and is discarded when the process dies."""
        self.lanes.attach(loop)

    def call(self, call: Call) -> None:
        """Give an application's call to the process at this instant."""
        self.lanes.call(call)

    def stop(self) -> None:
        """Ask the process to stop cleanly (SIGTERM); it ends itself with Exit."""
        if self._lanes is not None:
            self._lanes.shut_down()

    def crash(self) -> None:
        """Kill the process: peers hear a reset, the page cache stays. No process is no error."""
        if self._lanes is not None:
            self._end("crash", "reset")

    def abort(self) -> None:
        """End the process because its application failed; for its peers it is a crash."""
        if self._lanes is not None:
            self._end("application-failed", "reset")

    def leave(self, reason: str) -> None:
        """End the process, whose application has returned: the system closes its sockets."""
        if self._lanes is not None:
            self._end(reason, "closed")

    def restart(self) -> Process | None:
        """Crash the process if there is one, and start it again."""
        self.crash()
        return self.start()

    def power_loss(self) -> None:
        """Cut the power: silence, and the disk keeps what the platter has.

        A machine whose process had ended before loses its page cache all the same, so the trace
        is told.
        """
        had_power, self.card.powered = self.powered, False
        if self._lanes is not None:
            self._end("power-loss", None)
        elif had_power:
            self._record(HostStopped("power-loss"))
        self.disk.power_loss()

    def boot(self) -> Process | None:
        """Give power back and start the process."""
        self.card.powered = True
        return self.start()

    def ground_truth(self) -> list[Any]:
        """Return the facts about the end of the run, none if no process lives."""
        if self._lanes is None:
            return []
        failures = [] if self.app is None else self.app.failures()
        return [*failures, *self._lanes.process.ground_truth()]

    def _end(self, reason: str, how: str | None, after_us: int = 0, detail: str = "") -> None:
        """Drop all that dies with the process.

        Its connections end by ``how``, so long after now; None is silence. ``detail`` is the error
        of a halt.
        """
        lanes = self.lanes
        self._lanes = self.card.listener = None
        lanes.end()
        app = lanes.wakeups.detach()
        for failure in [] if app is None else app.failures():
            self._record(failure)
        self._record(HostStopped(reason, detail))
        sockets = list(self.card.sockets.values())
        self.card.sockets.clear()
        for socket in sockets:
            if how is None:
                self._network.vanish(socket)
            else:
                self._network.finish(socket, how, after_us)
        if app is not None:
            app.discard()
        for callback in self.on_stop:
            callback(self, reason)

    # ---------------------------------------------------------------------------------- pause

    def pause(self, duration_us: int) -> None:
        """Stop the process and its application for a while (GC); within a pause, extend it."""
        assert duration_us > 0, duration_us
        if self._lanes is None:
            return
        ends = self.kernel._now + duration_us
        if self._lanes.running:
            self._lanes.pause()
            self._pause_ends_us = 0
        self._pause_ends_us = max(self._pause_ends_us, ends)
        self._record(HostPaused(duration_us))
        self.kernel.at(ends, self._end_pause, self._lanes)

    def _end_pause(self, lanes: LaneScheduler) -> None:
        if lanes is self._lanes and not lanes.running:
            if self.kernel._now >= self._pause_ends_us:
                self.resume()

    def resume(self) -> None:
        """End a pause: what fell due meanwhile is handled now, in the order it fell due."""
        assert self.paused, f"{self.name} is not paused"
        self._record(HostResumed())
        self.lanes.resume()

    # ---------------------------------------------------------------------------------- clock

    def local_now(self) -> int:
        """Return the host's monotonic time in µs."""
        return self._hardware.local_now()

    def step_clock(self, offset_us: int) -> None:
        """Set the wall clock to true time plus an offset; the monotonic clock does not move."""
        self.clock_step_us = offset_us
        self._record(ClockStepped(offset_us))
        if self._lanes is not None:
            item = ClockSet(self._wall_offset_us())
            self._lanes.receive(LaneInput(None, self._lanes.lane("main"), item))

    def set_drift(self, drift_ppm: int) -> None:
        """Let the monotonic clock gain ``drift_ppm`` µs a second from now on."""
        self.clock.set_drift(drift_ppm, self.kernel._now)
        self._record(ClockDrifted(drift_ppm))
        if self._lanes is not None:
            self._lanes.clock_changed()

    def _wall_offset_us(self) -> int:
        true = self._epoch_us + self.kernel._now
        return true + self.clock_step_us - self.local_now()

    # ----------------------------------------------------------------------------------- disk

    @property
    def disk(self) -> Disk:
        """The disk that is in the machine now."""
        return self._hardware.disk

    def replace_disk(self) -> Disk:
        """Put in an empty disk; the process must be down."""
        assert self._lanes is None, f"{self.name} runs"
        self._hardware.disk = self._new_disk()
        return self.disk

    def _new_disk(self) -> Disk:
        self._disks += 1
        rng = self._streams.stream("disk", self.name, self._disks)
        return Disk(self.kernel, rng, self._volumes, self._on_full)

    def _on_full(self, prefix: str, capacity: int) -> None:
        self._record(DiskFilled(prefix.rstrip("/"), capacity))

    def _record(self, fact: Any) -> None:
        self.trace.record(self.kernel._now, self.name, fact)
