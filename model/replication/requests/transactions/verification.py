"""Leaders ask a transaction's coordinator before they append its first batch (KIP-890, part 1).

Models ReplicaManager.handleProduceAppend and maybeSendPartitionsToTransactionCoordinator. The
question goes through :class:`TransactionCoordinators`, the broker's AddPartitionsToTxnManager. With
transaction version 2 the question adds the partition, so the client need not.

    produce ─▶ guard for each partition without an open transaction ─▶ coordinator
                                                                            │
    append with the guard, or an error ◀── on a request handler's thread ◀──┘

A leader of a release before 3.6 does not verify. A coordinator of such a release does not know the
request, and the leader then appends without verification (AddPartitionsToTxnHandler.onComplete,
versionMismatch).
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkasim.model.effects import Post
from kafkasim.model.errors import Errors
from kafkasim.model.facts import VerificationSkipped

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.messages import ProduceRequest
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.replication.rules import ReplicationRules
    from kafkasim.model.storage.log.producers.verification import VerificationStateEntry

NONE = Errors.NONE
REQUESTS = "requests"  # the lane of the request handlers
SCHEDULER = "scheduler"
UNREACHABLE = (
    Errors.NETWORK_EXCEPTION,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.NOT_COORDINATOR,
)
"""A client that gets one of these for a produce request may not retry it as it should."""

PartitionErrors: TypeAlias = "dict[TopicPartition, Errors]"
OnErrors: TypeAlias = Callable[[PartitionErrors, int], None]
"""Takes the errors of the partitions that were not verified, and now."""


class TransactionSupportedOperation(Enum):
    """What the version of a client's request asks of the verification."""

    DEFAULT_ERROR = "default-error"  # Produce up to 10, TxnOffsetCommit up to 3
    GENERIC_ERROR_SUPPORTED = "generic-error"  # 11, 4: the client knows TRANSACTION_ABORTABLE
    ADD_PARTITION = "add-partition"  # 12, 5: transaction version 2

    @property
    def supports_epoch_bump(self) -> bool:
        """Whether the client uses transaction version 2."""
        return self is TransactionSupportedOperation.ADD_PARTITION


def operation_of(transaction_version: int, knows_abortable: bool) -> TransactionSupportedOperation:
    """Return what a request asks for (produceRequestVersionToTransactionSupportedOperation)."""
    if transaction_version >= 2:
        return TransactionSupportedOperation.ADD_PARTITION
    if knows_abortable:
        return TransactionSupportedOperation.GENERIC_ERROR_SUPPORTED
    return TransactionSupportedOperation.DEFAULT_ERROR


class TransactionCoordinators(Protocol):
    """The way to the coordinators of transactions (AddPartitionsToTxnManager)."""

    def add_or_verify(
        self,
        transactional_id: str,
        producer_id: int,
        producer_epoch: int,
        partitions: tuple[TopicPartition, ...],
        operation: TransactionSupportedOperation,
        done: OnErrors,
        now: int,
    ) -> None:
        """Ask whether partitions are in a transaction, or add them to it."""
        ...


class Verified:
    """The outcome for some partitions: errors, or the guards to append with.

    A partition that is in neither has an open transaction already.
    """

    __slots__ = ("errors", "guards")

    def __init__(
        self, errors: PartitionErrors, guards: dict[TopicPartition, VerificationStateEntry]
    ) -> None:
        self.errors = errors
        self.guards = guards


OnVerified: TypeAlias = Callable[[Verified, int], None]
NOTHING_TO_VERIFY = Verified({}, {})


class TransactionVerification:
    """Verifies transactions. ``coordinators`` is set by the broker."""

    def __init__(
        self,
        process: BrokerProcess,
        config: BrokerConfig,
        rules: ReplicationRules,
        hosted: HostedPartitions,
    ) -> None:
        self.coordinators: TransactionCoordinators | None = None
        self._process = process
        self._enabled = config.transaction_partition_verification_enable
        self._backoff_us = config.add_partitions_to_txn_retry_backoff_ms * 1000
        self._retry_us = 1000 * min(
            config.add_partitions_to_txn_retry_backoff_max_ms, config.request_timeout_ms
        )
        self._retries = 0  # so far; each has a timer
        self._rules = rules
        self._hosted = hosted

    def verify_produce(self, request: ProduceRequest, done: OnVerified, now: int) -> None:
        """Verify a produce request; ``done`` gets errors that producers know, on this lane or on
        the request handlers'.

        With transaction version 2 the coordinator may still be busy with the transaction before.
        The broker then asks again itself for a short while (add.partitions.to.txn.retry.*).
        """
        sequences = {
            each.tp: each.batch.base_sequence
            for each in request.partitions
            if each.batch.transactional and each.batch.producer_id >= 0
        }
        if not sequences:
            done(NOTHING_TO_VERIFY, now)
            return
        operation = operation_of(request.transaction_version, request.knows_abortable)
        give_up = now + self._retry_us

        def ask(at: int) -> None:
            batch = request.partitions[0].batch
            self.verify(
                request.transactional_id,
                batch.producer_id,
                batch.producer_epoch,
                sequences,
                operation,
                verified,
                at,
            )

        def verified(outcome: Verified, at: int) -> None:
            errors = outcome.errors
            bump = operation.supports_epoch_bump
            if bump and at < give_up and Errors.CONCURRENT_TRANSACTIONS in errors.values():
                self._retries += 1
                key = ("retry-add-partitions-to-txn", self._retries)
                self._process.timers.arm(key, at + self._backoff_us, SCHEDULER, ask)
                return
            known = {tp: producer_error(error, operation) for tp, error in errors.items()}
            done(Verified(known, outcome.guards), at)

        ask(now)

    def verify(
        self,
        transactional_id: str | None,
        producer_id: int,
        producer_epoch: int,
        sequences: dict[TopicPartition, int],
        operation: TransactionSupportedOperation,
        done: OnVerified,
        now: int,
    ) -> None:
        """Verify partitions, with the first sequence number of each (−1 for offset commits).

        ``done`` is called at once, or on the lane of the request handlers, with the coordinator's
        own errors.
        """
        coordinators = self.coordinators
        if not self._rules.knows_verification():
            for tp in sequences if transactional_id is not None else ():
                self._tell_skipped(tp, producer_id, producer_epoch)
            done(NOTHING_TO_VERIFY, now)
            return
        bump = operation.supports_epoch_bump
        enabled = self._rules.verifies_transactions(self._enabled)
        if transactional_id is None or coordinators is None or not (bump or enabled):
            done(NOTHING_TO_VERIFY, now)
            return
        outcome = Verified({}, {})
        for tp, sequence in sequences.items():
            guard = self._start(tp, producer_id, producer_epoch, sequence, bump, now)
            if isinstance(guard, Errors):
                outcome.errors[tp] = guard
            elif guard is not None:
                outcome.guards[tp] = guard
        if not outcome.guards:
            done(outcome, now)
            return

        def answered(errors: PartitionErrors, _at: int) -> None:
            for tp, error in errors.items():
                if error is Errors.UNSUPPORTED_VERSION:
                    self._tell_skipped(tp, producer_id, producer_epoch)
                else:
                    outcome.errors[tp] = error
            self._process.out.append(Post(REQUESTS, done, outcome))

        tps = tuple(outcome.guards)
        coordinators.add_or_verify(
            transactional_id, producer_id, producer_epoch, tps, operation, answered, now
        )

    def _tell_skipped(self, tp: TopicPartition, producer_id: int, producer_epoch: int) -> None:
        """Tell of a batch that may begin a transaction here, of which nobody could be asked."""
        partition = self._hosted.online.get(tp)
        if partition is None or partition.leadership is None:
            return
        if not partition.log.producers.has_ongoing_transaction(producer_id, producer_epoch):
            skipped = VerificationSkipped(
                partition.topic_id, tp.partition, producer_id, producer_epoch
            )
            self._process.out.append(skipped)

    def _start(
        self,
        tp: TopicPartition,
        producer_id: int,
        producer_epoch: int,
        sequence: int,
        supports_epoch_bump: bool,
        now: int,
    ) -> VerificationStateEntry | Errors | None:
        partition = self._hosted.online.get(tp)
        if partition is None:
            return self._hosted.error_of_missing(tp)
        error = partition.check_leader(-1)
        if error is not NONE:
            return error
        now_ms = self._process.wall_ms(now)
        return partition.log.producers.start_verification(
            producer_id, sequence, producer_epoch, supports_epoch_bump, now_ms
        )


def producer_error(error: Errors, operation: TransactionSupportedOperation) -> Errors:
    """Return the error that a producer gets for an error of the verification.

    NOT_ENOUGH_REPLICAS makes every client retry, and no client refresh its metadata for it.
    """
    busy = error is Errors.CONCURRENT_TRANSACTIONS and not operation.supports_epoch_bump
    return Errors.NOT_ENOUGH_REPLICAS if busy or error in UNREACHABLE else error
