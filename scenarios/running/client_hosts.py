"""The client hosts of a run: producers, consumers and the operator's admin client."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import Any

from kafkasim.model.client.process import ClientProcess
from kafkasim.model.client.producer.producer import producer_config as derived_config
from kafkasim.model.config import (
    ClientConfig,
    Config,
    ConsumerConfig,
    LegacyConsumerConfig,
    ProducerConfig,
    ShareConsumerConfig,
)
from kafkasim.model.facts.names import APPLICATIONS, CLUSTER
from kafkasim.model.storage.files import Files
from kafkasim.scenarios.applications.records.compression import PayloadCompressor
from kafkasim.scenarios.applications.session import Payloads, Session
from kafkasim.scenarios.language.nodes import transactional_id
from kafkasim.scenarios.language.tables import (
    ConsumerGroupTable,
    ProcessorTable,
    ProducerTable,
    Scenario,
    ShareGroupTable,
    StreamsTable,
    WorkloadTable,
)
from kafkasim.scenarios.running.node_settings import told
from kafkasim.scenarios.running.outside.auditing import (
    AuditedProducerApplication,
    AuditingApplication,
)
from kafkasim.scenarios.running.outside.storing import StoringApplication
from kafkasim.scenarios.running.remote_offsets import REMOTE
from kafkasim.scenarios.running.restarting import Restarts
from kafkasim.scenarios.running.share_consuming import ShareConsumerApplication
from kafkasim.scenarios.running.share_settings import share_defaults
from kafkasim.scenarios.running.transactional.processing import ProcessorApplication
from kafkasim.scenarios.running.transactional.producing import TransactionalProducerApplication
from kafkasim.scenarios.running.workloads import ConsumerApplication, Control, ProducerApplication
from kafkasim.scenarios.variants.releases import ADMIN, CONSUMER, PRODUCER
from kafkasim.scenarios.variants.rules import Rules
from kafkasim.sim.apps.client_port import Application, Applications, ClientPort, launch
from kafkasim.sim.host.lifecycle import Host
from kafkasim.sim.world import World

IDEMPOTENT: dict[str, Any] = {"enable.idempotence": True, "acks": "all"}
"""What a transactional.id implies in releases whose defaults are others (KafkaProducer of 2.8)."""

STUCK_FOR_US = 600_000_000
"""How long a stuck member stays away from poll() unless ``stuck-for`` says otherwise."""


_Producer = ProducerApplication | TransactionalProducerApplication | AuditedProducerApplication
_Consumer = ConsumerApplication | StoringApplication | AuditingApplication

Reader = ConsumerGroupTable | ProcessorTable | ShareGroupTable
"""A workload that reads."""


class ClientHosts:
    """One host for each producer, processor and member of a group, and ``admin-1``."""

    def __init__(
        self, world: World, scenario: Scenario, rules: Rules, bootstrap: Sequence[str]
    ) -> None:
        """Add the hosts to the world; ``bootstrap`` are the names of the brokers."""
        self.control = Control()
        self._world = world
        self._scenario = scenario
        self._rules = rules
        self._bootstrap = tuple(bootstrap)
        self.members: dict[str, list[str]] = {}  # group -> hosts of its members
        self.transactional_ids: dict[str, str] = {}  # host -> the id of its producer
        self.payloads = Payloads()
        self.compressor = PayloadCompressor(self.payloads)
        self._launched: list[Applications] = []  # of all incarnations
        self._configs: dict[str, dict[str, Config]] = {}  # by host, then by client
        self._starts: list[tuple[int, Callable[[], None]]] = []  # (µs from ready, start)
        self._restarts = Restarts(world, self.control)
        self.streams_inputs: dict[str, list[str]] = {}  # application.id -> topics that it reads
        self._add_workloads()
        if scenario.streams:
            self._add_streams()
        self.admin_host = world.add_host("admin-1", principal=scenario.cluster.principal)

    def start_workloads(self) -> None:
        """Start every workload, each at its own time from now."""
        for after_us, start in self._starts:
            self._world.at(self._world.now + after_us, start)

    def start_admin(self, application: Application) -> None:
        """Start the admin client with an application on it."""
        defaults = ADMIN.get(self._scenario.cluster.kafka_version, {})
        config = ClientConfig.from_properties({"client.id": "admin-1", **defaults})
        self._run(self.admin_host, {"admin": config}, application)

    def release(self) -> None:
        """Free all applications; call it when the trace is closed."""
        for applications in self._launched:
            applications.release()

    def reconfigure(
        self, node: str, properties: Mapping[str, Any], remove: Iterable[str] = ()
    ) -> None:
        """Give the consumer of a host other properties, from its next start on.

        Those of ``remove`` are at Kafka's defaults again.
        """
        configs = self._configs[node]
        for name, config in configs.items():
            if isinstance(config, ConsumerConfig):
                configs[name] = config.with_properties(properties, remove)

    @cached_property
    def readers(self) -> list[tuple[Reader, list[str]]]:
        """Each workload that reads, with its own hosts: several may be of one group."""
        found: list[tuple[Reader, list[str]]] = []
        earlier: dict[str, int] = {}
        for workload in self._scenario.workload:
            if workload.kind != "producer":
                first = earlier.get(workload.group, 0)
                earlier[workload.group] = last = first + workload.count
                found.append((workload, self.members[workload.group][first:last]))
        return found

    def _add_workloads(self) -> None:
        producers = consumers = processors = 0
        for workload in self._scenario.workload:
            for index in range(workload.count):
                if workload.kind == "producer":
                    producers += 1
                    self._add_producer(producers, workload, index + 1)
                elif workload.kind == "processor":
                    processors += 1
                    self._add_processor(processors, workload, index + 1)
                elif workload.kind == "share-group":
                    consumers += 1
                    self._add_share_consumer(consumers, workload, is_first=index == 0)
                else:
                    consumers += 1
                    self._add_consumer(consumers, workload, is_first=index == 0)

    def _add_streams(self) -> None:
        """Add the instances of Kafka Streams; other runs import nothing of it."""
        from kafkasim.scenarios.running.streaming import Conversions, StreamsApplication, inputs

        shared = Conversions(self.payloads)  # by all instances: they exchange records
        number = 0
        for table in self._scenario.streams:
            self.streams_inputs[table.application_id] = inputs(table)
            for before in range(table.count):
                number += 1
                node = f"streams-{number}"
                start_us = table.start + before * table.start_every
                self.members.setdefault(table.application_id, []).append(node)
                application = StreamsApplication(
                    node=node,
                    number=self._world.number * CLUSTER + number,
                    table=table,
                    conversions=shared,
                    rng=self._world.streams.stream(node, "application"),
                    rules=self._rules.streams,
                    control=self.control,
                )
                self._add(node, table.model_copy(update={"start": start_us}), {}, application)

    def _add_producer(self, number: int, table: ProducerTable, member: int) -> None:
        """Add the ``number``-th producer, the ``member``-th of its workload."""
        node = f"producer-{number}"
        if table.app is not None:
            make = self._session(node, number, "", {}, table.config)
            self._add(node, table, {}, _of_user(table.app, make))
            return
        properties = dict(table.config)
        known = transactional_id(table, member)
        if known is not None:
            properties = IDEMPOTENT | properties | {"transactional.id": known}
        kind: type[_Producer] = ProducerApplication
        if table.audit is not None:
            kind = AuditedProducerApplication
        elif known is not None:
            kind = TransactionalProducerApplication
        application = kind(
            node=node,
            number=self._world.number * CLUSTER + number,
            table=table,
            topic=produced_topic(table, self._scenario),
            control=self.control,
            rng=self._world.streams.stream(node, "application"),
            payloads=self.payloads,
        )
        config = producer_config(self._scenario, properties, node)
        self._add(node, table, {"producer": config}, application)

    def _add_processor(self, number: int, table: ProcessorTable, member: int) -> None:
        """Add the ``number``-th processor, the ``member``-th of its workload."""
        node = f"processor-{number}"
        self.members.setdefault(table.group, []).append(node)
        reads = {
            "auto.offset.reset": "earliest",
            **of_rack(table),
            **CONSUMER.get(self._scenario.cluster.kafka_version, {}),
            "group.id": table.group,
            "client.id": node,
            "enable.auto.commit": False,
        }
        writes = dict(table.producer_config)
        known = transactional_id(table, member)
        if known is not None:
            writes = IDEMPOTENT | writes | {"transactional.id": known}
            reads["isolation.level"] = "read_committed"
        application = ProcessorApplication(
            node=node,
            table=table,
            topics=_named_topics(table, self._scenario),
            control=self.control,
            rng=self._world.streams.stream(node, "application"),
        )
        configs = {
            "consumer": ConsumerConfig.from_properties({**reads, **table.config}),
            "producer": producer_config(self._scenario, writes, node),
        }
        self._add(node, table, configs, application)

    def _add_consumer(self, number: int, table: ConsumerGroupTable, *, is_first: bool) -> None:
        node = f"consumer-{number}"
        self.members.setdefault(table.group, []).append(node)
        if table.stuck_at is not None and is_first:
            self.control.stuck[node] = (table.stuck_at, table.stuck_for or STUCK_FOR_US)
        if table.app is not None:
            make = self._session(node, APPLICATIONS + number, table.group, table.config, {})
            self._add(node, table, {}, _of_user(table.app, make))
            return
        kind: type[_Consumer] = ConsumerApplication
        if table.store is not None or table.audit is not None:
            kind = AuditingApplication if table.store is None else StoringApplication
        application = kind(
            node=node,
            table=table,
            topics=_named_topics(table, self._scenario),
            control=self.control,
            rng=self._world.streams.stream(node, "application"),
        )
        configs = {"consumer": self._consumer_config(node, table)}
        if table.on_poison == "dead-letter":
            configs["producer"] = producer_config(self._scenario, {}, node)
        if table.remote_offsets is not None:
            whole = {"auto.offset.reset": "earliest", "enable.auto.commit": False}
            configs[REMOTE] = ConsumerConfig.from_properties(whole)
        self._add(node, table, configs, application)

    def _add_share_consumer(self, number: int, table: ShareGroupTable, *, is_first: bool) -> None:
        node = f"consumer-{number}"
        self.members.setdefault(table.group, []).append(node)
        if table.stuck_at is not None and is_first:
            self.control.stuck[node] = (table.stuck_at, table.stuck_for or STUCK_FOR_US)
        application = ShareConsumerApplication(
            node=node,
            table=table,
            topics=_named_topics(table, self._scenario),
            control=self.control,
            rng=self._world.streams.stream(node, "application"),
        )
        properties = {
            **share_defaults(self._scenario.cluster.kafka_version),
            **of_rack(table),
            "group.id": table.group,
            "client.id": node,
            "share.acknowledgement.mode": table.acknowledge,
            **table.config,
        }
        config = ShareConsumerConfig.from_properties(properties)
        self._add(node, table, {"consumer": config}, application)

    def _consumer_config(self, node: str, table: ConsumerGroupTable) -> Config:
        properties = {"group.id": table.group, "client.id": node, **table.config}
        if table.protocol == "zookeeper":
            servers = range(1, self._scenario.cluster.zookeepers + 1)
            properties["zookeeper.connect"] = ",".join([f"zookeeper-{n}" for n in servers])
            if table.commit != "auto":
                properties.setdefault("auto.commit.enable", False)
            return LegacyConsumerConfig.from_properties(properties)
        defaults = CONSUMER.get(self._scenario.cluster.kafka_version, {}) | of_rack(table)
        if table.commit != "auto" or table.store is not None or table.audit is not None:
            properties.setdefault("enable.auto.commit", False)
        return ConsumerConfig.from_properties({**defaults, **properties})

    def _session(
        self,
        node: str,
        number: int,
        group: str,
        reads: Mapping[str, Any],
        writes: Mapping[str, Any],
    ) -> Callable[[ClientPort], Session]:
        """Return what makes the session of each incarnation of a user's application.

        ``number`` is in the ids of its records, ``group`` is that of its workload, "" without one,
        and its consumers and producers have the properties ``reads`` and ``writes``.
        """
        version = self._scenario.cluster.kafka_version
        rng = self._world.streams.stream(node, "application")

        def make(port: ClientPort) -> Session:
            return Session(
                port,
                node,
                self._world.number * CLUSTER + number,
                group,
                {**CONSUMER.get(version, {}), **reads},
                {**PRODUCER.get(version, {}), **writes},
                self.control.topic_ids,
                self.control.caught,
                self.control.returned,
                self.control.handling,
                self.control.assumed,
                self.control.ignored,
                self.payloads,
                rng,
                self.control.created,
            )

        return make

    def _add(
        self,
        node: str,
        table: WorkloadTable | StreamsTable,
        configs: Mapping[str, Config],
        application: Application,
    ) -> None:
        host = self._world.add_host(node, rack=table.rack or "rack-0", principal=table.principal)
        host.card.ip = table.ip or host.card.ip
        self._restarts.keep(host, table.restart)
        for config in configs.values():
            if isinstance(config, ProducerConfig) and config.transactional_id is not None:
                self.transactional_ids[node] = config.transactional_id

        def start() -> None:
            if not host.alive:
                self._run(host, configs, application)

        self._starts.append((table.start, start))

    def _run(self, host: Host, configs: Mapping[str, Config], application: Application) -> None:
        """Start a client process; each incarnation of it gets the application anew."""

        def attach(started: Host) -> None:
            self._launched.append(launch(started, application))

        host.on_start.append(attach)
        self._configs[host.name] = dict(configs)
        host.start(partial(self._process, host.name))

    def _process(
        self,
        name: str,
        files: Files,
        rng: random.Random,
        now: int,
    ) -> ClientProcess:
        configs = dict(self._configs[name])
        process = ClientProcess(
            name, self._bootstrap, configs, self._rules.client, files, rng, now, self.compressor
        )
        for config in configs.values():
            told(config, process)
        return process


def _of_user(app: str, make: Callable[[ClientPort], Session]) -> Application:
    """Return a user's application; other runs import neither aiokafka's names nor asyncio."""
    from kafkasim.scenarios.applications.loading import UserApplication

    return UserApplication(app, make)


def of_rack(table: Reader) -> dict[str, Any]:
    """Return what a consumer has by the rack of its host, unless its properties say otherwise."""
    return {} if table.rack is None else {"client.rack": table.rack}


def producer_config(scenario: Scenario, properties: Mapping[str, Any], node: str) -> ProducerConfig:
    """Return a producer's configuration with the defaults of the scenario's Kafka version."""
    defaults = PRODUCER.get(scenario.cluster.kafka_version, {})
    return derived_config({"client.id": node, **defaults, **properties})


def produced_topic(table: ProducerTable, scenario: Scenario) -> str:
    """Return the topic that a producer sends to: the scenario's first one unless it names one."""
    return table.topic or scenario.topics[0].name


def _named_topics(
    table: ConsumerGroupTable | ProcessorTable | ShareGroupTable, scenario: Scenario
) -> tuple[str, ...]:
    return tuple(table.topics or [scenario.topics[0].name])


def subscribed_topics(
    table: Reader,
    scenario: Scenario,
    known: Iterable[str],
) -> list[str]:
    """Return the topics that a workload reads; ``known`` are all topics, for its pattern."""
    pattern = None
    if table.kind == "consumer-group":
        pattern = table.pattern or table.subscription_pattern
    if pattern is None:
        audited = [table.audit] if table.kind == "consumer-group" and table.audit else []
        return [*_named_topics(table, scenario), *audited]
    return [name for name in known if re.fullmatch(pattern, name)]
