"""A schedule of two clusters and a mirror on the model: an ordinary run, and what it wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from kafkasim.model import facts
from kafkasim.model.connect.config import MirrorConfig
from kafkasim.model.connect.policies import HEARTBEATS
from kafkasim.model.group.records import OffsetCommitKey
from kafkasim.model.records import GROUP_METADATA_TOPIC, TopicPartition
from kafkasim.scenarios.language.tables import MirrorTable
from tests.fidelity.playing.mirrors.history import MirrorHistory, Written
from tests.fidelity.playing.simulated import SimulatedClientPlay


class SimulatedMirrorPlay(SimulatedClientPlay):
    """One schedule of several clusters on the model."""

    def _on_phase(self, _seq: int, _t: int, _node: str, fact: facts.Phase) -> None:
        if fact.phase == "liveness":
            self._lines = self._told()

    def _told(self) -> list[str]:
        metadata = {name: self._entries(run.cluster) for name, run in self.run.members.items()}
        written = [self._written(table) for table in self.run.scenario.mirrors]
        return MirrorHistory(self.run.scenario).lines(metadata, written)

    def _written(self, table: MirrorTable) -> Written:
        source, target = table.source, table.target
        policy = MirrorConfig.from_properties(table.config).policy
        said = self.run.members[target].cluster.clients.control.mirrored
        return Written(
            syncs=[said[each] for each in self._values(source, policy.offset_syncs_topic(target))],
            checkpoints=[
                said[each] for each in self._values(target, policy.checkpoints_topic(source))
            ],
            commits=list(self._commits(target)),
            mirrored={
                TopicPartition(policy.remote_topic(source, topic), number): self._offsets(
                    self._values(source, topic, number),
                    self._values(target, policy.remote_topic(source, topic), number),
                )
                for topic, number in self._partitions(source)
            },
            heartbeats={
                each: [said[beat][:2] for beat in self._values(each, HEARTBEATS)]
                for each in (source, target)
            },
        )

    def _partitions(self, cluster: str) -> list[TopicPartition]:
        member = self.run.members[cluster]
        names = [topic.name for topic in member.scenario.topics]
        counts = {name: member.progress.partitions_of(name) for name in names}
        return [TopicPartition(name, number) for name in names for number in counts[name]]

    def _values(self, cluster: str, topic: str, partition: int = 0) -> list[Any]:
        """Return the values of a partition's records; none if it does not exist."""
        log = self._replica(topic, partition, self.run.members[cluster].cluster)
        batches = [] if log is None else log.batches_from(0)
        return [record.value for batch in batches for record in batch.records]

    def _offsets(self, source: list[Any], target: list[Any]) -> list[int]:
        """Return the source's offset of each record of a mirrored partition, by its value."""
        at = {found: offset for offset, found in enumerate(source)}
        return [at[found] for found in target]

    def _commits(self, cluster: str) -> Iterator[tuple[str, TopicPartition, int]]:
        log = self._replica(GROUP_METADATA_TOPIC, 0, self.run.members[cluster].cluster)
        batches = [] if log is None else log.batches_from(0)
        for record in [record for batch in batches for record in batch.records]:
            if isinstance(record.key, OffsetCommitKey) and record.value is not None:
                tp = TopicPartition(record.key.topic, record.key.partition)
                yield record.key.group, tp, record.value.offset
