"""Requests of brokers to the controller on the wire, their answers as the model's, and as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors

Body = dict[str, Any]

VERSIONS = {
    "AlterPartition": 3,
    "AllocateProducerIds": 0,
    "AssignReplicasToDirs": 0,
    "BrokerHeartbeat": 1,
    "BrokerRegistration": 4,
}


def _alter(request: m.AlterPartitionRequest) -> Body:
    topics = [
        {
            "TopicId": each.topic_id,
            "Partitions": [
                {
                    "PartitionIndex": each.partition,
                    "LeaderEpoch": each.leader_epoch,
                    "NewIsrWithEpochs": [
                        {"BrokerId": broker, "BrokerEpoch": epoch} for broker, epoch in each.new_isr
                    ],
                    "LeaderRecoveryState": each.leader_recovery_state,
                    "PartitionEpoch": each.partition_epoch,
                }
            ],
        }
        for each in request.partitions
    ]
    return {"BrokerId": request.broker_id, "BrokerEpoch": request.broker_epoch, "Topics": topics}


def _register(request: m.BrokerRegistrationRequest) -> Body:
    listener = {"Name": "PLAINTEXT", "Host": "127.0.0.1", "Port": 9, "SecurityProtocol": 0}
    return {
        "BrokerId": request.broker_id,
        "ClusterId": request.cluster_id,
        "IncarnationId": request.incarnation_id,
        "Listeners": [listener],
        "Features": [
            {"Name": name, "MinSupportedVersion": lowest, "MaxSupportedVersion": highest}
            for name, lowest, highest in request.features
        ],
        "Rack": request.rack,
        "LogDirs": list(request.log_dirs),
        "PreviousBrokerEpoch": request.previous_broker_epoch,
    }


def _heartbeat(request: m.BrokerHeartbeatRequest) -> Body:
    return {
        "BrokerId": request.broker_id,
        "BrokerEpoch": request.broker_epoch,
        "CurrentMetadataOffset": request.current_metadata_offset,
        "WantFence": request.want_fence,
        "WantShutDown": request.want_shut_down,
        "OfflineLogDirs": list(request.offline_log_dirs),
    }


def _assign(request: m.AssignReplicasToDirsRequest) -> Body:
    directories = [
        {
            "Id": directory,
            "Topics": [{"TopicId": topic, "Partitions": [{"PartitionIndex": number}]}],
        }
        for directory, topic, number in request.directories
    ]
    return {
        "BrokerId": request.broker_id,
        "BrokerEpoch": request.broker_epoch,
        "Directories": directories,
    }


def _of_broker(request: Any) -> Body:
    return {"BrokerId": request.broker_id, "BrokerEpoch": request.broker_epoch}


def _altered(_: Any, body: Body) -> m.AlterPartitionResponse:
    rows = [(topic["TopicId"], p) for topic in body["Topics"] for p in topic["Partitions"]]
    return m.AlterPartitionResponse(
        Errors(body["ErrorCode"]),
        tuple(
            m.AlterPartitionResult(
                topic, p["PartitionIndex"], Errors(p["ErrorCode"]), p["LeaderId"],
                p["LeaderEpoch"], tuple(p["Isr"]), p["PartitionEpoch"], p["LeaderRecoveryState"],
            )
            for topic, p in rows
        ),
    )  # fmt: skip


def _assigned(_: Any, body: Body) -> m.AssignReplicasToDirsResponse:
    return m.AssignReplicasToDirsResponse(
        Errors(body["ErrorCode"]),
        tuple(
            (each["Id"], topic["TopicId"], p["PartitionIndex"], Errors(p["ErrorCode"]))
            for each in body["Directories"]
            for topic in each["Topics"]
            for p in topic["Partitions"]
        ),
    )


REQUESTS: dict[type, tuple[str, Callable[[Any], Body]]] = {
    m.AlterPartitionRequest: ("AlterPartition", _alter),
    m.AllocateProducerIdsRequest: ("AllocateProducerIds", _of_broker),
    m.AssignReplicasToDirsRequest: ("AssignReplicasToDirs", _assign),
    m.BrokerHeartbeatRequest: ("BrokerHeartbeat", _heartbeat),
    m.BrokerRegistrationRequest: ("BrokerRegistration", _register),
}

RESPONSES: dict[type, Callable[[Any, Body], Any]] = {
    m.AlterPartitionRequest: _altered,
    m.AllocateProducerIdsRequest: lambda _, b: m.AllocateProducerIdsResponse(
        Errors(b["ErrorCode"]), b["ProducerIdStart"], b["ProducerIdLen"]
    ),
    m.AssignReplicasToDirsRequest: _assigned,
    m.BrokerHeartbeatRequest: lambda _, b: m.BrokerHeartbeatResponse(
        Errors(b["ErrorCode"]), b["IsCaughtUp"], b["IsFenced"], b["ShouldShutDown"]
    ),
    m.BrokerRegistrationRequest: lambda _, b: m.BrokerRegistrationResponse(
        Errors(b["ErrorCode"]), b["BrokerEpoch"]
    ),
}


def _result(each: m.AlterPartitionResult, names: Any) -> str:
    text = f"{names.topics.get(each.topic_id, 'unknown id')}-{each.partition} {each.error.name}"
    if each.error is not Errors.NONE:
        return text
    return (
        f"{text} leader={each.leader} epoch={each.leader_epoch} isr={sorted(each.isr)}"
        f" partition epoch={each.partition_epoch} recovery={each.leader_recovery_state}"
    )


SHOWN: dict[type, Any] = {
    m.AlterPartitionResponse: lambda a, names: [
        a.error.name,
        *(_result(each, names) for each in a.partitions),
    ],
    m.AllocateProducerIdsResponse: lambda a, _names: [f"{a.error.name} {a.producer_id_len} ids"],
    m.AssignReplicasToDirsResponse: lambda a, names: [
        a.error.name,
        *(
            f"{names.topics.get(topic, 'unknown id')}-{number} {error.name}"
            for _, topic, number, error in a.directories
        ),
    ],
    m.BrokerHeartbeatResponse: lambda a, _names: [
        f"{a.error.name} caught up={a.is_caught_up} fenced={a.is_fenced} stop={a.should_shut_down}"
    ],
    m.BrokerRegistrationResponse: lambda a, _names: [
        f"{a.error.name} epoch={'new' if a.broker_epoch >= 0 else 'none'}"
    ],
}
