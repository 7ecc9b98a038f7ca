"""Whether a transaction's coordinator knows that it has a partition (KIP-890, part 1).

Models VerificationStateEntry and VerificationGuard. Before the first batch of a transaction, a
leader asks the coordinator. It appends the batch only if the entry that was made for the question
is still the producer's current one, so the entry itself is the guard: any transactional batch or
marker removes it (KAFKA-14884). A late answer about a transaction that is over opens no new one.
"""

from __future__ import annotations


class VerificationStateEntry:
    """A question to the coordinator about one producer, from its first batch to an append."""

    __slots__ = ("epoch", "lowest_sequence", "supports_epoch_bump", "timestamp_ms")

    def __init__(
        self, timestamp_ms: int, sequence: int, epoch: int, supports_epoch_bump: bool
    ) -> None:
        self.timestamp_ms = timestamp_ms
        self.lowest_sequence = sequence  # of the batches that wait for an answer, of ``epoch``
        self.epoch = epoch
        self.supports_epoch_bump = supports_epoch_bump  # transaction version 2

    def update(self, sequence: int, epoch: int) -> None:
        """Take note of another batch that waits (maybeUpdateLowestSequenceAndEpoch).

        Batches above the lowest sequence are refused, because a retry of the lowest one would be
        out of order for ever once they are in the log (KAFKA-14920, KAFKA-16386).
        """
        if epoch > self.epoch:
            self.epoch = epoch
            self.lowest_sequence = sequence
        elif epoch == self.epoch and sequence < self.lowest_sequence:
            self.lowest_sequence = sequence
