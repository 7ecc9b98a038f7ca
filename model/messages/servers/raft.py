"""The quorum: Vote, BeginQuorumEpoch, EndQuorumEpoch, its Fetch and FetchSnapshot."""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.records import RecordBatch
from kafkasim.model.values import value


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
    leader_endpoint: str = ""


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
    leader_endpoint: str = ""  # with a refusal: who fetches may not know the leader (KIP-853)

    def wire_size(self) -> int:
        return HEADER + PER_PARTITION + sum([batch.size for batch in self.batches])


@value
class FetchSnapshotRequest(Message):
    """A chunk of a snapshot from ``position``, in bytes, on (KIP-630)."""

    replica_id: int
    current_leader_epoch: int
    snapshot_id: tuple[int, int]  # (end offset, epoch)
    position: int
    max_bytes: int = 8 * 1024 * 1024


@value
class FetchSnapshotResponse(Message):
    """``items`` are the file's own from ``position`` on, with their sizes: (item, bytes)."""

    error: Errors
    leader_id: int
    leader_epoch: int
    snapshot_id: tuple[int, int] = (-1, -1)
    size: int = 0  # of the whole snapshot
    position: int = 0
    items: tuple[tuple[Any, int], ...] = ()

    def wire_size(self) -> int:
        return HEADER + PER_PARTITION + sum([size for _, size in self.items])


@value
class AddRaftVoterRequest(Message):
    """KIP-853: an observer becomes a voter."""

    voter_id: int
    directory_id: str
    address: str


@value
class RemoveRaftVoterRequest(Message):
    """KIP-853: a voter becomes an observer."""

    voter_id: int
    directory_id: str


@value
class UpdateRaftVoterRequest(Message):
    """KIP-853: a voter listens elsewhere."""

    voter_id: int
    directory_id: str
    address: str


@value
class RaftVoterResponse(Message):
    error: Errors


@value
class DescribeQuorumRequest(Message):
    """What the leader knows of the quorum of the metadata log."""


@value
class QuorumReplica:
    """A voter or observer in DescribeQuorum; times are on the leader's clock, −1 never."""

    id: int
    directory_id: str
    log_end_offset: int
    last_fetch_us: int
    last_caught_up_us: int


@value
class DescribeQuorumResponse(Message):
    error: Errors
    leader_id: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    voters: tuple[QuorumReplica, ...] = ()
    observers: tuple[QuorumReplica, ...] = ()

    def wire_size(self) -> int:
        return HEADER + PER_PARTITION * (1 + len(self.voters) + len(self.observers))
