"""OFFSET, stale-commit: what group coordinators store and answer of committed offsets."""

from __future__ import annotations

from kafkasim.analysis.judging.findings import Findings
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.removed_offsets import (
    DeletedOffsets,
    ExpiredOffsets,
)
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.model import facts


class Offsets:
    """OFFSET: the coordinator answers with the last commit that it has acknowledged, or a later
    one.

    The answer says where the record that it knows ends. A record behind the acknowledged commit may
    hold a lower offset, also if nobody was told of it (OffsetMetadataManager.replay). A deposed
    coordinator may answer what it knows: its clients find the next one.

    Offsets disappear when an operator deletes them, when they expire, and with their topic. A
    ZooKeeper controller tells the brokers that a topic is gone before it deletes it
    (TopicDeletionManager.onTopicDeletion, GroupCoordinator.handleDeletedPartitions).
    """

    def __init__(
        self, history: History, findings: Findings, trace: FactSource, retention_us: int
    ) -> None:
        """``retention_us`` is offsets.retention.minutes."""
        self._history = history
        self._findings = findings
        # By group, topic and partition: row and time that acknowledged the last commit, the commit.
        self._committed: dict[tuple[str, str, int], tuple[int, int, facts.OffsetCommitted]] = {}
        self._epoch: dict[str, int] = {}  # of the coordinator of each group
        self._deleted: dict[str, None] = {}  # names of topics
        self._deletions = DeletedOffsets(trace)
        self._expiries = ExpiredOffsets(trace, retention_us)

    def on_OffsetCommitted(self, seq: int, t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        """Note a commit that was acknowledged."""
        if fact.coordinator_epoch >= self._epoch.get(fact.group, -1):
            self._epoch[fact.group] = fact.coordinator_epoch
            self._committed[(fact.group, fact.topic, fact.partition)] = (seq, t, fact)

    def on_TopicDeleted(
        self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted | facts.TopicDeletionQueued
    ) -> None:
        """Allow that committed offsets of the topic disappear, some time later."""
        self._deleted[fact.topic] = None

    on_TopicDeletionQueued = on_TopicDeleted  # noqa: N815

    def on_OffsetFetched(self, seq: int, t: int, node: str, fact: facts.OffsetFetched) -> None:
        """Compare an answer with the last commit."""
        if fact.coordinator_epoch < self._epoch.get(fact.group, -1):
            return
        place = (fact.group, fact.topic, fact.partition)
        since, at, commit = self._committed.get(place, (-1, -1, None))
        if commit is None or fact.offset >= commit.offset:
            return
        gone = fact.offset < 0 and (
            fact.topic in self._deleted or self._expiries.cover(fact.group, at, t)
        )
        later = 0 <= commit.next_offset < fact.next_offset
        if gone or later or self._deletions.cover(since, commit):
            return
        key = self._history.group_key(fact.group)
        self._findings.add(
            "OFFSET", seq, t, key,
            f"{node} answered offset {fact.offset} for {fact.topic}-{fact.partition} of group"
            f" {fact.group}, after a commit of {commit.offset} was acknowledged",
            self._history.lost_between(key, since, seq),
        )  # fmt: skip


class StaleCommits:
    """stale-commit: a coordinator stores no commit of an older generation than one before.

    A coordinator accepts only commits of a classic group's current generation
    (ILLEGAL_GENERATION; ClassicGroup.validateOffsetCommit). A group whose generations have begun
    again after its deletion is not judged. A transaction's offsets become commits when it ends, and
    members of a consumer group (KIP-848) have epochs of their own, so neither is judged.
    """

    def __init__(self, history: History, findings: Findings) -> None:
        self._history = history
        self._findings = findings
        # By group and coordinator's epoch: the newest generation that has committed, and the row.
        self._generation: dict[tuple[str, int], tuple[int, int]] = {}
        self._unordered: dict[str, None] = {}  # groups whose commits have no order of generations

    def on_MemberRequest(self, _s: int, _t: int, _n: str, fact: facts.MemberRequest) -> None:
        """Leave out consumer groups."""
        if fact.api == "ConsumerGroupHeartbeat":
            self._unordered[fact.group] = None

    def on_GroupState(self, _s: int, _t: int, _n: str, fact: facts.GroupState) -> None:
        """Leave out groups that end."""
        if fact.state == "Dead":
            self._unordered[fact.group] = None

    def on_TransactionOffsets(
        self, _s: int, _t: int, _n: str, fact: facts.TransactionOffsets
    ) -> None:
        """Leave out groups whose offsets are committed in transactions."""
        self._unordered[fact.group] = None

    def on_OffsetCommitted(self, seq: int, t: int, node: str, fact: facts.OffsetCommitted) -> None:
        """Compare the generation of a commit with the newest one."""
        if fact.generation < 0 or fact.group in self._unordered:
            return
        place = (fact.group, fact.coordinator_epoch)
        newest, since = self._generation.get(place, (-1, -1))
        if fact.generation >= newest:
            self._generation[place] = (fact.generation, seq)
            return
        key = self._history.group_key(fact.group)
        self._findings.add(
            "stale-commit", seq, t, key,
            f"{node} stored a commit of {fact.member_id} in generation {fact.generation} of group"
            f" {fact.group}, after one of generation {newest}",
            self._history.lost_between(key, since, seq),
        )  # fmt: skip
