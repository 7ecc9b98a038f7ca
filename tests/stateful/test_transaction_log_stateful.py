"""A log with transactions against a replay of all its batches, on a disk that loses power.

Theorem: whatever was written, truncated, deleted, flushed or lost, the open transactions and the
last stable offset are what a replay of the log gives; and a read_committed reader, with any size of
fetch, gets exactly the records below it that are plain or committed. So the transaction indexes and
the producer snapshots, which the log keeps for that, never lie after any kind of restart.
"""

from __future__ import annotations

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.records import (
    EndTransactionMarker,
    Record,
    RecordBatch,
    assigned,
    batch_of,
    end_transaction_marker,
)
from kafkasim.model.storage.log.validation import AppendOrigin
from tests.model.test_completed_fetch import fetched, offsets
from tests.stateful.test_log_stateful import LogMachine

PRODUCERS = (11, 12, 13)


class TransactionLogMachine(LogMachine):
    """Adds transactions of three producers to the log; the oracle reads ``batches``."""

    def __init__(self) -> None:
        self.restarted = False
        super().__init__()
        self.coordinator_epoch = 0
        self.restarted = False

    def load(self, clean: bool) -> None:
        self.restarted = True
        super().load(clean)

    def append(self, sent: RecordBatch, origin: AppendOrigin) -> Errors:
        self.batches.append(assigned(sent, self.log.log_end_offset, self.epoch))
        result = self.log.append_as_leader(sent, self.epoch, 0, origin)
        if result.error is not NONE:
            self.batches.pop()
        self.drain()
        return result.error

    @rule(producer=st.sampled_from(PRODUCERS), count=st.integers(1, 2))
    def send(self, producer: int, count: int) -> None:
        entry = self.log.producers.entries.get(producer)
        last = entry.batches[-1][1] if entry is not None and entry.batches else -1
        sent = batch_of(
            tuple([Record(None, number, 40, 0) for number in range(count)]),
            producer_id=producer,
            producer_epoch=0 if entry is None else entry.epoch,
            base_sequence=last + 1,
            transactional=True,
        )
        assert self.append(sent, AppendOrigin.CLIENT) is NONE

    @rule(producer=st.sampled_from(PRODUCERS), committed=st.booleans(), bump=st.booleans())
    def end(self, producer: int, committed: bool, bump: bool) -> None:
        entry = self.log.producers.entries.get(producer)
        epoch = (0 if entry is None else entry.epoch) + bump
        value = EndTransactionMarker(committed, self.coordinator_epoch)
        marker = end_transaction_marker(producer, epoch, value, 0)
        assert self.append(marker, AppendOrigin.COORDINATOR) is NONE

    @rule(producer=st.sampled_from(PRODUCERS))
    def end_as_an_older_coordinator(self, producer: int) -> None:
        """A marker of a coordinator that is known to be old never gets in."""
        entry = self.log.producers.entries.get(producer)
        if entry is None or entry.coordinator_epoch < 0:
            return
        value = EndTransactionMarker(True, entry.coordinator_epoch - 1)
        marker = end_transaction_marker(producer, entry.epoch, value, 0)
        fenced = Errors.TRANSACTION_COORDINATOR_FENCED
        assert self.append(marker, AppendOrigin.COORDINATOR) is fenced

    @rule()
    def new_coordinator(self) -> None:
        self.coordinator_epoch += 1

    @rule()
    def replicate_everything(self) -> None:
        self.log.update_high_watermark(self.log.log_end_offset)
        self.high_watermark = self.log.high_watermark

    def transactions(self) -> list[tuple[int, int, int | None, bool]]:
        """All transactions of the oracle: producer, first offset, marker's offset, committed."""
        found: list[tuple[int, int, int | None, bool]] = []
        opened: dict[int, int] = {}
        for batch in self.batches:
            if batch.control:
                if batch.producer_id in opened:
                    first = opened.pop(batch.producer_id)
                    committed = batch.records[0].value.committed
                    found.append((batch.producer_id, first, batch.base_offset, committed))
            elif batch.transactional:
                opened.setdefault(batch.producer_id, batch.base_offset)
        return found + [(producer, first, None, False) for producer, first in opened.items()]

    def began_below_the_start(self) -> bool:
        """Whether records of an unstable transaction were deleted: the oracle has not seen them."""
        start = self.log.log_start_offset
        return self.log.transactions.first_unstable_offset < start or any(
            first < start for _, first, _, _ in self.transactions()
        )

    @invariant()
    def last_stable_offset_is_a_replay(self) -> None:
        if self.began_below_the_start():
            return
        log = self.log
        undecided = [first for _, first, marker, _ in self.transactions() if marker is None]
        unreplicated = [
            first
            for _, first, marker, _ in self.transactions()
            if marker is not None and marker >= log.high_watermark
        ]
        highest = min([log.high_watermark, *undecided])
        # A snapshot does not say which markers were not replicated, so a start may forget them.
        assert min([highest, *unreplicated]) <= log.last_stable_offset <= highest
        if not self.restarted:
            assert log.last_stable_offset == min([highest, *unreplicated])
        still_open = {first: pid for pid, first, marker, _ in self.transactions() if marker is None}
        assert log.transactions.undecided == still_open

    @invariant()
    def reader_gets_what_was_committed(self) -> None:
        if self.began_below_the_start():
            return
        log = self.log
        start, stable = log.log_start_offset, log.last_stable_offset
        aborted = [
            (producer, first, marker)
            for producer, first, marker, committed in self.transactions()
            if marker is not None and not committed
        ]
        expected = [
            batch.base_offset + index
            for batch in self.batches
            if not batch.control and batch.next_offset <= stable
            if not any(
                batch.producer_id == producer and first <= batch.base_offset < marker
                for producer, first, marker in aborted
            )
            for index in range(len(batch.records))
            if batch.base_offset + index >= start
        ]
        read: list[int] = []
        position = start
        while position < stable:
            fetch = fetched(log, position, max_bytes=300)
            read += offsets(fetch)
            if not fetch.response.batches:
                break
            position = fetch.next_offset
        assert read == expected


TestTransactionLog = TransactionLogMachine.TestCase
TestTransactionLog.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
