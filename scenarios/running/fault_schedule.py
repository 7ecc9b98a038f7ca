"""The faults and operations of one run: armed at their times, healed at the end."""

from __future__ import annotations

import random
from typing import Any

from kafkasim.analysis.judging.progress import Progress
from kafkasim.model.config import BrokerConfig
from kafkasim.scenarios.language.nodes import log_dirs_of, node_names
from kafkasim.scenarios.language.tables import FaultTable, Scenario
from kafkasim.scenarios.language.translate import translate
from kafkasim.scenarios.running.cluster import Cluster
from kafkasim.scenarios.running.operations import Operations
from kafkasim.sim.faults.injector import Guard, Injector
from kafkasim.sim.faults.kinds import KINDS, Fault
from kafkasim.sim.faults.nemesis import WEIGHTS, Nemesis
from kafkasim.sim.streams import Streams
from kafkasim.sim.trace.recording import Facts
from kafkasim.sim.world import World


class FaultSchedule:
    """All that is done to one cluster on purpose."""

    def __init__(
        self, world: World, trace: Facts, cluster: Cluster, progress: Progress, budget: Guard
    ) -> None:
        self.world = world
        self.cluster = cluster
        self.scenario = cluster.scenario
        self.injector = Injector(world, trace, budget)
        self.operations = Operations(
            world, trace, cluster=cluster, progress=progress, moments=self.injector,
        )  # fmt: skip

    def arm(self, ready_us: int) -> None:
        """Arm every fault and operation; their times count from ``ready_us``."""
        faults = drawn_faults(self.scenario, self.world.streams)
        self.injector.arm([fault for table in faults for fault in table], ready_us)
        self.operations.arm(ready_us)

    def heal(self) -> None:
        """End all faults, start what they took down, restart brokers without a log directory.

        What an application has ended, by an exception or by its return, stays down: no fault
        explains it, and its restart policy may start it. What a fault without an end has taken down
        stays down, too.
        """
        self.injector.heal_all()
        self.operations.heal()
        control = self.cluster.clients.control
        for host in self.world.hosts.values():
            ended = host.name in (*control.ended, *control.returned, *control.restarting)
            ended = ended or self.injector.keeps_down(host.name)
            if host.incarnation >= 0 and not host.alive and not ended:
                host.boot()
        for host in self.cluster.brokers:
            process = self.cluster.broker_process(host.name)
            lasts = any(host.name in fault.targets for fault in self.injector.active)
            if process is not None and process.replicas.logs.offline and not lasts:
                host.restart()  # a failed log directory comes back with the next start only


def drawn_faults(scenario: Scenario, streams: Streams) -> list[list[Fault]]:
    """Return what each fault table of a scenario becomes with a seed, in the tables' order.

    A table becomes a fault for each repetition; a nemesis becomes the schedule that it draws.
    """
    nodes = node_names(scenario)
    found: list[list[Fault]] = []
    for index, table in enumerate(scenario.faults):
        rng = streams.stream("scenario", "fault", index)
        draw = _nemesis if table.kind == "nemesis" else _repeated
        found.append(draw(scenario, table, nodes, rng))
    return found


def _repeated(
    scenario: Scenario, table: FaultTable, nodes: list[str], rng: random.Random
) -> list[Fault]:
    cluster = scenario.cluster
    properties = BrokerConfig.from_properties(cluster.config)
    return [
        translate(
            table,
            nodes,
            rng,
            repetition=repetition,
            offsets_partitions=properties.offsets_topic_num_partitions,
            transaction_partitions=properties.transaction_state_log_num_partitions,
            combined=cluster.combined,
            log_dirs=log_dirs_of(cluster, table.node),
        )
        for repetition in range(table.count)
    ]


def _nemesis(
    scenario: Scenario, table: FaultTable, nodes: list[str], rng: random.Random
) -> list[Fault]:
    weights = {kind: WEIGHTS.get(kind, 1) for kind in table.kinds} or WEIGHTS
    servers = [node for node in nodes if node.startswith(("broker-", "controller-", "zookeeper-"))]
    clients = [node for node in nodes if node not in servers]
    options: dict[str, Any] = {} if table.gap is None else {"mean_gap_us": table.gap}
    if table.for_ is not None:
        options |= {"shortest_us": table.for_.low, "longest_us": table.for_.high}
    if table.purposes:
        options["purposes"] = tuple(table.purposes)
    nemesis = Nemesis(
        table.nodes or servers, scenario.duration, clients,
        tuple(scenario.cluster.racks), weights=weights, **options,
    )  # fmt: skip
    assert all(kind in KINDS for kind in weights)
    return list(nemesis.draw(rng))
