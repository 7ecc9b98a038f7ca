"""Requests of a ZooKeeper controller to brokers on the wire, and controlled shutdown."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition

Body = dict[str, Any]

VERSIONS = {"LeaderAndIsr": 7, "StopReplica": 4, "UpdateMetadata": 8, "ControlledShutdown": 3}

INCREMENTAL = 0
"""The type of a LeaderAndIsr that does not name all partitions of its broker."""


def _head(request: Any) -> Body:
    return {
        "ControllerId": request.controller_id,
        "ControllerEpoch": request.controller_epoch,
        "BrokerEpoch": request.broker_epoch,
    }


def _by_topic(states: tuple[m.ControlPartition, ...], version_key: str, extra: bool) -> list[Body]:
    topics: dict[tuple[str, str], list[Body]] = {}
    for state in states:
        row: Body = {
            "PartitionIndex": state.tp.partition,
            "ControllerEpoch": state.controller_epoch,
            "Leader": state.leader,
            "LeaderEpoch": state.leader_epoch,
            "Isr": list(state.isr),
            version_key: state.partition_epoch,
            "Replicas": list(state.replicas),
        }
        if extra:
            row |= {
                "AddingReplicas": list(state.adding_replicas),
                "RemovingReplicas": list(state.removing_replicas),
                "IsNew": state.is_new,
                "LeaderRecoveryState": state.leader_recovery_state,
            }
        topics.setdefault((state.tp.topic, state.topic_id), []).append(row)
    return [
        {"TopicName": topic, "TopicId": id_, "PartitionStates": rows}
        for (topic, id_), rows in topics.items()
    ]


def _leader_and_isr(request: m.LeaderAndIsrRequest) -> Body:
    leaders = [(broker, *address.rsplit(":", 1)) for broker, address in request.live_leaders]
    return {
        **_head(request),
        "Type": INCREMENTAL,
        "TopicStates": _by_topic(request.partitions, "PartitionEpoch", extra=True),
        "LiveLeaders": [
            {"BrokerId": broker, "HostName": host, "Port": int(port)}
            for broker, host, port in leaders
        ],
    }


def _endpoint(address: str) -> Body:
    host, port = address.rsplit(":", 1)
    return {"Port": int(port), "Host": host, "Listener": "PLAINTEXT", "SecurityProtocol": 0}


def _update_metadata(request: m.UpdateMetadataRequest) -> Body:
    return {
        **_head(request),
        "TopicStates": _by_topic(request.partitions, "ZkVersion", extra=False),
        "LiveBrokers": [
            {"Id": each.id, "Endpoints": [_endpoint(each.address)], "Rack": each.rack}
            for each in request.live_brokers
        ],
    }


def _stop_replica(request: m.StopReplicaRequest) -> Body:
    topics: dict[str, list[Body]] = {}
    for each in request.partitions:
        topics.setdefault(each.tp.topic, []).append(
            {
                "PartitionIndex": each.tp.partition,
                "LeaderEpoch": each.leader_epoch,
                "DeletePartition": each.delete_partition,
            }
        )
    rows = [{"TopicName": topic, "PartitionStates": states} for topic, states in topics.items()]
    return {**_head(request), "TopicStates": rows}


def _led(request: m.LeaderAndIsrRequest, body: Body) -> m.LeaderAndIsrResponse:
    names = {state.topic_id: state.tp.topic for state in request.partitions}
    return m.LeaderAndIsrResponse(
        Errors(body["ErrorCode"]),
        tuple(
            (TopicPartition(names[topic["TopicId"]], p["PartitionIndex"]), Errors(p["ErrorCode"]))
            for topic in body["Topics"]
            for p in topic["PartitionErrors"]
        ),
    )


REQUESTS: dict[type, tuple[str, Callable[[Any], Body]]] = {
    m.LeaderAndIsrRequest: ("LeaderAndIsr", _leader_and_isr),
    m.StopReplicaRequest: ("StopReplica", _stop_replica),
    m.UpdateMetadataRequest: ("UpdateMetadata", _update_metadata),
    m.ControlledShutdownRequest: (
        "ControlledShutdown",
        lambda r: {"BrokerId": r.broker_id, "BrokerEpoch": r.broker_epoch},
    ),
}

RESPONSES: dict[type, Callable[[Any, Body], Any]] = {
    m.LeaderAndIsrRequest: _led,
    m.StopReplicaRequest: lambda _, b: m.StopReplicaResponse(
        Errors(b["ErrorCode"]),
        tuple(
            (TopicPartition(p["TopicName"], p["PartitionIndex"]), Errors(p["ErrorCode"]))
            for p in b["PartitionErrors"]
        ),
    ),
    m.UpdateMetadataRequest: lambda _, b: m.UpdateMetadataResponse(Errors(b["ErrorCode"])),
    m.ControlledShutdownRequest: lambda _, b: m.ControlledShutdownResponse(
        Errors(b["ErrorCode"]),
        tuple(
            TopicPartition(p["TopicName"], p["PartitionIndex"]) for p in b["RemainingPartitions"]
        ),
    ),
}


def _results(answer: Any, _names: Any) -> list[str]:
    rows = [f"{tp} {error.name}" for tp, error in sorted(answer.partitions)]
    return [answer.error.name, *rows]


SHOWN: dict[type, Any] = {
    m.LeaderAndIsrResponse: _results,
    m.StopReplicaResponse: _results,
    m.UpdateMetadataResponse: lambda a, _names: [a.error.name],
    m.ControlledShutdownResponse: lambda a, _names: [
        f"{a.error.name} remaining={[str(tp) for tp in sorted(a.remaining_partitions)]}"
    ],
}
