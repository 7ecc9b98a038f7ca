"""Where one partition is being fetched (PartitionFetchState).

    TRUNCATING -> FETCHING    the log is cut to what the leader has (lookup mode)
    FETCHING                  fetch, truncating on divergence (KIP-595's truncate-on-fetch)

A delay (``retry_at``) is no state: a delayed partition goes back to where it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.messages import FetchPartition

if TYPE_CHECKING:
    from kafkasim.model.replication.partition.partition import Partition


class FetchState:
    """A partition in a fetcher. ``on_fetch``: fetches carry the last fetched epoch."""

    __slots__ = (
        "asked",
        "fetch_offset",
        "lag",
        "last_fetched_epoch",
        "leader_epoch",
        "max_bytes",
        "on_fetch",
        "partition",
        "retry_at",
        "truncating",
    )

    def __init__(self, partition: Partition, max_bytes: int, on_fetch: bool) -> None:
        log = partition.log
        latest = log.epochs.latest_epoch
        self.partition = partition
        self.max_bytes = max_bytes
        self.on_fetch = on_fetch
        self.leader_epoch = partition.leader_epoch
        self.truncating = not on_fetch or latest < 0
        self.fetch_offset = log.high_watermark if self.truncating else log.log_end_offset
        self.retry_at = 0
        self.lag = 1  # of the leader's HW, as far as a throttle has to know; unknown counts as one
        self.move(self.fetch_offset, latest)

    def move(self, fetch_offset: int, last_fetched_epoch: int) -> None:
        """Go on fetching elsewhere."""
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = epoch = last_fetched_epoch if self.on_fetch else -1
        partition = self.partition
        self.asked = FetchPartition(
            partition.tp,
            partition.topic_id,
            fetch_offset,
            partition.log.log_start_offset,
            self.leader_epoch,
            epoch,
            self.max_bytes,
        )
