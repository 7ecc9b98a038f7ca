"""Facts: brokers and their replicas."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class BrokerState:
    """A broker's lifecycle: STARTING, RECOVERY, RUNNING, PENDING_CONTROLLED_SHUTDOWN, ...,
    and the controller's word to it: FENCED, UNFENCED, or why it may not register."""

    state: str


@value
class BecameLeader:
    """A replica took leadership; ``start_offset`` is the leader epoch's start (its LEO)."""

    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    start_offset: int
    high_watermark: int
    isr: tuple[int, ...]


@value
class BecameFollower:
    """A replica follows ``leader`` (−1: none) under ``leader_epoch``."""

    topic_id: str
    partition: int
    leader_epoch: int
    leader: int
    log_end_offset: int


@value
class Appended:
    """A leader appended a batch at ``base_offset`` up to ``next_offset`` (exclusive)."""

    topic_id: str
    partition: int
    leader_epoch: int
    base_offset: int
    next_offset: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_ids: tuple[int, ...]


@value
class Replicated:
    """A follower appended what it fetched: ``base_offset`` up to ``next_offset`` (exclusive).

    ``leader_epoch`` is the epoch it fetched with, ``batch_epoch`` the last batch's.
    """

    topic_id: str
    partition: int
    leader_epoch: int
    batch_epoch: int
    base_offset: int
    next_offset: int


@value
class HighWatermark:
    """A leader's high watermark advanced; ``min_isr`` is the effective min ISR at that moment.

    ``acknowledged`` are the replicas (leader included) known to have a LEO ≥ it.
    """

    topic_id: str
    partition: int
    leader_epoch: int
    high_watermark: int
    min_isr: int
    acknowledged: tuple[int, ...]


@value
class Truncated:
    """A replica cut its log from ``log_end_offset`` down to ``offset``."""

    topic_id: str
    partition: int
    leader_epoch: int
    log_end_offset: int
    offset: int


@value
class LogStart:
    """A replica's log start offset moved to ``offset``; ``reason``: retention, leader, reset…"""

    topic_id: str
    partition: int
    offset: int
    reason: str


@value
class LogLoaded:
    """A log was loaded at start; ``clean`` is False after recovery from an unclean stop."""

    topic_id: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    clean: bool


@value
class LogDeleted:
    """A broker hosts a replica no longer; its log is renamed away and will be deleted."""

    topic_id: str
    partition: int
    log_end_offset: int


@value
class LogPlaced:
    """A broker with several log directories opened a log, new or known, in one of them."""

    topic_id: str
    partition: int
    directory: str  # as log.dirs names it


@value
class LogDirOffline:
    """One of several log directories failed; the broker goes on without it, or halts."""

    directory: str
    directory_id: str
    reason: str


@value
class IsrChanged:
    """A leader's AlterPartition succeeded: ticks IsrShrinksPerSec or IsrExpandsPerSec.

    ``change``: shrink | expand; ``replica_ids``: who left or joined; ``isr`` afterwards.
    """

    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    change: str
    replica_ids: tuple[int, ...]
    isr: tuple[int, ...]


@value
class IsrUpdateFailed:
    """A leader's AlterPartition was refused: ticks FailedIsrUpdatesPerSec."""

    topic_id: str
    partition: int
    leader_epoch: int
    error: str


@value
class ReplicaFailed:
    """A follower stopped fetching a partition (failed partition), or a log directory died."""

    topic_id: str
    partition: int
    reason: str


@value
class RequestStats:
    """Requests of one API that a broker completed in the last second (RequestMetrics).

    Times are sums over ``count`` requests, ``total_max_us`` is the slowest.
    """

    api: str
    count: int
    errors: int
    total_us: int
    queue_us: int
    local_us: int
    remote_us: int
    total_max_us: int
