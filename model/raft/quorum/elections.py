"""Votes and epochs: Vote, BeginQuorumEpoch and EndQuorumEpoch, sent and answered.

Models the parts of KafkaRaftClient around handleVoteRequest, handleBeginQuorumEpochRequest,
handleEndQuorumEpochRequest and maybeTransition. A request that fails is repeated after the retry
backoff for as long as the role that sent it lasts. A leader sends BeginQuorumEpoch to every voter,
once per half a fetch timeout, whatever they have answered or fetched. Vote and BeginQuorumEpoch
name the voter's directory id: a controller that has lost its disk is another replica than the voter
of its id, and answers INVALID_VOTER_KEY (KIP-853).

Left out: Kafka sends a Vote that was answered so again at once, and gets the same answer, for as
long as the candidate waits for votes. A peer gets one request at a time there, so a Vote also waits
for the answer to a Fetch or to an older Vote (RequestManager.isReady).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

from kafkasim.model.channel import Failed
from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from kafkasim.model.raft.context import LANE, RaftContext
from kafkasim.model.raft.quorum import majority
from kafkasim.model.raft.quorum.election_state import NONE
from kafkasim.model.raft.quorum.election_timer import ElectionTimer
from kafkasim.model.raft.quorum.majority import ElectionResult
from kafkasim.model.raft.quorum.peers import Peer, Peers
from kafkasim.model.raft.quorum.quorum_state import QuorumState
from kafkasim.model.raft.quorum.states import (
    Candidate,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
)
from kafkasim.model.raft.quorum.voters import VoterSets

BEGIN_TIMER = (LANE, "begin")


class LogEnd(Protocol):
    """How far the replica's log reaches: what a voter compares with a candidate's log."""

    @property
    def last_epoch(self) -> int: ...
    @property
    def end_offset(self) -> int: ...


class RoleChanges(Protocol):
    """The role changes that votes and epochs cause. The Raft client carries them out."""

    def become_unattached(self, epoch: int, now: int, deadline: int | None = None) -> None: ...
    def become_follower(self, epoch: int, leader: int, now: int) -> None: ...
    def become_prospective(self, retries: int, now: int) -> None: ...
    def become_candidate(self, retries: int, now: int) -> None: ...
    def become_leader(self, granting: tuple[int, ...], now: int) -> None: ...


class Elections:
    """The voting side of a replica."""

    def __init__(
        self,
        context: RaftContext,
        quorum: QuorumState,
        voters: VoterSets,
        peers: Peers,
        log: LogEnd,
        timer: ElectionTimer,
        roles: RoleChanges,
    ) -> None:
        self._context = context
        self._quorum = quorum
        self._voters = voters
        self._peers = peers
        self._log = log
        self._timer = timer
        self._roles = roles
        self._resigned: Role | None = None  # in which the leader has told that it resigned

    # ------------------------------------------------------------------------- requests

    def on_vote(self, item: Request, now: int) -> None:
        """Grant or refuse a vote or a pre-vote."""
        quorum = self._quorum
        request: VoteRequest = item.message
        error = self._check(request.candidate_id, request.candidate_epoch)
        beyond = request.candidate_epoch + 1 if request.pre_vote else request.candidate_epoch
        if request.last_offset < 0 or not 0 <= request.last_offset_epoch < beyond:
            error = Errors.INVALID_REQUEST
        granted = False
        if error is Errors.NONE:
            if request.candidate_epoch > quorum.epoch:
                quorum.cause = f"node {request.candidate_id} is a candidate in the higher epoch"
                quorum.cause += f" {request.candidate_epoch}"
                self._roles.become_unattached(request.candidate_epoch, now)
            if self._is_meant(request.voter_directory_id):
                granted = self._grants(request)
            else:
                error = Errors.INVALID_VOTER_KEY
            if granted and not request.pre_vote:
                quorum.record_vote(request.candidate_id)
        response = VoteResponse(error, quorum.leader_id, quorum.epoch, granted)
        self._context.respond(item, response)

    def on_begin_quorum_epoch(self, item: Request, now: int) -> None:
        """Follow the leader of an epoch that has begun."""
        quorum = self._quorum
        request: BeginQuorumEpochRequest = item.message
        error = self._check(request.leader_id, request.leader_epoch)
        if error is Errors.NONE:
            self._peers.note_endpoint(request.leader_id, request.leader_endpoint)
            self.take_leader_and_epoch(request.leader_id, request.leader_epoch, now)
            if not self._is_meant(request.voter_directory_id):
                error = Errors.INVALID_VOTER_KEY
        response = BeginQuorumEpochResponse(error, quorum.leader_id, quorum.epoch)
        self._context.respond(item, response)

    def on_end_quorum_epoch(self, item: Request, now: int) -> None:
        """Start an election because the leader resigned; its preferred successor waits least."""
        quorum = self._quorum
        request: EndQuorumEpochRequest = item.message
        error = self._check(request.leader_id, request.leader_epoch)
        if error is Errors.NONE:
            self.take_leader_and_epoch(request.leader_id, request.leader_epoch, now)
            if isinstance(quorum.role, Follower) and quorum.leader_id == request.leader_id:
                wait_ms = majority.successor_backoff_ms(
                    request.preferred_successors,
                    self._context.node_id,
                    self._context.config.controller_quorum_election_backoff_max_ms,
                )
                self._timer.await_fetch(now, wait_ms * 1000)
                self._resigned = quorum.role
        response = EndQuorumEpochResponse(error, quorum.leader_id, quorum.epoch)
        self._context.respond(item, response)

    # ---------------------------------------------------------- what other replicas say

    def take_response(self, error: Errors, leader: int, epoch: int, now: int) -> bool:
        """Take the leader and epoch of any response (KafkaRaftClient.maybeHandleCommonResponse).

        Return whether the caller must not use the rest of the response: it is stale, it was an
        error, or the replica has halted.
        """
        if epoch < self._quorum.epoch or error is Errors.UNKNOWN_LEADER_EPOCH:
            return True
        if epoch > self._quorum.epoch or error is not Errors.NONE:
            self.take_leader_and_epoch(leader, epoch, now)
            return True
        if leader not in (NONE, self._quorum.leader_id):
            self.take_leader_and_epoch(leader, epoch, now)
        return self._quorum.halted

    def take_leader_and_epoch(self, leader: int, epoch: int, now: int) -> None:
        """Change the role if a message names a higher epoch, or the leader of the present one
        (KafkaRaftClient.maybeTransition)."""
        quorum, node_id = self._quorum, self._context.node_id
        role = quorum.role
        if leader not in self._peers and leader != node_id:
            leader = NONE  # a voter of a set that this replica does not have yet
        # The broker of a combined node has its controller among its peers, under its own id.
        if leader == node_id and (self._voters.is_voter or leader not in self._peers):
            if epoch > role.epoch or (
                epoch == role.epoch and not isinstance(role, Leader | Resigned)
            ):
                quorum.halt(f"told to lead epoch {epoch}, which {role} does not")
        elif epoch > role.epoch:
            quorum.cause = f"epoch {epoch} has begun"
            quorum.cause += f", led by node {leader}" * (leader != NONE)
            if leader == NONE:
                self._roles.become_unattached(epoch, now)
            else:
                self._roles.become_follower(epoch, leader, now)
        elif epoch == role.epoch and leader != NONE:
            if role.leader == NONE and not isinstance(role, Resigned):
                self._roles.become_follower(epoch, leader, now)
            elif role.leader not in (NONE, leader):
                quorum.halt(f"epoch {epoch} has leaders {role.leader} and {leader}")

    def _check(self, sender: int, epoch: int) -> Errors:
        """Return what is wrong with a request (KafkaRaftClient.validateVoterOnlyRequest).

        Whether the sender is a voter is not checked: this replica's set may be old (KIP-853).
        """
        if epoch < self._quorum.epoch:
            return Errors.FENCED_LEADER_EPOCH
        return Errors.INVALID_REQUEST if sender < 0 else Errors.NONE

    def _is_meant(self, directory_id: str) -> bool:
        """Return whether a request for a voter is for this one (isValidVoterKey)."""
        return directory_id in ("", self._context.directory_id)

    def _grants(self, request: VoteRequest) -> bool:
        role, rules = self._quorum.role, self._context.rules
        up_to_date = majority.is_up_to_date(
            request.last_offset_epoch,
            request.last_offset,
            self._log.last_epoch,
            self._log.end_offset,
        )
        if request.pre_vote:
            fetched = isinstance(role, Follower) and role.has_fetched
            return rules.pre_vote_grant(role.name, fetched, up_to_date)
        return rules.grants_vote(
            role.name, role.leader, role.voted, request.candidate_id, up_to_date
        )

    # ----------------------------------------------------------------------- outcomes

    def on_timeout(self, now: int) -> None:
        """Act on the end of an election timeout, a backoff or a follower's fetch timeout."""
        if self._quorum.halted:
            return
        role = self._quorum.role
        if isinstance(role, Prospective):
            self._leave_prospective(role, now, now)
        elif isinstance(role, Candidate) and not role.backing_off and self._backs_off(True):
            self._back_off(role, now)
        elif isinstance(role, Resigned):
            self._roles.become_unattached(role.epoch + 1, now, now)
        elif self._voters.is_voter:
            retries = role.retries + 1 if isinstance(role, Candidate) else 1
            if isinstance(role, Follower):
                self._quorum.cause = f"nothing was heard of the leader, node {role.leader}, for"
                self._quorum.cause += " controller.quorum.fetch.timeout.ms"
                if role is self._resigned:
                    self._quorum.cause = f"the leader, node {role.leader}, resigned"
            self._roles.become_prospective(retries, now)

    def _act_on_votes(self, role: Prospective | Candidate, now: int) -> None:
        result = role.votes.result(len(self._voters.voters))
        if result is ElectionResult.PENDING:
            return
        if isinstance(role, Prospective):
            if result is ElectionResult.WON:
                self._roles.become_candidate(role.retries, now)
            else:
                self._leave_prospective(role, now)
        elif result is ElectionResult.WON:
            self._roles.become_leader(role.votes.granting(), now)
        elif self._backs_off(False):
            self._back_off(role, now)

    def _leave_prospective(self, role: Prospective, now: int, deadline: int | None = None) -> None:
        """Go back to the leader of the epoch, or wait for another election timeout.

        One whose election timeout ended asks again at once (QuorumState.transitionToUnattached
        keeps what remains of it unless a majority refused): ``deadline`` is now.
        """
        if role.leader != NONE:
            self._roles.become_follower(role.epoch, role.leader, now)
        else:
            self._timer.cancel()
            self._roles.become_unattached(role.epoch, now, deadline)

    def _backs_off(self, timed_out: bool) -> bool:
        return self._context.rules.lost_candidate_backs_off(timed_out)

    def _back_off(self, role: Candidate, now: int) -> None:
        """Wait before the next election: longer after each lost one."""
        role.backing_off = True
        maximum = self._context.config.controller_quorum_election_backoff_max_ms
        draw = self._context.process.rng.random()
        wait_ms = majority.election_backoff_ms(role.retries, draw, maximum)
        self._timer.await_election(now, now + wait_ms * 1000)

    # ------------------------------------------------------------- requests that are sent

    def send_votes(self, now: int) -> None:
        """Ask every other voter for its vote; a single voter has won already."""
        role = self._quorum.role
        for peer in self._peers.voters():
            self._send_vote(peer, role, now)
        role = self._quorum.role
        assert isinstance(role, Prospective | Candidate), role
        self._act_on_votes(role, now)

    def send_begin_quorum_epoch(self, now: int) -> None:
        """Tell the other voters who leads, unless the last such request is not answered yet.

        (KafkaRaftClient.maybeSendBeginQuorumEpochRequests)
        """
        context, role = self._context, self._quorum.role
        if self._quorum.halted or not isinstance(role, Leader):
            return
        for peer in self._peers.voters():
            if not peer.vote.in_flight:
                directory_id = self._voters.directories.get(peer.id, "")
                message = BeginQuorumEpochRequest(
                    context.node_id, role.epoch, context.process.name, directory_id
                )
                peer.vote.send(message, now, partial(self._on_begin_answer, role))
        deadline = now + context.fetch_timeout_us // 2
        context.timers.arm(BEGIN_TIMER, deadline, LANE, self.send_begin_quorum_epoch)

    def send_end_quorum_epoch(self, now: int) -> None:
        """Tell every other voter that the leader of this epoch resigned."""
        role = self._quorum.role
        for peer in self._peers.voters():
            self._send_end(peer, role, now)

    def _send_vote(self, peer: Peer, role: Role, now: int) -> None:
        if role is not self._quorum.role or self._quorum.halted:
            return
        assert isinstance(role, Prospective | Candidate), role
        request = VoteRequest(
            role.epoch,
            self._context.node_id,
            self._log.last_epoch,
            self._log.end_offset,
            isinstance(role, Prospective),
            self._context.directory_id,
            self._voters.directories.get(peer.id, ""),
        )
        peer.vote.send(request, now, partial(self._on_vote_answer, peer, role))

    def _send_end(self, peer: Peer, role: Role, now: int) -> None:
        if role is not self._quorum.role or self._quorum.halted:
            return
        assert isinstance(role, Resigned), role
        request = EndQuorumEpochRequest(self._context.node_id, role.epoch, role.successors)
        peer.vote.send(request, now, partial(self._on_end_answer, peer, role))

    def _retry(
        self, peer: Peer, send: Callable[[Peer, Role, int], None], role: Role, now: int
    ) -> None:
        if role is self._quorum.role:
            backoff_us = self._context.config.controller_quorum_retry_backoff_ms * 1000
            key = (LANE, "retry", peer.id)
            self._context.timers.arm(key, now + backoff_us, LANE, partial(send, peer, role))

    def _expected(self, role: Role) -> bool:
        """Return whether the answer to a request of this role is still of use: the next role
        forgets it (RequestManager.isResponseExpected, KafkaRaftClient.resetConnections)."""
        return role is self._quorum.role and not self._quorum.halted

    def _on_vote_answer(
        self, peer: Peer, role: Prospective | Candidate, answer: Any, now: int
    ) -> None:
        if not self._expected(role):
            return
        if type(answer) is Failed:
            self._retry(peer, self._send_vote, role, now)
        elif not self.take_response(answer.error, answer.leader_id, answer.leader_epoch, now):
            lost = isinstance(role, Candidate) and role.backing_off
            if not lost:
                role.votes.record(peer.id, answer.vote_granted)
                self._act_on_votes(role, now)

    def _on_begin_answer(self, role: Leader, answer: Any, now: int) -> None:
        if self._expected(role) and type(answer) is not Failed:
            self.take_response(answer.error, answer.leader_id, answer.leader_epoch, now)

    def _on_end_answer(self, peer: Peer, role: Resigned, answer: Any, now: int) -> None:
        if not self._expected(role):
            return
        if type(answer) is Failed:
            self._retry(peer, self._send_end, role, now)
        else:
            self.take_response(answer.error, answer.leader_id, answer.leader_epoch, now)
