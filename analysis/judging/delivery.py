"""Acknowledged records are there and are read: the core of Jepsen's Kafka checker, with its names.

Facts of clients are compared with the final log of each partition's leader. Every offset of a user
topic holds one record or a transaction marker until a cleaner removes it, and Jepsen's *index* is
an offset here.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.history.contents import ABORTED
from kafkasim.analysis.judging.history.footing import END, Spot
from kafkasim.analysis.judging.history.history import History
from kafkasim.analysis.judging.history.readers import OWN_COMMIT, OWN_SEEK, Readers
from kafkasim.analysis.judging.holes import Place
from kafkasim.analysis.judging.promise import FactSource, follow
from kafkasim.analysis.judging.source import LEADER_ACKS, RESETS, UNCLEAN, PartitionKey
from kafkasim.model import facts
from kafkasim.model.facts.names import record

CAUSED = (
    "lost-write", "unseen", "inconsistent-offsets", "nonmonotonic-send", "poll-skip",
    "nonmonotonic-poll",
)  # fmt: skip
"""Anomalies that a scenario may permit only where the trace shows a cause (:class:`Finding`)."""

ENDED = "ended-applications"
"""Why a group has not read on: the applications of all its consumers have failed or returned."""


class LostWrites:
    """lost-write: an acknowledged record is in the log, unless it was deleted or cleaned away.

    A record that a leader took for a duplicate is not: its coordinator has lost the epoch of its
    producer, and has given it again, or the producer has given its sequence again
    (ProducerStateEntry.findDuplicateBatch; KAFKA.md, 4.4).
    """

    def __init__(self, trace: FactSource, history: History) -> None:
        self._history = history
        self._taken: dict[tuple[PartitionKey, int], Spot] = {}
        """By partition and record id, of what was taken for other records: what that rests on"""
        follow(trace, self)

    def on_Acked(self, seq: int, _t: int, _node: str, fact: facts.Acked) -> None:
        """Take what a leader took for other records."""
        key, transactions = (fact.topic_id, fact.partition), self._history.transactions
        id_ = transactions.ids.get(fact.producer_id)
        for record_id in fact.record_ids if id_ is not None else ():
            self._taken.pop((key, record_id), None)
        if id_ is not None and transactions.took(fact):
            since = transactions.epoch_since(id_, fact.producer_id, fact.producer_epoch)
            spot = self._history.footing.of_id(id_, since, seq)
            self._taken |= dict.fromkeys(((key, each) for each in fact.record_ids), spot)

    def finish(self) -> list[Finding]:
        """Return a finding for each record."""
        contents, sends, found = self._history.contents, self._history.sends, []
        for key, leader in sorted(contents.leaders.items(), key=lambda each: each[0]):
            there = dict.fromkeys(leader.record_ids)
            start = sends.log_start(key, leader)
            for record_id, (offset, t, acked) in sends.acked.get(key, {}).items():
                if record_id in there or contents.was_removed(key, record_id):
                    continue
                if offset < 0 or offset >= start:
                    found.append(self._finding(key, record_id, offset, t, acked))
        return found

    def _finding(
        self, key: PartitionKey, record_id: int, offset: int, t: int, acked: facts.Acked
    ) -> Finding:
        began_us = t - acked.latency_us
        why = self._history.footing.of_record(key, offset, END, began_us)
        legal = next((reason for reason in why if reason != UNCLEAN), "")
        spot = self._taken.get((key, record_id))
        if spot is not None and not legal:
            place = Place(*key, producer_id=acked.producer_id)
            legal = self._history.footing.lost([spot]) or self._history.holes.covering(
                "lost-write", place
            )
        cause = why[0] if why else LEADER_ACKS if acked.acks != -1 else ""
        text = f"{record(record_id)} acknowledged at {offset}"
        return Finding("lost-write", *key, text, 1, legal, offset, record_id, cause=cause)


class Unseen:
    """unseen: a record that is acknowledged, and in the log, has been read when the run ends.

    Some group had a position at or below it, and was not reset past it. A group is not asked for
    what it could not read: its applications have ended, a stall kept it back that Kafka has as
    well, or its commits were lost. Of names that several topics have had nothing is asked.
    """

    def __init__(self, trace: FactSource, history: History, readers: Readers) -> None:
        self._history = history
        self._readers = readers
        self._sends = history.sends
        self._first: dict[PartitionKey, dict[str, int]] = {}
        """By group: the lowest position that was set"""
        self._latest: dict[tuple[str, PartitionKey], int] = {}
        """The highest reset to the end, which skips all below it"""
        self._hosts: dict[str, dict[str, None]] = {}  # of each group's consumers
        self._ended: dict[str, None] = {}  # hosts
        self._positions: Mapping[tuple[str, PartitionKey], int] = {}
        self._stall = ""
        follow(trace, self)

    def learn_stall(self, positions: Mapping[tuple[str, PartitionKey], int], reason: str) -> None:
        """Take where groups stood when the run ended, and the stall's excuse, "" for none."""
        self._positions, self._stall = positions, reason

    def on_Positioned(self, _seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Take from where on a group must read."""
        key = (fact.topic_id, fact.partition)
        if fact.reason != "none":
            first = self._first.setdefault(key, {})
            first[fact.group] = min(fact.offset, first.get(fact.group, fact.offset))
        if fact.reason == "latest":
            known = self._latest.get((fact.group, key), 0)
            self._latest[fact.group, key] = max(fact.offset, known)

    def on_HostStarted(self, _seq: int, _t: int, node: str, _fact: facts.HostStarted) -> None:
        """Take an application that runs."""
        self._ended.pop(node, None)

    def on_ConsumerAssigned(
        self, _seq: int, _t: int, node: str, fact: facts.ConsumerAssigned
    ) -> None:
        """Take a consumer of a group."""
        self._hosts.setdefault(fact.group, {})[node] = None

    def on_ApplicationFailed(
        self, _seq: int, _t: int, node: str, fact: facts.ApplicationFailed
    ) -> None:
        """Take an application that has ended."""
        if fact.ended:
            self._ended[node] = None

    def on_HostStopped(self, _seq: int, _t: int, node: str, fact: facts.HostStopped) -> None:
        """Take an application that has returned."""
        if fact.reason == "application-returned":
            self._ended[node] = None

    def finish(self) -> list[Finding]:
        """Return a finding for each record."""
        contents, found = self._history.contents, []
        for key, leader in sorted(contents.leaders.items(), key=lambda each: each[0]):
            groups, acked = self._first.get(key, {}), self._sends.acked.get(key, {})
            if not groups or key[0] in self._readers.topics.others:
                continue
            read: dict[int, int] = {}
            for group in groups:
                read |= self._readers.delivered.get((group, key), {})
            start = self._sends.log_start(key, leader)
            places: dict[int, int] = {}
            for record_id, offset in zip(leader.record_ids, contents.record_offsets(leader)):
                places.setdefault(record_id, offset)
            for record_id, (_, _, fact) in acked.items():
                offset = places.get(record_id, -1)
                if offset < start or offset in read:
                    continue
                asked = [
                    group
                    for group, first in groups.items()
                    if max(first, self._latest.get((group, key), 0)) <= offset
                    and contents.readable(key, leader, offset, group)
                ]
                if asked:
                    found.append(self._finding(key, asked, offset, record_id, fact))
        return found

    def _finding(
        self, key: PartitionKey, groups: list[str], offset: int, record_id: int, fact: facts.Acked
    ) -> Finding:
        why = self._history.footing.of_record(key, offset, END)
        legal = next((reason for reason in why if reason != UNCLEAN), "")
        reasons = [self._why(group, key, offset) for group in groups]
        if not legal and all(reasons):
            legal = reasons[0]
        cause = why[0] if why else LEADER_ACKS if fact.acks != -1 else ""
        text = f"{record(record_id)} at offset {offset} (late)"
        return Finding("unseen", *key, text, 1, legal, offset, record_id, groups[0], cause=cause)

    def _why(self, group: str, key: PartitionKey, offset: int) -> str:
        """Return why a group has not come to an offset, or ""."""
        lost = self._history.footing.lost([self._history.footing.of_group(group)])
        position = self._positions.get((group, key), END)
        hosts = self._hosts.get(group, {})
        behind = max(self._readers.delivered.get((group, key), ()), default=-1) < offset
        ended = behind and bool(hosts) and all(host in self._ended for host in hosts)
        return lost or (self._stall if position <= offset else "") or (ENDED if ended else "")


class Repeated:
    """duplicate, inconsistent-offsets: one value at one offset, and given once to a group.

    A duplicate is no error in itself: at-least-once delivery gives records twice. It has two
    kinds: one value at two offsets of the final log, and one offset that a group got twice. An
    offset with two values breaks what Kafka promises of committed records. What the application
    itself goes back to, by seek() or by the commit of an offset below its position, it gets once
    more for each time, and is not blamed for.
    """

    def __init__(self, trace: FactSource, history: History, readers: Readers) -> None:
        self._history = history
        self._readers = readers
        self._values: dict[PartitionKey, dict[int, int]] = {}
        self._reset: dict[tuple[str, PartitionKey], int] = {}  # the row of a group's last reset
        self._sought: dict[tuple[str, PartitionKey], list[tuple[int, int, int, str]]] = {}
        """Of seeks and commits back: the row, the offset, where the group was, and which it is"""
        self._chosen: dict[tuple[str, PartitionKey, int], None] = {}  # offsets of commits back
        self._found: list[Finding] = []
        follow(trace, self)

    def on_Positioned(self, seq: int, _t: int, _node: str, fact: facts.Positioned) -> None:
        """Take a reset, or a seek of the application."""
        key = (fact.topic_id, fact.partition)
        if fact.reason in RESETS:
            self._reset[fact.group, key] = seq
        elif fact.reason == "seek":
            before = self._readers.of(fact.group, fact.member_id, key).before
            if fact.offset < before:
                sought = self._sought.setdefault((fact.group, key), [])
                sought.append((seq, fact.offset, before, OWN_SEEK))
        elif (fact.group, key, fact.offset) in self._chosen:
            end = self._readers.read(fact.group, key)
            sought = self._sought.setdefault((fact.group, key), [])
            sought.append((seq, fact.offset, end, OWN_COMMIT))

    def on_CommitChosen(self, _seq: int, _t: int, _node: str, fact: facts.CommitChosen) -> None:
        """Take a commit back, which the application has asked for."""
        self._chosen[fact.group, (fact.topic_id, fact.partition), fact.offset] = None

    def on_Polled(self, seq: int, t: int, _node: str, fact: facts.Polled) -> None:
        """Compare what a member got with what others got at these offsets."""
        key = (fact.topic_id, fact.partition)
        values = self._values.setdefault(key, {})
        for offset, record_id in zip(fact.offsets, fact.record_ids):
            if values.setdefault(offset, record_id) != record_id:
                why = self._history.footing.of_record(key, offset, seq)
                legal = next((reason for reason in why if reason != UNCLEAN), "")
                text = f"offset {offset} has two values"
                self._found.append(
                    Finding("inconsistent-offsets", *key, text, 1, legal, offset, record_id,
                            fact.group, seq, t, "".join(why[:1]))
                )  # fmt: skip

    def finish(self) -> list[Finding]:
        """Return a finding for each offset, or record."""
        contents = self._history.contents
        for key, leader in sorted(contents.leaders.items(), key=lambda each: each[0]):
            if len(dict.fromkeys(leader.record_ids)) == len(leader.record_ids):
                continue
            first: dict[int, int] = {}
            for offset, record_id, state in sorted(contents.states(key)):
                if state != ABORTED and first.setdefault(record_id, offset) != offset:
                    text = f"{record(record_id)} at offsets {first[record_id]} and {offset}"
                    text = f"{text} (producer-caused)"
                    self._found.append(
                        Finding("duplicate", *key, text, offset=offset, record_id=record_id)
                    )
        for (group, key), repeated in self._readers.repeated.items():
            for offset, times in repeated.items():
                seq = self._readers.delivered[group, key][offset]
                text = f"group {group} got offset {offset} {times} times"
                why = self._history.footing.of_moved(
                    group, key, self._reset.get((group, key), -1), -1, seq
                )
                own = [
                    which
                    for at, low, high, which in self._sought.get((group, key), ())
                    if at < seq and low <= offset < high
                ]
                if not why and times <= 1 + len(own):
                    why = own[-1] if own else ""
                self._found.append(
                    Finding("duplicate", *key, text, 1, why, offset, group=group, seq=seq)
                )
        return self._found
