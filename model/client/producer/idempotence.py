"""The idempotent producer's id, epoch and sequences: Kafka's TransactionManager without
transactions (KIP-98, KIP-360).

Sequences live in each PartitionQueue (TxnPartitionEntry); this class owns the producer id and the
decisions. After an irrecoverable gap the epoch is bumped client-side and the partition's in-flight
batches are renumbered from 0; other partitions take the new epoch once theirs are drained.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.client.net.connections import Connections, backoff_us
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducePartitionResponse,
)
from kafkasim.model.records import NO_PRODUCER_ID, NO_SEQUENCE, add_sequence

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.client.producer.accumulator import PartitionQueue, ProducerBatch
    from kafkasim.model.client.rules import ClientRules

MAX_EPOCH = 2**15 - 1
MAX_INT = 2**31 - 1


class TransactionManager:
    """Producer id, epoch and the handling of sequences."""

    def __init__(
        self, connections: Connections, rules: ClientRules, on_ready: Callable[[int], None]
    ) -> None:
        self.connections = connections
        self.process = connections.process
        self.rules = rules
        self.on_ready = on_ready
        self.producer_id = NO_PRODUCER_ID
        self.producer_epoch = -1
        self.attention = False  # something for run() to do
        self._unresolved: dict[PartitionQueue, None] = {}
        self._rewrite: dict[PartitionQueue, None] = {}  # partitions that asked for a new epoch
        self._asked = False
        self._attempts = 0
        self._key = ("init-producer-id", connections.name)

    # The producer id.

    def ensure_id(self, now: int) -> None:
        """Ask any broker for a producer id, unless we have one or asked."""
        if self.producer_id != NO_PRODUCER_ID or self._asked:
            return
        self._asked = True
        channel = self.connections.least_loaded(now)
        if channel is None:
            self._retry(max(now + 1, self.connections.next_attempt()))
            return
        channel.send(InitProducerIdRequest(None, MAX_INT), now, self._on_response)

    def _on_response(self, answer: Any, now: int) -> None:
        if not isinstance(answer, InitProducerIdResponse) or answer.error:
            self._attempts += 1
            self._retry(now + backoff_us(self.connections.config, self._attempts, self.process.rng))
            return
        self._asked = False
        self._attempts = 0
        self.producer_id = answer.producer_id
        self.producer_epoch = answer.producer_epoch
        if self.attention:
            self.run(now)
        self.on_ready(now)

    def _retry(self, deadline: int) -> None:
        self.process.timers.arm(self._key, deadline, "main", self._on_retry)

    def _on_retry(self, now: int) -> None:
        self._asked = False
        self.ensure_id(now)

    # Sending.

    def may_send(self, queue: PartitionQueue, batch: ProducerBatch, now: int) -> bool:
        """Return whether the first batch of a queue may go out (shouldStopDrainBatches)."""
        if self.producer_id == NO_PRODUCER_ID:
            self.ensure_id(now)
            return False
        if batch.base_sequence != NO_SEQUENCE:  # a retry: only the first in flight
            return queue.in_flight[0] is batch
        if queue.unresolved is not None:
            return False
        return not (
            queue.in_flight
            and (
                queue.producer_epoch != self.producer_epoch or queue.producer_id != self.producer_id
            )
            and self.rules.new_epoch_waits_for_in_flight()
        )

    def assign(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Give a batch that is drained for the first time its sequence."""
        if queue.producer_epoch != self.producer_epoch or queue.producer_id != self.producer_id:
            self._start_at_beginning(queue)
        sequence = queue.next_sequence
        batch.producer_id = queue.producer_id
        batch.producer_epoch = queue.producer_epoch
        batch.base_sequence = sequence
        queue.next_sequence = add_sequence(sequence, len(batch.records))
        queue.in_flight.append(batch)

    def _start_at_beginning(self, queue: PartitionQueue) -> None:
        queue.producer_id = self.producer_id
        queue.producer_epoch = self.producer_epoch
        sequence = 0
        for batch in queue.in_flight:
            batch.set_sequence(self.producer_id, self.producer_epoch, sequence)
            batch.sequence_reset = True
            sequence += len(batch.records)
        queue.next_sequence = sequence
        queue.last_acked_sequence = -1

    # Results.

    def on_completed(self, queue: PartitionQueue, batch: ProducerBatch, base_offset: int) -> None:
        """A batch is in the log: its sequence is the last acknowledged."""
        if batch.producer_epoch == queue.producer_epoch and batch.producer_id == queue.producer_id:
            last = batch.base_sequence + len(batch.records) - 1
            if last > MAX_INT:
                queue.last_acked_sequence = batch.last_sequence
            elif last > queue.last_acked_sequence or queue.last_acked_sequence - last > 1 << 30:
                queue.last_acked_sequence = last
        if base_offset >= 0:
            queue.last_acked_offset = base_offset + len(batch.records) - 1
        self.remove(queue, batch)

    def remove(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """Stop tracking a batch."""
        in_flight = queue.in_flight
        if in_flight and in_flight[0] is batch:
            del in_flight[0]
        elif batch in in_flight:
            in_flight.remove(batch)

    def on_failed(
        self, queue: PartitionQueue, batch: ProducerBatch, error: Errors, adjust: bool
    ) -> None:
        """A batch is given up; ``adjust`` when its sequence was surely not used for good."""
        if batch.base_sequence == NO_SEQUENCE:
            return
        self.remove(queue, batch)
        if adjust or error in (Errors.OUT_OF_ORDER_SEQUENCE_NUMBER, Errors.UNKNOWN_PRODUCER_ID):
            self.request_bump(queue)

    def on_expired(self, queue: PartitionQueue, batch: ProducerBatch) -> None:
        """A batch that had been sent expired: its sequence may be used or not."""
        if batch.base_sequence == NO_SEQUENCE:
            return
        self.remove(queue, batch)
        after = add_sequence(batch.base_sequence, len(batch.records))
        queue.unresolved = after if queue.unresolved is None else max(queue.unresolved, after)
        self._unresolved[queue] = None
        self.attention = True

    def can_retry(
        self, queue: PartitionQueue, batch: ProducerBatch, response: ProducePartitionResponse
    ) -> bool:
        """Return whether a refused batch may be sent again (TransactionManager.canRetry)."""
        error = response.error
        if error is Errors.UNKNOWN_PRODUCER_ID:
            if response.log_start_offset != -1 and not batch.sequence_reset:
                self.request_bump(queue)
            return True
        if error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER and not batch.sequence_reset:
            expected = add_sequence(queue.last_acked_sequence, 1)
            if queue.unresolved is None:
                if batch.base_sequence == expected:  # the gap is real
                    self.request_bump(queue)
            elif batch.base_sequence == queue.unresolved:
                self.request_bump(queue)
            return True
        if error is Errors.OUT_OF_ORDER_SEQUENCE_NUMBER:
            # Renumbered while this attempt was under way: that answer is for the old sequence.
            batch.sequence_reset = False
            return True
        return error in RETRIABLE

    def request_bump(self, queue: PartitionQueue) -> None:
        """Bump the epoch before anything else is sent, and renumber this partition."""
        self._rewrite[queue] = None
        self.attention = True

    def run(self, now: int) -> None:
        """Resolve sequences and bump the epoch if asked; once per turn of the sender."""
        for queue in list(self._unresolved):
            if queue.in_flight:
                continue
            del self._unresolved[queue]
            queue_gap = queue.next_sequence != add_sequence(queue.last_acked_sequence, 1)
            queue.unresolved = None
            if queue_gap:
                self._rewrite[queue] = None
        self.attention = bool(self._unresolved)
        if not self._rewrite:
            return
        if self.producer_epoch == MAX_EPOCH:
            self.producer_id = NO_PRODUCER_ID
            self.producer_epoch = -1
            self.attention = True
            self.ensure_id(now)
            return
        self.producer_epoch += 1
        for queue in self._rewrite:
            self._start_at_beginning(queue)
            queue.unresolved = None
            self._unresolved.pop(queue, None)
        self._rewrite.clear()
