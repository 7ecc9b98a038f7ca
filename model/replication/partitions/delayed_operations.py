"""The operations that wait for one partition (kafka.cluster.DelayedOperations).

An operation is in the lists of every partition it waits for (Kafka's watcher lists) and leaves all
of them when it completes. This part tells operations that something they wait for has changed; each
decides for itself whether it can complete. :mod:`kafkasim.model.replication.requests.purgatory`
expires them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kafkasim.model.errors import Errors
    from kafkasim.model.messages import FetchPartition
    from kafkasim.model.records import TopicPartition


class ProduceWaiter(Protocol):
    """A produce request with acks=all that waits for high watermarks."""

    def try_complete(self, tp: TopicPartition, now: int) -> None:
        """Complete this partition if its high watermark is high enough."""
        ...

    def fail(self, tp: TopicPartition, error: Errors, now: int) -> None:
        """Complete this partition with an error."""
        ...


class DeleteWaiter(Protocol):
    """A DeleteRecords request that waits for followers' log starts."""

    def try_complete(self, tp: TopicPartition, now: int) -> None:
        """Complete this partition if the log starts are high enough or its leadership is lost."""
        ...


class FetchWaiter(Protocol):
    """A fetch that waits for ``min_bytes``."""

    done: bool

    def try_complete(self, asked: FetchPartition, now: int) -> None:
        """Answer the fetch if what happened to this partition is enough for it."""
        ...

    def complete(self, now: int) -> None:
        """Answer the fetch with what there is."""
        ...


class SessionEntry(Protocol):
    """A partition of a fetch session."""

    asked: FetchPartition
    clean: bool  # True: a fetch could bring nothing new

    @property
    def parked(self) -> FetchWaiter | None:
        """The session's fetch that waits, None if there is none."""
        ...

    def mark_dirty(self) -> None:
        """Look at the partition again in the session's next fetch."""
        ...

    def detach(self) -> None:
        """Leave the partition: it is not hosted any more."""
        ...


class LeadershipListener(Protocol):
    """What hears that this broker leads the partition no more (PartitionListener)."""

    def leadership_ended(self, now: int) -> None:
        """Take note: the broker follows, or has the partition no more."""
        ...


class DelayedOperations:
    """The operations of one partition, by what they wait for."""

    __slots__ = (
        "consumer_entries",
        "consumer_fetches",
        "deletes",
        "follower_fetches",
        "listeners",
        "produces",
        "session_entries",
        "tp",
    )

    def __init__(self, tp: TopicPartition) -> None:
        self.tp = tp
        self.produces: dict[ProduceWaiter, None] = {}
        self.deletes: dict[DeleteWaiter, None] = {}
        self.consumer_fetches: dict[FetchWaiter, FetchPartition] = {}
        self.follower_fetches: dict[FetchWaiter, FetchPartition] = {}  # of fetches without session
        self.session_entries: dict[SessionEntry, None] = {}  # of followers' sessions, always
        self.consumer_entries: dict[SessionEntry, None] = {}  # of consumers' sessions, always
        self.listeners: dict[LeadershipListener, None] = {}

    def high_watermark_changed(self, now: int) -> None:
        """Complete produces, consumers' fetches and deletions as far as they can be."""
        if self.produces:
            for produce in list(self.produces):
                produce.try_complete(self.tp, now)
        if self.consumer_fetches:
            for fetch, asked in list(self.consumer_fetches.items()):
                fetch.try_complete(asked, now)
        for entry in list(self.consumer_entries):
            parked = entry.parked
            if parked is not None:
                parked.try_complete(entry.asked, now)
        if self.deletes:
            self.log_start_changed(now)

    def log_grew(self, now: int) -> None:
        """Complete followers' fetches; a change of the high watermark alone never does."""
        for entry in list(self.session_entries):
            parked = entry.parked
            if parked is not None:
                parked.try_complete(entry.asked, now)
        if self.follower_fetches:
            for fetch, asked in list(self.follower_fetches.items()):
                fetch.try_complete(asked, now)

    def log_start_changed(self, now: int) -> None:
        """Complete deletions whose offset all live followers have reached."""
        for deletion in list(self.deletes):
            deletion.try_complete(self.tp, now)

    def mark_dirty(self) -> None:
        """Let the sessions read the partition again in their next fetches."""
        for entry in self.session_entries:
            if entry.clean:
                entry.mark_dirty()
        for entry in self.consumer_entries:
            if entry.clean:
                entry.mark_dirty()

    def leadership_ended(self, error: Errors, now: int) -> None:
        """Answer everything that waits: produces with ``error``, fetches with what they read."""
        for listener in list(self.listeners):
            listener.leadership_ended(now)
        for produce in list(self.produces):
            produce.fail(self.tp, error, now)
        self.log_start_changed(now)
        for fetch in [*self.follower_fetches, *self.consumer_fetches]:
            if not fetch.done:
                fetch.complete(now)
        self.mark_dirty()
        for entry in [*self.session_entries, *self.consumer_entries]:
            parked = entry.parked
            if parked is not None:
                parked.complete(now)
