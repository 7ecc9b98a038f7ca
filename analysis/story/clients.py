"""What the clients of a run noticed: waits, failed records, and records that were read again.

The story has the events of brokers and partitions. A paused follower can delay every producer
although no leader changes: these lines show it. A record's wait is that of its batch, from the
batch's creation to its acknowledgement.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from kafkasim.analysis.story.sentences import counted
from kafkasim.sim.trace.reading import Row, rows
from kafkasim.sim.trace.store import read_manifest

KINDS = ("TopicCreated", "Acked", "SendFailed", "Polled", "SharePolled")

UNKNOWN = "(unknown)"
"""The topic of records for which the producer had no metadata, or which it never got."""


@dataclass
class Silence:
    """The longest time between two successes that follow each other."""

    last_us: int = -1  # -1: there was none yet
    longest_us: int = 0
    until_us: int = 0  # when the longest ended

    def success(self, t_us: int) -> None:
        """Take a success into account."""
        self.still(t_us)
        self.last_us = t_us

    def still(self, t_us: int) -> None:
        """Take a moment into account at which no success had come since the last one."""
        if self.last_us >= 0 and t_us - self.last_us > self.longest_us:
            self.longest_us, self.until_us = t_us - self.last_us, t_us


@dataclass
class Sending:
    """What became of the records that producers sent to one topic."""

    silence: Silence = field(default_factory=Silence)
    waits: list[tuple[int, int]] = field(default_factory=list)  # of batches: latency, records
    slowest: Row | None = None
    failed: int = 0
    errors: dict[str, None] = field(default_factory=dict)  # of what failed

    def acknowledged(self, row: Row) -> None:
        """Take a row ``Acked`` into account."""
        self.silence.success(row["t_us"])
        self.waits.append((row["latency_us"], len(row["record_ids"])))
        if self.slowest is None or row["latency_us"] > self.slowest["latency_us"]:
            self.slowest = row


@dataclass
class Reading:
    """What one group was given."""

    silence: Silence = field(default_factory=Silence)
    records: int = 0
    offsets: dict[tuple[str, int, int], None] = field(default_factory=dict)

    def polled(self, row: Row) -> None:
        """Take a row ``Polled`` or ``SharePolled`` with records into account."""
        self.silence.success(row["t_us"])
        self.records += len(row["offsets"])
        place = row["topic_id"], row["partition"]
        self.offsets.update(dict.fromkeys((*place, offset) for offset in row["offsets"]))


def _cluster(row: Row) -> str:
    """Return the cluster of a row's host, "" in a run of one, and of hosts between clusters."""
    cluster, found, _ = row["node"].partition(".")
    return cluster if found else ""


class Noticed:
    """Reads rows in order; :meth:`lines` says what producers and groups noticed."""

    def __init__(self, ready_us: int) -> None:
        self._ready_us = ready_us
        self._topics: dict[str, str] = {}
        self._sent: dict[str, Sending] = {}  # by topic
        self._read: dict[str, Reading] = {}  # by group, or host

    def replay(self, row: Row) -> None:
        """Take one row of :data:`KINDS` into account."""
        kind = row["kind"]
        if kind == "TopicCreated":
            cluster = _cluster(row)
            name = f"{cluster}:{row['topic']}" if cluster else row["topic"]
            self._topics[row["topic_id"]] = name
        elif kind == "Acked":
            self._topic(row).acknowledged(row)
        elif kind == "SendFailed":
            topic = self._topic(row)
            topic.silence.still(row["t_us"])
            topic.failed += len(row["record_ids"])
            topic.errors[row["error"]] = None
        elif row["offsets"]:
            group = row["group"]  # a mirror, and whoever assigns partitions itself, is in none
            where = f" of {_cluster(row)}" if _cluster(row) else ""
            name = f"group {group}{where}" if group else f"{row['node']}, in no group"
            self._read.setdefault(name, Reading()).polled(row)

    def _topic(self, row: Row) -> Sending:
        name: str = self._topics.get(row["topic_id"]) or row["topic_id"] or UNKNOWN
        return self._sent.setdefault(name, Sending())

    def lines(self) -> list[str]:
        """Return a line for each topic to which records were sent, and each group that got some."""
        found = []
        for name, topic in self._sent.items():
            between = self._between(topic.silence, "acknowledgements")
            found.append(f"topic {name}: {self._sends(name, topic)}{between}")
        for name, group in self._read.items():
            again = group.records - len(group.offsets)
            what = f"{counted(group.records, 'record')} read"
            what += f", {again} of them again" if again else ""
            between = self._between(group.silence, "polls with records")
            found.append(f"{name}: {what}{between}")
        return found

    def _sends(self, name: str, topic: Sending) -> str:
        acknowledged = counted(sum(count for _, count in topic.waits), "record")
        told = f"{acknowledged} acknowledged, {topic.failed or 'none'} failed"
        told += f" ({', '.join(topic.errors)})" if topic.errors else ""
        if topic.slowest is None:
            return told
        sent = self._at(topic.slowest["t_us"] - topic.slowest["latency_us"])
        median, high = (span(wait) for wait in ranks(topic.waits, (0.5, 0.99)))
        most = f"{span(topic.slowest['latency_us'])} ({name}-{topic.slowest['partition']}"
        return f"{told}; latency p50 {median}, p99 {high}, max {most}, sent at {sent})"

    def _between(self, silence: Silence, what: str) -> str:
        if not silence.longest_us:
            return ""
        until = self._at(silence.until_us)
        return f"; at most {span(silence.longest_us)} between two {what} (until {until})"

    def _at(self, t_us: int) -> str:
        return f"{(t_us - self._ready_us) / 1e6:+.3f}s"


def ranks(waits: Iterable[tuple[int, int]], shares: Iterable[float]) -> list[int]:
    """Return the wait that a share of the records did not exceed, for each of some shares.

    ``waits`` are waits with the number of records that waited so long.
    """
    ordered = sorted(waits)
    total = sum(count for _, count in ordered)
    found = []
    for share in shares:
        seen = 0
        for wait, count in ordered:
            seen += count
            if seen >= share * total:
                found.append(wait)
                break
    return found


def span(us: int) -> str:
    """Return a wait with about three digits: ``6.13 ms``, ``9.9 s``."""
    return f"{us / 1e6:.1f} s" if us >= 1_000_000 else f"{us / 1000:.3g} ms"


def noticed(directory: Path) -> list[str]:
    """Return what the clients of a stored run noticed, a line each.

    Raises:
        ManifestError: there is no whole run in the directory.
    """
    found = Noticed(int(read_manifest(directory).get("ready_us", 0)))
    for row in rows(directory, KINDS):
        found.replay(row)
    return found.lines()
