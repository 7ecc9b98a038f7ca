"""The model makes of the last epochs of a producer id what Kafka's TransactionMetadata does."""

from __future__ import annotations

import pytest

from kafkasim.model.errors import Errors
from kafkasim.model.records import NO_PRODUCER_EPOCH, NO_PRODUCER_ID
from kafkasim.model.transaction.metadata import (
    EPOCH_BUMP,
    MAX_EPOCH,
    TransactionMetadata,
    TxnTransitMetadata,
    is_epoch_exhausted,
)
from kafkasim.model.transaction.rules import TransactionRules
from kafkasim.model.transaction.states import (
    ONGOING,
    PREPARE_ABORT,
    PREPARE_COMMIT,
    TransactionState,
)
from tests.fidelity.kafka_last_epochs import FENCES_IN_MEMORY, VERSIONS, committed

EPOCHS = (MAX_EPOCH - 2, MAX_EPOCH - 1, MAX_EPOCH)
NEXT_PRODUCER_ID = 8


class Story:
    """An open transaction under an epoch, and the lines of what becomes of it."""

    def __init__(self, name: str, epoch: int) -> None:
        self.name = f"{epoch} {name}"
        self.lines: list[str] = []
        nobody = (NO_PRODUCER_ID, NO_PRODUCER_ID)
        epochs = (epoch, NO_PRODUCER_EPOCH)
        current = TxnTransitMetadata(7, *nobody, *epochs, 1000, ONGOING, (), 1, 1, EPOCH_BUMP)
        self.metadata = TransactionMetadata("payments", current)

    def tell(self, step: str, of: TxnTransitMetadata) -> None:
        text = f"producer id {of.producer_id}, epoch {of.producer_epoch}"
        self.lines.append(f"{self.name} | {step} | {text}, last epoch {of.last_producer_epoch}")

    def decide(self, state: TransactionState, next_producer_id: int) -> None:
        metadata, step = self.metadata, "prepareAbortOrCommit"
        decided = metadata.prepare_abort_or_commit(state, EPOCH_BUMP, next_producer_id, 2, False)
        if isinstance(decided, Errors):
            assert decided is Errors.UNKNOWN_SERVER_ERROR  # what KafkaApis.handle makes of it
            self.lines.append(f"{self.name} | {step} | IllegalArgumentException")
            return
        self.tell(step, decided)
        metadata.complete_transition_to(decided)
        completed = metadata.prepare_complete(3)
        self.tell("prepareComplete", completed)
        metadata.complete_transition_to(completed)

    def time_out(self, *, in_memory: bool) -> None:
        metadata, step = self.metadata, "prepareFenceProducerEpoch"
        epoch = TransactionRules().fencing_epoch(metadata.producer_epoch, False)
        if epoch is None:
            self.lines.append(f"{self.name} | {step} | IllegalStateException")
        else:
            self.tell(step, metadata.prepare_fence_producer_epoch(epoch))
            if in_memory:
                metadata.fence(epoch)
            metadata.pending = None
            self.decide(PREPARE_ABORT, NO_PRODUCER_ID)
        self.tell("it has", metadata.current)


@pytest.mark.parametrize("version", VERSIONS)
def test_the_last_epochs_of_a_producer_id(version: str) -> None:
    lines = []
    for epoch in EPOCHS:
        next_producer_id = NEXT_PRODUCER_ID if is_epoch_exhausted(epoch) else NO_PRODUCER_ID
        for name, state in (("ends", PREPARE_COMMIT), ("aborts", PREPARE_ABORT)):
            story = Story(name, epoch)
            story.decide(state, next_producer_id)
            lines += story.lines
        story = Story("times out", epoch)
        story.time_out(in_memory=version in FENCES_IN_MEMORY)
        lines += story.lines
    assert lines == committed(version)
