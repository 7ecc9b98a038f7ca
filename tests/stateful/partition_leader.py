"""A partition's leader, as an oracle has it: what was appended, and the sequences of one producer.

The rules are those of ProducerStateManager and ProducerAppendInfo: the last five batches are known,
a gap or an old epoch is refused.
"""

from __future__ import annotations

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.records import RecordBatch


class Leader:
    """One partition's log: the records, and what is known of the one producer."""

    def __init__(self) -> None:
        self.batches: list[tuple[RecordBatch, int]] = []  # and its offset
        self.records: list[int] = []
        self.answered = 0  # batches up to the last one that was acknowledged
        self.known: list[tuple[tuple[int, int], int, int, int]] = []  # producer, sequences, offset
        self.forgotten = False

    def append(self, batch: RecordBatch) -> tuple[Errors, int]:
        """Append a batch unless its sequence forbids it; return the error and the offset.

        A producer id that follows on another one is larger.
        """
        producer = batch.producer_id, batch.producer_epoch
        first, last = batch.base_sequence, batch.last_sequence
        for known in self.known[-5:]:
            if known[:3] == (producer, first, last):
                return NONE, known[3]
        if not self.known and self.forgotten:
            if first:
                return Errors.UNKNOWN_PRODUCER_ID, -1
        else:
            newest, _, end, _ = self.known[-1] if self.known else (producer, 0, -1, 0)
            if producer < newest:
                return Errors.INVALID_PRODUCER_EPOCH, -1
            if first != (end + 1 if producer == newest else 0):
                return Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = len(self.records)
        self.known.append((producer, first, last, offset))
        self.batches.append((batch, offset))
        self.records += [record.value for record in batch.records]
        return NONE, offset

    def lose_unanswered(self) -> None:
        """Forget the batches at the end that nobody was told of: another replica leads."""
        lost = len(self.batches) - self.answered
        if lost:
            del self.records[self.batches[self.answered][1] :]
            del self.batches[self.answered :]
            del self.known[max(0, len(self.known) - lost) :]
