"""Real Kafka 3.9 with its ZooKeeper: one ZooKeeper server and brokers 1, 2, 3 on loopback."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.fidelity.real_kafka import BROKERS, NoKafka, RealCluster, free_ports, wait_for_port

VERSION = "3.9.1-zookeeper"
"""The name of the newest version with ZooKeeper."""

ZOOKEEPER = 0
"""The node number of the ZooKeeper server."""


def cluster_of(version: str, directory: Path, settings: Mapping[str, str]) -> RealCluster:
    """Return a cluster of a version, which ends in ``-zookeeper`` for ZooKeeper mode."""
    number, _, mode = version.partition("-")
    kind = RealZooKeeperCluster if mode == "zookeeper" else RealCluster
    return kind(number, directory, settings)


class RealZooKeeperCluster(RealCluster):
    """One ZooKeeper server and three brokers."""

    def __init__(self, version: str, directory: Path, settings: Mapping[str, str]) -> None:
        super().__init__(version, directory, settings)
        self.ports = dict(zip((ZOOKEEPER, *BROKERS), free_ports(4)))

    def start(self) -> None:
        """Start ZooKeeper and the brokers, one after the other; return when all ports listen."""
        lines = {
            "dataDir": self.directory / "zookeeper",
            "clientPort": self.ports[ZOOKEEPER],
            "clientPortAddress": "127.0.0.1",
            "admin.enableServer": "false",
        }
        self._write(self._file(ZOOKEEPER), lines)
        for node in self.ports:  # the first broker becomes the controller
            if node != ZOOKEEPER:
                self._write_properties(node)
            self.start_node(node)
            wait_for_port(self.ports[node])

    def start_node(self, node: int) -> None:
        """Start one node's process."""
        main = "kafka.Kafka"
        if node == ZOOKEEPER:
            main = "org.apache.zookeeper.server.quorum.QuorumPeerMain"
        self._start(node, main)

    def broker_epoch(self, broker: int) -> int:
        """Return the epoch of a broker's registration: the transaction that created its znode.

        Raises:
            NoKafka: ZooKeeper does not know the broker.
        """
        server = f"127.0.0.1:{self.ports[ZOOKEEPER]}"
        main, znode = "org.apache.zookeeper.ZooKeeperMain", f"/brokers/ids/{broker}"
        command = self._command(main, "-server", server, "stat", znode)
        done = subprocess.run(command, capture_output=True, text=True)
        found = re.search(r"cZxid = (0x[0-9a-f]+)", done.stdout)
        if found is None:
            raise NoKafka(f"no {znode}: {done.stderr[-400:].strip()}")
        return int(found[1], 16)

    def _write_properties(self, node: int) -> None:
        own = {
            "broker.id": node,
            "zookeeper.connect": f"127.0.0.1:{self.ports[ZOOKEEPER]}",
            "listeners": f"PLAINTEXT://127.0.0.1:{self.ports[node]}",
            "log.dirs": self._data(node),
        }
        self._write(self._file(node), own | self._settings_of(node))
