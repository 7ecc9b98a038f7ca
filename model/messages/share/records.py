"""ShareFetch and ShareAcknowledge (KIP-932): version 1, as in Kafka 4.1.

A partition is named by its topic's id; ``tp`` is the same partition by the topic's name. Left out:
what Kafka 4.2 added, namely renewed locks (KIP-1222) and the acquire mode (KIP-1206).
"""

from __future__ import annotations

from kafkasim.model.errors import Errors
from kafkasim.model.messages.base import HEADER, PER_PARTITION, Message
from kafkasim.model.records import RecordBatch, TopicPartition
from kafkasim.model.values import value

GAP, ACCEPT, RELEASE, REJECT = range(4)
"""Acknowledge types. A gap is an offset at which the client found no record."""

INITIAL_SHARE_EPOCH = 0
FINAL_SHARE_EPOCH = -1
"""Epochs of a share session that open it and close it (ShareRequestMetadata)."""


@value
class AcknowledgementBatch:
    """The acknowledgement of the offsets of a range."""

    first_offset: int
    last_offset: int
    types: tuple[int, ...]  # one for the whole range, or one for each offset


@value
class SharePartitionRequest:
    """A partition that joins the session, or whose records are acknowledged."""

    tp: TopicPartition
    topic_id: str
    acknowledgements: tuple[AcknowledgementBatch, ...] = ()


@value
class ShareFetchRequest(Message):
    """A fetch of a member of a share group, with acknowledgements of what it fetched before."""

    group_id: str
    member_id: str
    session_epoch: int  # 0 opens the session, −1 closes it
    max_wait_ms: int  # how long the broker may park it for ``min_bytes``
    min_bytes: int
    max_bytes: int
    max_records: int  # a soft limit: batches are acquired whole
    batch_size: int  # of the records of one acquired batch
    partitions: tuple[SharePartitionRequest, ...]  # that join the session, or have acknowledgements
    forgotten: tuple[tuple[str, TopicPartition], ...] = ()  # (topic id, partition) that leave it

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + 40 + 24 * len(self.forgotten) + _size(self.partitions)


@value
class AcquiredRecords:
    """A range of offsets that the member holds, and how often they were delivered with this."""

    first_offset: int
    last_offset: int
    delivery_count: int


@value
class SharePartitionResponse:
    """One partition of a share fetch: the records, and the result of its acknowledgements."""

    tp: TopicPartition
    topic_id: str
    error: Errors
    acknowledge_error: Errors = Errors.NONE
    current_leader: tuple[int, int] | None = None  # KIP-951: (leader id, leader epoch)
    batches: tuple[RecordBatch, ...] = ()
    acquired: tuple[AcquiredRecords, ...] = ()


@value
class ShareFetchResponse(Message):
    error: Errors
    partitions: tuple[SharePartitionResponse, ...] = ()
    acquisition_lock_timeout_ms: int = 0  # how long the member holds what it was given

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        total = HEADER
        for partition in self.partitions:
            total += PER_PARTITION + 18 * len(partition.acquired)
            total += sum([batch.size for batch in partition.batches])
        return total


@value
class ShareAcknowledgeRequest(Message):
    """Acknowledgements without a fetch; the session epoch rises as with a fetch."""

    group_id: str
    member_id: str
    session_epoch: int  # −1 closes the session
    partitions: tuple[SharePartitionRequest, ...]

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + 40 + _size(self.partitions)


@value
class ShareAcknowledgePartition:
    tp: TopicPartition
    topic_id: str
    error: Errors
    current_leader: tuple[int, int] | None = None  # KIP-951: (leader id, leader epoch)


@value
class ShareAcknowledgeResponse(Message):
    error: Errors
    partitions: tuple[ShareAcknowledgePartition, ...] = ()

    def wire_size(self) -> int:
        """Return the bytes that the message takes on the network."""
        return HEADER + PER_PARTITION * len(self.partitions)


def _size(partitions: tuple[SharePartitionRequest, ...]) -> int:
    acknowledged = [batch for asked in partitions for batch in asked.acknowledgements]
    return 20 * len(partitions) + sum([17 + len(batch.types) for batch in acknowledged])
