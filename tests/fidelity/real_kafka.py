"""Real Apache Kafka on this machine: jars from Maven Central, processes on loopback.

A cluster is one controller (node 100) and brokers 1, 2, 3, each a JVM of its own with a small heap,
as the little world of the model's tests has it. Everything lies below one directory, and all
processes are killed at the end.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

from kafkasim.model.messages import CLUSTER_ID

VERSIONS = ("4.0.0", "4.1.0")
CACHE = Path(os.environ.get("KAFKASIM_CACHE", Path.home() / ".cache" / "kafkasim"))
CONTROLLER = 100
BROKERS = (1, 2, 3)
START_SECONDS = 120.0

PATHS = ("log.dirs", "metadata.log.dir")
"""The settings whose paths lie below a node's own directory."""

SECURED = "authorizer.class.name"
"""The setting with which brokers have a second listener, whose clients authenticate."""

USERS = ("alice", "bob", "root", *(f"user-{number}" for number in range(64)))
"""Who may authenticate there; the password is the name."""

DIRECTORY_ID = "MDAwMDAwMDAwMDAwMDEwMA"
"""The id of the controller's directory, where the quorum's voters may change."""

POM = """<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>
<groupId>kafkasim</groupId><artifactId>fidelity</artifactId><version>1</version><dependencies>
<dependency><groupId>org.apache.kafka</groupId><artifactId>{artifact}</artifactId>
<version>{version}</version></dependency></dependencies></project>
"""


class NoKafka(Exception):
    """Real Kafka cannot be run here; the message says what is missing."""


def jars(version: str) -> Path:
    """Return the directory with Kafka's jars, fetched by Maven when it is not there yet.

    Raises:
        NoKafka: java or mvn is missing, or Maven could not fetch the jars.
    """
    return fetched("kafka_2.13", version, CACHE / f"kafka-{version}")


def fetched(artifact: str, version: str, place: Path | None = None) -> Path:
    """Return the directory with the jars of an artifact of Kafka and of what it needs.

    Raises:
        NoKafka: java or mvn is missing, or Maven could not fetch the jars.
    """
    for program in ("java", "mvn"):
        if shutil.which(program) is None:
            raise NoKafka(f"{program} is not on PATH: real Kafka needs JDK 17 or newer and Maven")
    place = place or CACHE / f"{artifact}-{version}"
    libs = place / "libs"
    if not (place / "complete").exists():
        place.mkdir(parents=True, exist_ok=True)
        (place / "pom.xml").write_text(POM.format(artifact=artifact, version=version))
        command = ["mvn", "-q", "-B", "dependency:copy-dependencies", "-DincludeScope=runtime"]
        done = subprocess.run(
            [*command, f"-DoutputDirectory={libs}"], cwd=place, capture_output=True, text=True
        )
        if done.returncode != 0:
            raise NoKafka(f"mvn could not fetch {artifact} {version}: {done.stdout[-400:].strip()}")
        (place / "complete").touch()
    return libs


def run_java(libs: Path, source: Path, *arguments: str) -> list[str]:
    """Run a Java source file with Kafka's jars on the class path; return the lines it prints.

    Raises:
        NoKafka: it failed.
    """
    command = ["java", "-cp", f"{libs}/*", str(source), *arguments]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise NoKafka(f"{source.name} failed: {done.stderr[-400:].strip()}")
    return done.stdout.splitlines()


class RealCluster:
    """One controller and brokers of a version of Kafka, three unless it is said.

    With ``kraft_version`` 1 the quorum's voters may change (KIP-853).
    """

    def __init__(
        self,
        version: str,
        directory: Path,
        settings: Mapping[str, str],
        kraft_version: int = 0,
        brokers: tuple[int, ...] = BROKERS,
    ) -> None:
        self.libs = jars(version)
        self.kraft_version = kraft_version
        self.directory = directory
        self.settings = dict(settings)
        self.ports = dict(zip((CONTROLLER, *brokers), free_ports(1 + len(brokers))))
        self.user_ports = dict(
            zip(brokers, free_ports(len(brokers)) if SECURED in settings else ())
        )
        self.processes: dict[int, subprocess.Popen[bytes]] = {}

    @property
    def clients_jar(self) -> Path:
        """The jar that holds the message schemas."""
        return next(self.libs.glob("kafka-clients-*.jar"))

    def start(self) -> None:
        """Format all nodes and start them; return when all ports listen."""
        for node in self.ports:
            self._write_properties(node)
            self._java(
                "kafka.tools.StorageTool", "format", "-t", CLUSTER_ID, "-c", self._file(node),
                *self._initial_controllers(node),
            )  # fmt: skip
        for node in self.ports:
            self.start_node(node)
        for node in self.ports:
            wait_for_port(self.ports[node])

    def start_node(self, node: int) -> None:
        """Start one node's process."""
        self._start(node, "kafka.Kafka")

    def stop(self) -> None:
        """Kill every process that still runs."""
        for process in self.processes.values():
            if process.poll() is None:
                process.send_signal(signal.SIGKILL)
        for process in self.processes.values():
            process.wait()

    def _write_properties(self, node: int) -> None:
        listener = f"127.0.0.1:{self.ports[node]}"
        common = {
            "node.id": str(node),
            **self._quorum(),
            "controller.listener.names": "CONTROLLER",
            "log.dirs": str(self._data(node)),
        }
        if node == CONTROLLER:
            own = {"process.roles": "controller", "listeners": f"CONTROLLER://{listener}"}
        else:
            own = {
                "process.roles": "broker",
                "listeners": f"PLAINTEXT://{listener}",
                "inter.broker.listener.name": "PLAINTEXT",
            }
            if node in self.user_ports:
                own |= _listener_of_users(own["listeners"], self.user_ports[node])
        self._write(self._file(node), common | own | self._settings_of(node))

    def _settings_of(self, node: int) -> dict[str, str]:
        """Return the settings of a cluster as a node has them."""
        below = self._data(node)
        return {
            key: ",".join(f"{below}{path}" for path in value.split(",")) if key in PATHS else value
            for key, value in self.settings.items()
        }

    def _data(self, node: int) -> Path:
        return self.directory / f"data-{node}"

    def fail_directory(self, node: int, log: str) -> None:
        """Put a file in the place of the directory that has a log; Kafka notices when it writes
        its next checkpoint there."""
        (place,) = (found.parent for found in self._data(node).glob(f"*/{log}"))
        place.rename(place.with_name(f"{place.name}-away"))
        place.touch()

    def _quorum(self) -> dict[str, str]:
        address = f"127.0.0.1:{self.ports[CONTROLLER]}"
        if self.kraft_version:
            return {"controller.quorum.bootstrap.servers": address}
        return {"controller.quorum.voters": f"{CONTROLLER}@{address}"}

    def _initial_controllers(self, node: int) -> tuple[str, ...]:
        """Return what kafka-storage format is told of the voters that may change."""
        if not self.kraft_version:
            return ()
        if node != CONTROLLER:
            return ("--no-initial-controllers",)
        voter = f"{CONTROLLER}@127.0.0.1:{self.ports[CONTROLLER]}:{DIRECTORY_ID}"
        return ("--initial-controllers", voter)

    def _start(self, node: int, main: str) -> None:
        with (self.directory / f"node-{node}.log").open("ab") as log:
            self.processes[node] = subprocess.Popen(
                self._command(main, str(self._file(node))), stdout=log, stderr=log
            )

    @staticmethod
    def _write(file: Path, properties: Mapping[str, object]) -> None:
        file.write_text("".join(f"{key}={value}\n" for key, value in properties.items()))

    def _file(self, node: int) -> Path:
        return self.directory / f"node-{node}.properties"

    def _command(self, main: str, *arguments: str) -> list[str]:
        return ["java", "-Xmx320m", "-XX:+UseSerialGC", "-cp", f"{self.libs}/*", main, *arguments]

    def _java(self, main: str, *arguments: object) -> None:
        done = subprocess.run(
            self._command(main, *map(str, arguments)), capture_output=True, text=True
        )
        if done.returncode != 0:
            raise NoKafka(f"{main} failed: {done.stderr[-400:].strip()}")


def _listener_of_users(listeners: str, port: int) -> dict[str, str]:
    """Return the settings of a listener for USERS beside that of brokers, who are ANONYMOUS."""
    users = " ".join(f'user_{user}="{user}"' for user in USERS)
    module = "org.apache.kafka.common.security.plain.PlainLoginModule"
    protocols = "CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT"
    return {
        "listeners": f"{listeners},USERS://127.0.0.1:{port}",
        "listener.security.protocol.map": protocols,
        "listener.name.users.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.users.plain.sasl.jaas.config": f"{module} required {users};",
    }


@contextlib.contextmanager
def running(cluster: RealCluster) -> Iterator[RealCluster]:
    """Start a cluster; kill it at the end."""
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def free_ports(count: int) -> list[int]:
    """Return ports on which nothing listens."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def wait_for_port(port: int) -> None:
    """Return when something listens on a port.

    Raises:
        NoKafka: nothing does for two minutes.
    """
    end = time.monotonic() + START_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise NoKafka(
                    f"nothing listens on port {port} after {START_SECONDS:.0f} s"
                ) from None
            time.sleep(0.2)
