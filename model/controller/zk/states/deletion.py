"""TopicDeletionManager: topics named under /admin/delete_topics go, replica by replica.

A topic waits (ineligible) while a broker with a replica of it is down, and may wait for a
reassignment of one of its partitions. First all brokers hear that it has no leader, then its replicas are stopped and
deleted (ReplicaDeletionStarted); when all have answered, its znodes go. The leader epoch does not
rise, so StopReplica carries EpochDuringDelete.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import (
    DELETION_INELIGIBLE,
    DELETION_STARTED,
    DELETION_SUCCESSFUL,
    NON_EXISTENT,
    OFFLINE,
    Replica,
)
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.store.zk_data import DELETE_TOPICS, config_path, topic_path
from kafkasim.model.facts import TopicDeleted
from kafkasim.model.zookeeper.ops import Delete

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.channels import RequestBatch
    from kafkasim.model.controller.zk.context import ControllerContext
    from kafkasim.model.controller.zk.states.partition_states import PartitionStateMachine
    from kafkasim.model.controller.zk.states.replica_states import ReplicaStateMachine
    from kafkasim.model.controller.zk.store.writes import ControllerStore


class TopicDeletionManager:
    """Deletes topics; ``now`` is set by the controller."""

    def __init__(
        self,
        context: ControllerContext,
        store: ControllerStore,
        batch: RequestBatch,
        partitions: PartitionStateMachine,
        replicas: ReplicaStateMachine,
    ) -> None:
        self.context = context
        self.store = store
        self.batch = batch
        self.partitions = partitions
        self.replicas = replicas
        self.now = 0

    def enqueue(self, topics: list[str]) -> Steps:
        """Topics shall go."""
        for topic in topics:
            self.context.topics_to_delete[topic] = None
        yield from self.resume()

    def mark_ineligible(self, topics: list[str]) -> None:
        """These topics cannot go now."""
        for topic in topics:
            if topic in self.context.topics_to_delete:
                self.context.topics_ineligible[topic] = None

    def resume_for(self, topics: list[str]) -> Steps:
        """What kept these topics is over."""
        waiting = [topic for topic in topics if self.context.deleting(topic)]
        for topic in waiting:
            self.context.topics_ineligible.pop(topic, None)
        if waiting:
            yield from self.resume()

    def fail(self, replicas: list[Replica]) -> Steps:
        """Replicas could not be deleted: their broker is down, or it refused."""
        self.replicas.to(replicas, DELETION_INELIGIBLE)
        self.mark_ineligible(list(dict.fromkeys([tp.topic for tp, _ in replicas])))
        yield from self.resume()

    def complete(self, replicas: list[Replica]) -> Steps:
        """Replicas have been deleted."""
        self.replicas.to(replicas, DELETION_SUCCESSFUL)
        yield from self.resume()

    def resume(self) -> Steps:
        """Go on with every topic as far as it goes (resumeDeletions)."""
        context = self.context
        eligible: list[str] = []
        for topic in list(context.topics_to_delete):
            every = context.replicas_of_topic(topic)
            states = [context.replica_states.get(key) for key in every]
            if all(state == DELETION_SUCCESSFUL for state in states):
                yield from self._complete_topic(topic)
                continue
            started = DELETION_STARTED in states
            if not started and DELETION_INELIGIBLE in states:
                failed = context.replicas_in(topic, DELETION_INELIGIBLE)
                yield from self.replicas.to_offline(failed)
            if not started and topic not in context.topics_ineligible:
                eligible.append(topic)
        if eligible:
            yield from self._begin(eligible)

    def _begin(self, topics: list[str]) -> Steps:
        """Let all brokers reject the topics, then stop and delete their replicas."""
        context = self.context
        for topic in topics:
            if topic not in context.deletion_started:
                context.deletion_started[topic] = None
                self.partitions.to(context.partitions_of(topic), OFFLINE)
        self.batch.new_batch()
        gone = [tp for topic in topics for tp in context.partitions_of(topic)]
        self.batch.add_update_metadata(context.live_or_shutting_down(), gone)
        self.batch.send(self.now)
        every = [key for topic in topics for key in context.replicas_of_topic(topic)]
        dead = [key for key in every if not context.online(key[1], key[0])]
        alive = [key for key in every if context.online(key[1], key[0])]
        alive = [key for key in alive if context.replica_states.get(key) != DELETION_SUCCESSFUL]
        self.replicas.to(dead, DELETION_INELIGIBLE)
        yield from self.replicas.to_offline(alive)
        self.replicas.to(alive, DELETION_STARTED)
        self.mark_ineligible(list(dict.fromkeys([tp.topic for tp, _ in dead])))

    def _complete_topic(self, topic: str) -> Steps:
        context = self.context
        self.replicas.to(context.replicas_of_topic(topic), NON_EXISTENT)
        self.partitions.to(context.partitions_of(topic), NON_EXISTENT)
        zxid = yield from self.store.delete_recursive(topic_path(topic))
        topic_id = context.topic_ids.get(topic, topic)
        self.store.out.append(TopicDeleted(zxid, topic_id, topic))
        yield from self.store.delete_recursive(config_path(topic))
        yield from self.store.write(Delete(f"{DELETE_TOPICS}/{topic}"))
        context.remove_topic(topic)
