"""One instance of an application (KafkaStreams): its threads, its directory, its end."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.config import ClientConfig, ConsumerConfig
from kafkasim.model.config.streams import StreamsSettings
from kafkasim.model.facts.streams import StreamsStarted
from kafkasim.model.streams.assignment.assignor import Leader, assignor_for
from kafkasim.model.streams.assignment.high_availability import AssignmentConfigs
from kafkasim.model.streams.assignment.info import SubscriptionInfo
from kafkasim.model.streams.assignment.topics import InternalTopicManager
from kafkasim.model.streams.errors import StreamsError
from kafkasim.model.streams.port import Client, Port, Serdes
from kafkasim.model.streams.rules import StreamsRules
from kafkasim.model.streams.state.directory import StateDirectory
from kafkasim.model.streams.state.updater import StateUpdater
from kafkasim.model.streams.stores.cache import ThreadCache
from kafkasim.model.streams.tasks.producer import StreamsProducer
from kafkasim.model.streams.threads.executor import TaskExecutor
from kafkasim.model.streams.threads.making import Application, TaskMaker
from kafkasim.model.streams.threads.registry import Tasks
from kafkasim.model.streams.threads.task_manager import TaskManager
from kafkasim.model.streams.threads.thread import StreamThread
from kafkasim.model.streams.topology import Topology

CLEANER_INTERVAL_MS = 60_000

REPLACE_THREAD = "replace-thread"
SHUTDOWN_CLIENT = "shutdown-client"
SHUTDOWN_APPLICATION = "shutdown-application"
ON_ERROR = (SHUTDOWN_CLIENT, REPLACE_THREAD, SHUTDOWN_APPLICATION)
"""What an uncaught exception handler may answer (StreamsUncaughtExceptionHandler)."""


@dataclass(frozen=True, slots=True)
class Environment:
    """What an instance is given beside its settings."""

    port: Port
    node: str  # the host, for client ids
    serdes: Serdes
    rng: random.Random
    rules: StreamsRules
    work: Callable[[], float]  # draws the seconds that processing a record takes
    write_buffer_bytes: int  # of a store's memtable
    on_error: str  # what the uncaught exception handler answers


class _Member:
    """Binds an assignor to its thread, which is made after the consumer's configuration."""

    thread: StreamThread

    def subscription_info(self) -> SubscriptionInfo:
        return self.thread.subscription_info()

    def on_assignment(self, partitions: Any, info: Any) -> None:
        self.thread.on_assignment(partitions, info)


class KafkaStreams:
    """One incarnation of an instance; :meth:`run` returns when all its threads have ended."""

    def __init__(
        self, environment: Environment, settings: StreamsSettings, topology: Topology
    ) -> None:
        config = settings.streams
        self._environment = environment
        self._port = environment.port
        self._settings = settings
        self._config = config
        self._topology = topology
        self._group = config.application_id
        self._application = Application(
            topology, config.application_id, topology.subtopologies(config.application_id),
            config.exactly_once, config.max_task_idle_ms, config.buffered_records_per_partition,
            config.skips_corrupt, config.task_timeout_ms, environment.write_buffer_bytes,
            environment.rules, {},
        )  # fmt: skip
        self._directory: StateDirectory | None = None
        self._threads: dict[int, StreamThread] = {}
        self._running = 0  # threads that have not ended
        self._ended = environment.port.promise()
        self.process_id = ""

    async def run(self) -> None:
        """Start the threads, and wait until all have ended."""
        config, group = self._config, self._group
        self._directory = await StateDirectory.open(self._port, group, self._environment.rng)
        self.process_id = self._directory.process_id
        self._port.record(
            StreamsStarted(
                group, self.process_id, config.processing_guarantee, config.num_stream_threads,
                config.statestore_cache_max_bytes,
            )
        )  # fmt: skip
        await self._port.call("open", "admin", ClientConfig.from_properties({}))
        offsets = {"client.id": f"{self._environment.node}-offsets", "auto.offset.reset": "none"}
        await self._port.call("open", "offsets", ConsumerConfig.from_properties(offsets))
        for number in range(1, config.num_stream_threads + 1):
            await self._start(number)
        self._port.spawn(self._clean(), "cleaner")
        await self._ended

    def stop(self) -> None:
        """Shut down (close): every thread ends after its present round."""
        for thread in self._threads.values():
            thread.stop()

    def on_shutdown_requested(self) -> None:
        """Shut down: another instance asked the whole application to."""
        self.stop()

    async def on_thread_error(self, thread: int, error: StreamsError) -> None:
        """Ask the uncaught exception handler what follows from the end of a thread."""
        answer, new = self._environment.on_error, max(self._threads) + 1
        if answer == REPLACE_THREAD:
            self._port.spawn(self._start(new), "replacement")
        elif answer == SHUTDOWN_APPLICATION:
            if len(self._threads) == 1:
                await self._start(new)  # which tells the leader, and processes nothing
            for each in self._threads.values():
                each.request_shutdown()
        else:
            self.stop()

    # Threads.

    async def _start(self, number: int) -> None:
        self._running += 1
        try:
            thread = await self._make(number)
        except KafkaError as error:
            raise StreamsError(str(error)) from error
        self._threads[number] = thread
        self._port.spawn(self._run(thread), f"thread-{number}")

    async def _run(self, thread: StreamThread) -> None:
        await thread.run()
        del self._threads[thread.number]
        self._running -= 1
        if not self._running and not self._ended.done():
            self._ended.set_result(None)

    async def _make(self, number: int) -> StreamThread:
        """Make a thread with its clients, named as Kafka Streams names them."""
        member = _Member()
        consumer, restore = Client(self._port, f"consumer-{number}"), f"restore-{number}"
        await self._open_clients(number, member)
        environment, config, rules = self._environment, self._config, self._environment.rules
        producer_client = Client(self._port, f"producer-{number}")
        eos = config.exactly_once
        producer = StreamsProducer(self._port, producer_client, exactly_once=eos)
        offsets = Client(self._port, "offsets")
        updater = StateUpdater(
            self._port, Client(self._port, restore), offsets, environment.serdes,
            group=self._group, thread=number, poll_ms=config.poll_ms,
            commit_interval_ms=config.commit_interval_ms,
        )  # fmt: skip
        assert self._directory is not None, self._group
        maker = TaskMaker(
            self._application, self._port, self._directory, producer, consumer,
            environment.serdes, self._cache(), number,
        )  # fmt: skip
        tasks = Tasks()
        executor = TaskExecutor(
            self._port, tasks, consumer, producer, rules, environment.work, exactly_once=eos
        )
        manager = TaskManager(
            self._port, f"thread-{number}", self._directory, maker, updater, executor, producer,
            consumer, tasks, rules, exactly_once=eos,
        )  # fmt: skip
        member.thread = thread = self._thread(number, consumer, manager, updater, offsets)
        self._port.spawn(updater.run(), f"state-updater-{number}")
        return thread

    def _thread(
        self,
        number: int,
        consumer: Client,
        manager: TaskManager,
        updater: StateUpdater,
        offsets: Client,
    ) -> StreamThread:
        config, group, rules = self._config, self._group, self._environment.rules
        subtopologies = self._application.subtopologies
        interval_ms = ConsumerConfig.from_properties(self._settings.consumer).max_poll_interval_ms
        admin = Client(self._port, "admin")
        topics = InternalTopicManager(
            self._port, admin, config.replication_factor, interval_ms // 2
        )
        configs = AssignmentConfigs(
            config.acceptable_recovery_lag, config.max_warmup_replicas, config.num_standby_replicas
        )
        leader = Leader(
            self._port, group, subtopologies, self._topology.copartition_groups(group), topics,
            offsets, consumer, configs, config.probing_rebalance_interval_ms, rules,
        )  # fmt: skip
        sources = [topic for each in subtopologies for topic in each.source_topics]
        repartition = [topic for each in subtopologies for topic in each.repartition_topics]
        return StreamThread(
            self._port, self, group, number, sources, consumer, admin, manager, updater, leader,
            repartition, poll_ms=config.poll_ms,
            commit_interval_ms=config.commit_interval_ms,
            purge_interval_ms=config.repartition_purge_interval_ms,
            max_poll_interval_ms=interval_ms, exactly_once=config.exactly_once,
        )  # fmt: skip

    async def _open_clients(self, number: int, member: _Member) -> None:
        name = f"{self._environment.node}-StreamThread-{number}"
        properties = {
            **self._settings.consumer, "client.id": f"{name}-consumer",
            "partition.assignment.strategy": [assignor_for(member)],
        }  # fmt: skip
        static = properties.get("group.instance.id")
        if static:
            named = static.replace("{node}", self._environment.node)
            properties["group.instance.id"] = f"{named}-{number}"
        config = ConsumerConfig.from_properties(properties)
        await self._port.call("open", f"consumer-{number}", config)
        properties = {**self._settings.restore, "client.id": f"{name}-restore-consumer"}
        config = ConsumerConfig.from_properties(properties)
        await self._port.call("open", f"restore-{number}", config, False)
        properties = {**self._settings.producer, "client.id": f"{name}-producer"}
        if self._config.exactly_once:
            properties["transactional.id"] = f"{self._group}-{self.process_id}-{number}"
        await self._port.call("open", f"producer-{number}", producer_config(properties))

    def _cache(self) -> ThreadCache | None:
        total = self._config.statestore_cache_max_bytes
        return ThreadCache(total // self._config.num_stream_threads) if total else None

    async def _clean(self) -> None:
        """Delete directories of tasks that are elsewhere for long (the cleaner thread)."""
        assert self._directory is not None, self._group
        while not self._ended.done():
            await self._port.sleep(CLEANER_INTERVAL_MS / 1000)
            await self._directory.clean("cleaner", self._config.state_cleanup_delay_ms)
