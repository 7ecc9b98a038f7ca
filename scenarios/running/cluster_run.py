"""One cluster in a run: its hosts, what is done to it on purpose, and its judges.

A run has one, or several that share the simulated time, the network and the trace.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

from kafkasim.analysis.judging.cluster_facts import ClusterFacts
from kafkasim.analysis.judging.court import Court
from kafkasim.analysis.judging.history.budget import Budget
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.remarks import Remarks
from kafkasim.analysis.judging.settings import Settings
from kafkasim.analysis.judging.wait import BOOT, Wait
from kafkasim.model import facts
from kafkasim.model.broker.common.kafka_broker import KafkaBrokerProcess
from kafkasim.model.client.exceptions import KafkaTimeoutError
from kafkasim.model.messages import CreatableTopic
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.language.time_limits import reading_us
from kafkasim.scenarios.running.client_hosts import subscribed_topics
from kafkasim.scenarios.running.cluster import Cluster
from kafkasim.scenarios.running.convergence import Convergence
from kafkasim.scenarios.running.fault_schedule import FaultSchedule
from kafkasim.scenarios.running.judged import judged_settings
from kafkasim.scenarios.running.node_settings import properties_text
from kafkasim.scenarios.running.outside.groups import topic_names
from kafkasim.scenarios.running.outside.storing import final_results
from kafkasim.scenarios.running.share_settings import group_settings
from kafkasim.sim.apps.client_port import ClientPort
from kafkasim.sim.trace.recording import Facts, Trace
from kafkasim.sim.world import World


class ClusterTrace(ClusterFacts):
    """What one of several clusters tells of the trace, under the names its hosts have in it."""

    def __init__(self, trace: Trace, cluster: str) -> None:
        super().__init__(trace, cluster)
        self._trace = trace

    def record(self, t_us: int, node: str, fact: Any) -> None:
        """Append a fact of a node of the cluster."""
        self._trace.record(t_us, self._domain + node, fact)


class ClusterRun:
    """One cluster of a run. ``scenario`` is what it would be alone."""

    def __init__(
        self, world: World, trace: Facts, scenario: Scenario, variants: Sequence[str]
    ) -> None:
        """Add all hosts to the world, and judges to the trace."""
        self.world = world
        self.trace = trace
        self.scenario = scenario
        named = [*scenario.cluster.variants, *variants]
        self.cluster = Cluster(world, trace, scenario, named)
        budget = self.follow(judged_settings(scenario, self.cluster))
        self.faults = FaultSchedule(world, trace, self.cluster, self.progress, budget)
        self.waits: list[Wait] = []  # what the cluster still lacks at the run's limit

    def follow(self, settings: Settings) -> Budget:
        """Have the cluster judged; return the no-loss budget, by which guarded faults start."""
        self.court = Court(self.trace, settings)
        self.progress: Progress = self.court.progress
        self.convergence = Convergence(self.trace, self.scenario, self.cluster, self.progress)
        control = self.cluster.clients.control
        ended = control.caught, control.returned, control.assumed, control.ignored
        told = topic_names(self.scenario), control.created, *ended
        self.remarks = Remarks(self.trace, self.court.readers, self.progress, *told)
        self.trace.subscribe(facts.ApplicationFailed, self._on_application_failed)
        return self.court.history.budget

    # Boot.

    def is_up(self) -> bool:
        """Return whether all brokers are unfenced."""
        return self.progress.unfenced() == self._broker_ids

    @property
    def _broker_ids(self) -> list[int]:
        return [int(host.name.rpartition("-")[2]) for host in self.cluster.brokers]

    def note_down(self) -> None:
        """Note that the run waits for brokers to be unfenced."""
        text = f"unfenced brokers: {self.progress.unfenced()} of {self._broker_ids}"
        self.waits = [] if self.is_up() else [Wait(BOOT, detail=text)]

    def create_topics(self) -> None:
        """Start the admin client; the first that it does is to create the topics."""
        self.cluster.clients.start_admin(self._create_topics)

    async def _create_topics(self, port: ClientPort) -> None:
        wanted = tuple(
            CreatableTopic(
                t.name,
                -1 if t.assignment else t.partitions,
                -1 if t.assignment else t.replication_factor,
                tuple([tuple(replicas) for replicas in t.assignment]),
                properties_text(t.config),
            )
            for t in self.scenario.topics
        )
        # Before the topics: a broker that knows those has replayed the entries.
        bindings = tuple([entry for table in self.scenario.acls for entry in table.bindings])
        if bindings:
            await port.call("admin.create_acls", bindings)
        zookeeper = self.scenario.cluster.mode == "zookeeper"
        method = "admin.create_topics" if zookeeper else "admin.create_topics_at_once"
        with contextlib.suppress(KafkaTimeoutError):  # faults may begin before its answer comes
            await port.call(method, wanted)
        resources = group_settings(self.scenario)
        if resources:
            await port.call("admin.incremental_alter_configs", resources)

    def has_topics(self) -> bool:
        """Return whether all topics exist, with leaders and full ISRs.

        In ZooKeeper mode a broker may know the topics before the entries of access control.
        """
        exist = self.progress.has_partitions(self._names) and not self.progress.unsettled()
        return exist and all(self._knows_entries(host.name) for host in self.cluster.brokers)

    def _knows_entries(self, broker: str) -> bool:
        wanted = [entry for table in self.scenario.acls for entry in table.bindings]
        if not wanted or self.scenario.cluster.mode != "zookeeper":
            return True
        process = self.cluster.world.hosts[broker].process
        known = process.kafka.image.acls if isinstance(process, KafkaBrokerProcess) else {}
        return set(wanted) <= set(known.values())

    @property
    def _names(self) -> list[str]:
        return [topic.name for topic in self.scenario.topics]

    def note_missing_topics(self) -> None:
        """Note that the run waits for topics."""
        unsettled = [self.progress.name(key) for key in self.progress.unsettled()]
        missing = Wait(BOOT, detail=f"topics: {unsettled or self._names}")
        self.waits = [] if self.has_topics() else [missing]

    def learn_topics(self) -> None:
        """Tell the applications the ids of the topics."""
        created = {fact.topic: topic_id for topic_id, fact in self.progress.topics.items()}
        self.cluster.clients.control.topic_ids.update(created)

    # The end.

    def reading_us(self) -> int:
        """Return how long groups that have only to read on may take for that, in µs."""
        behind = self.convergence.unread(self.convergence.waits())
        return reading_us(self.scenario, behind, self.convergence.unanswered())

    def remarks_on(self, ready_us: int) -> list[str]:
        """Return what a user should know, although it breaks no promise."""
        return self.remarks.finish([str(wait) for wait in self.waits], ready_us)

    def end(self) -> None:
        """Write the ground truth of all hosts, and what the cluster still waits for."""
        for host in self.world.hosts.values():
            for fact in host.ground_truth():
                self.trace.record(self.world.now, host.name, fact)
        for group, nodes in self.cluster.clients.members.items():
            partitions = list(self._partitions_of(group))
            for node in nodes:
                for result in final_results(self.world.hosts[node].disk, group, partitions):
                    self.trace.record(self.world.now, node, result)
        for wait in self.waits:
            self.trace.record(self.world.now, "world", wait.fact(self.world.now))

    def _partitions_of(self, group: str) -> Iterator[tuple[str, str, int]]:
        """Yield (topic, topic id, partition) of what a group reads."""
        topic_ids = self.cluster.clients.control.topic_ids
        names = [
            name
            for workload in self.scenario.workload
            if workload.kind != "producer" and workload.group == group
            for name in subscribed_topics(workload, self.scenario, topic_ids)
        ]
        for name in dict.fromkeys(names):
            if name in topic_ids:
                for number in self.progress.partitions_of(name):
                    yield name, topic_ids[name], number

    def _on_application_failed(
        self, _seq: int, _t: int, node: str, fact: facts.ApplicationFailed
    ) -> None:
        if fact.ended:
            self.cluster.clients.control.ended[node] = None
