"""Assignors that an application brings along, under aiokafka's names (aiokafka.coordinator).

``partition_assignment_strategy=(MyAssignor,)`` takes classes, or instances, with aiokafka's four
members: ``name``; ``metadata(topics)``, whose user data goes with the member's JoinGroup; ``assign
(cluster, members)``, which the leader of a generation calls, and whose user data goes to each
member; and ``on_assignment(assignment)``, which every member calls. As in aiokafka they are eager,
and what one raises fails the application's call that polls. RoundRobinPartitionAssignor and
RangePartitionAssignor are Kafka's, and may be subclassed.

Refused, since the simulated protocol does not carry it: a subscription to other topics than the
consumer's, and a member without any assignment (one that gets nothing gets an empty one). A cluster
tells of topics and their partitions, and not of brokers or leaders.
"""

from __future__ import annotations

import abc
import contextvars
import traceback
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from kafkasim.model.client.exceptions import AssignorError
from kafkasim.model.group.assignors import ASSIGNORS, Assignment, Assignor, Members, Topics
from kafkasim.model.group.assignors.base import without_racks
from kafkasim.model.messages import (
    AssignedPartitions,
    JoinGroupMember,
    Subscription,
    user_data_of,
)
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.applications.consuming.protocol import (
    ConsumerProtocolMemberAssignment,
    ConsumerProtocolMemberMetadata,
    topics_of,
)
from kafkasim.scenarios.applications.handle import Partial
from kafkasim.scenarios.applications.types.structs import InOrder
from kafkasim.sim.apps.refusals import guarded

MEMBERS = ("name", "assign", "metadata", "on_assignment")
"""What an assignor has."""


class ClusterMetadata(Partial):
    """What the leader knows of the topics that members subscribe to."""

    left_out: ClassVar[Mapping[str, str]] = dict.fromkeys(
        (
            "brokers", "broker_metadata", "leader_for_partition", "partitions_for_broker",
            "available_partitions_for_topic", "with_partitions",
        ),
        "an assignor is told of topics and partitions",
    )  # fmt: skip

    def __init__(self, counts: Mapping[str, int]) -> None:
        self._counts = counts

    def topics(self, exclude_internal_topics: bool = True) -> set[str]:
        """Return the topics; internal ones are there if a member subscribes to them."""
        hidden = "__" if exclude_internal_topics else "\0"
        return InOrder([topic for topic in self._counts if not topic.startswith(hidden)])

    def partitions_for_topic(self, topic: str) -> set[int] | None:
        """Return the numbers of a topic's partitions, None of an unknown topic."""
        count = self._counts.get(topic)
        return None if count is None else InOrder(range(count))


class AbstractPartitionAssignor(abc.ABC):
    """The base of an application's assignors."""

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """The name under which members propose it."""

    @classmethod
    @abc.abstractmethod
    def assign(
        cls, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Return the assignment of each member, by member id."""

    @classmethod
    @abc.abstractmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return a member's subscription to these topics."""

    @classmethod
    @abc.abstractmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Take note of what the member was assigned."""


class _KafkasOwn(AbstractPartitionAssignor):
    """An assignor of Kafka, with its rule in the simulated client."""

    name = ""
    kafkas: ClassVar[str] = ""
    version = 0

    @classmethod
    def assign(
        cls, cluster: ClusterMetadata, members: Mapping[str, ConsumerProtocolMemberMetadata]
    ) -> dict[str, ConsumerProtocolMemberAssignment]:
        """Return what the assignor of Kafka does."""
        known = {topic: None for each in members.values() for topic in each.subscription}
        counts = {topic: len(cluster.partitions_for_topic(topic) or ()) for topic in known}
        joined = [
            JoinGroupMember(member_id, None, Subscription(tuple(each.subscription)))
            for member_id, each in members.items()
        ]
        found = ASSIGNORS[cls.kafkas]().assign(without_racks(counts), joined)
        return {member_id: _assignment(partitions) for member_id, partitions in found.items()}

    @classmethod
    def metadata(cls, topics: Iterable[str]) -> ConsumerProtocolMemberMetadata:
        """Return the subscription, without user data."""
        return ConsumerProtocolMemberMetadata(cls.version, list(topics), b"")

    @classmethod
    def on_assignment(cls, assignment: ConsumerProtocolMemberAssignment) -> None:
        """Remember nothing."""


class RoundRobinPartitionAssignor(_KafkasOwn):
    """Kafka's assignor roundrobin."""

    name = kafkas = "roundrobin"


class RangePartitionAssignor(_KafkasOwn):
    """Kafka's assignor range."""

    name = kafkas = "range"


KAFKAS = (RoundRobinPartitionAssignor, RangePartitionAssignor)


def strategy(given: Any) -> list[str | type]:
    """Return partition.assignment.strategy for an argument of AIOKafkaConsumer.

    Raises:
        ValueError: it has something that is neither a name nor an assignor.
    """
    each_given = [given] if isinstance(given, str) else given
    if not isinstance(each_given, list | tuple):
        raise ValueError(f"partition_assignment_strategy: {given!r} is no list of assignors")
    return [_simulated(each) for each in each_given]


def _simulated(given: Any) -> str | type:
    """Return a name as it is, and for an assignor of the application one of the simulated client.

    The latter runs the application's code as the task does that makes the consumer.
    """
    if isinstance(given, str):
        return given
    if given in KAFKAS:
        return str(given.name)
    missing = [name for name in MEMBERS if not hasattr(given, name)]
    called = given.__name__ if isinstance(given, type) else type(given).__name__
    where = f"partition_assignment_strategy: {called}"
    if missing:
        raise ValueError(f"{where} is no assignor: it has no {' and no '.join(missing)}")
    if not isinstance(given.name, str) or not given.name:
        raise ValueError(f"{where}.name is no text: {given.name!r}")
    fields = {"name": given.name, "theirs": given, "context": contextvars.copy_context()}
    return type(called, (_UsersAssignor,), fields)


class _UsersAssignor(Assignor):
    """An application's assignor, as the simulated client calls it."""

    theirs: ClassVar[Any]
    context: ClassVar[contextvars.Context]

    def user_data(self, topics: tuple[str, ...]) -> bytes | None:
        """Return the user data of ``metadata(topics)``."""
        found = self._run("metadata", InOrder(topics))
        if not hasattr(found, "subscription") or not hasattr(found, "user_data"):
            self._refuse("metadata", f"returned {found!r}, no ConsumerProtocolMemberMetadata")
        if sorted(found.subscription) != sorted(topics):
            told = f"subscribes to {list(found.subscription)}, the consumer to {list(topics)}"
            self._refuse("metadata", told)
        return bytes(found.user_data) if found.user_data else None

    def assign(self, topics: Topics, members: Members) -> Assignment:
        """Return what ``assign(cluster, members)`` does."""
        cluster = ClusterMetadata({topic: len(some) for topic, some in topics.items() if some})
        told = {member.member_id: _metadata(member) for member in members}
        found = self._run("assign", cluster, told)
        if not isinstance(found, Mapping):
            self._refuse("assign", f"returned {found!r}, no assignment by member")
        assignment: Assignment = {}
        for member_id in told:
            if member_id not in found:
                self._refuse("assign", f"has no assignment of {member_id}, not even an empty one")
            assignment[member_id] = self._partitions(found[member_id])
        return assignment

    def on_assignment(self, partitions: tuple[TopicPartition, ...], generation: int) -> None:
        """Tell the application's assignor."""
        self._run("on_assignment", _assignment(partitions))

    def _partitions(self, given: Any) -> tuple[TopicPartition, ...]:
        try:
            found = [
                TopicPartition(str(topic), int(number))
                for topic, numbers in given.assignment
                for number in numbers
            ]
            data = bytes(given.user_data or b"")
        except (AttributeError, TypeError, ValueError):
            self._refuse("assign", f"returned {given!r}, no ConsumerProtocolMemberAssignment")
        partitions = tuple(sorted(dict.fromkeys(found)))
        return AssignedPartitions(partitions, data) if data else partitions

    def _run(self, method: str, *arguments: Any) -> Any:
        """Run a method of the application's assignor.

        Whatever it raises, also by an assert, is the application's error and not the simulator's.
        """
        function: Callable[..., Any] = getattr(self.theirs, method)
        try:
            with guarded():
                return self.context.copy().run(function, *arguments)
        except BaseException as error:
            told = f"{self.name}.{method}(){_place(error)}: {error}"
            raise AssignorError(type(error).__name__, told) from error

    def _refuse(self, method: str, what: str) -> Any:
        raise AssignorError("ASSIGNOR", f"{self.name}.{method}() {what}")


def _place(error: BaseException) -> str:
    """Return where in the application an error was raised: `` (app.py:12)``."""
    places = [
        f" ({Path(frame.f_code.co_filename).name}:{line})"
        for frame, line in traceback.walk_tb(error.__traceback__)
        if "__kafkasim_application__" in frame.f_globals
    ]
    return places[-1] if places else ""


def _metadata(member: JoinGroupMember) -> ConsumerProtocolMemberMetadata:
    data = member.subscription.user_data
    topics = list(member.subscription.topics)
    return ConsumerProtocolMemberMetadata(0, topics, data if isinstance(data, bytes) else b"")


def _assignment(partitions: tuple[TopicPartition, ...]) -> ConsumerProtocolMemberAssignment:
    return ConsumerProtocolMemberAssignment(0, topics_of(partitions), user_data_of(partitions))


def modules() -> dict[str, ModuleType]:
    """Return aiokafka's modules of assignors by name."""
    protocol = {
        "ConsumerProtocolMemberMetadata": ConsumerProtocolMemberMetadata,
        "ConsumerProtocolMemberAssignment": ConsumerProtocolMemberAssignment,
    }
    contents: dict[str, dict[str, Any]] = {
        "aiokafka.cluster": {"ClusterMetadata": ClusterMetadata},
        "aiokafka.coordinator": {},
        "aiokafka.coordinator.protocol": protocol,
        "aiokafka.coordinator.assignors": {},
        "aiokafka.coordinator.assignors.abstract": {
            "AbstractPartitionAssignor": AbstractPartitionAssignor
        },
        "aiokafka.coordinator.assignors.roundrobin": {
            "RoundRobinPartitionAssignor": RoundRobinPartitionAssignor
        },
        "aiokafka.coordinator.assignors.range": {"RangePartitionAssignor": RangePartitionAssignor},
    }
    made = {name: ModuleType(name) for name in contents}
    for name, module in made.items():
        module.__dict__.update(contents[name])
        parent, _, own = name.rpartition(".")
        if parent in made:
            setattr(made[parent], own, module)
    return made
