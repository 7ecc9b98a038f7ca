"""The states of a member of a consumer group (MemberState), and its assignment as it sees it.

    UNSUBSCRIBED ─▶ JOINING ─▶ RECONCILING ◀─▶ ACKNOWLEDGING ─▶ STABLE
                       │            ▲                              │
                       └─▶ STABLE   └──────── a new assignment ────┘

    FENCED    the coordinator has dropped it: gives all up as lost, then JOINING
    LEAVING   through PREPARE_LEAVING: its last heartbeat goes out, then UNSUBSCRIBED, or
    STALE     the application does not poll: gives all up as lost, JOINING with its next poll()
    FATAL     an error that ends its membership for good

:data:`PREDECESSORS` is the whole table.
"""

from __future__ import annotations

from enum import Enum

from kafkasim.model.values import value


class MemberState(Enum):
    """Where a member is in its life."""

    UNSUBSCRIBED = "UNSUBSCRIBED"
    JOINING = "JOINING"
    RECONCILING = "RECONCILING"
    ACKNOWLEDGING = "ACKNOWLEDGING"
    STABLE = "STABLE"
    FENCED = "FENCED"
    PREPARE_LEAVING = "PREPARE_LEAVING"
    LEAVING = "LEAVING"
    FATAL = "FATAL"
    STALE = "STALE"


_S = MemberState
_IN_GROUP = (_S.JOINING, _S.STABLE, _S.RECONCILING, _S.ACKNOWLEDGING)
_GOING = (_S.PREPARE_LEAVING, _S.LEAVING)

PREDECESSORS: dict[MemberState, tuple[MemberState, ...]] = {
    _S.STABLE: (_S.JOINING, _S.ACKNOWLEDGING, _S.RECONCILING),
    _S.RECONCILING: _IN_GROUP,
    _S.ACKNOWLEDGING: (_S.RECONCILING,),
    _S.FATAL: (*_IN_GROUP, *_GOING, _S.UNSUBSCRIBED),
    _S.FENCED: (*_IN_GROUP, *_GOING),
    _S.JOINING: (_S.FENCED, _S.UNSUBSCRIBED, _S.STALE),
    _S.PREPARE_LEAVING: (*_IN_GROUP, _S.UNSUBSCRIBED),
    _S.LEAVING: (_S.PREPARE_LEAVING,),
    _S.UNSUBSCRIBED: (*_GOING, _S.FENCED),
    _S.STALE: (_S.LEAVING,),
}
"""Each state, and the states from which a member may enter it."""

NOT_IN_GROUP = (_S.UNSUBSCRIBED, _S.FENCED, _S.FATAL, _S.STALE)
"""States in which a member sends no heartbeat, and takes nothing from the answer to an old one."""

HEARTBEATS_AT_ONCE = (_S.ACKNOWLEDGING, _S.LEAVING, _S.JOINING)
"""States in which a heartbeat does not wait for the interval."""


@value
class LocalAssignment:
    """An assignment that the coordinator sent; ``local_epoch`` counts them, −1: none yet."""

    local_epoch: int
    partitions: dict[str, tuple[int, ...]]  # topic id to partitions


NONE = LocalAssignment(-1, {})
