"""The requests of the quorum: elections, its Fetch and FetchSnapshot, changes of voters.

``cluster_id`` is the sender's; with None it is not checked.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import CLUSTER_ID, HEADER, PER_PARTITION, Message
from kafkasim.model.records import RecordBatch
from kafkasim.model.values import value


@value
class VoteRequest(Message):
    candidate_epoch: int
    candidate_id: int
    last_offset_epoch: int  # of the last record in the candidate's log
    last_offset: int  # the end offset of that log
    pre_vote: bool = False  # asks without raising the epoch (KIP-996)
    candidate_directory_id: str = ""
    voter_directory_id: str = ""  # of the voter that is asked; "" matches every directory
    cluster_id: str | None = CLUSTER_ID


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
    voter_directory_id: str = ""  # of the voter that is told; "" matches every directory
    cluster_id: str | None = CLUSTER_ID


@value
class BeginQuorumEpochResponse(Message):
    error: Errors
    leader_id: int
    leader_epoch: int


@value
class EndQuorumEpochRequest(Message):
    leader_id: int
    leader_epoch: int
    preferred_successors: tuple[int, ...]  # the most caught-up voter first
    cluster_id: str | None = CLUSTER_ID


@value
class EndQuorumEpochResponse(Message):
    error: Errors
    leader_id: int
    leader_epoch: int


@value
class RaftFetchRequest(Message):
    """The Fetch of a voter or observer, for ``__cluster_metadata-0``."""

    replica_id: int
    current_leader_epoch: int
    fetch_offset: int
    last_fetched_epoch: int
    max_wait_ms: int
    max_bytes: int = 8 * 1024 * 1024
    replica_directory_id: str = ""
    high_watermark: int = -1  # that the replica knows (KIP-1166)
    cluster_id: str | None = CLUSTER_ID


@value
class RaftFetchResponse(Message):
    error: Errors
    leader_id: int
    leader_epoch: int
    high_watermark: int
    log_start_offset: int
    batches: tuple[RecordBatch, ...] = ()
    diverging_epoch: tuple[int, int] | None = None  # (epoch, end offset): truncate
    snapshot_id: tuple[int, int] | None = None  # (end offset, epoch): load this first
    leader_endpoint: str = ""  # with a refusal, for a replica that knows no leader (KIP-853)

    def wire_size(self) -> int:
        return HEADER + PER_PARTITION + sum([batch.size for batch in self.batches])


@value
class FetchSnapshotRequest(Message):
    """Asks for a chunk of a snapshot (KIP-630)."""

    replica_id: int
    current_leader_epoch: int
    snapshot_id: tuple[int, int]  # (end offset, epoch)
    position: int  # in bytes, where the chunk begins
    max_bytes: int = 8 * 1024 * 1024
    replica_directory_id: str = ""
    cluster_id: str | None = CLUSTER_ID


@value
class FetchSnapshotResponse(Message):
    """A chunk of a snapshot."""

    error: Errors
    leader_id: int
    leader_epoch: int
    snapshot_id: tuple[int, int] = (-1, -1)
    size: int = 0  # bytes of the whole snapshot
    position: int = 0
    items: tuple[tuple[Any, int], ...] = ()  # of the file, from ``position`` on: (item, bytes)

    def wire_size(self) -> int:
        return HEADER + PER_PARTITION + sum([size for _, size in self.items])


@value
class AddRaftVoterRequest(Message):
    """Asks the leader to make an observer a voter (KIP-853)."""

    voter_id: int
    directory_id: str
    address: str
    cluster_id: str | None = None  # AdminClient names none of itself


@value
class RemoveRaftVoterRequest(Message):
    """Asks the leader to make a voter an observer (KIP-853)."""

    voter_id: int
    directory_id: str
    cluster_id: str | None = None  # AdminClient names none of itself


@value
class UpdateRaftVoterRequest(Message):
    """Tells the leader a voter's new address (KIP-853)."""

    voter_id: int
    directory_id: str
    address: str
    current_leader_epoch: int
    cluster_id: str | None = CLUSTER_ID


@value
class RaftVoterResponse(Message):
    error: Errors


@value
class DescribeQuorumRequest(Message):
    """Asks the leader for what it knows of the voters and observers."""


@value
class QuorumReplica:
    """A voter or observer, as the leader sees it."""

    id: int
    directory_id: str
    log_end_offset: int
    last_fetch_us: int  # on the leader's clock; −1: never
    last_caught_up_us: int  # on the leader's clock; −1: never


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
