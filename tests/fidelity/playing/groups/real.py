"""A schedule of groups on real Kafka: each member is a KafkaConsumer in a JVM of its own.

A JVM needs seconds to boot, longer than a schedule can wait. So every life that a member will have
boots before the schedule begins, and waits for its start (``java/GroupMember.java``).
"""

from __future__ import annotations

import re
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import IO

from kafkasim.model.records import GROUP_METADATA_TOPIC
from kafkasim.scenarios.language.tables import ConsumerGroupTable, Scenario
from kafkasim.scenarios.running.operations import properties_text
from tests.fidelity.playing import HERE
from tests.fidelity.playing.formatting import write_properties
from tests.fidelity.playing.groups.history import GroupHistory
from tests.fidelity.playing.groups.log import SEGMENT, GroupLogReader
from tests.fidelity.playing.metadata_log import MetadataReader, batches
from tests.fidelity.playing.nodes import JVM, Nodes
from tests.fidelity.playing.real import RealPlay
from tests.fidelity.real_kafka import NoKafka

BYTES = "org.apache.kafka.common.serialization.ByteArrayDeserializer"
STARTING_KINDS = ("crash", "stop", "restart", "start")
"""Faults and operations after which a member has another life."""


class GroupNodes(Nodes):
    """The nodes of a cluster, and the members of its groups beside them."""

    def __init__(self, scenario: Scenario, version: str, directory: Path) -> None:
        super().__init__(scenario, version.partition("-")[0], directory)
        self.members: dict[str, ConsumerGroupTable] = {}
        for table in scenario.workload:
            if table.kind == "consumer-group":
                for _ in range(table.count):
                    self.members[f"consumer-{len(self.members) + 1}"] = table
        self._waiting: dict[str, list[subprocess.Popen[bytes]]] = {}  # lives to come
        self._lives: dict[str, subprocess.Popen[bytes]] = {}

    def boot_members(self) -> None:
        """Boot a JVM for every life of every member.

        Raises:
            NoKafka: the program of the members does not compile or start.
        """
        classes = self.directory / "classes"
        source = str(HERE / "java" / "GroupMember.java")
        command = ["javac", "-cp", f"{self.libs}/*", "-d", str(classes), source]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode != 0:
            raise NoKafka(f"javac failed: {done.stderr[-400:]}")
        tables: list[ConsumerGroupTable] = []
        for name, table in self.members.items():
            is_first = all(table is not each for each in tables)
            tables.append(table)
            self._write_member(name, table)
            self._waiting[name] = [
                self._boot(name, table, classes, is_first) for _ in range(self._life_count(name))
            ]
        for lives in self._waiting.values():
            for life in lives:
                if _out(life).readline() != b"ready\n":
                    raise NoKafka(f"a member does not boot: see {self.directory}")

    def _life_count(self, name: str) -> int:
        given = [*self.scenario.faults, *self.scenario.operations]
        return 1 + sum(each.kind in STARTING_KINDS and each.node == name for each in given)

    def _write_member(self, name: str, table: ConsumerGroupTable) -> None:
        defaults = {} if table.commit == "auto" else {"enable.auto.commit": False}
        properties = {
            "bootstrap.servers": ",".join(
                f"127.0.0.1:{self.ports[i][1]}" for i in self.brokers.values()
            ),
            "group.id": table.group,
            "client.id": name,
            **dict(properties_text({**defaults, **table.config})),
        }
        write_properties(self._properties(name), properties)

    def _boot(
        self, name: str, table: ConsumerGroupTable, classes: Path, is_first: bool
    ) -> subprocess.Popen[bytes]:
        stuck_at = -1 if table.stuck_at is None or not is_first else table.stuck_at // 1000
        stuck_for = 0 if table.stuck_for is None else table.stuck_for // 1000
        topics = table.topics or [self.scenario.topics[0].name]
        arguments = [self._properties(name), table.commit, stuck_at, stuck_for, *topics]
        archive = f"-XX:SharedArchiveFile={self._archive}"
        command = ["java", *JVM, archive, "-cp", f"{self.libs}/*:{classes}", "GroupMember"]
        with self._log_file(name).open("ab") as log:
            return subprocess.Popen(
                [*command, *map(str, arguments)],
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

    # ----------------------------------------------------------------- what is done to a member

    def start(self, name: str) -> None:
        """Start a node, or let the next life of a member begin."""
        if name not in self.members:
            super().start(name)
        elif not self.alive(name):
            self._lives[name] = self._waiting[name].pop(0)
            _tell(self._lives[name], b"go\n")

    def kill(self, name: str) -> None:
        """Kill a process (kill -9)."""
        if name not in self.members:
            super().kill(name)
        else:
            self._signal(name, signal.SIGKILL)
            self._lives[name].wait()

    def stop(self, name: str) -> None:
        """Ask a node to shut down, or a member to close its consumer; return at once."""
        if name not in self.members:
            super().stop(name)
        else:
            _tell(self._lives[name], b"close\n")

    def alive(self, name: str) -> bool:
        """Return whether a process runs, paused or not."""
        if name not in self.members:
            return super().alive(name)
        return name in self._lives and self._lives[name].poll() is None

    def _signal(self, name: str, what: signal.Signals) -> None:
        if name not in self.members:
            super()._signal(name, what)
        else:
            self._lives[name].send_signal(what)


class RealGroupPlay(RealPlay):
    """One schedule on a version of Kafka; its history ends before all is healed."""

    nodes_type = GroupNodes
    nodes: GroupNodes
    _lines: list[str]

    def _play(self) -> None:
        self.nodes.boot_members()
        for name, table in self.nodes.members.items():
            self._add(table.start / 1e6, partial(self.nodes.start, name))
        super()._play()
        self._lines = self._history_now()

    def _history(self, start: int) -> list[str]:
        return self._lines

    def _history_now(self) -> list[str]:
        """Return the text of the coordinators' log as it is."""
        reader = MetadataReader(next(self.nodes.libs.glob("kafka-metadata-*.jar")))
        records = reader.entries(self.nodes.best_log())
        topics = {
            each.fields["topicId"]: each.fields["name"]
            for each in records
            if each.kind == "TopicRecord"
        }
        ends = {
            (topic, number): _end(self._segment(topic, number))[1]
            for topic in topics.values()
            for number in self._numbers(topic)
        }
        entries = GroupLogReader(self.nodes.libs).entries(self._segment(GROUP_METADATA_TOPIC, 0))
        return GroupHistory(topics, ends).lines(entries)

    def _numbers(self, topic: str) -> list[int]:
        """Return the partitions of a topic; one that is deleted has none."""
        places = [each for name in self.nodes.brokers for each in self.nodes.data(name).iterdir()]
        found = [re.fullmatch(rf"{re.escape(topic)}-(\d+)", each.name) for each in places]
        return sorted({int(each[1]) for each in found if each is not None})

    def _segment(self, topic: str, number: int) -> Path:
        """Return the file of a partition that has all that is committed."""
        files = [
            self.nodes.data(each) / f"{topic}-{number}" / SEGMENT for each in self.nodes.brokers
        ]
        return max(files, key=_end)


def _end(file: Path) -> tuple[int, int]:
    """Return (epoch of the last batch, end offset) of a segment."""
    last = (0, 0)
    for base, epoch, _, values in batches(file):
        last = (epoch, base + len(values))
    return last


def _tell(life: subprocess.Popen[bytes], line: bytes) -> None:
    assert life.stdin is not None
    life.stdin.write(line)
    life.stdin.flush()


def _out(life: subprocess.Popen[bytes]) -> IO[bytes]:
    assert life.stdout is not None
    return life.stdout
