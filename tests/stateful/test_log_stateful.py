"""The log against a dumb list, through process crashes, clean stops and power losses.

Theorem: a process crash loses nothing. After a power loss the log is a prefix of a state it had
since the last flush, and holds at least what lay below the recovery point. At all times the epoch
cache says of every batch the epoch it was written under, the producer state is a replay of the log
from its start, and log start <= HW <= log end. The disk is the simulator's, with torn and lost
writes.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkasim.model.config import TopicConfig
from kafkasim.model.effects import Barrier, Flush
from kafkasim.model.errors import NONE
from kafkasim.model.records import Record, RecordBatch, TopicPartition, assigned, batch_of
from kafkasim.model.storage.files import MemoryFiles
from kafkasim.model.storage.final_replica import final_replica
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.rules import StorageRules
from kafkasim.sim.disk.device import Disk

CONFIG = TopicConfig(segment_bytes=400, index_interval_bytes=100, retention_ms=-1)
TP = TopicPartition("orders", 0)


def done(*_: object) -> None:
    """What a flush that nobody waits for calls."""


class InstantKernel:
    """A kernel on which whatever is pushed happens at once: every fsync ends immediately."""

    now = 0

    def push(self, when: int, job: Any) -> None:
        for callback in job.callbacks:
            callback(job)


class LogMachine(RuleBasedStateMachine):
    """One replica that leads and follows in turn; ``batches`` is what its log must hold."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk(InstantKernel(), random.Random(1))  # type: ignore[arg-type]
        self.batches: list[RecordBatch] = []
        self.versions: list[list[RecordBatch]] = [[]]  # every state since all was flushed
        self.epoch = 0
        self.sequence = 0
        self.flushes: list[Flush] = []
        self.checkpoint = 0  # recovery point
        self.log_start = 0
        self.high_watermark = 0
        self.load(clean=True)

    def load(self, clean: bool) -> None:
        self.flushes.clear()
        self.out: list[Any] = []
        self.log = UnifiedLog(
            self.disk,
            self.out,
            "orders-0",
            TP,
            "id",
            CONFIG,
            StorageRules(),
            clean=clean,
            recovery_point=self.checkpoint,
            log_start_offset=self.log_start,
            high_watermark=self.high_watermark,
        )
        self.drain()

    def drain(self) -> None:
        for effect in self.out:
            if isinstance(effect, Barrier):
                self.disk.flush(effect.files, done, None)
            elif isinstance(effect, Flush):
                self.flushes.append(effect)
        self.out.clear()
        self.versions.append(list(self.batches))

    @rule(count=st.integers(1, 3), idempotent=st.booleans())
    def append_as_leader(self, count: int, idempotent: bool) -> None:
        records = tuple([Record(None, number, 40, 0) for number in range(count)])
        if idempotent:
            sent = batch_of(records, producer_id=1, producer_epoch=0, base_sequence=self.sequence)
            self.sequence += count
        else:
            sent = batch_of(records)
        self.batches.append(assigned(sent, self.log.log_end_offset, self.epoch))
        result = self.log.append_as_leader(sent, self.epoch, 0)
        assert (result.error, result.batch) == (NONE, self.batches[-1])
        self.drain()

    @rule(count=st.integers(1, 4))
    def append_as_follower(self, count: int) -> None:
        end = self.log.log_end_offset
        records = (Record(None, 0, 40, 0),)
        sent = [assigned(batch_of(records), end + index, self.epoch) for index in range(count)]
        assert self.log.append_as_follower(sent, self.epoch).error is NONE
        self.batches += sent
        self.drain()

    @rule(assign=st.booleans())
    def new_epoch(self, assign: bool) -> None:
        self.epoch += 1
        if assign:
            self.log.epochs.assign(self.epoch, self.log.log_end_offset)
        self.drain()

    @precondition(lambda self: self.batches)
    @rule(place=st.integers(0, 30))
    def truncate(self, place: int) -> None:
        cut = self.batches[place % len(self.batches)].base_offset
        self.epoch += 1  # nobody writes other data under an old epoch
        assert self.log.truncate_to(cut)
        self.batches = [batch for batch in self.batches if batch.base_offset < cut]
        self.checkpoint = min(self.checkpoint, self.log.recovery_point)
        self.log_start = min(self.log_start, cut)
        self.sequence = self.next_sequence()
        self.drain()

    @rule(step=st.integers(0, 3))
    def advance_high_watermark(self, step: int) -> None:
        self.log.update_high_watermark(self.log.high_watermark + step)
        self.high_watermark = self.log.high_watermark

    @precondition(lambda self: self.log.high_watermark > self.log.log_start_offset)
    @rule()
    def delete_records(self) -> None:
        self.log.raise_log_start(self.log.high_watermark)
        self.log.delete_old_segments(0)
        self.log_start = self.log.log_start_offset
        start = self.log.segments[0].base_offset
        self.batches = [batch for batch in self.batches if batch.base_offset >= start]
        self.drain()

    @precondition(lambda self: self.flushes)
    @rule()
    def finish_a_flush(self) -> None:
        effect = self.flushes.pop(0)
        self.disk.flush(effect.files, done, None)
        effect.handler(None, 0)

    @rule()
    def flush_all(self) -> None:
        self.log.local.flush()
        self.drain()
        while self.flushes:
            self.finish_a_flush()
        assert self.log.recovery_point == self.log.log_end_offset
        self.versions = [list(self.batches)]

    @rule()
    def write_recovery_point(self) -> None:
        self.checkpoint = self.log.recovery_point

    @rule()
    def crash(self) -> None:
        """The page cache stays."""
        self.load(clean=False)

    @rule()
    def restart_cleanly(self) -> None:
        self.disk.flush(self.log.close_clean(), done, None)
        self.log.local.flushed(self.log.log_end_offset)
        self.checkpoint = self.log.recovery_point
        self.versions = [list(self.batches)]
        self.load(clean=True)

    @rule()
    def lose_power(self) -> None:
        durable = [
            batch
            for batch in self.batches
            if batch.last_offset < self.log.recovery_point and batch.base_offset >= self.log_start
        ]
        self.disk.power_loss()
        self.load(clean=False)
        found = self.visible(list(self.log.batches_from(0)))
        versions = [self.visible(version) for version in self.versions]
        assert any(found == version[: len(found)] for version in versions), (found, versions)
        assert found[: len(durable)] == durable
        self.batches = list(self.log.batches_from(0))
        self.versions = [list(version) for version in self.versions] + [list(self.batches)]
        self.epoch += 1
        self.sequence = self.next_sequence()
        self.log_start = self.log.log_start_offset
        self.high_watermark = self.log.high_watermark
        self.checkpoint = min(self.checkpoint, self.log.recovery_point)

    def visible(self, batches: list[RecordBatch]) -> list[RecordBatch]:
        return [batch for batch in batches if batch.base_offset >= self.log_start]

    def next_sequence(self) -> int:
        entry = self.log.producers.entries.get(1)
        return entry.batches[-1][1] + 1 if entry else 0

    @invariant()
    def holds_what_was_written(self) -> None:
        log = self.log
        assert list(log.batches_from(0)) == self.batches
        if self.batches:
            assert log.log_end_offset == self.batches[-1].next_offset
        for batch in self.batches:
            read = log.read(batch.last_offset, 1, log.log_end_offset)
            assert read == (batch,)
        assert log.read(log.log_end_offset, 1000, log.log_end_offset) == ()

    @invariant()
    def offsets_are_ordered(self) -> None:
        log = self.log
        assert log.log_start_offset <= log.high_watermark <= log.log_end_offset
        assert log.recovery_point <= log.log_end_offset
        bases = [segment.base_offset for segment in log.segments]
        assert bases == sorted(bases)

    @invariant()
    def epoch_cache_matches_the_batches(self) -> None:
        log = self.log
        for batch in self.batches:
            if batch.base_offset >= log.log_start_offset:
                assert log.epochs.epoch_for(batch.base_offset) == batch.leader_epoch, batch

    @invariant()
    def producer_state_is_a_replay(self) -> None:
        known = self.log.producers.entries.get(1)
        written = [
            batch
            for batch in self.batches
            if batch.producer_id == 1 and batch.base_offset >= self.log.log_start_offset
        ]
        if written:
            assert known is not None
            last = [(batch.base_sequence, batch.last_offset) for batch in written[-5:]]
            found = [(entry[0], entry[2]) for entry in known.batches]
            known_here = min(len(found), len(last))  # a snapshot has the last batch alone
            assert known_here > 0
            assert found[-known_here:] == last[-known_here:]


TestLog = LogMachine.TestCase
TestLog.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)


def test_follower_with_the_same_batches_is_equal() -> None:
    """MATCH: what a follower fetched batch by batch is what the leader holds."""
    logs = [
        UnifiedLog(MemoryFiles(), [], "orders-0", TP, "id", CONFIG, StorageRules()) for _ in "ab"
    ]
    leader, follower = logs
    for number in range(20):
        leader.append_as_leader(batch_of((Record(None, number, 40, 0),)), number // 7, 0)
    while follower.log_end_offset < leader.log_end_offset:
        fetched = leader.read(follower.log_end_offset, 250, leader.log_end_offset)
        follower.append_as_follower(fetched)
    assert final_replica(follower, False, 0) == final_replica(leader, False, 0)
