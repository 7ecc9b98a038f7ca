"""Requests about the quorum on the wire, their answers as the model's, and as text.

The one partition that they are about is not in the model's messages.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from tests.fidelity.wire import NULL_UUID_TEXT

Body = dict[str, Any]

VERSIONS = {"AddRaftVoter": 0, "RemoveRaftVoter": 0, "UpdateRaftVoter": 0, "DescribeQuorum": 2}

LISTENER = "CONTROLLER"


def _listeners(address: str) -> list[Body]:
    host, _, port = address.rpartition(":")
    return [{"Name": LISTENER, "Host": host, "Port": int(port)}]


def _add(request: m.AddRaftVoterRequest) -> Body:
    return {
        "ClusterId": request.cluster_id,
        "TimeoutMs": 15_000,
        "VoterId": request.voter_id,
        "VoterDirectoryId": request.directory_id,
        "Listeners": _listeners(request.address),
    }


def _remove(request: m.RemoveRaftVoterRequest) -> Body:
    return {
        "ClusterId": request.cluster_id,
        "VoterId": request.voter_id,
        "VoterDirectoryId": request.directory_id,
    }


def _update(request: m.UpdateRaftVoterRequest) -> Body:
    return {
        "ClusterId": request.cluster_id,
        "CurrentLeaderEpoch": request.current_leader_epoch,
        "VoterId": request.voter_id,
        "VoterDirectoryId": request.directory_id,
        "Listeners": _listeners(request.address),
        "KRaftVersionFeature": {"MinSupportedVersion": 0, "MaxSupportedVersion": 1},
    }


def _describe(_: m.DescribeQuorumRequest) -> Body:
    partitions = [{"PartitionIndex": 0}]
    return {"Topics": [{"TopicName": "__cluster_metadata", "Partitions": partitions}]}


def _replica(body: Body) -> m.QuorumReplica:
    directory_id = body["ReplicaDirectoryId"]
    fetched, caught_up = body["LastFetchTimestamp"], body["LastCaughtUpTimestamp"]
    return m.QuorumReplica(
        body["ReplicaId"], "" if directory_id == NULL_UUID_TEXT else directory_id,
        body["LogEndOffset"], fetched if fetched < 0 else fetched * 1000,
        caught_up if caught_up < 0 else caught_up * 1000,
    )  # fmt: skip


def _described(_: Any, body: Body) -> m.DescribeQuorumResponse:
    if body["ErrorCode"]:
        return m.DescribeQuorumResponse(Errors(body["ErrorCode"]))
    partition = body["Topics"][0]["Partitions"][0]
    return m.DescribeQuorumResponse(
        Errors(partition["ErrorCode"]), partition["LeaderId"], partition["LeaderEpoch"],
        partition["HighWatermark"], tuple(map(_replica, partition["CurrentVoters"])),
        tuple(map(_replica, partition["Observers"])),
    )  # fmt: skip


def _error_alone(_: Any, body: Body) -> m.RaftVoterResponse:
    return m.RaftVoterResponse(Errors(body["ErrorCode"]))


def _shown(answer: m.DescribeQuorumResponse, _names: Any) -> list[str]:
    """Return the quorum; offsets and times of two sides are only known or unknown."""
    high = "known" if answer.high_watermark >= 0 else "unknown"
    lines = [f"{answer.error.name} leader={answer.leader_id} epoch={answer.leader_epoch} hw={high}"]
    for kind, replicas in (("voter", answer.voters), ("observer", answer.observers)):
        for each in sorted(replicas, key=lambda each: each.id):
            told = {
                "a directory id": bool(each.directory_id),
                "an end": each.log_end_offset >= 0,
                "a fetch": each.last_fetch_us >= 0,
                "caught up": each.last_caught_up_us >= 0,
            }
            texts = [name for name, known in told.items() if known]
            lines.append(f"{kind} {each.id} has {', '.join(texts) or 'nothing'}")
    return lines


REQUESTS: dict[type, tuple[str, Callable[[Any], Body]]] = {
    m.AddRaftVoterRequest: ("AddRaftVoter", _add),
    m.RemoveRaftVoterRequest: ("RemoveRaftVoter", _remove),
    m.UpdateRaftVoterRequest: ("UpdateRaftVoter", _update),
    m.DescribeQuorumRequest: ("DescribeQuorum", _describe),
}

RESPONSES: dict[type, Callable[[Any, Body], Any]] = {
    m.AddRaftVoterRequest: _error_alone,
    m.RemoveRaftVoterRequest: _error_alone,
    m.UpdateRaftVoterRequest: _error_alone,
    m.DescribeQuorumRequest: _described,
}

SHOWN: dict[type, Any] = {
    m.RaftVoterResponse: lambda a, _names: [a.error.name],
    m.DescribeQuorumResponse: _shown,
}
