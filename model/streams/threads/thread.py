"""One stream thread: the loop of StreamThread, its rebalance listener, and its end.

A thread is one member of the group. It polls, processes what was polled, punctuates and commits, in
the order of StreamThread.runOnceWithoutProcessingThreads; state is restored beside it
(``state/updater.py``), so that tasks that are restored run while others restore.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.facts import streams as facts
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.assignment.assignor import Leader
from kafkasim.model.streams.assignment.info import (
    NEVER_MS,
    AssignmentInfo,
    AssignorError,
    SubscriptionInfo,
)
from kafkasim.model.streams.errors import (
    MissingSourceTopic,
    StreamsError,
    TaskCorrupted,
    TaskMigrated,
)
from kafkasim.model.streams.port import Client, Port, wall_ms
from kafkasim.model.streams.state.updater import StateUpdater
from kafkasim.model.streams.states import THREAD_MOVES, ThreadState
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.streams.tasks.partition_group import Queued
from kafkasim.model.streams.threads.task_manager import TaskManager

_S = ThreadState
EMPTY_POLL_S = 1e-3
"""How long a poll(0) takes that finds nothing: without it a thread that waits for the end of a
rebalance would wait in no time at all."""

WORKING = (_S.RUNNING, _S.STARTING, _S.PARTITIONS_ASSIGNED)


class Instance(Protocol):
    """The instance of a thread."""

    process_id: str

    async def on_thread_error(self, thread: int, error: StreamsError) -> None:
        """Decide what follows from an error that ends a thread."""
        ...

    def on_shutdown_requested(self) -> None:
        """Shut down: an instance of the application has asked for that."""
        ...


class StreamThread:
    """One thread of an instance."""

    def __init__(
        self,
        port: Port,
        instance: Instance,
        group: str,
        number: int,
        topics: Sequence[str],
        consumer: Client,
        admin: Client,
        tasks: TaskManager,
        updater: StateUpdater,
        leader: Leader,
        repartition_topics: Sequence[str],
        *,
        poll_ms: int,
        commit_interval_ms: int,
        purge_interval_ms: int,
        max_poll_interval_ms: int,
        exactly_once: bool,
    ) -> None:
        self._port = port
        self._instance = instance
        self._group = group
        self.number = number
        self._topics = tuple(topics)
        self._consumer = consumer
        self._admin = admin
        self.tasks = tasks
        self._updater = updater
        self._leader = leader
        self._repartition_topics = repartition_topics
        self._poll_ms = poll_ms
        self._commit_interval_ms = commit_interval_ms
        self._purge_interval_ms = purge_interval_ms
        self._max_poll_interval_ms = max_poll_interval_ms
        self._exactly_once = exactly_once
        self.state = _S.CREATED
        self._iterations = 1  # records of each task in a round
        self._last_poll_ms = self._last_commit_ms = self._last_purge_ms = 0
        self._purging: Any = None  # the DeleteRecords under way
        self._unique = 0
        self._assigned: tuple[Sequence[TopicPartition], AssignmentInfo] | None = None
        self._assignor_error = AssignorError.NONE
        self._next_rebalance_ms = NEVER_MS

    # The member, for its assignor.

    def subscription_info(self) -> SubscriptionInfo:
        """Return what the thread tells the leader of its group; it joins now."""
        self.tasks.on_rebalance_start()
        self._unique += 1  # KAFKA-10455; since KIP-792 a subscription has its generation, too
        sums = self.tasks.offset_sums()
        return SubscriptionInfo(self._instance.process_id, sums, self._unique, self._assignor_error)

    def on_assignment(self, partitions: Sequence[TopicPartition], info: AssignmentInfo) -> None:
        """Keep the assignment until the event ``assigned``, which follows at once."""
        if info.error is not AssignorError.NONE:
            self._assignor_error = info.error
            return
        self._assigned = (partitions, info)
        self._next_rebalance_ms = info.next_rebalance_ms

    def request_shutdown(self) -> None:
        """Join again, and have the leader shut the whole application down (SHUTDOWN_REQUESTED)."""
        self._assignor_error = AssignorError.SHUTDOWN_REQUESTED

    # Its life.

    async def run(self) -> None:
        """Run until the instance stops, or an error ends the thread."""
        if not self._move(_S.STARTING):
            return
        error: StreamsError | None = None
        try:
            await self._consumer.call("subscribe", self._topics)
            while self._alive or self.tasks.rebalancing:
                await self._run_once_guarded()
        except StreamsError as failed:
            error = failed
        except KafkaError as failed:
            error = StreamsError(str(failed))
        await self._end(error)

    def stop(self) -> None:
        """Begin to shut down: the loop ends after its present round."""
        self._move(_S.PENDING_SHUTDOWN)

    @property
    def _alive(self) -> bool:
        return self.state not in (_S.PENDING_SHUTDOWN, _S.DEAD)

    async def _end(self, error: StreamsError | None) -> None:
        self._move(_S.PENDING_SHUTDOWN, "" if error is None else str(error))
        if error is not None:
            await self._instance.on_thread_error(self.number, error)
        await self.tasks.shutdown(error is None)
        if error is not None:
            await self._consumer.call("unsubscribe")  # requestLeaveGroupDuringShutdown
        await self._consumer.call("close")
        self._move(_S.DEAD, "" if error is None else str(error))

    def _move(self, state: ThreadState, reason: str = "") -> bool:
        """Change the state; return whether that is legal (setState)."""
        if state not in THREAD_MOVES[self.state]:
            assert self.state in (_S.PENDING_SHUTDOWN, _S.DEAD), (self.number, self.state, state)
            return False
        if state is not self.state:
            fact = facts.StreamThreadState(self._group, self.number, state.value, reason)
            self._port.record(fact)
        self.state = state
        return True

    # The loop.

    async def _run_once_guarded(self) -> None:
        try:
            requested = self._assignor_error is AssignorError.SHUTDOWN_REQUESTED
            if requested and not self.tasks.rebalancing:  # else the end of the rebalance forgets it
                await self._consumer.call("enforce_rebalance", "Shutdown requested")
            await self._run_once()
            due = self._next_rebalance_ms < wall_ms(self._port)
            if due and not self.tasks.rebalancing:
                reason = f"triggered followup rebalance scheduled for {self._next_rebalance_ms}"
                await self._consumer.call("enforce_rebalance", reason)
                self._next_rebalance_ms = NEVER_MS
        except TaskCorrupted as error:
            try:
                active = await self.tasks.on_corruption(error.tasks)
            except TaskMigrated:
                await self._on_migrated()
            else:
                if active and self._exactly_once:
                    await self._consumer.call("enforce_rebalance", "Active tasks corrupted")
        except TaskMigrated:
            await self._on_migrated()

    async def _on_migrated(self) -> None:
        """Close all tasks and join the group as a new member (handleTaskMigrated)."""
        await self.tasks.on_lost_all()
        await self._consumer.call("unsubscribe")
        await self._consumer.call("subscribe", self._topics)

    async def _run_once(self) -> None:
        for task in self.tasks.tasks.active():
            await task.resume_partitions()
        await self._poll()
        if not self._alive or self.state not in WORKING:
            return
        await self.tasks.update_lags()
        while True:
            await self._check_state_updater()
            processed = await self.tasks.executor.process(self._iterations)
            punctuated = await self.tasks.executor.punctuate()
            committed = await self._maybe_commit()
            if not processed:
                break
            late = wall_ms(self._port) - self._last_poll_ms > self._max_poll_interval_ms / 2
            if late or punctuated > 0 or committed > 0:
                self._iterations = max(1, self._iterations // 2)
            else:
                self._iterations += 1
            if late or not self._alive:
                break

    async def _check_state_updater(self) -> None:
        all_running = await self.tasks.check_state_updater()
        if all_running and self.state is _S.PARTITIONS_ASSIGNED:
            self._move(_S.RUNNING)

    async def _poll(self) -> None:
        """Poll, with the rebalance listener inside; queue what was polled (pollPhase)."""
        at_once = self.state in (_S.PARTITIONS_REVOKED, _S.PENDING_SHUTDOWN)
        self._last_poll_ms = wall_ms(self._port)
        kind, what = await self._consumer.call("poll", 0 if at_once else self._poll_ms)
        failed: Exception | None = None
        while kind != "records":
            answer: tuple[Any, ...] = ()
            try:
                answer = await self._on_event(kind, what)
            except (StreamsError, KafkaError) as error:
                if kind != "revoked":
                    raise
                failed = error  # of a commit: poll() throws it once the assignment is taken over
            kind, what = await self._consumer.call("continue", *answer)
        if failed is not None:
            raise failed
        if at_once and not what:
            await self._port.sleep(EMPTY_POLL_S)
        for tp, records in what.items():
            task = self.tasks.tasks.of_partition(tp)
            assert task is not None, f"{tp} was polled without a task"
            await task.add(
                tp, [Queued(offset, value, key, at) for offset, value, key, at in records]
            )

    async def _on_event(self, kind: str, what: Any) -> tuple[Any, ...]:
        """Do what the rebalance listener, or the leader's assignor, does."""
        if kind == "assign":
            topics, members = what
            return (await self._leader.assign(topics, members, self._instance.process_id),)
        if kind == "assigned":
            await self._on_assigned()
        elif kind == "revoked":
            moved = self._move(_S.PARTITIONS_REVOKED) or self.state is _S.PENDING_SHUTDOWN
            if moved and what:
                await self.tasks.on_revocation(what)
        else:
            await self.tasks.on_lost_all()
        return ()

    async def _on_assigned(self) -> None:
        """Take over the assignment, or do what its error says (onAssignment, onPartitionsAssigned).

        Raises:
            MissingSourceTopic: an input topic does not exist.
            StreamsError: tasks failed, or the leader could not assign.
        """
        error = self._assignor_error
        if error is not AssignorError.NONE:
            await self.tasks.on_rebalance_complete()
            if error is AssignorError.INCOMPLETE_SOURCE_TOPIC_METADATA:
                raise MissingSourceTopic("One or more source topics were missing during rebalance")
            if error is AssignorError.SHUTDOWN_REQUESTED:
                self._instance.on_shutdown_requested()
                return
            raise StreamsError("Hit an unexpected exception during task assignment")
        assigned, self._assigned = self._assigned, None
        if assigned is not None:
            partitions, info = assigned
            active: dict[TaskId, list[TopicPartition]] = {}
            for tp, task_id in zip(partitions, info.active, strict=True):
                active.setdefault(task_id, []).append(tp)
            await self.tasks.on_assignment(active, info.standby)
        self._move(_S.PARTITIONS_ASSIGNED)
        await self.tasks.on_rebalance_complete()

    # Commits.

    async def _maybe_commit(self) -> int:
        now_ms = wall_ms(self._port)
        if now_ms - self._last_commit_ms <= self._commit_interval_ms:
            return 0
        committed = await self.tasks.commit_all()
        if now_ms - self._last_purge_ms > self._purge_interval_ms:
            self._purge()
            self._last_purge_ms = now_ms
        if committed >= 0:
            self._last_commit_ms = wall_ms(self._port)
        return committed

    def _purge(self) -> None:
        """Have consumed repartition records deleted, one request at a time."""
        if self._purging is not None and not self._purging.done():
            return
        offsets = {
            tp: offset
            for task in self.tasks.tasks.active()
            for tp, offset in task.purgeable(self._repartition_topics).items()
        }
        if offsets:
            self._purging = self._admin.call("delete_records", tuple(sorted(offsets.items())))
