"""The normal form: what a mirror has written, as text that two runs share.

Times are left out. What depends on how a poll cuts the records into batches is folded so:

- A task sends an offset sync at once when the last one is ``offset.lag.max`` records behind, and
  else with the next commit of source offsets. A sync of the second kind is told only of the last
  record before a rest: which record a commit in the middle of a burst finds is a race. It changes
  no sync of the first kind.
- Checkpoints and commits that repeat the one before are told once.
- Offsets that follow one another are one range. A mirrored log is told as the source's offsets of
  its records: ``0..99, 40..149`` has records twice.
- Topics that the scenario has, and those of Connect's workers, are left out.
- Of heartbeats, which never rest, it is told between which clusters they are, in which cluster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import accumulate
from typing import Any, TypeVar

from kafkasim.model.connect.config import MirrorConfig
from kafkasim.model.connect.offset_syncs import OffsetSync
from kafkasim.model.connect.policies import HEARTBEATS
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value
from kafkasim.scenarios.language.clusters import members
from kafkasim.scenarios.language.tables import MirrorTable, ProducerTable, Scenario, WorkloadTable
from kafkasim.scenarios.running.checkpointing import Checkpoint
from tests.fidelity.playing.metadata_log import Entry
from tests.fidelity.playing.told import Told

Row = TypeVar("Row", bound=tuple[Any, ...])

OF_WORKERS = ("mm2-configs.", "mm2-offsets.", "mm2-status.")
"""How the topics of Connect's workers begin, which no mirror reads or writes itself."""


@value
class Written:
    """What one flow has left in the files of its clusters."""

    syncs: list[OffsetSync]
    checkpoints: list[Checkpoint]
    commits: list[tuple[str, TopicPartition, int]]  # of all groups in the target
    mirrored: dict[TopicPartition, list[int]]  # partition of the target -> offsets in the source
    heartbeats: dict[str, list[tuple[str, str]]]  # cluster -> (source, target)


class MirrorHistory:
    """Tells what the clusters of a scenario have, and what its mirrors have written."""

    def __init__(self, scenario: Scenario) -> None:
        self._scenario = scenario
        self._told = Told()

    def lines(
        self, metadata: Mapping[str, Iterable[Entry]], written: Sequence[Written]
    ) -> list[str]:
        """Return the text; ``metadata`` is by cluster, ``written`` by mirror."""
        for cluster, alone in members(self._scenario).items():
            known = [topic.name for topic in alone.topics]
            for topic, told in sorted(topics_of(metadata[cluster]).items()):
                if topic not in known and not topic.startswith((*OF_WORKERS, "__")):
                    self._told.say(0, f"topic {topic} in {cluster}", f": {told}")
        for table, each in zip(self._scenario.mirrors, written):
            self._tell(table, each)
        return self._told.lines()

    def _tell(self, table: MirrorTable, written: Written) -> None:
        flow = f"{table.source}->{table.target}"
        lag_max = MirrorConfig.from_properties(table.config).offset_lag_max
        quiet = rests(members(self._scenario)[table.source].workload)
        syncs = [sync for sync in written.syncs if sync.tp.topic != HEARTBEATS]
        for sync in told_syncs(syncs, lag_max, quiet):
            self._told.say(1, f"{flow} sync {sync.tp}", f": {sync.up} is {sync.down}")
        for group, tp, up, down in _changes(written.checkpoints):
            self._told.say(2, f"{flow} checkpoint {group} {tp}", f": {up} is {down}")
        commits: dict[str, list[int]] = {}
        for group, tp, offset in _changes(written.commits):
            commits.setdefault(f"{group} {tp}", []).append(offset)
        for place, offsets in commits.items():
            self._told.say(3, f"offsets of {place} in {table.target}", f": {_runs(offsets)}")
        for tp, offsets in written.mirrored.items():
            self._told.say(4, f"{tp} in {table.target}", f": {_runs(offsets)}")
        for cluster, beats in written.heartbeats.items():
            for source, target in sorted(set(beats)):
                self._told.say(5, f"heartbeats in {cluster}", f": {source}->{target}")


def rests(workload: Iterable[WorkloadTable]) -> dict[str, list[int]]:
    """Return at which ends the only partition of each topic rests: those of its bursts."""
    bursts: dict[str, list[tuple[int, int]]] = {}
    for table in workload:
        if isinstance(table, ProducerTable):
            bursts.setdefault(table.topic or "", []).append((table.start, records_of(table)))
    return {
        topic: list(accumulate(count for _, count in sorted(each)))
        for topic, each in bursts.items()
    }


def records_of(table: ProducerTable) -> int:
    """Return how many records a producer sends between its start and its stop."""
    assert table.stop is not None, "a schedule's producers send a number of records"
    return round((table.stop - table.start) * table.rate / 1e6)


def topics_of(entries: Iterable[Entry]) -> dict[str, str]:
    """Return what a metadata log says of each topic."""
    names: dict[str, str] = {}
    replicas: dict[str, list[int]] = {}  # topic -> replicas by partition
    configs: dict[str, dict[str, str]] = {}
    for entry in entries:
        fields = entry.fields
        if entry.kind == "TopicRecord":
            names[fields["topicId"]] = fields["name"]
            replicas[fields["name"]] = []
        elif entry.kind == "RemoveTopicRecord":
            del replicas[names[fields["topicId"]]]
        elif entry.kind == "PartitionRecord":
            replicas[names[fields["topicId"]]].append(len(fields["replicas"]))
        elif entry.kind == "ConfigRecord":
            own = configs.setdefault(fields["resourceName"], {})
            own[fields["name"]] = fields["value"]
    return {topic: _topic(each, configs.get(topic, {})) for topic, each in replicas.items()}


def _topic(replicas: list[int], config: Mapping[str, str | None]) -> str:
    told = f"{len(replicas)} partitions, replication factor {max(replicas)}"
    given = [f"{key}={found}" for key, found in sorted(config.items()) if found is not None]
    return ", ".join([told, *given])


def told_syncs(
    syncs: Iterable[OffsetSync], lag_max: int, quiet: Mapping[str, Sequence[int]]
) -> Iterator[OffsetSync]:
    """Yield the syncs that do not depend on when source offsets are committed."""
    last: dict[TopicPartition, int] = {}  # where the last sync that was sent at once is
    for sync in syncs:
        rest = quiet.get(sync.tp.topic, [])
        begins = sync.tp not in last or sync.up in (0, *rest)
        if begins or sync.down - (last[sync.tp] + 1) >= lag_max:
            last[sync.tp] = sync.down
            yield sync
        elif sync.up + 1 in rest:
            yield sync


def _changes(rows: Iterable[Row]) -> Iterator[Row]:
    """Yield the rows that differ from the one before with the same group and partition."""
    last: dict[tuple[Any, ...], Row] = {}
    for row in rows:
        if last.get(row[:2]) != row:
            last[row[:2]] = row
            yield row


def _runs(offsets: Sequence[int]) -> str:
    """Return ``0..99, 40..149``."""
    found: list[list[int]] = []
    for offset in offsets:
        if found and offset == found[-1][1] + 1:
            found[-1][1] = offset
        else:
            found.append([offset, offset])
    told = [str(first) if first == last else f"{first}..{last}" for first, last in found]
    return ", ".join(told) or "none"
