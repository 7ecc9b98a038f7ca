"""The leader's side of replication: Fetch, answered at once or parked for up to 500 ms.

Models handleFetchRequest, tryCompleteFetchRequest and the fetch purgatory of KafkaRaftClient. A
Fetch that finds no records waits for an append. Whether a higher high watermark answers it as well
is a rule (KIP-1166, later than 4.0).
"""

from __future__ import annotations

from kafkasim.model.effects import Request
from kafkasim.model.errors import Errors
from kafkasim.model.messages import RaftFetchRequest, RaftFetchResponse
from kafkasim.model.raft.context import LANE, RaftContext
from kafkasim.model.raft.leader.appends import Appends
from kafkasim.model.raft.leader.check_quorum import CheckQuorum
from kafkasim.model.raft.log.replicated_log import ReplicatedLog
from kafkasim.model.raft.quorum.peers import Peers
from kafkasim.model.raft.quorum.quorum_state import QuorumState
from kafkasim.model.raft.quorum.states import Leader
from kafkasim.model.records import RecordBatch
from kafkasim.model.storage.files import DiskError

PARKED_TIMER = (LANE, "parked")


class FetchServer:
    """Serves the fetches of voters and observers; parks those that find nothing new."""

    def __init__(
        self,
        context: RaftContext,
        quorum: QuorumState,
        peers: Peers,
        log: ReplicatedLog,
        appends: Appends,
        check_quorum: CheckQuorum,
    ) -> None:
        self._context = context
        self._quorum = quorum
        self._peers = peers
        self._log = log
        self._appends = appends
        self._check_quorum = check_quorum
        # The rule is asked once: it is needed at every Fetch.
        self._high_watermark_completes = context.rules.high_watermark_completes_fetch()
        # (connection, correlation) -> (deadline in µs, request)
        self._parked: dict[tuple[int, int], tuple[int, Request]] = {}

    def on_fetch(self, item: Request, now: int) -> None:
        """Serve or park a Fetch. The offset that a voter asks for says what it has."""
        role = self._quorum.role
        request: RaftFetchRequest = item.message
        error = Errors.INVALID_REQUEST
        if _is_sane(request):
            error = self._quorum.check_leader_epoch(request.current_leader_epoch)
        if error is not Errors.NONE or not isinstance(role, Leader):
            self._refuse(item, error)
            return
        offset, epoch = request.fetch_offset, request.last_fetched_epoch
        snapshot = self._log.snapshot_needed(offset, epoch)
        if snapshot is not None:
            self._answer(role, item, snapshot=snapshot)
            return
        divergence = self._log.diverging(offset, epoch)
        if divergence is not None:
            self._answer(role, item, divergence)
            return
        self._note(role, request, now)
        if self._has_news(request, role) or request.max_wait_ms <= 0:
            self._answer(role, item)
        else:
            self._park(item, now + request.max_wait_ms * 1000)

    def _note(self, role: Leader, request: RaftFetchRequest, now: int) -> None:
        """Count what a replica of this log has, and that it fetches (updateReplicaState).

        A Fetch that is answered with a divergence or a snapshot does not count; one that was parked
        counts once more when an append answers it.
        """
        id_ = request.replica_id
        replica = (id_, request.replica_directory_id)
        voter = self._check_quorum.fetched(role, replica, now)
        offset = request.fetch_offset
        role.replica_fetched(replica, voter, offset, self._log.end_offset, now)
        if voter and offset != role.end_offsets[id_]:
            role.end_offsets[id_] = offset
            self._appends.update_high_watermark(role, now)

    def log_grew(self, now: int) -> None:
        """Answer the parked Fetches that find records now."""
        self._answer_those_with_news(now)

    def high_watermark_rose(self, now: int) -> None:
        """Answer the parked Fetches that know a lower high watermark, where that is the rule."""
        if self._high_watermark_completes:
            self._answer_those_with_news(now)

    def fail_all(self) -> None:
        """Refuse the parked Fetches: the leadership ended."""
        parked, self._parked = self._parked, {}
        for _, item in parked.values():
            self._refuse(item, Errors.NOT_LEADER_OR_FOLLOWER)

    def _park(self, item: Request, deadline: int) -> None:
        if not self._parked:
            self._context.timers.arm(PARKED_TIMER, deadline, LANE, self._on_deadline)
        self._parked[item.connection, item.correlation] = (deadline, item)

    def _answer_those_with_news(self, now: int) -> None:
        role = self._quorum.role
        if not self._parked or not isinstance(role, Leader):
            return
        for key, (_, item) in list(self._parked.items()):
            # Where the voters have changed, one answer may raise the high watermark for the next.
            if key in self._parked and self._has_news(item.message, role):
                del self._parked[key]
                self._note(role, item.message, now)
                self._answer(role, item)

    def _has_news(self, request: RaftFetchRequest, role: Leader) -> bool:
        return request.fetch_offset < self._log.end_offset or (
            self._high_watermark_completes and request.high_watermark < role.high_watermark
        )

    def _on_deadline(self, now: int) -> None:
        role = self._quorum.role
        if not isinstance(role, Leader):
            return
        for key, (deadline, item) in list(self._parked.items()):
            if deadline <= now:
                del self._parked[key]
                self._answer(role, item)
        if self._parked:
            deadline = min(deadline for deadline, _ in self._parked.values())
            self._context.timers.arm(PARKED_TIMER, deadline, LANE, self._on_deadline)

    def _refuse(self, item: Request, error: Errors) -> None:
        quorum = self._quorum
        endpoint = self._peers.endpoint(quorum.leader_id)
        response = RaftFetchResponse(
            error, quorum.leader_id, quorum.epoch, -1, -1, leader_endpoint=endpoint
        )
        self._context.respond(item, response)

    def _answer(
        self,
        role: Leader,
        item: Request,
        divergence: tuple[int, int] | None = None,
        snapshot: tuple[int, int] | None = None,
    ) -> None:
        """Answer with records, or with where the logs diverge, or with the snapshot to load."""
        log = self._log.log
        end_offset = log.log_end_offset
        request = item.message
        batches: tuple[RecordBatch, ...] = ()
        if divergence is None and snapshot is None and request.fetch_offset < end_offset:
            try:
                batches = log.read(request.fetch_offset, request.max_bytes, end_offset)
            except DiskError:
                self._refuse(item, Errors.KAFKA_STORAGE_ERROR)
                return
        response = RaftFetchResponse(
            Errors.NONE,
            self._context.node_id,
            role.epoch,
            role.high_watermark,
            log.log_start_offset,
            batches,
            divergence,
            snapshot,
        )
        self._context.respond(item, response)


def _is_sane(request: RaftFetchRequest) -> bool:
    """Return whether a replica can have sent a Fetch (KafkaRaftClient.handleFetchRequest)."""
    return (
        request.max_wait_ms >= 0
        and request.fetch_offset >= 0
        and 0 <= request.last_fetched_epoch <= request.current_leader_epoch
    )
