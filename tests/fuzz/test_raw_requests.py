"""No raw request ends a broker: mutants of all conversations are answered or refused.

The conversations of ``tests/fidelity/`` run as they are, and before each of their requests a mutant
of it is sent: numbers, names, lists and flags that no client of ours would send.
"""

from __future__ import annotations

import dataclasses
import random
from typing import Any

import pytest

from kafkasim.model import messages as m
from kafkasim.model.records import RecordBatch, TopicPartition
from tests.fidelity.conversations import CONVERSATIONS
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.sides import ModelSide

NUMBERS = (-2, -1, 0, 1, 5, 1000, 2**15 - 1, 2**31 - 1)
NAMES = ("", "nope", "a b", "__consumer_offsets", "__transaction_state", "x" * 300)
OF_A_BATCH = ("producer_id", "producer_epoch", "base_sequence", "transactional", "control")
MANY = (m.CreateTopicsRequest, m.CreatePartitionsRequest)
GRANTED = 2**15 - 1  # so many partitions fit in a znode, and take half a minute


class MutatingSide(ModelSide):
    """The model's side, which is asked a mutant before every request."""

    def __init__(self, rng: random.Random, zookeeper: bool) -> None:
        super().__init__(zookeeper=zookeeper)
        self.rng = rng
        self.mutants = 0

    def ask(self, node: int, message: m.Message, user: str = "") -> Any:
        mutant = self.mutated(message)
        if mutant != message and not (isinstance(message, MANY) and str(GRANTED) in repr(mutant)):
            self.mutants += 1
            super().ask(self.rng.choice((node, node, 1, 2, 3)), mutant, user)
        return super().ask(node, message, user)

    def mutated(self, value: Any) -> Any:
        """Return a value of the same shape in which one thing differs."""
        rng = self.rng
        if isinstance(value, bool):
            return not value
        if type(value) is int:
            return rng.choice(NUMBERS)
        if isinstance(value, str):
            return rng.choice(NAMES)
        if isinstance(value, TopicPartition):
            return TopicPartition(*self._with_one_mutated(tuple(value)))
        if isinstance(value, tuple) and value:
            if rng.random() < 0.2 and len({type(each) for each in value}) == 1 and not _row(value):
                return rng.choice([(), (*value, value[-1])])
            return self._with_one_mutated(value)
        if dataclasses.is_dataclass(value):
            names = [each.name for each in dataclasses.fields(value) if each.init]
            if isinstance(value, RecordBatch):
                names = list(OF_A_BATCH)
            name = rng.choice(names) if names else None
            if name is not None:
                changed = {name: self.mutated(getattr(value, name))}
                return dataclasses.replace(value, **changed)  # type: ignore[type-var]
        return value

    def _with_one_mutated(self, value: tuple[Any, ...]) -> tuple[Any, ...]:
        at = self.rng.randrange(len(value))
        return (*value[:at], self.mutated(value[at]), *value[at + 1 :])


def _row(value: tuple[Any, ...]) -> bool:
    """Return whether a tuple is a row of fields rather than a list."""
    return len(value) > 1 and not isinstance(value[0], tuple) and not hasattr(value[0], "__slots__")


def _mutants_of(seed: int, zookeeper: bool, wanted: int) -> int:
    """Send so many mutants; what they do to a conversation is no matter."""
    rng = random.Random(seed)
    sent = 0
    while sent < wanted:
        name = rng.choice(list(CONVERSATIONS))
        side = MutatingSide(rng, zookeeper)
        try:
            CONVERSATIONS[name](Talk(side, name))
        except (AssertionError, LookupError, ValueError) as error:
            frames = [frame.name for frame in pytest.ExceptionInfo.from_exception(error).traceback]
            if "give" in frames:  # the model itself has raised
                raise
        sent += side.mutants
    return sent


@pytest.mark.parametrize("zookeeper", [False, True])
def test_no_raw_request_ends_a_broker(zookeeper: bool) -> None:
    assert _mutants_of(7, zookeeper, 300) >= 300


@pytest.mark.soak
@pytest.mark.parametrize("zookeeper", [False, True])
def test_no_raw_request_of_many_ends_a_broker(zookeeper: bool) -> None:
    assert _mutants_of(8, zookeeper, 20_000) >= 20_000
