"""The exceptions that a client's call can raise: those of Kafka's that applications tell apart.

An exception can be rebuilt from its ``args``.
"""

from __future__ import annotations


class KafkaError(Exception):
    """A call failed: ``error`` is Kafka's name of the error, ``detail`` what was asked for."""

    def __init__(self, error: str, detail: str = "") -> None:
        super().__init__(error, detail)
        self.error = error
        self.detail = detail

    def __str__(self) -> str:
        return f"{self.error}: {self.detail}" if self.detail else self.error


class KafkaTimeoutError(KafkaError):
    """The call ran out of time (TimeoutException)."""


class BufferExhaustedError(KafkaTimeoutError):
    """buffer.memory had no room for a record within max.block.ms (BufferExhaustedException)."""


class RecordTooLargeError(KafkaError):
    """A record is larger than max.request.size or buffer.memory (RecordTooLargeException)."""


class CommitFailedError(KafkaError):
    """The member is not in the generation any more for which it commits."""


class RetriableCommitFailedError(KafkaError):
    """An async commit failed for now; it is for the application to commit again, or later."""


class WakeupError(KafkaError):
    """The application has called wakeup() (WakeupException)."""


class NoOffsetForPartitionError(KafkaError):
    """A partition has no position, and auto.offset.reset is none."""


class OffsetOutOfRangeError(KafkaError):
    """The log has no record at the position, and auto.offset.reset is none."""


class LogTruncationError(KafkaError):
    """The log was truncated below the position, and auto.offset.reset is none."""


class AssignorError(KafkaError):
    """The assignor of the group's leader failed, or broke the rules of its protocol."""


class ProducerFencedError(KafkaError):
    """Another producer with the same transactional.id has a newer epoch: close this one."""


class InvalidProducerEpochError(KafkaError):
    """A batch had an old epoch; the transaction must be aborted (KIP-588)."""


class TransactionAbortableError(KafkaError):
    """The transaction cannot be committed any more, but it can be aborted (KIP-890)."""


class TransactionAbortedError(KafkaError):
    """A record was not sent because its transaction was aborted."""


class IllegalStateError(KafkaError):
    """The call does not fit the state of the producer, e.g. a send outside a transaction."""


class ConsumerRebalanceFailedError(KafkaError):
    """An old consumer gave up after rebalance.max.retries attempts at its first rebalance."""


class ConsumerTimeoutError(KafkaError):
    """No record came for consumer.timeout.ms (ConsumerTimeoutException of the old consumer)."""
