"""The records of ``__transaction_state``, and what a partition's log has of transactions.

Real Kafka's are read from a broker's files. The schemas come from the jar of its transaction
coordinator (``common/message/TransactionLog*.json``). What is read is what ``kafka-dump-log
--transaction-log-decoder`` prints.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from kafkasim.model.values import value
from tests.fidelity.playing.metadata_log import batches
from tests.fidelity.schema_table import read_schemas
from tests.fidelity.wire import fields_of

STATES = ("Empty", "Ongoing", "PrepareCommit", "PrepareAbort", "CompleteCommit", "CompleteAbort",
          "Dead", "PrepareEpochFence")  # fmt: skip
"""By the number that a record has (TransactionState.id)."""

MARKERS = {0: "ABORT", 1: "COMMIT"}
"""By the type of a control record (ControlRecordType)."""


@value
class Entry:
    """One record of ``__transaction_state``."""

    epoch: int  # of the leader that wrote it
    transactional_id: str
    fields: Logged | None  # None: a tombstone


@value
class Logged:
    """The value of a record, without its times (TransactionLogValue)."""

    producer_id: int
    previous_producer_id: int
    next_producer_id: int
    producer_epoch: int
    timeout_ms: int
    state: str
    partitions: tuple[tuple[str, int], ...]  # in order
    client_version: int


@value
class Written:
    """A batch of a partition: a producer's records, or a marker."""

    producer_id: int
    producer_epoch: int
    marker: str  # "COMMIT" or "ABORT"; "" for records
    coordinator_epoch: int  # of a marker


class TransactionLogReader:
    """Reads the logs of one version of Kafka."""

    def __init__(self, libs: Path) -> None:
        """``libs`` is the directory with Kafka's jars."""
        coordinator = next(libs.glob("kafka-transaction-coordinator-[0-9]*.jar"))
        schemas = read_schemas(coordinator, r"common/message/TransactionLog(Key|Value)\.json")
        self._schemas = {each["name"]: each for each in schemas}

    def entries(self, file: Path) -> list[Entry]:
        """Return the records of a segment of ``__transaction_state``."""
        return [
            self._entry(batch.epoch, key, data)
            for batch in batches(file)
            if not batch.control
            for key, data in batch.records
        ]

    def _entry(self, epoch: int, key: bytes | None, data: bytes | None) -> Entry:
        assert key is not None, "every record of the coordinator has a key"
        transactional_id = self._decode("TransactionLogKey", key)["transactionalId"]
        if data is None:
            return Entry(epoch, transactional_id, None)
        found = self._decode("TransactionLogValue", data)
        partitions = [
            (each["topic"], number)
            for each in found["transactionPartitions"] or []
            for number in each["partitionIds"]
        ]
        logged = Logged(
            found["producerId"],
            found["previousProducerId"],
            found["nextProducerId"],
            found["producerEpoch"],
            found["transactionTimeoutMs"],
            STATES[found["transactionStatus"]],
            tuple(sorted(partitions)),
            found["clientTransactionVersion"],
        )
        return Entry(epoch, transactional_id, logged)

    def _decode(self, name: str, data: bytes) -> dict[str, Any]:
        """Return the fields of a struct that begins with its version."""
        schema, version = self._schemas[name], struct.unpack(">h", data[:2])[0]
        return fields_of(schema, version, data[2:])


def written(file: Path) -> list[Written]:
    """Return the batches of a segment of data."""
    found = []
    for batch in batches(file):
        marker, coordinator_epoch = "", -1
        if batch.control:
            key, data = batch.records[0]
            assert key is not None, "a control record has a key"
            assert data is not None, "a marker has a value"
            marker = MARKERS[struct.unpack(">hh", key)[1]]
            coordinator_epoch = struct.unpack(">hi", data[:6])[1]  # EndTransactionMarker: version 0
        one = Written(batch.producer_id, batch.producer_epoch, marker, coordinator_epoch)
        found.append(one)
    return found
