"""The mirrors of a run: a host for each, with clients of two clusters."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from kafkasim.analysis.judging.mirrors import MirrorSettings
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.analysis.judging.wait import MIRROR, Wait
from kafkasim.model.client.process import ClientProcess
from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.config import ClientConfig, Config, ConsumerConfig
from kafkasim.model.connect.config import MirrorConfig
from kafkasim.model.connect.policies import HEARTBEATS
from kafkasim.model.facts import FinalPosition
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import Files
from kafkasim.scenarios.language.clusters import sites
from kafkasim.scenarios.language.tables import MirrorTable, Scenario
from kafkasim.scenarios.running.checkpointing import checkpoints
from kafkasim.scenarios.running.cluster_run import ClusterRun
from kafkasim.scenarios.running.mirroring import Contents, Flow, MirrorApplication
from kafkasim.scenarios.running.source_connector import SourceConnector
from kafkasim.sim.apps.client_port import Applications, launch
from kafkasim.sim.host.lifecycle import Host
from kafkasim.sim.world import World

SOURCE = ("source", "source-admin", "syncs-producer", "syncs", "source-heartbeats")
"""The clients of the source cluster; all others are the target's."""

UNLIMITED = 2**31 - 1


def client_configs(node: str) -> dict[str, Config]:
    """Return the settings of a mirror's clients (Worker.baseProducerConfigs, MirrorUtils)."""
    reads = {"auto.offset.reset": "earliest", "enable.auto.commit": False, "client.id": node}
    writes = {
        "client.id": node,
        "acks": "all",
        "enable.idempotence": False,
        "max.in.flight.requests.per.connection": 1,
        "delivery.timeout.ms": UNLIMITED,
        "max.block.ms": UNLIMITED,
    }
    consumers = ("source", "syncs", "offsets", "checkpoints")
    producers = ("producer", "syncs-producer", "target-heartbeats", "source-heartbeats")
    return {
        **{name: ConsumerConfig.from_properties(reads) for name in consumers},
        **{name: producer_config(writes) for name in producers},
        **{name: ClientConfig.from_properties({}) for name in ("source-admin", "target-admin")},
    }


class Mirrors:
    """All mirrors of one run."""

    def __init__(self, world: World, scenario: Scenario, members: Mapping[str, ClusterRun]) -> None:
        self._world = world
        self._members = members
        self._launched: list[Applications] = []
        self._flows: list[tuple[Host, Flow]] = []
        self._starts: list[tuple[int, Host, Flow]] = []
        places, every = sites(scenario), scenario.mirrors
        for number, table in enumerate(every, 1):
            host = world.add_host(
                f"mirror-{number}", dc=places[table.target], principal=table.principal
            )
            back = any((t.source, t.target) == (table.target, table.source) for t in every)
            flow = self._flow(number, table, back)
            self._flows.append((host, flow))
            self._starts.append((table.start, host, flow))
        self._tell_topics()

    def _flow(self, number: int, table: MirrorTable, back: bool) -> Flow:
        """Return a flow; ``back``: a mirror has the opposite one (MirrorMakerConfig.clusterPairs).

        Heartbeats are emitted into both clusters, since A→B can mirror only those that are in A.
        """
        config = MirrorConfig.from_properties(table.config)
        return Flow(
            source=table.source,
            target=table.target,
            config=config,
            rules=self._members[table.target].cluster.settings.rules().mirror,
            contents=Contents(number, self._members[table.target].cluster.clients.control.mirrored),
            emits_back=config.emit_heartbeats_enabled and not back,
        )

    def _tell_topics(self) -> None:
        """Tell each cluster which topics mirrors create there, also those mirrored on and on."""
        created = {
            name: each.cluster.clients.control.created for name, each in self._members.items()
        }
        for _, flow in self._flows:
            created[flow.source][flow.syncs_topic] = None
            if flow.emits_back:
                created[flow.source][HEARTBEATS] = None
            own = (flow.offsets_topic, flow.checkpoints_topic, HEARTBEATS)
            created[flow.target].update(dict.fromkeys(own))
        for _, flow in self._flows * len(self._flows):
            of_scenario = [topic.name for topic in self._members[flow.source].scenario.topics]
            for name in filter(flow.takes, [*of_scenario, *created[flow.source]]):
                created[flow.target][flow.remote(TopicPartition(name, 0)).topic] = None

    def start(self) -> None:
        """Start every mirror, each at its own time from now."""
        for after_us, host, flow in self._starts:
            self._world.at(self._world.now + after_us, self._start, host, flow)

    def _start(self, host: Host, flow: Flow) -> None:
        if host.alive:
            return
        application = MirrorApplication(flow=flow, topics=SourceConnector, checkpoints=checkpoints)
        host.on_start.append(lambda started: self._launched.append(launch(started, application)))
        host.start(partial(self._process, host.name, flow))

    def _process(
        self, name: str, flow: Flow, files: Files, rng: random.Random, now: int
    ) -> ClientProcess:
        rules = self._members[flow.target].cluster.settings.rules().client
        source, target = self._bootstrap(flow.source), self._bootstrap(flow.target)
        others = dict.fromkeys(SOURCE, source)
        configs = client_configs(name)
        return ClientProcess(name, target, configs, rules, files, rng, now, others=others)

    def _bootstrap(self, cluster: str) -> tuple[str, ...]:
        brokers = self._members[cluster].cluster.brokers
        return tuple([f"{cluster}.{host.name}" for host in brokers])

    def heal(self) -> None:
        """Start the mirrors that faults took down."""
        for host, _ in self._flows:
            if host.incarnation >= 0 and not host.alive:
                host.boot()

    def waits(self, lasting: Sequence[tuple[list[str], list[str]]]) -> dict[str, list[Wait]]:
        """Return what mirrors have not copied yet, by target cluster.

        Nothing is asked of a mirror that cannot go on, since a fault between sites lasts that hits
        it or one of its clusters, or a link between them. ``lasting`` are the hosts of such faults
        (``Sites.lasting``).
        """
        found: dict[str, list[Wait]] = {}
        for host, flow in self._flows:
            if not any(self._is_hit(host, flow, *hosts) for hosts in lasting):
                found.setdefault(flow.target, []).extend(self._behind(host, flow))
        return found

    def is_reached(self, lasting: Sequence[tuple[list[str], list[str]]]) -> bool:
        """Return whether every mirror that can go on has copied all that its source has."""
        return not any(self.waits(lasting).values())

    def _is_hit(self, host: Host, flow: Flow, near: list[str], far: list[str]) -> bool:
        every = (*self._bootstrap(flow.source), *self._bootstrap(flow.target), host.name)
        hit = [any(name in every for name in side) for side in (near, far) if side]
        return all(hit)

    def _behind(self, host: Host, flow: Flow) -> Iterator[Wait]:
        progress = self._members[flow.source].progress
        names = {topic_id: fact.topic for topic_id, fact in progress.topics.items()}
        beats = flow.config.policy.is_heartbeats  # they never end: the last one may be on its way
        mirrored = [each for each, name in names.items() if flow.takes(name) and not beats(name)]
        held = self._positions(host)
        for key, end in progress.exposed_of(mirrored).items():
            position = held.get(key, 0)
            in_flight = flow.contents.in_flight[TopicPartition(names[key[0]], key[1])]
            if position < end or in_flight:
                # The judges of the target do not know the source's topics: the name goes with it.
                told = (
                    f"{host.name} ({flow.source}->{flow.target}) is at {position} of {end} in"
                    f" {progress.name(key)} of {flow.source}: lag {end - position},"
                    f" {in_flight} records are not acknowledged"
                )
                yield Wait(MIRROR, host.name, *key, offset=position, end=end, detail=told)

    def _positions(self, host: Host) -> dict[PartitionKey, int]:
        truth = [] if host.process is None else host.process.ground_truth()
        return {
            (fact.topic_id, fact.partition): fact.position
            for fact in truth
            if isinstance(fact, FinalPosition)
        }

    def judged(self) -> list[MirrorSettings]:
        """Return what judges take from the mirrors."""
        return [
            MirrorSettings(
                host.name,
                flow.source,
                flow.target,
                flow.config.replication_policy_class,
                flow.config.replication_policy_separator,
                flow.config.settled_ms * 1000,
                flow.config.groups,
                flow.config.groups_exclude,
                flow.config.offset_lag_max,
            )
            for host, flow in self._flows
        ]

    def release(self) -> None:
        """Free all applications; call it when the trace is closed."""
        for applications in self._launched:
            applications.release()
