"""Schedules in ZooKeeper mode: an ensemble and brokers of Kafka 3.9, real and simulated.

Each broker reaches the ensemble through ports of its own, so a cut can separate one from it. The
first broker starts before the others and is the controller.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from kafkasim.model import messages as m
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.operations import properties_text
from tests.fidelity.playing.formatting import write_properties
from tests.fidelity.playing.nodes import Nodes, free_ports
from tests.fidelity.playing.operator import Operator
from tests.fidelity.playing.real import RealPlay
from tests.fidelity.playing.simulated import SimulatedPlay
from tests.fidelity.playing.znode_history import ZnodeHistory
from tests.fidelity.playing.znodes import TransactionLog, model_changes
from tests.fidelity.real_kafka import START_SECONDS, NoKafka

FIRST_ID = 900
"""The ensemble's servers have node ids above this one."""


class ZooKeeperNodes(Nodes):
    """The processes of an ensemble and of its brokers."""

    def __init__(self, scenario: Scenario, version: str, directory: Path) -> None:
        assert scenario.cluster.mode == "zookeeper"
        super().__init__(scenario, version.partition("-")[0], directory)
        ports = free_ports()
        taken = {port for pair in self.ports.values() for port in pair}
        own = (port for port in ports if port not in taken)
        self._peers = {name: (next(own), next(own)) for name in self.controllers}
        self._links: dict[int, list[int]] = {}  # broker -> the ports by which it finds the ensemble
        for broker in self.brokers.values():
            self._links[broker] = []
            for server in self.controllers.values():
                near = next(own)
                self._links[broker].append(near)
                self.proxies.link(broker, server, (near, self.ports[server][1]))

    def _controllers(self) -> dict[str, int]:
        count = self.scenario.cluster.zookeepers
        return {f"zookeeper-{n}": FIRST_ID + n for n in range(1, count + 1)}

    def start_all(self) -> None:
        """Start the ensemble, then each broker when the one before it listens."""
        for name in self.ids:
            self._write_properties(name)
        for name in self.controllers:
            self.start(name)
        for name in self.ids:
            self.start(name)
            end = time.monotonic() + START_SECONDS
            while not self.listens(name):
                if time.monotonic() > end or not self.alive(name):
                    raise NoKafka(f"{name} does not listen: see {self.log_file(name)}")
                time.sleep(0.1)

    def best_log(self) -> Path:
        """Return the data directory of the server that has logged most."""
        places = [self.data(name) for name in self.controllers]
        return max(places, key=lambda place: TransactionLog(place).last_zxid())

    def active_controller(self) -> str:
        """Return the broker that /controller names."""
        changes = TransactionLog(self.best_log()).changes()
        found = [each.data for each in changes if each.path == "/controller"][-1]
        return f"broker-{found['brokerid']}"

    def _write_properties(self, name: str) -> None:
        cluster = self.scenario.cluster
        far = self.ports[self.ids[name]][1]
        if name in self.controllers:
            self.data(name).mkdir(parents=True, exist_ok=True)
            number = name.rpartition("-")[2]
            (self.data(name) / "myid").write_text(number)
            servers = {
                f"server.{each.rpartition('-')[2]}": f"127.0.0.1:{one}:{two}"
                for each, (one, two) in self._peers.items()
            }
            properties: dict[str, object] = {
                "dataDir": self.data(name), "clientPort": far, "clientPortAddress": "127.0.0.1",
                "admin.enableServer": "false", "tickTime": 2000, "initLimit": 10, "syncLimit": 5,
                **cluster.zookeeper_config, **(servers if len(servers) > 1 else {}),
            }  # fmt: skip
        else:
            own = cluster.nodes[name].config if name in cluster.nodes else {}
            near = self.ports[self.ids[name]][0]
            ensemble = [f"127.0.0.1:{port}" for port in self._links[self.ids[name]]]
            properties = {
                "broker.id": self.ids[name],
                "zookeeper.connect": ",".join(ensemble),
                "listeners": f"PLAINTEXT://127.0.0.1:{far}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{near}",
                "log.dirs": self.data(name),
                **dict(properties_text({**cluster.config, **own})),
            }
        write_properties(self._properties(name), properties)

    def _main(self, name: str) -> str:
        if name in self.controllers:
            return "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        return super()._main(name)


class ZooKeeperOperator(Operator):
    """Asks the controller, as clients of ZooKeeper mode must."""

    def ask_any(self, message: m.Message) -> Any:
        """Return the answer of the first broker that does not refuse with NOT_CONTROLLER."""
        for name in self.nodes.answering():
            answer = self.ask(self.nodes.brokers[name], message)
            if answer is not None and "NOT_CONTROLLER" not in repr(answer):
                return answer
        return None


class RealZooKeeperPlay(RealPlay):
    """One schedule on Kafka 3.9 with its ZooKeeper."""

    nodes_type = ZooKeeperNodes
    operator_type = ZooKeeperOperator

    def _end_of_truth(self) -> int:
        return TransactionLog(self.nodes.best_log()).last_zxid()

    def _history(self, start: int) -> list[str]:
        return ZnodeHistory(start).lines(TransactionLog(self.nodes.best_log()).changes())


class SimulatedZooKeeperPlay(SimulatedPlay):
    """One schedule on the model."""

    def _log(self) -> Any:
        """Return the log of the ensemble's server that has committed most."""
        servers = [host.process for host in self.run.cluster.zookeepers if host.process]
        return max([server.raft.log for server in servers], key=lambda log: log.log_end_offset)

    def _on_phase(self, seq: int, t: int, node: str, fact: Any) -> None:
        super()._on_phase(seq, t, node, fact)
        if fact.phase == "ready":
            self._start -= 1  # the last zxid before

    def _history(self) -> list[str]:
        records = [
            (batch.base_offset + delta, record.value)
            for batch in self._log().batches_from(0)
            for delta, record in enumerate(batch.records)
        ]
        return ZnodeHistory(self._start).lines(model_changes(records))
