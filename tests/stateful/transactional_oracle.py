"""What brokers know of one transactional id, as an oracle on paper.

The coordinator is a row: who may speak (producer id and epoch), what is open, what was decided.
A log is a leader with markers (``partition_leader.py``). The answers are those of
TransactionCoordinator with transaction.version 1 and 2 (KIP-98, KIP-360, KIP-890): an outcome that
is decided is told at once, and its markers are written when the test says so.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    AddOffsetsToTxnRequest,
    AddOffsetsToTxnResponse,
    AddPartitionsToTxnRequest,
    AddPartitionsToTxnResponse,
    EndTxnRequest,
    EndTxnResponse,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
    TxnOffsetCommitRequest,
    TxnOffsetCommitResponse,
)
from kafkasim.model.records import RecordBatch, TopicPartition
from tests.stateful.partition_leader import Leader

LAST_EPOCH = 2**15 - 2  # of a client: the one above is for fencing
NOBODY = (-1, -1)
CONCURRENT, FENCED = Errors.CONCURRENT_TRANSACTIONS, Errors.PRODUCER_FENCED
PARTITION_ERRORS = (Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.OFFSET_METADATA_TOO_LARGE)

Producer = tuple[int, int]  # id and epoch


class Log(Leader):
    """One partition's log: what is open in it, and what a marker has committed."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[int] = []  # records of the open transaction
        self.committed: list[int] = []

    def end(self, producer: Producer, committed: bool) -> None:
        """Write a marker; its epoch fences the older ones."""
        if committed:
            self.committed += self.open
        self.open = []
        if not self.known or producer > self.known[-1][0]:
            self.known.append((producer, 0, -1, -1))


class Group:
    """One group's offsets, those of the open transaction apart."""

    def __init__(self) -> None:
        self.open: dict[TopicPartition, int] = {}
        self.committed: dict[TopicPartition, int] = {}

    def end(self, _producer: Producer, committed: bool) -> None:
        """Write a marker."""
        if committed:
            self.committed |= self.open
        self.open = {}


class Coordinator:
    """The row of the transactional id, and the logs to which its markers go."""

    def __init__(self, logs: dict[TopicPartition, Log], group: Group, epoch: int) -> None:
        """The first producer gets the epoch after ``epoch``."""
        self.logs = logs
        self.group = group
        self.producer: Producer = (7, epoch)
        self.before: Producer | None = None  # of a client that may repeat its request
        self.state = "Empty"
        self.members: dict[Log | Group, None] = {}  # of the transaction
        self.unmarked: dict[Log | Group, None] = {}  # decided, their marker is not written
        self.decided: list[bool] = []  # committed or not
        self.fenced = False  # the client, by another producer with this transactional id or itself

    def bump(self) -> None:
        producer_id, epoch = self.producer
        self.producer = (producer_id, epoch + 1) if epoch < LAST_EPOCH else (producer_id + 1, 0)

    def decide(self, committed: bool) -> None:
        self.state = "Commit" if committed else "Abort"
        self.decided.append(committed)
        self.unmarked, self.members = self.members, {}

    def write_markers(self) -> None:
        """Write the markers of what was decided."""
        for member in self.unmarked:
            member.end(self.producer, self.state == "Commit")
        self.unmarked = {}

    def fence(self) -> None:
        """Begin another producer with the same transactional id."""
        self.write_markers()
        self.init(NOBODY)
        self.write_markers()
        self.init(NOBODY)
        self.before, self.fenced = None, True

    # Requests.

    def init(self, expected: Producer) -> tuple[Errors, Producer]:
        """Answer InitProducerId.

        A client that asks for the next epoch while its transaction is open fences itself: it has
        not sent EndTxn, since no answer had told it that the transaction has begun
        (TransactionManager.nextRequest).
        """
        if self.unmarked:
            return CONCURRENT, NOBODY
        if self.state == "Ongoing":
            self.fenced |= expected == self.producer
            self.producer = (self.producer[0], self.producer[1] + 1)
            self.before = None
            self.decide(False)
            return CONCURRENT, NOBODY
        if expected not in (NOBODY, self.producer):
            return (NONE, self.producer) if expected == self.before else (FENCED, NOBODY)
        self.before = self.producer if expected == self.producer else None
        self.bump()
        self.state = "Empty"
        return NONE, self.producer

    def add(self, producer: Producer, members: list[Log | Group]) -> Errors:
        """Answer AddPartitionsToTxn and AddOffsetsToTxn."""
        if producer != self.producer:
            return FENCED
        if self.unmarked:
            return CONCURRENT
        self.state = "Ongoing"
        self.members |= dict.fromkeys(members)
        return NONE

    def end(self, producer: Producer, committed: bool, version: int) -> tuple[Errors, Producer]:
        """Answer EndTxn; what comes with version 2 has the next epoch."""
        again = version == 2 and producer == self.before
        if producer != self.producer and not again:
            return FENCED, NOBODY
        if self.unmarked:
            return CONCURRENT, NOBODY
        if (self.state == "Ongoing" or (version == 2 and not committed)) and not again:
            if version == 2:
                self.before = self.producer
                self.bump()
            self.decide(committed)
        elif self.state != ("Commit" if committed else "Abort"):
            return Errors.INVALID_TXN_STATE, NOBODY
        return NONE, self.producer if version == 2 else NOBODY

    def write(self, batch: RecordBatch, tp: TopicPartition, version: int) -> tuple[Errors, int]:
        """Append a batch, once the coordinator says that its partition is in the transaction."""
        log, producer = self.logs[tp], (batch.producer_id, batch.producer_epoch)
        error = self.verify(producer, log, version)
        if error is not NONE:
            return error, -1
        end = len(log.records)
        error, offset = log.append(batch)
        log.open += log.records[end:]
        return error, offset

    def verify(self, producer: Producer, member: Log | Group, version: int) -> Errors:
        """Return why nothing may be written: the transaction has ended, or does not know it."""
        if producer != self.producer:
            return Errors.INVALID_PRODUCER_EPOCH
        if self.unmarked:
            return CONCURRENT
        if version == 2:
            return self.add(producer, [member])
        return NONE if member in self.members else Errors.TRANSACTION_ABORTABLE

    def answer(self, message: Any, error: Errors, which: int = 0) -> tuple[Any, Errors]:
        """Return the answer to a request, and its error; with ``error`` nothing else happens.

        An error of one partition (``PARTITION_ERRORS``) is that of the one with number ``which``.
        """
        if isinstance(message, ProduceRequest):
            parts = []
            for part in message.partitions:
                found, offset = error, -1
                if not error:
                    found, offset = self.write(part.batch, part.tp, message.transaction_version)
                parts.append(ProducePartitionResponse(part.tp, found, offset, -1, 0))
            return ProduceResponse(tuple(parts)), max(part.error for part in parts)
        if isinstance(message, AddPartitionsToTxnRequest):
            (each,) = message.transactions
            members: list[Log | Group] = [self.logs[tp] for tp in each.partitions]
            error = error or self.add((each.producer_id, each.producer_epoch), members)
            errors = dict.fromkeys(each.partitions, error)
            if error in PARTITION_ERRORS:  # one such partition fails the request
                errors = dict.fromkeys(each.partitions, Errors.OPERATION_NOT_ATTEMPTED)
                errors[each.partitions[which % len(errors)]] = error
            return AddPartitionsToTxnResponse(NONE, (("tx", tuple(errors.items())),)), error
        producer, given = (message.producer_id, message.producer_epoch), NOBODY
        match message:
            case InitProducerIdRequest():
                if not error:
                    error, given = self.init(producer)
                return InitProducerIdResponse(error, *given), error
            case AddOffsetsToTxnRequest():
                error = error or self.add(producer, [self.group])
                return AddOffsetsToTxnResponse(error), error
            case TxnOffsetCommitRequest():
                return self.commit_offsets(message, error, which)
            case EndTxnRequest():
                if not error:
                    version = message.transaction_version
                    error, given = self.end(producer, message.committed, version)
                return EndTxnResponse(error, *given), error
        raise AssertionError(message)

    def commit_offsets(
        self, message: TxnOffsetCommitRequest, error: Errors, which: int
    ) -> tuple[TxnOffsetCommitResponse, Errors]:
        """Answer TxnOffsetCommit: an error of one partition does not keep the others out.

        A partition that the broker does not know is refused before anything else; the size of
        metadata is looked at when the transaction is known to be open.
        """
        offsets = {tp: offset for tp, offset, *_ in message.offsets}
        refused = list(offsets)[which % len(offsets)] if error in PARTITION_ERRORS else None
        if error and refused is None:
            return TxnOffsetCommitResponse(tuple([(tp, error) for tp in offsets])), error
        unknown = refused if error is Errors.UNKNOWN_TOPIC_OR_PARTITION else None
        found = NONE
        if set(offsets) != {unknown}:
            producer = message.producer_id, message.producer_epoch
            found = self.verify(producer, self.group, message.transaction_version)
        errors = dict.fromkeys(offsets, found)
        if refused is not None and (refused is unknown or found is NONE):
            errors[refused] = error
        self.group.open |= {tp: offset for tp, offset in offsets.items() if errors[tp] is NONE}
        return TxnOffsetCommitResponse(tuple(errors.items())), found or error
