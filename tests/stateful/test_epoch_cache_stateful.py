"""The leader-epoch cache against a list that follows its specification literally (KAFKA.md, 1.2).

Theorem: after any sequence of assignments, truncations and restarts, the cache holds what the
definitions say, both columns increase strictly, and every lookup equals a linear search.
"""

from __future__ import annotations

from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from kafkasim.model.storage.files import MemoryFiles
from kafkasim.model.storage.log.epochs import LeaderEpochCache
from kafkasim.model.storage.log.unified_log import raise_disk_error
from kafkasim.model.storage.rules import StorageRules

EPOCHS = st.integers(0, 8)
OFFSETS = st.integers(0, 20)


class EpochCacheMachine(RuleBasedStateMachine):
    """Verbs of the cache; the oracle is a list of (epoch, start)."""

    def __init__(self) -> None:
        super().__init__()
        self.files = MemoryFiles()
        self.out: list[Any] = []
        self.oracle: list[tuple[int, int]] = []
        self.restart()

    @rule(epoch=EPOCHS, start=OFFSETS)
    def assign(self, epoch: int, start: int) -> None:
        self.cache.assign(epoch, start)
        if self.oracle and self.oracle[-1][0] == epoch and self.oracle[-1][1] <= start:
            return
        while self.oracle and (self.oracle[-1][0] >= epoch or self.oracle[-1][1] >= start):
            self.oracle.pop()
        self.oracle.append((epoch, start))

    @rule(offset=OFFSETS)
    def truncate_from_end(self, offset: int) -> None:
        self.cache.truncate_from_end(offset)
        self.oracle = [entry for entry in self.oracle if entry[1] < offset]

    @rule(offset=OFFSETS)
    def truncate_from_start(self, offset: int) -> None:
        self.cache.truncate_from_start(offset)
        dropped = [entry for entry in self.oracle if entry[1] <= offset]
        kept = [entry for entry in self.oracle if entry[1] > offset]
        self.oracle = [(dropped[-1][0], offset), *kept] if dropped else kept

    @rule()
    def clear(self) -> None:
        self.cache.clear()
        self.oracle = []

    @rule()
    def restart(self) -> None:
        self.cache = LeaderEpochCache(
            self.files, self.out, "epochs", StorageRules(), raise_disk_error
        )

    @rule(epoch=EPOCHS, beyond=st.integers(0, 3))
    def look_up(self, epoch: int, beyond: int) -> None:
        end = (self.oracle[-1][1] if self.oracle else 0) + beyond
        floor = [entry for entry in self.oracle if entry[0] <= epoch]
        higher = [entry for entry in self.oracle if entry[0] > epoch]
        if self.oracle and epoch == self.oracle[-1][0]:
            expected = (epoch, end)
        elif not higher:
            expected = (-1, -1)
        else:
            expected = (floor[-1][0] if floor else epoch, higher[0][1])
        assert self.cache.end_offset_for(epoch, end) == expected

    @invariant()
    def agrees(self) -> None:
        assert self.cache.entries == self.oracle
        latest = self.oracle[-1] if self.oracle else (-1, -1)
        assert (self.cache.latest_epoch, self.cache.latest_start) == latest


TestEpochCache = EpochCacheMachine.TestCase
TestEpochCache.settings = settings(max_examples=25, stateful_step_count=30, deadline=None)
