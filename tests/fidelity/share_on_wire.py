"""Requests of share groups (KIP-932) on the wire, their answers as the model's, and as text."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.messages import share as m
from kafkasim.model.records import TopicPartition
from tests.fidelity.batches import decoded

Body = dict[str, Any]


def _acknowledging(partitions: tuple[m.SharePartitionRequest, ...]) -> list[Body]:
    topics: dict[str, list[Body]] = {}
    for each in partitions:
        batches = [
            {
                "FirstOffset": batch.first_offset,
                "LastOffset": batch.last_offset,
                "AcknowledgeTypes": list(batch.types),
            }
            for batch in each.acknowledgements
        ]
        row = {"PartitionIndex": each.tp.partition, "AcknowledgementBatches": batches}
        topics.setdefault(each.topic_id, []).append(row)
    return [{"TopicId": topic_id, "Partitions": rows} for topic_id, rows in topics.items()]


def _fetch(request: m.ShareFetchRequest) -> Body:
    gone: dict[str, list[int]] = {}
    for topic_id, tp in request.forgotten:
        gone.setdefault(topic_id, []).append(tp.partition)
    return {
        "GroupId": request.group_id,
        "MemberId": request.member_id,
        "ShareSessionEpoch": request.session_epoch,
        "MaxWaitMs": request.max_wait_ms,
        "MinBytes": request.min_bytes,
        "MaxBytes": request.max_bytes,
        "MaxRecords": request.max_records,
        "BatchSize": request.batch_size,
        "Topics": _acknowledging(request.partitions),
        "ForgottenTopicsData": [{"TopicId": i, "Partitions": p} for i, p in gone.items()],
    }


def _of_group(row: Callable[[Any], Any]) -> Callable[[Any], Body]:
    """Return what builds a request to the share coordinator; ``row`` is that of a partition."""

    def build(request: Any) -> Body:
        topics = [{"TopicId": i, "Partitions": [row(p) for p in ps]} for i, ps in request.topics]
        return {"GroupId": request.group_id, "Topics": topics}

    return build


def _write(asked: m.WriteStatePartition) -> Body:
    batches = [
        {
            "FirstOffset": batch.first_offset,
            "LastOffset": batch.last_offset,
            "DeliveryState": batch.delivery_state,
            "DeliveryCount": batch.delivery_count,
        }
        for batch in asked.state_batches
    ]
    return {
        "Partition": asked.partition,
        "StateEpoch": asked.state_epoch,
        "LeaderEpoch": asked.leader_epoch,
        "StartOffset": asked.start_offset,
        "StateBatches": batches,
    }


def _read(asked: m.ReadStatePartition) -> Body:
    return {"Partition": asked.partition, "LeaderEpoch": asked.leader_epoch}


REQUESTS: dict[type, tuple[str, Callable[[Any], Body]]] = {
    m.ShareGroupHeartbeatRequest: (
        "ShareGroupHeartbeat",
        lambda r: {
            "GroupId": r.group_id,
            "MemberId": r.member_id,
            "MemberEpoch": r.member_epoch,
            "RackId": r.rack_id,
            "SubscribedTopicNames": None
            if r.subscribed_topic_names is None
            else list(r.subscribed_topic_names),
        },
    ),
    m.ShareGroupDescribeRequest: (
        "ShareGroupDescribe",
        lambda r: {"GroupIds": list(r.group_ids), "IncludeAuthorizedOperations": False},
    ),
    m.ShareFetchRequest: ("ShareFetch", _fetch),
    m.ShareAcknowledgeRequest: (
        "ShareAcknowledge",
        lambda r: {
            "GroupId": r.group_id,
            "MemberId": r.member_id,
            "ShareSessionEpoch": r.session_epoch,
            "Topics": _acknowledging(r.partitions),
        },
    ),
    m.InitializeShareGroupStateRequest: (
        "InitializeShareGroupState",
        _of_group(
            lambda p: {
                "Partition": p.partition,
                "StateEpoch": p.state_epoch,
                "StartOffset": p.start_offset,
            }
        ),
    ),
    m.ReadShareGroupStateRequest: ("ReadShareGroupState", _of_group(_read)),
    m.ReadShareGroupStateSummaryRequest: ("ReadShareGroupStateSummary", _of_group(_read)),
    m.WriteShareGroupStateRequest: ("WriteShareGroupState", _of_group(_write)),
    m.DeleteShareGroupStateRequest: (
        "DeleteShareGroupState",
        _of_group(lambda p: {"Partition": p}),
    ),
    m.DescribeShareGroupOffsetsRequest: (
        "DescribeShareGroupOffsets",
        lambda r: {
            "Groups": [
                {
                    "GroupId": group.group_id,
                    "Topics": None
                    if group.topics is None
                    else [{"TopicName": t, "Partitions": list(ps)} for t, ps in group.topics],
                }
                for group in r.groups
            ]
        },
    ),
    m.AlterShareGroupOffsetsRequest: (
        "AlterShareGroupOffsets",
        lambda r: {
            "GroupId": r.group_id,
            "Topics": [
                {
                    "TopicName": topic,
                    "Partitions": [{"PartitionIndex": p, "StartOffset": o} for p, o in rows],
                }
                for topic, rows in r.topics
            ],
        },
    ),
    m.DeleteShareGroupOffsetsRequest: (
        "DeleteShareGroupOffsets",
        lambda r: {"GroupId": r.group_id, "Topics": [{"TopicName": t} for t in r.topics]},
    ),
}

VERSIONS = {
    "ShareGroupHeartbeat": 1,
    "ShareGroupDescribe": 1,
    "ShareFetch": 1,
    "ShareAcknowledge": 1,
    "InitializeShareGroupState": 0,
    "ReadShareGroupState": 0,
    "WriteShareGroupState": 0,
    "DeleteShareGroupState": 0,
    "ReadShareGroupStateSummary": 0,
    "DescribeShareGroupOffsets": 0,
    "AlterShareGroupOffsets": 0,
    "DeleteShareGroupOffsets": 0,
}
"""The version that is spoken of each API: those of Kafka 4.1."""


def _error(body: Body) -> Errors:
    return Errors(body["ErrorCode"])


def _topic_ids(assignment: Body) -> Any:
    rows = assignment["TopicPartitions"]
    return tuple(sorted((each["TopicId"], tuple(sorted(each["Partitions"]))) for each in rows))


def _heard(_: Any, body: Body) -> m.ShareGroupHeartbeatResponse:
    assignment = body["Assignment"]
    return m.ShareGroupHeartbeatResponse(
        _error(body), body["MemberId"], body["MemberEpoch"], body["HeartbeatIntervalMs"],
        None if assignment is None else _topic_ids(assignment),
    )  # fmt: skip


def _described(_: Any, body: Body) -> m.ShareGroupDescribeResponse:
    return m.ShareGroupDescribeResponse(
        tuple(
            m.DescribedShareGroup(
                _error(group), group["GroupId"], group["GroupState"], group["GroupEpoch"],
                group["AssignmentEpoch"], group["AssignorName"],
                tuple(
                    m.DescribedShareGroupMember(
                        each["MemberId"], each["RackId"], each["MemberEpoch"], each["ClientId"],
                        tuple(sorted(each["SubscribedTopicNames"])), _topic_ids(each["Assignment"]),
                    )
                    for each in group["Members"]
                ),
            )
            for group in body["Groups"]
        )
    )  # fmt: skip


def _leader(body: Body) -> tuple[int, int] | None:
    """Return the leader that a broker names with one of two errors; with others it says (0, 0)."""
    if _error(body) not in (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH):
        return None
    return body["CurrentLeader"]["LeaderId"], body["CurrentLeader"]["LeaderEpoch"]


def _fetched(_: Any, body: Body) -> m.ShareFetchResponse:
    partitions = tuple(
        m.SharePartitionResponse(
            TopicPartition("?", p["PartitionIndex"]), topic["TopicId"], _error(p),
            Errors(p["AcknowledgeErrorCode"]), _leader(p), decoded(p["Records"] or b""),
            tuple(
                m.AcquiredRecords(each["FirstOffset"], each["LastOffset"], each["DeliveryCount"])
                for each in p["AcquiredRecords"]
            ),
        )
        for topic in body["Responses"]
        for p in topic["Partitions"]
    )  # fmt: skip
    return m.ShareFetchResponse(_error(body), partitions, body["AcquisitionLockTimeoutMs"])


def _acknowledged(_: Any, body: Body) -> m.ShareAcknowledgeResponse:
    partitions = tuple(
        m.ShareAcknowledgePartition(
            TopicPartition("?", p["PartitionIndex"]), topic["TopicId"], _error(p), _leader(p)
        )
        for topic in body["Responses"]
        for p in topic["Partitions"]
    )
    return m.ShareAcknowledgeResponse(_error(body), partitions)


def _results(kind: Any, result: Callable[[Body], Any]) -> Callable[[Any, Body], Any]:
    def read(_: Any, body: Body) -> Any:
        return kind(
            tuple(
                (each["TopicId"], tuple(result(p) for p in each["Partitions"]))
                for each in body["Results"]
            )
        )

    return read


def _changed(body: Body) -> m.StatePartitionResult:
    return m.StatePartitionResult(body["Partition"], _error(body))


def _state(body: Body) -> m.ReadStateResult:
    batches = tuple(
        m.StateBatch(b["FirstOffset"], b["LastOffset"], b["DeliveryState"], b["DeliveryCount"])
        for b in body["StateBatches"]
    )
    return m.ReadStateResult(
        body["Partition"], _error(body), "", body["StateEpoch"], body["StartOffset"], batches
    )


def _summary(body: Body) -> m.ReadStateSummaryResult:
    return m.ReadStateSummaryResult(
        body["Partition"], _error(body), "", body["StateEpoch"], body["LeaderEpoch"],
        body["StartOffset"],
    )  # fmt: skip


def _offsets(_: Any, body: Body) -> m.DescribeShareGroupOffsetsResponse:
    return m.DescribeShareGroupOffsetsResponse(
        tuple(
            m.DescribedShareGroupOffsets(
                group["GroupId"],
                _error(group),
                tuple(
                    (
                        topic["TopicName"],
                        topic["TopicId"],
                        tuple(
                            m.ShareGroupOffset(
                                p["PartitionIndex"], p["StartOffset"], p["LeaderEpoch"], _error(p)
                            )
                            for p in topic["Partitions"]
                        ),
                    )
                    for topic in group["Topics"]
                ),
            )
            for group in body["Groups"]
        )
    )


RESPONSES: dict[type, Callable[[Any, Body], Any]] = {
    m.ShareGroupHeartbeatRequest: _heard,
    m.ShareGroupDescribeRequest: _described,
    m.ShareFetchRequest: _fetched,
    m.ShareAcknowledgeRequest: _acknowledged,
    m.InitializeShareGroupStateRequest: _results(m.InitializeShareGroupStateResponse, _changed),
    m.WriteShareGroupStateRequest: _results(m.WriteShareGroupStateResponse, _changed),
    m.DeleteShareGroupStateRequest: _results(m.DeleteShareGroupStateResponse, _changed),
    m.ReadShareGroupStateRequest: _results(m.ReadShareGroupStateResponse, _state),
    m.ReadShareGroupStateSummaryRequest: _results(m.ReadShareGroupStateSummaryResponse, _summary),
    m.DescribeShareGroupOffsetsRequest: _offsets,
    m.AlterShareGroupOffsetsRequest: lambda _, b: m.AlterShareGroupOffsetsResponse(
        _error(b),
        tuple(
            (
                topic["TopicName"],
                topic["TopicId"],
                tuple((p["PartitionIndex"], _error(p)) for p in topic["Partitions"]),
            )
            for topic in b["Responses"]
        ),
    ),
    m.DeleteShareGroupOffsetsRequest: lambda _, b: m.DeleteShareGroupOffsetsResponse(
        _error(b), tuple((t["TopicName"], t["TopicId"], _error(t)) for t in b["Responses"])
    ),
}


def _topic(topic_id: str, names: Any) -> str:
    return names.topics.get(topic_id, "unknown id")  # type: ignore[no-any-return]


def _partitions(some: Any, names: Any) -> str:
    parts = [f"{_topic(topic_id, names)}-{p}" for topic_id, numbers in some for p in numbers]
    return f"[{' '.join(sorted(parts))}]"


def _heard_text(answer: m.ShareGroupHeartbeatResponse, names: Any) -> list[str]:
    if answer.error is not Errors.NONE:
        return [answer.error.name]
    text = f"NONE {names.member(answer.member_id)} epoch={answer.member_epoch}"
    text += f" interval={answer.heartbeat_interval_ms}"
    told = answer.assignment
    return [text if told is None else f"{text} {_partitions(told, names)}"]


def _described_text(answer: m.ShareGroupDescribeResponse, names: Any) -> Iterable[str]:
    for group in answer.groups:
        text = f"{group.group_id!r} {group.error.name}"
        if group.error is Errors.NONE:
            text += f" {group.group_state} epoch={group.group_epoch}"
            text += f" target={group.assignment_epoch} {group.assignor_name}"
        for each in sorted(group.members, key=lambda each: names.member(each.member_id)):
            text += f" | {names.member(each.member_id)} rack={each.rack_id!r}"
            text += f" epoch={each.member_epoch} {list(each.subscribed_topic_names)}"
            text += f" has {_partitions(each.assignment, names)}"
        yield text


def _fetched_text(answer: m.ShareFetchResponse, names: Any) -> Iterable[str]:
    if answer.error is not Errors.NONE:
        yield answer.error.name
        return
    yield f"NONE lock={answer.acquisition_lock_timeout_ms}"
    rows = [(_topic(p.topic_id, names), p.tp.partition, p) for p in answer.partitions]
    for topic, number, p in sorted(rows, key=lambda row: row[:2]):
        text = f"{topic}-{number} {p.error.name} acknowledged={p.acknowledge_error.name}"
        text += f" leader={p.current_leader}" if p.current_leader else ""
        acquired = [f"{a.first_offset}-{a.last_offset}x{a.delivery_count}" for a in p.acquired]
        records = [
            f"{batch.base_offset}:{','.join(str(r.value) for r in batch.records)}"
            for batch in p.batches
        ]
        yield text + (f" acquired={acquired} records={records}" if acquired or records else "")


def _acknowledged_text(answer: m.ShareAcknowledgeResponse, names: Any) -> Iterable[str]:
    yield answer.error.name
    rows = [(_topic(p.topic_id, names), p.tp.partition, p) for p in answer.partitions]
    for topic, number, p in sorted(rows, key=lambda row: row[:2]):
        leader = f" leader={p.current_leader}" if p.current_leader else ""
        yield f"{topic}-{number} {p.error.name}{leader}"


def _results_text(answer: Any, names: Any) -> Iterable[str]:
    for topic_id, results in answer.results:
        for each in sorted(results, key=lambda each: each.partition):
            text = f"{_topic(topic_id, names)}-{each.partition} {each.error.name}"
            if each.error is Errors.NONE and hasattr(each, "state_epoch"):
                text += f" state={each.state_epoch} start={each.start_offset}"
            if each.error is Errors.NONE and hasattr(each, "leader_epoch"):
                text += f" leader={each.leader_epoch}"
            for b in getattr(each, "state_batches", ()):
                text += f" {b.first_offset}-{b.last_offset}={b.delivery_state}x{b.delivery_count}"
            yield text


def _offsets_text(answer: m.DescribeShareGroupOffsetsResponse, names: Any) -> Iterable[str]:
    for group in answer.groups:
        text = f"{group.group_id!r} {group.error.name}"
        for topic, topic_id, offsets in sorted(group.topics):
            known = topic_id in names.topics
            for each in offsets:
                text += f" | {topic}-{each.partition_index} {each.error.name}"
                text += f" start={each.start_offset} epoch={each.leader_epoch} id={known}"
        yield text


def _altered_text(answer: m.AlterShareGroupOffsetsResponse, names: Any) -> Iterable[str]:
    yield answer.error.name
    for topic, topic_id, rows in sorted(answer.responses):
        for partition, error in rows:
            yield f"{topic}-{partition} {error.name} id={topic_id in names.topics}"


def _deleted_text(answer: m.DeleteShareGroupOffsetsResponse, names: Any) -> Iterable[str]:
    yield answer.error.name
    for topic, topic_id, error in sorted(answer.responses, key=lambda row: row[0]):
        yield f"{topic} {error.name} id={topic_id in names.topics}"


SHOWN: dict[type, Callable[[Any, Any], Iterable[str]]] = {
    m.ShareGroupHeartbeatResponse: _heard_text,
    m.ShareGroupDescribeResponse: _described_text,
    m.ShareFetchResponse: _fetched_text,
    m.ShareAcknowledgeResponse: _acknowledged_text,
    m.InitializeShareGroupStateResponse: _results_text,
    m.WriteShareGroupStateResponse: _results_text,
    m.DeleteShareGroupStateResponse: _results_text,
    m.ReadShareGroupStateResponse: _results_text,
    m.ReadShareGroupStateSummaryResponse: _results_text,
    m.DescribeShareGroupOffsetsResponse: _offsets_text,
    m.AlterShareGroupOffsetsResponse: _altered_text,
    m.DeleteShareGroupOffsetsResponse: _deleted_text,
}
