"""The processes of one real cluster in KRaft mode, each behind a proxy of its own.

``controller-N`` and ``broker-N`` are JVMs with the node ids that the model's hosts have; a combined
node is ``broker-N``. What ``kafka-storage format`` writes is written once and copied
(``formatting.py``), and a shared archive of classes halves the time of a start.
"""

from __future__ import annotations

import json
import random
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

from kafkasim.model.messages import CLUSTER_ID
from kafkasim.scenarios.language.nodes import controller_hosts
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.operations import properties_text
from tests.fidelity.playing.formatting import Directories, format_all, write_properties
from tests.fidelity.playing.metadata_log import LOG, end_of_log
from tests.fidelity.playing.proxy import Proxies
from tests.fidelity.real_kafka import START_SECONDS, NoKafka, jars

PORTS = range(20_000, 32_000)
"""Where nodes listen: below the ports that the system gives to outgoing connections."""

JVM = ("-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1")


class Nodes:
    """The nodes of a scenario's cluster."""

    def __init__(self, scenario: Scenario, version: str, directory: Path) -> None:
        cluster = scenario.cluster
        self.libs = jars(version)
        self.directory = directory
        self.scenario = scenario
        self.controllers = self._controllers()
        self.brokers = {f"broker-{n}": n for n in range(1, cluster.brokers + 1)}
        self.ids = self.controllers | self.brokers
        ports = free_ports()
        self.ports = {node: (next(ports), next(ports)) for node in self.ids.values()}
        self.controller_ports = {
            node: (next(ports), next(ports)) if name in self.brokers else self.ports[node]
            for name, node in self.controllers.items()
        }
        listeners = {node: [pair] for node, pair in self.ports.items()}
        for name, node in self.controllers.items():
            if name in self.brokers:  # a combined node listens as both
                listeners[node].append(self.controller_ports[node])
        self.proxies = Proxies(listeners)
        self.directories = Directories(scenario, directory)
        self._archive = class_archive(version)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._paused: set[str] = set()
        self.starting: set[str] = set()  # those started last, whose JVMs still boot

    def _controllers(self) -> dict[str, int]:
        """Return the node ids of the metadata's own nodes, which start before the brokers."""
        cluster = self.scenario.cluster
        count = cluster.controllers + cluster.standby_controllers
        return {host: node for node, host in controller_hosts(count, cluster.combined).items()}

    def start_all(self) -> None:
        """Format all nodes, start them, and return when all of them listen."""
        self._format()
        for name in self.ids:
            self.start(name)
        end = time.monotonic() + START_SECONDS
        for name in self.ids:
            while not self.listens(name):
                if time.monotonic() > end or not self.alive(name):
                    raise NoKafka(f"{name} does not listen: see {self.log_file(name)}")
                time.sleep(0.1)

    def close(self) -> None:
        """Kill all processes and close the network."""
        for process in self._running.values():
            if process.poll() is None:
                process.kill()
        for process in self._running.values():
            process.wait()
        self.proxies.close()

    # ------------------------------------------------------------------- what is done to a node

    def start(self, name: str) -> None:
        """Start a node's process if it does not run."""
        if self.alive(name):
            return
        self.proxies.listen(self.ids[name])
        self.starting.add(name)
        with self.log_file(name).open("ab") as log:
            command = self._command(self._main(name), str(self._properties(name)))
            self._running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True
            )

    def kill(self, name: str) -> None:
        """Kill a node's process (kill -9)."""
        self._signal(name, signal.SIGKILL)
        self._running[name].wait()
        self.proxies.refuse(self.ids[name])
        self._paused.discard(name)

    def stop(self, name: str) -> None:
        """Ask a node's process to shut down (SIGTERM), and return at once."""
        self._signal(name, signal.SIGTERM)

    def pause(self, name: str) -> None:
        """Let a node's process stand still."""
        self._signal(name, signal.SIGSTOP)
        self._paused.add(name)

    def resume(self, name: str) -> None:
        """Let a paused process go on."""
        self._signal(name, signal.SIGCONT)
        self._paused.discard(name)

    def replace_disk(self, name: str) -> None:
        """Put empty disks into the machine of a node that is down."""
        self.directories.replace(name, self.ids[name])

    def listens(self, name: str) -> bool:
        """Return whether a node accepts connections."""
        return _listens(self.ports[self.ids[name]][1])

    def alive(self, name: str) -> bool:
        """Return whether a node's process runs, paused or not."""
        process = self._running.get(name)
        if process is None:
            return False
        if process.poll() is not None:
            self.proxies.refuse(self.ids[name])
            return False
        return True

    def answering(self) -> list[str]:
        """Return the brokers whose processes run and are not paused."""
        return [name for name in self.brokers if self.alive(name) and name not in self._paused]

    # ------------------------------------------------------------------------- what is seen of it

    def data(self, name: str) -> Path:
        """Return the directory with the metadata log of a node."""
        return self.directories.metadata(name)

    def best_log(self) -> Path:
        """Return the log directory of the controller that has all that is committed."""
        return max((self.data(name) for name in self.controllers), key=end_of_log)

    def active_controller(self) -> str:
        """Return who leads the quorum, as the controllers' election states say."""
        states = [self._election_state(name) for name in self.controllers]
        known = [(epoch, leader) for epoch, leader in states if leader >= 0]
        leader = max(known)[1]
        return next(name for name, node in self.controllers.items() if node == leader)

    def _election_state(self, name: str) -> tuple[int, int]:
        file = self.data(name) / LOG.parent / "quorum-state"
        state = json.loads(file.read_text())
        return state["leaderEpoch"], state["leaderId"]

    # ------------------------------------------------------------------------------- set-up

    def _format(self) -> None:
        for name in self.ids:
            write_properties(self._properties(name), self._settings(name))
        voters = {
            name: f"{node}@127.0.0.1:{self.controller_ports[node][0]}"
            for name, node in self._first_voters().items()
        }
        command = self._command("kafka.tools.StorageTool", "format", "-t", CLUSTER_ID)
        features = self.scenario.cluster.features.items()
        command += [part for key, level in features for part in ("--feature", f"{key}={level}")]
        command += ["-c", str(self._properties(next(iter(voters))))]
        format_all(command, self.directories, self.ids, voters, dynamic=self._dynamic)

    @property
    def _dynamic(self) -> bool:
        """Whether the voters may change: the cluster is formatted with kraft.version 1."""
        return self.scenario.cluster.standby_controllers > 0

    def _first_voters(self) -> dict[str, int]:
        """Return the node ids of the controllers that vote from the beginning."""
        count = self.scenario.cluster.controllers
        return dict(list(self.controllers.items())[:count])

    def _settings(self, name: str) -> dict[str, object]:
        """Return the properties of a node."""
        node, cluster = self.ids[name], self.scenario.cluster
        given = {
            "PLAINTEXT": self.ports[node] if name in self.brokers else None,
            "CONTROLLER": self.controller_ports[node] if name in self.controllers else None,
        }
        listeners = [(kind, *pair) for kind, pair in given.items() if pair is not None]
        roles = {"broker": self.brokers, "controller": self.controllers}
        voters = {
            node: f"127.0.0.1:{self.controller_ports[node][0]}"
            for node in self._first_voters().values()
        }
        quorum = {"controller.quorum.voters": ",".join(f"{i}@{at}" for i, at in voters.items())}
        if self._dynamic:
            quorum = {"controller.quorum.bootstrap.servers": ",".join(voters.values())}
        own = cluster.nodes[name].config if name in cluster.nodes else {}
        return {
            "process.roles": ",".join(role for role, names in roles.items() if name in names),
            "node.id": node,
            **quorum,
            "controller.listener.names": "CONTROLLER",
            "listeners": ",".join(f"{kind}://127.0.0.1:{far}" for kind, _, far in listeners),
            "advertised.listeners": ",".join(
                f"{kind}://127.0.0.1:{near}" for kind, near, _ in listeners
            ),
            **dict(properties_text({**cluster.config, **own})),
            **self.directories.properties(name),
        }

    def _properties(self, name: str) -> Path:
        return self.directory / f"{name}.properties"

    def log_file(self, name: str) -> Path:
        """Return what a node has printed."""
        return self.directory / f"{name}.log"

    def _command(self, main: str, *arguments: str) -> list[str]:
        archive = f"-XX:SharedArchiveFile={self._archive}"
        return ["java", *JVM, archive, "-cp", f"{self.libs}/*", main, *arguments]

    def _main(self, name: str) -> str:  # a subclass has nodes of another program
        """Return the main class of a node's program."""
        return "kafka.Kafka"

    def _signal(self, name: str, what: signal.Signals) -> None:
        self._running[name].send_signal(what)


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


_given: set[int] = set()  # ports that clusters of this process have, or had


def free_ports() -> Iterator[int]:
    """Yield ports on which nothing listens."""
    for port in random.sample(PORTS, 200):
        try:
            socket.create_server(("127.0.0.1", port)).close()
        except OSError:
            continue
        if port not in _given:
            _given.add(port)
            yield port


def class_archive(version: str) -> Path:
    """Return an archive of the classes that a node loads, made by a first short run (AppCDS).

    Raises:
        NoKafka: Kafka cannot be run here.
    """
    libs = jars(version)
    archive = libs.parent / f"classes-{version}.jsa"
    if archive.exists():
        return archive
    place = libs.parent / "first-run"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    ports = free_ports()
    controller, broker = next(ports), next(ports)
    write_properties(
        place / "node.properties",
        {
            "process.roles": "broker,controller",
            "node.id": 1,
            "controller.quorum.voters": f"1@127.0.0.1:{controller}",
            "controller.listener.names": "CONTROLLER",
            "listeners": f"CONTROLLER://127.0.0.1:{controller},PLAINTEXT://127.0.0.1:{broker}",
            "log.dirs": place / "data",
        },
    )
    java = ["java", *JVM, "-cp", f"{libs}/*"]
    settings = str(place / "node.properties")
    formatted = ["kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", settings]
    subprocess.run([*java, *formatted], check=True, capture_output=True)
    process = subprocess.Popen(
        [*java[:-2], f"-XX:ArchiveClassesAtExit={archive}", *java[-2:], "kafka.Kafka", settings],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    end = time.monotonic() + START_SECONDS
    while not _listens(broker):
        if time.monotonic() > end:
            raise NoKafka(f"the first run of Kafka {version} does not listen: see {settings}")
        time.sleep(0.2)
    time.sleep(2)
    process.terminate()
    process.wait()
    return archive
