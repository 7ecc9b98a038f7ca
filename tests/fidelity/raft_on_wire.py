"""Requests among the replicas of the metadata log, and ApiVersions, on the wire and as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from tests.fidelity.batches import decoded
from tests.fidelity.real_kafka import CONTROLLER

Body = dict[str, Any]

VERSIONS = {
    "ApiVersions": 4,
    "Vote": 2,
    "BeginQuorumEpoch": 1,
    "EndQuorumEpoch": 1,
    "FetchSnapshot": 1,
}

TOPIC, TOPIC_ID = "__cluster_metadata", "AAAAAAAAAAAAAAAAAAAAAQ"
NO_DIRECTORY = "AAAAAAAAAAAAAAAAAAAAAA"


def _of_log(cluster_id: str | None, partition: Body, **fields: Any) -> Body:
    partitions = [{"PartitionIndex": 0, **partition}]
    return {"ClusterId": cluster_id, "Topics": [{"TopicName": TOPIC, "Partitions": partitions}],
            **fields}  # fmt: skip


def _vote(request: m.VoteRequest) -> Body:
    partition = {
        "ReplicaEpoch": request.candidate_epoch,
        "ReplicaId": request.candidate_id,
        "ReplicaDirectoryId": request.candidate_directory_id,
        "VoterDirectoryId": request.voter_directory_id,
        "LastOffsetEpoch": request.last_offset_epoch,
        "LastOffset": request.last_offset,
        "PreVote": request.pre_vote,
    }
    return _of_log(request.cluster_id, partition, VoterId=CONTROLLER)


def _begin(request: m.BeginQuorumEpochRequest) -> Body:
    partition = {
        "VoterDirectoryId": request.voter_directory_id,
        "LeaderId": request.leader_id,
        "LeaderEpoch": request.leader_epoch,
    }
    return _of_log(request.cluster_id, partition, VoterId=CONTROLLER)


def _end(request: m.EndQuorumEpochRequest) -> Body:
    candidates = [
        {"CandidateId": voter, "CandidateDirectoryId": NO_DIRECTORY}
        for voter in request.preferred_successors
    ]
    partition = {
        "LeaderId": request.leader_id,
        "LeaderEpoch": request.leader_epoch,
        "PreferredCandidates": candidates,
    }
    return _of_log(request.cluster_id, partition)


def _fetch(request: m.RaftFetchRequest) -> Body:
    partition = {
        "Partition": 0,
        "CurrentLeaderEpoch": request.current_leader_epoch,
        "FetchOffset": request.fetch_offset,
        "LastFetchedEpoch": request.last_fetched_epoch,
        "PartitionMaxBytes": 0,
        "ReplicaDirectoryId": request.replica_directory_id,
    }
    return {
        "ClusterId": request.cluster_id,
        "ReplicaState": {"ReplicaId": request.replica_id, "ReplicaEpoch": -1},
        "MaxWaitMs": request.max_wait_ms,
        "MinBytes": 0,
        "MaxBytes": request.max_bytes,
        "Topics": [{"TopicId": TOPIC_ID, "Partitions": [partition]}],
    }


def _fetch_snapshot(request: m.FetchSnapshotRequest) -> Body:
    end_offset, epoch = request.snapshot_id
    partition = {
        "Partition": 0,
        "CurrentLeaderEpoch": request.current_leader_epoch,
        "SnapshotId": {"EndOffset": end_offset, "Epoch": epoch},
        "Position": request.position,
        "ReplicaDirectoryId": request.replica_directory_id,
    }
    return {
        "ClusterId": request.cluster_id,
        "ReplicaId": request.replica_id,
        "MaxBytes": request.max_bytes,
        "Topics": [{"Name": TOPIC, "Partitions": [partition]}],
    }


def _partition(body: Body, topics: str = "Topics") -> Body:
    """Return what is said of the only partition; with an error of the whole answer, only that."""
    if body["ErrorCode"]:
        return {"ErrorCode": body["ErrorCode"], "LeaderId": -1, "LeaderEpoch": -1}
    partition: Body = body[topics][0]["Partitions"][0]
    return partition


def _voted(_: Any, body: Body) -> m.VoteResponse:
    told = _partition(body)
    granted = told.get("VoteGranted", False)
    return m.VoteResponse(Errors(told["ErrorCode"]), told["LeaderId"], told["LeaderEpoch"], granted)


def _begun(_: Any, body: Body) -> m.BeginQuorumEpochResponse:
    told = _partition(body)
    error = Errors(told["ErrorCode"])
    return m.BeginQuorumEpochResponse(error, told["LeaderId"], told["LeaderEpoch"])


def _ended(_: Any, body: Body) -> m.EndQuorumEpochResponse:
    told = _partition(body)
    return m.EndQuorumEpochResponse(
        Errors(told["ErrorCode"]), told["LeaderId"], told["LeaderEpoch"]
    )


def _fetched(_: Any, body: Body) -> m.RaftFetchResponse:
    if body["ErrorCode"]:
        return m.RaftFetchResponse(Errors(body["ErrorCode"]), -1, -1, -1, -1)
    told = body["Responses"][0]["Partitions"][0]
    leader = told["CurrentLeader"] or {"LeaderId": -1, "LeaderEpoch": -1}
    return m.RaftFetchResponse(
        Errors(told["ErrorCode"]), leader["LeaderId"], leader["LeaderEpoch"],
        told["HighWatermark"], told["LogStartOffset"], decoded(told["Records"] or b""),
        _pair(told["DivergingEpoch"], "Epoch", "EndOffset"),
        _pair(told["SnapshotId"], "EndOffset", "Epoch"),
    )  # fmt: skip


def _pair(body: Body | None, first: str, second: str) -> tuple[int, int] | None:
    return (body[first], body[second]) if body and body["EndOffset"] >= 0 else None


def _snapshot_fetched(_: Any, body: Body) -> m.FetchSnapshotResponse:
    told = _partition(body)
    error = Errors(told["ErrorCode"])
    leader = told.get("CurrentLeader") or {"LeaderId": -1, "LeaderEpoch": -1}
    snapshot = told.get("SnapshotId", {"EndOffset": -1, "Epoch": -1})
    items = ((None, len(told["UnalignedRecords"])),) if told.get("UnalignedRecords") else ()
    return m.FetchSnapshotResponse(
        error, leader["LeaderId"], leader["LeaderEpoch"],
        (snapshot["EndOffset"], snapshot["Epoch"]), told.get("Size", 0), told.get("Position", 0),
        items,
    )  # fmt: skip


def _versions(_: Any, body: Body) -> m.ApiVersionsResponse:
    levels = tuple(
        sorted((each["Name"], each["MaxVersionLevel"]) for each in body["FinalizedFeatures"])
    )
    return m.ApiVersionsResponse(Errors(body["ErrorCode"]), levels, body["FinalizedFeaturesEpoch"])


REQUESTS: dict[type, tuple[str, Callable[[Any], Body]]] = {
    m.VoteRequest: ("Vote", _vote),
    m.BeginQuorumEpochRequest: ("BeginQuorumEpoch", _begin),
    m.EndQuorumEpochRequest: ("EndQuorumEpoch", _end),
    m.RaftFetchRequest: ("Fetch", _fetch),
    m.FetchSnapshotRequest: ("FetchSnapshot", _fetch_snapshot),
    m.ApiVersionsRequest: (
        "ApiVersions",
        lambda _: {"ClientSoftwareName": "fidelity", "ClientSoftwareVersion": "1"},
    ),
}

RESPONSES: dict[type, Callable[[Any, Body], Any]] = {
    m.VoteRequest: _voted,
    m.BeginQuorumEpochRequest: _begun,
    m.EndQuorumEpochRequest: _ended,
    m.RaftFetchRequest: _fetched,
    m.FetchSnapshotRequest: _snapshot_fetched,
    m.ApiVersionsRequest: _versions,
}


def _fetch_shown(answer: m.RaftFetchResponse, _names: Any) -> list[str]:
    """Return whether there are records, a divergence or a snapshot: two logs differ in offsets."""
    told = {
        "a high watermark": answer.high_watermark >= 0,
        "records": bool(answer.batches),
        "a divergence": answer.diverging_epoch is not None,
        "a snapshot": answer.snapshot_id is not None,
    }
    has = ", ".join(name for name, known in told.items() if known) or "nothing"
    leader = f"leader={answer.leader_id} epoch={answer.leader_epoch}"
    return [f"{answer.error.name} {leader} has {has}"]


def _snapshot_shown(answer: m.FetchSnapshotResponse, _names: Any) -> list[str]:
    has = f"some of its bytes from {answer.position}" if answer.items else "no bytes"
    leader = f"leader={answer.leader_id} epoch={answer.leader_epoch}"
    return [f"{answer.error.name} {leader} {has}"]


SHOWN: dict[type, Any] = {
    m.VoteResponse: lambda a, _names: [
        f"{a.error.name} leader={a.leader_id} epoch={a.leader_epoch} granted={a.vote_granted}"
    ],
    m.BeginQuorumEpochResponse: lambda a, _names: [
        f"{a.error.name} leader={a.leader_id} epoch={a.leader_epoch}"
    ],
    m.EndQuorumEpochResponse: lambda a, _names: [
        f"{a.error.name} leader={a.leader_id} epoch={a.leader_epoch}"
    ],
    m.RaftFetchResponse: _fetch_shown,
    m.FetchSnapshotResponse: _snapshot_shown,
    m.ApiVersionsResponse: lambda a, _names: [
        f"{a.error.name} epoch={'known' if a.finalized_features_epoch >= 0 else 'unknown'}",
        *(f"{name}={level}" for name, level in a.finalized_features),
    ],
}
