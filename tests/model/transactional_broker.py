"""A scripted transaction coordinator and log for tests of the transactional producer.

The broker answers with what the test has queued for a request type, and otherwise as a healthy one.
``wire`` is the conversation without metadata: a line for each request, in the order of arrival.
"""

from __future__ import annotations

from collections import deque
from typing import Any

from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    ApiVersionsRequest,
    ApiVersionsResponse,
    EndTxnRequest,
    EndTxnResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import Cluster, Harness

TID = "tx"
WITHHELD = Errors.UNKNOWN_SERVER_ERROR
"""In a script: no answer."""


class TransactionalCluster(Cluster):
    """Brokers that serve one transactional id; broker-1 coordinates it, broker-0 the groups."""

    def __init__(self, version: int = 2) -> None:
        super().__init__(partitions=2)
        self.version = version
        self.producer_id = 7
        self.epoch = -1
        self.offset = 0
        self.throttle_ms = 0  # how long each Produce tells the client to wait
        self.scripted: dict[type, deque[Errors | tuple[Errors, ...]]] = {}
        self.wire: list[str] = []
        self.handlers |= {
            FindCoordinatorRequest: self.find,
            ApiVersionsRequest: self.versions,
            InitProducerIdRequest: self.init,
            AddPartitionsToTxnRequest: self.add_partitions,
            AddOffsetsToTxnRequest: self.add_offsets,
            TxnOffsetCommitRequest: self.commit_offsets,
            EndTxnRequest: self.end,
            ProduceRequest: self.produce,
        }

    def script(self, kind: type, *errors: Errors | tuple[Errors, ...]) -> None:
        """Answer the next requests of a kind with these errors; a tuple has one a partition."""
        self.scripted.setdefault(kind, deque()).extend(errors)

    def told(self, line: str, kind: type) -> Errors:
        """Note a request; return the error with which it is answered."""
        queue = self.scripted.get(kind)
        error = queue.popleft() if queue else NONE
        assert not isinstance(error, tuple), (line, error)
        self.wire.append(f"{line} -> {error.name}" if error else line)
        return error

    def told_each(self, verb: str, tps: dict[TopicPartition, str], kind: type) -> list[Errors]:
        """Note a request; return the error of each partition."""
        line = f"{verb} {', '.join(tps.values())}"
        queue = self.scripted.get(kind)
        if not queue or not isinstance(queue[0], tuple):
            return [self.told(line, kind)] * len(tps)
        errors = queue.popleft()
        assert isinstance(errors, tuple)
        assert len(errors) == len(tps), (line, errors)
        self.wire.append(f"{line} -> {', '.join(error.name for error in errors)}")
        return list(errors)

    def find(self, _node: str, message: FindCoordinatorRequest) -> Any:
        error = self.told(f"FindCoordinator {message.key}", FindCoordinatorRequest)
        return FindCoordinatorResponse(error, message.key_type, f"broker-{message.key_type}")

    def versions(self, _node: str, _message: ApiVersionsRequest) -> Any:
        error = self.told("ApiVersions", ApiVersionsRequest)
        return ApiVersionsResponse(error, (("transaction.version", self.version),), 5)

    def init(self, _node: str, message: InitProducerIdRequest) -> Any:
        known = f"({message.producer_id}, {message.producer_epoch})"
        error = self.told(f"InitProducerId {known}", InitProducerIdRequest)
        if error:
            return InitProducerIdResponse(error, -1, -1)
        self.epoch += 1
        return InitProducerIdResponse(NONE, self.producer_id, self.epoch)

    def add_partitions(self, _node: str, message: AddPartitionsToTxnRequest) -> Any:
        (each,) = message.transactions
        names = {tp: str(tp) for tp in each.partitions}
        errors = self.told_each("AddPartitionsToTxn", names, AddPartitionsToTxnRequest)
        results = tuple(zip(names, errors, strict=True))
        return AddPartitionsToTxnResponse(NONE, ((each.transactional_id, results),))

    def add_offsets(self, _node: str, message: AddOffsetsToTxnRequest) -> Any:
        error = self.told(f"AddOffsetsToTxn {message.group_id}", AddOffsetsToTxnRequest)
        return AddOffsetsToTxnResponse(error)

    def commit_offsets(self, _node: str, message: TxnOffsetCommitRequest) -> Any:
        offsets = {tp: f"{tp}@{offset}" for tp, offset, _, _ in message.offsets}
        errors = self.told_each("TxnOffsetCommit", offsets, TxnOffsetCommitRequest)
        if WITHHELD in errors:
            return None
        return TxnOffsetCommitResponse(tuple(zip(offsets, errors, strict=True)))

    def end(self, _node: str, message: EndTxnRequest) -> Any:
        verb = "commit" if message.committed else "abort"
        line = f"EndTxn {verb} v{message.transaction_version} epoch {message.producer_epoch}"
        error = self.told(line, EndTxnRequest)
        if error is WITHHELD:
            return None
        if error or message.transaction_version < 2:
            return EndTxnResponse(error)
        self.epoch += 1
        return EndTxnResponse(NONE, self.producer_id, self.epoch)

    def produce(self, _node: str, message: ProduceRequest) -> Any:
        answers = []
        for part in message.partitions:
            batch = part.batch
            assert batch.transactional, batch
            assert message.transactional_id == TID, message
            line = (
                f"Produce {part.tp} epoch {batch.producer_epoch} seq {batch.base_sequence}"
                f" v{message.transaction_version}"
            )
            error = self.told(line, ProduceRequest)
            if error is WITHHELD:
                return None
            self.offset += len(batch.records)
            answers.append(ProducePartitionResponse(part.tp, error, self.offset, -1, 0))
        return ProduceResponse(tuple(answers), self.throttle_ms)


def transactional(
    cluster: TransactionalCluster, rules: ClientRules | None = None, **properties: Any
) -> Harness:
    """Return a producer with a transactional id, initialized."""
    config = {"transactional.id": TID, "linger.ms": 0}
    config |= {key.replace("_", "."): value for key, value in properties.items()}
    harness = Harness(producer_config(config), cluster, rules=rules)
    assert harness.result("init_transactions") is None
    cluster.wire.clear()
    return harness


def send(harness: Harness, record_id: int, partition: int = 0) -> Any:
    """Send a record to topic t; return None, or the error with which the call ended."""
    return harness.result("send", "t", None, record_id, 10, partition, False)
