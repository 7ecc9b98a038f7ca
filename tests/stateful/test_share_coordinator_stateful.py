"""The share coordinator against a dumb oracle, through refused appends and failovers.

The oracle keeps for each share partition its start offset, its two epochs, and for each single
offset how often it was delivered and its state. Of two writes about an offset the larger pair of
these wins (PersisterStateBatchCombiner). The oracle says the answer to every request.
"""

from __future__ import annotations

import copy
import itertools
from typing import Any

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    rule,
    run_state_machine_as_test,
)

from kafkasim.model.coordinator.log import MemoryCoordinatorLog
from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import StateBatch
from kafkasim.model.records import Record
from kafkasim.model.share.records import ShareGroupOffset
from kafkasim.model.share.state_batches import combine
from tests.model.share_harness import (
    STATE,
    ShareBench,
    delete,
    initialize,
    read,
    summary,
    write,
)

NONE, INVALID = Errors.NONE, Errors.INVALID_REQUEST
UNAVAILABLE = Errors.COORDINATOR_NOT_AVAILABLE
Offsets = dict[int, tuple[int, int]]


class Row:
    """What the oracle knows of one share partition."""

    def __init__(self, state_epoch: int, start_offset: int) -> None:
        self.state_epoch = self.highest_state_epoch = state_epoch
        self.leader_epoch = self.highest_leader_epoch = 0
        self.start_offset = start_offset
        self.offsets: Offsets = {}  # (delivery count, delivery state)

    def add(self, batches: tuple[StateBatch, ...], start_offset: int) -> None:
        if start_offset != -1:
            self.start_offset = max(self.start_offset, start_offset)
        for each in batches:
            for offset in range(each.first_offset, each.last_offset + 1):
                new = (each.delivery_count, each.delivery_state)
                self.offsets[offset] = max(self.offsets.get(offset, new), new)
        if self.start_offset != -1:
            kept = {o: pair for o, pair in self.offsets.items() if o >= self.start_offset}
            self.offsets = kept


class Oracle:
    """The rows by partition; each method returns what the coordinator must answer."""

    def __init__(self, row: type[Row]) -> None:
        self.row = row
        self.rows: dict[int, Row] = {}

    def initialize(self, number: int, state_epoch: int, start_offset: int) -> tuple[Any, bool]:
        row = self.rows.get(number)
        if row is not None and state_epoch != -1 and state_epoch < row.highest_state_epoch:
            return Errors.FENCED_STATE_EPOCH, False
        self.rows[number] = new = self.row(state_epoch, start_offset)
        if row is not None:
            new.highest_state_epoch = max(row.highest_state_epoch, state_epoch)
            new.highest_leader_epoch = row.highest_leader_epoch
        return NONE, True

    def write(
        self,
        number: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        batches: tuple[StateBatch, ...],
    ) -> tuple[Any, bool]:
        row = self.rows.get(number)
        if row is None:
            return INVALID, False
        if leader_epoch != -1 and leader_epoch < row.highest_leader_epoch:
            return Errors.FENCED_LEADER_EPOCH, False
        if state_epoch != -1 and state_epoch < row.highest_state_epoch:
            return Errors.FENCED_STATE_EPOCH, False
        if leader_epoch != -1:
            row.leader_epoch = leader_epoch
            row.highest_leader_epoch = max(row.highest_leader_epoch, leader_epoch)
        if state_epoch > row.state_epoch:
            row.state_epoch = row.highest_state_epoch = state_epoch
        row.add(batches, start_offset)
        return NONE, True

    def read(self, number: int, leader_epoch: int) -> tuple[Any, bool]:
        row = self.rows.get(number)
        if row is None:
            return INVALID, False
        if leader_epoch < row.highest_leader_epoch:
            return Errors.FENCED_LEADER_EPOCH, False
        answer = (row.state_epoch, row.start_offset, dict(row.offsets))
        if leader_epoch == row.highest_leader_epoch:
            return answer, False
        row.leader_epoch = row.highest_leader_epoch = leader_epoch
        return answer, True

    def forget_epochs(self, records: list[Record]) -> None:
        """Know no epoch but those of the log's records, whose beginning is pruned."""
        for number, row in self.rows.items():
            row.highest_leader_epoch = row.highest_state_epoch = -2
            for record in records:
                if record.key.share_partition.partition != number:
                    continue
                if record.value is None:
                    row.highest_leader_epoch = row.highest_state_epoch = -2
                    continue
                leader_epoch = record.value.leader_epoch
                row.highest_leader_epoch = max(row.highest_leader_epoch, leader_epoch)
                if isinstance(record.value, ShareGroupOffset):
                    state_epoch = record.value.state_epoch
                    row.highest_state_epoch = max(row.highest_state_epoch, state_epoch)

    def summary(self, number: int) -> tuple[Any, bool]:
        row = self.rows.get(number)
        if row is None:
            return (0, 0, -1), False
        return (row.state_epoch, row.leader_epoch, row.start_offset), False

    def delete(self, number: int) -> tuple[Any, bool]:
        return NONE, self.rows.pop(number, None) is not None


EPOCHS = st.integers(-1, 4)
OFFSETS = st.integers(0, 12)
NUMBERS = st.integers(0, 1)


@st.composite
def batches(draw: st.DrawFn) -> tuple[StateBatch, ...]:
    made = []
    for _ in range(draw(st.integers(0, 3))):
        first = draw(OFFSETS)
        last = first + draw(st.integers(0, 5))
        made.append(
            StateBatch(first, last, draw(st.sampled_from((0, 2, 4))), draw(st.integers(1, 3)))
        )
    return tuple(made)


OPERATIONS = st.one_of(
    st.tuples(st.just("initialize"), NUMBERS, EPOCHS, st.integers(-1, 12)),
    st.tuples(st.just("write"), NUMBERS, EPOCHS, EPOCHS, st.integers(-1, 12), batches()),
    st.tuples(st.just("read"), NUMBERS, EPOCHS),
    st.tuples(st.just("summary"), NUMBERS),
    st.tuples(st.just("delete"), NUMBERS),
)


def request(operation: tuple[Any, ...]) -> Any:
    name, number, *rest = operation
    if name == "initialize":
        return initialize(rest[0], rest[1], number)
    if name == "write":
        state_epoch, leader_epoch, start_offset, written = rest
        return write(
            *written,
            state_epoch=state_epoch,
            leader_epoch=leader_epoch,
            start_offset=start_offset,
            partition=number,
        )
    if name == "read":
        return read(rest[0], number)
    return summary(number) if name == "summary" else delete(number)


def expanded(state: tuple[StateBatch, ...]) -> Offsets:
    """Return the single offsets of disjoint, rising batches."""
    for before, after in itertools.pairwise(state):
        assert before.last_offset < after.first_offset, state
    return {
        offset: (each.delivery_count, each.delivery_state)
        for each in state
        for offset in range(each.first_offset, each.last_offset + 1)
    }


def told(name: str, result: Any) -> Any:
    """Return a result in the oracle's words."""
    if result.error is not NONE:
        return result.error
    if name == "read":
        return (result.state_epoch, result.start_offset, expanded(result.state_batches))
    if name == "summary":
        return (result.state_epoch, result.leader_epoch, result.start_offset)
    return NONE


class ShareCoordinatorMachine(RuleBasedStateMachine):
    """Two share partitions, one coordinator after the other."""

    row = Row

    def __init__(self) -> None:
        super().__init__()
        self.oracle = Oracle(self.row)
        self.log = MemoryCoordinatorLog()
        self.epoch = 1
        self.bench = self.start()

    def start(self) -> ShareBench:
        bench = ShareBench(
            self.log,
            share_coordinator_append_linger_ms=5,
            share_coordinator_snapshot_update_records_per_snapshot=2,
            share_coordinator_state_topic_prune_interval_ms=1000,
            share_coordinator_cold_partition_snapshot_interval_ms=2000,
        )
        return bench.elect(self.epoch)

    @rule(operations=st.lists(OPERATIONS, min_size=1, max_size=4), refused=st.booleans())
    def ask_together(self, operations: list[tuple[Any, ...]], refused: bool) -> None:
        """Some requests share a batch, which the log may refuse: then nothing has happened."""
        bench, before = self.bench, copy.deepcopy(self.oracle)
        bench.log.error = Errors.NOT_ENOUGH_REPLICAS if refused else NONE
        wanted, open_batch = [], False
        for name, *rest in operations:
            answer, wrote = getattr(self.oracle, name)(*rest)
            open_batch = open_batch or wrote
            wanted.append(UNAVAILABLE if refused and open_batch else answer)
        numbers = [bench.ask(request(operation)) for operation in operations]
        bench.wait(0.01)
        bench.log.error = NONE
        results = [bench.answers[number].results[0][1][0] for number in numbers]
        answers = [told(each[0], result) for each, result in zip(operations, results, strict=True)]
        assert answers == wanted
        if refused:
            self.oracle = before

    @rule()
    def fail_over(self) -> None:
        """Another broker loads what is in the log."""
        self.epoch += 1
        self.bench.share.on_resigned(0, self.epoch, self.bench.now)
        self.bench.settle()
        self.bench = self.start()
        self.oracle.forget_epochs(
            [each for log in self.log.batches.get(STATE, []) for each in log.records]
        )

    @rule()
    def wait(self) -> None:
        """Time passes, so that the log is pruned and cold share partitions get snapshots."""
        pruned = len(self.bench.pruned)
        self.bench.wait(1)
        for offset in self.bench.pruned[pruned:]:
            kept = [each for each in self.log.batches[STATE] if each.next_offset > offset]
            assert kept
            self.log.batches[STATE] = kept

    @invariant()
    def what_is_known_is_what_the_log_says(self) -> None:
        (shard,) = self.bench.share.owned.active()
        rows = {key.partition: state.offset for key, state in shard.states.items()}
        found = {
            number: (
                offset.state_epoch, offset.leader_epoch, offset.start_offset,
                expanded(offset.state_batches),
            )
            for number, offset in rows.items()
        }  # fmt: skip
        assert found == {
            number: (row.state_epoch, row.leader_epoch, row.start_offset, row.offsets)
            for number, row in self.oracle.rows.items()
        }


def test_share_coordinator() -> None:
    run_state_machine_as_test(
        ShareCoordinatorMachine, settings=settings(max_examples=150, stateful_step_count=20)
    )


class LastWins(Row):
    """A row for which the last write about an offset counts."""

    def add(self, batches: tuple[StateBatch, ...], start_offset: int) -> None:
        self.offsets = {}
        super().add(batches, start_offset)


class WrongMachine(ShareCoordinatorMachine):
    """An oracle that is wrong."""

    row = LastWins


def test_a_wrong_oracle_is_found() -> None:
    machine = WrongMachine()
    begin = ("initialize", 0, 0, 0)
    first = ("write", 0, 0, 0, -1, (StateBatch(3, 4, 2, 1),))
    second = ("write", 0, 0, 0, -1, (StateBatch(8, 9, 2, 1),))
    machine.ask_together(operations=[begin, first], refused=False)
    machine.what_is_known_is_what_the_log_says()
    machine.ask_together(operations=[second], refused=False)
    with pytest.raises(AssertionError):
        machine.what_is_known_is_what_the_log_says()


def test_batches_are_combined_as_in_kafka() -> None:
    """Cases of PersisterStateBatchCombinerTest."""
    cases = [
        ([], [(100, 110, 0, 1)], -1, [(100, 110, 0, 1)]),
        ([(100, 110, 0, 1)], [(111, 119, 2, 2)], -1, [(100, 110, 0, 1), (111, 119, 2, 2)]),
        ([(100, 110, 0, 1)], [(105, 108, 2, 1)], -1,
         [(100, 104, 0, 1), (105, 108, 2, 1), (109, 110, 0, 1)]),
        ([(100, 110, 0, 2)], [(105, 120, 2, 1)], -1, [(100, 110, 0, 2), (111, 120, 2, 1)]),
        ([(100, 110, 0, 1), (121, 130, 0, 1)], [(111, 120, 0, 1)], -1, [(100, 130, 0, 1)]),
        ([(100, 110, 0, 1), (111, 119, 2, 2)], [(116, 123, 2, 2)], 117, [(117, 123, 2, 2)]),
        ([(100, 110, 0, 1)], [(100, 110, 2, 1), (100, 110, 2, 1)], -1, [(100, 110, 2, 1)]),
    ]  # fmt: skip
    for so_far, new, start, wanted in cases:
        made = combine(
            tuple(StateBatch(*each) for each in so_far),
            tuple(StateBatch(*each) for each in new),
            start,
        )
        assert made == tuple(StateBatch(*each) for each in wanted), (so_far, new)
