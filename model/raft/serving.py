"""The leader's side of replication: Fetch, answered at once or parked for up to 500 ms.

Models handleFetchRequest, tryCompleteFetchRequest, validateOffsetAndEpoch and the fetch purgatory
of KafkaRaftClient. A Fetch that finds nothing new waits for an append or for a high watermark
above the one it knows (KIP-1166). FETCH_SNAPSHOT would be a third verdict of :func:`diverging`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.effects import Request, Respond
from model.errors import Errors
from model.messages import RaftFetchRequest, RaftFetchResponse
from model.raft.states import Leader
from model.records import RecordBatch
from model.storage.files import DiskError
from model.storage.log import Log

if TYPE_CHECKING:
    from model.raft.client import RaftClient

LANE = "raft"
PARKED_TIMER = (LANE, "parked")


def diverging(log: Log, offset: int, epoch: int) -> tuple[int, int] | None:
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
        self.parked: dict[tuple[int, int], tuple[int, Request]] = {}  # (deadline, request)

    def on_fetch(self, item: Request, now: int) -> None:
        """Serve or park a Fetch; a voter's offset says what it holds."""
        client = self.client
        role = client.state
        request: RaftFetchRequest = item.message
        epoch = request.current_leader_epoch
        if epoch != client.epoch or not isinstance(role, Leader):
            if epoch < client.epoch:
                self._refuse(item, Errors.FENCED_LEADER_EPOCH)
            elif epoch > client.epoch:
                self._refuse(item, Errors.UNKNOWN_LEADER_EPOCH)
            else:
                self._refuse(item, Errors.NOT_LEADER_OR_FOLLOWER)
            return
        offset = request.fetch_offset
        voter = request.replica_id in role.end_offsets
        if voter:
            self._heard(role, request.replica_id, now)
        divergence = diverging(client.log, offset, request.last_fetched_epoch)
        if divergence is not None:
            self._answer(role, item, divergence)
            return
        if voter and offset != role.end_offsets[request.replica_id]:
            role.end_offsets[request.replica_id] = offset
            client.appends.update_high_watermark(role, now)
        news = offset < client.log_end_offset or request.high_watermark < role.high_watermark
        if news or request.max_wait_ms <= 0:
            self._answer(role, item)
        else:
            deadline = now + request.max_wait_ms * 1000
            if not self.parked:
                client.process.timers.arm(PARKED_TIMER, deadline, LANE, self._on_deadline)
            self.parked[item.connection, item.correlation] = (deadline, item)

    def wake(self, now: int) -> None:
        """Answer the parked Fetches for which there is something new."""
        client = self.client
        role = client.state
        if not self.parked or not isinstance(role, Leader):
            return
        end_offset = client.log_end_offset
        for key, (_, item) in list(self.parked.items()):
            request = item.message
            if request.fetch_offset < end_offset or request.high_watermark < role.high_watermark:
                del self.parked[key]
                self._answer(role, item)

    def fail_all(self, now: int) -> None:
        """The leadership ended: send the parked Fetches away."""
        parked, self.parked = self.parked, {}
        for _, item in parked.values():
            self._refuse(item, Errors.NOT_LEADER_OR_FOLLOWER)

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

    def _heard(self, role: Leader, voter: int, now: int) -> None:
        role.unacknowledged.pop(voter, None)
        role.heard[voter] = True
        if len(role.heard) >= len(self.client.voters) // 2:  # a majority, with the leader itself
            role.heard.clear()
            self.client.heard_from_majority(now)

    def _refuse(self, item: Request, error: Errors) -> None:
        client = self.client
        response = RaftFetchResponse(error, client.leader_id, client.epoch, -1, -1)
        client.process.out.append(Respond(item.connection, item.correlation, response))

    def _answer(
        self, role: Leader, item: Request, divergence: tuple[int, int] | None = None
    ) -> None:
        client = self.client
        log = client.log
        request = item.message
        batches: tuple[RecordBatch, ...] = ()
        if divergence is None and request.fetch_offset < client.log_end_offset:
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
        )
        client.process.out.append(Respond(item.connection, item.correlation, response))
