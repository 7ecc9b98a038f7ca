"""Are the offsets that a consumer gets in order, and what does it pass over: poll-skip.

What poll() tells is a piece of one replica's log, as a fetch has read it: the records from the
position on, and at its end a position that is behind markers and aborted records, too. An offset is
judged when a position passes it, because a loss may put a record where a marker was.

A consumer hands out what it fetched some time before: FetchCollector.fetchRecords, before 3.7
Fetcher.fetchRecords, only asks whether the position is still where that fetch goes on. Meanwhile
the log may have lost these records. So the records of a poll say which log was read, and whether an
offset between them held a record for the reader is asked of the log of that time. A poll without
records may have read the log of the last record before, or that of now.

A consumer keeps its position by the topic's name (SubscriptionState, in all releases), and fetches
from it whatever topic id its metadata has. So what it must get next is kept by name here, too: a
topic that was created again goes on where the consumer left the one before, and so does the old one
if stale metadata leads back to it. Which offsets hold nothing is asked of the log that was read.
"""

from __future__ import annotations

from collections.abc import Callable

from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.legacy.fetched_before import FetchedBefore, Reader
from kafkasim.analysis.judging.readers.recreated.names import TopicNames
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

Note = Callable[[str, PartitionKey, str, int], None]
"""``note(anomaly, partition, detail, seq)``: take a jump."""


class ReadingOrder:
    """Follows what each member has been given since its position was set."""

    def __init__(self, trace: FactSource, holes: Contents, note: Note) -> None:
        self._holes = holes
        self._note = note
        self._before = FetchedBefore(trace)
        self._topics = TopicNames(trace)
        self._expected: dict[Reader, int] = {}  # the offset that poll() must go on with
        # The topic id of the log that was read, and the offset and id of the last record of it.
        self._last: dict[Reader, tuple[str, tuple[int, int]]] = {}
        # By group and partition: offsets that had nothing for a member when it passed over them,
        # and the first row in which one did.
        self._over: dict[tuple[str, PartitionKey], dict[int, int]] = {}

    def _reader(self, fact: facts.Positioned | facts.Polled) -> Reader:
        name = self._topics.name.get(fact.topic_id, fact.topic_id)
        return fact.group, fact.member_id, (name, fact.partition)

    def had_nothing(self, group: str, key: PartitionKey, offset: int, before: int) -> bool:
        """Return whether a member had passed over an offset before a row: it had nothing for it.

        No commit behind it skips what a leader has appended there since, after a loss.
        """
        return self._over.get((group, key), {}).get(offset, before) < before

    def positioned(self, fact: facts.Positioned) -> None:
        """Take a position that was set."""
        reader = self._reader(fact)
        self._last.pop(reader, None)
        self._before.positioned(self._expected, reader, fact)

    def polled(self, seq: int, node: str, fact: facts.Polled) -> None:
        """Take what poll() tells, and note where it does not go on from the offset before."""
        reader = self._reader(fact)
        expected = self._expected.get(reader)
        if expected is None:
            return
        explains = self._before.explains
        for offset, record_id in zip(fact.offsets, fact.record_ids):
            if offset != expected and not explains(reader, expected, offset):
                self._jump(seq, node, fact, expected, offset, (offset, record_id))
            expected = offset + 1
        if fact.offsets:
            self._last[reader] = (fact.topic_id, (fact.offsets[-1], fact.record_ids[-1]))
        if fact.position > expected:
            if not explains(reader, expected, fact.position):
                topic_id, read = self._last.get(reader, ("", None))
                read = read if topic_id == fact.topic_id else None
                self._jump(seq, node, fact, expected, fact.position, read)
            expected = fact.position
        self._expected[reader] = expected

    def _jump(
        self,
        seq: int,
        node: str,
        fact: facts.Polled,
        expected: int,
        offset: int,
        read: tuple[int, int] | None,
    ) -> None:
        """Note a jump to an offset, unless the log that was read has nothing between.

        ``read`` is a record of that log, None if there is none.
        """
        key = (fact.topic_id, fact.partition)
        got = "got" if read is not None and read[0] == offset else "went on to"
        if offset < expected:
            name, missed = "nonmonotonic-poll", ""
        else:
            committed_only = self._holes.reads_committed(node, fact.group)
            first = self._holes.first_missed(key, expected, offset, committed_only)
            if first is None:
                over = self._over.setdefault((fact.group, key), {})
                for each in range(expected, offset):
                    over.setdefault(each, seq)
                return
            name, missed = "poll-skip", f", without {first}" if first != expected else ""
        self._note(name, key, f"{node} {got} offset {offset} after {expected - 1}{missed}", seq)
