"""What replication needs of the broker process that it runs in, and of the quotas of clients."""

from __future__ import annotations

from typing import Protocol

from kafkasim.model.compression import STATED_RATIOS, Compressor
from kafkasim.model.effects import Process, Request
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import DiskError


class BrokerProcess(Process):
    """A broker process, seen from replication; the brokers of both modes implement it."""

    broker_id: int
    broker_epoch: int  # −1 before the registration
    compressor: Compressor = STATED_RATIOS  # for topics with a compression.type; of the host

    def knows_partition(self, tp: TopicPartition) -> bool:
        """Return whether the partition is in the metadata cache."""
        raise NotImplementedError

    def knows_topic_id(self, topic_id: str) -> bool:
        """Return whether the topic id is in the metadata cache (topicIdsToNames)."""
        raise NotImplementedError

    def cached_leader(self, tp: TopicPartition) -> tuple[int, int] | None:
        """Return leader and leader epoch in the metadata cache, None for an unknown partition."""
        raise NotImplementedError

    def log_dir_failed(self, error: DiskError, now: int) -> None:
        """Take the log directory of a file offline; the broker halts if it was the last one."""
        raise NotImplementedError

    def assign_directory(self, topic_id: str, partition: int, directory_id: str, now: int) -> None:
        """Tell the controller which log directory holds a replica (DirectoryEventHandler)."""
        raise NotImplementedError


class ClientQuota(Protocol):
    """A quota of clients on their bandwidth, in one direction."""

    @property
    def enabled(self) -> bool:
        """Whether any client has a quota."""
        ...

    def record(self, client_id: str, size: int, now: int, user: str = ...) -> int:
        """Count bytes; return how long the client must wait, in ms, 0 within its quota."""
        ...

    def unrecord(self, client_id: str, size: int, now: int, user: str = ...) -> None:
        """Take bytes back that are not sent after all."""
        ...

    def most_bytes(self, client_id: str, user: str = ...) -> int | None:
        """Return how many bytes fit into the quota's windows, None without a quota."""
        ...


class RequestQuota(Protocol):
    """The quota of clients on the time of their requests."""

    def record(self, item: Request, now: int) -> int:
        """Count a request that is answered; return how long the client must wait, in ms."""
        ...


class NoRequestQuota:
    """What a broker has before it is given one."""

    def record(self, item: Request, now: int) -> int:
        """Return 0."""
        return 0


class NoQuota:
    """What a broker has before it is given quotas."""

    enabled = False

    def record(self, client_id: str, size: int, now: int, user: str = "") -> int:
        """Return 0."""
        return 0

    def unrecord(self, client_id: str, size: int, now: int, user: str = "") -> None:
        """Do nothing."""

    def most_bytes(self, client_id: str, user: str = "") -> int | None:
        """Return None."""
        return None
