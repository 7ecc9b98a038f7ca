"""Moves replicas (the reassignment half of ReplicationControlManager; KIP-455).

A reassignment begins with one change of the partition: its replicas become the targets, followed by
those to be removed. Then the brokers replicate. The first later change that finds all targets in
the ISR completes the reassignment (``PartitionChangeBuilder``). Cancelling restores the replicas
that were not being added (PartitionReassignmentRevert). Left out: directories in the request.
Throttles are the brokers' (``model/replication``).
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.controller.common.image import MetadataImage, PartitionRegistration, TopicImage
from kafkasim.model.controller.common.placement import assignment_problem
from kafkasim.model.controller.kraft.managers.replication import ReplicationControlManager
from kafkasim.model.controller.kraft.partition_change import Election
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    OngoingPartitionReassignment,
)
from kafkasim.model.records import TopicPartition

REASON = "reassignment"


class ReassignmentControlManager:
    """Begins, lists and cancels reassignments; changes nothing itself."""

    def __init__(self, image: MetadataImage, replication: ReplicationControlManager) -> None:
        self.image = image
        self.replication = replication

    def alter(
        self, request: AlterPartitionReassignmentsRequest
    ) -> tuple[list[Any], AlterPartitionReassignmentsResponse]:
        """Return the records of the reassignments that begin or are cancelled, and the response.

        Each partition is judged on its own.
        """
        records: list[Any] = []
        results = []
        for asked in request.partitions:
            error, message = self._alter(asked.tp, asked.replicas, records)
            results.append((asked.tp, error, message))
        return records, AlterPartitionReassignmentsResponse(Errors.NONE, tuple(results))

    def _alter(
        self, tp: TopicPartition, replicas: tuple[int, ...] | None, records: list[Any]
    ) -> tuple[Errors, str]:
        topic = self.image.topic_by_name(tp.topic)
        partition = None if topic is None else topic.partitions.get(tp.partition)
        if topic is None or partition is None:
            return Errors.UNKNOWN_TOPIC_OR_PARTITION, f"Unable to find {tp}."
        if replicas is None:
            return self._cancel(tp, topic, partition, records)
        problem = assignment_problem(replicas, self.image)
        if problem is not None:
            return Errors.INVALID_REPLICA_ASSIGNMENT, problem
        removing = tuple(sorted(each for each in partition.replicas if each not in replicas))
        adding = tuple(sorted(each for each in replicas if each not in partition.replicas))
        builder = self.replication.builder(topic, partition, self.image.is_active)
        builder.election = Election.ONLINE  # never unclean (changePartitionReassignment)
        builder.target_replicas = (*replicas, *removing)
        if removing:
            builder.target_removing = removing
        if adding:
            builder.target_adding = adding
        record = builder.build(topic.topic_id, tp.partition, REASON)
        if record is not None:
            records.append(record)
        return Errors.NONE, ""

    def _cancel(
        self,
        tp: TopicPartition,
        topic: TopicImage,
        partition: PartitionRegistration,
        records: list[Any],
    ) -> tuple[Errors, str]:
        if not partition.reassigning:
            return Errors.NO_REASSIGNMENT_IN_PROGRESS, "No partition reassignment is in progress."
        adding = partition.adding_replicas
        replicas = tuple([each for each in partition.replicas if each not in adding])
        isr = tuple([each for each in partition.isr if each not in adding])
        builder = self.replication.builder(topic, partition, self.image.is_active)
        if not isr:
            if not builder.unclean_enabled:
                why = "it would require an unclean leader election"
                message = f"Unable to revert partition assignment for {tp} because {why}."
                return Errors.INVALID_REPLICA_ASSIGNMENT, message
            isr = replicas[:1]
        builder.target_isr = isr
        builder.target_replicas = replicas
        builder.target_adding = builder.target_removing = ()
        record = builder.build(topic.topic_id, tp.partition, REASON)
        assert record is not None, partition
        records.append(record)
        return Errors.NONE, ""

    def ongoing(
        self, request: ListPartitionReassignmentsRequest
    ) -> ListPartitionReassignmentsResponse:
        """Return the response with the reassignments in progress: all, or those asked for."""
        found = []
        for topic, number, partition in self.replication.partitions():
            tp = TopicPartition(topic.name, number)
            if partition.reassigning and (request.partitions is None or tp in request.partitions):
                found.append(
                    OngoingPartitionReassignment(
                        tp,
                        partition.replicas,
                        partition.adding_replicas,
                        partition.removing_replicas,
                    )
                )
        return ListPartitionReassignmentsResponse(Errors.NONE, tuple(found))
