"""Facts recorded by group coordinators."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class CoordinatorLoaded:
    """A broker began or ceased to coordinate the groups of an offsets partition."""

    partition: int
    leader_epoch: int
    loaded: bool  # True: began


@value
class CoordinatorLoadFailed:
    """A coordinator could not load its partition; it serves nobody until the next election."""

    topic: str  # __consumer_offsets, __transaction_state or __share_group_state
    partition: int
    leader_epoch: int
    offset: int  # the base offset of the batch that is corrupt or does not fit
    reason: str


@value
class ShareGroupState:
    """A share group changed its epoch or its members, in the coordinator's view (KIP-932)."""

    group: str
    state: str  # Empty | Stable; Dead: it is gone
    generation: int  # the group epoch
    member_ids: tuple[str, ...]
    reason: str


@value
class ShareGroupAssigned:
    """A coordinator told a member of a share group which partitions to consume (KIP-932)."""

    group: str
    generation: int  # the member epoch
    member_id: str
    assignment: tuple[str, ...]  # as ``topic-partition``; others may have them, too


@value
class ShareStatesLoaded:
    """A broker began or ceased to coordinate the share partitions of a state partition."""

    partition: int
    leader_epoch: int
    loaded: bool  # True: began


@value
class ShareStateInitialized:
    """A share coordinator began the state of a share partition anew, in its memory."""

    group: str
    topic_id: str
    partition: int
    state_epoch: int
    start_offset: int  # −1: share.auto.offset.reset decides
    offset: int  # of the record in __share_group_state, if it is appended


@value
class LoadInProgress:
    """A coordinator refused a request because the log of its partition is not loaded yet."""

    group: str
    request: str  # JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit or OffsetFetch


@value
class GroupState:
    """A group changed its state, its generation or its members, in the coordinator's view."""

    group: str
    state: str  # ClassicGroupState, or ConsumerGroupState (KIP-848)
    generation: int
    member_ids: tuple[str, ...]
    protocol: str  # the assignor, "" for none
    reason: str
    group_leader: str = ""  # the member that assigns, "" for none
    # Of PreparingRebalance in a classic group, −1 otherwise: how long the coordinator waits for the
    # members' JoinGroup at most, and their longest rebalance timeout.
    wait_us: int = -1
    rebalance_timeout_us: int = -1
    # False: the rebalance began with the JoinGroup of a member of a stable group that neither leads
    # it nor subscribes otherwise than before.
    changed: bool = True


@value
class MemberExpired:
    """A coordinator removes a member of a classic group: its session has ended."""

    group: str
    member_id: str
    silent_us: int  # since it was heard, or since its join was answered, by the broker's clock
    session_us: int  # the timeout of its session


@value
class GroupConverted:
    """A group with members changed its protocol (KIP-848, online migration)."""

    group: str
    protocol: str  # classic or consumer: the protocol of the group from now on
    reason: str


@value
class MemberIdReverted:
    """A static member has its old id again: the record with its new one could not be committed."""

    group: str
    member_id: str  # the old one
    instance_id: str | None
    new_member_id: str
    error: str  # why; REQUEST_TIMED_OUT after offsets.commit.timeout.ms


@value
class MemberRequest:
    """A member's request reached the coordinator that serves its group; commits are left out.

    A LeaveGroup of several members is a fact for each of them. Heartbeats of consumer groups
    (KIP-848) are facts if they were not refused; they have no session timeout and no protocols.
    """

    group: str
    member_id: str  # "" for a new member
    instance_id: str | None  # of a static member
    api: str  # JoinGroup | SyncGroup | Heartbeat | LeaveGroup | ConsumerGroupHeartbeat
    generation: int  # of a JoinGroup: the last one, as its subscription has it; −1: none
    topics: tuple[str, ...]  # what the member subscribes to; an expression stands in slashes
    protocols: tuple[str, ...]  # of a JoinGroup: the assignors, by preference
    # Of a JoinGroup, 0 otherwise; as the next. Before 3.3.2 a known member keeps those of its first
    # JoinGroup, and they stand here (KAFKA-14009).
    session_timeout_ms: int
    rebalance_timeout_ms: int
    owned: tuple[
        str, ...
    ] = ()  # of a cooperative JoinGroup: what the member keeps, topic-partition
    rack: str = ""  # of a JoinGroup: client.rack


@value
class GroupAssigned:
    """What a member owns in a generation, in the coordinator's view."""

    group: str
    generation: int
    member_id: str
    assignment: tuple[str, ...]  # as ``topic-partition``
    topic_ids: tuple[str, ...] = ()  # of each partition; only the consumer protocol names topics so


@value
class OffsetCommitted:
    """The coordinator acknowledged a commit: the high watermark has passed its record.

    An old consumer records it when ZooKeeper has confirmed its write.
    """

    group: str
    topic: str
    partition: int
    offset: int
    generation: int  # −1: a simple consumer
    member_id: str
    coordinator_epoch: int  # the leader epoch of the offsets partition; −1: it is in ZooKeeper
    next_offset: int = -1  # behind its record, or its marker, in that partition; −1: in ZooKeeper


@value
class OffsetsDeleted:
    """The coordinator appended the tombstone of an offset that an operator deletes.

    The operator deletes the group (DeleteGroups), or offsets of it (OffsetDelete).
    """

    group: str
    topic: str
    partition: int
    coordinator_epoch: int  # the leader epoch of the offsets partition
    next_offset: int = -1  # behind the tombstone in that partition; −1: unknown


@value
class OffsetExpired:
    """The coordinator appended the tombstone of an offset by itself.

    Its retention is over (offsets.retention.minutes), or its topic is deleted.
    """

    group: str
    topic: str
    partition: int
    offset: int
    reason: str  # empty (since the group is) | commit (since it was made) | topic-deleted
    age_ms: int  # since then; 0 with topic-deleted
    limit_ms: int  # offsets.retention.minutes


@value
class InstanceIdHeld:
    """A coordinator refused a member: its group.instance.id is another member's (KIP-345)."""

    group: str
    instance_id: str | None
    member_id: str  # that is refused
    owner: str  # the member that has the id
    error: str  # FENCED_INSTANCE_ID | UNRELEASED_INSTANCE_ID (KIP-848)
    left_us: int  # until the owner's session ends, if it sends nothing; −1 unknown


@value
class OffsetFetched:
    """The coordinator answered an OffsetFetch, for one partition."""

    group: str
    topic: str
    partition: int
    offset: int  # −1: none is committed
    coordinator_epoch: int  # the leader epoch of the offsets partition
    next_offset: int = -1  # behind the record that it knows, or its marker; −1: it knows none
