"""A compacted log against the list of all records that were ever appended to it.

Theorem: whatever is cleaned, in whatever pieces, and wherever the power fails, the last value of
each key is what it was, no record is missing where no cleaning has been, none has moved, and
every producer can go on with its next sequence number. After a cleaning that reached its bound each
key has one record below it. A tombstone is missing only if it was met by a cleaning
delete.retention.ms before. The disk is the simulator's: a power loss undoes what was not flushed.
"""

from __future__ import annotations

import random
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from kafkasim.model.records import EndTransactionMarker, Tombstone, end_transaction_marker
from kafkasim.model.storage.cleaner.cleanable import log_to_clean
from kafkasim.model.storage.cleaner.cleaner import Cleaning
from kafkasim.model.storage.cleaner.offset_map import BYTES_PER_ENTRY, OffsetMap
from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.model.storage.rules import StorageRules
from kafkasim.sim.disk.device import Disk
from tests.model.cleaner_support import commit, compacted, content, keyed
from tests.model.storage_support import TP
from tests.stateful.test_log_stateful import InstantKernel, done

CONFIG = compacted(segment_bytes=400, index_interval_bytes=100, delete_retention_ms=50)
KEYS = st.sampled_from(["a", "b", "c", "d"])
STEPS = ("writing", "flushed", "swapped", "nothing")


class CleanerMachine(RuleBasedStateMachine):
    """One log; ``records`` is all that was appended, by offset: key, value, open producer or −1."""

    def __init__(self) -> None:
        super().__init__()
        self.disk = Disk(InstantKernel(), random.Random(1))  # type: ignore[arg-type]
        self.records: dict[int, tuple[str, int, int]] = {}
        self.aborted: dict[int, None] = {}
        self.met: dict[int, int] = {}  # tombstone's offset -> when a cleaning first met it
        self.sequences: dict[int, int] = {}
        self.number = 0
        self.dirty = 0  # the checkpointed first dirty offset
        self.now_ms = 1000
        self.cleaned_to = 0  # the bound of a cleaning that was the last thing that happened
        self.touched = 0  # where the maps of all cleanings ended
        self.log: Any = None
        self.load()

    def load(self) -> None:
        end = self.log.log_end_offset if self.log else 0
        self.out: list[Any] = []
        self.log = UnifiedLog(
            self.disk, self.out, "orders-0", TP, "id", CONFIG, StorageRules(),
            clean=False, recovery_point=end, high_watermark=end,
        )  # fmt: skip
        assert self.log.log_end_offset == end
        self.flush()

    def flush(self) -> None:
        self.disk.flush(("orders-0/", *self.disk.paths("orders-0/")), done, None)
        self.out.clear()

    def keep(self, first: int, pairs: list[tuple[str, int | None]], producer: int = -1) -> None:
        for offset, (key, number) in enumerate(pairs, first):
            assert number is not None
            self.records[offset] = (key, number, producer)
        self.cleaned_to = 0

    def pairs(self, keys: list[tuple[str, bool]]) -> list[tuple[str, int | None]]:
        found: list[tuple[str, int | None]] = []
        for key, deleted in keys:
            self.number += 1
            found.append((key, -self.number if deleted else self.number))
        return found

    @rule(keys=st.lists(st.tuples(KEYS, st.booleans()), min_size=1, max_size=3),
          producer=st.sampled_from([-1, 7]))  # fmt: skip
    def append(self, keys: list[tuple[str, bool]], producer: int) -> None:
        pairs, start = self.pairs(keys), self.log.log_end_offset
        sequence = self.sequences.get(producer, 0) if producer >= 0 else -1
        batch = keyed(*pairs, at_ms=self.now_ms, producer_id=producer,
                      producer_epoch=min(producer, 0), base_sequence=sequence)  # fmt: skip
        commit(self.log, batch, self.now_ms)
        if producer >= 0:
            self.sequences[producer] = sequence + len(pairs)
        self.keep(start, pairs)

    @rule(keys=st.lists(st.tuples(KEYS, st.booleans()), min_size=1, max_size=2),
          producer=st.sampled_from([1, 2]))  # fmt: skip
    def append_in_transaction(self, keys: list[tuple[str, bool]], producer: int) -> None:
        pairs, start = self.pairs(keys), self.log.log_end_offset
        batch = keyed(*pairs, at_ms=self.now_ms, producer_id=producer, producer_epoch=0,
                      transactional=True)  # fmt: skip
        commit(self.log, batch, self.now_ms)
        self.keep(start, pairs, producer)

    @rule(producer=st.sampled_from([1, 2]), committed=st.booleans())
    def end_transaction(self, producer: int, committed: bool) -> None:
        value = EndTransactionMarker(committed, 0)
        commit(self.log, end_transaction_marker(producer, 0, value, self.now_ms), self.now_ms)
        for offset, (key, number, by) in list(self.records.items()):
            if by == producer:
                self.records[offset] = (key, number, -1)
                if not committed:
                    self.aborted[offset] = None
        self.cleaned_to = 0

    @rule(by_ms=st.integers(1, 60))
    def time_passes(self, by_ms: int) -> None:
        self.now_ms += by_ms

    @rule()
    def roll(self) -> None:
        if self.log.segments[-1].batches:
            self.log.roll(self.log.log_end_offset)

    @rule()
    def crash(self) -> None:
        """Without snapshots, so that the producers' state is a replay of what is left."""
        for path in self.disk.paths("orders-0/"):
            if path.endswith(".snapshot"):
                self.disk.delete(path)
        self.flush()
        self.disk.power_loss()
        self.load()

    @precondition(lambda self: log_to_clean(self.log, self.dirty, self.now_ms).cleanable_bytes)
    @rule(slots=st.sampled_from([2, 3, 100]), stops=st.sampled_from(STEPS), after=st.integers(0, 2))
    def clean(self, slots: int, stops: str, after: int) -> None:
        """Clean; the power fails ``after`` some groups at a step, or not at all."""
        self.flush()
        to_clean = log_to_clean(self.log, self.dirty, self.now_ms)
        cleaning = Cleaning(to_clean, OffsetMap(slots * BYTES_PER_ENTRY), 1.0, self.now_ms)
        self.touched = max(self.touched, cleaning.end_offset)
        while not cleaning.done:
            group = cleaning.write_group()
            failing = stops if after == 0 else ""
            after -= 1
            if failing != "writing":
                self.disk.flush(group.segment.paths, done, None)
                if failing != "flushed":
                    cleaning.swap(group)
                    for offset, _, value in content(self.log):
                        if type(value) is Tombstone and offset < group.segment.next_offset:
                            self.met.setdefault(offset, self.now_ms)
            if failing in STEPS[:3]:
                self.disk.power_loss()
                self.load()
                return
            self.disk.flush(("orders-0/",), done, None)
        self.dirty = cleaning.end_offset
        reached = self.dirty == to_clean.first_uncleanable_offset
        self.cleaned_to = self.dirty if reached else 0

    @invariant()
    def no_record_has_changed(self) -> None:
        for offset, key, value in content(self.log):
            known, number, _ = self.records[offset]
            assert (key, int(value), type(value) is Tombstone) == (known, abs(number), number < 0)

    @invariant()
    def nothing_is_missing_above_all_cleanings(self) -> None:
        held = [offset for offset, _, _ in content(self.log) if offset >= self.touched]
        above = [each for each in self.records if each >= self.touched]
        assert [each for each in above if each not in self.aborted] == [
            each for each in held if each not in self.aborted
        ]

    @invariant()
    def the_last_value_of_each_key_is_there(self) -> None:
        held = dict.fromkeys([offset for offset, _, _ in content(self.log)])
        last = {
            key: (offset, number)
            for offset, (key, number, open_by) in sorted(self.records.items())
            if offset not in self.aborted and open_by < 0
        }
        for offset, number in last.values():
            if offset not in held:
                assert number < 0, (offset, number)
                assert self.met[offset] + 50 <= self.now_ms, offset

    @invariant()
    def each_key_is_there_once_below_the_dirty_point(self) -> None:
        keys = [key for offset, key, _ in content(self.log) if offset < self.cleaned_to]
        assert len(keys) == len(dict.fromkeys(keys))

    @invariant()
    def producers_can_go_on(self) -> None:
        for producer, sequence in self.sequences.items():
            assert self.log.producers.entries[producer].batches[-1][1] == sequence - 1

    @invariant()
    def no_file_is_left_behind(self) -> None:
        assert not [path for path in self.disk.paths("") if path.endswith((".cleaned", ".swap"))]

    @invariant()
    def aborted_records_are_known_as_such(self) -> None:
        """What a reader of committed records skips: each entry reaches from its first record."""
        for offset, _, _ in content(self.log):
            if offset in self.aborted:
                entries = self.log.local.aborted_transactions(offset, offset + 1)
                assert any(each.first_offset <= offset < each.last_offset for each in entries)


TestLogCleaner = CleanerMachine.TestCase
TestLogCleaner.settings = settings(max_examples=40, stateful_step_count=30, deadline=None)
