"""The producer id with its epoch, and the sequences of the partitions: Kafka's TxnPartitionMap.

Both halves of Kafka's TransactionManager number batches in the same way: the idempotent one
(``transaction_manager.py``) and the transactional one (``transactions/manager.py``). They differ
in who raises the epoch. The sequences of one partition are in its TxnPartitionEntry
(``batches.py``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkasim.model.client.producer.batches import TxnPartitionEntry, java_int
from kafkasim.model.records import (
    NO_PRODUCER_EPOCH,
    NO_PRODUCER_ID,
    NO_SEQUENCE,
    add_sequence,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.producer.batches import ProducerBatch
    from kafkasim.model.client.rules import ClientRules
    from kafkasim.model.errors import Errors
    from kafkasim.model.messages import ProducePartitionResponse

MAX_INT = 2**31 - 1


class Sequencing(Protocol):
    """What the Sender asks of either half of the TransactionManager, and tells it."""

    unblocked: list[Callable[[int], None]]  # called when batches may go that may_send held back

    @property
    def assign_sequence(self) -> Callable[[ProducerBatch], None]:
        """Give its sequence to a batch that is sent for the first time."""

    @property
    def on_completed(self) -> Callable[[ProducerBatch, int], None]:
        """Note that a batch was acknowledged, with its base offset or −1."""

    @property
    def transactional_id(self) -> str | None:
        """The producer's transactional.id."""

    @property
    def transaction_version(self) -> int:
        """The level of transaction.version that the transaction has begun with."""

    @property
    def work_pending(self) -> bool:
        """Whether resolve_sequences() has something to do."""

    def resolve_sequences(self, now: int) -> None:
        """Do what comes before batches are sent."""

    def may_send(self, batch: ProducerBatch, now: int) -> bool:
        """Return whether the first batch of a queue may be sent now."""

    def can_retry(self, batch: ProducerBatch, response: ProducePartitionResponse) -> bool:
        """Return whether a refused batch may be sent again."""

    def on_failed(self, batch: ProducerBatch, error: Errors, adjust: bool) -> None:
        """Note that a batch was given up; ``adjust``: no broker has appended it."""

    def on_expired(self, batch: ProducerBatch, in_retry: bool) -> None:
        """Note that a batch expired."""


class ProducerSequences:
    """The producer's id and epoch, and which batch may go out with which sequence."""

    def __init__(self, rules: ClientRules, renumbers_idle: bool = True) -> None:
        self._rules = rules
        self._renumbers_idle = renumbers_idle  # a partition that is idle when the epoch is raised
        self.knows_abortable = rules.knows_abortable()  # TRANSACTION_ABORTABLE (KIP-890)
        self.recovers_from_authorization = rules.recovers_from_authorization()
        self.exhausted_retries_abort = rules.exhausted_retries_abort()
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = NO_PRODUCER_EPOCH
        self.unresolved: dict[TxnPartitionEntry, None] = {}  # partitionsWithUnresolvedSequences
        self.epoch_begun: Callable[[ProducerBatch], None] | None = None
        """Called with a partition's first batch of another epoch, for the trace"""

    def set_id(self, producer_id: int, producer_epoch: int) -> None:
        """Take an id and an epoch; partitions begin at 0 when they send their next batch."""
        self.producer_id = producer_id
        self.producer_epoch = producer_epoch

    def may_send(self, batch: ProducerBatch) -> bool:
        """Return whether the first batch of a queue may be sent, by its partition's sequences.

        Models the second half of RecordAccumulator.shouldStopDrainBatchesForPartition.
        """
        entry = batch.queue.sequences
        if batch.base_sequence != NO_SEQUENCE:  # a retry: only the first in flight
            return not entry.in_flight or entry.in_flight[0] is batch
        if entry.unresolved is not None:
            return False
        return not (
            entry.in_flight
            and not self.is_current(entry)
            and self._rules.new_epoch_waits_for_in_flight()
        )

    def assign(self, batch: ProducerBatch) -> None:
        """Give its sequence to a batch that is sent for the first time."""
        entry = batch.queue.sequences
        begins = not self.is_current(entry)
        if begins:
            if self._renumbers_idle or entry.producer_id == NO_PRODUCER_ID:
                self.start_at_beginning(entry)
            else:
                entry.producer_id, entry.producer_epoch = self.producer_id, self.producer_epoch
        sequence = entry.next_sequence
        batch.producer_id = entry.producer_id
        batch.producer_epoch = entry.producer_epoch
        batch.base_sequence = sequence
        entry.next_sequence = add_sequence(sequence, len(batch.records))
        entry.track(batch)
        if begins and self.epoch_begun is not None:
            self.epoch_begun(batch)

    def is_current(self, entry: TxnPartitionEntry) -> bool:
        """Return whether a partition's sequences belong to the current producer id and epoch."""
        return entry.producer_epoch == self.producer_epoch and entry.producer_id == self.producer_id

    def start_at_beginning(self, entry: TxnPartitionEntry) -> None:
        """Number a partition's in-flight batches from 0 (startSequencesAtBeginning)."""
        if not self.is_current(entry):
            entry.last_acked_offset = -1
        entry.producer_id = self.producer_id
        entry.producer_epoch = self.producer_epoch
        sequence = 0
        for batch in entry.in_flight:
            batch.set_sequence(self.producer_id, self.producer_epoch, sequence)
            batch.sequence_reset = True
            sequence += len(batch.records)
        entry.next_sequence = sequence
        entry.last_acked_sequence = -1

    def take_back(self, batch: ProducerBatch) -> None:
        """Close the gap of a batch that was given up before any broker appended it.

        The batches in flight behind it move down (TxnPartitionMap.adjustSequencesDueToFailedBatch).
        """
        entry, count = batch.queue.sequences, len(batch.records)
        if batch.producer_epoch != entry.producer_epoch or batch.producer_id != entry.producer_id:
            return
        if entry.next_sequence < count:
            return  # the batch had the largest sequence: Kafka throws, and the Sender goes on
        entry.next_sequence -= count
        for later in entry.in_flight:
            if later.base_sequence >= batch.base_sequence:
                base = later.base_sequence - count
                later.set_sequence(later.producer_id, later.producer_epoch, base)
                later.sequence_reset = True

    def forget(self, batch: ProducerBatch) -> None:
        """Have the batch's partition begin anew: a broker knows nothing of this producer."""
        self.unresolved.pop(batch.queue.sequences, None)
        batch.queue.sequences = TxnPartitionEntry()

    def on_completed(self, batch: ProducerBatch, base_offset: int) -> None:
        """Note that a batch was acknowledged (handleCompletedBatch).

        The batch may have expired, and its epoch may be over: Kafka asks for neither.
        """
        entry = batch.queue.sequences
        last_sequence = batch.last_sequence
        if last_sequence > entry.last_acked_sequence:
            entry.last_acked_sequence = last_sequence
        if base_offset >= 0:
            last_offset = base_offset + len(batch.records) - 1
            if last_offset > entry.last_acked_offset:
                entry.last_acked_offset = last_offset
        entry.remove(batch)
        if not (entry.in_flight or self.is_current(entry) or self._renumbers_idle):
            self.start_at_beginning(entry)  # it was not idle when the epoch was raised

    def is_out_of_turn(self, batch: ProducerBatch) -> bool:
        """Return whether OUT_OF_ORDER_SEQUENCE_NUMBER tells nothing about a batch but its haste.

        Another batch goes before it, or it was renumbered while the attempt was in flight.
        """
        entry = batch.queue.sequences
        return entry.unresolved is None and (
            batch.sequence_reset or not entry.is_next(batch.base_sequence)
        )

    def mark_unresolved(self, batch: ProducerBatch) -> None:
        """Note that a batch expired that may be in the log (markSequenceUnresolved).

        The partition sends nothing new until its other in-flight batches have their results.
        """
        entry = batch.queue.sequences
        after = java_int(batch.last_sequence + 1)
        entry.unresolved = after if entry.unresolved is None else max(entry.unresolved, after)
        self.unresolved[entry] = None

    def resolve(self) -> list[TxnPartitionEntry]:
        """Return the partitions with a gap that is final, now that nothing is in flight there.

        An expired batch behind which others were acknowledged had reached the log: its partition
        goes on (maybeResolveSequences).
        """
        gaps: list[TxnPartitionEntry] = []
        for entry in list(self.unresolved):
            if entry.in_flight:
                continue
            del self.unresolved[entry]
            entry.unresolved = None
            if not entry.is_next(entry.next_sequence):
                gaps.append(entry)
        return gaps

    def clear_unresolved(self) -> None:
        """Forget the gaps: every partition begins at 0 with a new epoch (resetSequenceNumbers)."""
        for entry in self.unresolved:
            entry.unresolved = None
        self.unresolved.clear()
