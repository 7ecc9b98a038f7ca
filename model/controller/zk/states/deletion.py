"""Deletes the topics named under /admin/delete_topics, replica by replica (TopicDeletionManager).

First all brokers learn that the topic has no leader (LeaderDuringDelete). Then the controller stops
and deletes the replicas (ReplicaDeletionStarted). When all brokers have answered, it deletes the
topic's znodes. The leader epoch does not rise, so StopReplica carries EpochDuringDelete.

A topic is ineligible, and waits, while a broker with a replica of it is down. It may also wait for
the reassignment of one of its partitions.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.controller.zk.context import (
    ControllerContext,
    Replica,
    ZkPartitionState,
    ZkReplicaState,
)
from kafkasim.model.controller.zk.events import Steps
from kafkasim.model.controller.zk.store.zk_data import DELETE_TOPICS, config_path, topic_path
from kafkasim.model.facts import TopicDeleted, TopicDeletionQueued
from kafkasim.model.zookeeper.ops import Delete

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.channels import RequestBatch
    from kafkasim.model.controller.zk.states.partition_states import PartitionStateMachine
    from kafkasim.model.controller.zk.states.replica_states import ReplicaStateMachine
    from kafkasim.model.controller.zk.store.controller_store import ControllerStore

STARTED = ZkReplicaState.DELETION_STARTED
SUCCESSFUL = ZkReplicaState.DELETION_SUCCESSFUL
INELIGIBLE = ZkReplicaState.DELETION_INELIGIBLE


class TopicDeletionManager:
    """Deletes topics as far as the live brokers allow."""

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

    def enqueue(self, topics: list[str]) -> Steps:
        """Queue topics for deletion and begin."""
        for topic in topics:
            self.context.topics_to_delete[topic] = None
            topic_id = self.context.topic_ids.get(topic, topic)
            self.store.out.append(TopicDeletionQueued(topic_id, topic))
        yield from self.resume()

    def mark_ineligible(self, topics: list[str]) -> None:
        """Let those of these topics that are queued for deletion wait."""
        for topic in topics:
            if topic in self.context.topics_to_delete:
                self.context.topics_ineligible[topic] = None

    def resume_for(self, topics: list[str]) -> Steps:
        """Go on with these topics: what they waited for is over."""
        waiting = [topic for topic in topics if self.context.deleting(topic)]
        for topic in waiting:
            self.context.topics_ineligible.pop(topic, None)
        if waiting:
            yield from self.resume()

    def fail(self, replicas: list[Replica]) -> Steps:
        """Let the topics of these replicas wait: the broker is down or refused to delete."""
        self.replicas.to(replicas, INELIGIBLE)
        self.mark_ineligible(list(dict.fromkeys([tp.topic for tp, _ in replicas])))
        yield from self.resume()

    def complete(self, replicas: list[Replica]) -> Steps:
        """Go on after the brokers have deleted these replicas."""
        self.replicas.to(replicas, SUCCESSFUL)
        yield from self.resume()

    def resume(self) -> Steps:
        """Go on with every queued topic as far as possible (resumeDeletions)."""
        context = self.context
        before = self.store.because("deletion")
        eligible: list[str] = []
        for topic in list(context.topics_to_delete):
            every = context.replicas_of_topic(topic)
            states = [context.replica_states.get(key) for key in every]
            if all(state is SUCCESSFUL for state in states):
                yield from self._complete_topic(topic)
                continue
            started = STARTED in states
            if not started and INELIGIBLE in states:
                failed = context.replicas_in(topic, INELIGIBLE)
                yield from self.replicas.to_offline(failed)
            if not started and topic not in context.topics_ineligible:
                eligible.append(topic)
        if eligible:
            yield from self._begin(eligible)
        self.store.because(before)

    def _begin(self, topics: list[str]) -> Steps:
        """Tell all brokers that the topics have no leader, then stop and delete their replicas."""
        context = self.context
        for topic in topics:
            if topic not in context.deletion_started:
                context.deletion_started[topic] = None
                self.partitions.to(context.partitions_of(topic), ZkPartitionState.OFFLINE)
        self.batch.new_batch()
        gone = [tp for topic in topics for tp in context.partitions_of(topic)]
        self.batch.add_update_metadata(context.live_or_shutting_down(), gone)
        self.batch.send()
        every = [key for topic in topics for key in context.replicas_of_topic(topic)]
        dead = [key for key in every if not context.online(key[1], key[0])]
        alive = [key for key in every if context.online(key[1], key[0])]
        alive = [key for key in alive if context.replica_states.get(key) is not SUCCESSFUL]
        self.replicas.to(dead, INELIGIBLE)
        yield from self.replicas.to_offline(alive)
        self.replicas.to(alive, STARTED)
        self.mark_ineligible(list(dict.fromkeys([tp.topic for tp, _ in dead])))

    def _complete_topic(self, topic: str) -> Steps:
        context = self.context
        self.replicas.to(context.replicas_of_topic(topic), ZkReplicaState.NON_EXISTENT)
        self.partitions.to(context.partitions_of(topic), ZkPartitionState.NON_EXISTENT)
        zxid = yield from self.store.delete_recursive(topic_path(topic))
        topic_id = context.topic_ids.get(topic, topic)
        self.store.out.append(TopicDeleted(zxid, topic_id, topic))
        yield from self.store.delete_recursive(config_path(topic))
        yield from self.store.write(Delete(f"{DELETE_TOPICS}/{topic}"))
        context.remove_topic(topic)
