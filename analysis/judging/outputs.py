"""Each committed input of a processor has exactly one committed output (KIP-98, KIP-447).

An output has the value of its input (``running/transactional/processing.py``). Inputs that count
are the readable records of the topics that the processor reads, from where its group began up to
what the group has committed. A producer that is not idempotent may write a record to several
offsets of the input, and then each of them has an output.

Nothing but the committed offsets says that an input has its output. So a group that begins below
what it has committed writes again: its coordinator is deposed and answers from memory, its offsets
have expired (KIP-211), or deleted inputs are there again. Whether a coordinator may answer so is
judged as OFFSET, ``stale-commit`` and ``vanished-offset``; here it is ``led-back``.
"""

from __future__ import annotations

from collections.abc import Iterator

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.footing import END, Spot
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.holes import Place
from kafkasim.analysis.judging.inputs import Inputs, Visible, readable
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import record

LED_BACK = "led-back"
"""Why an input has more outputs than one: the group began again below its commit."""


class Outputs:
    """lost-output, duplicate-output: what the processors of a run have read and written."""

    def __init__(self, trace: FactSource, history: History, inputs: Inputs) -> None:
        self._contents = history.contents
        self._transactions = history.transactions
        self._footing = history.footing
        self._holes = history.holes
        self._inputs = inputs
        self._processors: dict[tuple[str, tuple[str, ...], str], None] = {}
        """Group, topics that it reads, topic that it writes"""
        self._back: dict[tuple[str, PartitionKey], list[tuple[int, int, int]]] = {}
        """Where a group began below its commit: the two offsets, and the row"""
        self._appended: dict[str, dict[int, list[tuple[PartitionKey, int, int]]]] = {}
        """Output topic -> record id -> where it was appended: partition, offset, row"""
        self._given: dict[str, dict[int, dict[tuple[PartitionKey, int], None]]] = {}
        """Group -> record id -> where in its input the group was given it: partition, offset"""
        follow(trace, self)

    # Following.

    def on_ProcessorStarted(
        self, _seq: int, _t: int, _node: str, fact: facts.ProcessorStarted
    ) -> None:
        """Take a processor."""
        self._appended.setdefault(fact.topic, {})
        self._given.setdefault(fact.group, {})
        self._processors[fact.group, fact.topics, fact.topic] = None

    def on_Appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        """Take what was written to an output topic."""
        written = self._appended.get(self._inputs.names.get(fact.topic_id, ""))
        if written is not None:
            key = (fact.topic_id, fact.partition)
            for offset, record_id in enumerate(fact.record_ids, fact.base_offset):
                written.setdefault(record_id, []).append((key, offset, seq))

    def on_Polled(self, _seq: int, _t: int, _node: str, fact: facts.Polled) -> None:
        """Take the inputs that a group was given."""
        given = self._given.get(fact.group)
        if given is not None:
            key = (fact.topic_id, fact.partition)
            for offset, record_id in zip(fact.offsets, fact.record_ids):
                given.setdefault(record_id, {})[key, offset] = None

    def on_Positioned(self, seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Take where a group begins below its commit."""
        key = (fact.topic_id, fact.partition)
        committed = self._inputs.committed(fact.group, key)
        if fact.reason != "none" and fact.offset < committed:
            back = self._back.setdefault((fact.group, key), [])
            back.append((fact.offset, committed, seq))

    # Judging.

    def finish(self) -> list[Finding]:
        """Return a finding for each output that is lost, or written too often."""
        if not self._processors:
            return []
        visible = readable(self._contents)
        return [
            finding
            for group, topics, output in self._processors
            for finding in self._judge(group, topics, output, visible)
        ]

    def _judge(
        self, group: str, topics: tuple[str, ...], output: str, visible: Visible
    ) -> Iterator[Finding]:
        written: dict[int, list[tuple[PartitionKey, int]]] = {}
        for key, records in visible.items():
            if self._inputs.names.get(key[0]) == output:
                for offset, record_id in records.items():
                    written.setdefault(record_id, []).append((key, offset))
        yield from self._lost(group, topics, output, visible, written)
        for record_id, places in written.items():
            given = self._given[group].get(record_id, {})
            if len(places) <= max(1, len(given)):
                continue
            key, offset = places[-1]
            rows = [row for _, _, row in self._appended[output].get(record_id, [])]
            low, high = min(rows, default=-1), max(rows, default=END)
            spots = self._of_output(output, record_id)
            spots.append(self._footing.of_group(group, low, high))
            spots += self._inputs.of_resets(group, topics)
            again = sum(
                begin <= at < end and low < row < high
                for of, at in given
                for begin, end, row in self._back.get((group, of), ())
            )
            why = self._footing.lost(spots)
            if not why and len(places) <= max(1, len(given)) + again:
                why = LED_BACK
            text = f"{record(record_id)} was written {len(places)} times by {group}"
            yield Finding("duplicate-output", *key, text, 1, why, offset, record_id, group)

    def _lost(
        self,
        group: str,
        topics: tuple[str, ...],
        output: str,
        visible: Visible,
        written: dict[int, list[tuple[PartitionKey, int]]],
    ) -> Iterator[Finding]:
        for key, records in visible.items():
            if self._inputs.names.get(key[0]) not in topics:
                continue
            asked = self._inputs.asked(group, key)
            for offset, record_id in records.items():
                if offset not in asked or record_id in written:
                    continue
                spots = self._of_output(output, record_id)
                spots += [Spot(key, offset, offset + 1), *self._inputs.of_resets(group, topics)]
                why = self._footing.lost(spots) or self._holes.covering(
                    "lost-output", Place(group=group)
                )
                text = f"{group} committed past {record(record_id)} at offset {offset}"
                yield Finding(
                    "lost-output", *key, f"{text} without an output", 1, why, offset, record_id,
                    group,
                )  # fmt: skip

    # What a finding rests on.

    def _of_output(self, output: str, record_id: int) -> list[Spot]:
        """Return where an output was written, with the markers behind it, and who decided on it.

        Without a transaction no marker counts.
        """
        spots = []
        for key, offset, seq in self._appended.get(output, {}).get(record_id, []):
            transactions = self._transactions.with_record.get((key, record_id), [])
            spots.append(Spot(key, offset, END if transactions else offset + 1, seq))
            spots += [
                self._footing.of_id(each.transactional_id, each.begun) for each in transactions
            ]
        return spots
