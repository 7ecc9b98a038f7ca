"""ReplicaDirectories: takes replicas in failed log directories offline, reports wrong directories.

Models ReplicaManager.handleLogDirFailure and maybeUpdateTopicAssignment (KIP-112, KIP-858). A
partition in a directory that failed is *offline* until the process ends: it neither leads nor
fetches and answers KAFKA_STORAGE_ERROR. As in Kafka, requests that wait for it are not completed;
they time out.

Left out: moves between directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.errors import Errors
from kafkasim.model.facts import ReplicaFailed
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.replication.fetching.fetchers import ReplicaFetchers
    from kafkasim.model.replication.logs.log_manager import LogManager
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.storage.directories import LogDirectory


class ReplicaDirectories:
    """The log directories of one broker, seen from its replicas."""

    def __init__(
        self,
        process: BrokerProcess,
        image: MetadataImage,
        hosted: HostedPartitions,
        logs: LogManager,
        fetchers: ReplicaFetchers,
    ) -> None:
        self._process = process
        self._image = image
        self._hosted = hosted
        self._logs = logs
        self._fetchers = fetchers

    def fail_all(self, reason: str, now: int) -> None:
        """Take every replica offline: the only log directory failed."""
        partitions = self._hosted.online.values()
        for partition in partitions:
            partition.mark_offline()
            failed = ReplicaFailed(partition.topic_id, partition.tp.partition, reason)
            self._process.out.append(failed)
        for partition in partitions:
            partition.delayed.leadership_ended(Errors.KAFKA_STORAGE_ERROR, now)
        self._fetchers.stop(now)

    def fail(self, directory: LogDirectory, reason: str, now: int) -> None:
        """Take the replicas of one directory offline."""
        for tp in self._logs.placed_in(directory):
            partition = self._hosted.online.get(tp)
            if partition is not None:
                self._fetchers.remove(tp)
                if not partition.offline:
                    partition.mark_offline()
                failed = ReplicaFailed(partition.topic_id, tp.partition, reason)
                self._process.out.append(failed)

    def report(self, delta: MetadataDelta, now: int) -> None:
        """Tell the controller the directories of logs that its metadata has in another one."""
        broker_id = self._process.broker_id
        for (topic_id, number), registration in delta.changed_partitions.items():
            tp = TopicPartition(self._image.topics[topic_id].name, number)
            directory = self._logs.directory_of(tp)
            if directory is None or broker_id not in registration.replicas:
                continue
            if tp in self._hosted.online and registration.directory(broker_id) != directory.id:
                self._process.assign_directory(topic_id, number, directory.id, now)
