"""Requests of another cluster, which are refused before anything else of them is read.

The first step of every handler of KafkaRaftClient (hasValidClusterId). Such a request comes from a
node whose directories were formatted for another cluster. The error is that of the whole answer,
which names no leader and no epoch.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    CLUSTER_ID,
    AddRaftVoterRequest,
    BeginQuorumEpochRequest,
    BeginQuorumEpochResponse,
    EndQuorumEpochRequest,
    EndQuorumEpochResponse,
    FetchSnapshotRequest,
    FetchSnapshotResponse,
    RaftFetchRequest,
    RaftFetchResponse,
    RaftVoterResponse,
    RemoveRaftVoterRequest,
    UpdateRaftVoterRequest,
    VoteRequest,
    VoteResponse,
)

_ERROR = Errors.INCONSISTENT_CLUSTER_ID

_REFUSALS: dict[type, Any] = {
    VoteRequest: VoteResponse(_ERROR, -1, -1, False),
    BeginQuorumEpochRequest: BeginQuorumEpochResponse(_ERROR, -1, -1),
    EndQuorumEpochRequest: EndQuorumEpochResponse(_ERROR, -1, -1),
    RaftFetchRequest: RaftFetchResponse(_ERROR, -1, -1, -1, -1),
    FetchSnapshotRequest: FetchSnapshotResponse(_ERROR, -1, -1),
    AddRaftVoterRequest: RaftVoterResponse(_ERROR),
    RemoveRaftVoterRequest: RaftVoterResponse(_ERROR),
    UpdateRaftVoterRequest: RaftVoterResponse(_ERROR),
}
"""The requests that name a cluster, and how they are refused."""


def refusal(message: Any) -> Any:
    """Return the answer to a request of another cluster, None to one of this cluster."""
    answer = _REFUSALS.get(type(message))
    if answer is None or message.cluster_id is None or message.cluster_id == CLUSTER_ID:
        return None
    return answer
