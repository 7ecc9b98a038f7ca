"""The mirrors of a run: a host for each, with clients of two clusters."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import count

from kafkasim.analysis.judging.mirrors import MirrorSettings
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.analysis.judging.wait import MIRROR, Wait
from kafkasim.model.client.process import ClientProcess
from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.config import ClientConfig, Config, ConsumerConfig
from kafkasim.model.connect.config import PRODUCER, SOURCE_CONSUMER, MirrorConfig, divided
from kafkasim.model.connect.policies import HEARTBEATS
from kafkasim.model.connect.workers.process import WorkerProcess
from kafkasim.model.facts import FinalPosition
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import Files
from kafkasim.scenarios.language.clusters import sites
from kafkasim.scenarios.language.tables import MirrorTable, Scenario
from kafkasim.scenarios.running.checkpointing import checkpoints
from kafkasim.scenarios.running.cluster_run import ClusterRun
from kafkasim.scenarios.running.herding import WorkerApplication
from kafkasim.scenarios.running.mirroring import Contents, Flow, MirrorApplication
from kafkasim.scenarios.running.source_connector import SourceConnector
from kafkasim.sim.apps.client_port import Application, Applications, launch
from kafkasim.sim.host.lifecycle import Host
from kafkasim.sim.world import World

SOURCE = ("source", "source-admin", "source-heartbeats")
"""The clients of the source cluster."""

SYNCS = ("syncs-producer", "syncs")
"""The clients of the offset syncs, in the cluster that has them; all others are the target's."""

UNLIMITED = 2**31 - 1

MakeProcess = Callable[[Files, random.Random, int], ClientProcess]


def client_configs(node: str, flow: Flow) -> dict[str, Config]:
    """Return the settings of a mirror's clients (Worker.baseProducerConfigs, MirrorUtils)."""
    reads = {"auto.offset.reset": "earliest", "client.id": node}
    whole = {"enable.auto.commit": False}  # whatever is given
    of_source = {**reads, **flow.clients[SOURCE_CONSUMER], **whole}
    syncs = of_source if flow.syncs_side == "source" else {**reads, **whole}
    writes = {
        "client.id": node,
        "acks": "all",
        "enable.idempotence": False,
        "max.in.flight.requests.per.connection": 1,
        "delivery.timeout.ms": UNLIMITED,
        "max.block.ms": UNLIMITED,
    }
    return {
        "source": ConsumerConfig.from_properties(of_source),
        "syncs": ConsumerConfig.from_properties(syncs),
        "offsets": ConsumerConfig.from_properties({**reads, **whole}),
        "checkpoints": ConsumerConfig.from_properties({**reads, **whole}),
        "configs": ConsumerConfig.from_properties({**reads, **whole}),
        "producer": producer_config({**writes, **flow.clients[PRODUCER]}),
        "syncs-producer": producer_config({"client.id": node}),
        "target-heartbeats": producer_config(writes),
        "source-heartbeats": producer_config(writes),
        **{name: ClientConfig.from_properties({}) for name in ("source-admin", "target-admin")},
    }


OF_WORKERS = (
    "source-admin", "target-admin", "configs", "producer", "source-heartbeats", "target-heartbeats",
)  # fmt: skip
"""The clients that a worker has for itself: each task has its own besides."""


class Mirrors:
    """All mirrors of one run."""

    def __init__(self, world: World, scenario: Scenario, members: Mapping[str, ClusterRun]) -> None:
        self._world = world
        self._members = members
        self._launched: list[Applications] = []
        self._flows: list[tuple[tuple[Host, ...], Flow]] = []
        self._starts: list[tuple[int, Host, Callable[[Host], None]]] = []
        places, every, numbers = sites(scenario), scenario.mirrors, count(1)
        for number, table in enumerate(every, 1):
            hosts = [
                world.add_host(
                    f"mirror-{next(numbers)}", dc=places[table.target], principal=table.principal
                )
                for _ in range(table.workers or 1)
            ]
            back = any((t.source, t.target) == (table.target, table.source) for t in every)
            flow = self._flow(number, table, back)
            self._flows.append((tuple(hosts), flow))
            start = self._start if table.workers is None else self._start_worker
            self._starts += [(table.start, host, partial(start, flow=flow)) for host in hosts]
        self._tell_topics()

    def _flow(self, number: int, table: MirrorTable, back: bool) -> Flow:
        """Return a flow; ``back``: a mirror has the opposite one (MirrorMakerConfig.clusterPairs).

        Heartbeats are emitted into both clusters, since A→B can mirror only those that are in A.
        """
        given = divided(table.config)
        config = MirrorConfig.from_properties(given[""])
        rules = self._members[table.target].cluster.settings.rules()
        return Flow(
            source=table.source,
            target=table.target,
            config=config,
            clients=given,
            rules=rules.mirror,
            worker_rules=rules.connect,
            contents=Contents(number, self._members[table.target].cluster.clients.control.mirrored),
            emits_back=config.emit_heartbeats_enabled and not back,
        )

    def _tell_topics(self) -> None:
        """Tell each cluster which topics mirrors create there, also those mirrored on and on."""
        created = {
            name: each.cluster.clients.control.created for name, each in self._members.items()
        }
        for _, flow in self._flows:
            with_syncs = flow.source if flow.syncs_side == "source" else flow.target
            created[with_syncs][flow.syncs_topic] = None
            if flow.emits_back:
                created[flow.source][HEARTBEATS] = None
            own = (flow.offsets_topic, flow.configs_topic, flow.checkpoints_topic, HEARTBEATS)
            created[flow.target].update(dict.fromkeys(own))
        for _, flow in self._flows * len(self._flows):
            of_scenario = [topic.name for topic in self._members[flow.source].scenario.topics]
            for name in filter(flow.takes, [*of_scenario, *created[flow.source]]):
                created[flow.target][flow.remote_topic(name)] = None

    def start(self) -> None:
        """Start every mirror, each at its own time from now."""
        for after_us, host, start in self._starts:
            self._world.at(self._world.now + after_us, start, host)

    def _start(self, host: Host, flow: Flow) -> None:
        """Start the one node of a flow."""
        application = MirrorApplication(flow=flow, topics=SourceConnector, checkpoints=checkpoints)
        self._launch(host, application, partial(self._process, host.name, flow))

    def _start_worker(self, host: Host, flow: Flow) -> None:
        """Start one worker of a flow."""
        application = WorkerApplication(flow=flow, configs=client_configs(host.name, flow))
        self._launch(host, application, partial(self._worker, host.name, flow))

    def _launch(self, host: Host, application: Application, process: MakeProcess) -> None:
        if host.alive:
            return
        host.on_start.append(lambda started: self._launched.append(launch(started, application)))
        host.start(process)

    def _process(
        self, name: str, flow: Flow, files: Files, rng: random.Random, now: int
    ) -> ClientProcess:
        rules = self._members[flow.target].cluster.settings.rules().client
        target, configs = self._bootstrap(flow.target), client_configs(name, flow)
        others = self._of_source(flow)
        return ClientProcess(name, target, configs, rules, files, rng, now, others=others)

    def _worker(
        self, name: str, flow: Flow, files: Files, rng: random.Random, now: int
    ) -> WorkerProcess:
        rules = self._members[flow.target].cluster.settings.rules().client
        target, configs = self._bootstrap(flow.target), client_configs(name, flow)
        return WorkerProcess(
            name,
            target,
            {client: configs[client] for client in OF_WORKERS},
            rules,
            files,
            rng,
            now,
            self._of_source(flow),
            flow.config.worker(flow.group_id, name),
            flow.worker_rules,
        )

    def _of_source(self, flow: Flow) -> dict[str, tuple[str, ...]]:
        """Return the brokers that the clients of the source cluster begin with, by client."""
        names = (*SOURCE, *SYNCS) if flow.syncs_side == "source" else SOURCE
        return dict.fromkeys(names, self._bootstrap(flow.source))

    def _bootstrap(self, cluster: str) -> tuple[str, ...]:
        brokers = self._members[cluster].cluster.brokers
        return tuple([f"{cluster}.{host.name}" for host in brokers])

    def heal(self, lasting: Sequence[tuple[list[str], list[str]]]) -> None:
        """Start the mirrors that faults took down, but for those that stay down for ever."""
        gone = [name for near, far in lasting if not far for name in near]
        for hosts, _ in self._flows:
            for host in hosts:
                if host.incarnation >= 0 and not host.alive and host.name not in gone:
                    host.boot()

    def waits(self, lasting: Sequence[tuple[list[str], list[str]]]) -> dict[str, list[Wait]]:
        """Return what mirrors have not copied yet, by target cluster.

        Nothing is asked of a mirror that cannot go on, since a fault between sites lasts that hits
        it or one of its clusters, or a link between them. ``lasting`` are the hosts of such faults
        (``Sites.lasting``).
        """
        found: dict[str, list[Wait]] = {}
        for workers, flow in self._flows:
            if not any(self._is_hit(workers, flow, *hosts) for hosts in lasting):
                found.setdefault(flow.target, []).extend(self._behind(workers, flow))
        return found

    def is_reached(self, lasting: Sequence[tuple[list[str], list[str]]]) -> bool:
        """Return whether every mirror that can go on has copied all that its source has."""
        return not any(self.waits(lasting).values())

    def _is_hit(self, workers: Sequence[Host], flow: Flow, near: list[str], far: list[str]) -> bool:
        own = [host.name for host in workers]
        every = (*self._bootstrap(flow.source), *self._bootstrap(flow.target))
        return all(
            any(name in every for name in side) or all(name in side for name in own)
            for side in (near, far)
            if side
        )

    def _behind(self, workers: Sequence[Host], flow: Flow) -> Iterator[Wait]:
        host = workers[0]
        progress = self._members[flow.source].progress
        names = {topic_id: fact.topic for topic_id, fact in progress.topics.items()}
        beats = flow.config.policy.is_heartbeats  # they never end: the last one may be on its way
        mirrored = [each for each, name in names.items() if flow.takes(name) and not beats(name)]
        held = _positions(workers)
        for key, end in progress.exposed_of(mirrored).items():
            position = held.get(key, 0)
            in_flight = flow.contents.in_flight(TopicPartition(names[key[0]], key[1]))
            if position < end or in_flight:
                # The judges of the target do not know the source's topics: the name goes with it.
                told = (
                    f"{host.name} ({flow.source}->{flow.target}) is at {position} of {end} in"
                    f" {progress.name(key)} of {flow.source}: lag {end - position},"
                    f" {in_flight} records are not acknowledged"
                )
                yield Wait(MIRROR, host.name, *key, offset=position, end=end, detail=told)

    def judged(self) -> list[MirrorSettings]:
        """Return what judges take from the mirrors."""
        return [
            MirrorSettings(
                hosts[0].name,
                flow.source,
                flow.target,
                flow.config.replication_policy_class,
                flow.config.replication_policy_separator,
                flow.config.settled_ms * 1000,
                flow.config.groups,
                flow.config.groups_exclude,
                flow.config.offset_lag_max,
                tuple([host.name for host in hosts[1:]]),
                flow.config.zombie_ms * 1000,
                flow.config.replay_ms * 1000,
            )
            for hosts, flow in self._flows
        ]

    def release(self) -> None:
        """Free all applications; call it when the trace is closed."""
        for applications in self._launched:
            applications.release()


def _positions(workers: Sequence[Host]) -> dict[PartitionKey, int]:
    """Return where the consumers of a flow's nodes are."""
    return {
        (fact.topic_id, fact.partition): fact.position
        for host in workers
        if host.process is not None
        for fact in host.process.ground_truth()
        if isinstance(fact, FinalPosition)
    }
