"""Plans new topics and new partitions, with Kafka's order of checks.

Models the validation and placement in ReplicationControlManager (createTopics, createPartitions,
deleteTopics) and, for names that stand twice, in ControllerApis. The KRaft controller turns a plan
into records; in ZooKeeper mode it is written into znodes. The checks of a topic are its name, its
existence, a collision with another's metrics, its settings, then a manual assignment or the
replication factor and the number of partitions, then placement. A refused topic does not affect the
others of the request; too many partitions in all, or too many records, refuse all of them. Left
out: create-topic policies, validate-only requests, quotas.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TypeVar

from kafkasim.model.config import BrokerConfig, ConfigError, TopicConfig, check_segment_bytes
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.placement import (
    UsableBroker,
    assignment_problem,
    place,
    placement_problem,
)
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafkasim.model.values import random_uuid, value

METADATA_TOPIC = "__cluster_metadata"
MAX_NAME = 249
MAX_PARTITIONS = 10_000  # of one CreateTopics (MAX_PARTITIONS_PER_BATCH, KAFKA-17870)
MAX_RECORDS = 10_000  # of one request: they are one batch (MAX_RECORDS_PER_USER_OP)
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")

Result = tuple[str, Errors, str]
"""The name of a topic, an error, and its message."""

T = TypeVar("T", CreatableTopic, CreatePartitionsTopic)
P = TypeVar("P")


@value
class Refused:
    """Why a topic is not created or does not grow."""

    error: Errors
    message: str


Charge = Callable[[int], Refused | None]
"""Takes a number of partitions from a client's quota; returns why it may not have them."""


def unlimited(_partitions: int) -> Refused | None:
    """Admit what a client without a quota asks for."""
    return None


@value
class NewPartition:
    """A partition to be created; the first member of its ISR leads it."""

    number: int
    replicas: tuple[int, ...]
    isr: tuple[int, ...]


@value
class NewTopic:
    """A topic to be created, or the new partitions of one that grows."""

    name: str
    topic_id: str
    configs: tuple[tuple[str, str], ...]
    partitions: tuple[NewPartition, ...]


class TopicPlanner:
    """Plans against an image; changes nothing itself.

    ``usable_brokers()`` returns the brokers that new replicas may be placed on.
    ``internal_segment_bytes`` says that topics may have the setting of that name.
    """

    def __init__(
        self,
        image: MetadataImage,
        usable_brokers: Callable[[], list[UsableBroker]],
        config: BrokerConfig,
        rng: random.Random,
        internal_segment_bytes: bool,
    ) -> None:
        self.image = image
        self.usable_brokers = usable_brokers
        self.config = config
        self.rng = rng
        self._internal_segment_bytes = internal_segment_bytes

    def create_topics(
        self, request: CreateTopicsRequest, charge: Charge = unlimited
    ) -> tuple[list[NewTopic], tuple[Result, ...]]:
        """Return the topics that can be created, and a result for each topic of the request.

        ``charge`` is asked last for the partitions of each (applyPartitionChangeQuota).
        """
        if self._count(request) > MAX_PARTITIONS:
            message = "Excessively large number of partitions per request."
            return [], _refuse_all(request, message)
        topics, results = _each(request.topics, partial(self._create, charge))
        if sum([1 + len(each.configs) + len(each.partitions) for each in topics]) > MAX_RECORDS:
            return [], _refuse_all(request, "Unable to perform excessively large batch operation.")
        return topics, results

    def create_partitions(
        self, request: CreatePartitionsRequest, charge: Charge = unlimited
    ) -> tuple[list[NewTopic], tuple[Result, ...]]:
        """Return the partitions that can be added, and a result for each topic of the request.

        As in Kafka, a topic that grows beyond the batch gets the partitions that fit in it, and its
        result is an error (BoundedListTooLongException, caught in createPartitions).
        """
        topics, results = _each(request.topics, partial(self._grow, charge))
        room = MAX_RECORDS
        kept: list[NewTopic] = []
        cut: dict[str, None] = {}
        for topic in topics:
            fitting = topic.partitions[:room]
            room -= len(fitting)
            kept.append(replace(topic, partitions=fitting))
            if len(fitting) < len(topic.partitions):
                cut[topic.name] = None
        told = [(each[0], Errors.UNKNOWN_SERVER_ERROR, "") if each[0] in cut else each
                for each in results]  # fmt: skip
        return kept, tuple(told)

    def delete_topics(
        self, request: DeleteTopicsRequest, charge: Charge = unlimited
    ) -> tuple[list[str], DeleteTopicsResponse]:
        """Return the ids of the topics that can be deleted, and the response."""
        topic_ids: list[str] = []
        results: list[tuple[str, str, Errors, str]] = []
        names, times = self.image.topic_names, Counter(request.topics)
        by_name = [names[name] for name, topic_id in times if name in names and not topic_id]
        for name, topic_id in times:
            error, message = Errors.NONE, ""
            if times[name, topic_id] > 1:
                error, message = Errors.INVALID_REQUEST, "Duplicate topic name or id."
            elif name and topic_id:
                message = "You may not specify both topic name and topic id."
                error = Errors.INVALID_REQUEST
            elif name and name not in names:
                message = "This server does not host this topic-partition."
                error = Errors.UNKNOWN_TOPIC_OR_PARTITION
            elif name and ("", names[name]) in times:
                message = "The provided topic name maps to an ID that was already supplied."
                error = Errors.INVALID_REQUEST
            elif topic_id in by_name:
                continue  # the answer tells of the name alone
            elif not name and topic_id not in self.image.topics:
                message = "This server does not host this topic ID."
                error = Errors.UNKNOWN_TOPIC_ID
            found = names.get(name, topic_id)
            if error is Errors.NONE:
                topic = self.image.topics[found]
                name, refused = topic.name, charge(len(topic.partitions))
                if refused is None:
                    topic_ids.append(found)
                else:
                    error, message = refused.error, refused.message
            results.append((name, found, error, message))
        return topic_ids, DeleteTopicsResponse(Errors.NONE, tuple(results))

    def replicas_of_new(
        self, topic: CreatePartitionsTopic, count: int, factor: int
    ) -> list[tuple[int, ...]] | Refused:
        """Return the replicas of the partitions to be added to a topic that has ``count``."""
        if not topic.assignments:
            # More than one batch of records are never added, so no more are placed.
            return self._place(min(topic.count - count, MAX_RECORDS + 1), factor)
        if len(topic.assignments) != topic.count - count:
            return Refused(
                Errors.INVALID_REPLICA_ASSIGNMENT,
                f"Attempted to add {topic.count - count} additional partition(s), but only"
                f" {len(topic.assignments)} assignment(s) were specified.",
            )
        problem = self._assignment_problem(topic.assignments, factor)
        if problem is not None:
            return Refused(Errors.INVALID_REPLICA_ASSIGNMENT, problem)
        return list(topic.assignments)

    def _count(self, request: CreateTopicsRequest) -> int:
        """Return how many partitions a request asks for (validateTotalNumberOfPartitions).

        The topics that are named twice, and the metadata topic, have been refused before.
        """
        times = Counter([topic.topic for topic in request.topics])
        total = 0
        for topic in request.topics:
            if times[topic.topic] > 1 or topic.topic == METADATA_TOPIC:
                continue
            if topic.assignments:
                total += len(topic.assignments)
            elif topic.num_partitions == -1:
                total += self.config.num_partitions
            else:
                total += max(topic.num_partitions, 0)
        return total

    def _colliding(self, name: str) -> str | None:
        """Return an existing topic with the same name in metrics (Topic.hasCollision), or None.

        Metrics write '.' as '_'. Topics of one request do not collide with each other
        (validateNewTopicNames).
        """
        if not ("." in name or "_" in name):
            return None
        for known in self.image.topic_names:
            if unified(known) == unified(name):
                return known
        return None

    def _create(self, charge: Charge, topic: CreatableTopic) -> NewTopic | Refused:
        if topic.topic == METADATA_TOPIC:
            message = f"Creation of internal topic {METADATA_TOPIC} is prohibited."
            return Refused(Errors.INVALID_REQUEST, message)
        problem = name_problem(topic.topic)
        if problem is not None:
            return Refused(Errors.INVALID_TOPIC_EXCEPTION, problem)
        if topic.topic in self.image.topic_names:
            return Refused(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{topic.topic}' already exists.")
        colliding = self._colliding(topic.topic)
        if colliding is not None:
            message = f"Topic '{topic.topic}' collides with existing topic: {colliding}"
            return Refused(Errors.INVALID_TOPIC_EXCEPTION, message)
        problem = config_problem(topic, self._internal_segment_bytes)
        if problem is not None:
            return Refused(Errors.INVALID_CONFIG, problem)
        replicas = self._assigned(topic) if topic.assignments else self._placed(topic)
        if isinstance(replicas, Refused):
            return replicas
        topic_id = random_uuid(self.rng)
        added = self._partitions(0, replicas, manual=bool(topic.assignments))
        if isinstance(added, Refused):
            return added
        return charge(len(added)) or NewTopic(topic.topic, topic_id, topic.configs, added)

    def _grow(self, charge: Charge, topic: CreatePartitionsTopic) -> NewTopic | Refused:
        topic_id = self.image.topic_names.get(topic.topic)
        if topic_id is None:
            return Refused(
                Errors.UNKNOWN_TOPIC_OR_PARTITION,
                "This server does not host this topic-partition.",
            )
        partitions = self.image.topics[topic_id].partitions
        count, factor = len(partitions), len(partitions[0].replicas)
        if topic.count == count:
            return Refused(Errors.INVALID_PARTITIONS, f"Topic already has {count} partition(s).")
        if topic.count < count:
            return Refused(
                Errors.INVALID_PARTITIONS,
                f"The topic {topic.topic} currently has {count} partition(s); {topic.count}"
                " would not be an increase.",
            )
        more = topic.count - count
        if not topic.assignments or len(topic.assignments) == more:
            refused = charge(more)
            if refused is not None:
                return refused
        replicas = self.replicas_of_new(topic, count, factor)
        if isinstance(replicas, Refused):
            return replicas
        added = self._partitions(count, replicas, manual=bool(topic.assignments))
        return added if isinstance(added, Refused) else NewTopic(topic.topic, topic_id, (), added)

    def _partitions(
        self, first: int, replicas: list[tuple[int, ...]], manual: bool
    ) -> tuple[NewPartition, ...] | Refused:
        """Return new partitions, numbered from ``first``; the active replicas are in sync."""
        added: list[NewPartition] = []
        for number, assignment in enumerate(replicas, first):
            isr = tuple([replica for replica in assignment if self.image.is_active(replica)])
            if not isr:
                return _no_active(manual, number, len(assignment))
            added.append(NewPartition(number, assignment, isr))
        return tuple(added)

    def _placed(self, topic: CreatableTopic) -> list[tuple[int, ...]] | Refused:
        factor, partitions = topic.replication_factor, topic.num_partitions
        if factor < -1 or factor == 0:
            return Refused(
                Errors.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if partitions < -1 or partitions == 0:
            return Refused(
                Errors.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        factor = self.config.default_replication_factor if factor == -1 else factor
        partitions = self.config.num_partitions if partitions == -1 else partitions
        return self._place(partitions, factor)

    def _place(self, partitions: int, factor: int) -> list[tuple[int, ...]] | Refused:
        brokers = self.usable_brokers()
        problem = placement_problem(factor, brokers)
        if problem is not None:
            return Refused(Errors.INVALID_REPLICATION_FACTOR, problem)
        return place(self.rng, partitions, factor, brokers)

    def _assigned(self, topic: CreatableTopic) -> list[tuple[int, ...]] | Refused:
        for name, number in (
            ("replication factor", topic.replication_factor),
            ("partition count", topic.num_partitions),
        ):
            if number != -1:
                return Refused(
                    Errors.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {name} was not set to -1.",
                )
        problem = self._assignment_problem(topic.assignments, len(topic.assignments[0]))
        if problem is not None:
            return Refused(Errors.INVALID_REPLICA_ASSIGNMENT, problem)
        return list(topic.assignments)

    def _assignment_problem(
        self, assignments: tuple[tuple[int, ...], ...], factor: int
    ) -> str | None:
        """Return what is wrong with manual assignments, None if nothing is
        (validateManualPartitionAssignment)."""
        for replicas in assignments:
            problem = assignment_problem(replicas, self.image)
            if problem is not None:
                return problem
            if len(replicas) != factor:
                return (
                    f"The manual partition assignment includes a partition with {len(replicas)}"
                    f" replica(s), but this is not consistent with previous partitions, which have"
                    f" {factor} replica(s)."
                )
        return None


def _each(
    topics: Sequence[T], plan: Callable[[T], P | Refused]
) -> tuple[list[P], tuple[Result, ...]]:
    """Plan each topic on its own; refuse one that is named twice, once and at the end."""
    times = Counter([topic.topic for topic in topics])
    planned: list[P] = []
    results: list[Result] = []
    for topic in topics:
        if times[topic.topic] > 1:
            continue
        outcome = plan(topic)
        if isinstance(outcome, Refused):
            results.append((topic.topic, outcome.error, outcome.message))
        else:
            planned.append(outcome)
            results.append((topic.topic, Errors.NONE, ""))
    twice = [name for name, count in times.items() if count > 1]
    results += [(name, Errors.INVALID_REQUEST, "Duplicate topic name.") for name in twice]
    return planned, tuple(results)


def _refuse_all(request: CreateTopicsRequest, message: str) -> tuple[Result, ...]:
    """Return the results of a request that fails as a whole."""
    return tuple([(topic.topic, Errors.POLICY_VIOLATION, message) for topic in request.topics])


def _no_active(manual: bool, partition: int, factor: int) -> Refused:
    if manual:
        return Refused(
            Errors.INVALID_REPLICA_ASSIGNMENT,
            "All brokers specified in the manual partition assignment for partition"
            f" {partition} are fenced or in controlled shutdown.",
        )
    return Refused(
        Errors.INVALID_REPLICATION_FACTOR,
        f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or"
        " in controlled shutdown.",
    )


def unified(name: str) -> str:
    """Return a topic's name as metrics write it (Topic.unifyCollisionChars)."""
    return name.replace(".", "_")


def config_problem(topic: CreatableTopic, internal_segment_bytes: bool) -> str | None:
    """Return what is wrong with the settings of a topic to be created, or None."""
    try:
        TopicConfig.from_properties(dict(topic.configs))
        check_segment_bytes(dict(topic.configs), internal_segment_bytes)
    except ConfigError as error:
        return str(error)
    return None


def name_problem(name: str) -> str | None:
    """Return why ``name`` is not a legal topic name (Topic.validate), or None if it is."""
    if not name:
        return "the empty string is not allowed"
    if name in (".", ".."):
        return f"'{name}' is not allowed"
    if len(name) > MAX_NAME:
        return f"the length of '{name}' is longer than the max allowed length {MAX_NAME}"
    if _LEGAL.fullmatch(name) is None:
        return (
            f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_'"
            " and '-'"
        )
    return None
