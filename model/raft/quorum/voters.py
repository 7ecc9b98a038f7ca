"""The voter set: who votes, since which offset, and how it changes (KIP-853).

Models VoterSetHistory, KRaftControlRecordStateMachine, AddVoterHandler, RemoveVoterHandler and
UpdateVoterHandler. A voter's key is (id, directory id); a voter of the static configuration has the
directory id "". A VotersRecord counts as soon as it is in the log, and no longer when it is
truncated. One change at a time; it needs a committed record of the leader's own epoch (Raft's
single-server change is unsafe without) and no VotersRecord above the high watermark; who is added
must have reached the log's end within the last hour. A leader that is not in the set leads until
the change commits, does not count itself, and then resigns.

Left out: kraft.version (it counts as 1), listeners apart from one address, supported versions, the
check of a new voter by ApiVersions.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.facts import VotersChanged
from kafkasim.model.messages import (
    AddRaftVoterRequest,
    DescribeQuorumRequest,
    DescribeQuorumResponse,
    QuorumReplica,
    RaftVoterResponse,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
)
from kafkasim.model.raft.log.fetching import Peer
from kafkasim.model.raft.quorum.quorum_state import NONE
from kafkasim.model.raft.quorum.states import Leader
from kafkasim.model.records import RecordBatch
from kafkasim.model.values import value

if TYPE_CHECKING:
    from kafkasim.model.raft.client import RaftClient

LANE = "raft"
ELECTION_TIMER = (LANE, "election")
CHANGE_TIMER = (LANE, "voter-change")
CAUGHT_UP_WITHIN_US = 3_600_000_000
OBSERVER_SESSION_US = 300_000_000


@value
class Voter:
    """One voter: its key and where it listens."""

    id: int
    directory_id: str
    address: str


@value
class VotersRecord:
    """The whole set, in a control batch of its own."""

    voters: tuple[Voter, ...]


class VoterSets:
    """The history of a replica's voter sets, and the changes its leader makes."""

    def __init__(self, client: RaftClient) -> None:
        self.client = client
        static = tuple([Voter(each, "", client.voters[each]) for each in client.voters])
        self._history: list[tuple[int, tuple[Voter, ...]]] = [(-1, static)]
        self._pending: tuple[int, Request] | None = None  # (offset of its record, who waits)

    @property
    def voters(self) -> tuple[Voter, ...]:
        """The latest set."""
        return self._history[-1][1]

    def at(self, end_offset: int) -> tuple[Voter, ...] | None:
        """Return the set in force below ``end_offset``, None for the static one."""
        known = [voters for offset, voters in self._history[1:] if offset < end_offset]
        return known[-1] if known else None

    # ---------------------------------------------------------------------- what the log says

    def start(self, now: int) -> None:
        """Read the sets that the log holds."""
        log = self.client.log
        for batch in log.batches_from(log.log_start_offset):
            self.appended(batch, now)

    def appended(self, batch: RecordBatch, now: int) -> None:
        """Take over a set as soon as its record is in the log."""
        if not batch.control or type(batch.records[0].value) is not VotersRecord:
            return
        record: VotersRecord = batch.records[0].value
        self._history.append((batch.base_offset, record.voters))
        self._tell(batch.base_offset)
        self._apply(record.voters, now)

    def truncated(self, end_offset: int, now: int) -> None:
        """Go back to the set that the log still holds."""
        before = self.voters
        while self._history[-1][0] >= end_offset:
            self._history.pop()
        if self.voters != before:
            self._tell(self._history[-1][0])
            self._apply(self.voters, now)

    def loaded(self, end_offset: int, voters: tuple[Voter, ...] | None, now: int) -> None:
        """Take the set that a snapshot names; None is the static one."""
        del self._history[1:]
        if voters is not None:
            self._history.append((end_offset - 1, voters))
            self._tell(end_offset - 1)
        self._apply(self.voters, now)

    def _tell(self, offset: int) -> None:
        """Write the set into the trace; of a broker's observer nobody asks it."""
        if not self.client.observer:
            ids = tuple([voter.id for voter in self.voters])
            directory_ids = tuple([voter.directory_id for voter in self.voters])
            self.client.process.out.append(VotersChanged(offset, ids, directory_ids))

    def _apply(self, voters: tuple[Voter, ...], now: int) -> None:
        """Take over a voter set that the log holds now."""
        client = self.client
        client.voters.clear()
        client.voters.update({voter.id: voter.address for voter in voters})
        client.directories = {voter.id: voter.directory_id for voter in voters}
        known = client.directories.get(client.node_id)
        client.is_voter = not client.observer and known in ("", client.directory_id)
        client.replica_id = (
            NONE if client.observer and client.node_id in client.voters else client.node_id
        )
        client.others = [
            each for each in client.voters if not client.is_voter or each != client.node_id
        ]
        for voter in client.others:
            self.note_endpoint(voter, client.voters[voter])
        role, timers = client.state, client.process.timers
        if isinstance(role, Leader):
            role.change_voters(client.others, client.directories)
        elif not client.is_voter:
            timers.cancel(ELECTION_TIMER)
        elif client.started and not timers.armed(ELECTION_TIMER):
            client.await_fetch(now)

    def note_endpoint(self, replica: int, address: str) -> None:
        """Remember where a replica listens that may lead."""
        client = self.client
        known = client.peers.get(replica)
        other = replica != client.node_id or client.observer
        if address and other and (known is None or known.address != address):
            client.peers[replica] = Peer(client, replica, address)

    def peers(self) -> list[Peer]:
        """Return the other voters of the present set."""
        client = self.client
        return [client.peers[voter] for voter in client.others]

    def endpoint(self, replica: int) -> str:
        """Return where a replica listens, as far as it is known."""
        client = self.client
        if replica == client.node_id:
            return client.process.name
        peer = client.peers.get(replica)
        return "" if peer is None else peer.address

    # ----------------------------------------------------------------------------- requests

    def handlers(self) -> dict[type, Callable[[Request, int], None]]:
        """Return who serves what operators ask of the quorum."""
        return {
            AddRaftVoterRequest: self.on_add,
            RemoveRaftVoterRequest: self.on_remove,
            UpdateRaftVoterRequest: self.on_update,
            DescribeQuorumRequest: self.on_describe,
        }

    def on_describe(self, item: Request, now: int) -> None:
        """Tell what the leader knows of the quorum (DescribeQuorum)."""
        answer = describe(self.client, now)
        if answer is None:
            answer = DescribeQuorumResponse(Errors.NOT_LEADER_OR_FOLLOWER)
        self.client.process.out.append(Respond(item.connection, item.correlation, answer))

    def on_add(self, item: Request, now: int) -> None:
        """Add a voter that follows already as an observer (AddRaftVoter)."""
        request: AddRaftVoterRequest = item.message
        role = self._leader(item, now)
        if role is None:
            return
        if any(each.id == request.voter_id for each in self.voters):
            self._respond(item, Errors.DUPLICATE_VOTER)
        elif not self._caught_up(role, request.voter_id, request.directory_id, now):
            self._respond(item, Errors.REQUEST_TIMED_OUT)
        else:
            new = Voter(request.voter_id, request.directory_id, request.address)
            self._change(role, item, (*self.voters, new), now)

    def on_remove(self, item: Request, now: int) -> None:
        """Remove a voter by its key (RemoveRaftVoter)."""
        request: RemoveRaftVoterRequest = item.message
        role = self._leader(item, now)
        if role is None:
            return
        rest = tuple([each for each in self.voters if not _is(each, request)])
        if len(rest) == len(self.voters) or not rest:
            self._respond(item, Errors.VOTER_NOT_FOUND)
        else:
            self._change(role, item, rest, now)

    def on_update(self, item: Request, now: int) -> None:
        """Replace a voter's address and directory id (UpdateRaftVoter)."""
        request: UpdateRaftVoterRequest = item.message
        role = self._leader(item, now)
        if role is None:
            return
        if not any(_is(each, request) for each in self.voters):
            self._respond(item, Errors.VOTER_NOT_FOUND)
            return
        new = Voter(request.voter_id, request.directory_id, request.address)
        changed = tuple([new if _is(each, request) else each for each in self.voters])
        self._change(role, item, changed, now)

    def high_watermark_moved(self, role: Leader, now: int) -> None:
        """Answer who waits for a change that is committed; who is no voter then resigns."""
        offset = self._history[-1][0]
        if role.high_watermark <= offset:
            return
        if self._pending is not None and role.high_watermark > self._pending[0]:
            self._end(Errors.NONE)
        if not self.client.is_voter and offset >= 0:
            self.client.resign(role.epoch, now)

    def fail(self, error: Errors) -> None:
        """The leadership ended: whether the change commits is for others to say."""
        if self._pending is not None:
            self._end(error)

    def _leader(self, item: Request, now: int) -> Leader | None:
        """Return the role of a leader that may change the set, or refuse the request."""
        role = self.client.state
        if not isinstance(role, Leader):
            self._respond(item, Errors.NOT_LEADER_OR_FOLLOWER)
            return None
        pending = self._pending is not None or self._history[-1][0] >= role.high_watermark >= 0
        if pending or not self.client.rules.may_change_voters(role.high_watermark >= 0):
            self._respond(item, Errors.REQUEST_TIMED_OUT)
            return None
        return role

    def _caught_up(self, role: Leader, voter: int, directory_id: str, now: int) -> bool:
        state = role.observers.get((voter, directory_id))
        if state is None:
            return False
        return bool(
            state.last_caught_up_us >= 0 and now - state.last_fetch_us < CAUGHT_UP_WITHIN_US
        )

    def _change(self, role: Leader, item: Request, voters: tuple[Voter, ...], now: int) -> None:
        client = self.client
        offset = client.appends.append_control(role, VotersRecord(voters), now)
        if offset is None:
            self._respond(item, Errors.REQUEST_TIMED_OUT)
            return
        self._pending = (offset, item)
        deadline = now + client.config.request_timeout_ms * 1000
        client.process.timers.arm(CHANGE_TIMER, deadline, LANE, partial(self._expire, offset))
        client.server.wake(now)
        client.elections.send_begin_quorum_epoch(now)

    def _expire(self, offset: int, now: int) -> None:
        if self._pending is not None and self._pending[0] == offset:
            self._end(Errors.REQUEST_TIMED_OUT)

    def _end(self, error: Errors) -> None:
        assert self._pending is not None
        item = self._pending[1]
        self._pending = None
        self.client.process.timers.cancel(CHANGE_TIMER)
        self._respond(item, error)

    def _respond(self, item: Request, error: Errors) -> None:
        self.client.process.out.append(
            Respond(item.connection, item.correlation, RaftVoterResponse(error))
        )


def describe(client: RaftClient, now: int) -> DescribeQuorumResponse | None:
    """Return what the leader knows of the quorum; None elsewhere.

    Observers that have not fetched for 300 s are not in it.
    """
    role = client.state
    if not isinstance(role, Leader):
        return None
    voters = []
    for voter in client.voter_sets.voters:
        if voter.id == client.node_id:
            own = client.log_end_offset
            voters.append(QuorumReplica(voter.id, voter.directory_id, own, now, now))
        else:
            known = role.fetches.get(voter.id)
            end_offset = role.end_offsets[voter.id]
            fetched, caught_up = (-1, -1) if known is None else known
            voters.append(
                QuorumReplica(voter.id, voter.directory_id, end_offset, fetched, caught_up)
            )
    observers = [
        state for state in role.observers.values()
        if now - state.last_fetch_us < OBSERVER_SESSION_US
    ]  # fmt: skip
    return DescribeQuorumResponse(
        Errors.NONE,
        client.node_id,
        role.epoch,
        role.high_watermark,
        tuple(voters),
        tuple(observers),
    )


def _is(voter: Voter, request: Any) -> bool:
    """Whether a request names this voter; the key of a static voter is its id alone."""
    return bool(voter.id == request.voter_id and voter.directory_id in ("", request.directory_id))
