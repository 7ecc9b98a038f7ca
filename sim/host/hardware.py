"""The parts of a host that outlive its processes: clock, disk, network card, service times."""

from __future__ import annotations

from kafkasim.sim.clock import HostClock
from kafkasim.sim.disk.device import Disk
from kafkasim.sim.kernel import Kernel
from kafkasim.sim.net.sockets import NetworkCard


class Hardware:
    """The hardware of one host; its :class:`kafkasim.sim.host.lifecycle.Host` owns it.

    A request takes ``service_us`` plus ``service_us_per_kib`` for each KiB of its size.
    """

    __slots__ = ("_kernel", "card", "clock", "disk", "service_us", "service_us_per_kib")

    def __init__(
        self,
        kernel: Kernel,
        clock: HostClock,
        disk: Disk,
        card: NetworkCard,
        service_us: int,
        service_us_per_kib: int,
    ) -> None:
        self._kernel = kernel
        self.clock = clock
        self.disk = disk
        self.card = card
        self.service_us = service_us
        self.service_us_per_kib = service_us_per_kib

    def local_now(self) -> int:
        """Return the host's monotonic time in µs."""
        return self.clock.read(self._kernel._now)
