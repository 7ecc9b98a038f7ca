"""The records of share groups (KIP-932): ShareFetch, ShareAcknowledge, and operators' offsets."""

from __future__ import annotations

from typing import Any

from kafkasim.model.messages import share
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.wire.adapters.base import Adapter, Body, Call
from kafkasim.scenarios.wire.records import encoded

_UNKNOWN = "?"
_NO_LEADER = {"LeaderId": -1, "LeaderEpoch": -1}


def _partitions(call: Call) -> tuple[share.SharePartitionRequest, ...]:
    return tuple(
        [
            share.SharePartitionRequest(
                _named(call, topic["TopicId"], each["PartitionIndex"]),
                topic["TopicId"],
                tuple(
                    [
                        share.AcknowledgementBatch(
                            row["FirstOffset"], row["LastOffset"], tuple(row["AcknowledgeTypes"])
                        )
                        for row in each["AcknowledgementBatches"]
                    ]
                ),
            )
            for topic in call.body["Topics"]
            for each in topic["Partitions"]
        ]
    )


def _named(call: Call, topic_id: str, partition: int) -> TopicPartition:
    return TopicPartition(call.topic_name(topic_id) or _UNKNOWN + topic_id, partition)


def _who(call: Call) -> tuple[str, str, int]:
    body = call.body
    return body["GroupId"] or "", body["MemberId"] or "", body["ShareSessionEpoch"]


def _fetch(call: Call) -> list[Any]:
    body = call.body
    forgotten = [
        (topic["TopicId"], _named(call, topic["TopicId"], number))
        for topic in body["ForgottenTopicsData"]
        for number in topic["Partitions"]
    ]
    return [
        share.ShareFetchRequest(
            *_who(call),
            body["MaxWaitMs"],
            body["MinBytes"],
            body["MaxBytes"],
            body["MaxRecords"],
            body["BatchSize"],
            _partitions(call),
            tuple(forgotten),
        )
    ]


def _leader(leader: tuple[int, int] | None) -> Body:
    return _NO_LEADER if leader is None else {"LeaderId": leader[0], "LeaderEpoch": leader[1]}


def _by_id(rows: list[tuple[str, Body]]) -> list[Body]:
    topics: dict[str, list[Body]] = {}
    for topic_id, row in rows:
        topics.setdefault(topic_id, []).append(row)
    return [{"TopicId": topic_id, "Partitions": found} for topic_id, found in topics.items()]


def _endpoints(call: Call, answer: Any) -> list[Body]:
    """Return where the leaders are that the partitions of a response name (KIP-951)."""
    image = call.image
    found = []
    named = [each.current_leader[0] for each in answer.partitions if each.current_leader]
    for leader in dict.fromkeys(named):
        broker = None if image is None else image.brokers.get(leader)
        if broker is not None:
            host, port = call.broker.listener(broker.address)
            row = {"NodeId": leader, "Host": host, "Port": port, "Rack": broker.rack}
            found.append(row)
    return found


def _fetched(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    rows = []
    for each in answer.partitions:
        acquired = [
            {
                "FirstOffset": one.first_offset,
                "LastOffset": one.last_offset,
                "DeliveryCount": one.delivery_count,
            }
            for one in each.acquired
        ]
        row = {
            "PartitionIndex": each.tp.partition,
            "ErrorCode": each.error,
            "AcknowledgeErrorCode": each.acknowledge_error,
            "CurrentLeader": _leader(each.current_leader),
            "Records": b"".join([encoded(batch) for batch in each.batches]),
            "AcquiredRecords": acquired,
        }
        rows.append((each.topic_id, row))
    return {
        "ErrorCode": answer.error,
        "AcquisitionLockTimeoutMs": answer.acquisition_lock_timeout_ms,
        "Responses": _by_id(rows),
        "NodeEndpoints": _endpoints(call, answer),
    }


def _acknowledge(call: Call) -> list[Any]:
    return [share.ShareAcknowledgeRequest(*_who(call), _partitions(call))]


def _acknowledged(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    rows = [
        (
            each.topic_id,
            {
                "PartitionIndex": each.tp.partition,
                "ErrorCode": each.error,
                "CurrentLeader": _leader(each.current_leader),
            },
        )
        for each in answer.partitions
    ]
    endpoints = _endpoints(call, answer)
    return {"ErrorCode": answer.error, "Responses": _by_id(rows), "NodeEndpoints": endpoints}


def _describe_offsets(call: Call) -> list[Any]:
    groups = [
        share.DescribeShareGroupOffsetsGroup(
            group["GroupId"],
            None
            if group["Topics"] is None
            else tuple([(t["TopicName"], tuple(t["Partitions"])) for t in group["Topics"]]),
        )
        for group in call.body["Groups"]
    ]
    return [share.DescribeShareGroupOffsetsRequest(tuple(groups))]


def _offsets_described(call: Call, answers: list[Any]) -> Body:
    groups = []
    for group in answers[0].groups:
        topics = []
        for name, topic_id, offsets in group.topics:
            rows = [
                {
                    "PartitionIndex": each.partition_index,
                    "StartOffset": each.start_offset,
                    "LeaderEpoch": each.leader_epoch,
                    "ErrorCode": each.error,
                }
                for each in offsets
            ]
            topics.append({"TopicName": name, "TopicId": topic_id, "Partitions": rows})
        groups.append({"GroupId": group.group_id, "Topics": topics, "ErrorCode": group.error})
    return {"Groups": groups}


def _alter_offsets(call: Call) -> list[Any]:
    topics = [
        (
            topic["TopicName"],
            tuple([(each["PartitionIndex"], each["StartOffset"]) for each in topic["Partitions"]]),
        )
        for topic in call.body["Topics"]
    ]
    return [share.AlterShareGroupOffsetsRequest(call.body["GroupId"], tuple(topics))]


def _offsets_altered(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    rows = [
        {
            "TopicName": name,
            "TopicId": topic_id,
            "Partitions": [
                {"PartitionIndex": number, "ErrorCode": error} for number, error in each
            ],
        }
        for name, topic_id, each in answer.responses
    ]
    return {"ErrorCode": answer.error, "Responses": rows}


def _delete_offsets(call: Call) -> list[Any]:
    topics = tuple([topic["TopicName"] for topic in call.body["Topics"]])
    return [share.DeleteShareGroupOffsetsRequest(call.body["GroupId"], topics)]


def _offsets_deleted(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    rows = [
        {"TopicName": name, "TopicId": topic_id, "ErrorCode": error}
        for name, topic_id, error in answer.responses
    ]
    return {"ErrorCode": answer.error, "Responses": rows}


SHARE: dict[str, Adapter] = {
    "ShareFetch": Adapter(1, 1, _fetch, _fetched),
    "ShareAcknowledge": Adapter(1, 1, _acknowledge, _acknowledged),
    "DescribeShareGroupOffsets": Adapter(0, 0, _describe_offsets, _offsets_described),
    "AlterShareGroupOffsets": Adapter(0, 0, _alter_offsets, _offsets_altered),
    "DeleteShareGroupOffsets": Adapter(0, 0, _delete_offsets, _offsets_deleted),
}
"""By the API's name."""
