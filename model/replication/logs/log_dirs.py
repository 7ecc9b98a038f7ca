"""What ReplicaManager does about log directories (handleLogDirFailure, maybeUpdateTopicAssignment).

A partition in a directory that failed is *offline* until the process ends: it is not fetched, leads
nothing and answers KAFKA_STORAGE_ERROR. So is one that metadata wants here while it may lie in such
a directory; of that there is no replica object, only the name in ``offline``. As in Kafka nobody
wakes what waits for an offline partition: it ends by its own timeout.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.directories import MIGRATING
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ReplicaFailed
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Collection

    from kafkasim.model.controller.common.image import MetadataDelta, PartitionRegistration
    from kafkasim.model.replication.manager import ReplicaManager
    from kafkasim.model.storage.directories import LogDirectory


class ReplicaDirectories:
    """The log directories of one replica manager."""

    def __init__(self, manager: ReplicaManager) -> None:
        self.manager = manager
        self.offline: dict[TopicPartition, None] = {}  # without a replica object
        self.new: Collection[TopicPartition] = ()  # with ZooKeeper: they have no log anywhere yet

    def wanted(self, tp: TopicPartition, registration: PartitionRegistration) -> str | None:
        """Return the directory id that a partition's log is to be opened in; None: in any."""
        if tp in self.new:
            return None
        if registration.directories:
            return registration.directory(self.manager.broker_id)
        return MIGRATING  # or with ZooKeeper: there may be a log in a directory that failed

    def fail_all(self, reason: str, now: int) -> None:
        """The only log directory failed: serve nothing any more."""
        manager = self.manager
        for partition in manager.partitions.values():
            partition.mark_offline()
            failed = ReplicaFailed(partition.topic_id, partition.tp.partition, reason)
            manager.out.append(failed)
        for partition in manager.partitions.values():
            partition.fail_waiters(Errors.KAFKA_STORAGE_ERROR, now)
        manager.stop_fetchers(now)

    def fail(self, directory: LogDirectory, reason: str, now: int) -> None:
        """Take the replicas of a directory offline."""
        manager = self.manager
        for tp in manager.logs.placed_in(directory):
            partition = manager.partitions.get(tp)
            if partition is not None:
                manager.remove_from_fetchers(tp)
                if not partition.offline:
                    partition.mark_offline()
                manager.out.append(ReplicaFailed(partition.topic_id, tp.partition, reason))

    def report(self, delta: MetadataDelta, now: int) -> None:
        """Tell where logs lie of which metadata says something else."""
        manager = self.manager
        for (topic_id, number), registration in delta.changed_partitions.items():
            tp = TopicPartition(manager.image.topics[topic_id].name, number)
            directory = manager.logs.directory_of(tp)
            if directory is None or manager.broker_id not in registration.replicas:
                continue
            partition = manager.partitions.get(tp)
            if partition is not None and registration.directory(manager.broker_id) != directory.id:
                manager.process.assign_directory(topic_id, number, directory.id, now)
