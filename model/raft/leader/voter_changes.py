"""Adding, removing and updating a voter (KIP-853).

Models AddVoterHandler, RemoveVoterHandler and UpdateVoterHandler. A change is a VotersRecord of the
leader. Adding and removing are answered once it is committed, or with REQUEST_TIMED_OUT after
controller.quorum.request.timeout.ms, and one of them runs at a time; an update is answered at once.
A change needs a committed record of the leader's own epoch, kraft.version 1, and no VotersRecord
above the high watermark. A new voter must answer ApiVersions, and must have reached the log's end
within the last hour. A leader that is not in the new set leads until the change is committed, does
not count its own log, and then resigns. But if the request has timed out before, it leads on.

Left out: the versions in a new voter's answer; what 4.1 keeps in memory of fixed voters.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasim.model.channel import Failed
from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    ApiVersionsRequest,
    RaftVoterResponse,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from kafkasim.model.raft.context import LANE, RaftContext
from kafkasim.model.raft.leader.appends import Appends
from kafkasim.model.raft.quorum.peers import Peers
from kafkasim.model.raft.quorum.quorum_state import QuorumState
from kafkasim.model.raft.quorum.states import Leader
from kafkasim.model.raft.quorum.voters import Voter, VoterSets, VotersRecord

CHANGE_TIMER = (LANE, "voter-change")
CAUGHT_UP_WITHIN_US = 3_600_000_000


class VoterChanges:
    """The voter change that waits for its commit, and the requests that start one.

    ``resign(epoch, now)`` gives up the leadership of an epoch.
    """

    def __init__(
        self,
        context: RaftContext,
        quorum: QuorumState,
        voters: VoterSets,
        appends: Appends,
        peers: Peers,
        resign: Callable[[int, int], None],
    ) -> None:
        self._context = context
        self._quorum = quorum
        self._voters = voters
        self._appends = appends
        self._peers = peers
        self._resign = resign
        self._asking: Request | None = None  # an AddRaftVoter whose voter is asked for its versions
        self._pending: tuple[int, Request] | None = None  # (offset of the VotersRecord, request)

    def on_add(self, item: Request, now: int) -> None:
        """Add a voter that already follows as an observer (AddRaftVoter)."""
        request: AddRaftVoterRequest = item.message
        role = self._changing_leader(item, self._quorum.role.epoch)
        if role is None:
            return
        voters = self._voters.latest
        if any(each.id == request.voter_id for each in voters):
            self._respond(item, Errors.DUPLICATE_VOTER)
            return
        self._asking = item
        self._arm(now)
        self._peers.note_endpoint(request.voter_id, request.address)
        answered = partial(self._on_versions, role, item)
        self._peers[request.voter_id].vote.send(ApiVersionsRequest(), now, answered)

    def _on_versions(self, role: Leader, item: Request, answer: Any, now: int) -> None:
        """Add a voter that has answered (AddVoterHandler.handleApiVersionsResponse)."""
        if self._asking is not item or self._quorum.role is not role:
            return
        self._asking = None
        request: AddRaftVoterRequest = item.message
        caught_up = _caught_up(role, request.voter_id, request.directory_id, now)
        if isinstance(answer, Failed) or not caught_up:
            self._context.timers.cancel(CHANGE_TIMER)
            self._respond(item, Errors.REQUEST_TIMED_OUT)
        else:
            new = Voter(request.voter_id, request.directory_id, request.address)
            self._change(role, item, (*self._voters.latest, new), now)

    def on_remove(self, item: Request, now: int) -> None:
        """Remove a voter by its key (RemoveRaftVoter)."""
        request: RemoveRaftVoterRequest = item.message
        role = self._changing_leader(item, self._quorum.role.epoch)
        if role is None:
            return
        voters = self._voters.latest
        rest = tuple([each for each in voters if not _names(request, each)])
        if len(rest) == len(voters) or not rest:
            self._respond(item, Errors.VOTER_NOT_FOUND)
        else:
            self._arm(now)
            self._change(role, item, rest, now)

    def on_update(self, item: Request, now: int) -> None:
        """Replace a voter's address and directory id (UpdateRaftVoter)."""
        request: UpdateRaftVoterRequest = item.message
        fixed = self._context.rules.updates_fixed_voters()
        role = self._changing_leader(item, request.current_leader_epoch, fixed=fixed)
        if role is None:
            return
        voters = self._voters.latest
        if not any(_names(request, each) for each in voters):
            self._respond(item, Errors.VOTER_NOT_FOUND)
            return
        if self._context.kraft_version > 0:
            new = Voter(request.voter_id, request.directory_id, request.address)
            changed = tuple([new if _names(request, each) else each for each in voters])
            self._appends.append_control(role, VotersRecord(changed), now)
        self._respond(item, Errors.NONE)

    def high_watermark_rose(self, role: Leader, now: int) -> None:
        """Answer the change if it is committed now; then a leader that it removed resigns."""
        if self._pending is None or role.high_watermark <= self._pending[0]:
            return
        removed = isinstance(self._pending[1].message, RemoveRaftVoterRequest)
        self._finish(Errors.NONE)
        if removed and not self._voters.is_voter:
            self._resign(role.epoch, now)

    def leadership_ended(self) -> None:
        """Refuse the waiting change: the next leader decides whether its record commits."""
        self._finish(Errors.NOT_LEADER_OR_FOLLOWER)

    def _changing_leader(self, item: Request, epoch: int, *, fixed: bool = False) -> Leader | None:
        """Return the role of a leader that may change the set now, or refuse the request.

        ``epoch`` is the leader's as the request has it. ``fixed``: the request is also served if
        the voters may not change.
        """
        role = self._quorum.role
        error = self._quorum.check_leader_epoch(epoch)
        if error is Errors.NONE and isinstance(role, Leader):
            error = self._refusal(role, item.message, fixed)
            if error is Errors.NONE:
                return role
        self._respond(item, error)
        return None

    def _refusal(self, role: Leader, request: Any, fixed: bool) -> Errors:
        """Return why a leader does not change the set now; NONE if it does."""
        if request.voter_id < 0 or not request.directory_id:
            return Errors.INVALID_REQUEST
        under_way = self._asking is not None or self._pending is not None
        own_epoch_committed = role.high_watermark >= 0
        if under_way or not self._context.rules.may_change_voters(own_epoch_committed):
            return Errors.REQUEST_TIMED_OUT
        if self._context.kraft_version == 0:
            return Errors.NONE if fixed else Errors.UNSUPPORTED_VERSION
        if self._voters.latest_offset >= role.high_watermark >= 0:
            return Errors.REQUEST_TIMED_OUT
        return Errors.NONE

    def _arm(self, now: int) -> None:
        """Let the change that begins time out (LeaderState.maybeExpirePendingOperation)."""
        deadline = now + self._context.config.controller_quorum_request_timeout_ms * 1000
        self._context.timers.arm(CHANGE_TIMER, deadline, LANE, self._expire)

    def _expire(self, now: int) -> None:
        self._finish(Errors.REQUEST_TIMED_OUT)

    def _change(self, role: Leader, item: Request, voters: tuple[Voter, ...], now: int) -> None:
        offset = self._appends.append_control(role, VotersRecord(voters), now)
        if offset is None:
            self._context.timers.cancel(CHANGE_TIMER)
            self._respond(item, Errors.REQUEST_TIMED_OUT)
            return
        self._pending = (offset, item)

    def _finish(self, error: Errors) -> None:
        """Answer the change that waits, if one does."""
        item = self._asking if self._pending is None else self._pending[1]
        self._asking = self._pending = None
        self._context.timers.cancel(CHANGE_TIMER)
        if item is not None:
            self._respond(item, error)

    def _respond(self, item: Request, error: Errors) -> None:
        self._context.respond(item, RaftVoterResponse(error))


def _caught_up(role: Leader, voter: int, directory_id: str, now: int) -> bool:
    """Return whether an observer has once reached the log's end and fetched in the last hour."""
    state = role.observers.get((voter, directory_id))
    if state is None:
        return False
    return state.last_caught_up_us >= 0 and now - state.last_fetch_us < CAUGHT_UP_WITHIN_US


def _names(request: Any, voter: Voter) -> bool:
    """Return whether a request names this voter; the key of a fixed voter is its id alone."""
    return bool(voter.id == request.voter_id and voter.directory_id in ("", request.directory_id))
