"""What the sending of markers needs of the broker."""

from __future__ import annotations

from typing import Protocol

from kafkasim.model.records import TopicPartition


class MarkerDestinations(Protocol):
    """Knows leaders (MetadataCache.getPartitionLeaderEndpoint)."""

    def leader_endpoint(self, tp: TopicPartition) -> str | None:
        """Return the endpoint of a partition's leader.

        It is "" while no broker leads the partition, and None if there is no such partition.
        """
        ...


class MarkerSender(Protocol):
    """The thread that asks for WriteTxnMarkers requests and sends them."""

    def wakeup(self) -> None:
        """Have it ask soon."""
        ...

    def wakeup_by(self, deadline: int) -> None:
        """Have it ask at that time, if nothing wakes it before."""
        ...
