"""A partition's part of a fetch response, until all its records are polled: CompletedFetch.

Not modelled: the records of aborted transactions, which read_committed would skip.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.records import RecordBatch

if TYPE_CHECKING:
    from kafkasim.model.client.consumer.subscription import TopicPartitionState
    from kafkasim.model.messages import FetchPartitionResponse

RecordTuple = tuple[int, Any, Any, int]  # offset, record id, key, timestamp in ms


class CompletedFetch:
    """Records that were fetched from ``fetch_offset`` on, in the order of their offsets."""

    __slots__ = ("batch", "next_offset", "response", "state")

    def __init__(
        self, state: TopicPartitionState, fetch_offset: int, response: FetchPartitionResponse
    ) -> None:
        self.state = state
        self.next_offset = fetch_offset
        self.response = response
        self.batch = 0  # the index of the batch to read next

    def take(self, limit: int) -> list[RecordTuple]:
        """Return up to ``limit`` records and move ``next_offset`` behind them.

        ``next_offset`` also moves past control batches and past gaps that compaction has left. The
        reading stops before a corrupt batch.
        """
        taken: list[RecordTuple] = []
        batches = self.response.batches
        while self.batch < len(batches):
            batch = batches[self.batch]
            if type(batch) is not RecordBatch:
                break
            start = self.next_offset
            if not batch.control and batch.last_offset >= start:
                base = batch.base_offset
                deltas = batch.offset_deltas
                records = batch.records
                if deltas is None:
                    first = start - base if start > base else 0
                    chosen = records[first : first + limit - len(taken)]
                    taken += [
                        (offset, r.value, r.key, r.timestamp_ms)
                        for offset, r in enumerate(chosen, base + first)
                    ]
                    more = first + len(chosen) < len(records)
                else:
                    pairs = [p for p in zip(deltas, records, strict=True) if base + p[0] >= start]
                    room = limit - len(taken)
                    taken += [(base + d, r.value, r.key, r.timestamp_ms) for d, r in pairs[:room]]
                    more = len(pairs) > room
                self.state.offset_epoch = batch.leader_epoch
                if more:
                    if taken:
                        self.next_offset = taken[-1][0] + 1
                    return taken
            if batch.last_offset >= start:
                self.next_offset = batch.last_offset + 1
            self.batch += 1
            if len(taken) >= limit:
                break
        return taken

    @property
    def corrupt(self) -> bool:
        """Whether the next batch has a wrong CRC (check.crcs): bit rot at the leader."""
        batches = self.response.batches
        return self.batch < len(batches) and type(batches[self.batch]) is not RecordBatch

    @property
    def consumed(self) -> bool:
        """Whether no batch is left (isConsumed)."""
        return self.batch >= len(self.response.batches)
