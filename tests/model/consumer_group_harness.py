"""A group coordinator that knows topics, and the heartbeats of KIP-848."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafkasim.model.controller.common.image import (
    BrokerImage,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from kafkasim.model.coordinator.log import MemoryCoordinatorLog
from kafkasim.model.effects import Request
from kafkasim.model.group.modern.state.consumer_group import ConsumerGroup
from kafkasim.model.messages import ConsumerGroupHeartbeatRequest, TopicIdPartitions
from tests.model.group_harness import GROUP, Bench

__all__ = ["GROUP", "ConsumerBench", "beat", "joining", "leaving"]

ANYWHERE = PartitionRegistration((1,), (1,), (), (), 1, 0, 0, 0, (), ())


class ConsumerBench(Bench):
    """A bench with the topic orders; the id of a topic is ``id-`` and its name."""

    def __init__(
        self, log: MemoryCoordinatorLog | None = None, orders: int = 3, **options: Any
    ) -> None:
        self.image = MetadataImage()
        self.image.features["metadata.version"] = 25
        super().__init__(log, image=self.image, **options)
        self.set_topic("orders", orders)

    def set_topic(self, name: str, partitions: int) -> None:
        """Create a topic, or give it more partitions."""
        image = self.image
        image.offset += 1
        created = name not in image.topic_names
        topic = image.topics.setdefault(f"id-{name}", TopicImage(name, f"id-{name}"))
        image.topic_names[name] = topic.topic_id
        topic.partitions.update(dict.fromkeys(range(partitions), ANYWHERE))
        self.group.on_topics_changed((name,), image.offset if created else None)

    def move_replicas(self, name: str, *replicas: int) -> None:
        """Let the replicas of a topic's first partition be others."""
        self.image.offset += 1
        topic = self.image.topics[f"id-{name}"]
        topic.partitions[0] = replace(ANYWHERE, replicas=replicas)
        self.group.on_topics_changed((name,), None)

    def set_rack(self, broker: int, rack: str | None) -> None:
        """Register a broker."""
        self.image.brokers[broker] = BrokerImage(broker, 1, "", "", rack, False, False)

    def delete_topic(self, name: str) -> None:
        self.image.offset += 1
        del self.image.topics[self.image.topic_names.pop(name)]
        self.group.on_topics_changed((name,), None)

    def ask_only(self, message: Any) -> None:
        """Send a request and let nothing else happen."""
        self.last += 1
        self.group.on_request(Request(7, self.last, message, self.now), self.now)
        self.drain()

    def consumer_group(self) -> ConsumerGroup:
        return self.group.shards[0].consumer_groups[GROUP]

    def snapshot(self) -> Any:
        """Return all that a group's records determine."""
        group = self.consumer_group()
        epochs = (group.group_epoch, group.target_epoch)
        kept = (group.members, group.static_members, group.target, group.metadata, group.regexes)
        return (epochs, [dict(each) for each in kept], dict(group.partition_epochs))

    def owned(self, member_id: str) -> TopicIdPartitions:
        member = self.consumer_group().members[member_id]
        return tuple(member.assigned.items())

    def converge(self, *member_ids: str) -> None:
        """Let members join and heartbeat until all are stable."""
        for member_id in member_ids:
            self.get(joining(member_id))
        for _ in range(4):
            for member_id in member_ids:
                epoch = self.consumer_group().members[member_id].member_epoch
                self.get(beat(member_id, epoch, self.owned(member_id)))
        assert self.consumer_group().state.value == "Stable", self.snapshot()


def joining(
    member_id: str,
    topics: tuple[str, ...] | None = ("orders",),
    rebalance_timeout_ms: int = 300_000,
    **fields: Any,
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(
        GROUP,
        member_id,
        0,
        rebalance_timeout_ms=rebalance_timeout_ms,
        subscribed_topic_names=topics,
        topic_partitions=(),
        **fields,
    )


def beat(
    member_id: str, epoch: int, owned: TopicIdPartitions | None = None, **fields: Any
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(GROUP, member_id, epoch, topic_partitions=owned, **fields)


def leaving(
    member_id: str, epoch: int = -1, instance_id: str | None = None
) -> ConsumerGroupHeartbeatRequest:
    return ConsumerGroupHeartbeatRequest(GROUP, member_id, epoch, instance_id)
