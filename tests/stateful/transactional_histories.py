"""Histories of the transactional producer: drawn from a seed, and how each of them ends."""

from __future__ import annotations

import random
from typing import Any

from kafkasim.model.client.producer.transactions.states import State
from kafkasim.model.errors import NONE, Errors
from tests.stateful import transactional_rules as rules
from tests.stateful.transactional_machine import TransactionalMachine
from tests.stateful.transactional_oracle import LAST_EPOCH
from tests.stateful.transactional_rules import LOST, OK, PARTITIONS, SOURCES

OUTCOMES = (OK, LOST, "retried", "abortable", "fatal")
"""What a broker does with a request."""


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
        weights = (1 - lost - retried - abortable - fatal, lost, retried, abortable, fatal)
        for _ in range(rng.randint(1, 4)):
            (outcome,) = rng.choices(OUTCOMES, weights)
            handle_next(machine, rng.randrange(2), outcome, rng.randrange(6))

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
    finish(machine)
    return machine


def search(seeds: range) -> None:
    """Play histories until one fails."""
    for seed in seeds:
        play(seed)


def handle_next(machine: TransactionalMachine, node: int, outcome: str, index: int) -> None:
    """Wait for the next request, and have a broker handle it: ``node`` if both have one."""
    machine.next_request()
    node = node if machine.queued(node) else 1 - node
    machine.handle(node, outcome, index)


def settle(machine: TransactionalMachine) -> None:
    """Once the brokers answer, every call has its reply, and every transaction its end.

    With version 1 a batch that expires during an abort strands its producer: the gap asks for
    a new epoch, so the abort ends in INITIALIZING, but beginCompletingTransaction had no reason
    yet to ask for it (TransactionManager.maybeResolveSequences, completeTransaction).
    """
    for _ in range(400):
        machine.row.write_markers()
        machine.lookup_errors = []
        for node in (0, 1):
            while machine.queued(node):
                machine.handle(node, OK)
        if not machine.call:
            if machine.timed_out:
                machine.invoke(machine.operation)
            elif machine.state is State.ABORTABLE_ERROR:
                machine.invoke("abort_transaction")
            elif machine.state is State.IN_TRANSACTION:
                machine.invoke("commit_transaction")
            elif machine.state is State.UNINITIALIZED:
                machine.invoke("init_transactions")
            elif machine.stranded or machine.state in (State.READY, State.FATAL_ERROR):
                return
        machine.wait(20)
    raise AssertionError(machine.state)


def finish(machine: TransactionalMachine) -> None:
    """A producer that was not fenced commits again; a fatal error is final."""
    settle(machine)
    for _ in range(3):
        if machine.state is State.READY:
            machine.invoke("begin_transaction")
            for partition in (0, 1):
                machine.send(partition, 2)
            machine.send_offsets()
            settle(machine)
    if machine.state is State.INITIALIZING:
        assert machine.stranded
        return
    if machine.state is not State.FATAL_ERROR:
        assert machine.visible[PARTITIONS[0]][-1:] == [machine.next_record - 2]
        assert max(machine.visible_offsets.values()) == machine.next_offset
        return
    for operation in rules.LEGAL:
        machine.next_record += 1
        args: dict[str, tuple[Any, ...]] = {
            "send": ("t", None, machine.next_record, 10, 0, True),
            "send_offsets_to_transaction": ({SOURCES[0]: (1, -1)}, rules.Member()),
        }
        machine.invoke(operation, *args.get(operation, ()))
