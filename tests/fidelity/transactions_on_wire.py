"""Requests of transactions on the wire, their answers as the model's, and as text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition

Body = dict[str, Any]


def numbers(partitions: tuple[TopicPartition, ...], name: str, key: str) -> list[Body]:
    """Return partitions by topic: ``[{name: topic, key: [numbers]}]``."""
    topics: dict[str, list[int]] = {}
    for tp in partitions:
        topics.setdefault(tp.topic, []).append(tp.partition)
    return [{name: topic, key: found} for topic, found in topics.items()]


def version(message: m.Message) -> int | None:
    """Return the version of a request that says it itself, by its transaction version."""
    new = getattr(message, "transaction_version", 0) >= 2
    if isinstance(message, m.ProduceRequest):
        return 12 if new else 11
    if isinstance(message, m.EndTxnRequest):
        return 5 if new else 4
    if isinstance(message, m.TxnOffsetCommitRequest):
        return 5 if new else 4
    if isinstance(message, m.AddPartitionsToTxnRequest):
        return 5 if _of_a_broker(message) else 3
    return None


def _of_a_broker(request: m.AddPartitionsToTxnRequest) -> bool:
    return request.transaction_version >= 2 or request.transactions[0].verify_only


def _add_partitions(request: m.AddPartitionsToTxnRequest) -> Body:
    if _of_a_broker(request):
        return {
            "Transactions": [
                {
                    "TransactionalId": each.transactional_id,
                    "ProducerId": each.producer_id,
                    "ProducerEpoch": each.producer_epoch,
                    "VerifyOnly": each.verify_only,
                    "Topics": numbers(each.partitions, "Name", "Partitions"),
                }
                for each in request.transactions
            ]
        }
    (each,) = request.transactions
    return {
        "V3AndBelowTransactionalId": each.transactional_id,
        "V3AndBelowProducerId": each.producer_id,
        "V3AndBelowProducerEpoch": each.producer_epoch,
        "V3AndBelowTopics": numbers(each.partitions, "Name", "Partitions"),
    }


def _txn_offset_commit(request: m.TxnOffsetCommitRequest) -> Body:
    topics: dict[str, list[Body]] = {}
    for tp, offset, epoch, metadata in request.offsets:
        topics.setdefault(tp.topic, []).append(
            {
                "PartitionIndex": tp.partition,
                "CommittedOffset": offset,
                "CommittedLeaderEpoch": epoch,
                "CommittedMetadata": metadata,
            }
        )
    return {
        "TransactionalId": request.transactional_id,
        "GroupId": request.group_id,
        "ProducerId": request.producer_id,
        "ProducerEpoch": request.producer_epoch,
        "GenerationId": request.generation_id,
        "MemberId": request.member_id,
        "GroupInstanceId": request.group_instance_id,
        "Topics": [{"Name": name, "Partitions": rows} for name, rows in topics.items()],
    }


def _producer(request: Any) -> Body:
    return {
        "TransactionalId": request.transactional_id,
        "ProducerId": request.producer_id,
        "ProducerEpoch": request.producer_epoch,
    }


REQUESTS: dict[type, tuple[str, Callable[[Any], Body]]] = {
    m.AddPartitionsToTxnRequest: ("AddPartitionsToTxn", _add_partitions),
    m.AddOffsetsToTxnRequest: (
        "AddOffsetsToTxn",
        lambda r: {**_producer(r), "GroupId": r.group_id},
    ),
    m.EndTxnRequest: ("EndTxn", lambda r: {**_producer(r), "Committed": r.committed}),
    m.TxnOffsetCommitRequest: ("TxnOffsetCommit", _txn_offset_commit),
    m.WriteTxnMarkersRequest: (
        "WriteTxnMarkers",
        lambda r: {
            "Markers": [
                {
                    "ProducerId": marker.producer_id,
                    "ProducerEpoch": marker.producer_epoch,
                    "TransactionResult": marker.committed,
                    "Topics": numbers(marker.partitions, "Name", "PartitionIndexes"),
                    "CoordinatorEpoch": marker.coordinator_epoch,
                }
                for marker in r.markers
            ]
        },
    ),
    m.DescribeProducersRequest: (
        "DescribeProducers",
        lambda r: {"Topics": numbers(r.partitions, "Name", "PartitionIndexes")},
    ),
    m.DescribeTransactionsRequest: (
        "DescribeTransactions",
        lambda r: {"TransactionalIds": list(r.transactional_ids)},
    ),
    m.ListTransactionsRequest: (
        "ListTransactions",
        lambda r: {
            "StateFilters": list(r.state_filters),
            "ProducerIdFilters": list(r.producer_id_filters),
            "DurationFilter": r.duration_filter_ms,
        },
    ),
}

VERSIONS = {
    "AddPartitionsToTxn": 3,
    "AddOffsetsToTxn": 3,
    "EndTxn": 4,
    "TxnOffsetCommit": 4,
    "WriteTxnMarkers": 1,
    "DescribeProducers": 0,
    "DescribeTransactions": 0,
    "ListTransactions": 1,
}
"""The version that is spoken of each API, unless :func:`version` knows better."""


def _topic_results(topics: list[Body]) -> tuple[tuple[TopicPartition, Errors], ...]:
    return tuple(
        (TopicPartition(topic["Name"], p["PartitionIndex"]), Errors(p["PartitionErrorCode"]))
        for topic in topics
        for p in topic["ResultsByPartition"]
    )


def _added(request: m.AddPartitionsToTxnRequest, body: Body) -> m.AddPartitionsToTxnResponse:
    if not _of_a_broker(request):
        results = _topic_results(body["ResultsByTopicV3AndBelow"])
        only = (request.transactions[0].transactional_id, results)
        return m.AddPartitionsToTxnResponse(Errors.NONE, (only,))
    return m.AddPartitionsToTxnResponse(
        Errors(body["ErrorCode"]),
        tuple(
            (each["TransactionalId"], _topic_results(each["TopicResults"]))
            for each in body["ResultsByTransaction"]
        ),
    )


def _partition_errors(topics: list[Body]) -> tuple[tuple[TopicPartition, Errors], ...]:
    return tuple(
        (TopicPartition(topic["Name"], p["PartitionIndex"]), Errors(p["ErrorCode"]))
        for topic in topics
        for p in topic["Partitions"]
    )


def _producers(_: Any, body: Body) -> m.DescribeProducersResponse:
    return m.DescribeProducersResponse(
        tuple(
            m.DescribeProducersPartition(
                TopicPartition(topic["Name"], p["PartitionIndex"]),
                Errors(p["ErrorCode"]),
                tuple(
                    m.ProducerState(
                        each["ProducerId"], each["ProducerEpoch"], each["LastSequence"],
                        each["LastTimestamp"], each["CoordinatorEpoch"],
                        each["CurrentTxnStartOffset"],
                    )
                    for each in p["ActiveProducers"]
                ),
            )
            for topic in body["Topics"]
            for p in topic["Partitions"]
        )
    )  # fmt: skip


def _described(_: Any, body: Body) -> m.DescribeTransactionsResponse:
    return m.DescribeTransactionsResponse(
        tuple(
            m.DescribedTransaction(
                Errors(each["ErrorCode"]), each["TransactionalId"], each["TransactionState"],
                each["TransactionTimeoutMs"], each["TransactionStartTimeMs"], each["ProducerId"],
                each["ProducerEpoch"],
                tuple(
                    TopicPartition(topic["Topic"], number)
                    for topic in each["Topics"]
                    for number in topic["Partitions"]
                ),
            )
            for each in body["TransactionStates"]
        )
    )  # fmt: skip


RESPONSES: dict[type, Callable[[Any, Body], Any]] = {
    m.AddPartitionsToTxnRequest: _added,
    m.AddOffsetsToTxnRequest: lambda _, b: m.AddOffsetsToTxnResponse(Errors(b["ErrorCode"])),
    m.EndTxnRequest: lambda _, b: m.EndTxnResponse(
        Errors(b["ErrorCode"]), b.get("ProducerId", -1), b.get("ProducerEpoch", -1)
    ),
    m.TxnOffsetCommitRequest: lambda _, b: m.TxnOffsetCommitResponse(
        _partition_errors(b["Topics"])
    ),
    m.WriteTxnMarkersRequest: lambda _, b: m.WriteTxnMarkersResponse(
        tuple((each["ProducerId"], _partition_errors(each["Topics"])) for each in b["Markers"])
    ),
    m.DescribeProducersRequest: _producers,
    m.DescribeTransactionsRequest: _described,
    m.ListTransactionsRequest: lambda _, b: m.ListTransactionsResponse(
        Errors(b["ErrorCode"]),
        tuple(b["UnknownStateFilters"]),
        tuple(
            (each["TransactionalId"], each["ProducerId"], each["TransactionState"])
            for each in b["TransactionStates"]
        ),
    ),
}


def _errors(results: tuple[tuple[TopicPartition, Errors], ...]) -> str:
    return ", ".join(f"{tp} {error.name}" for tp, error in sorted(results))


def _described_text(answer: m.DescribeTransactionsResponse, names: Any) -> list[str]:
    return [
        f"{each.transactional_id!r} {each.error.name} {each.state or '-'}"
        f" {names.producer(each.producer_id) if each.state else '-'} epoch={each.producer_epoch}"
        f" timeout={each.transaction_timeout_ms} {'open' if each.start_time_ms > 0 else 'closed'}"
        f" [{', '.join(str(tp) for tp in sorted(each.partitions))}]"
        for each in sorted(answer.transactions, key=lambda each: each.transactional_id)
    ]


SHOWN: dict[type, Callable[[Any, Any], list[str]]] = {
    m.AddPartitionsToTxnResponse: lambda a, _: [
        a.error.name, *(f"{name!r} {_errors(results)}" for name, results in sorted(a.results)),
    ],
    m.AddOffsetsToTxnResponse: lambda a, _: [a.error.name],
    m.EndTxnResponse: lambda a, n: [
        f"{a.error.name} {n.producer(a.producer_id)} epoch={a.producer_epoch}"
    ],
    m.TxnOffsetCommitResponse: lambda a, _: [_errors(a.results)],
    m.WriteTxnMarkersResponse: lambda a, n: sorted(
        f"{n.producer(producer_id)} {_errors(results)}" for producer_id, results in a.results
    ),
    m.DescribeProducersResponse: lambda a, n: [
        f"{p.tp} {p.error.name} "
        + " | ".join(
            f"{n.producer(s.producer_id)} epoch={s.producer_epoch} sequence={s.last_sequence}"
            f" coordinator={s.coordinator_epoch} open={s.current_txn_start_offset}"
            for s in sorted(p.producers, key=lambda s: s.producer_id)
        )
        for p in sorted(a.partitions, key=lambda p: p.tp)
    ],
    m.DescribeTransactionsResponse: _described_text,
    m.ListTransactionsResponse: lambda a, n: [
        a.error.name,
        f"unknown={list(a.unknown_state_filters)}",
        *(f"{name} {n.producer(pid)} {state}" for name, pid, state in sorted(a.transactions)),
    ],
}  # fmt: skip
