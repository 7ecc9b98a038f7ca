"""BrokerMetadataPublisher: what a broker does about new metadata.

The image is in effect already. First the partitions take their roles (ReplicaManager.applyDelta),
then the coordinators learn which partitions of their topics they have lost or won, then changed
settings count, and at last the group coordinator has the new image. The first publication ends the
broker's start.

Left out: features other than those in the image.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import Exit
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.broker.common.coordinators.registry import CoordinatorTopics
    from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.replication.manager import ReplicaManager


class BrokerMetadataPublisher:
    """Acts on the deltas of one broker's metadata cache.

    ``topics_changed(names, created_at)`` hears of topics with changed partitions, of deleted ones,
    and at which metadata offset some were created, None if none were. ``partitions_deleted(tps,
    now)`` hears of the partitions of deleted topics, ``topics_deleted(topic_ids)`` of their ids.
    ``first_published(now)`` is called at the end of the first publication: the logs are loaded and
    the partitions have their roles.
    """

    def __init__(
        self,
        out: list[Any],
        broker_id: int,
        image: MetadataImage,
        replicas: ReplicaManager,
        coordinators: CoordinatorTopics,
        topics_changed: Callable[[tuple[str, ...], int | None], None],
        partitions_deleted: Callable[[tuple[TopicPartition, ...], int], None],
        topics_deleted: Callable[[tuple[str, ...]], None],
        first_published: Callable[[int], None],
    ) -> None:
        self.out = out
        self.broker_id = broker_id
        self.image = image
        self.replicas = replicas
        self.coordinators = coordinators
        self.topics_changed = topics_changed
        self.partitions_deleted = partitions_deleted
        self.topics_deleted = topics_deleted
        self.first_published = first_published

    def take_roles(self, delta: MetadataDelta, first: bool, now: int) -> None:
        """Let the partitions take the roles that have changed since the last publication.

        The ``first`` publication ends the process if a topic has settings that this release does
        not take (initializeManagers).
        """
        problem = self.replicas.settings.problem() if first else ""
        if problem:
            self.out.append(Exit(f"Error starting LogManager: {problem}", False))
        else:
            self.replicas.apply_delta(delta, now)

    def publish(self, delta: MetadataDelta, first: bool, now: int) -> None:
        """Act on the rest of what changed; the ``first`` publication ends the start."""
        self._resign_deleted(delta, now)
        self._elect_coordinators(delta, now)
        if not first:
            self._tell_of_deleted(delta, now)
        self.replicas.apply_configs(delta)
        self._tell_of_topics(delta)
        if first:
            self.first_published(now)

    def _resign_deleted(self, delta: MetadataDelta, now: int) -> None:
        for topic_id, topic in delta.deleted_topics.items():
            coordinator = self.coordinators.coordinator_of(topic.name)
            if coordinator is not None:
                for number in topic.partitions:
                    coordinator.on_resigned(number, None, now)
            assert topic_id not in self.image.topics, topic

    def _tell_of_deleted(self, delta: MetadataDelta, now: int) -> None:
        """Tell the coordinators of deleted partitions and topics (onPartitionsDeleted)."""
        if delta.deleted_topics:
            gone = [
                TopicPartition(topic.name, number)
                for topic in delta.deleted_topics.values()
                for number in topic.partitions
            ]
            self.partitions_deleted(tuple(gone), now)
            self.topics_deleted(tuple(delta.deleted_topics))

    def _tell_of_topics(self, delta: MetadataDelta) -> None:
        """Tell the coordinator which topics have changed (onNewMetadataImage)."""
        topics = self.image.topics
        changed = dict.fromkeys([topic_id for topic_id, _ in delta.changed_partitions])
        names = [topics[topic_id].name for topic_id in changed if topic_id in topics]
        names += [topic.name for topic in delta.deleted_topics.values()]
        if names:
            created_at = self.image.offset if delta.new_topics else None
            self.topics_changed(tuple(dict.fromkeys(names)), created_at)

    def _elect_coordinators(self, delta: MetadataDelta, now: int) -> None:
        """Tell the coordinators of new leader epochs of this broker, and of lost partitions.

        A new ISR under the same leader epoch elects nobody (LocalReplicaChanges.electedLeaders).
        """
        for key, registration in delta.changed_partitions.items():
            coordinator = self.coordinators.coordinator_of(self.image.topics[key[0]].name)
            if coordinator is None:
                continue
            former, epoch = delta.former_partitions[key], registration.leader_epoch
            if registration.leader != self.broker_id:
                coordinator.on_resigned(key[1], epoch, now)
            elif former is None or former.leader_epoch != epoch:
                coordinator.on_elected(key[1], epoch, now)
