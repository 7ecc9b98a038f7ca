"""BrokerMetadataPublisher: what a broker does about new metadata.

The image is in effect already. First the partitions take their roles (ReplicaManager.applyDelta),
then the coordinators learn which partitions of their topics they have won or lost.
The first publication ends the broker's start.

Left out: quotas, and features other than those in the image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkasim.model.broker.common.coordinators.registry import CoordinatorTopics
    from kafkasim.model.controller.common.image import MetadataDelta, MetadataImage
    from kafkasim.model.replication.manager import ReplicaManager


class BrokerMetadataPublisher:
    """Acts on the deltas of one broker's metadata cache.

    ``topics_deleted(names, now)`` hears of deleted topics. ``first_published(now)`` is called at
    the end of the first publication: the logs are loaded and the partitions have their roles.
    """

    def __init__(
        self,
        broker_id: int,
        image: MetadataImage,
        replicas: ReplicaManager,
        coordinators: CoordinatorTopics,
        topics_deleted: Callable[[tuple[str, ...], int], None],
        first_published: Callable[[int], None],
    ) -> None:
        self.broker_id = broker_id
        self.image = image
        self.replicas = replicas
        self.coordinators = coordinators
        self.topics_deleted = topics_deleted
        self.first_published = first_published

    def publish(self, delta: MetadataDelta, first: bool, now: int) -> None:
        """Act on what changed since the last publication; the ``first`` one ends the start."""
        self.replicas.apply_delta(delta, now)
        self._resign_deleted(delta, first, now)
        self._elect_coordinators(delta, now)
        if first:
            self.first_published(now)

    def _resign_deleted(self, delta: MetadataDelta, first: bool, now: int) -> None:
        for topic_id, topic in delta.deleted_topics.items():
            coordinator = self.coordinators.coordinator_of(topic.name)
            if coordinator is not None:
                for number in topic.partitions:
                    coordinator.on_resigned(number, None, now)
            assert topic_id not in self.image.topics, topic
        if delta.deleted_topics and not first:
            names = tuple([topic.name for topic in delta.deleted_topics.values()])
            self.topics_deleted(names, now)

    def _elect_coordinators(self, delta: MetadataDelta, now: int) -> None:
        for (topic_id, number), registration in delta.changed_partitions.items():
            coordinator = self.coordinators.coordinator_of(self.image.topics[topic_id].name)
            if coordinator is not None:
                if registration.leader == self.broker_id:
                    coordinator.on_elected(number, registration.leader_epoch, now)
                else:
                    coordinator.on_resigned(number, registration.leader_epoch, now)
