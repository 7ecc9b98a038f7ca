"""Strike the faults of a scenario, have its operations carried out, and know what they excuse."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from kafkasim.model.config import BrokerConfig
from kafkasim.scenarios.language.spec import Fault as FaultSpec
from kafkasim.scenarios.language.translate import log_dirs_of, translate
from kafkasim.scenarios.language.validate import node_names
from kafkasim.scenarios.running.operations import Operations
from kafkasim.sim.faults.budget import Budget
from kafkasim.sim.faults.faults import KINDS, Fault
from kafkasim.sim.faults.injector import Injector
from kafkasim.sim.faults.nemesis import WEIGHTS, Nemesis

if TYPE_CHECKING:
    from kafkasim.scenarios.judging.progress import Progress
    from kafkasim.scenarios.running.cluster import Cluster
    from kafkasim.sim.trace.trace import Trace
    from kafkasim.sim.world import World


class Faults:
    """All that is done to one cluster on purpose."""

    def __init__(self, world: World, trace: Trace, cluster: Cluster, progress: Progress) -> None:
        self.world = world
        self.cluster = cluster
        self.scenario = cluster.scenario
        brokers = {host.name: int(host.name.rpartition("-")[2]) for host in cluster.brokers}
        self.budget = Budget(trace, brokers)
        self.injector = Injector(world, trace, self.budget)
        self.nodes = node_names(self.scenario)
        self._rng = world.streams.stream("scenario", "faults")
        properties = BrokerConfig.from_properties(self.scenario.cluster.config)
        self._offsets_partitions = properties.offsets_topic_num_partitions
        self.operations = Operations(
            world, trace, cluster, progress, self.budget, self.nodes, self._offsets_partitions
        )

    def forgive(self, key: tuple[str, int]) -> str:
        """Return why a loss in a partition is expected, or nothing (facts, section 0.1)."""
        return "last-replica-standing" if key in self.budget.outside else ""

    def arm(self, ready_us: int) -> None:
        """Arm every fault and operation; their times count from ``ready_us``."""
        faults: list[Fault] = []
        cluster = self.scenario.cluster
        for index, spec in enumerate(self.scenario.faults):
            rng = self.world.streams.stream("scenario", "fault", index)
            if spec.kind == "nemesis":
                faults += self._nemesis(spec, rng)
            else:
                faults += [
                    translate(
                        spec,
                        self.nodes,
                        rng,
                        number,
                        self._offsets_partitions,
                        cluster.combined,
                        log_dirs_of(cluster, spec.node),
                    )
                    for number in range(spec.count)
                ]
        self.injector.arm(faults, ready_us)
        self.operations.arm(ready_us)

    def heal(self) -> None:
        """End all faults, end pauses by waiting, and start whatever is down."""
        self.injector.heal_all()
        self.operations.heal()
        for host in self.world.hosts.values():
            if host.incarnation >= 0 and not host.alive:
                host.boot()
        for host in self.cluster.brokers:  # a log directory comes back with the next start only
            process = self.cluster.broker_process(host.name)
            if process is not None and process.replicas.logs.offline:
                host.restart()

    def _nemesis(self, spec: FaultSpec, rng: random.Random) -> tuple[Fault, ...]:
        weights = {kind: WEIGHTS.get(kind, 1) for kind in spec.kinds} or WEIGHTS
        servers = [
            node for node in self.nodes if node.startswith(("broker-", "controller-", "zookeeper-"))
        ]
        clients = [node for node in self.nodes if node not in servers]
        options: dict[str, Any] = {} if spec.gap is None else {"mean_gap_us": spec.gap}
        if spec.for_ is not None:
            options |= {"shortest_us": spec.for_.low, "longest_us": spec.for_.high}
        nemesis = Nemesis(
            spec.nodes or servers, self.scenario.duration, clients,
            tuple(self.scenario.cluster.racks), weights=weights, **options,
        )  # fmt: skip
        assert all(kind in KINDS for kind in weights)
        return nemesis.draw(rng)
