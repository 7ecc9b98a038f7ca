"""A world: one kernel, one network, the hosts on it, the random streams of one seed, one trace.

The wall clocks of all hosts show ``epoch_us`` when simulated time is 0. Each monotonic clock has an
offset of its own, so that a run goes wrong if the model compares the clocks of two hosts.

A *part* of a world (:meth:`World.part`) has hosts, random streams and a trace of its own, on the
same kernel and network. Its hosts have names in it; in the whole world they are in the part's
domain, as ``a.broker-1`` is.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from typing import Any, Self

from kafkasim.model.effects import ANONYMOUS
from kafkasim.model.facts.world import EPOCH_US
from kafkasim.sim.apps.loop import generator_hooks
from kafkasim.sim.clock import HostClock
from kafkasim.sim.host.lifecycle import Host
from kafkasim.sim.host.ports import Recorder
from kafkasim.sim.kernel import Kernel
from kafkasim.sim.net.link_faults import LinkFaults
from kafkasim.sim.net.network import Network
from kafkasim.sim.net.paths import Paths
from kafkasim.sim.net.topology import Topology
from kafkasim.sim.streams import Streams

CLOCK_OFFSET_US = 3_600_000_000  # monotonic clocks start within the first hour


class World:
    """Everything that a run simulates.

    Args:
        seed: of all random streams.
        trace: takes every fact.
        topology: where hosts are placed; None is a new one.
        epoch_us: the wall clock at simulated time 0, in µs since 1970.
    """

    def __init__(
        self,
        seed: int,
        trace: Recorder,
        topology: Topology | None = None,
        epoch_us: int = EPOCH_US,
    ) -> None:
        self.seed = seed
        self.trace = trace
        self.epoch_us = epoch_us
        self.streams = Streams(seed)
        self.kernel = Kernel()
        self.topology = topology or Topology()
        self.network = Network(self.kernel, Paths(self.topology, self.streams))
        self.link_faults = LinkFaults(self.network, self.streams)
        self.hosts: dict[str, Host] = {}  # without those of parts
        self.domain = ""  # of a part, with its dot
        self.number = 0  # of a part, in the order in which they are made
        self.dc = "dc-0"  # where hosts are unless it is said
        self.parts: dict[str, World] = {}  # by domain
        self.broken: dict[tuple[str, str], int] = {}
        """By host and kind of fault, how many faults in progress break it (``Injector.share``)."""

    def part(self, name: str, dc: str, trace: Recorder) -> Self:
        """Return a new part of this world, whose hosts are in a data centre.

        ``trace`` takes the facts of its hosts, under their names in the part.
        """
        part = copy.copy(self)
        part.domain, part.dc, part.trace, part.hosts = f"{name}.", dc, trace, {}
        part.number = len(self.parts)
        part.streams = Streams(self.seed, name)
        part.link_faults = LinkFaults(self.network, part.streams, part.domain)
        self.parts[part.domain] = part
        return part

    def host(self, name: str) -> Host:
        """Return a host by its name, in the whole world also one of a part.

        Raises:
            KeyError: there is no such host.
        """
        domain, dot, own = name.partition(".")
        part = self.parts.get(domain + dot)
        return self.hosts[name] if part is None or self.domain else part.hosts[own]

    @property
    def now(self) -> int:
        """The simulated time in microseconds."""
        return int(self.kernel.now)

    def add_host(
        self,
        name: str,
        *,
        rack: str = "rack-0",
        dc: str | None = None,
        endpoints: tuple[str, ...] | None = None,
        clock_offset_us: int | None = None,
        drift_ppm: int = 0,
        volumes: Mapping[str, int] | None = None,
        service_us: int = 50,
        service_us_per_kib: int = 1,
        principal: str = ANONYMOUS,
    ) -> Host:
        """Add a machine, without a process.

        Args:
            name: of the host.
            rack: of the host, an availability zone (Kafka's broker.rack).
            dc: the data centre of the rack, a region; None is that of the part, or ``dc-0``.
            endpoints: the addresses it listens on; None is its name.
            clock_offset_us: monotonic time at simulated time 0; None draws one.
            drift_ppm: how many µs the monotonic clock gains a second.
            volumes: capacities of its disk in bytes, by path prefix; without one, no limit.
            service_us: how long a request takes a thread.
            service_us_per_kib: how much longer for each KiB of its size.
            principal: whom its connections authenticate, e.g. ``User:alice``.
        """
        assert name not in self.hosts, f"{name} exists"
        if clock_offset_us is None:
            draw = self.streams.stream("clock", name).random()
            clock_offset_us = int(draw * CLOCK_OFFSET_US)
        host = Host(
            name,
            self.domain,
            self.network,
            self.trace,
            self.streams,
            self.epoch_us,
            HostClock(clock_offset_us, drift_ppm),
            volumes or {},
            service_us,
            service_us_per_kib,
        )
        host.card.principal = principal
        self.hosts[name] = host
        self.topology.add_host(host.card.name, rack, dc or self.dc)
        self.network.attach(host.card, (name,) if endpoints is None else endpoints)
        return host

    def at(self, at_us: int, function: Callable[..., object], *args: Any) -> None:
        """Call a function at a simulated time."""
        self.kernel.at(at_us, function, *args)

    def run(self, until_us: int) -> None:
        """Run all events before a simulated time."""
        with generator_hooks():
            self.kernel.run_until(until_us)
