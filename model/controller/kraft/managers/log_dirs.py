"""Replicas by log directory (ReplicationControlManager: handleDirectoriesOffline,
handleAssignReplicasToDirs; KIP-858).

Directories go offline, and brokers report in which directory a replica is. That a replica in an
offline directory cannot lead is decided in ``ReplicationControlManager.builder``. As in Kafka, the
ISR of an AlterPartition is not compared with directories: the change that took a replica out of the
ISR has raised the partition epoch, so an ISR proposed before that change is refused.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.controller.common.image import (
    BrokerImage,
    MetadataImage,
    PartitionRegistration,
    TopicImage,
)
from kafkasim.model.controller.common.records import (
    BrokerRegistrationChangeRecord,
    PartitionChangeRecord,
)
from kafkasim.model.controller.kraft.managers.replication import ReplicationControlManager
from kafkasim.model.controller.kraft.partition_change import Election
from kafkasim.model.directories import is_online
from kafkasim.model.errors import Errors
from kafkasim.model.messages import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse

REASON = "dir-offline"


class LogDirControlManager:
    """Returns the records that follow from the state of log directories; changes nothing itself."""

    def __init__(self, image: MetadataImage, replication: ReplicationControlManager) -> None:
        self.image = image
        self.replication = replication

    def take_offline(self, broker: BrokerImage, offline: tuple[str, ...]) -> list[Any]:
        """Return the records that take a broker's replicas in ``offline`` out of ISRs and
        leaderships; none for directories that are offline already."""
        new = [each for each in broker.directories if each in offline]
        if not new:
            return []
        records: list[Any] = []
        for topic, number, partition in self.replication.partitions():
            if broker.id in partition.replicas and partition.directory(broker.id) in new:
                self._leave(broker.id, topic, number, partition, records)
        left = tuple([each for each in broker.directories if each not in offline])
        records.append(BrokerRegistrationChangeRecord(broker.id, broker.epoch, log_dirs=left))
        return records

    def assign(
        self, request: AssignReplicasToDirsRequest
    ) -> tuple[list[PartitionChangeRecord], AssignReplicasToDirsResponse]:
        """Return the records of the directories that a broker's replicas are in, and the response.

        A replica in a directory that has failed meanwhile leaves ISR and leadership at once. The
        caller has checked the broker epoch.
        """
        broker_id = request.broker_id
        online = self.image.brokers[broker_id].directories
        records: list[PartitionChangeRecord] = []
        lost: list[PartitionChangeRecord] = []
        results = []
        for directory_id, topic_id, number in request.directories:
            topic = self.image.topics.get(topic_id)
            partition = None if topic is None else topic.partitions.get(number)
            error = Errors.NONE
            if topic is None:
                error = Errors.UNKNOWN_TOPIC_ID
            elif partition is None:
                error = Errors.UNKNOWN_TOPIC_OR_PARTITION
            elif broker_id not in partition.replicas:
                error = Errors.NOT_LEADER_OR_FOLLOWER
            else:
                builder = self.replication.builder(topic, partition, self.image.is_active)
                builder.election = Election.ONLINE  # never unclean (handleAssignReplicasToDirs)
                builder.target_directory = (broker_id, directory_id)
                record = builder.build(topic_id, number, "assigned")
                if record is not None:
                    records.append(record)
                    partition = partition.merge(record)
                if not is_online(directory_id, online):
                    self._leave(broker_id, topic, number, partition, lost)
            results.append((directory_id, topic_id, number, error))
        return [*records, *lost], AssignReplicasToDirsResponse(Errors.NONE, tuple(results))

    def _leave(
        self,
        broker_id: int,
        topic: TopicImage,
        number: int,
        partition: PartitionRegistration,
        records: list[Any],
    ) -> None:
        """Add the record that takes one replica out of ISR and leadership
        (generateLeaderAndIsrUpdates)."""
        is_active = self.image.is_active
        builder = self.replication.builder(
            topic, partition, lambda each: each != broker_id and is_active(each)
        )
        builder.target_isr = tuple([each for each in partition.isr if each != broker_id])
        record = builder.build(topic.topic_id, number, REASON)
        if record is not None:
            records.append(record)
