"""What a mirror of real Kafka has written to its internal topics, read from brokers' files.

The formats are those of OffsetSync, Checkpoint and Heartbeat (``connect/mirror``,
``connect/mirror-client``): structs of the request protocol's types, without a schema in the jars.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from pathlib import Path

from kafkasim.model.connect.offset_syncs import OffsetSync
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.running.checkpointing import Checkpoint
from tests.fidelity.playing.metadata_log import batches

Stored = tuple[bytes | None, bytes | None]


def stored_records(file: Path) -> list[Stored]:
    """Return key and value of all records of a segment, by their offsets: nothing is compacted."""
    return [record for batch in batches(file) for record in batch.records]


def offset_syncs(records: list[Stored]) -> Iterator[OffsetSync]:
    """Yield what a topic of offset syncs says."""
    for key, value in records:
        read = io.BytesIO(key or b"")
        tp = TopicPartition(_string(read), _int(read))
        yield OffsetSync(tp, *struct.unpack(">qq", value or b""))


def checkpoints(records: list[Stored]) -> Iterator[Checkpoint]:
    """Yield what a topic of checkpoints says."""
    for key, value in records:
        read = io.BytesIO(key or b"")
        group, topic = _string(read), _string(read)
        tp = TopicPartition(topic, _int(read))
        up, down = struct.unpack_from(">qq", value or b"", 2)  # behind the version
        yield Checkpoint(group, tp, up, down)


def heartbeats(records: list[Stored]) -> Iterator[tuple[str, str]]:
    """Yield (source, target) of each heartbeat."""
    for key, _ in records:
        read = io.BytesIO(key or b"")
        yield _string(read), _string(read)


def _string(read: io.BytesIO) -> str:
    (length,) = struct.unpack(">h", read.read(2))
    return read.read(length).decode()


def _int(read: io.BytesIO) -> int:
    (found,) = struct.unpack(">i", read.read(4))
    return int(found)
