"""Which thread of which consumer owns which partition (kafka.consumer.PartitionAssignor).

Every consumer computes the assignment of the whole group from what it has read in ZooKeeper. Two
that have read different lists compute different assignments; the registry of owners tells.
"""

from __future__ import annotations

from collections.abc import Mapping

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.coordinator.hashing import java_string_hash
from kafkasim.model.records import TopicPartition
from kafkasim.model.values import value

Subscription = Mapping[str, int]
"""Topics and the number of streams that the consumer reads each with (TopicCount)."""


@value
class AssignmentContext:
    """What one consumer knows of its group and of the topics."""

    consumer: str
    subscription: Subscription  # its own
    subscriptions: dict[str, Subscription]  # of all consumers, by id
    partitions: dict[str, tuple[int, ...]]  # of all topics that anybody subscribes to, ascending
    consumers: tuple[str, ...]  # sorted
    version: int  # how often consumers have come and gone: the cversion of the ids' znode

    def threads_of(self, topic: str) -> list[str]:
        """Return the threads that read a topic, as ConsumerThreadIds are sorted: as text."""
        return sorted(
            thread_id(consumer, number)
            for consumer, topics in self.subscriptions.items()
            for number in range(topics.get(topic, 0))
        )


def thread_id(consumer: str, number: int) -> str:
    """Return ``CONSUMER-NUMBER``, the data of an owner's znode (ConsumerThreadId)."""
    return f"{consumer}-{number}"


Assignment = dict[TopicPartition, str]
"""A consumer's partitions, with the thread that owns each."""


def assign_range(context: AssignmentContext) -> Assignment:
    """Cut the partitions of each topic into ranges, one for each thread (RangeAssignor).

    The first threads get one more when the number does not divide evenly.

    Raises:
        KafkaError: the consumer has not found itself in the group.
    """
    assigned: Assignment = {}
    own = dict.fromkeys(_own_threads(context))
    for topic in sorted(context.subscription):
        threads = context.threads_of(topic)
        partitions = context.partitions.get(topic, ())
        if not threads:
            raise KafkaError("NO_CONSUMER", topic)
        per_thread, extra = divmod(len(partitions), len(threads))
        for place, thread in enumerate(threads):
            start = per_thread * place + min(place, extra)
            size = per_thread + (1 if place < extra else 0)
            if thread in own:
                for partition in partitions[start : start + size]:
                    assigned[TopicPartition(topic, partition)] = thread
    return assigned


def assign_round_robin(context: AssignmentContext) -> Assignment:
    """Deal all partitions out to all threads in turn (RoundRobinAssignor).

    The partitions are in the order of the hash of their names. A thread that does not read a
    partition's topic is passed over, and its turn is over (KAFKA-2434).
    """
    topics = context.partitions
    readers = {topic: dict.fromkeys(context.threads_of(topic)) for topic in topics}
    threads = sorted(dict.fromkeys([thread for each in readers.values() for thread in each]))
    partitions = [TopicPartition(topic, number) for topic in topics for number in topics[topic]]
    partitions.sort(key=lambda tp: java_string_hash(f"{tp.topic}-{tp.partition}"))
    own = dict.fromkeys(_own_threads(context))
    assigned: Assignment = {}
    turn = 0
    for tp in partitions:
        while threads[turn % len(threads)] not in readers[tp.topic]:
            turn += 1
        thread = threads[turn % len(threads)]
        turn += 1
        if thread in own:
            assigned[tp] = thread
    return assigned


def _own_threads(context: AssignmentContext) -> list[str]:
    counts = context.subscription.values()
    return [thread_id(context.consumer, number) for number in range(max(counts, default=0))]


ASSIGNORS = {"range": assign_range, "roundrobin": assign_round_robin}
"""partition.assignment.strategy to its function."""
