"""A share partition against a dumb oracle: one entry for each offset (KIP-932).

The theorem: a record that was accepted or rejected durably is never handed out again; a record is
held by one member at a time; every other record above the start comes again until it was delivered
five times. Writes of the persister answer late, in order, well or badly; locks expire, sessions
end, the log start moves, and other leaders take over with what was persisted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchPartitionResponse
from kafkasim.model.messages.share import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    AcknowledgementBatch,
    ReadStateResult,
    StateBatch,
    StatePartitionResult,
)
from kafkasim.model.records import Record, RecordBatch, TopicPartition, assigned, batch_of
from kafkasim.model.replication.share.partition.share_partition import SharePartition
from kafkasim.model.replication.share.rules import ShareRules
from kafkasim.model.timers import Timers

TP = TopicPartition("orders", 0)
LIMIT = 3
LOCK_MS = 1000
NONE = Errors.NONE
MEMBERS = st.sampled_from(["a", "b"])
AVAILABLE, HELD, FINAL = "available", "held", "final"

Steps = Iterator[None]
"""The steps of a history: after each of them the invariants hold."""


class FakePersister:
    """Keeps the state of one share partition; every write waits for its answer."""

    def __init__(self) -> None:
        self.start = 0
        self.states: dict[int, tuple[int, int]] = {}  # offset: state, delivery count
        self.waiting: list[tuple[int, tuple[StateBatch, ...], Callable[[Any, int], None]]] = []

    def read_state(self, *args: Any) -> None:
        rows = [
            StateBatch(offset, offset, state, count)
            for offset, (state, count) in sorted(self.states.items())
            if offset >= self.start
        ]
        args[-1](ReadStateResult(0, NONE, "", 0, self.start, tuple(rows)), 0)

    def write_state(self, *args: Any) -> None:
        start, batches, done = args[-3:]
        self.waiting.append((start, batches, done))

    def answer(self, error: Errors, now: int) -> None:
        start, batches, done = self.waiting.pop(0)
        if error is NONE:
            self.start = max(self.start, start)
            for batch in batches:
                for offset in range(batch.first_offset, batch.last_offset + 1):
                    self.states[offset] = (batch.delivery_state, batch.delivery_count)
        done(StatePartitionResult(0, error), now)


class Context:
    """What the share partition needs of its broker."""

    most_deliveries = LIMIT
    most_in_flight = 1000

    def __init__(self, persister: FakePersister) -> None:
        self.out: list[Any] = []
        self.timers = Timers()
        self.rules = Shares.rules
        self.persister = persister

    def lock_duration_ms(self, group_id: str) -> int:
        return LOCK_MS

    def reset_offset(self, group_id: str, tp: TopicPartition, leader_epoch: int) -> int | Errors:
        return 0

    def complete_fetches(self, group_id: str, tp: TopicPartition, now: int) -> None:
        pass


@dataclass
class Entry:
    """What the oracle knows of one offset."""

    state: str = AVAILABLE
    count: int = 0
    member: str = ""
    deadline: int = 0
    before: Entry | None = None  # what it returns to if the pending write fails
    seen: bool = False  # handed out by this leader, or known to the persister


@dataclass
class Write:
    """A write that waits: the entries that it makes durable."""

    entries: dict[int, Entry] = field(default_factory=dict)


class Shares(RuleBasedStateMachine):
    rules = ShareRules()

    def __init__(self) -> None:
        super().__init__()
        self.log: list[RecordBatch] = []
        self.log_start = 0
        self.now = 0
        self.entries: dict[int, Entry] = {}
        self.durable: dict[int, str] = {}  # offset: final, by the persister's word
        self.writes: list[Write] = []
        self.persister = FakePersister()
        self.answers: list[Errors] = []
        self.below_start: set[int] = set()  # available again, though the log start has passed them
        self._lead()
        self.produce([4, 2, 3, 1, 4], 0)

    def _lead(self) -> None:
        self.context = Context(self.persister)
        self.share = SharePartition(self.context, "g", "id", TP, 0)
        self.share.initialize(lambda error, _: self.answers.append(error), self.now)
        assert self.share.active
        self.highest_start = -1  # of this leader

    # -------------------------------------------------------------------------------- the log

    @rule(sizes=st.lists(st.integers(1, 4), min_size=1, max_size=3), gap=st.integers(0, 2))
    def produce(self, sizes: list[int], gap: int) -> None:
        end = self.log[-1].next_offset if self.log else self.log_start
        for size in sizes:
            batch = batch_of(tuple([Record(None, 1, 10, 0)] * size))
            self.log.append(assigned(batch, end + gap, 0))
            for offset in range(end + gap, end + gap + size):
                self.entries[offset] = Entry()
            end, gap = end + gap + size, 0

    @precondition(lambda self: len(self.log) > 3)
    @rule(data=st.data())
    def raise_log_start(self, data: st.DataObject) -> None:
        """The log forgets batches; the leader hears of it at a fetch out of range."""
        self.forget_batches(data.draw(st.integers(1, 3)))

    def forget_batches(self, at: int) -> None:
        self.log_start = self.log[at - 1].next_offset
        self.log = self.log[at:]
        self.share.log_start_moved(self.log_start)
        batch = self.share.cache.floor(self.log_start)
        for offset, _, state in [] if batch is None else batch.states():
            entry = self.entries.get(offset)
            if entry and entry.state == AVAILABLE and not state.in_transition:
                entry.before = None  # a split forgets that the release is not durable yet

    # ------------------------------------------------------------------------------- fetching

    @rule(member=MEMBERS)
    def fetch_all(self, member: str) -> None:
        self.fetch(member, 100, 3, 10)

    @rule(member=MEMBERS, most=st.integers(1, 6), size=st.integers(1, 6), reads=st.integers(1, 3))
    def fetch(self, member: str, most: int, size: int, reads: int) -> None:
        offset = self.share.cache.next_fetch_offset()
        wanted = [
            each
            for each, entry in sorted(self.entries.items())
            if each >= self.log_start and entry.state == AVAILABLE and entry.before is None
        ]
        if wanted:
            assert offset <= wanted[0], "the next fetch skips a record"
        if not self.log_start <= offset <= (self.log[-1].last_offset if self.log else -1):
            assert not wanted or offset < self.log_start, (offset, wanted)
            self.share.log_start_moved(self.log_start)
            self.the_next_fetch_finds_the_log()
            return
        read = tuple([batch for batch in self.log if batch.last_offset >= offset][:reads])
        found = self.share.acquire(
            member, size, most, offset, FetchPartitionResponse(TP, NONE, 0, 0, 0, read), self.now
        )
        for acquired in found:
            for each in range(acquired.first_offset, acquired.last_offset + 1):
                entry = self.entries.get(each)
                if entry is None:
                    continue  # an offset without a record: the client will say so
                assert entry.state == AVAILABLE, (each, entry)
                assert entry.before is None, (each, entry)
                entry.state, entry.member, entry.seen = HELD, member, True
                entry.count += 1
                entry.deadline = self.now + LOCK_MS * 1000
                assert entry.count == acquired.delivery_count, (each, entry, acquired)

    def the_next_fetch_finds_the_log(self) -> None:
        """A fetch out of range is the last one; KAFKA.md, 3.6, has two weak points of Kafka."""
        offset = self.share.cache.next_fetch_offset()
        batch = self.share.cache.floor(offset)
        in_gap = self.share.cache.gap_open and (batch is None or batch.last_offset < offset)
        if offset < self.log_start and not in_gap:
            assert offset in self.below_start, (offset, self.log_start)

    # ------------------------------------------------------------------------- acknowledging

    def _held(self, member: str) -> list[int]:
        return [
            offset
            for offset, entry in sorted(self.entries.items())
            if entry.state == HELD and entry.member == member
        ]

    @rule(data=st.data())
    def acknowledge_as_holder(self, data: st.DataObject) -> None:
        for member in ("a", "b"):
            self.acknowledge(member, data)

    @rule(member=MEMBERS, data=st.data())
    def acknowledge(self, member: str, data: st.DataObject) -> None:
        held = self._held(member)
        if not held:
            return
        first = data.draw(st.sampled_from(held))
        last = first
        while last + 1 in held and data.draw(st.booleans()):
            last += 1
        length = last - first + 1
        kinds = st.sampled_from([ACCEPT, RELEASE, REJECT, GAP])
        types = data.draw(
            st.one_of(st.tuples(kinds), st.lists(kinds, min_size=length, max_size=length))
        )
        self.acknowledge_range(member, first, last, *types)

    def acknowledge_range(self, member: str, first: int, last: int, *types: int) -> None:
        self._acknowledge(member, first, last, types, NONE)
        write = Write()
        for offset in range(first, last + 1):
            if offset < self.share.cache.start_offset:
                continue
            kind = types[offset - first] if len(types) > 1 else types[0]
            entry = self.entries[offset]
            state = AVAILABLE if kind == RELEASE and entry.count < LIMIT else FINAL
            self._begin(write, offset, replace(entry, state=state, member=""))
        if write.entries:
            self.writes.append(write)

    def _acknowledge(
        self, member: str, first: int, last: int, types: tuple[int, ...], error: Errors
    ) -> None:
        before, pending = len(self.answers), len(self.persister.waiting)
        batch = AcknowledgementBatch(first, last, types)
        self.share.acknowledge(member, (batch,), lambda e, _: self.answers.append(e), self.now)
        if len(self.persister.waiting) == pending:
            assert self.answers[before:] == [error], (first, last, types)
        else:
            assert error is NONE, (first, last, types)

    def _begin(self, write: Write, offset: int, after: Entry) -> None:
        self.entries[offset] = write.entries[offset] = replace(after, before=self.entries[offset])

    @rule(member=MEMBERS, data=st.data())
    def acknowledge_of_another(self, member: str, data: st.DataObject) -> None:
        """What a member does not hold it cannot acknowledge; nothing changes."""
        wrong = [
            offset
            for offset, entry in sorted(self.entries.items())
            if entry.seen
            and offset >= self.share.cache.start_offset
            and (entry.state != HELD or entry.member != member)
        ]
        if not wrong:
            return
        offset = data.draw(st.sampled_from(wrong))
        batch = self.share.cache.floor(offset)
        if batch is None or batch.last_offset < offset:
            return
        self._acknowledge(member, offset, offset, (ACCEPT,), Errors.INVALID_RECORD_STATE)

    @precondition(lambda self: self._held("a") or self._held("b"))
    @rule(member=MEMBERS)
    def end_session(self, member: str) -> None:
        held = self._held(member)
        self.share.release(member, lambda e, _: self.answers.append(e), self.now)
        write = Write()
        for offset in held:
            entry = self.entries[offset]
            if offset < self.share.cache.start_offset:
                self._begin(write, offset, replace(entry, state=FINAL, member=""))
            else:
                after = replace(entry, state=AVAILABLE, member="", count=entry.count - 1)
                self._begin(write, offset, after)
        if len(self.persister.waiting) > len(self.writes):
            self.writes.append(write)

    @rule(delay_ms=st.sampled_from([300, 1000]))
    def wait(self, delay_ms: int) -> None:
        self.now += delay_ms * 1000
        timers = self.context.timers
        due = timers.pop_due(self.now)
        while due is not None:
            timers.fire(due[0], due[1], self.now)
            due = timers.pop_due(self.now)
        while len(self.writes) < len(self.persister.waiting):
            self.writes.append(Write())  # of expired locks: it undoes nothing
        for offset, entry in self.entries.items():
            if entry.state == HELD and entry.deadline <= self.now:
                self._expire(offset, entry)

    def _expire(self, offset: int, entry: Entry) -> None:
        entry.member = ""
        gone = offset < self.share.cache.start_offset or entry.count >= LIMIT
        entry.state = FINAL if gone else AVAILABLE

    # -------------------------------------------------------------------- persister, leaders

    @precondition(lambda self: self.persister.waiting)
    @rule(ok=st.booleans())
    def persister_answers(self, ok: bool) -> None:
        error = NONE if ok else Errors.COORDINATOR_NOT_AVAILABLE
        for batch in self.persister.waiting[0][1] if ok else ():
            for offset in range(batch.first_offset, batch.last_offset + 1):
                if batch.delivery_state in (2, 4):
                    self.durable[offset] = FINAL
        self.persister.answer(error, self.now)
        for offset, entry in self.writes.pop(0).entries.items():
            if self.entries[offset] is not entry:
                continue
            before, entry.before = entry.before, None
            if not ok and before is not None:
                if offset < self.log_start:
                    expired = before.deadline <= self.now and before.count < LIMIT
                    if entry.state == FINAL and expired:
                        self.below_start.add(offset)
                    continue
                self.entries[offset] = before
                before.count = before.count
                if before.deadline <= self.now:
                    self._expire(offset, before)

    @precondition(lambda self: self.persister.states)
    @rule()
    def another_leader_takes_over(self) -> None:
        """The writes under way are lost; what nobody persisted was never delivered."""
        self.persister.waiting.clear()
        self.writes.clear()
        self.below_start.clear()
        for offset in self.entries:
            state, count = self.persister.states.get(offset, (0, 0))
            final = state in (2, 4) or offset < self.persister.start
            self.entries[offset] = Entry(FINAL if final else AVAILABLE, count)
        self._lead()
        self.share.log_start_moved(self.log_start)

    # ----------------------------------------------------------------------------- invariants

    @invariant()
    def the_states_agree(self) -> None:
        cache = self.share.cache
        for offset, entry in self.entries.items():
            if offset < self.log_start:
                continue
            if offset < cache.start_offset:
                assert entry.state == FINAL, (offset, entry, cache.start_offset)
                assert entry.before is None, (offset, entry)
                continue
            batch = cache.floor(offset)
            state = None if batch is None else batch.state_at(offset)
            if batch is None or batch.last_offset < offset or state is None:
                assert entry.state == AVAILABLE, (offset, entry)
                continue
            expected = {"AVAILABLE": AVAILABLE, "ACQUIRED": HELD}.get(state.state.name, FINAL)
            assert expected == entry.state, (offset, entry, state)
            assert state.delivery_count == entry.count, (offset, entry, state)
            assert state.delivery_count <= LIMIT, (offset, entry, state)
            assert state.in_transition == (entry.before is not None), (offset, entry, state)

    @invariant()
    def the_start_never_moves_back(self) -> None:
        """It may if all that is cached is final: then it is the end of that, as in Kafka."""
        start = self.share.cache.start_offset
        if self.share.cache.batches:
            assert not [each for each in self.entries if start <= each < self.highest_start]
        self.highest_start = start

    @invariant()
    def what_is_final_and_durable_stays_final(self) -> None:
        for offset in self.durable:
            entry = self.entries.get(offset)
            if entry is not None:
                assert entry.state == FINAL, (offset, entry)


TestShares = Shares.TestCase
TestShares.settings = settings(max_examples=80, stateful_step_count=40, deadline=None)


def _history_of_an_expired_lock(machine: Shares) -> Steps:
    """A record's lock expires while its acceptance is written, and the write fails."""
    yield machine.fetch("a", 100, 10, 1)
    yield machine.acknowledge_range("a", 0, 3, ACCEPT)
    yield machine.wait(1000)
    yield machine.persister_answers(ok=False)


def _history_of_a_log_start(machine: Shares) -> Steps:
    """Two records are accepted, the log forgets the next two in a member's hand, then one more."""
    yield machine.fetch("a", 100, 10, 3)
    yield machine.acknowledge_range("a", 0, 1, ACCEPT)
    yield machine.persister_answers(ok=True)
    yield machine.forget_batches(1)
    yield machine.acknowledge_range("a", 4, 4, ACCEPT)
    yield machine.persister_answers(ok=True)


def _history_of_two_members(machine: Shares) -> Steps:
    """Two members hold records of one batch, and the session of the second one ends."""
    yield machine.fetch("a", 100, 10, 1)
    yield machine.acknowledge_range("a", 0, 1, RELEASE)
    yield machine.persister_answers(ok=True)
    yield machine.fetch("b", 2, 10, 1)
    yield machine.end_session("a")


def _history_of_a_release(machine: Shares) -> Steps:
    """A member fetches while a release is written."""
    yield machine.fetch("a", 100, 10, 1)
    yield machine.acknowledge_range("a", 0, 3, RELEASE)
    yield machine.fetch("b", 100, 10, 1)


def _history_of_a_gap(machine: Shares) -> Steps:
    """The leader changes when later records are accepted than those in a member's hand."""
    yield machine.fetch("a", 100, 1, 3)
    yield machine.acknowledge_range("a", 4, 5, ACCEPT)
    yield machine.persister_answers(ok=True)
    yield machine.another_leader_takes_over()
    yield machine.fetch("b", 100, 10, 3)


def _history_of_two_batches_below_the_log_start(machine: Shares) -> Steps:
    """The log forgets two batches that are available, and a member fetches the third one."""
    yield machine.fetch("a", 100, 1, 3)
    yield machine.acknowledge_range("a", 0, 8, RELEASE)
    yield machine.persister_answers(ok=True)
    yield machine.forget_batches(2)
    yield machine.fetch("b", 100, 10, 3)


def _history_of_a_release_below_the_log_start(machine: Shares) -> Steps:
    """The log forgets a record while its release is written, its lock expires, the write fails.

    The log start archives it for good (KAFKA-19476, InFlightState.completeStateTransition of 4.2).
    """
    yield machine.fetch("a", 100, 1, 3)
    yield machine.acknowledge_range("a", 0, 3, RELEASE)
    yield machine.forget_batches(1)
    yield machine.wait(1000)
    yield machine.persister_answers(ok=False)
    yield machine.fetch("b", 100, 10, 3)


def _history_of_a_start_within_a_batch(machine: Shares) -> Steps:
    """The next leader fetches a gap in a record batch whose first records are accepted."""
    yield machine.fetch("a", 100, 1, 3)
    for first in (0, 4):
        yield machine.acknowledge_range("a", first, first + 1, ACCEPT)
        yield machine.persister_answers(ok=True)
    yield machine.another_leader_takes_over()
    yield machine.fetch("b", 100, 10, 3)


def _history_of_a_gap_within_a_batch(machine: Shares) -> Steps:
    """The next leader fetches a gap in a record batch whose last records are accepted."""
    yield machine.fetch("a", 100, 1, 3)
    yield machine.acknowledge_range("a", 2, 3, ACCEPT)
    yield machine.persister_answers(ok=True)
    yield machine.another_leader_takes_over()
    yield machine.fetch("b", 1, 10, 3)


HISTORIES: dict[str, Callable[[Shares], Steps]] = {
    "frees_expired_on_rollback": _history_of_an_expired_lock,
    "keeps_start_offset": _history_of_a_log_start,
    "releases_around_others": _history_of_two_members,
    "honours_transitions": _history_of_a_release,
    "fetches_gaps_again": _history_of_a_gap,
    "begins_at_start_offset": _history_of_a_start_within_a_batch,
    "ends_before_known_records": _history_of_a_gap_within_a_batch,
    "archives_every_batch": _history_of_two_batches_below_the_log_start,
    "keeps_archived_on_rollback": _history_of_a_release_below_the_log_start,
}
"""Rules, and for each a history that shows that it is left out."""


def _play(history: Callable[[Shares], Steps]) -> None:
    machine = Shares()
    for _ in history(machine):
        machine.the_states_agree()
        machine.the_start_never_moves_back()
        machine.what_is_final_and_durable_stays_final()


@pytest.mark.parametrize("rule", HISTORIES)
def test_the_oracle_notices_a_rule_that_is_left_out(
    rule: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    _play(HISTORIES[rule])
    broken = type("Broken", (ShareRules,), {rule: lambda _self: False})
    monkeypatch.setattr(Shares, "rules", broken())
    with pytest.raises(AssertionError):
        _play(HISTORIES[rule])
