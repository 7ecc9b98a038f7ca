"""The partitions and hosts of one run over time, from a few kinds of fact.

Metrics and plots look at one run: of a directory it is read with pyarrow alone, since a Spark
session would cost more than the answer, and of a fleet by Spark. Times are microseconds of the
trace.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Any

from kafkasim.analysis.runs import (
    MANIFEST,
    TRACE,
    StoredRun,
    check_trace,
    check_values,
    read_manifest,
    read_trace,
)

Key = tuple[str, int]
Row = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CommittedState:
    """A partition's state that the controller committed, in effect from ``t_us`` on."""

    t_us: int
    leader: int
    isr: tuple[int, ...]
    replicas: tuple[int, ...]
    reason: str
    unclean: bool
    leader_epoch: int
    adding: tuple[int, ...] = ()

    @property
    def under_replicated(self) -> bool:
        """Whether the ISR lacks replicas; replicas that a reassignment adds do not count yet."""
        return len(self.isr) < len(self.replicas) - len(self.adding)


@dataclass(frozen=True, slots=True)
class MembershipChange:
    """A replica left (``joined`` False) or joined an ISR."""

    t_us: int
    topic_id: str
    partition: int
    replica: int
    joined: bool
    reason: str


@dataclass
class Timeline:
    """One run: its partitions' states in order, when hosts were paused or down, and its faults."""

    ready_us: int = 0
    end_us: int = 0
    topics: dict[str, str] = field(default_factory=dict)
    min_isr: dict[str, int] = field(default_factory=dict)
    partitions: dict[Key, list[CommittedState]] = field(default_factory=dict)
    paused: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    down: dict[str, list[tuple[int, int]]] = field(default_factory=dict)
    faults: list[tuple[int, int, str, str]] = field(default_factory=list)

    def name(self, key: Key) -> str:
        """Return ``topic-partition``."""
        return f"{self.topics.get(key[0], key[0])}-{key[1]}"

    def user_partitions(self) -> list[Key]:
        """Return the partitions of topics that are not Kafka's own, by name."""
        mine = [key for key in self.partitions if not self.name(key).startswith("__")]
        return sorted(mine, key=lambda key: (self.topics.get(key[0], key[0]), key[1]))

    def spans(self, key: Key) -> Iterator[tuple[int, int, CommittedState]]:
        """Yield (from, to, state) of a partition from its creation to the end."""
        states = self.partitions[key]
        for state, following in zip(states, [*states[1:], None]):
            yield state.t_us, self.end_us if following is None else following.t_us, state

    def changes(self, key: Key) -> list[MembershipChange]:
        """Return every membership change of a partition's ISR after its creation."""
        found = []
        states = self.partitions[key]
        for before, after in pairwise(states):
            for replica in before.isr:
                if replica not in after.isr:
                    found.append(MembershipChange(after.t_us, *key, replica, False, after.reason))
            for replica in after.isr:
                if replica not in before.isr:
                    found.append(MembershipChange(after.t_us, *key, replica, True, after.reason))
        return found

    def change_times(self, key: Key) -> list[int]:
        """Return when the ISR changed; losing two replicas at once counts once, as in JMX."""
        return list(dict.fromkeys(change.t_us for change in self.changes(key)))


@dataclass(frozen=True)
class OneRun:
    """A stored run: what its manifest says, and ``read(kinds, columns)``, its rows in order."""

    name: str
    manifest: Mapping[str, Any]
    read: Callable[[Sequence[str], Sequence[str]], list[Row]]


def from_directory(run: StoredRun) -> OneRun:
    """Return the run in a directory of its own."""
    directory = run.place
    return OneRun(run.name, run.manifest, lambda kinds, names: read_rows(directory, kinds, names))


def read_rows(directory: Path, kinds: Sequence[str], columns: Sequence[str]) -> list[Row]:
    """Return the rows of some kinds of a run, in order.

    Raises:
        BadInput: the run is not whole.
    """
    check_trace(directory / TRACE, read_manifest(directory / MANIFEST))
    wanted = ["seq", "t_us", "node", "kind", *columns]
    table = read_trace(directory, wanted, filters=[("kind", "in", list(kinds))])
    check_values(directory, table)
    rows: list[Row] = table.to_pylist()
    return rows


KINDS = (
    "Phase", "TopicCreated", "PartitionChanged", "HostPaused", "HostResumed", "HostStarted",
    "HostStopped", "FaultStarted", "FaultEnded",
)  # fmt: skip
COLUMNS = (
    "phase", "topic_id", "topic", "min_isr", "replication_factor", "partition", "leader",
    "leader_epoch", "partition_epoch", "isr", "replicas", "reason", "unclean", "duration_us",
    "fault", "target", "adding_replicas",
)  # fmt: skip


def build(rows: Sequence[Row], until_us: int | None = None) -> Timeline:
    """Return the timeline that rows (in order) tell, up to ``until_us``."""
    line = Timeline()
    epochs: dict[Key, int] = {}
    open_: dict[tuple[str, ...], int] = {}
    for row in rows:
        if until_us is not None and row["t_us"] > until_us:
            break
        line.end_us = max(line.end_us, row["t_us"])
        kind = row["kind"]
        if kind == "Phase" and row["phase"] == "ready":
            line.ready_us = row["t_us"]
        elif kind == "TopicCreated":
            line.topics[row["topic_id"]] = row["topic"]
            line.min_isr[row["topic_id"]] = min(row["min_isr"], row["replication_factor"])
        elif kind == "PartitionChanged":
            _partition(line, epochs, row)
        else:
            _host_or_fault(line, open_, row)
    if until_us is not None:
        line.end_us = until_us
    for place, since in open_.items():
        _close(line, place, since, line.end_us)
    return line


def _partition(line: Timeline, epochs: dict[Key, int], row: Row) -> None:
    key = (row["topic_id"], row["partition"])
    if row["partition_epoch"] <= epochs.get(key, -1):
        return  # a new controller repeats what its predecessor committed
    epochs[key] = row["partition_epoch"]
    state = CommittedState(
        row["t_us"], row["leader"], tuple(row["isr"]), tuple(row["replicas"]), row["reason"],
        row["unclean"], row["leader_epoch"], tuple(row["adding_replicas"] or ()),
    )  # fmt: skip
    line.partitions.setdefault(key, []).append(state)


def _host_or_fault(line: Timeline, open_: dict[tuple[str, ...], int], row: Row) -> None:
    kind, node, now = row["kind"], row["node"], row["t_us"]
    begins = {"HostPaused": ("paused", node), "HostStopped": ("down", node)}
    ends = {"HostResumed": [("paused", node)], "HostStarted": [("down", node), ("paused", node)]}
    if kind in begins:
        open_.setdefault(begins[kind], now)
    for place in ends.get(kind, []):
        if place in open_:
            _close(line, place, open_.pop(place), now)
    if kind == "FaultStarted":
        open_.setdefault(("fault", row["fault"], row["target"]), now)
    if kind == "FaultEnded":
        fault = ("fault", row["fault"], row["target"])
        if fault in open_:
            _close(line, fault, open_.pop(fault), now)


def _close(line: Timeline, place: tuple[str, ...], since: int, now: int) -> None:
    if place[0] == "fault":
        line.faults.append((since, now, place[1], place[2]))
    else:
        spans = line.paused if place[0] == "paused" else line.down
        spans.setdefault(place[1], []).append((since, now))
