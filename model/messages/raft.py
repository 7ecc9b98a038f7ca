"""The quorum: Vote, BeginQuorumEpoch, EndQuorumEpoch and its Fetch."""

from __future__ import annotations

from model.errors import Errors
from model.messages.base import HEADER, PER_PARTITION, Message
from model.records import RecordBatch
from model.values import value


@value
class VoteRequest(Message):
    candidate_epoch: int
    candidate_id: int
    last_offset_epoch: int
    last_offset: int
    pre_vote: bool = False
    candidate_directory_id: str = ""


@value
class VoteResponse(Message):
    error: Errors
    leader_id: int
    leader_epoch: int
    vote_granted: bool


@value
class BeginQuorumEpochRequest(Message):
    leader_id: int
    leader_epoch: int


@value
class BeginQuorumEpochResponse(Message):
    error: Errors
    leader_id: int
    leader_epoch: int


@value
class EndQuorumEpochRequest(Message):
    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[int, ...]


@value
class EndQuorumEpochResponse(Message):
    error: Errors
    leader_id: int
    leader_epoch: int


@value
class RaftFetchRequest(Message):
    """The quorum's Fetch (API key 1 on ``__cluster_metadata-0``)."""

    replica_id: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    max_bytes: int = 8 * 1024 * 1024
    replica_directory_id: str = ""
    high_watermark: int = -1


@value
class RaftFetchResponse(Message):
    error: Errors
    leader_id: int
    leader_epoch: int
    high_watermark: int
    log_start_offset: int
    batches: tuple[RecordBatch, ...] = ()
    diverging_epoch: tuple[int, int] | None = None
    snapshot_id: tuple[int, int] | None = None  # (end offset, epoch)

    def wire_size(self) -> int:
        return HEADER + PER_PARTITION + sum([batch.size for batch in self.batches])
