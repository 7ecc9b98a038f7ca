"""Facts: producers and consumers."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class Acked:
    """A producer's batch was acknowledged. ``base_offset`` −1 when unknown (acks=0, duplicate).

    ``acks`` is −1 for all. ``latency_us`` from the creation of the batch to now.
    """

    topic_id: str
    partition: int
    base_offset: int
    record_ids: tuple[int, ...]
    acks: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    latency_us: int
    attempts: int


@value
class SendFailed:
    """A producer gave a batch up. ``indeterminate``: it may have been appended all the same."""

    topic_id: str
    partition: int
    record_ids: tuple[int, ...]
    error: str
    indeterminate: bool
    latency_us: int
    attempts: int


@value
class Positioned:
    """A consumer's position was set, not advanced: a new covered range starts at ``offset``.

    ``reason``: committed | earliest | latest | seek | truncation | none (it lost the partition).
    """

    group: str
    member_id: str
    topic_id: str
    partition: int
    offset: int
    reason: str


@value
class Polled:
    """poll() returned records of one partition; ``offsets`` and ``record_ids`` run in parallel.

    ``position`` is the consumer's position afterwards, ``high_watermark`` the last it heard (−1).
    """

    group: str
    member_id: str
    topic_id: str
    partition: int
    position: int
    high_watermark: int
    offsets: tuple[int, ...]
    record_ids: tuple[int, ...]


@value
class ReadReplica:
    """A consumer fetches a partition from another node than its leader (KIP-392): from broker
    ``replica``, named by the leader; −1: from the leader again."""

    group: str
    topic_id: str
    partition: int
    replica: int


@value
class Processed:
    """The application finished processing what poll() returned, up to ``offset`` (exclusive)."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    base_offset: int
    offset: int


@value
class ConsumerAssigned:
    """The client's view: a member owns ``assignment`` (``topic-partition``) in ``generation``."""

    group: str
    member_id: str
    generation: int
    assignment: tuple[str, ...]


@value
class ConsumerRevoked:
    """The client gave partitions up; ``lost`` without a chance to commit."""

    group: str
    member_id: str
    generation: int
    assignment: tuple[str, ...]
    lost: bool


@value
class Rebalanced:
    """A member finished a rebalance; ``latency_us`` from the first JoinGroup to the assignment."""

    group: str
    member_id: str
    generation: int
    latency_us: int


@value
class CommitResult:
    """A client's commit was answered; ``error`` is NONE on success. ``kind``: auto, sync, async."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    offset: int
    generation: int
    kind: str
    error: str
