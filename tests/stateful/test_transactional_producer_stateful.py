"""The transactional producer against a dumb oracle, through lost answers, refusals and fencing.

The brokers are a row and two logs (``transactional_oracle.py``). The test holds every request back
and has it handled later, or lost, or answered with an error. The promises are those of KIP-98: a
committed transaction has exactly the acknowledged records and offsets, an aborted one has none, and
nothing of an older producer is written after a newer one. Sequences have no gap and no repetition
within an epoch, and the epoch never falls.

Three things that Kafka's client does against this are named where they are let pass: it fences
itself (``Coordinator.init``), strands itself (``transactional_histories.py:settle``), and commits
offsets of a transaction that was aborted (``TransactionalMachine.pending_offsets``); see KAFKA.md,
4.4.

``State`` is kept on paper, too (TransactionManager.State): which calls are legal, what follows from
an answer. An application makes one call at a time; one that has timed out it makes again.

Histories come from two sources. Hypothesis chooses among the steps that are possible, and shrinks a
history that fails; drawn ones are longer, and quick enough to find each mutation.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from kafkasim.model.client.producer.transactions.states import State
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.records import TopicPartition
from tests.stateful.transactional_histories import OUTCOMES, finish, handle_next, search, settle
from tests.stateful.transactional_machine import TransactionalMachine
from tests.stateful.transactional_mutations import MUTATIONS
from tests.stateful.transactional_oracle import LAST_EPOCH
from tests.stateful.transactional_rules import LEGAL, OK, PARTITIONS

NODES = st.integers(0, 1)
CALLS = sorted(set(LEGAL) - {"send", "send_offsets_to_transaction"})


def when(*states: State) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Return a precondition: the application may make a call, and the producer is in a state."""

    def holds(self: Producer) -> bool:
        machine = self.machine
        return not machine.call and not machine.timed_out and machine.state in states

    return precondition(holds)


class Producer(RuleBasedStateMachine):
    """Steps of a history: what the application does, what brokers do, what goes wrong."""

    @initialize(
        version=st.sampled_from((1, 2)),
        last=st.booleans(),
        ready=st.booleans(),
        lives=st.sampled_from((True, True, True, False)),
    )
    def start(self, version: int, last: bool, ready: bool, lives: bool) -> None:
        """Begin with a producer that has its id (``ready``), or asks for it.

        ``last``: the epochs of the producer id are soon exhausted. ``lives``: nothing fatal happens
        to the producer, unless it does so itself.
        """
        self.lives = lives
        self.machine = TransactionalMachine(version, LAST_EPOCH - 2 if last else 0)
        self.machine.invoke("init_transactions")
        if ready:
            settle(self.machine)

    # The application.

    @when(State.READY)
    @rule()
    def begin(self) -> None:
        self.machine.invoke("begin_transaction")

    @when(State.IN_TRANSACTION, State.ABORTABLE_ERROR)
    @rule(partition=NODES, count=st.integers(1, 4))
    def send(self, partition: int, count: int) -> None:
        self.machine.send(partition, count)

    @when(State.IN_TRANSACTION)
    @rule()
    def send_offsets(self) -> None:
        self.machine.send_offsets()

    @when(State.IN_TRANSACTION)
    @rule()
    def commit(self) -> None:
        self.machine.invoke("commit_transaction")

    @when(State.IN_TRANSACTION, State.ABORTABLE_ERROR)
    @rule()
    def abort(self) -> None:
        self.machine.invoke("abort_transaction")

    @precondition(lambda self: not self.machine.call)
    @rule(operation=st.sampled_from(CALLS))
    def call(self, operation: str) -> None:
        """Make a call whether it is legal or not."""
        self.machine.invoke(operation)

    @precondition(lambda self: self.machine.timed_out)
    @rule()
    def call_again(self) -> None:
        self.machine.invoke(self.machine.operation)

    # The brokers.

    @rule(node=NODES, requests=st.integers(1, 4))
    def handle(self, node: int, requests: int) -> None:
        for _ in range(requests):
            handle_next(self.machine, node, OK, 0)

    @rule(node=NODES, outcome=st.sampled_from(OUTCOMES[1:-1]), index=st.integers(0, 5))
    def handle_badly(self, node: int, outcome: str, index: int) -> None:
        handle_next(self.machine, node, outcome, index)

    @precondition(lambda self: not self.lives)
    @rule(node=NODES, index=st.integers(0, 5))
    def refuse_for_good(self, node: int, index: int) -> None:
        handle_next(self.machine, node, OUTCOMES[-1], index)

    @precondition(lambda self: self.machine.row.unmarked)
    @rule()
    def write_markers(self) -> None:
        self.machine.row.write_markers()

    @rule()
    def upgrade(self) -> None:
        self.machine.upgrade()

    # What goes wrong.

    @rule(ms=st.sampled_from((1, 30, 120, 350, 900)))
    def wait(self, ms: int) -> None:
        self.machine.wait(ms)

    @rule(node=NODES)
    def lose(self, node: int) -> None:
        self.machine.lose(node)

    @rule(key=st.sampled_from(("tx", "g")))
    def move(self, key: str) -> None:
        self.machine.move(key)

    @rule(tp=st.sampled_from(PARTITIONS))
    def fail_over(self, tp: TopicPartition) -> None:
        self.machine.fail_over(tp)

    @rule(errors=st.lists(st.sampled_from((Errors.COORDINATOR_NOT_AVAILABLE, NONE)), max_size=3))
    def refuse_lookups(self, errors: list[Errors]) -> None:
        self.machine.lookup_errors = errors

    @precondition(lambda self: not self.lives and self.machine.seen)
    @rule()
    def fence(self) -> None:
        self.machine.fence()

    def teardown(self) -> None:
        """Let the brokers answer everything."""
        finish(self.machine)


TestProducer = Producer.TestCase
TestProducer.settings = settings(
    max_examples=150, stateful_step_count=40, deadline=None, report_multiple_bugs=False
)


def test_drawn_histories() -> None:
    search(range(300))


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTATIONS[name])
    with pytest.raises(AssertionError):
        search(range(200))


@pytest.mark.soak
def test_many_more_histories() -> None:
    run_state_machine_as_test(
        Producer, settings=settings(max_examples=3000, stateful_step_count=60, deadline=None)
    )
    search(range(300, 6000))
