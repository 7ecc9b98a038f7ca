"""Where the members of groups are, by topic name as their consumers keep positions.

A topic that is deleted and created again has a new id (KIP-516), but consumers keep positions
(SubscriptionState.assignment) and coordinators keep offsets by its name. So in the new topic a
member goes on where it was in the old one.
"""

from __future__ import annotations

from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts


class TopicNames:
    """The names of topics, and the ids that each name has had, in the order of their creation."""

    def __init__(self, trace: FactSource) -> None:
        self.name: dict[str, str] = {}
        """Topic id -> name"""
        self.ids: dict[str, list[str]] = {}
        """Name -> the ids of its topics, in the order of their creation"""
        self.others: dict[str, list[str]] = {}
        """Topic id -> the ids of the other topics of its name; only of names that several have"""
        follow(trace, self)

    def on_TopicCreated(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        """Take a topic; a controller may tell of it more than once."""
        if fact.topic_id in self.name:
            return
        self.name[fact.topic_id] = fact.topic
        ids = self.ids.setdefault(fact.topic, [])
        ids.append(fact.topic_id)
        if len(ids) > 1:
            self.others |= {each: [other for other in ids if other != each] for each in ids}


class Reader:
    """Where one member of a group is in one partition; −1 stands for nothing."""

    __slots__ = ("before", "given", "position", "read")

    def __init__(self) -> None:
        self.position = -1  # told last; −1 also if the member is in another topic of this name
        self.before = -1  # the position before the last Positioned
        self.read = -1  # the highest position that poll() has told
        self.given = -1
        """The offset after the last record of poll() since the position was set, whichever topic
        of this name it is of; whoever judges that the partition was revoked takes it back"""


OWN_SEEK, OWN_COMMIT = "own-seek", "own-commit"
"""What covers that a group goes back, or commits back: its application has asked for that."""


class Readers:
    """Follows all members. When a judge hears of a new position, ``before`` is the last one."""

    def __init__(self, trace: FactSource) -> None:
        self._readers: dict[tuple[str, str, str, int], Reader] = {}
        self.topics = TopicNames(trace)
        self._others = self.topics.others
        self._read: dict[tuple[str, PartitionKey], int] = {}
        """By group and partition: the highest position that poll() has told any member"""
        self.delivered: dict[tuple[str, PartitionKey], dict[int, int]] = {}
        """By group and partition: the offsets that it got, with the row of the last time"""
        self.repeated: dict[tuple[str, PartitionKey], dict[int, int]] = {}
        """The same: how often it got an offset, if that is twice or more"""
        follow(trace, self)

    def of(self, group: str, member: str, key: PartitionKey) -> Reader:
        """Return where a member is."""
        place = (group, member, *key)
        reader = self._readers.get(place)
        if reader is None:
            reader = self._readers[place] = Reader()
        return reader

    def read(self, group: str, key: PartitionKey) -> int:
        """Return how far any member of a group has read, −1 if none has."""
        return self._read.get((group, key), -1)

    def on_Positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Take a position that was set, or given up."""
        reader = self.of(fact.group, fact.member_id, (fact.topic_id, fact.partition))
        if fact.topic_id in self._others:
            self._go_over(fact, reader)
        reader.before = reader.position
        if fact.reason == "none":
            reader.position = -1
        else:
            reader.position = fact.offset
            reader.given = -1

    def on_Polled(self, seq: int, _t: int, _node: str, fact: facts.Polled) -> None:
        """Take what poll() told."""
        reader = self.of(fact.group, fact.member_id, (fact.topic_id, fact.partition))
        if fact.topic_id in self._others:
            self._go_over(fact, reader)
        place = (fact.group, (fact.topic_id, fact.partition))
        position = reader.position = fact.position
        if position > reader.read:
            reader.read = position
            self._read[place] = max(position, self._read.get(place, -1))
        if fact.offsets:
            reader.given = fact.offsets[-1] + 1
            delivered = self.delivered.setdefault(place, {})
            for offset in fact.offsets:
                if offset in delivered:
                    repeated = self.repeated.setdefault(place, {})
                    repeated[offset] = repeated.get(offset, 1) + 1
                delivered[offset] = seq

    def _go_over(self, fact: facts.Positioned | facts.Polled, reader: Reader) -> None:
        """Take a member from the other topics of a name to this one."""
        for other in self._others[fact.topic_id]:
            left = self._readers.get((fact.group, fact.member_id, other, fact.partition))
            if left is not None:
                reader.given = max(reader.given, left.given)
                left.position = left.given = -1
