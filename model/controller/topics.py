"""Creates and deletes topics (ReplicationControlManager), with Kafka's order of checks.

Per topic: name, existence, settings, then a manual assignment or the replication factor and the
number of partitions, then placement. A topic that fails leaves the others of the request alone.
Left out: create-topic policies, validate-only requests, quotas.
"""

from __future__ import annotations

import base64
import random
import re
from typing import Any

from model.config import BrokerConfig, ConfigError, TopicConfig
from model.controller.cluster import ClusterControlManager
from model.controller.image import MetadataImage
from model.controller.placement import place, placement_problem
from model.controller.reassignments import assignment_problem
from model.controller.records import ConfigRecord, PartitionRecord, RemoveTopicRecord, TopicRecord
from model.errors import Errors
from model.messages import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
)
from model.values import value

MAX_NAME = 249
MAX_PARTITIONS = 10_000  # of one request: its records are one batch (MAX_PARTITIONS_PER_BATCH)
_LEGAL = re.compile(r"[a-zA-Z0-9._-]+")

Result = tuple[str, Errors, str]


@value
class _Refused:
    error: Errors
    message: str


class TopicControlManager:
    """Answers CreateTopics with records and results; changes nothing itself."""

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
        names = [topic.topic for topic in request.topics]
        partitions = sum([max(t.num_partitions, len(t.assignments)) for t in request.topics])
        if partitions > MAX_PARTITIONS:
            message = f"Excessively large number of partitions per request: {partitions}."
            refused = tuple([(name, Errors.POLICY_VIOLATION, message) for name in names])
            return [], CreateTopicsResponse(refused)
        records: list[Any] = []
        results: list[Result] = []
        for topic in request.topics:
            if names.count(topic.topic) > 1:
                outcome: list[Any] | _Refused = _Refused(
                    Errors.INVALID_REQUEST, "Duplicate topic name."
                )
            else:
                outcome = self._create(topic)
            if isinstance(outcome, _Refused):
                results.append((topic.topic, outcome.error, outcome.message))
            else:
                records += outcome
                results.append((topic.topic, Errors.NONE, ""))
        return records, CreateTopicsResponse(tuple(results))

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

    def _create(self, topic: CreatableTopic) -> list[Any] | _Refused:
        problem = name_problem(topic.topic)
        if problem is not None:
            return _Refused(Errors.INVALID_TOPIC_EXCEPTION, problem)
        if topic.topic in self.image.topic_names:
            return _Refused(Errors.TOPIC_ALREADY_EXISTS, f"Topic '{topic.topic}' already exists.")
        try:
            TopicConfig.from_properties(dict(topic.configs))
        except ConfigError as error:
            return _Refused(Errors.INVALID_CONFIG, str(error))
        replicas = self._assigned(topic) if topic.assignments else self._placed(topic)
        if isinstance(replicas, _Refused):
            return replicas
        topic_id = random_topic_id(self.rng)
        records: list[Any] = [TopicRecord(topic.topic, topic_id)]
        records += [ConfigRecord(topic.topic, key, text) for key, text in topic.configs]
        for partition, assignment in enumerate(replicas):
            isr = tuple(replica for replica in assignment if self.image.is_active(replica))
            if not isr:
                return _Refused(*_no_active(topic, partition, len(assignment)))
            records.append(PartitionRecord(topic_id, partition, assignment, isr, isr[0]))
        return records

    def _placed(self, topic: CreatableTopic) -> list[tuple[int, ...]] | _Refused:
        factor, partitions = topic.replication_factor, topic.num_partitions
        if factor < -1 or factor == 0:
            return _Refused(
                Errors.INVALID_REPLICATION_FACTOR,
                "Replication factor must be larger than 0, or -1 to use the default value.",
            )
        if partitions < -1 or partitions == 0:
            return _Refused(
                Errors.INVALID_PARTITIONS,
                "Number of partitions was set to an invalid non-positive value.",
            )
        factor = self.config.default_replication_factor if factor == -1 else factor
        partitions = self.config.num_partitions if partitions == -1 else partitions
        brokers = self.cluster.usable_brokers()
        problem = placement_problem(factor, brokers)
        if problem is not None:
            return _Refused(Errors.INVALID_REPLICATION_FACTOR, problem)
        return place(self.rng, partitions, factor, brokers)

    def _assigned(self, topic: CreatableTopic) -> list[tuple[int, ...]] | _Refused:
        for name, number in (
            ("replication factor", topic.replication_factor),
            ("partition count", topic.num_partitions),
        ):
            if number != -1:
                return _Refused(
                    Errors.INVALID_REQUEST,
                    f"A manual partition assignment was specified, but {name} was not set to -1.",
                )
        factor = len(topic.assignments[0])
        for replicas in topic.assignments:
            problem = assignment_problem(replicas, self.image)
            if problem is None and len(replicas) != factor:
                problem = (
                    f"The manual partition assignment includes a partition with {len(replicas)}"
                    f" replica(s), but this is not consistent with previous partitions, which have"
                    f" {factor} replica(s)."
                )
            if problem is not None:
                return _Refused(Errors.INVALID_REPLICA_ASSIGNMENT, problem)
        return list(topic.assignments)


def _no_active(topic: CreatableTopic, partition: int, factor: int) -> tuple[Errors, str]:
    if topic.assignments:
        return (
            Errors.INVALID_REPLICA_ASSIGNMENT,
            (
                "All brokers specified in the manual partition assignment for partition"
                f" {partition} are fenced or in controlled shutdown."
            ),
        )
    return (
        Errors.INVALID_REPLICATION_FACTOR,
        (
            f"Unable to replicate the partition {factor} time(s): All brokers are currently fenced or"
            " in controlled shutdown."
        ),
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


def random_topic_id(rng: random.Random) -> str:
    """Return a topic id as Kafka prints it: 128 bits in URL-safe base 64, never starting with a
    dash (Uuid.randomUuid)."""
    while True:
        text = base64.urlsafe_b64encode(rng.getrandbits(128).to_bytes(16, "big")).decode()
        if not text.startswith("-"):
            return text.rstrip("=")
