"""Creates, grows and deletes topics (ReplicationControlManager), with Kafka's order of checks.

Per topic: name, existence, settings, then a manual assignment or the replication factor and the
number of partitions, then placement. A topic that fails leaves the others of the request alone.
Left out: create-topic policies, validate-only requests, quotas.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from kafkasim.model.config import BrokerConfig, ConfigError, TopicConfig
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.placement import place, placement_problem
from kafkasim.model.controller.common.records import (
    ConfigRecord,
    PartitionRecord,
    RemoveTopicRecord,
    TopicRecord,
)
from kafkasim.model.controller.kraft.managers.cluster import ClusterControlManager
from kafkasim.model.controller.kraft.managers.reassignments import assignment_problem
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from kafkasim.model.values import random_uuid, value

MAX_NAME = 249
MAX_PARTITIONS = 10_000  # of one request: its records are one batch (MAX_PARTITIONS_PER_BATCH)
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")

Result = tuple[str, Errors, str]
T = TypeVar("T", CreatableTopic, CreatePartitionsTopic)


@value
class Refused:
    """Why a topic is not created or grown."""

    error: Errors
    message: str


class TopicControlManager:
    """Answers with records and results; changes nothing itself."""

    def __init__(
        self,
        image: MetadataImage,
        cluster: ClusterControlManager,
        config: BrokerConfig,
        rng: random.Random,
    ) -> None:
        self.image = image
        self.cluster = cluster
        self.config = config
        self.rng = rng

    def create_topics(self, request: CreateTopicsRequest) -> tuple[list[Any], CreateTopicsResponse]:
        """Return the records of all topics that can be created, and a result for each topic."""
        partitions = sum([max(t.num_partitions, len(t.assignments)) for t in request.topics])
        if partitions > MAX_PARTITIONS:
            message = f"Excessively large number of partitions per request: {partitions}."
            refused = tuple([
                (topic.topic, Errors.POLICY_VIOLATION, message) for topic in request.topics
            ])  # fmt: skip
            return [], CreateTopicsResponse(refused)
        records, results = self._each(request.topics, self._create)
        return records, CreateTopicsResponse(results)

    def create_partitions(
        self, request: CreatePartitionsRequest
    ) -> tuple[list[Any], CreatePartitionsResponse]:
        """Return the records of the partitions that can be added, and a result for each topic."""
        records, results = self._each(request.topics, self._grow)
        return records, CreatePartitionsResponse(Errors.NONE, results)

    def _each(
        self, topics: Sequence[T], make: Callable[[T], list[Any] | Refused]
    ) -> tuple[list[Any], tuple[Result, ...]]:
        """Make the records of each topic on its own; one that is asked for twice gets none."""
        names = [topic.topic for topic in topics]
        records: list[Any] = []
        results: list[Result] = []
        for topic in topics:
            if names.count(topic.topic) > 1:
                outcome: list[Any] | Refused = Refused(
                    Errors.INVALID_REQUEST, "Duplicate topic name."
                )
            else:
                outcome = make(topic)
            if isinstance(outcome, Refused):
                results.append((topic.topic, outcome.error, outcome.message))
            else:
                records += outcome
                results.append((topic.topic, Errors.NONE, ""))
        return records, tuple(results)

    def delete_topics(self, request: DeleteTopicsRequest) -> tuple[list[Any], DeleteTopicsResponse]:
        """Return the records that remove the topics, and a result for each of them."""
        records: list[Any] = []
        results: list[tuple[str, str, Errors, str]] = []
        names = self.image.topic_names
        for name, topic_id in request.topics:
            error, message = Errors.NONE, ""
            if request.topics.count((name, topic_id)) > 1:
                error, message = Errors.INVALID_REQUEST, "Duplicate topic name or id."
            elif name and topic_id:
                message = "You may not specify both topic name and topic id."
                error = Errors.INVALID_REQUEST
            elif name and name not in names:
                message = "This server does not host this topic-partition."
                error = Errors.UNKNOWN_TOPIC_OR_PARTITION
            elif not name and topic_id not in self.image.topics:
                message = "This server does not host this topic ID."
                error = Errors.UNKNOWN_TOPIC_ID
            found = names.get(name, topic_id)
            if error is Errors.NONE:
                records.append(RemoveTopicRecord(found))
                name = self.image.topics[found].name
            results.append((name, found, error, message))
        return records, DeleteTopicsResponse(Errors.NONE, tuple(results))

    def _create(self, topic: CreatableTopic) -> list[Any] | Refused:
        problem = name_problem(topic.topic)
        if problem is not None:
            return Refused(Errors.INVALID_TOPIC_EXCEPTION, problem)
        if topic.topic in self.image.topic_names:
            return Refused(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{topic.topic}' already exists.")
        try:
            TopicConfig.from_properties(dict(topic.configs))
        except ConfigError as error:
            return Refused(Errors.INVALID_CONFIG, str(error))
        replicas = self._assigned(topic) if topic.assignments else self._placed(topic)
        if isinstance(replicas, Refused):
            return replicas
        topic_id = random_uuid(self.rng)
        records: list[Any] = [TopicRecord(topic.topic, topic_id)]
        records += [ConfigRecord(topic.topic, key, text) for key, text in topic.configs]
        added = self._partitions(topic_id, 0, replicas, manual=bool(topic.assignments))
        return added if isinstance(added, Refused) else records + added

    def _grow(self, topic: CreatePartitionsTopic) -> list[Any] | Refused:
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
        replicas = self.replicas_of_new(topic, count, factor)
        if isinstance(replicas, Refused):
            return replicas
        return self._partitions(topic_id, count, replicas, manual=bool(topic.assignments))

    def replicas_of_new(
        self, topic: CreatePartitionsTopic, count: int, factor: int
    ) -> list[tuple[int, ...]] | Refused:
        """Return the replicas of the partitions that a topic of ``count`` shall get."""
        if not topic.assignments:
            return self._place(topic.count - count, factor)
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

    def _partitions(
        self, topic_id: str, first: int, replicas: list[tuple[int, ...]], manual: bool
    ) -> list[Any] | Refused:
        """Return the records of new partitions, numbered from ``first``: who is active is in sync."""
        records: list[Any] = []
        for partition, assignment in enumerate(replicas, first):
            isr = tuple(replica for replica in assignment if self.image.is_active(replica))
            if not isr:
                return _no_active(manual, partition, len(assignment))
            directories = self.cluster.directories(assignment)
            records.append(
                PartitionRecord(
                    topic_id, partition, assignment, isr, isr[0], directories=directories
                )
            )
        return records

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
        brokers = self.cluster.usable_brokers()
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
        """Return what is wrong with a manual assignment (validateManualPartitionAssignment)."""
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


def name_problem(name: str) -> str | None:
    """Return why ``name`` is no topic name (org.apache.kafka.common.internals.Topic), or None."""
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
