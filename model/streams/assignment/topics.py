"""Internal topics: how many partitions they get, and their creation.

Models RepartitionTopics, CopartitionedTopicsEnforcer, ChangelogTopics, PartitionGrouper and
InternalTopicManager.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from kafkasim.model.client.exceptions import KafkaTimeoutError
from kafkasim.model.errors import RETRIABLE, Errors
from kafkasim.model.messages import CreatableTopic, MetadataResponse
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.errors import StreamsError
from kafkasim.model.streams.port import Client, Port, wall_ms
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.streams.topology import Subtopology

RETRY_S = 0.1  # retry.backoff.ms

Counts = dict[str, int]
"""Partitions by topic."""


class AssignmentFailed(StreamsError):
    """The numbers of partitions cannot be found out (TaskAssignmentException)."""


def missing_sources(subtopologies: Iterable[Subtopology], counts: Mapping[str, int]) -> list[str]:
    """Return the input topics that do not exist and nobody will create."""
    return [
        topic
        for each in subtopologies
        for topic in each.source_topics
        if topic not in each.repartition_topics and not counts.get(topic)
    ]


def repartition_counts(
    subtopologies: Sequence[Subtopology],
    copartition_groups: Iterable[Sequence[str]],
    counts: Mapping[str, int],
) -> Counts:
    """Return how many partitions each repartition topic must have.

    A number that the user gave, or the largest of the topics that feed it; topics that are joined
    get the same number.

    Raises:
        AssignmentFailed: no number can be found out.
        StreamsError: topics that are joined have different numbers (TopologyException).
    """
    given = {
        topic: number for each in subtopologies for topic, number in each.repartition_topics.items()
    }
    found: Counts = {topic: number for topic, number in given.items() if number is not None}
    while len(found) < len(given):
        before = len(found)
        for topic in given:
            if topic not in found:
                number = _largest_upstream(topic, subtopologies, given, found, counts)
                if number is not None:
                    found[topic] = number
        if len(found) == before:
            raise AssignmentFailed("Failed to compute number of partitions for all repartition "
                                   "topics: a source topic is missing")  # fmt: skip
    for group in copartition_groups:
        _enforce(group, given, found, counts)
    return found


def _largest_upstream(
    topic: str,
    subtopologies: Iterable[Subtopology],
    given: Mapping[str, int | None],
    found: Mapping[str, int],
    counts: Mapping[str, int],
) -> int | None:
    numbers = [
        found.get(source) if source in given else counts[source]
        for each in subtopologies
        if topic in each.sink_topics
        for source in each.source_topics
    ]
    known = [number for number in numbers if number is not None]
    return max(known, default=None)


def _enforce(
    group: Sequence[str],
    given: Mapping[str, int | None],
    found: Counts,
    counts: Mapping[str, int],
) -> None:
    """Give the topics of a join the same number of partitions (CopartitionedTopicsEnforcer)."""
    internal = [topic for topic in group if topic in given]
    external = {topic: counts[topic] for topic in group if topic not in given}
    enforced = {topic: found[topic] for topic in internal if given[topic] is not None}
    if len(set(external.values())) > 1 or (not external and len(set(enforced.values())) > 1):
        told = external or enforced
        text = ", ".join([f"{topic} has {number}" for topic, number in sorted(told.items())])
        raise StreamsError(f"Topics not co-partitioned: {text} partitions")
    numbers = list((external or enforced or {topic: found[topic] for topic in internal}).values())
    number = max(numbers)
    for topic in internal:
        if given[topic] is None:
            found[topic] = number
        elif found[topic] != number:
            raise StreamsError(
                f"Number of partitions [{found[topic]}] of repartition topic [{topic}] doesn't "
                f"match number of partitions [{number}] of the source topic."
            )


def partition_groups(
    subtopologies: Iterable[Subtopology], counts: Mapping[str, int]
) -> dict[TaskId, tuple[TopicPartition, ...]]:
    """Return the tasks, and the input partitions of each (PartitionGrouper)."""
    tasks: dict[TaskId, tuple[TopicPartition, ...]] = {}
    for each in subtopologies:
        for partition in range(max([counts[topic] for topic in each.source_topics])):
            tasks[TaskId(each.id, partition)] = tuple(
                [
                    TopicPartition(topic, partition)
                    for topic in sorted(each.source_topics)
                    if partition < counts[topic]
                ]
            )
    return tasks


class InternalTopicManager:
    """Creates internal topics, and checks those that there are."""

    def __init__(self, port: Port, admin: Client, replication_factor: int, limit_ms: int) -> None:
        """``limit_ms``: half of max.poll.interval.ms, after which it gives up."""
        self._port = port
        self._admin = admin
        self._replication_factor = replication_factor
        self._limit_ms = limit_ms

    async def make_ready(
        self, wanted: Mapping[str, tuple[int, Mapping[str, str]]]
    ) -> dict[str, None]:
        """Have topics with these (partitions, settings); return those that were created.

        Raises:
            StreamsError: a topic has another number of partitions, or cannot be created.
            KafkaTimeoutError: it took too long.
        """
        created: dict[str, None] = {}
        left = dict(wanted)
        deadline = wall_ms(self._port) + self._limit_ms
        while left:
            missing = await self._validate(left)
            if missing:
                created |= await self._create({topic: wanted[topic] for topic in missing})
            left = {topic: wanted[topic] for topic in missing if topic not in created}
            if left:
                if wall_ms(self._port) >= deadline:
                    raise KafkaTimeoutError("TIMED_OUT", f"creating {', '.join(left)}")
                await self._port.sleep(RETRY_S)
        return created

    async def _validate(self, wanted: Mapping[str, tuple[int, Mapping[str, str]]]) -> list[str]:
        """Return the topics that do not exist."""
        try:
            found: MetadataResponse = await self._admin.call("metadata", tuple(wanted), False)
        except KafkaTimeoutError:
            return list(wanted)
        known = {topic.topic: topic for topic in found.topics if not topic.error}
        missing = []
        for name, (partitions, _) in wanted.items():
            topic = known.get(name)
            if topic is None:
                missing.append(name)
            elif len(topic.partitions) != partitions:
                raise StreamsError(
                    f"Existing internal topic {name} has invalid partitions: expected: "
                    f"{partitions}; actual: {len(topic.partitions)}."
                )
        return missing

    async def _create(self, wanted: Mapping[str, tuple[int, Mapping[str, str]]]) -> dict[str, None]:
        topics = tuple(
            [
                CreatableTopic(
                    name, partitions, self._replication_factor, (), tuple(sorted(configs.items()))
                )
                for name, (partitions, configs) in wanted.items()
            ]
        )
        try:
            results = await self._admin.call("create_topics", topics)
        except KafkaTimeoutError:
            return {}
        created: dict[str, None] = {}
        for name, error, message in results:
            if not error:
                created[name] = None
            elif error is not Errors.TOPIC_ALREADY_EXISTS and error not in RETRIABLE:
                raise StreamsError(f"Could not create topic {name}: {message or error.name}")
        return created
