"""MirrorMaker 2's checkpoint task: the offsets of a source's groups, translated to the target."""

from __future__ import annotations

import asyncio
from typing import NamedTuple, Protocol

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.connect.offset_syncs import OffsetSyncStore
from kafkasim.model.errors import Errors
from kafkasim.model.facts import CheckpointEmitted
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.running.mirroring import (
    SIZE,
    Flow,
    again,
    attempt,
    every,
    poll,
    read_to_end,
)
from kafkasim.sim.apps.client_port import ClientPort

CHECKPOINT_TASK_CLIENTS = ("checkpoints", "syncs", "producer")


class Checkpoint(NamedTuple):
    """A group that has committed ``up`` of a source partition continues at ``down`` of ``tp``."""

    group: str
    tp: TopicPartition  # in the target
    up: int
    down: int


class TranslatedGroups(Protocol):
    """Whose offsets a checkpoint task translates."""

    groups: tuple[str, ...]

    async def refresh(self) -> None:
        """Find the groups."""


class CheckpointConnector:
    """Finds the groups that have checkpoints (MirrorCheckpointConnector)."""

    def __init__(self, port: ClientPort, flow: Flow) -> None:
        self._port = port
        self._flow = flow
        self.groups: tuple[str, ...] = ()

    async def refresh(self) -> None:
        """Find the source's groups with offsets in mirrored topics (findConsumerGroups)."""
        found = []
        for listed in await self._port.call("source-admin.list_groups", (), ()):
            group = listed.group_id
            if not self._flow.config.takes_group(group):
                continue
            offsets = await group_offsets(self._port, "source-admin", group)
            if any(self._flow.takes(tp.topic) for tp in offsets):
                found.append(group)
        self.groups = tuple(found)


async def group_offsets(port: ClientPort, admin: str, group: str) -> dict[TopicPartition, int]:
    """Return a group's committed offsets."""
    error, found = await port.call(f"{admin}.list_group_offsets", group, None)
    if error:
        raise KafkaError(error.name, group)
    return {each.tp: each.offset for each in found if each.offset >= 0}


class CheckpointTask:
    """Emits checkpoints, and commits them in the target for groups without members there.

    Models MirrorCheckpointTask.
    """

    def __init__(
        self, port: ClientPort, flow: Flow, groups: TranslatedGroups, suffix: str = ""
    ) -> None:
        """``suffix`` is behind the names of the task's clients."""
        self._checkpoints, self._syncs, self._producer = (
            name + suffix for name in CHECKPOINT_TASK_CLIENTS
        )
        self._port = port
        self._flow = flow
        self._groups = groups
        self._known: dict[str, dict[TopicPartition, Checkpoint]] = {}  # CheckpointStore
        self._idle: dict[str, dict[TopicPartition, int]] = {}  # offsets of groups Empty in target
        read = flow.rules.reads_checkpoints()
        self._store = OffsetSyncStore(flow.rules, checkpoints_read=read)
        self._initialized = False  # the checkpoints of before are read

    async def run(self) -> None:
        """Emit for ever; until all offset syncs are read nothing is translated."""
        config = self._flow.config
        await again(self._groups.refresh)
        await asyncio.gather(
            self._start(),
            every(config.refresh_groups_interval_seconds, self._groups.refresh, first=False),
            every(config.emit_checkpoints_interval_seconds, self._emit, first=False),
        )

    async def _start(self) -> None:
        """Read what there is, then follow the offset syncs, and commit in the target."""
        port, flow, config = self._port, self._flow, self._flow.config
        if flow.rules.reads_checkpoints():
            await read_to_end(port, self._checkpoints, flow.checkpoints_topic, self._load)
        self._initialized = True
        await read_to_end(port, self._syncs, flow.syncs_topic, self._take)
        self._store.read_to_end = True
        loops = [self._follow()]
        if config.sync_group_offsets_enabled:
            await attempt(self._find_idle)
            seconds = config.sync_group_offsets_interval_seconds
            loops.append(every(seconds, self._refresh_and_sync, first=False))
        await asyncio.gather(*loops)

    def _load(self, record_id: int) -> None:
        checkpoint = self._flow.contents.said[record_id]
        self._known.setdefault(checkpoint.group, {})[checkpoint.tp] = checkpoint

    def _take(self, record_id: int) -> None:
        self._store.take(self._flow.contents.said[record_id])

    async def _follow(self) -> None:
        while True:
            for batch in (await again(lambda: poll(self._port, self._syncs))).values():
                for record in batch:
                    self._take(record[1])

    async def _emit(self) -> None:
        """Emit the checkpoints of all groups (MirrorCheckpointTask.poll)."""
        for group in self._groups.groups if self._initialized else ():
            for tp, up in sorted((await group_offsets(self._port, "source-admin", group)).items()):
                down = self._store.translate(tp, up) if self._flow.takes(tp.topic) else None
                if down is None or not self._flow.rules.may_be_emitted(down):
                    continue
                checkpoint = Checkpoint(group, self._flow.remote(tp), up, down)
                if self._is_more_recent(checkpoint):
                    self._known.setdefault(group, {})[checkpoint.tp] = checkpoint
                    self._port.record(CheckpointEmitted(group, *tp, up, down))
                    record = self._flow.contents.write(checkpoint)
                    key = f"{group}-{checkpoint.tp.topic}-{tp.partition}"
                    topic = self._flow.checkpoints_topic
                    await self._port.call(
                        f"{self._producer}.send", topic, key, record, SIZE, 0, False
                    )

    def _is_more_recent(self, checkpoint: Checkpoint) -> bool:
        last = self._known.get(checkpoint.group, {}).get(checkpoint.tp)
        return last is None or checkpoint.up < last.up or checkpoint.down > last.down

    async def _refresh_and_sync(self) -> None:
        """Do in one thread what is due at the same time, whatever comes of the first."""
        await attempt(self._find_idle)
        await self._sync_groups()

    async def _find_idle(self) -> None:
        """Note the offsets of the groups that are Empty in the target."""
        for group in self._groups.groups:
            error, described = await self._port.call("target-admin.describe_group", group)
            if not error and described.state == "Empty":
                self._idle[group] = await group_offsets(self._port, "target-admin", group)

    async def _sync_groups(self) -> None:
        """Commit checkpoints in the target (syncGroupOffset); it refuses groups with members.

        A group that was not Empty a moment ago is taken for one that the target does not know: if
        it is Empty by now, its own offsets are set back.
        """
        idle, self._idle = self._idle, {}
        for group, checkpoints in self._known.items():
            if group not in self._groups.groups:
                continue  # another task's
            there = idle.get(group)
            offsets = {
                tp: each.down
                for tp, each in checkpoints.items()
                if there is None or there.get(tp, -1) < each.down
            }
            if offsets:
                error, _ = await self._port.call("target-admin.alter_offsets", group, offsets)
                assert isinstance(error, Errors), error  # logged


async def checkpoints(port: ClientPort, flow: Flow) -> None:
    """Run the checkpoint task of a flow."""
    await CheckpointTask(port, flow, CheckpointConnector(port, flow)).run()
