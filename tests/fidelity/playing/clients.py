"""Clients of a schedule on real Kafka: each is a program in a JVM of its own.

A JVM needs seconds to boot, longer than a schedule can wait. So every life that a client will have
boots before the schedule begins, and waits for its start.
"""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import IO

from kafkasim.model.values import value
from kafkasim.scenarios.language.tables import ConsumerGroupTable, ProducerTable, Scenario
from kafkasim.scenarios.running.operations import properties_text
from tests.fidelity.playing import HERE
from tests.fidelity.playing.formatting import write_properties
from tests.fidelity.playing.metadata_log import MetadataReader, end_of_segment
from tests.fidelity.playing.nodes import JVM, Nodes
from tests.fidelity.playing.real import RealPlay
from tests.fidelity.real_kafka import NoKafka, fetched

STARTING_KINDS = ("crash", "stop", "restart", "start", "replace-disk")
"""Faults and operations after which a client has another life."""

STREAMS_ARTIFACT = "kafka-streams-test-utils"
"""It brings the jars of Kafka Streams along, and is fetched for ``topologies/`` anyway."""

SEGMENT = "00000000000000000000.log"
"""The only segment of a partition in a short schedule."""


@value
class Program:
    """What runs on a client's host: ``java NAME PROPERTIES ARGUMENT…``.

    It prints "ready" once it has booted, begins with the line "go" on its input, and closes its
    client with the line "close".
    """

    name: str
    properties: Mapping[str, object]
    arguments: tuple[object, ...]
    start_us: int
    artifact: str = ""  # what it needs beside Kafka's jars


def programs(scenario: Scenario, directory: Path) -> dict[str, Program]:
    """Return the clients of a scenario by host; their files lie below a directory.

    They are members of groups, transactional producers and instances of Kafka Streams.
    """
    return dict([*_members(scenario), *_producers(scenario), *_instances(scenario, directory)])


def _members(scenario: Scenario) -> Iterator[tuple[str, Program]]:
    tables = [each for each in scenario.workload if isinstance(each, ConsumerGroupTable)]
    members = [(table, index) for table in tables for index in range(table.count)]
    for number, (table, index) in enumerate(members, 1):
        defaults = {} if table.commit == "auto" else {"enable.auto.commit": False}
        properties = {"group.id": table.group, **dict(properties_text(defaults | table.config))}
        is_stuck = table.stuck_at is not None and index == 0
        stuck_at = (table.stuck_at or 0) // 1000 if is_stuck else -1
        topics = table.topics or [scenario.topics[0].name]
        if table.pattern is not None:
            topics = [f"pattern:{table.pattern}"]
        arguments = (table.commit, stuck_at, (table.stuck_for or 0) // 1000, *topics)
        yield f"consumer-{number}", Program("GroupMember", properties, arguments, table.start)


def _producers(scenario: Scenario) -> Iterator[tuple[str, Program]]:
    tables = [each for each in scenario.workload if isinstance(each, ProducerTable)]
    for number, table in enumerate(tables, 1):
        if table.transactional_id is None:
            continue
        assert table.count == 1, "a schedule has a table for each transactional id"
        assert table.abort_share in (0, 1), "a schedule draws nothing"
        given = {"transactional.id": table.transactional_id}
        properties = {**given, **dict(properties_text(table.config))}
        arguments = (table.topic or scenario.topics[0].name, round(1000 / table.rate),
                     table.transaction_time // 1000, bool(table.abort_share),
                     table.when_fenced)  # fmt: skip
        program = Program("TransactionalProducer", properties, arguments, table.start)
        yield f"producer-{number}", program


def _instances(scenario: Scenario, directory: Path) -> Iterator[tuple[str, Program]]:
    tables = [(table, index) for table in scenario.streams for index in range(table.count)]
    for number, (table, index) in enumerate(tables, 1):
        name = f"streams-{number}"
        counts = ["group-by-key", "count", "to-stream"]
        (chain,) = table.topology
        *steps, last = chain["steps"]
        assert steps == counts, "java/StreamsInstance.java counts"
        config = {"state.dir": state_directory(directory, name), **table.properties}
        static = config.get("group.instance.id")
        if static is not None:
            config["group.instance.id"] = str(static).replace("{node}", name)
        arguments = (chain["stream"], last["to"], process_id(number))
        start_us = table.start + index * table.start_every
        properties = dict(properties_text(config))
        yield name, Program("StreamsInstance", properties, arguments, start_us, STREAMS_ARTIFACT)


def state_directory(directory: Path, name: str) -> Path:
    """Return the state.dir of an instance of Kafka Streams, below the directory of a schedule."""
    return directory / f"state-{name}"


def process_id(number: int) -> str:
    """Return the process id of an instance: the assignment follows the order of the ids."""
    return f"00000000-0000-0000-0000-{number:012d}"


class ClientNodes(Nodes):
    """The nodes of a cluster, and the clients beside them."""

    def __init__(self, scenario: Scenario, version: str, directory: Path) -> None:
        super().__init__(scenario, version.partition("-")[0], directory)
        self.programs = programs(scenario, directory)
        self.version = version.partition("-")[0]
        self._waiting: dict[str, list[subprocess.Popen[bytes]]] = {}  # lives to come
        self._lives: dict[str, subprocess.Popen[bytes]] = {}

    def boot_clients(self) -> None:
        """Boot a JVM for every life of every client.

        Raises:
            NoKafka: the program of a client does not compile or start.
        """
        classes = self.directory / "classes"
        names = sorted({program.name for program in self.programs.values()})
        sources = [str(HERE / "java" / f"{name}.java") for name in names]
        artifacts = {program.artifact for program in self.programs.values()} - {""}
        libs = [self.libs, *[fetched(each, self.version) for each in sorted(artifacts)]]
        self._class_path = ":".join([*[f"{each}/*" for each in libs], str(classes)])
        command = ["javac", "-cp", self._class_path, "-d", str(classes), *sources]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise NoKafka(f"javac failed: {done.stderr[-400:]}")
        brokers = ",".join(f"127.0.0.1:{self.ports[i][1]}" for i in self.brokers.values())
        for name, program in self.programs.items():
            given = {"bootstrap.servers": brokers, "client.id": name, **program.properties}
            write_properties(self._properties(name), given)
            lives = range(self._life_count(name))
            self._waiting[name] = [self._boot(name, program) for _ in lives]
        for waiting in self._waiting.values():
            for life in waiting:
                if _out(life).readline() != b"ready\n":
                    raise NoKafka(f"a client does not boot: see {self.directory}")

    def _life_count(self, name: str) -> int:
        given = [*self.scenario.faults, *self.scenario.operations]
        return 1 + sum(each.kind in STARTING_KINDS and each.node == name for each in given)

    def _boot(self, name: str, program: Program) -> subprocess.Popen[bytes]:
        archive = f"-XX:SharedArchiveFile={self._archive}"
        command = ["java", *JVM, archive, "-cp", self._class_path, program.name]
        arguments = [str(self._properties(name)), *map(str, program.arguments)]
        with self.log_file(name).open("ab") as log:
            return subprocess.Popen(
                [*command, *arguments],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, start_new_session=True,
            )  # fmt: skip

    def close(self) -> None:
        """Kill all processes and close the network."""
        lives = [
            *self._lives.values(),
            *[each for lives in self._waiting.values() for each in lives],
        ]
        for life in lives:
            life.kill()
        for life in lives:
            life.wait()
        super().close()

    # ----------------------------------------------------------------- what is done to a client

    def start(self, name: str) -> None:
        """Start a node, or let the next life of a client begin."""
        if name not in self.programs:
            super().start(name)
        elif not self.alive(name):
            self._lives[name] = self._waiting[name].pop(0)
            _tell(self._lives[name], b"go\n")

    def kill(self, name: str) -> None:
        """Kill a process (kill -9)."""
        if name not in self.programs:
            super().kill(name)
        else:
            self._signal(name, signal.SIGKILL)
            self._lives[name].wait()

    def stop(self, name: str) -> None:
        """Ask a node to shut down, or a program to close its client; return at once."""
        if name not in self.programs:
            super().stop(name)
        else:
            _tell(self._lives[name], b"close\n")

    def replace_disk(self, name: str) -> None:
        """Put empty disks into the machine of a node or an instance that is down."""
        if name not in self.programs:
            super().replace_disk(name)
        else:
            shutil.rmtree(state_directory(self.directory, name))

    def alive(self, name: str) -> bool:
        """Return whether a process runs, paused or not."""
        if name not in self.programs:
            return super().alive(name)
        return name in self._lives and self._lives[name].poll() is None

    def _signal(self, name: str, what: signal.Signals) -> None:
        if name not in self.programs:
            super()._signal(name, what)
        else:
            self._lives[name].send_signal(what)


class StoredLogs:
    """The logs of partitions, as the brokers' files have them."""

    def __init__(self, nodes: ClientNodes) -> None:
        self.nodes = nodes
        self.libs = nodes.libs
        records = MetadataReader(next(nodes.libs.glob("kafka-metadata-*.jar"))).entries(
            nodes.best_log()
        )
        self.topics: dict[str, str] = {
            each.fields["topicId"]: each.fields["name"]
            for each in records
            if each.kind == "TopicRecord"
        }
        """Id to name."""

    def numbers(self, topic: str) -> list[int]:
        """Return the partitions of a topic; one that is deleted has none."""
        nodes = self.nodes
        places = [each for name in nodes.brokers for each in nodes.data(name).iterdir()]
        found = [re.fullmatch(rf"{re.escape(topic)}-(\d+)", each.name) for each in places]
        return sorted({int(each[1]) for each in found if each is not None})

    def segment(self, topic: str, number: int) -> Path:
        """Return the file of a partition that has all that is committed."""
        nodes = self.nodes
        files = [nodes.data(name) / f"{topic}-{number}" / SEGMENT for name in nodes.brokers]
        return max(files, key=end_of_segment)

    def end(self, topic: str, number: int) -> int:
        """Return the end offset of a partition."""
        return end_of_segment(self.segment(topic, number))[1]


class RealClientPlay(RealPlay):
    """One schedule with clients on a version of Kafka; its history ends before all is healed."""

    nodes_type = ClientNodes
    nodes: ClientNodes

    def __init__(
        self, told: Callable[[StoredLogs], list[str]], scenario: Scenario, version: str,
        directory: Path,
    ) -> None:  # fmt: skip
        """``told`` is the text of the ground truth that the coordinators have left."""
        super().__init__(scenario, version, directory)
        self._told = told
        self._lines: list[str] = []

    def _play(self) -> None:
        self.nodes.boot_clients()
        for name, program in self.nodes.programs.items():
            self._add(program.start_us / 1e6, partial(self.nodes.start, name))
        super()._play()
        self._lines = self._told(StoredLogs(self.nodes))

    def _history(self, start: int) -> list[str]:
        return self._lines


def _tell(life: subprocess.Popen[bytes], line: bytes) -> None:
    assert life.stdin is not None
    life.stdin.write(line)
    life.stdin.flush()


def _out(life: subprocess.Popen[bytes]) -> IO[bytes]:
    assert life.stdout is not None
    return life.stdout
