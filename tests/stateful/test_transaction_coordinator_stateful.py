"""The transaction coordinator against a dumb oracle, through failures and failovers.

The oracle is a row for each transactional id, as an application could keep it on paper: who may
speak (producer id and epoch), what is open, what was decided, and where the marker is missing. It
says the answer to every request. Beside it stand the promises of KIP-98: a marker is of the
decision that was acknowledged, every partition of a decided transaction gets one, and epochs only
rise.
"""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kafkasim.model.channel import Failed
from kafkasim.model.errors import Errors
from kafkasim.model.facts import TransactionState as StateChanged
from kafkasim.model.messages import WriteTxnMarkersResponse
from kafkasim.model.records import TopicPartition
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.model.transaction.states import PREDECESSORS, TransactionState
from tests.model.transaction_harness import TP0, TP1, Bench

NONE = Errors.NONE
FENCED, CONCURRENT = Errors.PRODUCER_FENCED, Errors.CONCURRENT_TRANSACTIONS
UNAVAILABLE, UNMAPPED = Errors.COORDINATOR_NOT_AVAILABLE, Errors.INVALID_PRODUCER_ID_MAPPING
IDS = ("a", "b")
NOBODY = (-1, -1)


class Row:
    """What the oracle knows of one transactional id."""

    def __init__(self, producer_id: int) -> None:
        self.producer_id = producer_id
        self.epoch = -1
        self.last_epoch = -1  # of a client that may repeat its InitProducerId
        self.logged_epoch = -1
        self.state = "Empty"
        self.partitions: dict[TopicPartition, None] = {}
        self.waiting: dict[TopicPartition, None] = {}  # for their markers
        self.failed_fence = False
        self.bumped = False  # the decision raised the epoch
        self.written = True  # the last change is in the log

    def fence(self, failing: bool, version: int) -> Errors:
        """Abort against the producer; return the error of the append."""
        if not self.failed_fence:
            self.epoch += 1
        self.last_epoch = -1
        if failing:
            self.failed_fence = True
            return UNAVAILABLE
        if version == 2:
            self.last_epoch, self.epoch = self.epoch, self.epoch + 1
        self.decide("Abort", version)
        return NONE

    def decide(self, outcome: str, version: int) -> None:
        self.state, self.bumped = f"Prepare{outcome}", version == 2
        self.waiting = dict(self.partitions)
        self.logged_epoch, self.failed_fence = self.epoch, False


class TransactionCoordinatorMachine(RuleBasedStateMachine):
    """Two transactional ids, two partitions, one coordinator after the other."""

    version = 0
    decisions = TransactionRules()

    def __init__(self) -> None:
        super().__init__()
        self.bench = Bench(self.version, self.decisions).elect()
        self.coordinator_epoch = 1
        self.rows: dict[str, Row] = {}
        self.failing = False
        self.next_producer_id = 1000
        self.facts: list[Any] = []  # of the coordinators before

    # What a client asks.

    def producer(self, name: str, older: int) -> tuple[int, int]:
        row = self.rows.get(name)
        return (7, 0) if row is None else (row.producer_id, row.epoch - older)

    @rule(name=st.sampled_from(IDS), older=st.none() | st.integers(-1, 2))
    def init(self, name: str, older: int | None) -> None:
        expected = None if older is None else self.producer(name, older)
        if expected is not None and expected[1] < 0:
            return
        answer = self.bench.init(expected, name)
        if name not in self.rows:
            self.rows[name] = Row(self.next_producer_id)
            self.next_producer_id += 1
        assert answer == self.expected_init(self.rows[name], expected), (answer, expected)

    def expected_init(self, row: Row, expected: tuple[int, int] | None) -> Any:
        if row.state.startswith("Prepare"):
            return (CONCURRENT, *NOBODY)
        if row.state == "Ongoing":
            error = row.fence(self.failing, self.version)
            self.complete_if_written(row)
            return (CONCURRENT if error is NONE else error, *NOBODY)
        epoch, last = row.epoch + 1, -1
        if expected is not None and row.epoch >= 0:
            if expected[1] == row.epoch:
                last = row.epoch
            elif expected[1] == row.last_epoch:
                epoch, last = row.epoch, row.last_epoch
            else:
                return (FENCED, *NOBODY)
        if self.failing:
            return (UNAVAILABLE, *NOBODY)
        row.epoch = row.logged_epoch = epoch
        row.last_epoch, row.state, row.partitions = last, "Empty", {}
        return (NONE, row.producer_id, epoch)

    @rule(
        name=st.sampled_from(IDS),
        older=st.integers(-1, 2),
        tps=st.sampled_from([(TP0,), (TP1,), (TP0, TP1)]),
    )
    def add(self, name: str, older: int, tps: tuple[TopicPartition, ...]) -> None:
        producer_id, epoch = self.producer(name, older)
        if epoch < 0:
            return  # no client has such an epoch
        answer = self.bench.add(producer_id, epoch, *tps, transactional_id=name)
        assert answer is self.expected_add(self.rows.get(name), epoch, tps), answer

    def expected_add(self, row: Row | None, epoch: int, tps: tuple[TopicPartition, ...]) -> Errors:
        if row is None:
            return UNMAPPED
        if row.state.startswith("Prepare"):
            return CONCURRENT  # what is pending is looked at before the epoch
        if epoch != row.epoch:
            return FENCED
        if row.state == "Ongoing" and all(tp in row.partitions for tp in tps):
            return NONE
        if self.failing:
            return UNAVAILABLE
        if row.state != "Ongoing":
            row.partitions = {}
        row.state = "Ongoing"
        row.partitions |= dict.fromkeys(tps)
        # The record has the epoch that memory has, even one that a failed fence has raised.
        row.logged_epoch = row.epoch
        return NONE

    @rule(name=st.sampled_from(IDS), older=st.integers(-1, 2), committing=st.booleans())
    def end(self, name: str, older: int, committing: bool) -> None:
        producer_id, epoch = self.producer(name, older)
        if epoch < 0:
            return
        answer = self.bench.end(producer_id, epoch, committing, name)
        row = self.rows.get(name)
        if row is None:
            assert answer == (UNMAPPED, *NOBODY), answer
            return
        error = self.expected_end(row, epoch, committing)
        told = NOBODY
        if error is NONE and self.version == 2:
            told = (row.producer_id, row.epoch)
        assert answer == (error, *told), (answer, error, told)

    def expected_end(self, row: Row, epoch: int, committing: bool) -> Errors:
        outcome, new = "Commit" if committing else "Abort", self.version == 2
        repeated = new and epoch == row.epoch - 1
        if row.state.startswith("Prepare"):
            return CONCURRENT if new or epoch == row.epoch else FENCED
        if row.state.startswith("Complete") and repeated:
            return NONE if row.state == f"Complete{outcome}" else Errors.INVALID_TXN_STATE
        if epoch != row.epoch:
            return FENCED
        if row.state != "Ongoing":
            if not new and row.state == f"Complete{outcome}":
                return NONE
            if committing or not new:
                return Errors.INVALID_TXN_STATE
        if self.failing:
            return UNAVAILABLE
        if row.state != "Ongoing":
            row.partitions = {}
        if new:
            row.last_epoch, row.epoch = row.epoch, row.epoch + 1
        row.decide(outcome, self.version)
        self.complete_if_written(row)
        return NONE

    def complete_if_written(self, row: Row) -> None:
        if row.state.startswith("Prepare") and not row.waiting and not self.failing:
            row.state = row.state.replace("Prepare", "Complete")
            row.partitions = {}

    # What happens to the coordinator.

    @precondition(lambda self: self.bench.sent)
    @rule(data=st.data(), error=st.sampled_from([NONE, Errors.NOT_LEADER_OR_FOLLOWER, None]))
    def answer_markers(self, data: st.DataObject, error: Errors | None) -> None:
        self.answer(data.draw(st.integers(0, len(self.bench.sent) - 1)), error)

    def answer(self, place: int, error: Errors | None) -> None:
        """Answer a request of markers; None: its connection is lost."""
        _, request, done = self.bench.sent.pop(place)
        for marker in request.markers:
            row = next(row for row in self.rows.values() if row.producer_id == marker.producer_id)
            assert marker.committed == (row.state == "PrepareCommit"), (marker, row.state)
            assert marker.producer_epoch == row.epoch, (marker, row.epoch)
            if error is NONE:
                for tp in marker.partitions:
                    del row.waiting[tp]
                self.complete_if_written(row)
        results = tuple(
            (marker.producer_id, tuple((tp, error) for tp in marker.partitions))
            for marker in request.markers
        )
        done(Failed("reset") if error is None else WriteTxnMarkersResponse(results), 0)
        self.bench.settle()

    @rule(failing=st.booleans())
    def fail_appends(self, failing: bool) -> None:
        self.failing = failing
        self.bench.log.error = Errors.NOT_ENOUGH_REPLICAS if failing else NONE
        self.bench.awake = True  # completions that failed are tried again
        self.bench.settle()
        for row in self.rows.values():
            self.complete_if_written(row)

    @precondition(lambda self: not self.failing)
    @rule()
    def fail_over(self) -> None:
        self.coordinator_epoch += 1
        old = self.bench
        self.facts += old.facts
        self.bench = Bench(self.version, self.decisions, log=old.log)
        self.bench.now, self.bench.next_producer_id = old.now, old.next_producer_id
        self.bench.elect(self.coordinator_epoch)
        for name, row in list(self.rows.items()):
            if row.logged_epoch < 0:
                del self.rows[name]  # its first record was never written
                continue
            row.epoch, row.last_epoch, row.failed_fence = row.logged_epoch, -1, False
            if row.state.startswith("Prepare"):
                row.waiting = dict(row.partitions)
                self.complete_if_written(row)

    @rule()
    def time_out(self) -> None:
        open_rows = [row for row in self.rows.values() if row.state == "Ongoing"]
        self.bench.wait(70.0)
        for row in open_rows:
            row.fence(self.failing, self.version)
        for row in self.rows.values():
            self.complete_if_written(row)

    # What must hold.

    @invariant()
    def states_are_those_of_the_oracle(self) -> None:
        shard = self.bench.coordinator.owned.by_partition[0]
        found = {
            name: (str(each.state), each.producer_id, each.producer_epoch, list(each.partitions))
            for name, each in shard.transactions.items()
        }
        expected = {}
        for name, row in self.rows.items():
            left = row.waiting if row.state.startswith("Prepare") else row.partitions
            expected[name] = (row.state, row.producer_id, row.epoch, list(left))
        assert found == expected

    def teardown(self) -> None:
        """Once everybody answers again, every decision is complete."""
        self.fail_appends(failing=False)
        while self.bench.sent:
            self.answer(0, NONE)
        self.states_are_those_of_the_oracle()
        states = [row.state for row in self.rows.values()]
        assert not [state for state in states if state.startswith("Prepare")], states

    @invariant()
    def changes_are_legal(self) -> None:
        epochs: dict[str, tuple[int, int]] = {}
        for fact in [*self.facts, *self.bench.facts]:
            if isinstance(fact, StateChanged):
                before = TransactionState(fact.before)
                assert before in PREDECESSORS[TransactionState(fact.state)], fact
                now = (fact.producer_id, fact.producer_epoch)
                assert now >= epochs.get(fact.transactional_id, NOBODY), fact
                epochs[fact.transactional_id] = now


class NewClients(TransactionCoordinatorMachine):
    """Under transaction.version 2 (KIP-890)."""

    version = 2


SETTINGS = settings(max_examples=60, stateful_step_count=30, deadline=None)
TWINS = settings(
    max_examples=1500,  # what is drawn depends on the modules that the process has imported
    stateful_step_count=30,
    deadline=None,
    database=None,
    derandomize=True,
    report_multiple_bugs=False,
    phases=(Phase.generate,),
)
TestOldClients = TransactionCoordinatorMachine.TestCase
TestOldClients.settings = SETTINGS
TestNewClients = NewClients.TestCase
TestNewClients.settings = SETTINGS


class FenceOverAndOver(TransactionRules):
    """B52: each failed fence raises the epoch in memory."""

    def fencing_epoch(self, epoch: int, has_failed_epoch_fence: bool) -> int:
        return epoch + 1


class TimeoutWithoutFence(TransactionRules):
    """B48."""

    def timeout_fences_producer(self) -> bool:
        return False


class MarkersOnce(TransactionRules):
    """A new coordinator does not finish what its predecessor has decided."""

    def resends_markers_at_load(self) -> bool:
        return False


class GiveUp(TransactionRules):
    """A marker whose leader has moved is not sent again."""

    def gives_up_marker(self, error: Errors) -> bool:
        return error is Errors.NOT_LEADER_OR_FOLLOWER


@pytest.mark.parametrize("wrong", [FenceOverAndOver, TimeoutWithoutFence, MarkersOnce, GiveUp])
def test_the_oracle_finds_what_a_variant_does_wrong(wrong: type[TransactionRules]) -> None:
    class Broken(TransactionCoordinatorMachine):
        decisions = wrong()

    with pytest.raises(AssertionError):
        run_state_machine_as_test(Broken, settings=TWINS)
