"""A schedule of two clusters and a mirror on real Kafka: connect-mirror-maker in its own JVM."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.connect.config import MirrorConfig
from kafkasim.model.connect.policies import HEARTBEATS
from kafkasim.model.records import GROUP_METADATA_TOPIC, Record, TopicPartition, batch_of
from kafkasim.scenarios.language.clusters import members
from kafkasim.scenarios.language.tables import FaultTable, MirrorTable, ProducerTable, Scenario
from tests.fidelity.playing.clients import StoredLogs
from tests.fidelity.playing.groups.log import GroupLogReader
from tests.fidelity.playing.metadata_log import Entry, MetadataReader
from tests.fidelity.playing.mirrors import log
from tests.fidelity.playing.mirrors.history import MirrorHistory, Written, records_of
from tests.fidelity.playing.mirrors.nodes import Clusters
from tests.fidelity.playing.operator import Operator
from tests.fidelity.playing.real import CONVERGE_SECONDS, SETTLE_SECONDS, RealPlay


class Operators:
    """The operators of several clusters, who keep their answers in one list."""

    def __init__(self, nodes: Clusters) -> None:
        self._nodes = nodes
        self.members = {name: Operator(each) for name, each in nodes.members.items()}
        self.answers: list[str] = []
        for each in self.members.values():
            each.answers = self.answers

    def serves(self, name: str) -> bool:
        """Return whether a server answers, or a mirror's source task runs."""
        if name in self._nodes.mirrors:
            return self._nodes.mirrors_now(name)
        cluster, _, own = name.partition(".")
        return self.members[cluster].serves(own)


class Burst(threading.Thread):
    """A producer's records to the only partition of a topic: their number is given, not a time."""

    def __init__(self, operator: Operator, table: ProducerTable, number: int) -> None:
        """``number`` is that of the producer: no two of a cluster send the same value."""
        super().__init__(daemon=True)
        self._operator = operator
        self._values = range(number << 20, (number << 20) + records_of(table))
        self._tp = TopicPartition(table.topic or "", 0)
        self._pause = 1 / table.rate

    def run(self) -> None:
        """Send all records, each when it is due or the one before it is acknowledged."""
        began = time.monotonic()
        for number, value in enumerate(self._values):
            time.sleep(max(0.0, began + number * self._pause - time.monotonic()))
            batch = batch_of((Record(None, value, 100, 0),))
            request = m.ProduceRequest(-1, 1000, (m.ProducePartition(self._tp, batch),))
            answer = self._operator.ask_any(request)
            assert answer.partitions[0].error == 0, answer


class RealMirrorPlay(RealPlay):
    """One schedule of several clusters; its history ends when the schedule ends."""

    nodes: Clusters
    operator: Operators
    nodes_type = Clusters
    operator_type = Operators
    boot_seconds = 90.0

    def __init__(self, scenario: Scenario, version: str, directory: Path) -> None:
        super().__init__(scenario, version, directory)
        self._alone = members(scenario)

    def play(self) -> list[str]:
        """Play the schedule and return its history; all processes are gone then."""
        try:
            self.nodes.start_all()
            for name, operator in self.operator.members.items():
                operator.create_topics(self._alone[name].topics)
                operator.wait_until_converged(CONVERGE_SECONDS)
            for nodes in self.nodes.members.values():
                if nodes.programs:
                    nodes.boot_clients()
            time.sleep(SETTLE_SECONDS)
            self._play()
            for thread in self._threads:
                thread.join()
            return self._lines() + self.operator.answers
        finally:
            self.nodes.close()

    def _arm(self) -> list[Any]:
        for number, mirror in enumerate(self.scenario.mirrors, 1):
            self._add(mirror.start / 1e6, partial(self.nodes.start, f"mirror-{number}"))
        super()._arm()
        for name, alone in self._alone.items():
            nodes, operator = self.nodes.members[name], self.operator.members[name]
            for client, program in nodes.programs.items():
                self._add(program.start_us / 1e6, partial(nodes.start, client))
            for operation in alone.operations:
                self._add(operation.at.low / 1e6, partial(operator.call, operation))
            for number, table in enumerate(alone.workload):
                if isinstance(table, ProducerTable):
                    burst = Burst(operator, table, number)
                    self._threads.append(burst)
                    self._add(table.start / 1e6, burst.start)
        return []

    def _partition(self, fault: FaultTable, targets: list[str]) -> list[Callable[[], None]]:
        for cluster in targets:
            self.nodes.cut(cluster, 1)
        return [partial(self.nodes.cut, cluster, -1) for cluster in targets]

    # ------------------------------------------------------------------------------ the history

    def _lines(self) -> list[str]:
        metadata = {name: self._metadata(name) for name in self.nodes.members}
        written = [self._written(table) for table in self.scenario.mirrors]
        return MirrorHistory(self.scenario).lines(metadata, written)

    def _metadata(self, cluster: str) -> list[Entry]:
        nodes = self.nodes.members[cluster]
        reader = MetadataReader(next(nodes.libs.glob("kafka-metadata-*.jar")))
        return reader.entries(nodes.best_log())

    def _written(self, table: MirrorTable) -> Written:
        source, target = table.source, table.target
        policy = MirrorConfig.from_properties(table.config).policy
        stored = self.nodes.stored
        return Written(
            syncs=list(log.offset_syncs(stored(source, policy.offset_syncs_topic(target)))),
            checkpoints=list(log.checkpoints(stored(target, policy.checkpoints_topic(source)))),
            commits=list(self._commits(target)),
            mirrored={
                TopicPartition(policy.remote_topic(source, topic), number): self._offsets(
                    stored(source, topic, number),
                    stored(target, policy.remote_topic(source, topic), number),
                )
                for topic, number in self._partitions(source)
            },
            heartbeats={
                each: list(log.heartbeats(stored(each, HEARTBEATS))) for each in (source, target)
            },
        )

    def _partitions(self, cluster: str) -> list[TopicPartition]:
        logs = StoredLogs(self.nodes.members[cluster])
        names = [topic.name for topic in self._alone[cluster].topics]
        return [TopicPartition(name, number) for name in names for number in logs.numbers(name)]

    def _offsets(self, source: list[log.Stored], target: list[log.Stored]) -> list[int]:
        """Return the source's offset of each record of a mirrored partition, by its value."""
        at = {found: offset for offset, (_, found) in enumerate(source)}
        return [at[found] for _, found in target]

    def _commits(self, cluster: str) -> Iterator[tuple[str, TopicPartition, int]]:
        nodes = self.nodes.members[cluster]
        file = StoredLogs(nodes).segment(GROUP_METADATA_TOPIC, 0)
        for entry in GroupLogReader(nodes.libs).entries(file):
            if entry.kind == "OffsetCommit" and entry.fields is not None:
                tp = TopicPartition(entry.key["topic"], entry.key["partition"])
                yield entry.key["group"], tp, entry.fields["offset"]
