"""How far groups have got: what they committed and processed, and where their members are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.recreated.names import TopicNames
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts

Place = tuple[str, str, int]
"""Group, topic, partition; the topic's name or id, as the judge says."""


class Passed:
    """The commits of all groups that no later one has exceeded."""

    def __init__(self) -> None:
        self._commits: dict[Place, list[tuple[int, int]]] = {}
        """(offset, row): the offsets fall, the rows rise"""

    def add(self, place: Place, offset: int, seq: int) -> None:
        """Take a commit, which stands in row ``seq``."""
        commits = self._commits.setdefault(place, [])
        while commits and commits[-1][0] <= offset:
            commits.pop()
        commits.append((offset, seq))

    def highest(self) -> Iterator[tuple[Place, int]]:
        """Yield each group and partition with the highest offset that was committed, sorted."""
        for place, commits in sorted(self._commits.items()):
            yield place, commits[0][0]

    def row(self, place: Place, offset: int) -> int:
        """Return the row of the last commit behind an offset, −1 for none."""
        rows = [seq for end, seq in self._commits.get(place, ()) if end > offset]
        return rows[-1] if rows else -1


class ProcessedRanges:
    """The offsets that each group has processed in each partition."""

    def __init__(self) -> None:
        self._ranges: dict[tuple[str, PartitionKey], list[tuple[int, int]]] = {}

    def on_processed(self, _seq: int, _t: int, _node: str, fact: facts.Processed) -> None:
        """Take what a member has processed."""
        ranges = self._ranges.setdefault((fact.group, (fact.topic_id, fact.partition)), [])
        if ranges and ranges[-1][1] == fact.base_offset:
            ranges[-1] = (ranges[-1][0], fact.offset)
        else:
            ranges.append((fact.base_offset, fact.offset))

    def gaps(
        self, reader: tuple[str, PartitionKey], position: int, end: int
    ) -> Iterator[tuple[int, int]]:
        """Yield what was not processed of the offsets from ``position`` to before ``end``."""
        for low, high in sorted(self._ranges.get(reader, [])):
            if low > position and position < end:
                yield position, min(low, end)
            position = max(position, high)
        if position < end:
            yield position, end


ENDED = "ended-applications"


class EndedGroups:
    """Groups whose consumers have all ended, each with an application that failed or returned.

    Nobody reads on in such a group. Whether Kafka may answer what ended them is asked of the
    failures, by group_members.py:Excuses. ``delivered`` tells which offsets a group has got.
    """

    def __init__(
        self, trace: FactSource, delivered: Mapping[tuple[str, PartitionKey], Mapping[int, int]]
    ) -> None:
        self._delivered = delivered
        self._hosts: dict[str, dict[str, None]] = {}  # of each group's consumers
        self._ended: dict[str, None] = {}  # hosts
        trace.subscribe(facts.HostStarted, self._on_started)
        trace.subscribe(facts.ConsumerAssigned, self._on_assigned)
        trace.subscribe(facts.ApplicationFailed, self._on_failed)
        trace.subscribe(facts.HostStopped, self._on_stopped)

    def excuse(self, groups: Sequence[str], key: PartitionKey, offset: int) -> str:
        """Return why none of the groups got an offset, or "": all ended before they came to it."""
        before = [
            self._has_ended(group)
            and max(self._delivered.get((group, key), ()), default=-1) < offset
            for group in groups
        ]
        return ENDED if before and all(before) else ""

    def _has_ended(self, group: str) -> bool:
        hosts = self._hosts.get(group, {})
        return bool(hosts) and all(host in self._ended for host in hosts)

    def _on_started(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        self._ended.pop(node, None)

    def _on_assigned(self, _s: int, _t: int, node: str, fact: facts.ConsumerAssigned) -> None:
        self._hosts.setdefault(fact.group, {})[node] = None

    def _on_failed(self, _seq: int, _t: int, node: str, fact: facts.ApplicationFailed) -> None:
        if fact.ended:
            self._ended[node] = None

    def _on_stopped(self, _seq: int, _t: int, node: str, fact: facts.HostStopped) -> None:
        if fact.reason == "application-returned":
            self._ended[node] = None


class Stalled:
    """What groups could not read: a stall that Kafka has as well had not ended, or they had.

    A stall keeps back each group by itself: another one may have a reason of its own.
    """

    def __init__(
        self, trace: FactSource, delivered: Mapping[tuple[str, PartitionKey], Mapping[int, int]]
    ) -> None:
        self.ended = EndedGroups(trace, delivered)
        self._positions: Mapping[tuple[str, PartitionKey], int] = {}
        self._reason = ""

    def learn(self, positions: Mapping[tuple[str, PartitionKey], int], reason: str) -> None:
        """Take where groups stood when the run ended, and the stall's excuse, "" for none."""
        self._positions, self._reason = positions, reason

    def excuse(self, group: str, key: PartitionKey, offset: int) -> str:
        """Return which stall did not let a group come to an offset, or ""."""
        position = self._positions.get((group, key))
        return self._reason if position is not None and position <= offset else ""


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


class Readers:
    """Follows all members, once for the judges that ask where one was.

    It is made before them: when a judge is told Positioned, ``before`` is the position until then.
    A consumer keeps its position by the topic's name: in a topic that was created again it goes on
    where it was in the one before, and then it has no position there any more.
    """

    def __init__(self, trace: FactSource) -> None:
        self._readers: dict[tuple[str, str, str, int], Reader] = {}
        self.topics = TopicNames(trace)
        self._others = self.topics.others
        trace.subscribe(facts.Positioned, self._on_positioned)
        trace.subscribe(facts.Polled, self._on_polled)

    def of(self, group: str, member: str, key: PartitionKey) -> Reader:
        """Return where a member is."""
        place = (group, member, *key)
        reader = self._readers.get(place)
        if reader is None:
            reader = self._readers[place] = Reader()
        return reader

    def read(self, group: str, key: PartitionKey) -> int:
        """Return how far any member of a group has read."""
        return max(
            reader.read
            for (of, _, *partition), reader in self._readers.items()
            if (of, *partition) == (group, *key)
        )

    def _on_positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        reader = self.of(fact.group, fact.member_id, (fact.topic_id, fact.partition))
        if fact.topic_id in self._others:
            self._go_over(fact, reader)
        reader.before = reader.position
        if fact.reason == "none":
            reader.position = -1
        else:
            reader.position = fact.offset
            reader.given = -1

    def _on_polled(self, _seq: int, _t: int, _node: str, fact: facts.Polled) -> None:
        reader = self._readers.get((fact.group, fact.member_id, fact.topic_id, fact.partition))
        if reader is None:
            reader = self.of(fact.group, fact.member_id, (fact.topic_id, fact.partition))
        if fact.topic_id in self._others:
            self._go_over(fact, reader)
        position = reader.position = fact.position
        if position > reader.read:
            reader.read = position
        if fact.offsets:
            reader.given = fact.offsets[-1] + 1

    def _go_over(self, fact: facts.Positioned | facts.Polled, reader: Reader) -> None:
        """Take a member from the other topics of a name to this one."""
        for other in self._others[fact.topic_id]:
            left = self._readers.get((fact.group, fact.member_id, other, fact.partition))
            if left is not None:
                reader.given = max(reader.given, left.given)
                left.position = left.given = -1
