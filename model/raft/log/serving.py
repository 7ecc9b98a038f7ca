"""The leader's side of replication: Fetch, answered at once or parked for up to 500 ms.

Models handleFetchRequest, tryCompleteFetchRequest, validateOffsetAndEpoch and the fetch purgatory
of KafkaRaftClient. A Fetch that finds nothing new waits for an append; a high watermark above the
one it knows completes it too where the rules say so (KIP-1166, later than 4.0).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.effects import Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.messages import QuorumReplica, RaftFetchRequest, RaftFetchResponse
from kafkasim.model.raft.quorum.states import Leader
from kafkasim.model.records import RecordBatch
from kafkasim.model.storage.files import DiskError
from kafkasim.model.storage.log.unified_log import UnifiedLog

if TYPE_CHECKING:
    from kafkasim.model.raft.client import RaftClient

LANE = "raft"
PARKED_TIMER = (LANE, "parked")


def diverging(log: UnifiedLog, offset: int, epoch: int) -> tuple[int, int] | None:
    """Return None if a log that ends at ``offset`` with ``epoch`` is a prefix of this one.

    Else (epoch, end offset): the largest epoch here that is not above, and where it ends.
    """
    if offset == 0 and epoch == 0 and log.log_start_offset == 0:
        return None
    known, end_offset = log.epochs.end_offset_for(epoch, log.log_end_offset)
    if known != epoch or end_offset < offset:
        return known, end_offset
    return None


class FetchServer:
    """Fetches from voters and observers, and those that wait."""

    def __init__(self, client: RaftClient) -> None:
        self.client = client
        self.wakes = client.rules.high_watermark_completes_fetch()  # asked once: hot
        self.parked: dict[tuple[int, int], tuple[int, Request]] = {}  # (deadline, request)

    def on_fetch(self, item: Request, now: int) -> None:
        """Serve or park a Fetch; a voter's offset says what it holds."""
        client = self.client
        role = client.state
        request: RaftFetchRequest = item.message
        error = self.check_epoch(request.current_leader_epoch)
        if error is not Errors.NONE or not isinstance(role, Leader):
            self._refuse(item, error)
            return
        offset = request.fetch_offset
        replica, directory_id = request.replica_id, request.replica_directory_id
        known = client.directories.get(replica)
        voter = replica in role.end_offsets and (known == "" or known == directory_id)
        if voter:
            self.heard(role, replica, now)
        self._track(role, request, voter, now)
        snapshot = client.snapshots.needed(offset, request.last_fetched_epoch)
        if snapshot is not None:
            self._answer(role, item, snapshot=snapshot)
            return
        divergence = diverging(client.log, offset, request.last_fetched_epoch)
        if divergence is not None:
            self._answer(role, item, divergence)
            return
        if voter and offset != role.end_offsets[request.replica_id]:
            role.end_offsets[request.replica_id] = offset
            client.appends.update_high_watermark(role, now)
        if self._has_news(request, role) or request.max_wait_ms <= 0:
            self._answer(role, item)
        else:
            deadline = now + request.max_wait_ms * 1000
            if not self.parked:
                client.process.timers.arm(PARKED_TIMER, deadline, LANE, self._on_deadline)
            self.parked[item.connection, item.correlation] = (deadline, item)

    def check_epoch(self, epoch: int) -> Errors:
        """Return what is wrong with a request to the leader of ``epoch`` (validateLeaderOnly)."""
        client = self.client
        if epoch < client.epoch:
            return Errors.FENCED_LEADER_EPOCH
        if epoch > client.epoch:
            return Errors.UNKNOWN_LEADER_EPOCH
        return Errors.NONE if client.is_leader else Errors.NOT_LEADER_OR_FOLLOWER

    def wake(self, now: int) -> None:
        """Answer the parked Fetches for which there is something new."""
        client = self.client
        role = client.state
        if not self.parked or not isinstance(role, Leader):
            return
        for key, (_, item) in list(self.parked.items()):
            if self._has_news(item.message, role):
                del self.parked[key]
                self._answer(role, item)

    def fail_all(self, now: int) -> None:
        """The leadership ended: send the parked Fetches away."""
        parked, self.parked = self.parked, {}
        for _, item in parked.values():
            self._refuse(item, Errors.NOT_LEADER_OR_FOLLOWER)

    def _has_news(self, request: RaftFetchRequest, role: Leader) -> bool:
        return request.fetch_offset < self.client.log_end_offset or (
            self.wakes and request.high_watermark < role.high_watermark
        )

    def _on_deadline(self, now: int) -> None:
        role = self.client.state
        if not isinstance(role, Leader):
            return
        for key, (deadline, item) in list(self.parked.items()):
            if deadline <= now:
                del self.parked[key]
                self._answer(role, item)
        if self.parked:
            deadline = min(deadline for deadline, _ in self.parked.values())
            self.client.process.timers.arm(PARKED_TIMER, deadline, LANE, self._on_deadline)

    def heard(self, role: Leader, voter: int, now: int) -> None:
        """A voter fetches in this epoch: it follows, and counts for the check quorum."""
        if voter not in role.end_offsets:
            return
        role.unacknowledged.pop(voter, None)
        role.heard[voter] = True
        majority = len(self.client.voters) // 2 + (0 if self.client.is_voter else 1)
        if len(role.heard) >= majority:  # with the leader itself, if it is a voter
            role.heard.clear()
            self.client.heard_from_majority(now)

    def _track(self, role: Leader, request: RaftFetchRequest, voter: bool, now: int) -> None:
        """Remember who fetched when, and when it last had all (LeaderState.updateReplicaState)."""
        replica, offset = request.replica_id, request.fetch_offset
        caught_up = offset >= self.client.log_end_offset
        if voter:
            last = role.fetches.get(replica, (-1, -1))[1]
            role.fetches[replica] = (now, now if caught_up else last)
        elif replica >= 0:
            key = (replica, request.replica_directory_id)
            before = role.observers.get(key)
            last = -1 if before is None else before.last_caught_up_us
            role.observers[key] = QuorumReplica(*key, offset, now, now if caught_up else last)

    def _refuse(self, item: Request, error: Errors) -> None:
        client = self.client
        leader = client.leader_id
        response = RaftFetchResponse(
            error, leader, client.epoch, -1, -1, leader_endpoint=client.voter_sets.endpoint(leader)
        )
        client.process.out.append(Respond(item.connection, item.correlation, response))

    def _answer(
        self,
        role: Leader,
        item: Request,
        divergence: tuple[int, int] | None = None,
        snapshot: tuple[int, int] | None = None,
    ) -> None:
        client = self.client
        log = client.log
        request = item.message
        batches: tuple[RecordBatch, ...] = ()
        if divergence is None and snapshot is None and request.fetch_offset < client.log_end_offset:
            try:
                batches = log.read(request.fetch_offset, request.max_bytes, client.log_end_offset)
            except DiskError:
                self._refuse(item, Errors.KAFKA_STORAGE_ERROR)
                return
        response = RaftFetchResponse(
            Errors.NONE,
            client.node_id,
            role.epoch,
            role.high_watermark,
            log.log_start_offset,
            batches,
            divergence,
            snapshot,
        )
        client.process.out.append(Respond(item.connection, item.correlation, response))
