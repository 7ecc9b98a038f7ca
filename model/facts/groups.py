"""Facts: group coordinators."""

from __future__ import annotations

from kafkasim.model.values import value


@value
class CoordinatorLoaded:
    """A broker took over (``loaded``) or gave up an offsets partition under ``leader_epoch``."""

    partition: int
    leader_epoch: int
    loaded: bool


@value
class GroupState:
    """The coordinator's group changed its state or generation."""

    group: str
    state: str
    generation: int
    member_ids: tuple[str, ...]
    protocol: str
    reason: str


@value
class GroupAssigned:
    """The coordinator's view of what a member owns in a generation, as ``topic-partition``."""

    group: str
    generation: int
    member_id: str
    assignment: tuple[str, ...]


@value
class OffsetCommitted:
    """The coordinator acknowledged a commit: it is below the HW of the offsets partition.

    ``coordinator_epoch`` is the leader epoch of that partition.
    """

    group: str
    topic: str
    partition: int
    offset: int
    generation: int
    member_id: str
    coordinator_epoch: int


@value
class OffsetFetched:
    """The coordinator answered an OffsetFetch (−1: none); ``coordinator_epoch`` as above."""

    group: str
    topic: str
    partition: int
    offset: int
    coordinator_epoch: int
