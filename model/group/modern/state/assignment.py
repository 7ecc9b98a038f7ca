"""Sets of partitions of several topics, as consumer groups assign them.

An assignment maps a topic's id to partitions. It is canonical: topics and partitions rise, and no
topic is empty. So equal assignments are equal dictionaries with one order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping

from kafkasim.model.messages import TopicIdPartitions

Assignment = Mapping[str, tuple[int, ...]]
"""Topic id to partitions."""

EMPTY: Assignment = {}


def assignment_of(partitions: Iterable[tuple[str, int]]) -> Assignment:
    """Return the assignment of (topic id, partition) in any order."""
    by_topic: dict[str, list[int]] = {}
    for topic_id, partition in sorted(partitions):
        by_topic.setdefault(topic_id, []).append(partition)
    return {topic_id: tuple(numbers) for topic_id, numbers in by_topic.items()}


def partitions_of(assignment: Assignment) -> Iterator[tuple[str, int]]:
    """Return (topic id, partition) of all partitions, rising."""
    for topic_id, numbers in assignment.items():
        for number in numbers:
            yield topic_id, number


def has(assignment: Assignment, topic_id: str, partition: int) -> bool:
    """Return whether a partition is in an assignment."""
    return partition in assignment.get(topic_id, ())


def intersect(one: Assignment, other: Assignment) -> Assignment:
    """Return the partitions that are in both."""
    return assignment_of([each for each in partitions_of(one) if has(other, *each)])


def subtract(one: Assignment, other: Assignment) -> Assignment:
    """Return the partitions of ``one`` that are not in ``other``."""
    return assignment_of([each for each in partitions_of(one) if not has(other, *each)])


def union(one: Assignment, other: Assignment) -> Assignment:
    """Return the partitions that are in one of both."""
    return assignment_of([*partitions_of(one), *partitions_of(subtract(other, one))])


def from_message(topic_partitions: TopicIdPartitions) -> Assignment:
    """Return the assignment that a message names."""
    return assignment_of([(topic, number) for topic, some in topic_partitions for number in some])


def to_message(assignment: Assignment) -> TopicIdPartitions:
    """Return an assignment as messages and records have it."""
    return tuple(assignment.items())
