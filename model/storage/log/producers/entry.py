"""What a log knows about one producer (Kafka: ProducerStateEntry, BatchMetadata)."""

from __future__ import annotations

from kafkasim.model.messages import ProducerState
from kafkasim.model.records import NO_SEQUENCE

BatchMetadata = tuple[int, int, int, int, int]
"""What answers the retry of a batch: its first and last sequence, its last offset, last minus first
offset, and its timestamp in ms. A plain tuple, because every append makes one."""


class ProducerEntry:
    """The state of one producer id (ProducerStateEntry).

    ``batches`` are the last five, oldest first. They are empty if the producer's only batch here is
    a transaction marker. ``txn_first_offset`` is where its open transaction began, −1 without one;
    ``coordinator_epoch`` is that of its last marker, −1 before any.
    """

    __slots__ = (
        "batches",
        "coordinator_epoch",
        "epoch",
        "last_timestamp_ms",
        "producer_id",
        "txn_first_offset",
    )

    def __init__(
        self,
        producer_id: int,
        epoch: int,
        batches: list[BatchMetadata],
        last_timestamp_ms: int,
        coordinator_epoch: int = -1,
        txn_first_offset: int = -1,
    ) -> None:
        self.producer_id = producer_id
        self.epoch = epoch
        self.batches = batches
        self.last_timestamp_ms = last_timestamp_ms
        self.coordinator_epoch = coordinator_epoch
        self.txn_first_offset = txn_first_offset

    def state(self) -> tuple[int, int, tuple[BatchMetadata, ...], int, int, int]:
        """Return the entry in the form that a snapshot stores: of the batches the last alone.

        So a retry of an earlier batch is no duplicate to a log that was loaded from a snapshot, but
        out of order (ProducerStateManager.writeSnapshot).
        """
        return (
            self.producer_id,
            self.epoch,
            tuple(self.batches[-1:]),
            self.last_timestamp_ms,
            self.coordinator_epoch,
            self.txn_first_offset,
        )

    def described(self) -> ProducerState:
        """Return the entry as DescribeProducers shows it."""
        return ProducerState(
            self.producer_id,
            self.epoch,
            self.batches[-1][1] if self.batches else NO_SEQUENCE,
            self.last_timestamp_ms,
            self.coordinator_epoch,
            self.txn_first_offset,
        )
