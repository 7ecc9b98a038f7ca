"""Build the hosts of a scenario on a world: controllers or ZooKeeper servers, brokers, clients.

Hosts are named as in ``language/nodes.py``; the operator's host is ``admin-1``. In combined mode
``controller-N`` is a second endpoint of the host ``broker-N``. Node ids of other controllers start
at 3001, as in KRaft's examples, so that they differ from brokers'. In ZooKeeper mode a broker is
the controller.
"""

from __future__ import annotations

import base64
import random
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts
from kafkasim.model.broker.common.kafka_broker import KafkaBrokerProcess
from kafkasim.model.broker.kraft.broker import Broker
from kafkasim.model.broker.kraft.combined import CombinedNode
from kafkasim.model.controller.kraft.controller import Controller
from kafkasim.model.storage.files import Files
from kafkasim.scenarios.language.nodes import controller_hosts, controller_id, epochs_used
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.client_hosts import ClientHosts
from kafkasim.scenarios.running.node_settings import NodeSettings, time_limit, told
from kafkasim.sim.host.lifecycle import Host
from kafkasim.sim.world import World

if TYPE_CHECKING:
    from kafkasim.model.broker.zk.broker import ZkBroker
    from kafkasim.model.zookeeper.server.quorum_peer import QuorumPeer


class Cluster:
    """The servers of one run, and its client hosts.

    ``voters`` are the first voters of the KRaft quorum, node id to endpoint; in ZooKeeper mode
    ``ensemble`` are the ZooKeeper servers. ``hosts`` are the hosts of either, and of standby
    controllers, by node id.
    """

    def __init__(
        self, world: World, trace: FactSource, scenario: Scenario, variants: Sequence[str]
    ) -> None:
        """Add all hosts to the world, with these variants in force; ``trace`` names topics."""
        self.world = world
        self.scenario = scenario
        cluster = scenario.cluster
        self.acted: dict[str, None] = {}  # rules whose variant has decided otherwise than Kafka
        self._early: dict[tuple[str, str], None] = {}  # (node, rule) that acted before all is ready
        self._ready = False
        self.settings = NodeSettings(cluster, variants, epochs_used(scenario), self._on_act)
        self.combined = cluster.combined
        self.duplicates: list[Host] = []
        trace.subscribe(facts.Phase, self._on_phase)
        self._features = self.settings.formatted_features()
        self._directories: dict[str, tuple[Any, str]] = {}  # controller -> (disk, directory id)
        self._first_disks: dict[str, Any] = {}  # by broker
        self._factories: dict[str, Callable[..., Any]] = {}
        zookeeper = cluster.mode == "zookeeper"
        voters = 0 if zookeeper else cluster.controllers
        controllers = voters + cluster.standby_controllers if voters else 0
        self.voters = {
            controller_id(number, self.combined): f"controller-{number}"
            for number in range(1, voters + 1)
        }
        servers = cluster.zookeepers if zookeeper else 0
        self.ensemble = {number: f"zookeeper-{number}" for number in range(1, servers + 1)}
        self.hosts = self.ensemble or controller_hosts(controllers, self.combined)
        self.first_voters = tuple(self.ensemble or self.voters)
        apart = range(self.combined + 1, controllers + 1)  # controllers on hosts of their own
        self.controllers = [self._add_controller(number) for number in apart]
        self.zookeepers = [self._add_zookeeper(number) for number in self.ensemble]
        self.brokers = [self._add_broker(number) for number in range(1, cluster.brokers + 1)]
        bootstrap = [host.name for host in self.brokers]
        self.clients = ClientHosts(world, scenario, self.settings.rules(), bootstrap)

    def _on_act(self, node: str, rule: str) -> bool:
        """Write that a variant has acted: once before the cluster is ready, and once since then."""
        if not self._ready and (node, rule) in self._early:
            return False
        self._early[node, rule] = None
        self.acted[rule] = None
        self.world.trace.record(self.world.now, node or "world", facts.RuleActed(rule))
        return self._ready

    def _on_phase(self, _seq: int, _t: int, _node: str, fact: facts.Phase) -> None:
        self._ready = self._ready or fact.phase == "ready"

    @property
    def servers(self) -> list[str]:
        """The names of the hosts of controllers, of the ensemble and of brokers."""
        return [host.name for host in [*self.controllers, *self.zookeepers, *self.brokers]]

    def start_servers(self) -> None:
        """Start all controllers or the ensemble, then all brokers."""
        for host in [*self.controllers, *self.zookeepers, *self.brokers]:
            node = self.scenario.cluster.nodes.get(host.name)
            if node is None or not node.start:
                host.start(self._factories[host.name])
            else:
                self.world.at(self.world.now + node.start, host.start, self._factories[host.name])

    def broker_process(self, node: str) -> KafkaBrokerProcess | None:
        """Return the broker that runs on a node, or None."""
        process = self.world.hosts[node].process
        if isinstance(process, CombinedNode):
            return process.broker
        assert process is None or isinstance(process, KafkaBrokerProcess), process
        return process

    def start_duplicate(self, node: str) -> None:
        """Start a second process with the node id of a broker, on a host of its own."""
        name = f"{node}b"
        host = self._add_host(name, None)
        self.duplicates.append(host)
        host.start(self._broker_factory(name, int(node.rpartition("-")[2]), None))

    def stop_duplicates(self) -> None:
        """Kill the second processes and leave them down."""
        for host in self.duplicates:
            host.crash()
            del self.world.hosts[host.name]
        self.duplicates.clear()

    def voter(self, node: str) -> tuple[int, str, str]:
        """Return id, directory id and address of the controller on a host.

        The directory id is "" before the controller's first start.
        """
        node_id = next(each for each, host in self.hosts.items() if host == node)
        directory_id = self._directories.get(node, (None, ""))[1]
        return node_id, directory_id, f"controller-{node.rpartition('-')[2]}"

    def directory_ids(self, node: str) -> tuple[str, ...]:
        """Return the directory id of a controller, none before its first start or of a broker."""
        return (self._directories[node][1],) if node in self._directories else ()

    def _is_first_disk(self, node: str, files: Files) -> bool:
        """Return whether a broker's disk is the one that it has started with first."""
        return self._first_disks.setdefault(node, files) is files

    def _format(self, node: str, files: Files) -> str:
        """Return the directory id that kafka-storage format writes on a disk, once for each."""
        disk, directory_id = self._directories.get(node, (None, ""))
        if disk is not files:
            directory_id = self._drawn(node, directory_id)
            self._directories[node] = (files, directory_id)
        return directory_id

    def _drawn(self, node: str, before: str) -> str:
        """Return the directory id of a disk of a node, after a disk with the id ``before``."""
        rng = self.world.streams.stream(node, "directory", before)
        text = base64.urlsafe_b64encode(rng.getrandbits(128).to_bytes(16, "big")).decode()
        return text.rstrip("=")

    def _voter_directories(self) -> dict[int, str] | None:
        """Return the directory ids of the first voters if the voters may change.

        A quorum with a standby is formatted with --initial-controllers, so that it may.
        """
        if not self.scenario.cluster.standby_controllers:
            return None
        return {voter: self._drawn(self.hosts[voter], "") for voter in self.first_voters}

    def _add_host(
        self,
        name: str,
        rack: str | None,
        endpoints: tuple[str, ...] | None = None,
        volumes: Mapping[str, int] | None = None,
    ) -> Host:
        cluster = self.scenario.cluster
        host = self.world.add_host(
            name,
            rack=rack or "rack-0",
            endpoints=endpoints,
            volumes=volumes,
            principal=cluster.principal,
        )
        host.card.connection_us = cluster.connection_setup
        return host

    def _add_controller(self, number: int) -> Host:
        name, node_id = f"controller-{number}", controller_id(number, self.combined)
        rack = self.settings.rack(name, number)

        def factory(files: Files, rng: random.Random, now: int) -> Controller:
            config, rules = self.settings.config(name), self.settings.rules(name)
            return told(config, Controller(
                name, node_id, self.voters, config, rules, files, rng, now, self._features,
                self._format(name, files), voter_directories=self._voter_directories(),
            ))  # fmt: skip

        host = self._add_host(name, rack)
        self._factories[name] = factory
        return host

    def _add_zookeeper(self, number: int) -> Host:
        """Add a server of the ensemble; runs in KRaft mode import nothing of it."""
        from kafkasim.model.zookeeper.config import ZooKeeperConfig
        from kafkasim.model.zookeeper.server.quorum_peer import QuorumPeer

        name = self.ensemble[number]
        rack = self.settings.rack(name, number)
        config = ZooKeeperConfig.from_properties(self.scenario.cluster.zookeeper_config)
        rules = self.settings.rules().zookeeper

        def factory(files: Files, rng: random.Random, now: int) -> QuorumPeer:
            peer = QuorumPeer(name, number, self.ensemble, config, rules, files, rng, now)
            limits = (
                ("minSessionTimeout", config.min_session_timeout_ms),
                ("maxSessionTimeout", config.max_session_timeout_ms),
            )
            peer.out.extend([time_limit(key, limit) for key, limit in limits])
            return peer

        host = self._add_host(name, rack)
        self._factories[name] = factory
        return host

    def _add_broker(self, broker_id: int) -> Host:
        name = f"broker-{broker_id}"
        rack = self.settings.rack(name, broker_id)
        endpoints = (name, f"controller-{broker_id}") if broker_id <= self.combined else (name,)
        host = self._add_host(name, rack, endpoints, self.settings.volumes(name))
        combined = broker_id <= self.combined
        make = self._combined_factory if combined else self._broker_factory
        self._factories[name] = make(name, broker_id, rack)
        return host

    def _broker_factory(self, name: str, broker_id: int, rack: str | None) -> Callable[..., Any]:
        node = f"broker-{broker_id}"  # a second process of it has another name
        servers = tuple(self.ensemble.values())

        def factory(files: Files, rng: random.Random, now: int) -> Broker | ZkBroker:
            config, rules = self.settings.config(node), self.settings.broker_rules(node)
            if servers:
                from kafkasim.model.broker.zk.broker import ZkBroker

                zk = ZkBroker(name, broker_id, config, rack, servers, rules, files, rng, now)
                zk.compressor = self.clients.compressor
                return told(config, zk)
            directory_id = "" if self._is_first_disk(name, files) else self._format(name, files)
            broker = Broker(
                name, broker_id, config, rack, self.voters, rules, files, rng, now,
                directory_id=directory_id,
            )  # fmt: skip
            broker.compressor = self.clients.compressor
            return told(config, broker)

        return factory

    def _combined_factory(self, name: str, node_id: int, rack: str | None) -> Callable[..., Any]:
        def factory(files: Files, rng: random.Random, now: int) -> CombinedNode:
            config, rules = self.settings.config(name), self.settings.rules(name)
            combined = CombinedNode(
                name, node_id, config, rack, self.voters, rules,
                self.settings.broker_rules(name), files, rng, now, self._features,
                self._format(name, files), self._voter_directories(),
                self._is_first_disk(name, files),
            )  # fmt: skip
            combined.broker.compressor = self.clients.compressor
            return told(config, combined)

        return factory
