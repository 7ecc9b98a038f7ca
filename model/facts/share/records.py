"""Facts about the records that a share group is given: of their leaders, and of its members."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class SharePartitionLoaded:
    """A leader has read the persisted state of a share partition, and hands out its records."""

    group: str
    topic_id: str
    partition: int
    leader_epoch: int
    state_epoch: int
    start_offset: int


@value
class SharePartitionClosed:
    """A leader hands out the records of a share partition no more."""

    group: str
    topic_id: str
    partition: int
    leader_epoch: int
    reason: str  # leadership | empty | NAME of the persister's error


@value
class ShareAcquired:
    """A leader gave a range of offsets to a member."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    leader_epoch: int
    first_offset: int
    last_offset: int
    delivery_count: int  # with this delivery
    lock_us: int  # how long the member may hold it


@value
class ShareMoved:
    """A leader changed the state of a range of offsets, in its memory; the write comes after."""

    group: str
    member_id: str  # that held them
    topic_id: str
    partition: int
    leader_epoch: int
    first_offset: int
    last_offset: int
    state: str  # AVAILABLE | ACQUIRED | ACKNOWLEDGED | ARCHIVED
    delivery_count: int
    reason: str  # acknowledged | session-ended | lock-expired | rolled-back | aborted


@value
class ShareStaleArchived:
    """A read from available records began behind them: the leader archived these, in its memory.

    Their batches are gone from its log (SharePartition.maybeArchiveStaleBatches).
    """

    group: str
    topic_id: str
    partition: int
    leader_epoch: int
    first_offset: int
    last_offset: int


@value
class ShareStartMoved:
    """A leader moved the start offset of a share partition."""

    group: str
    topic_id: str
    partition: int
    leader_epoch: int
    start_offset: int
    reason: str  # records: all before it are done | log-start


@value
class ShareStartFailed:
    """After a write of the state, moving the start offset threw an exception in its leader.

    So whoever waits for the write gets no answer.
    """

    group: str
    topic_id: str
    partition: int
    leader_epoch: int
    start_offset: int  # where the log start moved it: the batch below has no state for this offset


@value
class SharePolled:
    """A member's poll() returned records of one partition."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    offsets: tuple[int, ...]
    record_ids: tuple[int, ...]  # in parallel to ``offsets``
    delivery_counts: tuple[int, ...]  # in parallel to ``offsets``


@value
class ShareAcknowledged:
    """A member heard what became of its acknowledgements of one partition."""

    group: str
    member_id: str
    topic_id: str
    partition: int
    offsets: tuple[int, ...]
    types: tuple[int, ...]  # in parallel: 0 gap, 1 accept, 2 release, 3 reject
    error: str


@value
class FinalSharePartition:
    """What a share partition's leader knows of its records; the columns run in parallel."""

    group: str
    topic_id: str
    partition: int
    leader_epoch: int
    start_offset: int
    end_offset: int
    gap_start: int  # from where on it fetches gaps in the state that it has read; −1: no more
    first_offsets: tuple[int, ...]
    last_offsets: tuple[int, ...]
    states: tuple[int, ...]  # 0 available, 1 acquired, 2 acknowledged, 4 archived
    delivery_counts: tuple[int, ...]
