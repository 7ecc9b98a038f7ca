"""Topics are created, grow and are deleted (processTopicChange, processPartitionModifications,
processTopicDeletion)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import ControllerContext, ZkPartitionState
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.states.elections import Strategy
from kafkasim.model.controller.zk.store.zk_data import DELETE_TOPICS, TOPICS, topic_path
from kafkasim.model.records import TopicPartition
from kafkasim.model.zookeeper.ops import Delete, GetData, SetData, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.states.deletion import TopicDeletionManager
    from kafkasim.model.controller.zk.states.partition_states import PartitionStateMachine
    from kafkasim.model.controller.zk.states.replica_states import ReplicaStateMachine
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore
    from kafkasim.model.controller.zk.store.loading import ContextLoader


class TopicChanges:
    """Reacts to /brokers/topics and /admin/delete_topics."""

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        loading: ContextLoader,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
        deletion: TopicDeletionManager,
    ) -> None:
        self.context = context
        self.store = store
        self.loading = loading
        self.partitions = partitions
        self.replicas = replicas
        self.deletion = deletion

    def process(self) -> Steps:
        """Bring new topics online; forget topics whose znode is gone."""
        context = self.context
        names = yield from self.store.children(TOPICS)
        known = frozenset(names)
        for gone in [topic for topic in context.topic_ids if topic not in known]:
            context.remove_topic(gone)
        new = [name for name in names if name not in context.topic_ids]
        added = yield from self.loading.read_topics(new)
        if added:
            yield from self._create(added)

    def modified(self, topic: str) -> Steps:
        """Bring a topic's new partitions online; a topic being deleted gets none."""
        context = self.context
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
            yield from self.store.write(SetData(topic_path(topic), data))
            return
        for tp, entry in added:
            context.assign(tp, entry)
        yield from self._create([tp for tp, _ in added])

    def _create(self, partitions: list[TopicPartition]) -> Steps:
        """Bring new partitions online (onNewPartitionCreation)."""
        replicas = self.context.replicas_of(partitions)
        self.partitions.to(partitions, ZkPartitionState.NEW)
        self.replicas.to_new(replicas)
        yield from self.partitions.to_online(partitions, Strategy.OFFLINE)
        self.replicas.to_online(replicas)

    def process_deletions(self) -> Steps:
        """Queue the topics named under /admin/delete_topics for deletion."""
        context = self.context
        names = yield from self.store.children(DELETE_TOPICS)
        unknown = [name for name in names if name not in context.topic_ids]
        if unknown:
            yield from self.store.write(*[Delete(f"{DELETE_TOPICS}/{name}") for name in unknown])
        wanted = [
            name for name in names
            if name in context.topic_ids and name not in context.topics_to_delete
        ]  # fmt: skip
        # Kafka marks a topic ineligible before it queues it, when the mark has no effect yet. So a
        # deletion that is asked for during a reassignment begins all the same. A new controller,
        # or the next phase of the reassignment, lets it wait.
        self.deletion.mark_ineligible([topic for topic in wanted if context.is_reassigning(topic)])
        if wanted:
            yield from self.deletion.enqueue(wanted)
