"""Topics appear, grow and shall go (processTopicChange, processPartitionModifications,
processTopicDeletion)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import NEW
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.states.elections import Strategy
from kafkasim.model.controller.zk.store.zk_data import DELETE_TOPICS, TOPICS, topic_path
from kafkasim.model.records import TopicPartition
from kafkasim.model.zookeeper.ops import Delete, GetData, SetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.controller import KafkaController


class TopicChanges:
    """Reacts to /brokers/topics and /admin/delete_topics."""

    def __init__(self, controller: KafkaController) -> None:
        self.controller = controller

    def process(self) -> Steps:
        """Take up new topics; forget those whose znodes are gone."""
        controller = self.controller
        context = controller.context
        names = yield from controller.loading.read_children(TOPICS)
        for gone in [topic for topic in context.topic_ids if topic not in names]:
            context.remove_topic(gone)
        new = [name for name in names if name not in context.topic_ids]
        added = yield from controller.loading.read_topics(new)
        if added:
            yield from self._create(added)

    def modified(self, topic: str) -> Steps:
        """Take up the partitions that a topic has got; a topic that shall go gets none."""
        controller = self.controller
        context = controller.context
        (found,) = yield (GetData(topic_path(topic), watch=True),)
        if found.error is not ZkError.OK or topic not in context.topic_ids:
            return
        entries = [
            (TopicPartition(topic, number), entry) for number, entry in found.data.partitions
        ]
        added = [(tp, entry) for tp, entry in entries if tp not in context.assignments]
        if not added:
            return
        if context.deleting(topic):  # restorePartitionReplicaAssignment
            data = context.topic_assignment(topic)
            yield from controller.store.write(SetData(topic_path(topic), data))
            return
        context.assignments.update(added)
        yield from self._create([tp for tp, _ in added])

    def _create(self, partitions: list[TopicPartition]) -> Steps:
        """Bring new partitions online (onNewPartitionCreation)."""
        controller = self.controller
        replicas = controller.context.replicas_of(partitions)
        controller.partitions.to(partitions, NEW)
        controller.replicas.to_new(replicas)
        yield from controller.partitions.to_online(partitions, Strategy.OFFLINE)
        controller.replicas.to_online(replicas)

    def process_deletions(self) -> Steps:
        """Queue the topics that shall go."""
        controller = self.controller
        context = controller.context
        names = yield from controller.loading.read_children(DELETE_TOPICS)
        unknown = [name for name in names if name not in context.topic_ids]
        if unknown:
            yield from controller.store.write(*[Delete(f"{DELETE_TOPICS}/{n}") for n in unknown])
        wanted = [
            name for name in names
            if name in context.topic_ids and name not in context.topics_to_delete
        ]  # fmt: skip
        busy = [topic for topic in wanted
                if any(tp.topic == topic for tp in context.reassigning)]  # fmt: skip
        # Kafka marks a topic before it queues it, when that has no effect yet: a deletion that is
        # asked for during a reassignment begins all the same. Only a new controller, or the next
        # phase of the reassignment, lets it wait.
        controller.deletion.mark_ineligible(busy)
        if wanted:
            yield from controller.deletion.enqueue(wanted)
