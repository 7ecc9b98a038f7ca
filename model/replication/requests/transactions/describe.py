"""DescribeProducers (KIP-664): the producers that a replica knows, with their open transactions.

Models KafkaApis.handleDescribeProducersRequest and Partition.activeProducerState. Followers answer,
too. Operators find hanging transactions by it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.errors import Errors
from kafkasim.model.messages import DescribeProducersPartition

if TYPE_CHECKING:
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.partitions.hosted import HostedPartitions


def active_producers(hosted: HostedPartitions, tp: TopicPartition) -> DescribeProducersPartition:
    """Return the producers of one partition, or why there is no answer."""
    partition = hosted.online.get(tp)
    if partition is None:
        return DescribeProducersPartition(tp, hosted.error_of_missing(tp), ())
    if partition.offline:
        return DescribeProducersPartition(tp, Errors.KAFKA_STORAGE_ERROR, ())
    entries = partition.log.producers.entries.values()
    return DescribeProducersPartition(
        tp, Errors.NONE, tuple([entry.described() for entry in entries])
    )
