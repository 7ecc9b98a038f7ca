"""Facts recorded by producers and consumers."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class Acked:
    """A producer's batch was acknowledged."""

    topic_id: str
    partition: int
    base_offset: int  # −1 unknown: acks=0, or the response to a duplicate
    record_ids: tuple[int, ...]
    acks: int  # −1: all
    producer_id: int
    producer_epoch: int
    base_sequence: int
    latency_us: int  # since the batch was created
    attempts: int


@value
class KeySent:
    """An application sent a record with a key, of a workload with ``key-order``."""

    record_id: int
    key: str
    since: int  # the id of the first record that this incarnation of the producer sent


@value
class OutputSent:
    """A user's application sent a record while it handled one that its group had read.

    ``topic_id``, ``partition`` and ``offset`` are where it had read the record that it handled.
    """

    group: str
    topic_id: str
    partition: int
    offset: int
    output: str  # the topic of the record that it sent
    record_id: int


@value
class CommitChosen:
    """A user's application asks for the commit of an offset that is below where it stands."""

    group: str
    topic_id: str
    partition: int
    offset: int


@value
class SendFailed:
    """A producer failed a batch, or did not take a record: its callers got an error.

    A record is not taken if it is too large, if metadata or memory is missing for max.block.ms, or
    if the producer is closed; a record that the application could not serialize has no topic.
    """

    topic_id: str  # "": the producer has no metadata of the topic
    partition: int  # −1: the record was not taken
    record_ids: tuple[int, ...]
    error: str
    indeterminate: bool  # True: a broker may have appended it all the same
    latency_us: int  # since the batch was created
    attempts: int
    last_error: str = ""  # by which the last attempt failed, if it is another one


@value
class SequencesRewritten:
    """A producer numbered a partition's batches in flight anew: the partition has a gap (KIP-360).

    It raised its epoch for that. An earlier attempt of these batches may be in the log.
    """

    topic_id: str
    partition: int
    producer_id: int
    producer_epoch: int  # the new one
    record_ids: tuple[int, ...]  # of the batches


@value
class EpochBegun:
    """An idempotent producer gives a partition's first batch in an epoch that it has raised."""

    topic_id: str
    partition: int
    producer_id: int
    producer_epoch: int
    base_sequence: int  # of that batch


@value
class Positioned:
    """A consumer's position was set to ``offset``, as opposed to advanced by a poll."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    offset: int
    reason: str  # committed | earliest | latest | seek | truncation | none (partition lost)


@value
class Polled:
    """poll() advanced over one partition: it returned records, or none where none were for it."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    position: int  # afterwards
    high_watermark: int  # as of the last fetch response, −1 unknown
    offsets: tuple[int, ...]
    record_ids: tuple[int, ...]  # in parallel to ``offsets``


@value
class Rebootstrapped:
    """A client forgot its metadata and went back to bootstrap.servers (KIP-899)."""

    client: str  # its name in its process
    reason: str  # no-node: none was available | trigger: it got no metadata for too long (KIP-1102)


@value
class SubscribedByPattern:
    """The host's consumer of the group finds the topics that it subscribes to by a pattern."""

    group: str


@value
class ReadReplica:
    """A consumer changed the broker from which it fetches a partition (KIP-392)."""

    group: str
    topic_id: str
    partition: int
    replica: int  # the broker that the leader named; −1: the leader again


@value
class Processed:
    """The application has processed records that poll() returned."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    base_offset: int  # of the first
    offset: int  # after the last


@value
class ConsumerAssigned:
    """A consumer took partitions over in a generation; the client's view.

    What a cooperative member keeps (KIP-429) is not among them; an eager one keeps nothing.
    """

    group: str
    member_id: str
    generation: int
    assignment: tuple[str, ...]  # as ``topic-partition``


@value
class ConsumerRevoked:
    """A consumer gave partitions up."""

    group: str
    member_id: str
    generation: int
    assignment: tuple[str, ...]  # as ``topic-partition``
    lost: bool  # True: it could not commit before (onPartitionsLost)


@value
class Rebalanced:
    """A member finished a rebalance."""

    group: str
    member_id: str
    generation: int
    latency_us: int  # from its first JoinGroup to its assignment


@value
class CommitResult:
    """A consumer's commit ended, for one partition."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    offset: int
    generation: int
    mode: str  # auto | sync | async
    error: str
    revoking: bool
    """Whether it is auto-commit before the partition is revoked: poll() returns no more of it"""


@value
class AuditPublished:
    """An auditing group got a monitoring event: a producer's count of its acknowledged records."""

    group: str
    source: str  # the producer and the time of its start
    topic: str
    window: int  # number of the window, from the producer's start
    records: int
    first_record: int  # the ids of the first and the last record that the producer sent in it
    last_record: int


@value
class AuditCounted:
    """An auditing group got records of a producer's window, in one partition of one poll."""

    group: str
    source: str
    topic: str
    window: int
    records: int


@value
class OffsetSynced:
    """A mirror sends an offset sync: the record at ``offset`` of a source partition was mirrored.

    ``downstream`` is its offset in the target.
    """

    topic: str  # in the source
    partition: int
    offset: int
    downstream: int


@value
class CheckpointEmitted:
    """A mirror emits a checkpoint: a group that is at ``offset`` continues at ``downstream``."""

    group: str
    topic: str  # in the source
    partition: int
    offset: int
    downstream: int


@value
class WorkAssigned:
    """A worker of Connect has an assignment: what it is to run in this generation."""

    group: str
    generation: int
    leads: bool  # whether it is the group's leader
    running_work: tuple[
        str, ...
    ]  # MirrorSourceConnector is a connector, MirrorSourceConnector-0 a task
    delay_us: int  # after which the group rebalances again; 0: not by itself


@value
class WorkStarted:
    """A worker of Connect starts a connector or a task."""

    group: str
    work: str


@value
class WorkStopped:
    """A connector or a task has stopped on a worker of Connect."""

    group: str
    work: str
    reason: str = ""  # why a task has failed; "": its worker has stopped it
