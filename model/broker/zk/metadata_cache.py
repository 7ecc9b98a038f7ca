"""ZkMetadataCache: what the controller's UpdateMetadata requests told the broker.

It fills the same image that a KRaft broker replays from the metadata log, so the parts that serve
clients do not know the difference.
"""

from __future__ import annotations

from kafkasim.model.controller.common.image import (
    BrokerImage,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from kafkasim.model.messages import ControlPartition, UpdateMetadataRequest
from kafkasim.model.messages.servers.control import LEADER_DURING_DELETE


class ZkMetadataCache:
    """The metadata cache of a broker in ZooKeeper mode.

    It also tells the broker's links where the active controller is
    (:class:`~kafkasim.model.broker.common.controller_link.ControllerNodes`).
    """

    def __init__(self) -> None:
        self.image = MetadataImage()
        self.controller_id = -1  # the sender of the last UpdateMetadata

    def active(self) -> int:
        """Return the broker that is the controller, −1 before the first UpdateMetadata."""
        return self.controller_id

    def address(self, node_id: int) -> str | None:
        """Return a live broker's endpoint."""
        broker = self.image.brokers.get(node_id)
        return None if broker is None else broker.address

    def update(self, request: UpdateMetadataRequest) -> list[ControlPartition]:
        """Take a request over; return the partitions that it says are deleted."""
        self.controller_id = request.controller_id
        brokers = self.image.brokers
        brokers.clear()
        for each in request.live_brokers:
            brokers[each.id] = BrokerImage(each.id, -1, "", each.address, each.rack, False, False)
        deleted: list[ControlPartition] = []
        for state in request.partitions:
            if state.leader == LEADER_DURING_DELETE:
                deleted.append(state)
                self._forget(state)
            else:
                self._topic(state).partitions[state.tp.partition] = registration(state)
        return deleted

    def _topic(self, state: ControlPartition) -> TopicImage:
        image, name = self.image, state.tp.topic
        topic = image.topics.get(state.topic_id)
        if topic is None:
            before = image.topic_names.get(name)
            if before is not None:  # a topic of the same name that was deleted since
                del image.topics[before]
            topic = image.topics[state.topic_id] = TopicImage(name, state.topic_id)
            image.topic_names[name] = state.topic_id
        return topic

    def _forget(self, state: ControlPartition) -> None:
        """Forget a partition, by its name (ZkMetadataCache.removePartitionInfo)."""
        image = self.image
        topic_id = image.topic_names.get(state.tp.topic)
        if topic_id is None:
            return
        topic = image.topics[topic_id]
        topic.partitions.pop(state.tp.partition, None)
        if not topic.partitions:
            del image.topics[topic_id]
            del image.topic_names[state.tp.topic]
            image.configs.pop(state.tp.topic, None)


def registration(state: ControlPartition) -> PartitionRegistration:
    """Return a control request's partition state in the form that KRaft brokers have it."""
    return PartitionRegistration(
        state.replicas,
        state.isr,
        state.removing_replicas,
        state.adding_replicas,
        state.leader,
        state.leader_epoch,
        state.partition_epoch,
        state.leader_recovery_state,
        (),
        (),
    )
