"""Whether each committed input of a processor has exactly one committed output.

An output has the value of its input (``running/transactional/processing.py``). Inputs that count
are the readable records of the topics that the processor reads, from where its group began up to
what the group has committed. A producer that is not idempotent may write a record to several
offsets of the input, and then each of them has an output. A finding rests on the output where it
was written, on the input's offset, and, where the group was reset, on its positions and commits.

A group may be given an input again by a coordinator that is none any more (:class:`Answers`), when
its committed offsets have expired (``known/outputs/expired_offsets.py``), and when deleted
inputs are there again (``known/outputs/deleted_inputs.py``). An aborted output may be committed
with a later one (``known/unverified.py``). A client may commit an input whose output it has aborted
(``known/outputs/carried_offsets.py``).
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkasim.analysis.judging.promise import FactSource
from kafkasim.analysis.judging.readers.recreated.carried import CarriedOver
from kafkasim.analysis.judging.source import PartitionKey, deleted_below
from kafkasim.analysis.judging.transactions.footing import END, Footing, Spot
from kafkasim.analysis.judging.transactions.known.given_again import GivenBack
from kafkasim.analysis.judging.transactions.known.outputs.carried_offsets import CarriedOffsets
from kafkasim.analysis.judging.transactions.known.outputs.deleted_inputs import (
    DELETED_INPUTS,
    DeletedInputs,
)
from kafkasim.analysis.judging.transactions.known.outputs.expired_offsets import (
    EXPIRED,
    ExpiredCommits,
)
from kafkasim.analysis.judging.transactions.known.unverified import UNVERIFIED, UnverifiedBatches
from kafkasim.analysis.judging.transactions.ledger import Ledger
from kafkasim.model import facts

Finding = tuple[str, PartitionKey, str, int, int, str, list[Spot], str]
"""(anomaly, partition, detail, offset, record id, group, what it rests on, why Kafka does so)"""

DEPOSED = "deposed-coordinator"
"""Why a group was given committed inputs again: see :class:`Answers`."""

RESETS = ("earliest", "latest", "truncation")
"""Why a position is set to another one than the group has committed."""


class Answers:
    """Committed offsets as told by coordinators that another one has followed.

    A group coordinator answers OffsetFetch from memory, without a look at its log, until it hears
    that another broker has its partition (GroupMetadataManager.getOffsets; isGroupLocal). A pause
    or a cut may keep it from hearing that, and in ZooKeeper mode nobody tells it if its replica is
    in a failed directory (ReplicaManager.becomeLeaderOrFollower leaves it out). A processor that
    begins anew, or that aborts a transaction, goes back to what such a coordinator says. How long
    one may answer is judged as STALESERVE.
    """

    def __init__(self, trace: FactSource) -> None:
        self._trace = trace
        self._committed: dict[tuple[str, str, int], tuple[int, int]] = {}  # epoch, offset
        self._outdated: dict[tuple[str, str, int], list[tuple[int, int, int]]] = {}
        """By group and partition: offset told, offset committed, row"""
        trace.subscribe(facts.OffsetCommitted, self._on_committed)

    def follow(self) -> None:
        """Follow what coordinators tell from now on."""
        self._trace.subscribe(facts.OffsetFetched, self._on_fetched)

    def again(self, group: str, topic: str, number: int, offset: int, rows: list[int]) -> int:
        """Return how often between two of the rows such an answer led back to a committed input."""
        told = self._outdated.get((group, topic, number), [])
        return sum(low <= offset < high and min(rows) < row < max(rows) for low, high, row in told)

    def _on_committed(self, _seq: int, _t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        place = (fact.group, fact.topic, fact.partition)
        known = self._committed.get(place, (-1, -1))
        if fact.coordinator_epoch >= known[0]:
            self._committed[place] = (fact.coordinator_epoch, fact.offset)

    def _on_fetched(self, seq: int, _t: int, _node: str, fact: facts.OffsetFetched) -> None:
        place = (fact.group, fact.topic, fact.partition)
        epoch, offset = self._committed.get(place, (-1, -1))
        if fact.coordinator_epoch < epoch:
            self._outdated.setdefault(place, []).append((fact.offset, offset, seq))


class Outputs:
    """The processors of a run, and how far their groups are."""

    def __init__(
        self,
        trace: FactSource,
        ledger: Ledger,
        footing: Footing,
        given_back: GivenBack,
        unverified: UnverifiedBatches,
        retention_us: int,
    ) -> None:
        self._trace = trace
        self._ledger = ledger
        self._given_back = given_back
        self._unverified = unverified
        self._footing = footing
        self._answers = Answers(trace)
        self._carried = CarriedOffsets(trace)
        self._expired = ExpiredCommits(trace, retention_us)
        self._trimmed = deleted_below(trace)
        self._deleted = DeletedInputs(trace, self._trimmed)
        self.processors: dict[tuple[str, tuple[str, ...], str], None] = {}  # (group, topics, topic)
        self._names: dict[str, str] = {}  # topic id -> name, of topics that exist
        self._first: dict[tuple[str, PartitionKey], int] = {}  # where a group began
        self._committed: dict[tuple[str, PartitionKey], int] = {}  # the last committed offset
        self._carried_over = CarriedOver(trace)
        self._reset: dict[tuple[str, PartitionKey], int] = {}  # the row of a group's last reset
        # Output topic -> record id -> where it was appended: partition, offset, row.
        self._appended: dict[str, dict[int, list[tuple[PartitionKey, int, int]]]] = {}
        # Group -> record id -> where in its input the group was given it: partition, offset.
        self._given: dict[str, dict[int, dict[tuple[PartitionKey, int], None]]] = {}
        trace.subscribe(facts.ProcessorStarted, self._on_processor)
        trace.subscribe(facts.TopicCreated, self._on_topic)
        trace.subscribe(facts.TopicDeleted, self._on_deleted)
        trace.subscribe(facts.Positioned, self._on_positioned)
        trace.subscribe(facts.OffsetCommitted, self._on_committed)

    def judge(self, visible: dict[PartitionKey, dict[int, int]]) -> Iterator[Finding]:
        """Yield lost and duplicate outputs; ``visible`` are the readable records by offset."""
        for group, topics, output in self.processors:
            written: dict[int, list[tuple[PartitionKey, int]]] = {}
            for key, records in visible.items():
                if self._names.get(key[0]) == output:
                    for offset, record_id in records.items():
                        written.setdefault(record_id, []).append((key, offset))
            yield from self._lost(group, topics, output, visible, written)
            for record_id, places in written.items():
                given = self._given[group].get(record_id, {})
                if len(places) > max(1, len(given)):
                    key, offset = places[-1]
                    detail = f"record {record_id} was written {len(places)} times by {group}"
                    spots = self._of_output(output, record_id)
                    rows = [row for _, _, row in self._appended[output].get(record_id, [])]
                    between = (min(rows, default=-1), max(rows, default=END))
                    spots.append(self._footing.of_group(group, *between))
                    spots += self._of_resets(group, topics)
                    late = [self._unverified.is_late(*place, record_id) for place in places]
                    why = self._led_back(group, given, len(places), rows, sum(late))
                    yield "duplicate-output", key, detail, offset, record_id, group, spots, why

    def _led_back(
        self,
        group: str,
        given: dict[tuple[PartitionKey, int], None],
        times: int,
        rows: list[int],
        late: int,
    ) -> str:
        """Return why an input has outputs too many, or "": it was given again as often.

        An aborted output that a leader took ``late``, unverified, may be committed with another.
        """
        explained = max(1, len(given))
        for why, answers in ((DEPOSED, self._answers), (EXPIRED, self._expired)):
            explained += sum(
                answers.again(group, self._names.get(of, ""), number, at, rows)
                for (of, number), at in given
            )
            if times <= explained:
                return why
        explained += sum(self._deleted.again(group, key, at, rows) for key, at in given)
        if times <= explained:
            return DELETED_INPUTS
        return UNVERIFIED if times <= explained + late else ""

    def _lost(
        self,
        group: str,
        topics: tuple[str, ...],
        output: str,
        visible: dict[PartitionKey, dict[int, int]],
        written: dict[int, list[tuple[PartitionKey, int]]],
    ) -> Iterator[Finding]:
        outputs = [topic_id for topic_id, name in self._names.items() if name == output]
        for key, records in visible.items():
            name = self._names.get(key[0], "")
            if name not in topics:
                continue
            first = max(self._first.get((group, key), 1 << 62), self._trimmed.get(key, 0))
            end = self._committed.get((group, key), -1)
            for offset, record_id in records.items():
                if not first <= offset < end or self._carried_over.passed_over(group, key, offset):
                    continue
                if record_id not in written:
                    detail = f"{group} committed past record {record_id} at offset {offset}"
                    detail += " without an output"
                    spots = self._of_output(output, record_id)
                    spots += [Spot(key, offset, offset + 1), *self._of_resets(group, topics)]
                    why = self._given_back.excuse_in(outputs, record_id)
                    why = why or self._carried.excuse((group, name, key[1]), offset, record_id)
                    yield "lost-output", key, detail, offset, record_id, group, spots, why

    def _of_output(self, output: str, record_id: int) -> list[Spot]:
        """Return where an output was written, with the markers behind it, and who decided on it.

        Without a transaction no marker counts.
        """
        spots = []
        for key, offset, seq in self._appended.get(output, {}).get(record_id, []):
            transactions = self._ledger.with_record.get((key, record_id), [])
            spots.append(Spot(key, offset, END if transactions else offset + 1, seq))
            spots += [
                self._footing.of_id(each.transactional_id, each.begun) for each in transactions
            ]
        return spots

    def _of_resets(self, group: str, topics: tuple[str, ...]) -> list[Spot]:
        """Return what a group's resets explain: its positions, or its commits, were lost."""
        spots = []
        for (of, key), row in self._reset.items():
            if of == group and self._names.get(key[0]) in topics:
                spots += self._footing.of_reset(group, key, row)
        return spots

    def _on_processor(self, _seq: int, _t: int, _node: str, fact: facts.ProcessorStarted) -> None:
        """Follow appends and reads from the first processor on: without one they cost nothing."""
        if not self.processors:
            self._trace.subscribe(facts.Appended, self._on_appended)
            self._trace.subscribe(facts.Polled, self._on_polled)
            self._deleted.follow()
            self._answers.follow()
        self._appended.setdefault(fact.topic, {})
        self._given.setdefault(fact.group, {})
        self.processors[(fact.group, fact.topics, fact.topic)] = None

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        self._names.setdefault(fact.topic_id, fact.topic)

    def _on_deleted(self, _seq: int, _t: int, _node: str, fact: facts.TopicDeleted) -> None:
        self._names.pop(fact.topic_id, None)

    def _on_appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        appended = self._appended.get(self._names.get(fact.topic_id, ""))
        if appended is not None:
            key = (fact.topic_id, fact.partition)
            for index, record_id in enumerate(fact.record_ids):
                appended.setdefault(record_id, []).append((key, fact.base_offset + index, seq))

    def _on_polled(self, _seq: int, _t: int, _node: str, fact: facts.Polled) -> None:
        given = self._given.get(fact.group)
        if given is not None:
            key = (fact.topic_id, fact.partition)
            for offset, record_id in zip(fact.offsets, fact.record_ids):
                given.setdefault(record_id, {})[key, offset] = None

    def _on_positioned(self, seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        if fact.reason != "none":
            place = (fact.group, (fact.topic_id, fact.partition))
            self._first[place] = min(fact.offset, self._first.get(place, fact.offset))
            if fact.reason in RESETS:
                self._reset[place] = seq

    def _on_committed(self, _seq: int, _t: int, _node: str, fact: facts.OffsetCommitted) -> None:
        of = self._carried_over.topic_of(fact)
        self._committed[fact.group, (of, fact.partition)] = fact.offset
