"""The sites of a run of several clusters: the links between them, and what strikes them."""

from __future__ import annotations

from kafkasim.scenarios.language.clusters import between_sites
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.language.translate import translate
from kafkasim.sim.faults.injector import Injector
from kafkasim.sim.net.topology import WIDE_AREA
from kafkasim.sim.trace.recording import Facts
from kafkasim.sim.world import World


class Sites:
    """The faults of a scenario of several clusters that are not one cluster's own."""

    def __init__(self, world: World, trace: Facts, scenario: Scenario) -> None:
        """Link the sites. The hosts are in the world by now."""
        self._world = world
        self._tables = scenario.faults if scenario.clusters else []
        self._scenario = scenario
        self.injector = Injector(world, trace)
        topology = world.topology
        for site in dict.fromkeys([site for link in scenario.links for site in link.sites]):
            topology.unlink(site, WIDE_AREA)
        for link in scenario.links:
            one, other = link.sites
            topology.link(one, other, link.latency, link.bandwidth)

    def lasting(self) -> list[tuple[list[str], list[str]]]:
        """Return the hosts of each fault that nobody ends: those it hits, and a link's far side."""
        resolve = self._world.link_faults.resolve
        return [
            (
                [host for place in fault.targets for host in resolve(place)],
                [host for place in fault.others for host in resolve(place)],
            )
            for fault in self.injector.active
            if fault.lasts
        ]

    def arm(self, ready_us: int) -> None:
        """Arm the faults; their times count from ``ready_us``."""
        for index, table in enumerate(self._tables):
            rng = self._world.streams.stream("scenario", "fault", index)
            named = between_sites(table, self._scenario)
            faults = [translate(named, [], rng, repetition=n) for n in range(table.count)]
            self.injector.arm(faults, ready_us)
