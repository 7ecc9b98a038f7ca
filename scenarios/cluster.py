"""Build the hosts of a scenario: controllers, brokers and clients on a world.

Names: ``controller-N`` (node ids from 3001 on, as KRaft examples number them apart from brokers),
``broker-N``, ``producer-N``, ``consumer-N``, ``admin-1``.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from model.broker.broker import Broker
from model.broker.rules import BrokerRules
from model.client.process import ClientProcess
from model.client.producer import producer_config as configure
from model.config import BrokerConfig, ClientConfig, ConsumerConfig, ProducerConfig
from model.controller.controller import Controller
from scenarios.rules import Rules
from scenarios.spec import ConsumerGroup, Producer, Scenario
from scenarios.workloads import Control, consumer_application, producer_application
from sim.apps import Applications
from sim.host import Host
from sim.world import World

FIRST_CONTROLLER_ID = 3001
KAFKA_3_9: dict[str, Any] = {"linger.ms": 0}


@dataclass
class Clients:
    """The client hosts of a run and what starts on them."""

    control: Control = field(default_factory=Control)
    starts: list[tuple[int, str, Any]] = field(default_factory=list)  # (µs after ready, node, …)
    producers: list[str] = field(default_factory=list)
    consumers: dict[str, list[str]] = field(default_factory=dict)  # group -> nodes


class Cluster:
    """The servers and clients of one run."""

    def __init__(self, world: World, scenario: Scenario, rules: Rules) -> None:
        self.world = world
        self.scenario = scenario
        self.rules = rules
        self.clients = Clients()
        self._factories: dict[str, Callable[..., Any]] = {}
        count = scenario.cluster.controllers
        self.voters = {FIRST_CONTROLLER_ID + i: f"controller-{i + 1}" for i in range(count)}
        self.controllers = [self._add_controller(node) for node in self.voters]
        self.brokers = [self._add_broker(i) for i in range(1, scenario.cluster.brokers + 1)]
        self._add_clients()
        self.admin_host = world.add_host("admin-1")

    def start_servers(self) -> None:
        """Start all controllers, then all brokers."""
        for host in [*self.controllers, *self.brokers]:
            host.start(self._factories[host.name])

    def start_admin(self, application: Any) -> None:
        """Start the admin client with an application on it."""
        factory = partial(self._client_process, "admin-1", {"admin": ClientConfig()})
        self._run_client(self.admin_host, factory, application)

    def start_clients(self) -> None:
        """Start the workloads, each at its own time from now."""
        for after_us, node, start in self.clients.starts:
            self.world.at(self.world.now + after_us, start, self.world.hosts[node])

    def broker_process(self, node: str) -> Broker | None:
        """Return the broker that runs on a node, or None."""
        process = self.world.hosts[node].process
        assert process is None or isinstance(process, Broker), process
        return process

    def log(self, node: str, topic_id: str, partition: int) -> Any:
        """Return a replica's log as it is in the broker's memory, or None."""
        process = self.broker_process(node)
        if process is None:
            return None
        for hosted in process.replicas.partitions.values():
            if hosted.topic_id == topic_id and hosted.tp.partition == partition:
                return hosted.log
        return None

    # Servers.

    def _config(self, node: str) -> BrokerConfig:
        spec = self.scenario.cluster
        own = spec.nodes[node].config if node in spec.nodes else {}
        return BrokerConfig.from_properties({**spec.config, **own})

    def _rack(self, node: str, index: int) -> str | None:
        spec = self.scenario.cluster
        if node in spec.nodes and spec.nodes[node].rack is not None:
            return spec.nodes[node].rack
        return spec.racks[index % len(spec.racks)] if spec.racks else None

    def _add_controller(self, node_id: int) -> Host:
        name = self.voters[node_id]
        rack = self._rack(name, node_id - FIRST_CONTROLLER_ID)
        config = self._config(name)

        def factory(files: Any, rng: random.Random, now: int) -> Controller:
            return Controller(name, node_id, self.voters, config, self.rules, files, rng, now)

        host = self.world.add_host(name, rack=rack or "rack-0")
        self._factories[name] = factory
        return host

    def _add_broker(self, broker_id: int) -> Host:
        name = f"broker-{broker_id}"
        rack = self._rack(name, broker_id - 1)
        config = self._config(name)
        part = self.rules
        rules = BrokerRules(part.replication, part.storage, part.raft, part.group)

        def factory(files: Any, rng: random.Random, now: int) -> Broker:
            return Broker(name, broker_id, config, rack, self.voters, rules, files, rng, now)

        host = self.world.add_host(name, rack=rack or "rack-0")
        self._factories[name] = factory
        return host

    # Clients.

    def _client_process(
        self,
        name: str,
        configs: Mapping[str, ClientConfig],
        files: Any,
        rng: random.Random,
        now: int,
    ) -> ClientProcess:
        bootstrap = tuple(host.name for host in self.brokers)
        return ClientProcess(name, bootstrap, configs, self.rules.client, files, rng, now)

    def _add_clients(self) -> None:
        producers = consumers = 0
        for workload in self.scenario.workload:
            for number in range(workload.count):
                if workload.kind == "producer":
                    producers += 1
                    self._add_producer(producers, workload)
                else:
                    consumers += 1
                    self._add_consumer(consumers, number, workload)

    def _add_producer(self, index: int, spec: Producer) -> None:
        node = f"producer-{index}"
        topic = spec.topic or self.scenario.topics[0].name
        config = producer_config(self.scenario, spec.config, node)
        rng = self.world.streams.stream(node, "application")
        application = producer_application(node, index, spec, topic, self.clients.control, rng)
        self.clients.producers.append(node)
        self._add_client(node, spec.rack, spec.start, {"producer": config}, application)

    def _add_consumer(self, index: int, number: int, spec: ConsumerGroup) -> None:
        node = f"consumer-{index}"
        topics = spec.topics or [self.scenario.topics[0].name]
        properties = {"group.id": spec.group, "client.id": node, **spec.config}
        if spec.commit != "auto":
            properties.setdefault("enable.auto.commit", False)
        config = ConsumerConfig.from_properties(properties)
        rng = self.world.streams.stream(node, "application")
        application = consumer_application(node, spec, topics, self.clients.control, rng)
        self.clients.consumers.setdefault(spec.group, []).append(node)
        if spec.stuck_at is not None and number == 0:
            self.clients.control.stuck[node] = (spec.stuck_at, spec.stuck_for or 600_000_000)
        self._add_client(node, spec.rack, spec.start, {"consumer": config}, application)

    def _add_client(
        self, node: str, rack: str | None, start_us: int, configs: Mapping[str, ClientConfig],
        application: Any,
    ) -> None:  # fmt: skip
        self.world.add_host(node, rack=rack or "rack-0")
        factory = partial(self._client_process, node, configs)

        def start(host: Host) -> None:
            if not host.alive:
                self._run_client(host, factory, application)

        self.clients.starts.append((start_us, node, start))

    def _run_client(self, host: Host, factory: Callable[..., Any], application: Any) -> None:
        """Start a client process; each incarnation of it gets the application anew."""

        def attach(started: Host) -> None:
            trace, kernel, name = self.world.trace, self.world.kernel, started.name

            def record(fact: Any) -> None:
                trace.record(int(kernel.now), name, fact)

            applications = Applications(name, started.call, record, started.local_now())
            applications.start(application, name)
            started.attach(applications)

        host.on_start.append(attach)
        host.start(factory)


def producer_config(scenario: Scenario, properties: Mapping[str, Any], node: str) -> ProducerConfig:
    """Return a producer's configuration with the defaults of the scenario's Kafka version."""
    merged: dict[str, Any] = {"client.id": node}
    if scenario.cluster.kafka_version == "3.9":
        merged.update(KAFKA_3_9)
    merged.update(properties)
    return configure(merged)
