"""What groups commit: no offset goes back by itself, and none passes a record that nobody handled.

A commit belongs to a topic's name, as coordinators keep it (OffsetMetadataManager). Of names that
several topics have had, only the order of one member's own commits is judged.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.readers import OWN_COMMIT, OWN_SEEK, Readers
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import RESETS, PartitionKey
from kafkasim.model import facts

Name = tuple[str, str, int]
"""Group, topic name, partition."""


class CommittedOffsets:
    """offset-regression, skipped-by-commit: a group's committed offset.

    - offset-regression: it goes back, though nobody has deleted it in between. A commit is
      acknowledged when the high watermark has passed its record; if an operator's tombstone stands
      behind that, the commit tells nothing of the group (OffsetMetadataManager.replay).
    - skipped-by-commit: it passes a record that was there, and that no member has processed. With
      auto-commit or commit-first a scenario permits it.

    Both rest on what the group had committed, and on its position where it was reset. An
    application may go back itself: it asks for the commit of a lower offset, or seeks back first.
    """

    def __init__(self, trace: FactSource, history: History, readers: Readers) -> None:
        self._history = history
        self._topics = readers.topics
        self._sends = history.sends
        self._last: dict[Name, tuple[int, facts.OffsetCommitted]] = {}  # with its row
        self._passed: dict[Name, list[tuple[int, int]]] = {}
        """The commits that no later one has exceeded, as (offset, row): offsets fall, rows rise"""
        self._deleted: dict[Name, tuple[int, int]] = {}  # leader epoch and offset of a tombstone
        self._first: dict[tuple[str, PartitionKey], int] = {}
        self._latest: dict[tuple[str, PartitionKey], int] = {}  # the highest reset to the end
        self._reset: dict[tuple[str, PartitionKey], int] = {}  # the row of a group's last reset
        self._processed: dict[tuple[str, PartitionKey], list[tuple[int, int]]] = {}
        self._sought: dict[tuple[str, PartitionKey], tuple[int, int]] = {}  # last seek: row, offset
        self._chosen: dict[tuple[str, PartitionKey, int], None] = {}  # offsets of commits back
        self._found: list[Finding] = []
        follow(trace, self)

    def on_Positioned(self, seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Take where a group is."""
        place = (fact.group, (fact.topic_id, fact.partition))
        if fact.reason != "none":
            self._first[place] = min(fact.offset, self._first.get(place, fact.offset))
        if fact.reason in RESETS:
            self._reset[place] = seq
        if fact.reason == "latest":
            self._latest[place] = max(fact.offset, self._latest.get(place, 0))
        if fact.reason == "seek":
            self._sought[place] = seq, fact.offset

    def on_CommitChosen(self, _seq: int, _t: int, _node: str, fact: facts.CommitChosen) -> None:
        """Take a commit back, which the application has asked for."""
        self._chosen[fact.group, (fact.topic_id, fact.partition), fact.offset] = None

    def _own(self, place: tuple[str, PartitionKey], offset: int, since: int) -> str:
        """Return how the application itself went back to an offset after a row, or ""."""
        row, sought = self._sought.get(place, (-1, 0))
        if row > since and sought <= offset:
            return OWN_SEEK
        return OWN_COMMIT if (*place, offset) in self._chosen else ""

    def on_Processed(self, _seq: int, _t: int, _node: str, fact: facts.Processed) -> None:
        """Take what a member has processed."""
        ranges = self._processed.setdefault((fact.group, (fact.topic_id, fact.partition)), [])
        if ranges and ranges[-1][1] == fact.base_offset:
            ranges[-1] = (ranges[-1][0], fact.offset)
        else:
            ranges.append((fact.base_offset, fact.offset))

    def on_OffsetsDeleted(self, _seq: int, _t: int, _node: str, fact: facts.OffsetsDeleted) -> None:
        """Take a tombstone."""
        name = (fact.group, fact.topic, fact.partition)
        self._deleted[name] = (fact.coordinator_epoch, fact.next_offset)
        self._last.pop(name, None)

    def on_OffsetCommitted(self, seq: int, t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        """Judge a commit against the one before."""
        name, ids = (fact.group, fact.topic, fact.partition), self._topics.ids.get(fact.topic, [])
        if len(ids) > 1:
            self._last.pop(name, None)
            return
        passed = self._passed.setdefault(name, [])
        while passed and passed[-1][0] <= fact.offset:
            passed.pop()
        passed.append((fact.offset, seq))
        place = (fact.coordinator_epoch, fact.next_offset)
        if fact.next_offset >= 0 and place <= self._deleted.get(name, (-1, -1)):
            return
        since, before = self._last.get(name, (-1, fact))
        self._last[name] = (seq, fact)
        if fact.offset < before.offset:
            key = (ids[0] if ids else fact.topic, fact.partition)
            text = f"group {fact.group} committed {fact.offset} after {before.offset}"
            reset = self._reset.get((fact.group, key), -1)
            why = self._history.footing.of_moved(fact.group, key, reset, since, seq)
            why = why or self._own((fact.group, key), fact.offset, since)
            self._found.append(
                Finding("offset-regression", *key, f"{text} (client-caused)", 1, why,
                        group=fact.group, seq=seq, t_us=t)
            )  # fmt: skip

    def finish(self) -> list[Finding]:
        """Return a finding for each commit that went back, and each record that one passed."""
        for (group, topic, partition), passed in sorted(self._passed.items()):
            ids = self._topics.ids.get(topic, [topic])
            key = (ids[0], partition)
            leader = self._history.contents.leaders.get(key)
            if len(ids) == 1 and (group, key) in self._first and leader is not None:
                start = self._sends.log_start(key, leader)
                for offset, row in self._unprocessed(group, key, passed, start):
                    text = f"group {group} committed past offset {offset} unprocessed"
                    reset = self._reset.get((group, key), -1)
                    why = self._history.footing.of_moved(group, key, reset, -1, row)
                    self._found.append(
                        Finding("skipped-by-commit", *key, text, 1, why, offset, group=group,
                                seq=row)
                    )  # fmt: skip
        return self._found

    def _unprocessed(
        self, group: str, key: PartitionKey, passed: list[tuple[int, int]], start: int
    ) -> Iterator[tuple[int, int]]:
        """Yield each offset with a record that the group committed past, and the commit's row."""
        contents = self._history.contents
        committed_only = contents.was_read_committed(group, key)
        position = max(self._first[group, key], self._latest.get((group, key), 0), start)
        end = passed[0][0]
        gaps = []
        for low, high in sorted(self._processed.get((group, key), [])):
            gaps.append((position, min(low, end)))
            position = max(position, high)
        for low, high in [*gaps, (position, end)]:
            for offset in range(low, high):
                row = [seq for behind, seq in passed if behind > offset][-1]
                there = contents.appended(key, offset) < row
                if there and contents.holds(key, offset, committed_only, row):
                    yield offset, row


Committer = tuple[str, str, int, str, int]
"""Group, member, generation, topic name, partition."""


class CommitOrder:
    """reordered-commit: a member's commit never replaces a later commit of its own.

    A consumer commits its positions, one request after the other, and retries a commit only while
    it waits for it (KafkaConsumer.commitSync, ConsumerCoordinator.doCommitOffsetsAsync: an async
    commit is not retried). So the coordinator stores a lower offset after a higher one of the same
    member and generation in two cases only. The position went back in between. Or the client had
    given up the earlier commit, with its connection, and the request arrived late; then its
    application did not get a success. A generation of −1 is a commit without a group membership, or
    an old consumer's: not judged.
    """

    def __init__(self, trace: FactSource, _history: History, readers: Readers) -> None:
        self._readers = readers
        self._topics = readers.topics
        self._last: dict[Name, tuple[Committer, int]] = {}
        self._stored: dict[tuple[Committer, int], int] = {}  # how often each offset was stored
        self._told: dict[tuple[Committer, int], int] = {}  # how often a commit of it succeeded
        self._placed: dict[tuple[str, str, str, int], int] = {}
        """By group, member, topic name and partition: the highest position that was set"""
        self._lowest: dict[tuple[str, str, str, int], int] = {}  # the lowest that was gone back to
        self._back: list[tuple[Committer, int, int, int, int]] = []
        """Offset that was stored, the higher one before, row, time"""
        self._chosen: dict[tuple[str, PartitionKey, int], None] = {}  # offsets of commits back
        follow(trace, self)

    def on_Positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Take a position that goes back."""
        if fact.reason == "none":
            return
        name = self._topics.name.get(fact.topic_id, fact.topic_id)
        reader = (fact.group, fact.member_id, name, fact.partition)
        read = [
            self._readers.of(fact.group, fact.member_id, (topic_id, fact.partition)).read
            for topic_id in self._topics.ids.get(name, [fact.topic_id])
        ]
        highest = max(self._placed.get(reader, -1), *read)
        if fact.offset < highest:
            self._lowest[reader] = min(fact.offset, self._lowest.get(reader, fact.offset))
        self._placed[reader] = max(fact.offset, highest)

    def on_OffsetCommitted(self, seq: int, t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        """Compare a commit with the one before."""
        if fact.generation < 0:
            return
        name = (fact.group, fact.topic, fact.partition)
        committer = (fact.group, fact.member_id, fact.generation, fact.topic, fact.partition)
        before, offset = self._last.get(name, (committer, -1))
        self._last[name] = (committer, fact.offset)
        stored = (committer, fact.offset)
        self._stored[stored] = self._stored.get(stored, 0) + 1
        if committer == before and fact.offset < offset:
            self._back.append((committer, fact.offset, offset, seq, t))

    def on_CommitChosen(self, _seq: int, _t: int, _node: str, fact: facts.CommitChosen) -> None:
        """Take a commit back, which the application has asked for."""
        self._chosen[fact.group, (fact.topic_id, fact.partition), fact.offset] = None

    def on_CommitResult(self, _seq: int, _t: int, _node: str, fact: facts.CommitResult) -> None:
        """Take what a client was told."""
        topic = self._topics.name.get(fact.topic_id)
        if fact.error == "NONE" and topic is not None:
            committer = (fact.group, fact.member_id, fact.generation, topic, fact.partition)
            told = (committer, fact.offset)
            self._told[told] = self._told.get(told, 0) + 1

    def finish(self) -> list[Finding]:
        """Return a finding for each commit."""
        found = []
        for committer, offset, after, seq, t in self._back:
            group, member, _, topic, partition = committer
            lowest = self._lowest.get((group, member, topic, partition), 1 << 62)
            told, stored = self._told.get((committer, offset), 0), self._stored[committer, offset]
            if offset < lowest and told >= stored:
                topic_id = self._topics.ids.get(topic, [topic])[-1]
                text = f"{member} of group {group} committed {offset} after {after}, and was told"
                own = (group, (topic_id, partition), offset) in self._chosen
                why = OWN_COMMIT if own else ""
                found.append(
                    Finding("reordered-commit", topic_id, partition, f"{text} so", 1, why, offset,
                            -1, group, seq, t)
                )  # fmt: skip
        return found


class Handovers:
    """handover-redelivery: with auto-commit, a member's last commit covers all that it got.

    Before partitions are revoked, the member commits its positions and waits for the response.
    Meanwhile poll() returns no records of these partitions (ConsumerCoordinator.onJoinPrepare with
    maybeMarkPartitionsPendingRevocation, KAFKA-14196; ConsumerMembershipManager.maybeReconcile). So
    if the commit was acknowledged and the partitions are then revoked, the next owner begins after
    the last record that this member's application got.

    Kafka promises nothing more. If the commit fails, or max.poll.interval.ms ends the wait for it,
    the member gives up the partitions nevertheless. Lost partitions cannot be committed. Only the
    commits before a revocation have ``revoking`` in the fact CommitResult.
    """

    def __init__(self, trace: FactSource, _history: History, readers: Readers) -> None:
        self._readers = readers
        self._covered: dict[tuple[str, str, str, int], int] = {}
        """By group, member, topic name and partition: what the commit before the rebalance
        acknowledged"""
        self._found: list[Finding] = []
        follow(trace, self)

    def on_CommitResult(self, _seq: int, _t: int, _node: str, fact: facts.CommitResult) -> None:
        """Take a commit before a revocation."""
        if fact.revoking:
            name = self._readers.topics.name.get(fact.topic_id, "")
            owned = (fact.group, fact.member_id, name, fact.partition)
            self._covered.pop(owned, None)
            if fact.error == "NONE":
                self._covered[owned] = fact.offset

    def on_ConsumerRevoked(self, seq: int, t: int, node: str, fact: facts.ConsumerRevoked) -> None:
        """Judge partitions that are revoked."""
        for name in fact.assignment:
            topic, _, number = name.rpartition("-")
            covered = self._covered.pop((fact.group, fact.member_id, topic, int(number)), None)
            for topic_id in self._readers.topics.ids.get(topic, ()):
                key = (topic_id, int(number))
                reader = self._readers.of(fact.group, fact.member_id, key)
                given, reader.given = reader.given, -1
                if covered is not None and given > covered and not fact.lost:
                    text = f"{node} of group {fact.group} got offset {given - 1} and had committed"
                    text = f"{text} {covered} when it revoked the partition"
                    self._found.append(
                        Finding("handover-redelivery", *key, text, 1, "", covered, -1, fact.group,
                                seq, t)
                    )  # fmt: skip

    def finish(self) -> list[Finding]:
        """Return a finding for each revocation."""
        return self._found
