"""A worker of a dedicated MirrorMaker: Kafka's DistributedHerder with MirrorHerder.

The herder is one loop, as Kafka's tick thread: it keeps the worker in its group, starts and stops
what rebalances give and take, and publishes the settings of tasks. What the group has to run is in
the config topic. The leader alone writes it:

    leader    configures the connectors ──▶ config topic ──▶ every worker: the group rebalances
    connector finds partitions or groups ──▶ settings of its tasks ──▶ leader (REST) ──▶ the same

Left out: pausing and restarting connectors, session keys, the status topic, the writing of the
config topic in transactions (claimWritePrivileges).
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from signal import SIGTERM
from typing import Any

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.config import Config
from kafkasim.model.connect.workers.configs import (
    ClusterConfigState,
    ConnectorConfig,
    TaskConfig,
    TaskCount,
    TasksCommit,
)
from kafkasim.model.connect.workers.coordinator import Assigned
from kafkasim.model.connect.workers.process import RestRequest
from kafkasim.model.connect.workers.work import CONNECTOR, Work
from kafkasim.model.facts import WorkAssigned, WorkStarted, WorkStopped
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.running.exactly_once import Checks, transactional_id
from kafkasim.scenarios.running.mirroring import Flow, again, create, internal_topic, poll
from kafkasim.scenarios.running.working import CONNECTORS, Running, Worker
from kafkasim.sim.apps.client_port import ClientPort

NEVER_US = 1 << 62
LONG_MS = 3_600_000
"""A poll() without an end: an event or a wakeup ends it."""

BACKOFF_RETRIES = 5
"""How often a worker waits for the config topic before it gives its work up."""

RETRY_MIN_MS, RETRY_MAX_MS = 250, 60_000
"""Between two tries to publish the settings of a connector's tasks; they double."""


class Herder:
    """The herder of one incarnation of a worker."""

    def __init__(self, port: ClientPort, flow: Flow, configs: Mapping[str, Config]) -> None:
        self._port = port
        self._worker = Worker(port, flow, configs)
        self._flow = flow
        self._rules = flow.worker_rules
        self._store = ClusterConfigState()  # as the config topic has been read
        self._configs = self._store  # as the herder has looked at it last
        self._assigned: Assigned | None = None
        self._running: dict[Work, Running] = {}
        self._requests: list[tuple[int, Callable[[], Awaitable[None]]]] = []  # from when on, what
        self._resolved = True  # whether the last assignment's work is started
        self._revoked = False  # whether the last assignment took something: the worker rejoins
        self._was_leader = False
        self._can_read = True
        self._retries = BACKOFF_RETRIES
        self._scheduled_us = NEVER_US  # of the rebalance that ends a delay
        self._needs_rebalance = False
        self._changed: dict[str, None] = {}  # connectors whose tasks have new settings
        self._stopping = asyncio.Event()
        self._fencing = asyncio.Lock()

    async def run(self) -> None:
        """Work until the process is asked to stop."""
        self._port.catch_signal(SIGTERM, self._stop)
        await self._start_services()
        loops = [self._follow(), self._serve(), self._tick_until_stopped()]
        tasks = [asyncio.create_task(each) for each in loops]
        await tasks[-1]
        for each in tasks[:-1]:
            each.cancel()
        await self._stop_work(tuple(self._running))
        await self._port.call("worker.leave", "the worker is being closed")
        self._port.exit()

    def _stop(self) -> None:
        self._stopping.set()
        self._wake()

    def _wake(self) -> None:
        self._port.post("worker.wakeup")

    async def _start_services(self) -> None:
        """Create Connect's topics and read the config topic (DistributedHerder.startServices)."""
        flow, config = self._flow, self._flow.config
        factor = config.offset_storage_replication_factor
        topics = [flow.offsets_topic, flow.configs_topic, flow.checkpoints_topic]
        await create(self._port, "target-admin", *[internal_topic(t, factor) for t in topics])
        syncs = internal_topic(flow.syncs_topic, config.offset_syncs_topic_replication_factor)
        await create(self._port, f"{flow.syncs_side}-admin", syncs)
        await self._port.call("configs.assign", (self._configs_tp,))
        while max(self._store.offset, 0) < await self._end():
            await self._read()
        self._configs, self._needs_rebalance, self._changed = self._store, False, {}

    # The config topic.

    @property
    def _configs_tp(self) -> TopicPartition:
        return TopicPartition(self._flow.configs_topic, 0)

    async def _end(self) -> int:
        """Return the end of the config topic."""
        tp = self._configs_tp
        ends = await again(lambda: self._port.call("configs.end_offsets", (tp,)))
        return int(ends[tp])

    async def _follow(self) -> None:
        while True:
            await self._read()

    async def _read(self) -> None:
        """Read on in the config topic; note what it changes (ConfigUpdateListener)."""
        before = self._store
        for batch in (await again(lambda: poll(self._port, "configs"))).values():
            for offset, record_id, *_ in batch:
                told = self._flow.contents.said[record_id]
                self._store = self._store.after(offset, told)
                if isinstance(told, ConnectorConfig):
                    self._needs_rebalance |= told.connector not in self._configs.connectors
                elif isinstance(told, TasksCommit):
                    self._needs_rebalance = True
                    self._changed[told.connector] = None
        if self._store is not before:
            await self._port.call("worker.snapshot", self._store.offset, self._store.work)
            self._wake()

    async def _write(self, *told: Any) -> None:
        """Write to the config topic, and wait until it is read (KafkaConfigBackingStore)."""
        for each in told:
            record, key = self._flow.contents.write(each), str(each[0])
            _, done = self._port.call_acked(
                "producer.send", self._flow.configs_topic, f"{type(each).__name__}-{key}",
                record, 100, 0, True,
            )  # fmt: skip
            _, offset, *_ = await done
        while self._store.offset <= offset:
            await asyncio.sleep(0.01)

    async def _catch_up(self) -> None:
        end = await self._end()
        while max(self._store.offset, 0) < end:
            await asyncio.sleep(0.01)

    async def _read_to_end(self) -> bool:
        """Catch up with the config topic; leave the group if that takes too long."""
        try:
            async with asyncio.timeout(self._flow.config.worker_sync_timeout_ms / 1000):
                await self._catch_up()
        except TimeoutError:
            await self._port.call("worker.leave", "taking too long to read the log")
            await self._back_off()
            return False
        self._configs = self._store
        self._retries = BACKOFF_RETRIES
        return True

    async def _back_off(self) -> None:
        """Wait; a worker that has not caught up for long gives all its work up."""
        if self._retries:
            part = self._flow.config.scheduled_rebalance_max_delay_ms // 10 // self._retries
            self._retries -= 1
            await asyncio.sleep(part / 1000)
        else:
            self._retries = BACKOFF_RETRIES
            await self._stop_work(tuple(self._running))

    # The tick.

    async def _tick_until_stopped(self) -> None:
        while not self._stopping.is_set():
            await self._tick()

    async def _tick(self) -> None:
        """Do what is due, then poll the group until something happens."""
        if not self._can_read:
            self._can_read = await self._read_to_end()
            if not self._can_read:
                return
        await self._poll(0)
        if not await self._handle_completed():
            return
        now = self._port.now_us
        due = [step for at, step in self._requests if at <= now]
        self._requests = [each for each in self._requests if each[0] > now]
        for step in due:
            await step()
        until = min([at for at, _ in self._requests], default=NEVER_US)
        if self._scheduled_us < NEVER_US:
            until = min(until, self._scheduled_us)
            self._resolved = False
        if await self._take_updates():
            return
        left_ms = max(0, until - self._port.now_us + 999) // 1000
        await self._poll(min(left_ms, LONG_MS))
        await self._handle_completed()

    async def _poll(self, timeout_ms: int) -> None:
        """Poll the group, and do what it says."""
        kind, told = await self._port.call("worker.poll", timeout_ms)
        while kind in ("revoked", "assigned"):
            if kind == "assigned":
                self._take(told)
            elif self._rules.stops_revoked(self._resolved):
                await self._stop_work(told)
            kind, told = await self._port.call("worker.continue")

    def _take(self, assigned: Assigned) -> None:
        """Take an assignment; its work starts in the next tick (onAssigned)."""
        self._assigned = assigned
        delay_ms = assigned.assignment.delay_ms
        self._scheduled_us = self._port.now_us + delay_ms * 1000 if delay_ms else NEVER_US
        self._resolved = False
        self._revoked = bool(assigned.assignment.revoked)
        work = tuple([str(each) for each in sorted(assigned.running)])
        self._port.record(
            WorkAssigned(
                self._flow.group_id, assigned.generation, assigned.leads, work, delay_ms * 1000
            )
        )

    async def _handle_completed(self) -> bool:
        """Start what the last assignment brought; return False if the worker joins again.

        (DistributedHerder.handleRebalanceCompleted)
        """
        if self._resolved:
            return True
        assert self._assigned is not None, self._flow
        assignment = self._assigned.assignment
        rejoins = assignment.failed
        if self._scheduled_us <= self._port.now_us:
            self._scheduled_us = NEVER_US
            rejoins = True
        behind = self._configs.offset < assignment.offset
        if behind or (assignment.failed and self._assigned.leads):
            self._can_read = await self._read_to_end()
            rejoins |= not self._can_read
        if rejoins or self._configs.offset != assignment.offset:
            await self._port.call("worker.request_rejoin")
            return False
        await self._start_work(self._assigned)
        self._resolved = True
        if self._revoked:
            self._revoked = False
            await self._port.call("worker.request_rejoin")
            return False
        if self._assigned.leads and not self._was_leader:
            await self._configure_connectors()
        self._was_leader = self._assigned.leads
        return True

    async def _configure_connectors(self) -> None:
        """Write the connectors whose settings are new, as a new leader (MirrorHerder)."""
        wanted = self._flow.config.properties()
        for name in CONNECTORS:
            if self._configs.connectors.get(name) != wanted:
                await self._write(ConnectorConfig(name, wanted))

    async def _take_updates(self) -> bool:
        """Act on changes of the config topic; return whether the group is to rebalance.

        (updateConfigsWithIncrementalCooperative, stopReconfiguredTasks)
        """
        rebalances, changed = self._needs_rebalance, self._changed
        if not rebalances and not changed:
            return False
        self._needs_rebalance, self._changed = False, {}
        self._configs = self._store
        if rebalances:
            await self._port.call("worker.request_rejoin")
        again_ = [w for w in self._running if w.connector in changed and w.task != CONNECTOR]
        await self._stop_work(tuple(again_))
        return rebalances

    # Work.

    async def _start_work(self, assigned: Assigned) -> None:
        for work in sorted(assigned.running):
            if work not in self._running:
                self._port.record(WorkStarted(self._flow.group_id, str(work)))
                settings = self._configs.tasks.get(work)
                checks = self._checks(work, self._configs.generations.get(work.connector, -1))
                self._running[work] = self._worker.start(work, settings, self._request, checks)

    async def _stop_work(self, works: tuple[Work, ...]) -> None:
        """Stop connectors and tasks, all at a time."""
        stopped = [(work, self._running.pop(work)) for work in works if work in self._running]
        await asyncio.gather(*[running.stop() for _, running in stopped])
        for work, _ in stopped:
            self._port.record(WorkStopped(self._flow.group_id, str(work)))

    def _request(self, connector: str) -> None:
        """Publish the tasks of a connector here with the next tick (requestTaskReconfiguration)."""
        self._requests.append((0, lambda: self._reconfigure(connector, 0)))
        self._wake()

    async def _reconfigure(self, connector: str, attempt: int) -> None:
        """Publish the settings of a connector's tasks if they are new; try until it is done."""
        running, assigned = self._running.get(Work(connector)), self._assigned
        if running is None or assigned is None:
            return
        settings = running.task_settings(self._flow.config.tasks_max)
        if settings == self._configs.tasks_of(connector):
            return
        error = await self._ask_leader(RestRequest(connector, tuple(settings)))
        if error:
            wait_ms = min(RETRY_MIN_MS << min(attempt, 8), RETRY_MAX_MS)
            at = self._port.now_us + wait_ms * 1000
            self._requests.append((at, lambda: self._reconfigure(connector, attempt + 1)))

    async def _ask_leader(self, request: RestRequest) -> str:
        """Have the leader do something, here or by REST; return its error, or ""."""
        assert self._assigned is not None, request
        if self._assigned.leads:
            return await self._do(request)
        if not self._flow.config.dedicated_mode_enable_internal_rest:
            return "this worker is not able to communicate with the leader of the cluster"
        url = self._assigned.assignment.leader_url
        return str(await self._port.call("worker.ask", url, request))

    async def _do(self, request: RestRequest) -> str:
        """Do what a worker asks of the leader; return an error, or ""."""
        try:
            if request.settings is None:
                return await self._fence(request.connector)
            return await self._publish(request.connector, list(request.settings))
        except KafkaError as error:
            return str(error)

    async def _publish(self, connector: str, settings: list[Any]) -> str:
        """Write the settings of a connector's tasks as the leader; return an error, or ""."""
        tasks = [TaskConfig(Work(connector, n), each) for n, each in enumerate(settings)]
        await self._write(*tasks, TasksCommit(connector, len(tasks)))
        return ""

    # Exactly-once source tasks.

    def _checks(self, work: Work, generation: int) -> Checks:
        """Return what a task asks before it may write (startExactlyOnceSourceTask)."""

        async def fence() -> None:
            error = await self._ask_leader(RestRequest(work.connector, None))
            if error:
                raise KafkaError("CONNECT", f"Failed to perform zombie fencing: {error}")

        async def verify() -> None:
            """(verifyTaskGenerationAndOwnership)"""
            await self._catch_up()
            if self._store.generations.get(work.connector, -1) != generation:
                raise KafkaError("CONNECT", f"{work}: there is a new set of task configs")
            if self._assigned is None or work not in self._assigned.running:
                raise KafkaError("CONNECT", f"{work} has already been revoked from this worker")

        return Checks(fence, verify)

    async def _fence(self, connector: str) -> str:
        """Fence the producers of earlier tasks; return an error, or "" (doFenceZombieSourceTasks).

        One task before and after needs none: the new one takes the transactional id over.
        """
        async with self._fencing:
            await self._catch_up()
            state = self._store
            if connector not in state.pending:
                return ""
            before, after = state.fenced.get(connector), len(state.tasks_of(connector))
            if before is not None and (before, after) != (1, 1):
                group = self._flow.group_id
                ids = [transactional_id(group, Work(connector, task)) for task in range(before)]
                fenced = await self._port.call("target-admin.fence_producers", tuple(ids))
                for name, error, *_ in fenced:
                    if error:
                        return f"{name}: {error.name}"
            if self._store.generations != state.generations:
                return "a new set of task configs was generated"
            await self._write(TaskCount(connector, after))
        return ""

    async def _serve(self) -> None:
        """Answer other workers, as the leader (ConnectorsResource, InternalMirrorResource)."""
        while True:
            request, *place = await self._port.call("worker.serve")
            error = "this worker is not the leader"
            if self._assigned is not None and self._assigned.leads:
                error = await self._do(request)
            await self._port.call("worker.answer", *place, error)


@dataclass(frozen=True, kw_only=True)
class WorkerApplication:
    """One worker of a flow."""

    flow: Flow
    configs: Mapping[str, Config]  # of its clients

    async def __call__(self, port: ClientPort) -> None:
        """Run the herder of one incarnation."""
        await Herder(port, self.flow, self.configs).run()
