"""What members of groups read: all records in order, and no position is moved without a reason."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.readers import Readers
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import RESETS, UNCLEAN, PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import broker_of


class ReadingOrder:
    """poll-skip, nonmonotonic-poll: a member gets each record from its position on, in order.

    What poll() tells is a piece of one replica's log, as a fetch has read it: the records from the
    position on, and at its end a position that is behind markers and aborted records, too. A
    consumer keeps its position by the topic's name (SubscriptionState), and fetches from it
    whatever topic id its metadata has.

    An old consumer that was reset hands out what it had fetched before
    (ConsumerFetcherThread.handleOffsetOutOfRange leaves the queue): not judged from then on. An
    unclean election is a cause, and no other loss is an excuse.
    """

    def __init__(self, trace: FactSource, history: History, readers: Readers) -> None:
        self._history = history
        self._names = readers.topics.name
        self._expected: dict[tuple[str, str, str, int], int] = {}
        """By group, member, topic name and partition: the offset that poll() must go on with"""
        self._old: dict[str, None] = {}  # groups of old consumers
        self._found: list[Finding] = []
        follow(trace, self)

    def on_PartitionOwner(self, _seq: int, _t: int, _node: str, fact: facts.PartitionOwner) -> None:
        """Take an old consumer."""
        self._old[fact.group] = None

    def on_Positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Take a position that was set."""
        reader = self._reader(fact)
        if fact.reason == "none" or (fact.reason in RESETS and fact.group in self._old):
            self._expected.pop(reader, None)
        else:
            self._expected[reader] = fact.offset

    def on_Polled(self, seq: int, t: int, node: str, fact: facts.Polled) -> None:
        """Compare what poll() tells with the offset at which it must go on."""
        reader = self._reader(fact)
        expected = self._expected.get(reader)
        if expected is None:
            return
        for offset in fact.offsets:
            if offset != expected:
                self._jump(seq, t, node, fact, expected, offset)
            expected = offset + 1
        if fact.position > expected:
            self._jump(seq, t, node, fact, expected, fact.position)
            expected = fact.position
        self._expected[reader] = expected

    def _reader(self, fact: facts.Positioned | facts.Polled) -> tuple[str, str, str, int]:
        name = self._names.get(fact.topic_id, fact.topic_id)
        return fact.group, fact.member_id, name, fact.partition

    def _jump(
        self, seq: int, t: int, node: str, fact: facts.Polled, expected: int, offset: int
    ) -> None:
        """Note a jump to an offset, unless the log has nothing between."""
        key = (fact.topic_id, fact.partition)
        name, missed = "nonmonotonic-poll", ""
        if offset > expected:
            contents = self._history.contents
            committed_only = contents.reads_committed(node, fact.group)
            first = contents.first_missed(key, expected, offset, committed_only)
            if first is None:
                return
            name, missed = "poll-skip", f", without {first}" if first != expected else ""
        got = "got" if offset in fact.offsets else "went on to"
        losses = [loss for loss in self._history.losses(key) if loss.seq < seq]
        cause = UNCLEAN if any(loss.reason == UNCLEAN for loss in losses) else ""
        text = f"{node} {got} offset {offset} after {expected - 1}{missed}"
        self._found.append(Finding(name, *key, text, seq=seq, t_us=t, cause=cause))

    def finish(self) -> list[Finding]:
        """Return a finding for each jump."""
        return self._found


class NeedlessResets:
    """needless-reset: a group's position is moved only if its records are no longer there.

    A consumer gives its position up for auto.offset.reset, or for where the leader's log has
    diverged, in three cases (SubscriptionState.requestOffsetReset, maybeCompleteValidation): the
    group has no committed offset; the leader answers OFFSET_OUT_OF_RANGE; or OffsetsForLeaderEpoch
    tells of a truncation below the position (KIP-320). So a position up to which the group has read
    is moved only after the partition has lost records below it, or its log start has risen above
    it. Any loss explains it: an unclean election also cuts what was read.

    A consumer that goes back to the leader while a replica has its fetch takes the replica's answer
    for the leader's (AbstractFetch.requestMetadataUpdate). That is no judge's matter if a replica
    that was named to this member has come back with a log that ends below the position.

    Old consumers are not judged: their fetches carry no epoch. Nor are users' applications, which
    may seek (``apart`` are their groups), and topics that were deleted.
    """

    def __init__(
        self, trace: FactSource, history: History, readers: Readers, apart: Iterable[str] = ()
    ) -> None:
        self._history = history
        self._readers = readers
        self._start: dict[PartitionKey, int] = {}  # the highest log start of any replica
        self._apart: dict[str, None] = dict.fromkeys(apart)
        self._found: list[Finding] = []
        self._named: dict[tuple[str, PartitionKey], dict[int, int]] = {}
        """The row in which the leader first named each replica to a member, by its node"""
        self._fetches: dict[tuple[str, PartitionKey], int] = {}  # from which replica, −1: leader
        self._followers: dict[tuple[int, PartitionKey], list[tuple[int, int]]] = {}
        """(row, log end) of each time at which a broker began to follow"""
        follow(trace, self)

    def on_Positioned(self, seq: int, t: int, node: str, fact: facts.Positioned) -> None:
        """Judge a reset."""
        key = (fact.topic_id, fact.partition)
        before = self._readers.of(fact.group, fact.member_id, key).before
        if fact.reason not in RESETS or not 0 <= before <= self._readers.read(fact.group, key):
            return
        apart = fact.group in self._apart or fact.topic_id in self._history.deleted_topics
        if apart or before < self._start.get(key, 0) or self._follower_refused(node, key, before):
            return
        if not any(loss.seq < seq and loss.first < before for loss in self._history.losses(key)):
            text = f"{node} was moved from offset {before} to {fact.offset} ({fact.reason})"
            found = Finding("needless-reset", *key, text, 1, "", before, -1, fact.group, seq, t)
            self._found.append(found)

    def _follower_refused(self, node: str, key: PartitionKey, position: int) -> bool:
        """Return whether a replica that the member has left may have refused its position."""
        return self._fetches.get((node, key), 0) == -1 and any(
            since < row and end < position
            for replica, since in self._named[node, key].items()
            for row, end in self._followers.get((replica, key), ())
        )

    def on_ReadReplica(self, seq: int, _t: int, node: str, fact: facts.ReadReplica) -> None:
        """Take from where a member fetches."""
        place = (node, (fact.topic_id, fact.partition))
        self._fetches[place] = fact.replica
        named = self._named.setdefault(place, {})
        if fact.replica != -1:
            named.setdefault(fact.replica, seq)

    def on_BecameFollower(self, seq: int, _t: int, node: str, fact: facts.BecameFollower) -> None:
        """Take the log end of a replica that came back."""
        place = (broker_of(node), (fact.topic_id, fact.partition))
        self._followers.setdefault(place, []).append((seq, fact.log_end_offset))

    def on_LogStart(self, _seq: int, _t: int, _node: str, fact: facts.LogStart) -> None:
        """Take a log start."""
        key = (fact.topic_id, fact.partition)
        self._start[key] = max(fact.offset, self._start.get(key, 0))

    def on_PartitionOwner(self, _seq: int, _t: int, _node: str, fact: facts.PartitionOwner) -> None:
        """Take an old consumer."""
        self._apart[fact.group] = None

    def finish(self) -> list[Finding]:
        """Return a finding for each reset."""
        return self._found


class LostToRetention:
    """lost-to-retention: no record is deleted before a group has read it.

    Kafka does not promise that. Retention deletes segments by age and size, whatever the groups
    have read (UnifiedLog.deleteOldSegments); a position below the log start gets
    OFFSET_OUT_OF_RANGE, and auto.offset.reset moves it. A scenario permits the anomaly because its
    retention is shorter than the group's lag. A record that another member of the group got is not
    lost. ``note(observation, µs)`` is told ``overtaken``.
    """

    def __init__(
        self,
        trace: FactSource,
        history: History,
        readers: Readers,
        note: Callable[[str, int], None] = lambda *_: None,
    ) -> None:
        self._contents = history.contents
        self._readers = readers
        self._note = note
        self._deleted: dict[PartitionKey, int] = {}  # the end of what retention has deleted
        self._passed: dict[tuple[str, PartitionKey], dict[int, tuple[int, int]]] = {}
        """By group, partition and offset: row and time of the reset that passed over it"""
        follow(trace, self)

    def on_LogStart(self, _seq: int, _t: int, _node: str, fact: facts.LogStart) -> None:
        """Take what retention has deleted."""
        if fact.reason == "retention":
            key = (fact.topic_id, fact.partition)
            self._deleted[key] = max(fact.offset, self._deleted.get(key, 0))

    def on_Positioned(self, seq: int, t: int, _node: str, fact: facts.Positioned) -> None:
        """Take what a reset passes over."""
        key = (fact.topic_id, fact.partition)
        before = self._readers.of(fact.group, fact.member_id, key).before
        if before < 0 or fact.reason not in ("earliest", "latest"):
            return
        if before < fact.offset and before < self._deleted.get(key, 0):
            passed = self._passed.setdefault((fact.group, key), {})
            passed |= dict.fromkeys(range(before, fact.offset), (seq, t))
            self._note("overtaken", t)

    def finish(self) -> list[Finding]:
        """Return a finding for each record."""
        found = []
        for (group, key), passed in sorted(self._passed.items(), key=lambda each: each[0][::-1]):
            committed_only = self._contents.was_read_committed(group, key)
            for offset, (seq, t) in sorted(passed.items()):
                got = offset in self._readers.delivered.get((group, key), ())
                if not got and self._contents.holds(key, offset, committed_only):
                    text = f"group {group} did not get offset {offset} before retention deleted it"
                    found.append(
                        Finding("lost-to-retention", *key, text, 1, "", offset, -1, group, seq, t)
                    )
        return found
