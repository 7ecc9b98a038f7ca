"""The transactional producer against a dumb oracle, through lost answers, refusals and fencing.

The brokers are a row and two logs (``transactional_oracle.py``). The test holds every request back
and has it handled later, or lost, or answered with an error. The promises are those of KIP-98: a
committed transaction has exactly the acknowledged records and offsets, an aborted one has none, and
nothing of an older producer is written after a newer one. Sequences have no gap and no repetition
within an epoch, and the epoch never falls.

Three things that Kafka's client does against this are named where they are let pass: it fences
itself (``Coordinator.init``), strands itself (``TransactionalMachine.settle``), and commits offsets
of a transaction that was aborted (``TransactionalMachine.pending_offsets``); see KAFKA.md, 4.4.

``State`` is kept on paper, too (TransactionManager.State): which calls are legal, what follows from
an answer. An application makes one call at a time; one that has timed out it makes again.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkasim.model.errors import NONE, Errors
from tests.stateful.transactional_machine import TransactionalMachine
from tests.stateful.transactional_mutations import MUTATIONS
from tests.stateful.transactional_oracle import LAST_EPOCH
from tests.stateful.transactional_rules import LOST, OK, PARTITIONS


def play(seed: int) -> TransactionalMachine:
    """Play a drawn history, then let the brokers answer everything.

    How often answers are lost and requests refused differs between histories.
    """
    rng = random.Random(seed)
    first_epoch = LAST_EPOCH - 2 if seed % 5 == 4 else 0
    machine = TransactionalMachine(1 + seed % 2, first_epoch)
    lost, retried, abortable, fatal = rng.choice(
        ((0.0, 0.0, 0.0, 0.0), (0.1, 0.2, 0.0, 0.0), (0.2, 0.3, 0.1, 0.0), (0.1, 0.1, 0.1, 0.02))
    )
    trouble = lost > 0.0
    commits = rng.choice((1, 4))
    waits = rng.choice(((120, 350), (350, 600), (600, 900)))

    def handle() -> None:
        outcomes = (OK, LOST, "retried", "abortable", "fatal")
        weights = (1 - lost - retried - abortable - fatal, lost, retried, abortable, fatal)
        node = rng.randrange(2)
        for _ in range(rng.randint(1, 4)):
            (outcome,) = rng.choices(outcomes, weights)
            machine.handle(node, outcome, rng.randrange(6))

    def refuse_lookups() -> None:
        machine.lookup_errors = rng.choices((Errors.COORDINATOR_NOT_AVAILABLE, NONE), k=2)

    actions: list[tuple[int, Any]] = [
        (
            3,
            lambda: (
                machine.invoke("init_transactions")
                if rng.random() < 0.3 or not machine.seen
                else None
            ),
        ),
        (4, lambda: machine.invoke("begin_transaction")),
        (8, lambda: machine.send(rng.randrange(2), rng.choice((1, 1, 2, 4)))),
        (2, machine.send_offsets),
        (commits, lambda: machine.invoke("commit_transaction")),
        (1, lambda: machine.invoke("abort_transaction")),
        (3, lambda: machine.invoke(machine.operation) if machine.timed_out else None),
        (16, handle),
        (4, machine.row.write_markers),
        (4, lambda: machine.wait(rng.choice((1, 5, 30)))),
    ]
    if trouble:
        actions += [
            (1, lambda: machine.wait(rng.choice(waits))),
            (1, lambda: machine.lose(rng.randrange(2))),
            (1, lambda: machine.move(rng.choice(("tx", "g")))),
            (1, lambda: machine.fail_over(rng.choice(PARTITIONS))),
            (1, refuse_lookups),
        ]
    if seed % 6 == 0:
        actions.append((1, machine.upgrade))
    if seed % 7 == 6:
        actions.append((1, machine.fence))
    machine.invoke("init_transactions")
    weights = [weight for weight, _ in actions]
    for _, action in rng.choices(actions, weights, k=120):
        action()
        machine.check()
    machine.finish()
    return machine


def search(seeds: range) -> None:
    """Play histories until one fails."""
    for seed in seeds:
        play(seed)


def test_drawn_histories() -> None:
    search(range(300))


@pytest.mark.parametrize("name", MUTATIONS)
def test_a_broken_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*MUTATIONS[name])
    with pytest.raises(AssertionError):
        search(range(200))


@pytest.mark.soak
def test_many_more_histories() -> None:
    search(range(300, 6000))
