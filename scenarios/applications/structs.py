"""aiokafka.structs and aiokafka.errors: what applications get from clients, and what they catch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

from kafkasim.model.client import exceptions
from kafkasim.model.records import TopicPartition

__all__ = ["TopicPartition"]


class OffsetAndMetadata(NamedTuple):
    """An offset to commit, of the next record to read, and a note."""

    offset: int
    metadata: str


class OffsetAndTimestamp(NamedTuple):
    """The offset of a record, and its time in milliseconds."""

    offset: int
    timestamp: int


class RecordMetadata(NamedTuple):
    """Where a record went."""

    topic: str
    partition: int
    topic_partition: TopicPartition
    offset: int
    timestamp: int | None
    timestamp_type: int  # 0: CreateTime


@dataclass(frozen=True)
class ConsumerRecord:
    """A record as an application reads it; ``timestamp`` is in milliseconds."""

    topic: str
    partition: int
    offset: int
    timestamp: int
    timestamp_type: int
    key: Any
    value: Any
    checksum: None
    serialized_key_size: int
    serialized_value_size: int
    headers: tuple[tuple[str, bytes], ...]


class ConsumerRebalanceListener:
    """Hears of rebalances; both methods may be coroutines."""

    def on_partitions_revoked(self, revoked: set[TopicPartition]) -> Any:
        """Handle the loss of partitions; a commit is still possible."""

    def on_partitions_assigned(self, assigned: set[TopicPartition]) -> Any:
        """Handle new partitions, before the first record of them."""


class KafkaError(Exception):
    """An error of a client. ``code`` is the name of Kafka's error code."""

    code = "UNKNOWN_SERVER_ERROR"


class KafkaTimeoutError(KafkaError):
    """A call did not end in its time."""


class CommitFailedError(KafkaError):
    """The group has gone on without this member: its partitions belong to others now."""


class NoOffsetForPartitionError(KafkaError):
    """There is no committed offset, and auto.offset.reset is none."""


class OffsetOutOfRangeError(KafkaError):
    """The log has no record at the position, and auto.offset.reset is none."""


class IllegalStateError(KafkaError):
    """The call does not go with the state of the client."""


class RecordDeserializationError(KafkaError):
    """A record's key or value cannot be read (Java: RecordDeserializationException, KIP-334).

    The consumer stays at the record: it raises again until it seeks past ``offset``.
    """

    def __init__(self, partition: TopicPartition, offset: int) -> None:
        super().__init__(
            f"Error deserializing key or value for partition {partition} at offset {offset}."
            " If needed, please seek past the record to continue consumption."
        )
        self.partition = partition
        self.offset = offset


class WakeupError(KafkaError):
    """Another task has called wakeup() (Java: WakeupException)."""


class RetriableCommitError(KafkaError):
    """An async commit failed for now (Java: RetriableCommitFailedException)."""


class ProducerFenced(KafkaError):
    """Another producer has this one's transactional id."""


class ConsumerStoppedError(KafkaError):
    """The consumer is stopped."""


def commit_of(given: Any) -> int | tuple[int, str]:
    """Return what a commit of one partition carries: an offset, or an offset and its metadata."""
    return (int(given[0]), str(given[1])) if isinstance(given, tuple) else int(given)


def offset_of(given: Any) -> int:
    """Return the offset of what a commit takes: an offset, or an offset and its metadata."""
    return int(given[0] if isinstance(given, tuple) else given)


_CLASSES = {
    exceptions.KafkaTimeoutError: KafkaTimeoutError,
    exceptions.CommitFailedError: CommitFailedError,
    exceptions.ProducerFencedError: ProducerFenced,
    exceptions.IllegalStateError: IllegalStateError,
    exceptions.WakeupError: WakeupError,
    exceptions.RetriableCommitFailedError: RetriableCommitError,
    exceptions.NoOffsetForPartitionError: NoOffsetForPartitionError,
    exceptions.OffsetOutOfRangeError: OffsetOutOfRangeError,
}


def translated(error: exceptions.KafkaError) -> KafkaError:
    """Return a model's error as the application catches it."""
    kind: type[KafkaError] = _CLASSES.get(type(error), KafkaError)
    if error.error == "ILLEGAL_STATE":
        kind = IllegalStateError
    told = kind(str(error))
    told.code = error.error
    return told
