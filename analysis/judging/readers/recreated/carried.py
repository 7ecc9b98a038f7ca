"""What groups carry from a topic to another one of its name: positions and committed offsets.

A consumer keeps its position by the topic's name (SubscriptionState.assignment). It commits and
fetches offsets by name, as coordinators keep them (OffsetMetadataManager; consumers use the topic
ids of OffsetCommit 10 since 4.2). So in a topic that was created again a member goes on where it
was in the old one, unless the leader finds that offset out of range or diverged. A commit of the
old topic that comes late is what the next member starts from. Stale metadata leads back to the old
topic in the same way. Kafka promises nothing of the records that are passed over so.

Within one topic nothing of this counts: a commit is of another topic only if its member was in that
one, or if nobody of the group has come so far in this one.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.recreated.names import TopicNames
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

Place = tuple[str, str, int]
"""Group, topic name and partition."""


class CarriedOver:
    """Follows groups from the first topic on that takes the name of another one."""

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._topics = TopicNames(trace)
        self._ids = self._topics.ids  # the oldest first
        self._follows = False
        # The topic that a member was told to be in last; no entry: the oldest of the name.
        self._in: dict[tuple[str, Place], str] = {}
        self._committed: dict[Place, str] = {}  # of which topic the last commit is, likewise
        self._reached: dict[tuple[str, PartitionKey], int] = {}  # the highest position of a group
        # By group and partition: the offsets that it has passed over, and in which row first.
        self._over: dict[tuple[str, PartitionKey], dict[int, int]] = {}
        trace.subscribe(facts.TopicCreated, self._on_topic)

    def topic_of(self, fact: facts.OffsetCommitted) -> str:
        """Return the id of the topic that a commit is of; "": of none that the group is in."""
        ids = self._ids.get(fact.topic, [fact.topic])
        if len(ids) == 1:
            return ids[0]
        place = (fact.group, fact.topic, fact.partition)
        topic_id = self._in.get((fact.member_id, place), ids[0])
        reached = self._reached.get((fact.group, (topic_id, fact.partition)), -1)
        return topic_id if topic_id == ids[0] or fact.offset <= reached else ""

    def passed_over(
        self, group: str, key: PartitionKey, offset: int, before: int = 1 << 62
    ) -> bool:
        """Return whether a group came from another topic behind an offset, before a row."""
        return self._over.get((group, key), {}).get(offset, before) < before

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        if fact.topic_id in self._topics.others and not self._follows:
            self._follows = True
            self._trace.subscribe(facts.Positioned, self._on_positioned)
            self._trace.subscribe(facts.Polled, self._on_polled)
            self._trace.subscribe(facts.OffsetCommitted, self._on_committed)

    def _place(self, fact: facts.Positioned | facts.Polled) -> Place | None:
        """Return the name's place if several topics have had the name."""
        if fact.topic_id not in self._topics.others:
            return None
        return fact.group, self._topics.name[fact.topic_id], fact.partition

    def _on_positioned(self, seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        place = self._place(fact)
        if place is None or fact.reason == "none":
            return
        oldest = self._ids[place[1]][0]
        other = self._committed.get(place, oldest) != fact.topic_id
        if fact.reason == "committed" and other:
            self._pass_over(seq, fact, fact.offset)
        self._take(place, fact, fact.offset)

    def _on_polled(self, seq: int, _t: int, _node: str, fact: facts.Polled) -> None:
        place = self._place(fact)
        if place is None:
            return
        oldest = self._ids[place[1]][0]
        if self._in.get((fact.member_id, place), oldest) != fact.topic_id:
            self._pass_over(seq, fact, fact.offsets[0] if fact.offsets else fact.position)
        self._take(place, fact, fact.position)

    def _on_committed(self, _seq: int, _t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        if len(self._ids.get(fact.topic, ())) > 1:
            self._committed[fact.group, fact.topic, fact.partition] = self.topic_of(fact)

    def _take(self, place: Place, fact: facts.Positioned | facts.Polled, position: int) -> None:
        """Note in which topic a member is, and how far."""
        self._in[fact.member_id, place] = fact.topic_id
        at = (fact.group, (fact.topic_id, fact.partition))
        self._reached[at] = max(position, self._reached.get(at, position))

    def _pass_over(self, seq: int, fact: facts.Positioned | facts.Polled, end: int) -> None:
        """Note what lies between where a group has been in this topic and an offset before which
        it goes on now."""
        at = (fact.group, (fact.topic_id, fact.partition))
        over = self._over.setdefault(at, {})
        for offset in range(max(self._reached.get(at, 0), 0), end):
            over.setdefault(offset, seq)
