"""InitProducerId and the requests of transactions."""

from __future__ import annotations

from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.errors import Errors
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.wire.adapters.base import Adapter, Body, Call, by_topic, each_partition
from kafkasim.scenarios.wire.adapters.base import partitions as named_partitions


def _transaction_version(call: Call) -> int:
    """Return the transaction version that the version of EndTxn and TxnOffsetCommit implies."""
    return 2 if call.version >= 5 else 0


def _as_known(call: Call, error: Errors, since: int) -> Errors:
    """Return an error as clients know it: PRODUCER_FENCED has a version of its own (KIP-588)."""
    fenced = error is Errors.PRODUCER_FENCED
    return Errors.INVALID_PRODUCER_EPOCH if fenced and call.version < since else error


def _init(call: Call) -> list[Any]:
    body = call.body
    known = body.get("ProducerId", -1), body.get("ProducerEpoch", -1)
    return [m.InitProducerIdRequest(body["TransactionalId"], body["TransactionTimeoutMs"], *known)]


def _initialized(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    return {
        "ErrorCode": _as_known(call, answer.error, 4),
        "ProducerId": answer.producer_id,
        "ProducerEpoch": answer.producer_epoch,
    }


def error_alone(call: Call, answers: list[Any]) -> Body:
    """Return an answer that is an error."""
    return {"ErrorCode": answers[0].error}


def partition_errors(call: Call, answers: list[Any]) -> Body:
    """Return the errors of the partitions of a commit."""
    return {"Topics": errors_by_topic(answers[0].results)}


def errors_by_topic(results: Any) -> list[Body]:
    """Return errors of partitions, by topic."""
    return by_topic(
        (tp, {"PartitionIndex": tp.partition, "ErrorCode": error}) for tp, error in results
    )


def offsets_of(body: Body) -> tuple[tuple[TopicPartition, int, int, str], ...]:
    """Return what a commit says of each partition: offset, leader epoch, metadata."""
    return tuple(
        [
            (
                tp,
                row["CommittedOffset"],
                row.get("CommittedLeaderEpoch", -1),
                row["CommittedMetadata"] or "",
            )
            for tp, row in each_partition(body["Topics"])
        ]
    )


_OLD = "V3AndBelow"


def _add_partitions(call: Call) -> list[Any]:
    body = call.body
    return [
        m.AddPartitionsToTxnRequest(
            (
                m.AddPartitionsToTxnTransaction(
                    body[f"{_OLD}TransactionalId"],
                    body[f"{_OLD}ProducerId"],
                    body[f"{_OLD}ProducerEpoch"],
                    False,
                    named_partitions(body[f"{_OLD}Topics"], "Partitions") or (),
                ),
            )
        )
    ]


def _partitions_added(call: Call, answers: list[Any]) -> Body:
    rows = [
        (tp, {"PartitionIndex": tp.partition, "PartitionErrorCode": _as_known(call, error, 2)})
        for _, results in answers[0].results
        for tp, error in results
    ]
    return {f"ResultsByTopic{_OLD}": by_topic(rows, key="ResultsByPartition")}


def _add_offsets(call: Call) -> list[Any]:
    body = call.body
    return [
        m.AddOffsetsToTxnRequest(
            body["TransactionalId"], body["ProducerId"], body["ProducerEpoch"], body["GroupId"]
        )
    ]


def _offsets_added(call: Call, answers: list[Any]) -> Body:
    return {"ErrorCode": _as_known(call, answers[0].error, 2)}


def _end(call: Call) -> list[Any]:
    body = call.body
    who = body["TransactionalId"], body["ProducerId"], body["ProducerEpoch"]
    return [m.EndTxnRequest(*who, body["Committed"], _transaction_version(call))]


def _commit(call: Call) -> list[Any]:
    body = call.body
    return [
        m.TxnOffsetCommitRequest(
            body["TransactionalId"],
            body["GroupId"],
            body["ProducerId"],
            body["ProducerEpoch"],
            body.get("GenerationId", -1),
            body.get("MemberId", ""),
            body.get("GroupInstanceId"),
            offsets_of(body),
            _transaction_version(call),
            call.version >= 4,
        )
    ]


def _describe(call: Call) -> list[Any]:
    return [m.DescribeTransactionsRequest(tuple(call.body["TransactionalIds"]))]


def _described(call: Call, answers: list[Any]) -> Body:
    rows = []
    for each in answers[0].transactions:
        topics: dict[str, list[int]] = {}
        for tp in each.partitions:
            topics.setdefault(tp.topic, []).append(tp.partition)
        rows.append(
            {
                "ErrorCode": each.error,
                "TransactionalId": each.transactional_id,
                "TransactionState": each.state,
                "TransactionTimeoutMs": each.transaction_timeout_ms,
                "TransactionStartTimeMs": each.start_time_ms,
                "ProducerId": each.producer_id,
                "ProducerEpoch": each.producer_epoch,
                "Topics": [{"Topic": name, "Partitions": rows} for name, rows in topics.items()],
            }
        )
    return {"TransactionStates": rows}


def _list(call: Call) -> list[Any]:
    body = call.body
    filters = tuple(body["StateFilters"]), tuple(body["ProducerIdFilters"])
    return [m.ListTransactionsRequest(*filters, body.get("DurationFilter", -1))]


def _listed(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    return {
        "ErrorCode": answer.error,
        "UnknownStateFilters": answer.unknown_state_filters,
        "TransactionStates": [
            {"TransactionalId": name, "ProducerId": producer_id, "TransactionState": state}
            for name, producer_id, state in answer.transactions
        ],
    }


def _describe_producers(call: Call) -> list[Any]:
    found = named_partitions(call.body["Topics"], "PartitionIndexes") or ()
    return [m.DescribeProducersRequest(found)]


def _producers(call: Call, answers: list[Any]) -> Body:
    rows = []
    for each in answers[0].partitions:
        active = [
            {
                "ProducerId": one.producer_id,
                "ProducerEpoch": one.producer_epoch,
                "LastSequence": one.last_sequence,
                "LastTimestamp": one.last_timestamp_ms,
                "CoordinatorEpoch": one.coordinator_epoch,
                "CurrentTxnStartOffset": one.current_txn_start_offset,
            }
            for one in each.producers
        ]
        row = {"PartitionIndex": each.tp.partition, "ErrorCode": each.error}
        rows.append((each.tp, {**row, "ActiveProducers": active}))
    return {"Topics": by_topic(rows)}


def _ended(call: Call, answers: list[Any]) -> Body:
    (answer,) = answers
    found: Body = {"ErrorCode": _as_known(call, answer.error, 2)}
    if call.version >= 5:
        found |= {"ProducerId": answer.producer_id, "ProducerEpoch": answer.producer_epoch}
    return found


TRANSACTIONS: dict[str, Adapter] = {
    "InitProducerId": Adapter(0, 5, _init, _initialized),
    "AddPartitionsToTxn": Adapter(0, 3, _add_partitions, _partitions_added),
    "AddOffsetsToTxn": Adapter(0, 4, _add_offsets, _offsets_added),
    "EndTxn": Adapter(0, 5, _end, _ended),
    "TxnOffsetCommit": Adapter(0, 5, _commit, partition_errors),
    "DescribeTransactions": Adapter(0, 0, _describe, _described),
    "ListTransactions": Adapter(0, 1, _list, _listed),
    "DescribeProducers": Adapter(0, 0, _describe_producers, _producers),
}
"""By the API's name."""
