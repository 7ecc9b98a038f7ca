"""A partition's part of a fetch response, until all its records are polled: CompletedFetch.

Control batches are never returned. Under read_committed neither are the records of aborted
transactions: the response names them, by producer id and first offset, and each ends with its ABORT
marker. The position advances over whatever is skipped.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.records import EndTransactionMarker, RecordBatch

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.subscription import TopicPartitionState
    from kafkasim.model.messages import FetchPartition, FetchPartitionResponse

RecordTuple = tuple[int, Any, Any, int]  # offset, record id, key, timestamp in ms


class CompletedFetch:
    """Records that were fetched from an offset on, in the order of their offsets."""

    __slots__ = ("_aborted", "_aborting", "batch", "next_offset", "response", "state", "topic_id")

    def __init__(
        self, state: TopicPartitionState, asked: FetchPartition, response: FetchPartitionResponse
    ) -> None:
        self.state = state
        self.topic_id = asked.topic_id
        """Of the topic that was read, for facts: the position may be another topic's by now, and
        the next fetch under way, from another node"""
        self.next_offset = asked.fetch_offset
        self.response = response
        self.batch = 0  # the index of the batch to read next
        # The aborted transactions that have not begun yet, the next one last: (first offset,
        # producer id). And the producers whose aborted transaction goes on.
        self._aborted: list[tuple[int, int]] = []
        if response.aborted_transactions:
            self._aborted = sorted(
                [(first, producer_id) for producer_id, first in response.aborted_transactions],
                reverse=True,
            )
        self._aborting: dict[int, None] = {}

    def take(self, limit: int) -> list[RecordTuple]:
        """Return up to ``limit`` records and move ``next_offset`` behind them.

        ``next_offset`` also moves past control batches, aborted records, and gaps that compaction
        has left, but not past those behind the last record if the limit is reached with it: that
        takes another call, until when the fetch is not consumed (nextFetchedRecord). The reading
        stops before a corrupt batch.
        """
        taken: list[RecordTuple] = []
        batches = self.response.batches
        while self.batch < len(batches):
            batch = batches[self.batch]
            if type(batch) is not RecordBatch:
                return taken
            start = self.next_offset
            skipped = batch.control
            if self._aborted or self._aborting:
                skipped = self._is_aborted(batch) or skipped
            if batch.last_offset >= start:
                self.state.offset_epoch = batch.leader_epoch
                if skipped:
                    self.next_offset = batch.last_offset + 1
                else:
                    taken += _records_from(batch, start, limit - len(taken))
                    if taken:
                        self.next_offset = max(start, taken[-1][0] + 1)
                    if len(taken) >= limit:
                        return taken
            self.batch += 1
        if batches:
            self.next_offset = max(self.next_offset, batches[-1].last_offset + 1)
        return taken

    def drop_rest_of_batch(self) -> None:
        """Go on behind the batch that the last :meth:`take` has left, without its records."""
        if not self.consumed:
            self.next_offset = max(self.next_offset, self.response.batches[self.batch].next_offset)
            self.batch += 1

    def _is_aborted(self, batch: RecordBatch) -> bool:
        """Return whether a batch's transaction was aborted; take note of where those begin and
        end (nextFetchedRecord)."""
        producer_id = batch.producer_id
        if producer_id < 0:
            return False
        while self._aborted and self._aborted[-1][0] <= batch.last_offset:
            self._aborting[self._aborted.pop()[1]] = None
        if not batch.control:
            return batch.transactional and producer_id in self._aborting
        marker = batch.records[0].value if batch.records else None
        if isinstance(marker, EndTransactionMarker) and not marker.committed:
            self._aborting.pop(producer_id, None)
        return False

    @property
    def corrupt(self) -> bool:
        """Whether the next batch has a wrong CRC (check.crcs): bit rot at the leader."""
        batches = self.response.batches
        return self.batch < len(batches) and type(batches[self.batch]) is not RecordBatch

    @property
    def consumed(self) -> bool:
        """Whether no batch is left (isConsumed)."""
        return self.batch >= len(self.response.batches)


def _records_from(batch: RecordBatch, start: int, limit: int) -> list[RecordTuple]:
    """Return up to ``limit`` records of a batch from offset ``start`` on."""
    base, deltas, records = batch.base_offset, batch.offset_deltas, batch.records
    if deltas is None:
        first = start - base if start > base else 0
        chosen = records[first : first + limit]
        return [
            (offset, r.value, r.key, r.timestamp_ms)
            for offset, r in enumerate(chosen, base + first)
        ]
    pairs = [p for p in zip(deltas, records, strict=True) if base + p[0] >= start]
    return [(base + d, r.value, r.key, r.timestamp_ms) for d, r in pairs[:limit]]
