"""What a user's application sent for an input is in the log once the input's offset is committed.

An application may send anything for a record that it has read, or nothing. So it is asked for what
it did send when it handled the record for the last time (fact OutputSent): a record whose send was
never awaited, and that went with the process, is lost with its input. A send that failed was told
to the application, which may have sent the record again: it counts only if nothing of that time is
in the log. So does what a transactional producer sent, since its transactions may be aborted.

Of a group with ``output = TOPIC`` more is asked, as of a processor (:mod:`.outputs`): each
committed input has one record in that topic. An input that the application has gone back to by
seek() may have one more for each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.history.footing import Spot
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.readers import OWN_SEEK
from kafkasim.analysis.judging.holes import Place
from kafkasim.analysis.judging.inputs import Inputs, readable
from kafkasim.analysis.judging.outputs import LED_BACK
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import record

Input = tuple[str, PartitionKey, int]
"""Group, partition and offset"""


@dataclass(slots=True)
class _Sent:
    """One record that an application sent, and what became of it."""

    seq: int
    node: str
    topic: str
    record_id: int
    transactional: bool = False
    result: str = ""  # of its last batch: "", acked, or why it failed
    appended: tuple[tuple[PartitionKey, int, int], ...] = ()  # partition, offset, row


class SentOutputs:
    """lost-output, duplicate-output: what users' applications have read and sent."""

    def __init__(
        self, trace: FactSource, history: History, inputs: Inputs, outputs: Mapping[str, str]
    ) -> None:
        """``outputs`` names the topic of each group that has one output for each input."""
        self._contents: Contents = history.contents
        self._footing = history.footing
        self._holes = history.holes
        self._inputs = inputs
        self._outputs = outputs
        self._sent: dict[Input, list[_Sent]] = {}
        self._handled: dict[Input, int] = {}  # of inputs with outputs: the row of the last poll
        self._by_id: dict[int, _Sent] = {}
        self._stopped: dict[str, tuple[int, str]] = {}  # host -> row and reason of its last stop
        self._back: dict[tuple[str, PartitionKey], list[tuple[int, int, bool]]] = {}
        """Where a group went back: the two offsets, and whether its application sought"""
        self._position: dict[tuple[str, str, PartitionKey], int] = {}  # group, member, partition
        follow(trace, self)

    # Following.

    def on_OutputSent(self, seq: int, _t: int, node: str, fact: facts.OutputSent) -> None:
        """Take a record that an application is about to send."""
        place = (fact.group, (fact.topic_id, fact.partition), fact.offset)
        sent = self._by_id[fact.record_id] = _Sent(seq, node, fact.output, fact.record_id)
        self._sent.setdefault(place, []).append(sent)
        self._handled.setdefault(place, -1)

    def on_Polled(self, seq: int, _t: int, _node: str, fact: facts.Polled) -> None:
        """Take that a group was given inputs once more."""
        key = (fact.topic_id, fact.partition)
        self._position[fact.group, fact.member_id, key] = fact.position
        for offset in fact.offsets if self._handled else ():
            if (fact.group, key, offset) in self._handled:
                self._handled[fact.group, key, offset] = seq

    def on_Positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Take where a group goes back."""
        key = (fact.topic_id, fact.partition)
        sought = fact.reason == "seek"
        end = self._inputs.committed(fact.group, key)
        if sought:
            end = max(end, self._position.get((fact.group, fact.member_id, key), -1))
        if fact.reason != "none" and fact.offset < end:
            self._back.setdefault((fact.group, key), []).append((fact.offset, end, sought))

    def on_TransactionSent(self, _s: int, _t: int, _n: str, fact: facts.TransactionSent) -> None:
        """Take an output that belongs to a transaction."""
        if fact.record_id in self._by_id:
            self._by_id[fact.record_id].transactional = True

    def on_Appended(self, seq: int, _t: int, _node: str, fact: facts.Appended) -> None:
        """Take where an output was written."""
        record_ids = fact.record_ids if self._by_id else ()
        for offset, record_id in enumerate(record_ids, fact.base_offset):
            sent = self._by_id.get(record_id)
            if sent is not None:
                sent.appended += (((fact.topic_id, fact.partition), offset, seq),)

    def on_Acked(self, _seq: int, _t: int, _node: str, fact: facts.Acked) -> None:
        """Take that an output is acknowledged."""
        for record_id in fact.record_ids if self._by_id else ():
            if record_id in self._by_id:
                self._by_id[record_id].result = "acked"

    def on_SendFailed(self, _seq: int, _t: int, _node: str, fact: facts.SendFailed) -> None:
        """Take that an output has failed."""
        for record_id in fact.record_ids if self._by_id else ():
            if record_id in self._by_id:
                self._by_id[record_id].result = fact.error

    def on_HostStopped(self, seq: int, _t: int, node: str, fact: facts.HostStopped) -> None:
        """Take the end of a process: what its producers had not sent is gone."""
        self._stopped[node] = seq, fact.reason

    # Judging.

    def finish(self) -> list[Finding]:
        """Return a finding for each output that is lost, or written too often."""
        if not (self._sent or self._outputs):
            return []
        visible = readable(self._contents)
        there = {
            place: [sent for sent in found if self._is_there(sent, visible)]
            for place, found in self._sent.items()
        }
        return [*self._lost(there), *self._missing(visible), *self._again(there)]

    def _is_there(self, sent: _Sent, visible: Mapping[PartitionKey, Mapping[int, int]]) -> bool:
        """Return whether an output can be read, or could be read until it was deleted."""
        for key, offset, _ in sent.appended:
            leader = self._contents.leaders.get(key)
            deleted = leader is not None and offset < leader.log_start_offset
            if deleted or visible.get(key, {}).get(offset) == sent.record_id:
                return True
            if self._contents.was_removed(key, sent.record_id):
                return True
        return False

    def _lost(self, there: Mapping[Input, list[_Sent]]) -> Iterator[Finding]:
        for (group, key, offset), every in self._sent.items():
            if offset not in self._inputs.asked(group, key):
                continue
            last = self._handled[group, key, offset]
            found = [sent for sent in there[group, key, offset] if sent.seq > last]
            lacking = [sent for sent in every if sent.seq > last and sent not in found]
            if any(self._is_pending(sent) for sent in lacking):
                continue
            told = [sent for sent in lacking if self._is_told(sent)]
            silent = [sent for sent in lacking if not self._is_told(sent)]
            for sent in silent or ([] if found else told[-1:]):
                text = f"{record(sent.record_id)}, is not in {sent.topic}: {self._fate(sent)}"
                yield self._finding(group, key, offset, f"its output, {text}", sent)

    def _is_pending(self, sent: _Sent) -> bool:
        """Return whether the producer still has a record when the run ends."""
        stopped, _ = self._stopped.get(sent.node, (-1, ""))
        return not sent.result and stopped < sent.seq

    def _is_told(self, sent: _Sent) -> bool:
        """Return whether the application could know that the record is not in the log."""
        return sent.transactional or sent.result not in ("", "acked")

    def _fate(self, sent: _Sent) -> str:
        if sent.transactional:
            return "its transaction was not committed"
        if not sent.result:
            return f"{sent.node} ended before its producer had an answer"
        return "it was acknowledged" if sent.result == "acked" else f"it failed ({sent.result})"

    def _finding(
        self, group: str, key: PartitionKey, offset: int, what: str, sent: _Sent | None
    ) -> Finding:
        spots = [Spot(key, offset, offset + 1), *self._inputs.of_resets(group)]
        if sent is not None:
            spots += [Spot(at, where, where + 1, seq) for at, where, seq in sent.appended]
        why = self._footing.lost(spots) or self._holes.covering("lost-output", Place(group=group))
        text = f"{group} committed past offset {offset}, and {what}"
        record_id = -1 if sent is None else sent.record_id
        return Finding("lost-output", *key, text, 1, why, offset, record_id, group)

    def _missing(self, visible: Mapping[PartitionKey, Mapping[int, int]]) -> Iterator[Finding]:
        """Yield the inputs for which nothing was sent to the topic of the group's outputs."""
        for group, topic in self._outputs.items():
            for key, records in visible.items():
                asked = self._inputs.asked(group, key)
                if self._inputs.names.get(key[0]) == topic:
                    continue
                for offset in records:
                    sent = self._sent.get((group, key, offset), [])
                    if offset in asked and not any(each.topic == topic for each in sent):
                        what = f"nothing was sent to {topic} for {record(records[offset])}"
                        yield self._finding(group, key, offset, what, None)

    def _again(self, there: Mapping[Input, list[_Sent]]) -> Iterator[Finding]:
        """Yield the inputs with several records in the topic of the group's outputs."""
        for (group, key, offset), found in there.items():
            outputs = [sent for sent in found if sent.topic == self._outputs.get(group)]
            if len(outputs) < 2:
                continue
            back = [
                sought
                for low, end, sought in self._back.get((group, key), ())
                if low <= offset < end
            ]
            why = ""
            if len(outputs) <= 1 + len(back):
                why = OWN_SEEK if any(back) else LED_BACK
            names = " and ".join([record(sent.record_id) for sent in outputs[:2]])
            text = f"offset {offset} of {group}'s input has {len(outputs)} outputs: {names}"
            last = outputs[-1].record_id
            yield Finding("duplicate-output", *key, text, 1, why, offset, last, group)
