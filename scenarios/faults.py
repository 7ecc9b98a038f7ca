"""Strike the faults and carry out the operations of a scenario, and know what they excuse."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, Any

from model.config import BrokerConfig
from scenarios.spec import Fault as FaultSpec
from scenarios.spec import Operation
from scenarios.translate import select, translate
from scenarios.validate import node_names
from sim.budget import Budget
from sim.faults import KINDS, Fault
from sim.injector import Injector
from sim.nemesis import WEIGHTS, Nemesis

if TYPE_CHECKING:
    from scenarios.cluster import Cluster
    from scenarios.progress import Progress
    from sim.trace import Trace
    from sim.world import World


class Faults:
    """All that is done to one cluster on purpose."""

    def __init__(self, world: World, trace: Trace, cluster: Cluster, progress: Progress) -> None:
        self.world = world
        self.cluster = cluster
        self.progress = progress
        self.scenario = cluster.scenario
        brokers = {host.name: int(host.name.rpartition("-")[2]) for host in cluster.brokers}
        self.budget = Budget(trace, brokers)
        self.injector = Injector(world, trace, self.budget)
        self.nodes = node_names(self.scenario)
        self._rng = world.streams.stream("scenario", "faults")
        self._healed = False
        properties = BrokerConfig.from_properties(self.scenario.cluster.config)
        self._offsets_partitions = properties.offsets_topic_num_partitions
        self._stopping: dict[str, Any] = {}  # node -> the process an operation asked to stop

    def forgive(self, key: tuple[str, int]) -> str:
        """Return why a loss in a partition is expected, or nothing (facts, section 0.1)."""
        return "last-replica-standing" if key in self.budget.outside else ""

    def arm(self, ready_us: int) -> None:
        """Arm every fault and operation; their times count from ``ready_us``."""
        faults: list[Fault] = []
        for index, spec in enumerate(self.scenario.faults):
            rng = self.world.streams.stream("scenario", "fault", index)
            if spec.kind == "nemesis":
                faults += self._nemesis(spec, rng)
            else:
                faults += [
                    translate(spec, self.nodes, rng, number, self._offsets_partitions)
                    for number in range(spec.count)
                ]
        self.injector.arm(faults, ready_us)
        for index, operation in enumerate(self.scenario.operations):
            rng = self.world.streams.stream("scenario", "operation", index)
            self._arm_operation(operation, ready_us + operation.at.draw(rng), rng)

    def heal(self) -> None:
        """End all faults, end pauses by waiting, and start whatever is down."""
        self._healed = True
        self.injector.heal_all()
        for node, process in self._stopping.items():
            if self.world.hosts[node].process is process:
                self.world.hosts[node].crash()  # its stop takes too long, as for a kill -9
        self._stopping.clear()
        for host in self.world.hosts.values():
            if host.incarnation >= 0 and not host.alive:
                host.boot()

    def _nemesis(self, spec: FaultSpec, rng: random.Random) -> tuple[Fault, ...]:
        weights = {kind: WEIGHTS.get(kind, 1) for kind in spec.kinds} or WEIGHTS
        servers = [node for node in self.nodes if node.startswith(("broker-", "controller-"))]
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

    # Operations.

    def _arm_operation(self, operation: Operation, at_us: int, rng: random.Random) -> None:
        if operation.kind == "rolling-restart":
            nodes = operation.nodes or [host.name for host in self.cluster.brokers]
            self.world.at(at_us, self._restart_next, operation, list(nodes))
            return
        assert operation.node is not None
        node = select(operation.node, self.nodes, rng, self._offsets_partitions)
        act = {"stop": self._stop, "start": self._start}[operation.kind]
        self.world.at(at_us, act, node, operation.kill)

    def _stop(self, node: str, kill: bool) -> None:
        host = self.world.hosts[node]
        if kill:
            host.crash()
        elif host.alive:
            self._stopping[node] = host.process
            host.stop()

    def _start(self, node: str, _kill: bool) -> None:
        host = self.world.hosts[node]
        if not host.alive:
            host.boot()

    def _restart_next(self, operation: Operation, nodes: list[str]) -> None:
        """Stop the next node; start it when it is down; go on when the ISRs are full again."""
        if self._healed or not nodes:
            return
        node = nodes[0]
        self._stop(node, operation.kill)
        self.world.at(self.world.now + 200_000, self._when_down, operation, nodes)

    def _when_down(self, operation: Operation, nodes: list[str]) -> None:
        if self._healed:
            return
        if self.world.hosts[nodes[0]].alive:
            self.world.at(self.world.now + 200_000, self._when_down, operation, nodes)
            return
        pause = operation.pause.low
        self.world.at(self.world.now + pause, self._start, nodes[0], False)
        self.world.at(self.world.now + pause + 500_000, self._when_full, operation, nodes)

    def _when_full(self, operation: Operation, nodes: list[str]) -> None:
        if self._healed:
            return
        if self.progress.missing_partitions():
            self.world.at(self.world.now + 500_000, self._when_full, operation, nodes)
            return
        self._restart_next(operation, nodes[1:])
