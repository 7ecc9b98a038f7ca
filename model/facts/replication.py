"""Facts recorded by brokers, about themselves and their replicas."""

from __future__ import annotations

from collections.abc import Iterator

from kafkasim.model.values import value


@value
class BrokerState:
    """A broker changed its state, or learned from the controller whether it is fenced."""

    state: str  # Kafka's BrokerState, or FENCED, UNFENCED, or the error of a registration


@value
class BecameLeader:
    """A replica became leader, or leader under another epoch."""

    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    start_offset: int  # of the leader epoch: its log end offset
    high_watermark: int
    isr: tuple[int, ...]


@value
class BecameFollower:
    """A replica became follower, or follower under another epoch."""

    topic_id: str
    partition: int
    leader_epoch: int
    leader: int  # −1: none
    log_end_offset: int


@value
class Appended:
    """A leader appended a batch."""

    topic_id: str
    partition: int
    leader_epoch: int
    base_offset: int
    next_offset: int  # after the batch
    producer_id: int
    producer_epoch: int
    base_sequence: int
    record_ids: tuple[int, ...]


@value
class KeysAppended:
    """A leader appends a batch to a compacted topic of users; the next ``Appended`` tells the rest.

    Records of internal topics have no such row.
    """

    topic_id: str
    partition: int
    leader_epoch: int
    base_offset: int
    keys: tuple[str, ...]  # of the records; bytes as Python writes them
    tombstones: tuple[int, ...]  # the offsets of records without value


@value
class Replicated:
    """A follower appended batches that it had fetched."""

    topic_id: str
    partition: int
    leader_epoch: int  # with which it fetched
    batch_epoch: int  # of the last batch
    base_offset: int
    next_offset: int  # after the last batch
    batches: tuple[int, ...] = ()  # of each: base, next offset, leader epoch, checksum


@value
class HighWatermark:
    """A leader's high watermark advanced."""

    topic_id: str
    partition: int
    leader_epoch: int
    high_watermark: int
    min_isr: int  # the effective min.insync.replicas
    acknowledged: tuple[int, ...]  # replicas whose log end offset has reached it, leader included


@value
class Truncated:
    """A replica truncated its log from ``log_end_offset`` to ``offset``."""

    topic_id: str
    partition: int
    leader_epoch: int
    log_end_offset: int
    offset: int


@value
class LogStart:
    """A replica's log start offset moved to ``offset``."""

    topic_id: str
    partition: int
    offset: int
    reason: str  # retention | delete-records | leader | truncation | reset | snapshot
    high_watermark: int  # before the log start raised it
    log_end_offset: int  # afterwards
    config: str = ""  # of retention: the setting that decided, retention.ms or retention.bytes


@value
class Cleaned:
    """A broker's log cleaner put one cleaned segment in the place of others."""

    topic_id: str
    partition: int
    base_offset: int  # of the segments that were replaced
    next_offset: int  # after them
    dirty_offset: int  # where the cleaning began to collect keys
    mapped_offset: int  # up to where it collected them, exclusive
    began_ms: int  # by the broker's clock
    delete_retention_ms: int
    removed: tuple[int, ...]  # ranges of offsets that lost their records: first, next, first, …

    def removed_offsets(self) -> Iterator[int]:
        """Yield the offsets that lost their records, ascending."""
        for low, high in zip(self.removed[::2], self.removed[1::2]):
            yield from range(low, high)


@value
class CleaningFailed:
    """A broker's log cleaner met a damaged log; it does not clean the replica any more."""

    topic_id: str
    partition: int
    reason: str


@value
class LogLoaded:
    """A broker loaded a log at its start."""

    topic_id: str
    partition: int
    log_start_offset: int
    log_end_offset: int
    high_watermark: int
    clean: bool  # False: recovered after an unclean stop


@value
class LogDeleted:
    """A broker removed a replica: its log is renamed, and deleted later."""

    topic_id: str
    partition: int
    log_end_offset: int


@value
class LogPlaced:
    """A broker with several log directories opened a log, a new or an old one, in one of them."""

    topic_id: str
    partition: int
    directory: str  # as log.dirs names it


@value
class LogDirOffline:
    """One of a broker's log directories failed; the broker goes on without it, or halts."""

    directory: str
    directory_id: str
    reason: str


@value
class IsrProposed:
    """A leader decided to change the ISR; retries of the proposal are not told."""

    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int  # the change that it builds on
    change: str  # shrink | expand
    replica_ids: tuple[int, ...]  # that leave or join
    # What a shrink was decided on: the log ends that the leader knew, and how long ago each member
    # was caught up, by the leader's clock. −1 for a member that is no replica (KAFKA-9672).
    leader_end: int = -1
    replica_ends: tuple[int, ...] = ()
    behind_us: tuple[int, ...] = ()
    limit_us: int = -1  # replica.lag.time.max.ms


@value
class ExpansionForgotten:
    """Metadata that repeats a change put the ISR known before in place of a pending expansion.

    The leader tells it again, without members, once newer metadata or an answer has told the ISR.
    """

    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int  # of the metadata, or of the answer
    replica_ids: tuple[int, ...]  # that may be in the ISR and hold back no high watermark


@value
class StaleReplyUsed:
    """A follower appended the answer to a fetch that it had sent in another leader epoch.

    Only releases without KAFKA-18991 do so.
    """

    topic_id: str
    partition: int
    leader_epoch: int  # the follower's
    base_offset: int  # of the first batch
    batch_epoch: int  # of the first batch


@value
class IsrChanged:
    """A leader's change of the ISR succeeded (IsrShrinksPerSec, IsrExpandsPerSec)."""

    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int
    change: str  # shrink | expand
    replica_ids: tuple[int, ...]  # that left or joined
    isr: tuple[int, ...]  # afterwards


@value
class PreferredReadReplica:
    """A leader begins to send consumers to a follower of their rack (KIP-392).

    It is told once of a follower while the leader's partition epoch stays, however many fetches
    the leader answers so.
    """

    topic_id: str
    partition: int
    leader_epoch: int
    partition_epoch: int  # of the state, and so of the ISR, that the leader knows
    replica: int


@value
class ReadServed:
    """A replica answered a read, the first of its kind since its broker applied a loss.

    That is metadata that names another leader in a new epoch, or that names the replica no more.
    Kinds are a consumer's Fetch, a follower's Fetch, ListOffsets and OffsetForLeaderEpoch. A
    replica that metadata names as leader tells none.
    """

    topic_id: str
    partition: int
    leader_epoch: int  # under which the replica answered
    request: str  # Fetch | ListOffsets | OffsetForLeaderEpoch
    replica: int  # that asked; −1: a consumer, or not told
    only_leader: bool  # False: a follower may answer it (KIP-392)
    leading: bool  # whether the replica took itself for the leader


@value
class IsrUpdateFailed:
    """A leader's change of the ISR was refused (FailedIsrUpdatesPerSec)."""

    topic_id: str
    partition: int
    leader_epoch: int
    error: str


@value
class ReplicaFailed:
    """A replica failed: its follower fetches no more, or its log directory is offline."""

    topic_id: str
    partition: int
    reason: str


@value
class RequestStats:
    """The requests of one API that a broker answered in the last second (RequestMetrics)."""

    api: str
    count: int
    errors: int
    total_us: int  # the sum over all of them, as the next five
    queue_us: int  # until a request handler took it
    local_us: int  # until the handler was done with it
    remote_us: int  # until the response was ready
    response_queue_us: int  # until its network thread took it
    throttle_us: int  # how long the connection stayed muted after it; no part of the total
    total_max_us: int  # of the slowest


@value
class ConnectionLimited:
    """A broker closed a new connection, or let it wait, because of a limit (KIP-402, KIP-612)."""

    host: str  # the IP address that it came from
    limit: str  # Kafka's name of the setting or quota
    throttle_ms: int  # how long its acceptor waits, or until it closes the connection; 0: no time


@value
class Throttled:
    """A broker asked a client to wait, because it is above its quota.

    ``config`` names the quota, and ``rate`` is what it allows, in bytes, partitions or percent a
    second; None: the controller knows it. ``offset`` is how far the broker's metadata image had
    come.
    """

    client_id: str
    request: str  # Produce, Fetch, or the API that changes topics
    throttle_ms: int
    user: str
    config: str
    rate: str | None  # as ConfigChanged.value
    offset: int
