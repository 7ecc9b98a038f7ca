"""Facts of transactions, recorded by applications, clients, coordinators and leaders.

A transaction's ``number`` counts the transactions of one producer object from 0. With the node and
the transactional id it names the attempt in the application's eyes; brokers know a transaction by
its producer id and epoch.
"""

from __future__ import annotations

from kafkasim.model.values import value


@value
class TransactionBegun:
    """A producer began a transaction (beginTransaction)."""

    transactional_id: str
    number: int
    producer_id: int
    producer_epoch: int


@value
class TransactionSent:
    """A record was put into the accumulator as a part of the producer's open transaction."""

    transactional_id: str
    number: int
    topic_id: str
    partition: int
    record_id: int


@value
class TransactionOffsets:
    """A producer took a group's offset into its open transaction (sendOffsetsToTransaction)."""

    transactional_id: str
    number: int
    group: str
    topic: str
    partition: int
    offset: int


@value
class TransactionEnding:
    """The application asked for the end of its open transaction."""

    transactional_id: str
    number: int
    committing: bool  # True: commitTransaction; False: abortTransaction


@value
class TransactionEnded:
    """A producer's transaction is over for the application.

    ``committed`` and ``aborted`` are what the coordinator has confirmed. After ``fenced`` and
    ``failed`` the producer does not know the outcome, unless no commit was asked for.
    """

    transactional_id: str
    number: int
    outcome: str  # committed | aborted | fenced | failed


@value
class TransactionsLoaded:
    """A broker began or ceased to coordinate the ids of a partition of ``__transaction_state``."""

    partition: int
    leader_epoch: int
    loaded: bool  # True: began


@value
class ReadsCommitted:
    """The host's consumer of the group reads committed records only: isolation.level."""

    group: str


@value
class ProcessorStarted:
    """An application began to write each record of its input topics to its output topic."""

    group: str
    guarantee: str  # exactly-once | at-least-once | at-most-once
    topics: tuple[str, ...]  # that it reads, as a member of the group
    topic: str  # that it writes


@value
class TransactionState:
    """A transaction coordinator changed the state of a transactional id.

    The high watermark of its partition of ``__transaction_state`` has passed the record.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    before: str  # TransactionState of Kafka, e.g. Ongoing
    state: str
    assignment: tuple[str, ...]  # the transaction's partitions, as ``topic-partition``
    timeout_ms: int  # transaction.timeout.ms of the producer
    coordinator_epoch: int  # the leader epoch of the partition of __transaction_state
    reason: str  # init | add | end | timeout | fence | markers | expired


@value
class BatchUnverified:
    """A leader refused a batch whose transaction the coordinator did not confirm (KIP-890).

    The leader appends no later batch of the producer before this one (KAFKA-14920).
    """

    topic_id: str
    partition: int
    leader_epoch: int
    producer_id: int
    producer_epoch: int
    base_sequence: int
    error: str  # that the producer gets


@value
class ProducerIdExpired:
    """A replica forgot an idempotent producer: its partition got nothing from it for too long.

    Of the ids of one producer that have no open transaction (producer.id.expiration.ms, KIP-854).
    """

    topic_id: str
    partition: int
    producer_id: int
    age_ms: int  # since its last batch or marker
    limit_ms: int  # producer.id.expiration.ms


@value
class VerificationSkipped:
    """A leader takes a transaction's first batch in a partition, and no coordinator was asked.

    Its release, or the coordinator's, is older than the question (KIP-890, part 1; 3.6). The leader
    may still refuse the batch for another reason.
    """

    topic_id: str
    partition: int
    producer_id: int
    producer_epoch: int


@value
class MarkerGivenUp:
    """A coordinator will not send a marker again: the partition's leader has refused it for good.

    The transaction stays decided without being complete.
    """

    transactional_id: str
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int
    error: str  # INVALID_PRODUCER_EPOCH or TRANSACTION_COORDINATOR_FENCED


@value
class EpochsExhausted:
    """A coordinator cannot end a transaction: its producer id has no epoch left for that.

    The transaction stays open. After a timeout the coordinator ends its search for others.
    """

    transactional_id: str
    producer_id: int
    producer_epoch: int
    reason: str  # of the attempt: end | timeout | fence


@value
class MarkerSkipped:
    """A coordinator knows no leader of a partition, and takes it for deleted.

    It sends no marker there, and the transaction is complete without.
    """

    transactional_id: str
    topic: str
    partition: int
    producer_id: int
    producer_epoch: int
    coordinator_epoch: int


@value
class MarkerWritten:
    """A leader appended the control batch that ends a transaction in its partition."""

    topic_id: str
    partition: int
    producer_id: int
    producer_epoch: int
    committed: bool  # COMMIT or ABORT
    offset: int
    leader_epoch: int
    coordinator_epoch: int
