"""The story of a run: what happened to it, a line each, from the facts in its trace.

A story has faults, elections, changes of the ISR with their reason, fencing, truncations,
rebalances, transactions that a coordinator aborts, and records that a producer gave up. An event of
many partitions within a second is one line. ``sentences.py`` has the sentences; here is chosen
which facts are news.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from kafkasim.analysis.story import faults
from kafkasim.analysis.story.lines import CAUSE, EFFECT, INTERNAL, NEWS, Gathered, Lines
from kafkasim.analysis.story.sentences import (
    AHEAD,
    FOLLOWED,
    LIMITS_OF_ADDRESSES,
    OF_TASKS,
    SAME_MOMENT_US,
    Sentence,
    Teller,
    is_abort,
)
from kafkasim.sim.trace.reading import Row, rows
from kafkasim.sim.trace.store import read_manifest

TOLD = {
    **dict.fromkeys(
        ("Phase", "RuleActed", "FaultStarted", "FaultEnded", "Operated", "HostStarted"), CAUSE
    ),
    **dict.fromkeys(
        ("ConfigChanged", "AclChanged", "ApplicationFailed", "RestartBackOff", "DiskFilled",
         "HostStopped", "ControllerActive", "VotersChanged", "BrokerRegistration",
         "ZooKeeperSession", "StreamThreadState"), NEWS,
    ),
    **dict.fromkeys(
        ("TopicDeleted", "CreationRefused", "PartitionChanged", "Truncated", "IsrUpdateFailed",
         "LogLoaded",
         "LogDirOffline", "CoordinatorLoaded", "TransactionsLoaded", "CoordinatorLoadFailed",
         "GroupState", "GroupConverted", "TransactionState", "TransactionEnded",
         "RebalanceAttempt", "SendFailed", "ControlRequest", "LogStart", "OffsetExpired",
         "ProducerIdExpired", "InstanceIdHeld", "CommitResult", "Positioned", "ReadReplica",
         "ReplicaFailed", "Authorized", "ConnectionLimited", "RestoreBegan", "TaskState",
         "StateWiped"), EFFECT,
    ),
}  # fmt: skip
"""The kinds of facts that a story tells, and where they stand in an instant."""

GATHERED = (
    "PartitionChanged", "IsrUpdateFailed", "LogLoaded", "CoordinatorLoaded", "TransactionsLoaded",
    "SendFailed", "LogStart", "OffsetExpired", "ProducerIdExpired", "CommitResult", "Positioned",
    "ReadReplica", "ReplicaFailed", "RestoreBegan", "TaskState", "StateWiped",
)  # fmt: skip
"""Kinds of which one line tells several partitions, producers or tasks."""

LISTED = {"SendFailed": faults.listing, **dict.fromkeys(OF_TASKS, ", ".join)}
"""How a line lists what are no partitions."""

NEWS_IF: dict[str, Callable[[Row], bool]] = {
    "Authorized": lambda row: not row["allowed"],
    "ControlRequest": lambda row: row["error"] != "NONE",
    "LogStart": lambda row: bool(row["config"]),
    "CommitResult": lambda row: row["error"] != "NONE",
    "TransactionEnded": lambda row: row["outcome"] == "fenced",
    "StreamThreadState": lambda row: row["state"] == "DEAD" and bool(row["reason"]),
    "TaskState": lambda row: (row["role"], row["state"]) == ("active", "RUNNING"),
    "RestoreBegan": lambda row: row["end_offset"] > row["start_offset"],
}
"""Kinds of which the row alone says whether it is news."""


class Story:
    """Reads rows in order and collects the lines that they make."""

    def __init__(self, manifest: Mapping[str, Any], ahead: Iterable[Row]) -> None:
        self.ready_us, self._lines = int(manifest.get("ready_us", 0)), Lines()
        ahead = list(ahead)
        self._teller = Teller(manifest, ahead)
        self._struck: dict[str, int] = {}  # host: when a fault stopped it
        self._created = {  # resource of a config: when its topic was created, with settings
            f"topic:{row['topic']}": row["t_us"] for row in ahead if row["kind"] == "TopicCreated"
        }
        self._leaderless: dict[str, Gathered] = {}  # by partition: the line that says so
        self._generation: dict[str, int] = {}
        self._rebalancing: dict[str, None] = {}
        self._limited: dict[tuple[str, str], None] = {}  # host and limit of its connections
        self._positioned: dict[tuple[str, str, int], None] = {}  # group and partition
        self._is_news: dict[str, Callable[[Row], bool]] = {
            **NEWS_IF,
            "Phase": lambda row: row["phase"] in ("ready", "liveness", "end"),
            "FaultEnded": lambda row: (
                row["fault"] not in faults.STOPS and self._teller.lasted.get(row["seq"], 0) > 0
            ),
            "HostStarted": lambda row: row["incarnation"] > 0,
            "HostStopped": lambda row: (  # or the line of the application or the fault says so
                row["reason"] != "application-failed"
                and self._struck.get(row["node"]) != row["t_us"]
            ),
            "ConfigChanged": lambda row: (
                self._is_late(row) and row["t_us"] != self._created.get(row["resource"])
            ),
            "AclChanged": self._is_late,
            "ConnectionLimited": self._is_first_of_limit,
            "ControllerActive": self._is_late,
            "VotersChanged": self._teller.is_news,
            "BrokerRegistration": lambda row: self._teller.is_news(row) and self._is_late(row),
            "ZooKeeperSession": lambda row: row["event"] == "expired" and self._teller.is_news(row),
            "PartitionChanged": lambda row: (
                self._teller.is_news(row) and self._teller.before(row) is not None
            ),
            "Truncated": lambda row: (
                row["log_end_offset"] > row["offset"]
                and self._teller.topics.get(row["topic_id"]) not in INTERNAL
            ),
            "LogLoaded": lambda row: not row["clean"] and self._is_late(row),
            "CoordinatorLoaded": lambda row: row["loaded"] and self._is_late(row),
            "TransactionsLoaded": lambda row: row["loaded"] and self._is_late(row),
            "TransactionState": lambda row: is_abort(row) or row["reason"] == "expired",
            "Positioned": self._is_reset,
            "ReadReplica": self._is_late,
            "GroupState": self._is_rebalance,
        }

    def replay(self, row: Row) -> None:
        """Take one row into account."""
        kind = row["kind"]
        self._lines.settle(row["t_us"])
        if kind == "FaultStarted" and row["fault"] in faults.STOPS:
            self._struck |= dict.fromkeys(faults.sides(row["target"])[0], int(row["t_us"]))
        is_news = self._is_news.get(kind)
        if kind in TOLD and (is_news is None or is_news(row)):
            for sentence in self._teller.of(row):
                self._tell(row, sentence)
        self._teller.follow(row)

    def finish(self, most: int) -> list[str]:
        """Return the story's lines in order; of more than ``most`` the middle is left out."""
        return self._lines.finish(self.ready_us, most)

    def _tell(self, row: Row, sentence: Sentence) -> None:
        kind, place = row["kind"], sentence.place
        if kind not in GATHERED:
            rank = EFFECT if row.get("phase") == "end" else TOLD[kind]
            self._lines.tell(row["t_us"], row["seq"], str(sentence), rank, sentence.text)
            return
        listing = LISTED.get(kind)
        line = self._lines.gather(row["t_us"], row["seq"], sentence.text, listing)
        line.records += len(row["record_ids"]) if kind == "SendFailed" else 0
        line.add(place, sentence.detail)
        if kind == "PartitionChanged" and row["leader"] < 0:
            self._leaderless[place] = line  # the last sentence of a row is about its leader
        elif kind == "PartitionChanged" and (without := self._leaderless.pop(place, None)):
            if row["t_us"] - without.t_us <= SAME_MOMENT_US:
                without.names.remove(place)

    def _is_first_of_limit(self, row: Row) -> bool:
        """Return whether no connection, or none of the address, was limited by this before."""
        limit = row["limit"]
        key = (row["host"] if limit in LIMITS_OF_ADDRESSES else "", limit)
        known = key in self._limited
        self._limited[key] = None
        return not known

    def _is_late(self, row: Row) -> bool:
        return bool(row["t_us"] > self.ready_us)

    def _is_reset(self, row: Row) -> bool:
        """Return whether a group that had a position in a partition begins anew by its setting."""
        place = (row["group"], row["topic_id"], row["partition"])
        known = place in self._positioned
        self._positioned[place] = None
        return known and row["reason"] in ("earliest", "latest", "truncation")

    def _is_rebalance(self, row: Row) -> bool:
        """Return whether a group begins to rebalance, or has a new generation."""
        group, generation = row["group"], row["generation"]
        if row["state"] == "Dead":
            self._generation.pop(group, None)
            return True
        if row["state"] == "PreparingRebalance":
            known = group in self._rebalancing
            self._rebalancing[group] = None
            return not known
        if generation <= self._generation.get(group, 0):
            return False
        self._generation[group] = generation
        self._rebalancing.pop(group, None)
        return True


def tell(directory: Path, most: int) -> list[str]:
    """Return the story of a stored run, at most ``most`` lines and one that says what is left out.

    Raises:
        ManifestError: there is no whole run in the directory.
    """
    story = Story(read_manifest(directory), rows(directory, AHEAD))
    for row in rows(directory, [*dict.fromkeys((*TOLD, *FOLLOWED))]):
        story.replay(row)
    return story.finish(most)
