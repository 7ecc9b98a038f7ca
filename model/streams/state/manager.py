"""The stores of one task: their content, files, changelog offsets and checkpoint.

Models ProcessorStateManager and StateManagerUtil. A store writes to memory (RocksDB's memtable,
without a write-ahead log). What was written is flushed to its file with a checkpoint, and by itself
when the memtable is full; a crash loses the rest, and the changelog has it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import Corrupt
from kafkasim.model.streams.errors import DirectoryLocked, TaskCorrupted
from kafkasim.model.streams.records import serialized
from kafkasim.model.streams.rules import StreamsRules
from kafkasim.model.streams.state.directory import OFFSET_UNKNOWN, StateDirectory
from kafkasim.model.streams.stores.base import Store
from kafkasim.model.streams.task_id import TaskId

CHECKPOINT_DELTA = 10_000
"""Without force a checkpoint is written after so many records (OFFSET_DELTA_THRESHOLD…)."""

ITEMS_MAX = 64
"""A store's file with more flushes than that is rewritten as one (compaction)."""

Write = tuple[Any, Any, int]
"""Key, value and timestamp in ms, as a changelog has them."""


@dataclass(slots=True)
class StoreState:
    """A store of the task, with what is known of its changelog (StateStoreMetadata)."""

    store: Store
    path: str
    changelog: TopicPartition | None
    offset: int | None = None  # of the last changelog record in the store; None: unknown
    corrupted: bool = False
    memtable: list[Write] = field(default_factory=list)  # written and not flushed
    memtable_bytes: int = 0
    flushes: int = 0  # items of the file


class StateManager:
    """The stores of one task on one thread; it is handed over when the task is recycled."""

    def __init__(
        self,
        task: TaskId,
        thread: str,
        directory: StateDirectory,
        changelogs: Mapping[str, str],
        *,
        exactly_once: bool,
        write_buffer_bytes: int,
        rules: StreamsRules,
    ) -> None:
        self.task = task
        self._thread = thread
        self._directory = directory
        self._changelogs = changelogs  # store -> topic
        self._exactly_once = exactly_once
        self._write_buffer_bytes = write_buffer_bytes
        self._rules = rules
        self.stores: dict[str, StoreState] = {}
        self._snapshot: dict[TopicPartition, int] | None = None  # offsets at the last flush

    # Opening and closing.

    async def open(self, stores: Mapping[str, Store]) -> None:
        """Lock the directory, open the stores, and read the checkpoint (registerStateStores).

        Raises:
            DirectoryLocked: another thread of the instance has the directory.
            TaskCorrupted: under exactly_once_v2 there is state without a checkpoint.
        """
        if not stores:
            return
        if not self._directory.lock(self.task, self._thread):
            raise DirectoryLocked(f"Failed to lock the state directory for task {self.task}")
        empty = self._directory.is_empty(self.task)
        for name, store in stores.items():
            if name not in self.stores:
                await self._open(name, store)
        self._load_checkpoint(empty)
        if self._exactly_once and self._rules.deletes_checkpoint_on_open():
            await self._directory.delete_checkpoint(self.task)

    async def _open(self, name: str, store: Store) -> None:
        topic = self._changelogs.get(name)
        changelog = None if topic is None else TopicPartition(topic, self.task.partition)
        path = self._directory.store_path(self.task, name)
        self.stores[name] = state = StoreState(store, path, changelog)
        store.clear()
        if not store.spec.persistent:
            return
        items = await self._directory.read(path)
        state.flushes = len(items)
        for item in items:
            if isinstance(item, Corrupt):
                break  # torn by a power loss: RocksDB opens what is before
            for key, value, timestamp in item:
                store.restore(key, value, timestamp)
        if not items:
            await self._directory.append(self.task, path, (), 1000)

    def _load_checkpoint(self, empty: bool) -> None:
        """Take the offsets of the checkpoint file (initializeStoreOffsetsFromCheckpoint)."""
        loaded = self._directory.checkpoint(self.task) or {}
        for state in self.stores.values():
            assert not state.corrupted, (self.task, state.path)
            if state.changelog is None or not state.store.spec.persistent:
                continue
            if state.offset is None:
                offset = loaded.get(state.changelog)
                if offset is not None:
                    state.offset = None if offset == OFFSET_UNKNOWN else offset
                elif self._exactly_once and not empty and self._rules.wipes_unclean_state():
                    raise TaskCorrupted([self.task], "state without a checkpoint")

    def start_snapshot(self) -> None:
        """Have the first checkpoint written as soon as it is asked for."""
        self._snapshot = {}

    async def close(self, clean: bool, reason: str) -> None:
        """Close the stores; after an unclean close under exactly_once_v2 wipe the directory."""
        if self.stores and self._directory.lock(self.task, self._thread):
            if clean:
                await self.flush()  # closing RocksDB flushes its memtable
            self.stores.clear()
            if not clean and self._exactly_once:
                await self._directory.wipe(self.task, reason)
            self._directory.unlock(self.task, self._thread)
        self.stores.clear()
        self._snapshot = None

    # Writing.

    def wrote(self, name: str, key: Any, value: Any, timestamp: int) -> None:
        """Take a write of a store into its memtable; flush that in the background if it is full."""
        state = self.stores[name]
        if not state.store.spec.persistent:
            return
        state.memtable.append((key, value, timestamp))
        state.memtable_bytes += len(serialized(key)) + len(serialized(value)) + 16
        if state.memtable_bytes >= self._write_buffer_bytes:
            self._flush(state)

    def restore(self, changelog: TopicPartition, records: list[tuple[int, Write]]) -> int:
        """Apply (offset, write) of a changelog to its store; return their bytes."""
        state = self.of_changelog(changelog)
        name = state.store.name
        size = 0
        for _, (key, value, timestamp) in records:
            state.store.restore(key, value, timestamp)
            self.wrote(name, key, value, timestamp)
            size += len(serialized(key)) + len(serialized(value))
        if records:
            state.offset = records[-1][0]
        return size

    def of_changelog(self, changelog: TopicPartition) -> StoreState:
        """Return the store that a changelog partition belongs to."""
        return next(each for each in self.stores.values() if each.changelog == changelog)

    def _flush(self, state: StoreState) -> Any:
        item, size = tuple(state.memtable), state.memtable_bytes
        state.memtable, state.memtable_bytes = [], 0
        state.flushes += 1
        return self._directory.append(self.task, state.path, item, max(size, 1))

    async def flush(self) -> None:
        """Make what the stores hold durable."""
        for state in list(self.stores.values()):
            if state.memtable:
                await self._flush(state)

    # Offsets and checkpoints.

    @property
    def changelogs(self) -> list[TopicPartition]:
        """The changelog partitions of the stores."""
        return [each.changelog for each in self.stores.values() if each.changelog is not None]

    def next_offsets(self) -> dict[TopicPartition, int]:
        """Return, for each changelog, the offset after the last record in the store; 0: none."""
        return {
            each.changelog: 0 if each.offset is None else each.offset + 1
            for each in self.stores.values()
            if each.changelog is not None
        }

    def update_offsets(self, written: Mapping[TopicPartition, int]) -> None:
        """Take the offsets of changelog records that brokers have acknowledged."""
        for state in self.stores.values():
            if state.changelog in written and state.changelog is not None:
                state.offset = written[state.changelog]

    def mark_corrupted(self) -> None:
        """Trust no offset any more: the next checkpoint leaves the changelogs out."""
        for state in self.stores.values():
            state.corrupted = True

    async def maybe_checkpoint(self, force: bool) -> None:
        """Flush the stores and write the checkpoint file, if that is due (maybeCheckpoint)."""
        offsets = self.next_offsets()
        if self._snapshot is None:
            return
        before = self._snapshot
        delta = sum([offset - before.get(tp, 0) for tp, offset in offsets.items()])
        if not self.stores or (not force and delta <= CHECKPOINT_DELTA):
            return
        await self.flush()
        self._snapshot = offsets
        await self._directory.write_checkpoint(
            self.task,
            {
                each.changelog: OFFSET_UNKNOWN if each.offset is None else each.offset
                for each in self.stores.values()
                if each.changelog is not None and each.store.spec.persistent and not each.corrupted
            },
        )

    async def delete_checkpoint(self) -> None:
        """Delete the checkpoint file under exactly_once_v2: the task is about to write."""
        if self._exactly_once:
            await self._directory.delete_checkpoint(self.task)
