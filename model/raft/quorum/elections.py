"""Votes and epochs: Vote, BeginQuorumEpoch and EndQuorumEpoch, asked and answered.

The parts of KafkaRaftClient around handleVoteRequest, handleBeginQuorumEpochRequest and
handleEndQuorumEpochRequest. A request that fails is repeated after the retry backoff for as long
as the role that sent it lasts; BeginQuorumEpoch is repeated every half fetch timeout until the
voter acknowledges or fetches.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Failed
from kafkasim.model.effects import Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    VoteRequest,
    VoteResponse,
)
from kafkasim.model.raft.quorum import majority as quorum
from kafkasim.model.raft.quorum.quorum_state import NONE
from kafkasim.model.raft.quorum.states import (
    Candidate,
    Election,
    Follower,
    Leader,
    Prospective,
    Resigned,
    Role,
)

if TYPE_CHECKING:
    from kafkasim.model.raft.client import RaftClient
    from kafkasim.model.raft.log.fetching import Peer

LANE = "raft"


class Elections:
    """The voting side of a replica."""

    def __init__(self, client: RaftClient) -> None:
        self.client = client

    # ------------------------------------------------------------------------- requests

    def on_vote(self, item: Request, now: int) -> None:
        """Grant or refuse a vote or a pre-vote."""
        client = self.client
        request: VoteRequest = item.message
        error = self._check(request.candidate_id, request.candidate_epoch)
        beyond = request.candidate_epoch + 1 if request.pre_vote else request.candidate_epoch
        if request.last_offset_epoch >= beyond or request.last_offset < 0:
            error = Errors.INVALID_REQUEST
        granted = False
        if error is Errors.NONE:
            if request.candidate_epoch > client.epoch:
                client.become_unattached(request.candidate_epoch, now)
            granted = self._grants(request)
            if granted and not request.pre_vote:
                client.record_vote(request.candidate_id, now)
        self._respond(item, VoteResponse(error, client.leader_id, client.epoch, granted))

    def on_begin_quorum_epoch(self, item: Request, now: int) -> None:
        """Follow the leader of an epoch that has begun."""
        client = self.client
        request: BeginQuorumEpochRequest = item.message
        error = self._check(request.leader_id, request.leader_epoch)
        if error is Errors.NONE:
            client.voter_sets.note_endpoint(request.leader_id, request.leader_endpoint)
            self.learn(request.leader_id, request.leader_epoch, now)
            if isinstance(client.state, Follower):
                client.await_fetch(now)
        self._respond(item, BeginQuorumEpochResponse(error, client.leader_id, client.epoch))

    def on_end_quorum_epoch(self, item: Request, now: int) -> None:
        """The leader lets go: start an election as early as its list of successors says."""
        client = self.client
        request: EndQuorumEpochRequest = item.message
        error = self._check(request.leader_id, request.leader_epoch)
        if error is Errors.NONE:
            self.learn(request.leader_id, request.leader_epoch, now)
            if isinstance(client.state, Follower) and client.leader_id == request.leader_id:
                wait_ms = quorum.successor_backoff_ms(
                    request.preferred_successors,
                    client.node_id,
                    client.config.controller_quorum_election_backoff_max_ms,
                )
                client.await_fetch(now, wait_ms * 1000)
        self._respond(item, EndQuorumEpochResponse(error, client.leader_id, client.epoch))

    def learn(self, leader: int, epoch: int, now: int) -> None:
        """Take over what a message says of the quorum (KafkaRaftClient.maybeTransition)."""
        client = self.client
        role = client.state
        if leader not in client.peers and leader != client.node_id:
            leader = NONE  # a voter of a set that this replica does not have yet
        if leader == client.node_id and client.is_voter:
            if epoch > role.epoch or (
                epoch == role.epoch and not isinstance(role, Leader | Resigned)
            ):
                client.halt(f"told to lead epoch {epoch}, which {role} does not")
        elif epoch > role.epoch:
            if leader == NONE:
                client.become_unattached(epoch, now)
            else:
                client.become_follower(epoch, leader, now)
        elif epoch == role.epoch and leader != NONE:
            if role.leader == NONE and not isinstance(role, Resigned):
                client.become_follower(epoch, leader, now)
            elif role.leader not in (NONE, leader):
                client.halt(f"epoch {epoch} has leaders {role.leader} and {leader}")

    def _check(self, sender: int, epoch: int) -> Errors:
        client = self.client
        if epoch < client.epoch:
            return Errors.FENCED_LEADER_EPOCH
        if sender < 0 or (sender == client.node_id and client.is_voter):
            return Errors.INVALID_REQUEST  # no test for membership: ours may be old (KIP-853)
        return Errors.NONE

    def _grants(self, request: VoteRequest) -> bool:
        client = self.client
        role = client.state
        up_to_date = quorum.is_up_to_date(
            request.last_offset_epoch,
            request.last_offset,
            client.last_log_epoch,
            client.log_end_offset,
        )
        if request.pre_vote:
            fetched = isinstance(role, Follower) and role.has_fetched
            known = isinstance(role, Leader) and role.high_watermark >= 0
            return client.rules.pre_vote_grant(role.name, fetched, known, up_to_date)
        return client.rules.grants_vote(
            role.name, role.leader, role.voted, request.candidate_id, up_to_date
        )

    def _respond(self, item: Request, message: Any) -> None:
        self.client.process.out.append(Respond(item.connection, item.correlation, message))

    # ----------------------------------------------------------------------- outcomes

    def answered(self, now: int) -> None:
        """Act on the votes counted so far."""
        client = self.client
        role = client.state
        assert isinstance(role, Election), role
        result = role.result(len(client.voters))
        if result == quorum.PENDING:
            return
        if isinstance(role, Prospective):
            if result == quorum.WON:
                client.become_candidate(role.retries, now)
            else:
                self._leave_prospective(role, now)
        elif result == quorum.WON:
            leader = Leader(role.epoch, client.node_id, client.others, client.log_end_offset)
            granting = tuple(sorted(voter for voter in role.answers if role.answers[voter]))
            client.become_leader(leader, granting, now)
        elif isinstance(role, Candidate):
            self._back_off(role, now)

    def on_timeout(self, now: int) -> None:
        """The election timeout, a backoff or a follower's fetch timeout ended."""
        client = self.client
        if client.halted:
            return
        role = client.state
        if isinstance(role, Prospective):
            self._leave_prospective(role, now)
        elif isinstance(role, Candidate) and not role.backing_off:
            self._back_off(role, now)
        elif isinstance(role, Resigned):
            client.become_unattached(role.epoch + 1, now, now)
        elif client.is_voter:
            retries = role.retries + 1 if isinstance(role, Candidate) else 1
            client.become_prospective(retries, now)

    def _leave_prospective(self, role: Prospective, now: int) -> None:
        client = self.client
        if role.leader != NONE:
            client.become_follower(role.epoch, role.leader, now)
        else:
            client.process.timers.cancel((LANE, "election"))
            client.become_unattached(role.epoch, now)

    def _back_off(self, role: Candidate, now: int) -> None:
        client = self.client
        role.backing_off = True
        maximum = client.config.controller_quorum_election_backoff_max_ms
        wait_ms = quorum.election_backoff_ms(role.retries, client.process.rng.random(), maximum)
        client.await_election(now, now + wait_ms * 1000)

    # --------------------------------------------------------- what this replica asks for

    def send_votes(self, now: int) -> None:
        """Ask every other voter; a single voter has won already."""
        role = self.client.state
        for peer in self.client.voter_sets.peers():
            self._send_vote(peer, role, now)
        self.answered(now)

    def send_begin_quorum_epoch(self, now: int) -> None:
        """Tell the voters that have not yet acknowledged the new leader."""
        client = self.client
        role = client.state
        if client.halted or not isinstance(role, Leader) or not role.unacknowledged:
            return
        message = BeginQuorumEpochRequest(client.node_id, role.epoch, client.process.name)
        for voter in role.unacknowledged:
            peer = client.peers[voter]
            if not peer.vote.in_flight:
                peer.vote.send(message, now, partial(self._on_begin_answer, peer, role))
        client.process.timers.arm(
            (LANE, "begin"), now + client.fetch_timeout_us // 2, LANE, self.send_begin_quorum_epoch
        )

    def send_end_quorum_epoch(self, now: int) -> None:
        """Tell every voter that this epoch's leader resigned."""
        role = self.client.state
        for peer in self.client.voter_sets.peers():
            self._send_end(peer, role, now)

    def _send_vote(self, peer: Peer, role: Role, now: int) -> None:
        client = self.client
        if role is not client.state or client.halted:
            return
        assert isinstance(role, Election), role
        request = VoteRequest(
            role.epoch,
            client.node_id,
            client.last_log_epoch,
            client.log_end_offset,
            isinstance(role, Prospective),
        )
        peer.vote.send(request, now, partial(self._on_vote_answer, peer, role))

    def _send_end(self, peer: Peer, role: Role, now: int) -> None:
        client = self.client
        if role is not client.state or client.halted:
            return
        assert isinstance(role, Resigned), role
        request = EndQuorumEpochRequest(client.node_id, role.epoch, role.successors)
        peer.vote.send(request, now, partial(self._on_end_answer, peer, role))

    def _retry(self, peer: Peer, send: Any, role: Role, now: int) -> None:
        client = self.client
        if role is client.state:
            deadline = now + client.config.controller_quorum_retry_backoff_ms * 1000
            client.process.timers.arm(
                (LANE, "retry", peer.id), deadline, LANE, partial(send, peer, role)
            )

    def _on_vote_answer(self, peer: Peer, role: Election, answer: Any, now: int) -> None:
        client = self.client
        if client.halted:
            return
        if type(answer) is Failed:
            self._retry(peer, self._send_vote, role, now)
        elif not client.handle_common(answer.error, answer.leader_id, answer.leader_epoch, now):
            if role is client.state and not (isinstance(role, Candidate) and role.backing_off):
                role.answers[peer.id] = answer.vote_granted
                self.answered(now)

    def _on_begin_answer(self, peer: Peer, role: Leader, answer: Any, now: int) -> None:
        client = self.client
        if client.halted or type(answer) is Failed:
            return  # the timer repeats it
        if not client.handle_common(answer.error, answer.leader_id, answer.leader_epoch, now):
            role.unacknowledged.pop(peer.id, None)

    def _on_end_answer(self, peer: Peer, role: Resigned, answer: Any, now: int) -> None:
        client = self.client
        if client.halted:
            return
        if type(answer) is Failed:
            self._retry(peer, self._send_end, role, now)
        elif not client.handle_common(answer.error, answer.leader_id, answer.leader_epoch, now):
            role.unacknowledged.pop(peer.id, None)
