"""What runs on a worker: the connectors and tasks of MirrorMaker 2 (Worker)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import count, pairwise
from typing import Any, Protocol

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.config import Config, ConsumerConfig
from kafkasim.model.connect.config import GRACEFUL_MS
from kafkasim.model.connect.workers.work import CONNECTOR, Work
from kafkasim.model.facts import WorkStopped
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.running.checkpointing import (
    CHECKPOINT_TASK_CLIENTS,
    CheckpointConnector,
    CheckpointTask,
)
from kafkasim.scenarios.running.exactly_once import (
    Checks,
    ExactlyOnceSourceTask,
    transactional_id,
)
from kafkasim.scenarios.running.mirroring import (
    SOURCE_TASK_CLIENTS,
    Flow,
    SourceTask,
    again,
    create_heartbeats_topic,
    heartbeats,
)
from kafkasim.scenarios.running.source_connector import SourceConnector
from kafkasim.sim.apps.client_port import ClientPort

SOURCE, HEARTBEAT, CHECKPOINT = CONNECTORS = (
    "MirrorSourceConnector", "MirrorHeartbeatConnector", "MirrorCheckpointConnector",
)  # fmt: skip
"""MirrorMaker.CONNECTOR_CLASSES."""

Request = Callable[[str], None]
"""Asks for new task settings of a connector (ConnectorContext.requestTaskReconfiguration)."""


class Running(Protocol):
    """A connector or a task that has been started."""

    def task_settings(self, tasks_max: int) -> list[Any]:
        """Return the settings of a connector's tasks (Connector.taskConfigs)."""
        ...

    async def stop(self) -> None:
        """Stop it, and wait until it has stopped."""


@dataclass(frozen=True, slots=True)
class Worker:
    """Starts what a herder gives it.

    Each task has clients of its own, which are made when it starts and closed when it stops.
    ``configs`` are their settings by name.
    """

    port: ClientPort
    flow: Flow
    configs: Mapping[str, Config]
    numbers: count[int] = field(default_factory=count)

    def start(self, work: Work, settings: Any, request: Request, checks: Checks) -> Running:
        """Start a connector, or a task with its settings."""
        if work.task == CONNECTOR:
            return _CONNECTORS[work.connector](self, lambda: request(work.connector))
        return RunningTask(self, work, settings, checks)

    def config_of(self, client: str, work: Work) -> Config:
        """Return the settings of a task's client; of one that uses transactions, with them."""
        config = self.configs[client]
        if not self.flow.config.exactly_once or work.connector != SOURCE:
            return config
        if isinstance(config, ConsumerConfig):
            return config.with_properties({"isolation.level": "read_committed"})
        if client == "producer":
            own = transactional_id(self.flow.group_id, work)
            return config.with_properties({"enable.idempotence": True, "transactional.id": own})
        return config


class RunningConnector:
    """The heartbeat connector: one task, whatever there is."""

    def __init__(self, worker: Worker, changed: Callable[[], None]) -> None:
        self._worker = worker
        self._steps = asyncio.create_task(self._run(changed))

    async def _run(self, changed: Callable[[], None]) -> None:
        await create_heartbeats_topic(self._worker.port, self._worker.flow, "target")
        changed()

    def task_settings(self, tasks_max: int) -> list[Any]:
        """Return one task without settings, or none (MirrorHeartbeatConnector.taskConfigs)."""
        return [()] * self._worker.flow.config.emit_heartbeats_enabled

    async def stop(self) -> None:
        """Stop looking for changes."""
        self._steps.cancel()


class RunningSourceConnector(RunningConnector):
    """The source connector: partitions, dealt to tasks in turn."""

    async def _run(self, changed: Callable[[], None]) -> None:
        self._topics = topics = _WatchedTopics(self._worker.port, self._worker.flow, changed)
        await again(topics.refresh)
        await topics.run()

    def task_settings(self, tasks_max: int) -> list[Any]:
        """Return the partitions of each task (MirrorSourceConnector.taskConfigs)."""
        found = self._topics.partitions
        tasks = min(tasks_max, len(found))
        return [found[number::tasks] for number in range(tasks)]


class _WatchedTopics(SourceConnector):
    def __init__(self, port: ClientPort, flow: Flow, changed: Callable[[], None]) -> None:
        super().__init__(port, flow)
        self._changed = changed

    async def refresh(self) -> None:
        before = self.partitions
        await super().refresh()
        if self.partitions != before:
            self._changed()


class RunningCheckpointConnector(RunningConnector):
    """The checkpoint connector: groups, in runs of as many."""

    async def _run(self, changed: Callable[[], None]) -> None:
        flow = self._worker.flow
        self._groups = CheckpointConnector(self._worker.port, flow)
        before: tuple[str, ...] = ()
        while True:
            await again(self._groups.refresh)
            if self._groups.groups != before:
                before = self._groups.groups
                changed()
            await asyncio.sleep(flow.config.refresh_groups_interval_seconds)

    def task_settings(self, tasks_max: int) -> list[Any]:
        """Return the groups of each task (ConnectorUtils.groupPartitions)."""
        found = self._groups.groups if self._worker.flow.config.emit_checkpoints_enabled else ()
        if not found:
            return []
        tasks = min(tasks_max, len(found))
        least, more = divmod(len(found), tasks)
        ends = [number * least + min(number, more) for number in range(tasks + 1)]
        return [found[first:end] for first, end in pairwise(ends)]


_CONNECTORS: Mapping[str, type[RunningConnector]] = {
    SOURCE: RunningSourceConnector,
    HEARTBEAT: RunningConnector,
    CHECKPOINT: RunningCheckpointConnector,
}


@dataclass(slots=True)
class Given:
    """The partitions or the groups that a task is given for good."""

    partitions: tuple[TopicPartition, ...] = ()
    groups: tuple[str, ...] = ()

    async def refresh(self) -> None:
        """Do nothing: the connector looks."""

    async def run(self) -> None:
        """Do nothing."""


class RunningTask:
    """A task with its clients."""

    def __init__(self, worker: Worker, work: Work, settings: Any, checks: Checks) -> None:
        self._worker = worker
        self._work = work
        self._suffix = f"#{work}/{next(worker.numbers)}"
        self._opened: list[str] = []
        self._source: SourceTask | None = None
        self._steps = asyncio.create_task(self._run(settings, checks))

    def task_settings(self, tasks_max: int) -> list[Any]:
        """Return none: a task has no tasks."""
        return []

    async def _run(self, settings: Any, checks: Checks) -> None:
        """Run the task; one that raises has failed, and stays so until it is started again."""
        try:
            await self._do(settings, checks)
        except KafkaError as error:
            told = WorkStopped(self._worker.flow.group_id, str(self._work), str(error))
            self._worker.port.record(told)

    async def _do(self, settings: Any, checks: Checks) -> None:
        port, flow = self._worker.port, self._worker.flow
        if self._work.connector == SOURCE:
            await self._open(*SOURCE_TASK_CLIENTS)
            given = Given(partitions=settings)
            self._source = (
                ExactlyOnceSourceTask(port, flow, given, self._suffix, checks)
                if flow.config.exactly_once
                else SourceTask(port, flow, given, self._suffix)
            )
            await self._source.run()
        elif self._work.connector == CHECKPOINT:
            await self._open(*CHECKPOINT_TASK_CLIENTS)
            await CheckpointTask(port, flow, Given(groups=settings), self._suffix).run()
        else:
            sides = ("target", "source") if flow.emits_back else ("target",)
            await asyncio.gather(*[heartbeats(port, flow, side) for side in sides])

    async def _open(self, *names: str) -> None:
        for name in names:
            config = self._worker.config_of(name, self._work)
            await self._worker.port.call("open", name + self._suffix, config)
            self._opened.append(name)

    async def stop(self) -> None:
        """Stop copying, commit, and close the clients, within the graceful timeout."""
        port = self._worker.port
        try:
            async with asyncio.timeout(GRACEFUL_MS / 1000):
                if self._source is not None and not self._steps.done():
                    await self._source.finish()
        except (TimeoutError, KafkaError):
            pass  # it is cancelled where it stands
        self._steps.cancel()
        released = []
        for name in self._opened:
            if isinstance(self._worker.configs[name], ConsumerConfig):
                await port.call(f"{name}{self._suffix}.wakeup")
            released.append(port.call("release", name + self._suffix))
        try:
            async with asyncio.timeout(GRACEFUL_MS / 1000):
                await asyncio.gather(*released)
        except TimeoutError:
            pass  # its producer goes on to send for a while
