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
class LoadInProgress:
    """A coordinator refused a request because the log of its partition is not loaded yet."""

    group: str
    request: str  # JoinGroup, SyncGroup, Heartbeat, LeaveGroup, OffsetCommit or OffsetFetch


@value
class GroupState:
    """A group changed its state, its generation or its members, in the coordinator's view."""

    group: str
    state: str  # ClassicGroupState
    generation: int
    member_ids: tuple[str, ...]
    protocol: str  # the assignor, "" for none
    reason: str


@value
class GroupAssigned:
    """What a member owns in a generation, in the coordinator's view."""

    group: str
    generation: int
    member_id: str
    assignment: tuple[str, ...]  # as ``topic-partition``


@value
class OffsetCommitted:
    """The coordinator acknowledged a commit: the high watermark has passed its record."""

    group: str
    topic: str
    partition: int
    offset: int
    generation: int  # −1: a simple consumer
    member_id: str
    coordinator_epoch: int  # the leader epoch of the offsets partition


@value
class OffsetFetched:
    """The coordinator answered an OffsetFetch, for one partition."""

    group: str
    topic: str
    partition: int
    offset: int  # −1: none is committed
    coordinator_epoch: int  # the leader epoch of the offsets partition
