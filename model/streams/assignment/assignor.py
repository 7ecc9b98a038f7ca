"""StreamsPartitionAssignor: what each thread tells the group, and what the leader decides.

The leader's part asks brokers: it creates internal topics and reads the ends of changelogs. So it
is a coroutine, which the leader's thread runs inside its poll() (:class:`Leader`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import ClassVar, Protocol

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.facts.streams import TasksAssigned
from kafkasim.model.group.assignors import Assignment, Assignor, RebalanceProtocol
from kafkasim.model.messages import AssignedPartitions, JoinGroupMember, user_data_of
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.assignment.client_state import UNKNOWN_OFFSET_SUM, ClientState
from kafkasim.model.streams.assignment.fallback import assign_to_previous
from kafkasim.model.streams.assignment.high_availability import (
    AssignmentConfigs,
    HighAvailabilityTaskAssignor,
)
from kafkasim.model.streams.assignment.info import (
    NEVER_MS,
    AssignmentInfo,
    AssignorError,
    SubscriptionInfo,
)
from kafkasim.model.streams.assignment.threads import to_threads
from kafkasim.model.streams.assignment.topics import (
    AssignmentFailed,
    InternalTopicManager,
    missing_sources,
    partition_groups,
    repartition_counts,
)
from kafkasim.model.streams.port import Client, Port, wall_ms
from kafkasim.model.streams.rules import StreamsRules
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.streams.topology import Subtopology
from kafkasim.model.streams.topology.nodes import REPARTITION_CONFIGS

NAME = "stream"


class Member(Protocol):
    """The thread that an assignor belongs to."""

    def subscription_info(self) -> SubscriptionInfo:
        """Return what the thread tells the leader; it joins the group now."""
        ...

    def on_assignment(self, partitions: Sequence[TopicPartition], info: AssignmentInfo) -> None:
        """Take what the leader has assigned; the event ``assigned`` follows."""
        ...


class StreamsPartitionAssignor(Assignor):
    """The assignor of one thread's consumer; :func:`assignor_for` binds it to the thread."""

    name = NAME
    protocols = (RebalanceProtocol.EAGER, RebalanceProtocol.COOPERATIVE)
    blocks = True
    member: ClassVar[Member]

    def user_data(self, topics: tuple[str, ...]) -> bytes:
        """Return what the thread tells the leader (subscriptionUserData)."""
        return self.member.subscription_info().encode()

    def on_assignment(self, partitions: tuple[TopicPartition, ...], generation: int) -> None:
        """Give the thread its tasks (onAssignment)."""
        ordered = sorted(partitions, key=lambda tp: (tp.topic, tp.partition))
        self.member.on_assignment(ordered, AssignmentInfo.decode(user_data_of(partitions)))


def assignor_for(member: Member) -> type[StreamsPartitionAssignor]:
    """Return the class of a thread's assignor, for partition.assignment.strategy."""
    return type("StreamsPartitionAssignor", (StreamsPartitionAssignor,), {"member": member})


@dataclass(slots=True)
class Process:
    """An instance with its threads, as the leader sees it (ClientMetadata)."""

    id: str
    state: ClientState = field(default_factory=ClientState)
    consumers: list[str] = field(default_factory=list)
    warmups: list[TaskId] = field(default_factory=list)  # of its standbys
    next_rebalance_ms: int | None = None  # one of its threads is to join again then


class Leader:
    """The leader's part of the assignor, for one thread."""

    def __init__(
        self,
        port: Port,
        group: str,
        subtopologies: Sequence[Subtopology],
        copartition_groups: Sequence[Sequence[str]],
        topics: InternalTopicManager,
        offsets: Client,
        consumer: Client,
        configs: AssignmentConfigs,
        probing_interval_ms: int,
        rules: StreamsRules,
    ) -> None:
        self._port = port
        self._group = group
        self._subtopologies = subtopologies
        self._copartition_groups = copartition_groups
        self._topics = topics
        self._offsets = offsets
        self._consumer = consumer
        self._configs = configs
        self._probing_interval_ms = probing_interval_ms
        self._rules = rules

    async def assign(
        self,
        topics: Mapping[str, Sequence[object]],
        members: Sequence[JoinGroupMember],
        process_id: str,
    ) -> Assignment:
        """Return the assignment of each member; ``process_id`` is the leader's.

        Raises:
            StreamsError: the topics do not fit the topology: the leader's thread fails.
            KafkaTimeoutError: internal topics cannot be created in time.
        """
        told = {each.member_id: SubscriptionInfo.decode(each.subscription.user_data)
                for each in members}  # fmt: skip
        if any(each.error is AssignorError.SHUTDOWN_REQUESTED for each in told.values()):
            return _refusal(told, AssignorError.SHUTDOWN_REQUESTED)
        counts = {topic: len(some) for topic, some in topics.items() if some}
        if missing_sources(self._subtopologies, counts):
            return _refusal(told, AssignorError.INCOMPLETE_SOURCE_TOPIC_METADATA)
        try:
            counts |= await self._repartition_topics(counts)
        except AssignmentFailed:
            return _refusal(told, AssignorError.ASSIGNMENT_ERROR)
        tasks = partition_groups(self._subtopologies, counts)
        processes = _processes(members, told)
        stateful = await self._assign_to_processes(tasks, processes, process_id)
        return self._assignments(tasks, stateful, processes, members)

    async def _repartition_topics(self, counts: Mapping[str, int]) -> dict[str, int]:
        wanted = repartition_counts(self._subtopologies, self._copartition_groups, counts)
        await self._topics.make_ready(
            {topic: (number, REPARTITION_CONFIGS) for topic, number in wanted.items()}
        )
        return wanted

    async def _assign_to_processes(
        self,
        tasks: Mapping[TaskId, Sequence[TopicPartition]],
        processes: Mapping[str, Process],
        process_id: str,
    ) -> list[TaskId]:
        """Give tasks to processes; return the stateful tasks."""
        changelogs = self._changelogs(tasks)
        created = await self._create_changelogs(tasks)
        ends = await self._end_offset_sums(changelogs, created)
        task_of = {tp: task for task, tps in tasks.items() for tp in tps}
        unknown = dict.fromkeys(changelogs, UNKNOWN_OFFSET_SUM)
        states = {name: process.state for name, process in processes.items()}
        for state in states.values():
            state.initialize_previous(task_of)
            state.compute_lags(unknown if ends is None else ends)
        if ends is None:
            standbys = self._configs.num_standby_replicas
            assign_to_previous(states, tasks, changelogs, standbys)
            probing = True
        else:
            assignor = HighAvailabilityTaskAssignor(states, self._configs, self._rules)
            probing = assignor.assign(tasks, changelogs)
            for name, task in assignor.warmups:
                processes[name].warmups.append(task)
        if probing and process_id in processes:
            at_ms = wall_ms(self._port) + self._probing_interval_ms
            processes[process_id].next_rebalance_ms = at_ms
        return list(changelogs)

    def _changelogs(self, tasks: Iterable[TaskId]) -> dict[TaskId, list[TopicPartition]]:
        """Return the changelog partitions of the stateful tasks."""
        topics = {each.id: sorted(each.changelog_topics.values()) for each in self._subtopologies}
        return {
            task: [TopicPartition(topic, task.partition) for topic in topics[task.subtopology]]
            for task in tasks
            if topics[task.subtopology]
        }

    async def _create_changelogs(self, tasks: Iterable[TaskId]) -> dict[str, None]:
        partitions: dict[int, int] = {}
        for task in tasks:
            partitions[task.subtopology] = max(
                partitions.get(task.subtopology, 0), task.partition + 1
            )
        wanted = {
            each.changelog_topics[store.name]: (partitions[each.id], store.changelog_configs())
            for each in self._subtopologies
            if each.id in partitions
            for store in each.stores
            if each.changelog_topics.get(store.name) not in (None, *each.source_topics)
        }
        return await self._topics.make_ready(wanted)

    async def _end_offset_sums(
        self, changelogs: Mapping[TaskId, Sequence[TopicPartition]], created: Mapping[str, None]
    ) -> dict[TaskId, int] | None:
        """Return the sums of the changelogs' ends, None if brokers do not tell.

        A changelog that is a source topic ends at its committed offset.
        """
        sources = {topic for each in self._subtopologies for topic in each.source_topics}
        known = [tp for tps in changelogs.values() for tp in tps if tp.topic not in created]
        ends: dict[TopicPartition, int] = {}
        try:
            logs = tuple([tp for tp in known if tp.topic not in sources])
            if logs:
                ends |= await self._offsets.call("end_offsets", logs)
            inputs = tuple([tp for tp in known if tp.topic in sources])
            if inputs:
                committed = await self._consumer.call("committed", inputs)
                ends |= {tp: committed.get(tp) or 0 for tp in inputs}
        except KafkaError:
            return None
        if None in ends.values():
            return None
        return {task: sum([ends.get(tp, 0) for tp in tps]) for task, tps in changelogs.items()}

    # From tasks of processes to partitions of consumers.

    def _assignments(
        self,
        tasks: Mapping[TaskId, Sequence[TopicPartition]],
        stateful: Sequence[TaskId],
        processes: Mapping[str, Process],
        members: Sequence[JoinGroupMember],
    ) -> Assignment:
        owned = {tp: None for each in members for tp in each.subscription.owned_partitions}
        assignment: Assignment = {}
        for process in processes.values():
            active, standby = to_threads(process.state, process.consumers)
            for consumer in sorted(process.consumers):
                given = _ThreadTasks(process, consumer, tasks, stateful)
                given.take(active[consumer], standby[consumer], owned)
                assignment[consumer] = given.assignment()
                self._port.record(given.fact(self._group))
        return assignment


class _ThreadTasks:
    """What one thread gets (populateActiveTaskAndPartitionsLists, buildStandbyTaskMap)."""

    def __init__(
        self,
        process: Process,
        consumer: str,
        tasks: Mapping[TaskId, Sequence[TopicPartition]],
        stateful: Sequence[TaskId],
    ) -> None:
        self._process = process
        self._consumer = consumer
        self._tasks = tasks
        self._stateful = stateful
        self.active: list[tuple[TopicPartition, TaskId]] = []
        self.standby: dict[TaskId, Sequence[TopicPartition]] = {}
        self.next_rebalance_ms = NEVER_MS

    def take(
        self,
        active: Iterable[TaskId],
        standby: Iterable[TaskId],
        owned: Mapping[TopicPartition, None],
    ) -> None:
        """Take tasks; one whose partition another consumer still owns waits for the next round."""
        state = self._process.state
        withheld = []
        for task in active:
            partitions = self._tasks[task]
            mine = [state.previous_owner(tp) == self._consumer for tp in partitions]
            if any(not own and tp in owned for own, tp in zip(mine, partitions)):
                withheld.append(task)
            else:
                self.active += [(tp, task) for tp in partitions]
        self.active.sort(key=lambda each: (each[0].topic, each[0].partition))
        self.standby = {task: self._tasks[task] for task in standby}
        for task in sorted(withheld):
            if task in state.previous_standby and task in self._stateful:
                self.standby[task] = self._tasks[task]
        if withheld:
            self.next_rebalance_ms = 0
            self._process.next_rebalance_ms = None
        elif self._process.next_rebalance_ms is not None:
            self.next_rebalance_ms = self._process.next_rebalance_ms
            self._process.next_rebalance_ms = None

    def assignment(self) -> AssignedPartitions:
        """Return the partitions of the thread, with its tasks as user data."""
        tasks = [task for _, task in self.active]
        info = AssignmentInfo(tasks, self.standby, self.next_rebalance_ms, AssignorError.NONE)
        return AssignedPartitions([tp for tp, _ in self.active], info.encode())

    def fact(self, group: str) -> TasksAssigned:
        """Return what is told of it."""
        at_ms = -1 if self.next_rebalance_ms == NEVER_MS else self.next_rebalance_ms
        active = tuple(dict.fromkeys([str(task) for _, task in sorted(
            self.active, key=lambda each: each[1])]))  # fmt: skip
        standby = tuple([str(task) for task in sorted(self.standby)])
        warmups = tuple([str(task) for task in sorted(self._process.warmups)])
        return TasksAssigned(
            group, self._process.id, self._consumer, active, standby, warmups, at_ms
        )


def _processes(
    members: Sequence[JoinGroupMember], told: Mapping[str, SubscriptionInfo]
) -> dict[str, Process]:
    processes: dict[str, Process] = {}
    for member in members:
        info = told[member.member_id]
        process = processes.setdefault(info.process_id, Process(info.process_id))
        process.consumers.append(member.member_id)
        owned = member.subscription.owned_partitions
        process.state.add_consumer(member.member_id, owned, info.offset_sums)
    return {name: processes[name] for name in sorted(processes)}


def _refusal(members: Iterable[str], error: AssignorError) -> Assignment:
    """Return an assignment of nothing, with the reason (errorAssignment)."""
    info = AssignmentInfo((), {}, NEVER_MS, error).encode()
    return {member: AssignedPartitions((), info) for member in members}
