"""HostedPartitions: the partitions of one broker (ReplicaManager.allPartitions, HostedPartition).

Kafka's HostedPartition is Online, Offline or None. An Online one is a :class:`Partition`; it may be
offline itself, when its directory failed while it was hosted. One that metadata assigns to this
broker but whose log may lie in a failed directory has no object, only its name in
:attr:`HostedPartitions.offline`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from kafkasim.model.errors import Errors

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.partitions.partition import Partition


class MetadataCache(Protocol):
    """The broker's metadata cache."""

    def knows_partition(self, tp: TopicPartition) -> bool:
        """Return whether the partition exists."""
        ...

    def knows_topic_id(self, topic_id: str) -> bool:
        """Return whether a topic has this id."""
        ...

    def cached_leader(self, tp: TopicPartition) -> tuple[int, int] | None:
        """Return leader and leader epoch, None for an unknown partition."""
        ...


class HostedPartitions:
    """The table of partitions, and the errors for those that are not in it."""

    __slots__ = ("cache", "offline", "online", "unnamed")

    def __init__(self, cache: MetadataCache) -> None:
        self.cache = cache
        self.online: dict[TopicPartition, Partition] = {}
        self.offline: dict[TopicPartition, None] = {}
        self.unnamed: dict[TopicPartition, None] = {}
        """Those of ``online`` that the metadata cache lacks: in ZooKeeper mode, before an
        UpdateMetadata names them or after one has said that they are deleted; in KRaft mode those
        in a failed directory whose topic was deleted (stopPartitions keeps them)"""

    def compare_names(self, tps: Iterable[TopicPartition]) -> None:
        """Keep :attr:`unnamed`, after roles or the metadata of these partitions have changed."""
        for tp in tps:
            partition = self.online.get(tp)
            if partition is not None and not self.cache.knows_partition(tp):
                self.unnamed[tp] = None
                partition.delayed.mark_dirty()
            else:
                self.unnamed.pop(tp, None)

    def error_of_missing(self, tp: TopicPartition) -> Errors:
        """Return the error for a partition that is not online here (getPartitionOrError)."""
        if tp in self.offline:
            return Errors.KAFKA_STORAGE_ERROR
        if self.cache.knows_partition(tp):
            return Errors.NOT_LEADER_OR_FOLLOWER
        return Errors.UNKNOWN_TOPIC_OR_PARTITION

    def current_leader(self, tp: TopicPartition) -> tuple[int, int] | None:
        """Return leader and leader epoch for a response (KIP-951), None if they are unknown.

        The local replica knows them best, then the metadata cache.
        """
        partition = self.online.get(tp)
        if partition is not None:
            return partition.leader_id, partition.leader_epoch
        return self.cache.cached_leader(tp)
