"""Build the hosts of a scenario on a world: controllers or ZooKeeper servers, brokers, clients.

Hosts are named as in ``language/nodes.py``; the operator's host is ``admin-1``. In combined mode
``controller-N`` is a second endpoint of the host ``broker-N``. Node ids of other controllers start
at 3001, as in KRaft's examples, so that they differ from brokers'. In ZooKeeper mode a broker is
the controller.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from kafkasim.model.broker.kraft.broker import Broker
from kafkasim.model.broker.kraft.combined import CombinedNode
from kafkasim.model.broker.rules import BrokerRules
from kafkasim.model.broker.zk.broker import ZkBroker
from kafkasim.model.client.process import ClientProcess
from kafkasim.model.client.producer.producer import producer_config as configure
from kafkasim.model.config import BrokerConfig, ClientConfig, ConsumerConfig, ProducerConfig
from kafkasim.model.controller.kraft.controller import Controller
from kafkasim.model.zookeeper.config import ZooKeeperConfig
from kafkasim.model.zookeeper.server.quorum_peer import QuorumPeer
from kafkasim.scenarios.language.nodes import controller_hosts, controller_id
from kafkasim.scenarios.language.tables import ConsumerGroupTable, ProducerTable, Scenario
from kafkasim.scenarios.language.vocabulary import VERSIONS
from kafkasim.scenarios.running.workloads import Control, consumer_application, producer_application
from kafkasim.scenarios.variants.releases import BROKER, CONSUMER, PRODUCER, with_version
from kafkasim.scenarios.variants.rules import Rules
from kafkasim.sim.apps.client_port import Applications
from kafkasim.sim.host.lifecycle import Host
from kafkasim.sim.world import World


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
        self.rules = with_version(rules, scenario.cluster.kafka_version)
        self._variants = rules
        self._rules_of: dict[str, Rules] = {scenario.cluster.kafka_version: self.rules}
        self.versions: dict[str, str] = {}  # node -> version, where it is not the cluster's
        self.own_config: dict[str, dict[str, Any]] = {}  # node -> what operators changed
        self._directories: dict[str, tuple[Any, str]] = {}  # controller -> (disk, directory id)
        self.clients = Clients()
        self.features = self._formatted()
        self._factories: dict[str, Callable[..., Any]] = {}
        self.duplicates: list[Host] = []
        self.zookeeper = scenario.cluster.mode == "zookeeper"
        count = 0 if self.zookeeper else scenario.cluster.controllers
        self.combined = scenario.cluster.combined
        ids = [controller_id(number, self.combined) for number in range(1, count + 1)]
        self.voters = {node_id: f"controller-{i}" for i, node_id in enumerate(ids, 1)}
        last = count + scenario.cluster.standby_controllers if count else 0
        hosts = range(self.combined + 1, last + 1)
        self.controllers = [self._add_controller(number) for number in hosts]
        count = scenario.cluster.zookeepers if self.zookeeper else 0
        self.ensemble = {i: f"zookeeper-{i}" for i in range(1, count + 1)}
        self.hosts = self.ensemble or controller_hosts(last, self.combined)
        """The hosts of the quorum, or of who may join it, by node id."""
        self.first_voters = tuple(self.ensemble or self.voters)
        self.zookeepers = [self._add_zookeeper(number) for number in self.ensemble]
        self.brokers = [self._add_broker(i) for i in range(1, scenario.cluster.brokers + 1)]
        self._add_clients()
        self.admin_host = world.add_host("admin-1")

    def start_servers(self) -> None:
        """Start all controllers or the ensemble, then all brokers."""
        for host in [*self.controllers, *self.zookeepers, *self.brokers]:
            spec = self.scenario.cluster.nodes.get(host.name)
            if spec is None or not spec.start:
                host.start(self._factories[host.name])
            else:
                self.world.at(self.world.now + spec.start, host.start, self._factories[host.name])

    def start_admin(self, application: Any) -> None:
        """Start the admin client with an application on it."""
        factory = partial(self._client_process, "admin-1", {"admin": ClientConfig()})
        self._run_client(self.admin_host, factory, application)

    def start_clients(self) -> None:
        """Start the workloads, each at its own time from now."""
        for after_us, node, start in self.clients.starts:
            self.world.at(self.world.now + after_us, start, self.world.hosts[node])

    def broker_process(self, node: str) -> Broker | ZkBroker | None:
        """Return the broker that runs on a node, or None."""
        process = self.world.hosts[node].process
        if isinstance(process, CombinedNode):
            return process.broker
        assert process is None or isinstance(process, Broker | ZkBroker), process
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

    def start_duplicate(self, node: str) -> None:
        """Start a second process with the node id of a broker, on a host of its own."""
        name = f"{node}b"
        host = self.world.add_host(name, rack="rack-0")
        self.duplicates.append(host)
        host.start(self._broker_factory(name, int(node.rpartition("-")[2]), None))

    def stop_duplicates(self) -> None:
        """Kill the second processes and leave them down."""
        for host in self.duplicates:
            host.crash()
            del self.world.hosts[host.name]
        self.duplicates.clear()

    # Servers.

    def version(self, node: str) -> str:
        """Return which release a node's process runs, or will run when it is started."""
        spec = self.scenario.cluster
        first = spec.nodes[node].kafka_version if node in spec.nodes else None
        return self.versions.get(node) or first or spec.kafka_version

    def _config(self, node: str) -> BrokerConfig:
        spec = self.scenario.cluster
        own = spec.nodes[node].config if node in spec.nodes else {}
        defaults = BROKER.get(self.version(node), {})
        changed = self.own_config.get(node, {})
        return BrokerConfig.from_properties({**defaults, **spec.config, **own, **changed})

    def _rules(self, node: str) -> Rules:
        version = self.version(node)
        rules = self._rules_of.get(version)
        if rules is None:
            self._rules_of[version] = rules = with_version(self._variants, version)
        return rules

    def _formatted(self) -> dict[str, int]:
        """Return the features that kafka-storage format sets: what the oldest node supports."""
        spec = self.scenario.cluster
        versions = [host.kafka_version or spec.kafka_version for host in spec.nodes.values()]
        oldest = min([spec.kafka_version, *versions], key=VERSIONS.index)
        rules = with_version(self._variants, oldest)
        return {**rules.controller.bootstrap_features(), **spec.features}

    def _rack(self, node: str, index: int) -> str | None:
        spec = self.scenario.cluster
        if node in spec.nodes and spec.nodes[node].rack is not None:
            return spec.nodes[node].rack
        return spec.racks[index % len(spec.racks)] if spec.racks else None

    def voter(self, node: str) -> tuple[int, str, str]:
        """Return the key of the controller on a host, and where it listens: id, directory id (""
        before its first start), address."""
        node_id = next(each for each, host in self.hosts.items() if host == node)
        directory_id = self._directories.get(node, (None, ""))[1]
        return node_id, directory_id, f"controller-{node.rpartition('-')[2]}"

    def _format(self, node: str, files: Any) -> str:
        """Return the directory id that kafka-storage format has written on a disk."""
        disk, directory_id = self._directories.get(node, (None, ""))
        if disk is not files:
            rng = self.world.streams.stream(node, "directory", directory_id)
            text = base64.urlsafe_b64encode(rng.getrandbits(128).to_bytes(16, "big")).decode()
            directory_id = text.rstrip("=")
            self._directories[node] = (files, directory_id)
        return directory_id

    def _add_controller(self, number: int) -> Host:
        name, node_id = f"controller-{number}", controller_id(number, self.combined)
        rack = self._rack(name, number - 1)

        def factory(files: Any, rng: random.Random, now: int) -> Controller:
            return Controller(
                name, node_id, self.voters, self._config(name), self._rules(name), files, rng, now,
                self.features, self._format(name, files),
            )  # fmt: skip

        host = self.world.add_host(name, rack=rack or "rack-0")
        self._factories[name] = factory
        return host

    def _add_zookeeper(self, number: int) -> Host:
        name = self.ensemble[number]
        rack = self._rack(name, number - 1)
        config = ZooKeeperConfig.from_properties(self.scenario.cluster.zookeeper_config)
        rules = self.rules.zookeeper

        def factory(files: Any, rng: random.Random, now: int) -> QuorumPeer:
            return QuorumPeer(name, number, self.ensemble, config, rules, files, rng, now)

        host = self.world.add_host(name, rack=rack or "rack-0")
        self._factories[name] = factory
        return host

    def _add_broker(self, broker_id: int) -> Host:
        name = f"broker-{broker_id}"
        rack = self._rack(name, broker_id - 1)
        endpoints = (name, f"controller-{broker_id}") if broker_id <= self.combined else (name,)
        host = self.world.add_host(name, rack=rack or "rack-0", endpoints=endpoints)
        combined = broker_id <= self.combined
        make = self._combined_factory if combined else self._broker_factory
        self._factories[name] = make(name, broker_id, rack)
        return host

    def _broker_rules(self, node: str) -> BrokerRules:
        part = self._rules(node)
        return BrokerRules(
            part.replication,
            part.storage,
            part.raft,
            part.group,
            part.zk_controller,
            part.controller.supported_features(),
        )

    def _broker_factory(self, name: str, broker_id: int, rack: str | None) -> Callable[..., Any]:
        node = f"broker-{broker_id}"  # a second process of it has another name
        servers = tuple(self.ensemble.values())

        def factory(files: Any, rng: random.Random, now: int) -> Broker | ZkBroker:
            config, rules = self._config(node), self._broker_rules(node)
            if servers:
                return ZkBroker(name, broker_id, config, rack, servers, rules, files, rng, now)
            return Broker(name, broker_id, config, rack, self.voters, rules, files, rng, now)

        return factory

    def _combined_factory(self, name: str, node_id: int, rack: str | None) -> Callable[..., Any]:
        def factory(files: Any, rng: random.Random, now: int) -> CombinedNode:
            return CombinedNode(
                name, node_id, self._config(name), rack, self.voters, self._rules(name),
                self._broker_rules(name), files, rng, now, self.features,
                self._format(name, files),
            )  # fmt: skip

        return factory

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

    def _add_producer(self, index: int, spec: ProducerTable) -> None:
        node = f"producer-{index}"
        topic = spec.topic or self.scenario.topics[0].name
        config = producer_config(self.scenario, spec.config, node)
        rng = self.world.streams.stream(node, "application")
        application = producer_application(node, index, spec, topic, self.clients.control, rng)
        self.clients.producers.append(node)
        self._add_client(node, spec.rack, spec.start, {"producer": config}, application)

    def _add_consumer(self, index: int, number: int, spec: ConsumerGroupTable) -> None:
        node = f"consumer-{index}"
        topics = spec.topics or [self.scenario.topics[0].name]
        defaults = CONSUMER.get(self.scenario.cluster.kafka_version, {})
        properties = {**defaults, "group.id": spec.group, "client.id": node, **spec.config}
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
    merged.update(PRODUCER.get(scenario.cluster.kafka_version, {}))
    merged.update(properties)
    return configure(merged)
