"""reordered-commit: a member's commit replaces a later commit of its own.

A consumer commits its positions, one request after the other, and retries a commit only while it
waits for it (KafkaConsumer.commitSync, ConsumerCoordinator.doCommitOffsetsAsync: an async commit
is not retried). So the coordinator stores a lower offset after a higher one of the same member and
generation in two cases only. The position went back in between; it belongs to the topic's name, so
it may be a position in a topic that was created again. Or the client had given up the earlier
commit, with its connection, and the request arrived late; then its application did not get a
success.
"""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.passed import Readers
from kafkasim.model import facts

Committer = tuple[str, str, int, str, int]
"""Group, member, generation, topic name, partition."""


@dataclass(frozen=True, slots=True)
class _Stored:
    """A commit that the coordinator stored after a higher one of the same member."""

    offset: int
    after: int  # the higher offset
    seq: int


class CommitOrder:
    """Follows one run; :meth:`finish` returns an anomaly for each partition and group.

    A generation of −1 is a commit without a group membership, or an old consumer's: not judged.
    """

    def __init__(self, trace: FactSource, readers: Readers) -> None:
        self._readers = readers
        self._topics = readers.topics
        self._last: dict[tuple[str, str, int], tuple[Committer, int]] = {}  # of each partition
        self._stored: dict[tuple[Committer, int], int] = {}  # how often each offset was stored
        self._told: dict[tuple[Committer, int], int] = {}  # how often a commit of it succeeded
        # By group, member, topic name and partition: the highest position that was set, and the
        # lowest to which it has gone back.
        self._placed: dict[tuple[str, str, str, int], int] = {}
        self._lowest: dict[tuple[str, str, str, int], int] = {}
        self._found: dict[Committer, list[_Stored]] = {}
        trace.subscribe(facts.Positioned, self._on_positioned)
        trace.subscribe(facts.OffsetCommitted, self._on_committed)
        trace.subscribe(facts.CommitResult, self._on_result)

    def _on_positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        if fact.reason != "none":
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

    def _on_committed(self, seq: int, _t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        if fact.generation < 0:
            return
        place = (fact.group, fact.topic, fact.partition)
        committer = (fact.group, fact.member_id, fact.generation, fact.topic, fact.partition)
        before, offset = self._last.get(place, (committer, -1))
        self._last[place] = (committer, fact.offset)
        stored = (committer, fact.offset)
        self._stored[stored] = self._stored.get(stored, 0) + 1
        if committer == before and fact.offset < offset:
            self._found.setdefault(committer, []).append(_Stored(fact.offset, offset, seq))

    def _on_result(self, _seq: int, _t: int, _node: str, fact: facts.CommitResult) -> None:
        topic = self._topics.name.get(fact.topic_id)
        if fact.error == "NONE" and topic is not None:
            committer = (fact.group, fact.member_id, fact.generation, topic, fact.partition)
            told = (committer, fact.offset)
            self._told[told] = self._told.get(told, 0) + 1

    def finish(self) -> list[Finding]:
        """Return the anomalies of the run, in the order in which they showed."""
        found = []
        for committer, each in self._found.items():
            group, member, _, topic, partition = committer
            key = (self._topics.ids.get(topic, [topic])[-1], partition)
            lowest = self._lowest.get((group, member, topic, partition), 1 << 62)
            bad = [
                one
                for one in each
                if one.offset < lowest
                and self._told.get((committer, one.offset), 0)
                >= self._stored[committer, one.offset]
            ]
            if bad:
                first = bad[0]
                detail = f"{member} of group {group} committed {first.offset} after {first.after}"
                found.append(
                    Finding("reordered-commit", *key, f"{detail}, and was told so", len(bad),
                            offset=first.offset, group=group, seq=first.seq)
                )  # fmt: skip
        return found
