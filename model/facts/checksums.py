"""The checksum of a batch, by which the logs of two replicas are compared.

Kafka has a CRC in each batch (RecordBatch.checksum). Ours covers the place of the batch, its
producer, and its first and last record. It is the same in every process and Python.
"""

from __future__ import annotations

from struct import Struct
from zlib import crc32

_PACKED = Struct("<8q")

CLEANED = 0
"""The checksum of a batch that a log cleaner has taken records from: it tells nothing."""


def checksum(
    base_offset: int,
    next_offset: int,
    leader_epoch: int,
    producer_id: int,
    producer_epoch: int,
    base_sequence: int,
    first_id: int,
    last_id: int,
) -> int:
    """Return the checksum of a batch; ids of records are −1 in internal topics and markers."""
    return crc32(
        _PACKED.pack(
            base_offset, next_offset, leader_epoch, producer_id, producer_epoch,
            base_sequence, first_id, last_id,
        )
    )  # fmt: skip
