"""Produce, Fetch, ListOffsets, OffsetForLeaderEpoch, DeleteRecords, Metadata and its kin."""

from __future__ import annotations

from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import COORDINATOR_TOPICS, TopicPartition
from kafkasim.scenarios.wire.adapters.base import (
    Adapter,
    Body,
    Call,
    asked,
    by_topic,
    each_partition,
    leader_body,
)
from kafkasim.scenarios.wire.compiling import NULL_UUID
from kafkasim.scenarios.wire.records import decoded, encoded

_UNKNOWN = "?"
"""Begins the name that stands in for a topic whose id the broker does not know."""


def _produce(call: Call) -> list[Any]:
    body, found = call.body, []
    for topic in body["TopicData"]:
        name = _named(call, topic, call.version >= 13, "Name")
        for row in topic["PartitionData"]:
            tp = TopicPartition(name, row["Index"])
            found.append(m.ProducePartition(tp, decoded(row["Records"], tp)))
    return [
        m.ProduceRequest(
            body["Acks"],
            body["TimeoutMs"],
            tuple(found),
            body["TransactionalId"],
            2 if call.version >= 12 else 0,
            call.version >= 11,
            call.client_id,
        )
    ]


def _named(call: Call, topic: Body, by_id: bool, key: str) -> str:
    """Return the name of a topic of a request, which has its id instead in newer versions."""
    if not by_id:
        return str(topic[key])
    return call.topic_name(topic["TopicId"]) or _UNKNOWN + topic["TopicId"]


def _produced(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    rows = [
        (
            each.tp,
            {
                "Index": each.tp.partition,
                "ErrorCode": Errors.UNKNOWN_TOPIC_ID
                if each.tp.topic.startswith(_UNKNOWN)
                else each.error,
                "BaseOffset": each.base_offset,
                "LogAppendTimeMs": each.log_append_time_ms,
                "LogStartOffset": each.log_start_offset,
                "CurrentLeader": leader_body(each.current_leader),
            },
        )
        for each in answer.partitions
    ]
    topics = by_topic(rows, key="PartitionResponses")
    if call.version >= 13:
        ids = {
            _named(call, topic, True, "Name"): topic["TopicId"] for topic in call.body["TopicData"]
        }
        for topic in topics:
            topic["TopicId"] = ids.get(topic["Name"], call.topic_id(topic.pop("Name")))
    return {"Responses": topics, "ThrottleTimeMs": answer.throttle_time_ms}


def _fetch(call: Call) -> list[Any]:
    body, ids = call.body, call.version >= 13

    def named(topic: Body) -> str:
        return _named(call, topic, ids, "Topic")

    wanted = [
        m.FetchPartition(
            TopicPartition(named(topic), each["Partition"]),
            topic["TopicId"] if ids else "",
            each["FetchOffset"],
            each.get("LogStartOffset", -1),
            each.get("CurrentLeaderEpoch", -1),
            each.get("LastFetchedEpoch", -1),
            each["PartitionMaxBytes"],
        )
        for topic in body["Topics"]
        for each in topic["Partitions"]
    ]
    forgotten = [
        (topic["TopicId"] if ids else "", TopicPartition(named(topic), number))
        for topic in body.get("ForgottenTopicsData", ())
        for number in topic["Partitions"]
    ]
    return [
        m.FetchRequest(
            -1,  # a connection from outside is never a replica's
            -1,
            body["MaxWaitMs"],
            body["MinBytes"],
            body.get("MaxBytes", 2**31 - 1),
            body.get("IsolationLevel", 0),
            tuple(wanted),
            body.get("SessionId", 0),
            body.get("SessionEpoch", -1),
            body.get("RackId", "") if call.version >= 11 else None,
            tuple(forgotten),
            call.client_id,
        )
    ]


def _fetched(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    topics: dict[str, list[Body]] = {}
    for each in answer.partitions:
        row = {
            "PartitionIndex": each.tp.partition,
            "ErrorCode": each.error,
            "HighWatermark": each.high_watermark,
            "LastStableOffset": each.last_stable_offset,
            "LogStartOffset": each.log_start_offset,
            "Records": b"".join([encoded(batch) for batch in each.batches]),
            "PreferredReadReplica": each.preferred_read_replica,
            "CurrentLeader": leader_body(each.current_leader),
            "AbortedTransactions": [
                {"ProducerId": producer_id, "FirstOffset": first}
                for producer_id, first in each.aborted_transactions
            ],
        }
        if each.diverging_epoch is not None:
            epoch, end = each.diverging_epoch
            row["DivergingEpoch"] = {"Epoch": epoch, "EndOffset": end}
        topics.setdefault(each.tp.topic, []).append(row)
    ids = call.version >= 13
    return {
        "ErrorCode": answer.error,
        "SessionId": answer.session_id,
        "ThrottleTimeMs": answer.throttle_time_ms,
        "Responses": [
            {"TopicId" if ids else "Topic": _id_of(call, name) if ids else name, "Partitions": rows}
            for name, rows in topics.items()
        ],
    }


def _id_of(call: Call, name: str) -> str:
    if name.startswith(_UNKNOWN):
        return name.removeprefix(_UNKNOWN)
    for each in call.messages[0].partitions:  # the topic may be deleted by now
        if each.tp.topic == name:
            return str(each.topic_id)
    return call.topic_id(name)


def _list_offsets(call: Call) -> list[Any]:
    rows = [
        m.ListOffsetsPartition(tp, row.get("CurrentLeaderEpoch", -1), row["Timestamp"])
        for tp, row in each_partition(call.body["Topics"])
    ]
    isolation = call.body.get("IsolationLevel", 0)
    return [m.ListOffsetsRequest(call.body["ReplicaId"], isolation, tuple(rows))]


def _offsets_listed(call: Call, answers: list[Any]) -> Body:
    return {
        "Topics": by_topic(
            (
                each.tp,
                {
                    "PartitionIndex": each.tp.partition,
                    "ErrorCode": each.error,
                    "Timestamp": each.timestamp,
                    "Offset": each.offset,
                    "LeaderEpoch": each.leader_epoch,
                },
            )
            for each in answers[0].partitions
        )
    }


def _epochs(call: Call) -> list[Any]:
    rows = [
        m.OffsetForLeaderEpochPartition(
            TopicPartition(topic["Topic"], each["Partition"]),
            each.get("CurrentLeaderEpoch", -1),
            each["LeaderEpoch"],
        )
        for topic in call.body["Topics"]
        for each in topic["Partitions"]
    ]
    return [m.OffsetsForLeaderEpochRequest(call.body.get("ReplicaId", -1), tuple(rows))]


def _epochs_found(call: Call, answers: list[Any]) -> Body:
    rows = [
        (
            each.tp,
            {
                "ErrorCode": each.error,
                "Partition": each.tp.partition,
                "LeaderEpoch": each.leader_epoch,
                "EndOffset": each.end_offset,
            },
        )
        for each in answers[0].partitions
    ]
    return {"Topics": by_topic(rows, "Topic")}


def _delete_records(call: Call) -> list[Any]:
    rows = [(tp, row["Offset"]) for tp, row in each_partition(call.body["Topics"])]
    return [m.DeleteRecordsRequest(tuple(rows), call.body["TimeoutMs"])]


def _records_deleted(call: Call, answers: list[Any]) -> Body:
    return {
        "Topics": by_topic(
            (
                each.tp,
                {
                    "PartitionIndex": each.tp.partition,
                    "LowWatermark": each.low_watermark,
                    "ErrorCode": each.error,
                },
            )
            for each in answers[0].partitions
        )
    }


def _metadata(call: Call) -> list[Any]:
    topics = call.body["Topics"]
    if topics is None or (call.version == 0 and not topics):
        names = None
    else:
        found = [each["Name"] or call.topic_name(each.get("TopicId", "")) for each in topics]
        names = tuple([name for name in found if name])
    return [m.MetadataRequest(names, call.body.get("AllowAutoTopicCreation", True))]


def _metadata_found(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    topics = [
        {
            "ErrorCode": topic.error,
            "Name": topic.topic,
            "TopicId": topic.topic_id or NULL_UUID,
            "IsInternal": topic.topic in COORDINATOR_TOPICS,
            "Partitions": [partition_body(each) for each in topic.partitions],
        }
        for topic in answer.topics
    ]
    for each in call.body["Topics"] or ():
        if each["Name"] is None and not call.topic_name(each["TopicId"]):
            error = Errors.UNKNOWN_TOPIC_ID
            topics.append({"ErrorCode": error, "Name": None, "TopicId": each["TopicId"]})
    return {
        "Brokers": [_broker(call, each, "NodeId") for each in answer.brokers],
        "ClusterId": m.CLUSTER_ID,
        "ControllerId": answer.controller_id,
        "Topics": topics,
    }


def partition_body(each: m.MetadataPartition) -> Body:
    """Return a partition as Metadata has it."""
    return {
        "ErrorCode": each.error,
        "PartitionIndex": each.partition,
        "LeaderId": each.leader,
        "LeaderEpoch": each.leader_epoch,
        "ReplicaNodes": each.replicas,
        "IsrNodes": each.isr,
        "OfflineReplicas": each.offline_replicas,
    }


def _broker(call: Call, broker: m.MetadataBroker, key: str) -> Body:
    host, port = call.broker.listener(broker.address)
    return {key: broker.id, "Host": host, "Port": port, "Rack": broker.rack}


def _cluster(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    return {
        "ClusterId": m.CLUSTER_ID,
        "ControllerId": answer.controller_id,
        "EndpointType": call.body.get("EndpointType", 1),
        "Brokers": [_broker(call, each, "BrokerId") for each in answer.brokers],
    }


def _find_coordinator(call: Call) -> list[Any]:
    keys = call.body["CoordinatorKeys"] if call.version >= 4 else [call.body["Key"]]
    return [m.FindCoordinatorRequest(key, call.body.get("KeyType", 0)) for key in keys]


def _coordinator(call: Call, answers: list[Any]) -> Body:
    rows = []
    for request, answer in zip(call.messages, answers, strict=True):
        node, address = answer.node_id, answer.address
        host, port = call.broker.listener(address) if node >= 0 else ("", -1)
        row = {"NodeId": node, "Host": host, "Port": port, "ErrorCode": answer.error}
        rows.append({"Key": request.key, **row} if call.version >= 4 else row)
    return {"Coordinators": rows} if call.version >= 4 else rows[0]


DATA: dict[str, Adapter] = {
    "Produce": Adapter(3, 13, _produce, _produced),
    "Fetch": Adapter(4, 18, _fetch, _fetched),
    "ListOffsets": Adapter(1, 10, _list_offsets, _offsets_listed),
    "OffsetForLeaderEpoch": Adapter(2, 4, _epochs, _epochs_found),
    "DeleteRecords": Adapter(0, 2, _delete_records, _records_deleted),
    "Metadata": Adapter(0, 13, _metadata, _metadata_found),
    "DescribeCluster": Adapter(0, 1, asked, _cluster),
    "FindCoordinator": Adapter(0, 6, _find_coordinator, _coordinator),
}
"""By the API's name."""
