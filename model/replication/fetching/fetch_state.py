"""Where the partitions of one fetcher stand (PartitionFetchState, PartitionStates).

truncating -> fetching    the log is cut to what the leader has (lookup mode)
fetching                  fetch, and truncate on divergence (KIP-595's truncate-on-fetch)
delayed                   left alone for replica.fetch.backoff.ms, then where it was before
failed                    dropped until metadata brings it back (failedPartitions)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.messages import FetchPartition
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.replication.partitions.partition import Partition


class FetchState:
    """One partition of a fetcher."""

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
        self.on_fetch = on_fetch  # fetches carry the last fetched epoch
        self.leader_epoch = partition.leader_epoch
        self.truncating = not on_fetch or latest < 0
        self.fetch_offset = log.high_watermark if self.truncating else log.log_end_offset
        self.retry_at = 0  # microseconds; counts while the partition is delayed
        self.lag = 1  # of the leader's HW, as far as a throttle has to know; unknown counts as one
        self.move(self.fetch_offset, latest)

    def move(self, fetch_offset: int, last_fetched_epoch: int) -> None:
        """Continue at another offset."""
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


class FetchStates:
    """The partitions of one fetcher, by what it does with them.

    ``changed``: the partitions of which the leader's session does not know the newest state.
    """

    __slots__ = ("_backoff_us", "_log_start_moved", "changed", "delayed", "fetching", "truncating")

    def __init__(self, backoff_us: int) -> None:
        self.truncating: dict[TopicPartition, FetchState] = {}
        self.fetching: dict[TopicPartition, FetchState] = {}
        self.delayed: dict[TopicPartition, FetchState] = {}
        self.changed: dict[TopicPartition, None] = {}
        self._backoff_us = backoff_us
        self._log_start_moved = False  # of some partition, since the last fetch was built

    def add(self, state: FetchState) -> None:
        """Truncate or fetch a partition from now on; an earlier state of it is replaced."""
        tp = state.partition.tp
        self.delayed.pop(tp, None)
        self.truncating.pop(tp, None)
        self._start(state)

    def remove(self, tp: TopicPartition) -> FetchState | None:
        """Drop a partition; return its state if it was being fetched."""
        self.truncating.pop(tp, None)
        self.delayed.pop(tp, None)
        self.changed[tp] = None
        return self.fetching.pop(tp, None)

    def on_log_start(self) -> None:
        """Compare the log starts with those that the leader knows, before the next fetch."""
        self._log_start_moved = True

    def is_empty(self) -> bool:
        """Return whether there is nothing to fetch, now or later."""
        return not self.fetching and not self.delayed and not self.truncating

    def truncated(self, state: FetchState) -> None:
        """Fetch a partition whose log has been cut to what the leader has."""
        del self.truncating[state.partition.tp]
        state.truncating = False
        self._start(state)

    def move(self, state: FetchState, fetch_offset: int, last_fetched_epoch: int) -> None:
        """Continue a partition at another offset."""
        state.move(fetch_offset, last_fetched_epoch)
        self.changed[state.partition.tp] = None

    def tell_log_starts(self) -> None:
        """Have the next fetch tell each log start that has changed since the last one.

        The leader moves it, or this replica deletes old segments by itself
        (AbstractFetcherThread.buildFetch reads it each time).
        """
        if not self._log_start_moved:
            return
        self._log_start_moved = False
        for state in self.fetching.values():
            if state.asked.log_start_offset != state.partition.log.log_start_offset:
                self.move(state, state.fetch_offset, state.last_fetched_epoch)

    def delay(self, tp: TopicPartition, now: int) -> None:
        """Leave a partition alone for replica.fetch.backoff.ms."""
        state = self.fetching.pop(tp, None) or self.truncating.pop(tp, None)
        if state is not None:
            state.retry_at = now + self._backoff_us
            self.delayed[tp] = state
            self.changed[tp] = None

    def end_delays(self, now: int) -> int | None:
        """Resume what has been delayed long enough; return when the next delay ends."""
        for tp, state in list(self.delayed.items()):
            if state.retry_at <= now:
                del self.delayed[tp]
                self._start(state)
        return min([state.retry_at for state in self.delayed.values()], default=None)

    def _start(self, state: FetchState) -> None:
        tp = state.partition.tp
        (self.truncating if state.truncating else self.fetching)[tp] = state
        self.changed[tp] = None
        state.partition.log.on_log_start = self.on_log_start
        self._log_start_moved = True  # perhaps, while it was delayed
