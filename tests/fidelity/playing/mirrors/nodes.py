"""The nodes of several real clusters, and the connect-mirror-makers between them.

All have the names that they have in a scenario: ``a.broker-1``, ``mirror-1``.
"""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

from kafkasim.scenarios.language.clusters import members
from kafkasim.scenarios.language.tables import MirrorTable, Scenario
from kafkasim.scenarios.running.operations import properties_text
from tests.fidelity.playing.clients import SEGMENT, ClientNodes
from tests.fidelity.playing.formatting import write_properties
from tests.fidelity.playing.mirrors.log import Stored, stored_records
from tests.fidelity.playing.nodes import JVM
from tests.fidelity.playing.proxy import MIRROR
from tests.fidelity.real_kafka import fetched

MAIN = "org.apache.kafka.connect.mirror.MirrorMaker"

OF_WORKER = ("offset.flush.interval.ms", "session.timeout.ms", "heartbeat.interval.ms")
"""Settings of a Connect worker that a mirror takes only with its target's name before them
(MirrorMakerConfig.workerConfig)."""

STORES = ("config.storage.replication.factor", "status.storage.replication.factor")
"""Settings of internal topics that a scenario does not have: they are as those of the offsets."""

SOURCE_TASK = b"status-task-MirrorSourceConnector-0"
STATUS_PARTITIONS = 5
"""The default of status.storage.partitions."""


class Clusters:
    """The clusters of a scenario, by name, and its mirrors."""

    def __init__(self, scenario: Scenario, version: str, directory: Path) -> None:
        self.version = version.partition("-")[0]
        self.directory = directory
        self.members: dict[str, ClientNodes] = {}
        for name, alone in members(scenario).items():
            place = directory / name
            place.mkdir()
            self.members[name] = ClientNodes(alone, version, place)
        self.mirrors = {f"mirror-{n}": each for n, each in enumerate(scenario.mirrors, 1)}
        self.libs = fetched("connect-mirror", self.version)
        self.ids = {
            f"{cluster}.{name}": node
            for cluster, nodes in self.members.items()
            for name, node in nodes.ids.items()
        }
        self.starting: set[str] = set()
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._tasks_before: dict[str, int] = {}  # mirror -> starts of its task before its own start

    def start_all(self) -> None:
        """Start all servers, and return when they listen."""
        for nodes in self.members.values():
            nodes.start_all()
            nodes.starting.clear()

    def close(self) -> None:
        """Kill all processes and close the networks."""
        for process in self._running.values():
            process.kill()
        for process in self._running.values():
            process.wait()
        for nodes in self.members.values():
            nodes.close()

    # ------------------------------------------------------------------- what is done to a host

    def start(self, name: str) -> None:
        """Start a process if it does not run."""
        self.starting.add(name)
        if name not in self.mirrors:
            nodes, own = self._host(name)
            nodes.start(own)
        elif not self.alive(name):
            self._tasks_before[name] = self._task_starts(name)
            properties = self.directory / f"{name}.properties"
            write_properties(properties, self._settings(self.mirrors[name]))
            command = ["java", *JVM, "-cp", f"{self.libs}/*", MAIN, str(properties)]
            with (self.directory / f"{name}.log").open("ab") as log:
                self._running[name] = subprocess.Popen(
                    command, stdout=log, stderr=log, start_new_session=True
                )

    def kill(self, name: str) -> None:
        """Kill a process (kill -9)."""
        if name not in self.mirrors:
            nodes, own = self._host(name)
            nodes.kill(own)
        else:
            self._running[name].kill()
            self._running[name].wait()

    def stop(self, name: str) -> None:
        """Ask a process to shut down (SIGTERM), and return at once."""
        if name not in self.mirrors:
            nodes, own = self._host(name)
            nodes.stop(own)
        else:
            self._running[name].send_signal(signal.SIGTERM)

    def alive(self, name: str) -> bool:
        """Return whether a process runs."""
        if name not in self.mirrors:
            nodes, own = self._host(name)
            return nodes.alive(own)
        return name in self._running and self._running[name].poll() is None

    def cut(self, cluster: str, change: int) -> None:
        """Hold (``change`` 1) all that goes between mirrors and a cluster, or deliver it (−1)."""
        proxies = self.members[cluster].proxies
        act = proxies.cut if change > 0 else proxies.heal
        for node in self.members[cluster].brokers.values():
            act(MIRROR, node)
            act(node, MIRROR)

    def _host(self, name: str) -> tuple[ClientNodes, str]:
        cluster, _, own = name.partition(".")
        return self.members[cluster], own

    # ------------------------------------------------------------------------- what is seen of it

    def mirrors_now(self, name: str) -> bool:
        """Return whether the source task of a mirror has begun since the mirror was started."""
        return self._task_starts(name) > self._tasks_before[name]

    def _task_starts(self, name: str) -> int:
        """Return how often the status topic says that the source task of a mirror runs."""
        table = self.mirrors[name]
        return sum(
            json.loads(value)["state"] == "RUNNING"
            for number in range(STATUS_PARTITIONS)
            for key, value in self.stored(
                table.target, f"mm2-status.{table.source}.internal", number
            )
            if key == SOURCE_TASK and value is not None
        )

    def stored(self, cluster: str, topic: str, partition: int = 0) -> list[Stored]:
        """Return the records of a partition; none if it does not exist."""
        nodes = self.members[cluster]
        (name,) = nodes.brokers
        return stored_records(nodes.data(name) / f"{topic}-{partition}" / SEGMENT)

    # ------------------------------------------------------------------------------- settings

    def _settings(self, mirror: MirrorTable) -> dict[str, object]:
        """Return the properties of a mirror; those of its flow stand without its name."""
        own = dict(properties_text(mirror.config))
        stores = dict.fromkeys(STORES, own["offset.storage.replication.factor"])
        return {
            "clusters": f"{mirror.source},{mirror.target}",
            **dict(self._bootstrap()),
            f"{mirror.source}->{mirror.target}.enabled": True,
            **stores,
            **{f"{mirror.target}.{key}" if key in OF_WORKER else key: own[key] for key in own},
        }

    def _bootstrap(self) -> Iterator[tuple[str, str]]:
        for name, nodes in self.members.items():
            ports = [nodes.ports[node][0] for node in nodes.brokers.values()]
            yield f"{name}.bootstrap.servers", ",".join(f"127.0.0.1:{port}" for port in ports)
