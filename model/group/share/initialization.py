"""How the share partitions of a group begin (KIP-932).

    heartbeat ──▶ record: initializing         subscribed, and neither initialized nor initializing
                  │ committed, answered
                  ▼
              Persister.initialize_state       start offset −1: share.auto.offset.reset decides
                  │ all share partitions of the heartbeat
                  ├─ no error ──▶ record: initialized; the next heartbeat has them assigned
                  └─ an error ──▶ record: no longer initializing; the next heartbeat begins anew

What is initializing for longer than twice offsets.commit.timeout.ms is begun again: its coordinator
may have died. Kafka: GroupMetadataManager.maybeCreateInitializeShareGroupStateRequest,
initializeShareGroupState, uninitializeShareGroupState, GroupCoordinatorService.persisterInitialize.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

from kafkasim.model.config import BrokerConfig, ShareGroupSettings
from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.effects import Post
from kafkasim.model.errors import Errors
from kafkasim.model.group.modern.state.assignment import Assignment, assignment_of
from kafkasim.model.group.modern.state.topics import TopicsImage
from kafkasim.model.group.shard import GroupShard
from kafkasim.model.group.share.log.records import Entry, state_partitions_entry
from kafkasim.model.group.share.log.state import (
    InitializedPartitions,
    ShareGroup,
    StatePartitions,
    Topics,
    combined,
    without,
)
from kafkasim.model.group.share.log.writer import ShareGroupWriter
from kafkasim.model.group.share.ports import Gathering, Persister

UNINITIALIZED_START_OFFSET = -1
UNKNOWN_TOPIC = "<UNKNOWN>"


class StateInitialization:
    """Has share partitions initialized; ``persister`` is set once the broker has one."""

    def __init__(
        self,
        runtime: CoordinatorRuntime,
        config: BrokerConfig,
        image: TopicsImage,
        writer: ShareGroupWriter,
        settings: Callable[[str], ShareGroupSettings],
    ) -> None:
        """``settings(group_id)`` are those of one group."""
        self.persister: Persister | None = None
        self._runtime = runtime
        self._config = config
        self._image = image
        self._writer = writer
        self._settings = settings

    def heartbeat_interval_ms(self, group_id: str) -> int:
        """Return the heartbeat interval that members of a group are told."""
        own_ms = self._settings(group_id).share_heartbeat_interval_ms
        return own_ms if own_ms > 0 else self._config.group_share_heartbeat_interval_ms

    def begin(
        self, group: ShareGroup, names: Iterable[str], entries: list[Entry], now: int
    ) -> Assignment:
        """Add the record of share partitions that begin, and return them, perhaps none."""
        now_ms = self._runtime.wall_ms(now)
        begun = self._to_begin(group, names, now_ms)
        if begun:
            entries.append(self.initializing_entry(group, begun))
        return assignment_of(
            [(topic_id, number) for topic_id, topic in begun.items() for number in topic.partitions]
        )

    def _to_begin(self, group: ShareGroup, names: Iterable[str], now_ms: int) -> Topics:
        """Return the subscribed share partitions that nobody initializes or has initialized
        (subscribedTopicsChangeMap)."""
        known: Topics = {}
        info, patience_ms = group.state_partitions, 2 * self._config.offsets_commit_timeout_ms
        if info is not None:
            fresh = {
                topic_id: topic
                for topic_id, topic in info.initializing.items()
                if now_ms - topic.timestamp_ms < patience_ms
            }
            known = combined(info.initialized, fresh)
        begun: dict[str, InitializedPartitions] = {}
        for name in names:
            topic = self._image.topic_by_name(name)
            if topic is None:
                continue
            seen = known[topic.topic_id].partitions if topic.topic_id in known else ()
            if len(seen) < len(topic.partitions):
                numbers = range(len(topic.partitions))
                missing = tuple([number for number in numbers if number not in seen])
                begun[topic.topic_id] = InitializedPartitions(name, missing, now_ms)
        return {topic_id: begun[topic_id] for topic_id in sorted(begun)}

    def initializing_entry(self, group: ShareGroup, begun: Topics) -> Entry:
        """Return the record by which share partitions are initializing
        (addInitializingTopicsRecords)."""
        info = group.state_partitions
        if info is None:
            return self.entry(group.group_id, StatePartitions(initializing=begun))
        initializing = combined(info.initializing, begun)
        deleting = tuple([each for each in info.deleting if each not in initializing])
        changed = replace(info, initializing=initializing, deleting=deleting)
        return self.entry(group.group_id, changed)

    def entry(self, group_id: str, info: StatePartitions) -> Entry:
        """Return the record of a group's share partitions."""
        topics = self._image.topics
        names = {each: topics[each].name for each in info.deleting if each in topics}
        return state_partitions_entry(group_id, info, names)

    # ------------------------------------------------------------------------- the persister

    def initialize(
        self, shard: GroupShard, group_id: str, state_epoch: int, begun: Assignment
    ) -> None:
        """Have share partitions initialized without a start offset, then write what came of it."""

        def finish(failed: bool, now: int) -> None:
            if failed:
                self.uninitialized(shard, group_id, begun, now)
            else:
                self.initialized(shard, group_id, begun, now)

        offsets = {
            (topic_id, number): UNINITIALIZED_START_OFFSET
            for topic_id, numbers in begun.items()
            for number in numbers
        }
        self.ask(shard, group_id, state_epoch, offsets, finish)

    def ask(
        self,
        shard: GroupShard,
        group_id: str,
        state_epoch: int,
        offsets: dict[tuple[str, int], int],
        finish: Callable[[bool, int], None],
    ) -> None:
        """Ask the persister; on the shard's lane then call ``finish(any has failed, now)``."""
        assert self.persister is not None, group_id
        persister, out = self.persister, self._runtime.out

        def on_results(results: dict[tuple[str, int], Any], _now: int) -> None:
            failed = any(result.error is not Errors.NONE for result in results.values())
            out.append(Post(shard.context.lane, _finish, (finish, failed)))

        gathering = Gathering(list(offsets), on_results)
        for (topic_id, number), offset in offsets.items():
            done = gathering.taker(topic_id, number)
            persister.initialize_state(group_id, topic_id, number, state_epoch, offset, done)

    def initialized(self, shard: GroupShard, group_id: str, done: Assignment, now: int) -> None:
        """Write that share partitions are initialized (initializeShareGroupState).

        If that cannot be committed, they are not initializing any more.
        """
        group = shard.share_groups.get(group_id)
        if not shard.context.is_active or group is None:
            return
        topics, now_ms = self._image.topics, self._runtime.wall_ms(now)
        added = {
            topic_id: InitializedPartitions(
                topics[topic_id].name if topic_id in topics else UNKNOWN_TOPIC, numbers, now_ms
            )
            for topic_id, numbers in done.items()
        }
        info = group.state_partitions
        changed = StatePartitions(initialized=added)
        if info is not None:
            changed = replace(
                info,
                initializing=without(info.initializing, done),
                initialized=combined(info.initialized, added),
            )

        def on_written(_: None, error: Errors, at: int) -> None:
            if error is not Errors.NONE:
                self.uninitialized(shard, group_id, done, at)

        self._write(shard, group_id, changed, "share partitions initialized", on_written, now)

    def uninitialized(self, shard: GroupShard, group_id: str, gone: Assignment, now: int) -> None:
        """Write that share partitions are not initializing any more
        (uninitializeShareGroupState)."""
        group = shard.share_groups.get(group_id)
        info = None if group is None else group.state_partitions
        if not shard.context.is_active or info is None or not info.initializing:
            return
        changed = replace(info, initializing=without(info.initializing, gone))
        reason = "share partitions not initialized"
        self._write(shard, group_id, changed, reason, _ignore, now)

    def _write(
        self,
        shard: GroupShard,
        group_id: str,
        info: StatePartitions,
        reason: str,
        on_written: Callable[[None, Errors, int], None],
        now: int,
    ) -> None:
        entries = [self.entry(group_id, info)]
        error = self._writer.write(shard, group_id, entries, reason, now)
        if error is Errors.NONE:
            self._runtime.defer(shard.context, on_written, None, now)
        else:
            on_written(None, error, now)


def _finish(message: tuple[Callable[[bool, int], None], bool], now: int) -> None:
    message[0](message[1], now)


def _ignore(_: None, _error: Errors, _now: int) -> None:
    """Leave it: what is still initializing is begun again later."""
