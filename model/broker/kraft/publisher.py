"""BrokerMetadataPublisher: what a broker does about new metadata.

The image is in effect already. First the partitions take their roles (ReplicaManager.applyDelta),
then the group coordinator learns which partitions of ``__consumer_offsets`` it has won or lost.
The first publication ends the broker's start.

Left out: quotas, and features other than those in the image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkasim.model.records import GROUP_METADATA_TOPIC

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import MetadataDelta, MetadataImage
    from kafkasim.model.group.coordinator import GroupCoordinator
    from kafkasim.model.replication.manager import ReplicaManager


class BrokerMetadataPublisher:
    """Acts on the deltas of one broker's metadata cache.

    ``first_published(now)`` is called at the end of the first publication: the logs are loaded and
    the partitions have their roles.
    """

    def __init__(
        self,
        broker_id: int,
        image: MetadataImage,
        replicas: ReplicaManager,
        coordinator: GroupCoordinator,
        first_published: Callable[[int], None],
    ) -> None:
        self.broker_id = broker_id
        self.image = image
        self.replicas = replicas
        self.coordinator = coordinator
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
            if topic.name == GROUP_METADATA_TOPIC:
                for number in topic.partitions:
                    self.coordinator.on_resigned(number, None, now)
            assert topic_id not in self.image.topics, topic
        if delta.deleted_topics and not first:
            names = tuple([topic.name for topic in delta.deleted_topics.values()])
            self.coordinator.on_topics_deleted(names, now)

    def _elect_coordinators(self, delta: MetadataDelta, now: int) -> None:
        coordinator = self.coordinator
        offsets_topic = self.image.topic_names.get(GROUP_METADATA_TOPIC)
        for (topic_id, number), registration in delta.changed_partitions.items():
            if topic_id == offsets_topic:
                if registration.leader == self.broker_id:
                    coordinator.on_elected(number, registration.leader_epoch, now)
                else:
                    coordinator.on_resigned(number, registration.leader_epoch, now)
