"""The metadata log of a real controller, read from its file.

Batches are DefaultRecordBatch. The records' schemas come from the jar of Kafka's metadata module
(``common/metadata/*.json``), so a new version of Kafka needs no new code. What this module reads is
what ``kafka-dump-log --cluster-metadata-decoder`` prints, and the leader of each epoch beside.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kafkasim.model.values import value
from tests.fidelity.schema_table import read_schemas
from tests.fidelity.wire import fields_of

_HEADER = struct.Struct(">qiibIhiqqqhii")
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
LEADER_CHANGE, VOTERS = 2, 6
"""Types of control records (ControlRecordType)."""

LOG = Path("__cluster_metadata-0") / "00000000000000000000.log"


@value
class Entry:
    """One record of a metadata log. ``fields`` has Kafka's names with small first letters."""

    offset: int
    epoch: int  # of the controller that wrote it
    kind: str  # PartitionChangeRecord, …; LeaderChange; Voters
    fields: dict[str, Any]


@value
class StoredBatch:
    """A batch of a segment: its header's fields, and the keys and values of its records."""

    base: int
    epoch: int  # of the leader that wrote it
    transactional: bool
    control: bool
    producer_id: int
    producer_epoch: int
    records: list[tuple[bytes | None, bytes | None]]


class MetadataReader:
    """Reads the metadata logs of one version of Kafka."""

    def __init__(self, metadata_jar: Path) -> None:
        schemas = read_schemas(metadata_jar, r"common/metadata/\w+\.json")
        self._by_key = {each["apiKey"]: each for each in schemas if each["type"] == "metadata"}

    def entries(self, data_dir: Path) -> list[Entry]:
        """Return the records of a controller's log."""
        found: list[Entry] = []
        for batch in batches(data_dir / LOG):
            for offset, (key, data) in enumerate(batch.records, batch.base):
                assert data is not None, "a metadata record has a value"
                if batch.control:
                    assert key is not None, "a control record has a key"
                    found += _control(offset, batch.epoch, key, data)
                else:
                    kind, fields = self._decode(data)
                    found.append(Entry(offset, batch.epoch, kind, fields))
        return found

    def _decode(self, data: bytes) -> tuple[str, dict[str, Any]]:
        """Return a record's kind and fields (MetadataRecordSerde: frame version, key, version)."""
        assert data[0] == 1, "a metadata record of an unknown frame version"
        key, version = data[1], data[2]
        schema = self._by_key[key]
        return schema["name"], fields_of(schema, version, data[3:])


def end_of_log(data_dir: Path) -> tuple[int, int]:
    """Return (epoch of the last batch, end offset) of a controller's log; zeros if it is empty.

    The controller with the greatest one has all that is committed.
    """
    return end_of_segment(data_dir / LOG)


def end_of_segment(file: Path) -> tuple[int, int]:
    """Return (epoch of the last batch, end offset) of a segment; zeros if it is empty."""
    last = (0, 0)
    for batch in batches(file):
        last = (batch.epoch, batch.base + len(batch.records))
    return last


def batches(file: Path) -> Iterator[StoredBatch]:
    """Yield the batches of a segment; one that is being written is left out."""
    data = file.read_bytes() if file.exists() else b""
    at = 0
    while at + _HEADER.size <= len(data):
        found = _HEADER.unpack_from(data, at)
        base, size, epoch, _, _, attributes, _, _, _, producer_id, producer_epoch, _, count = found
        if at + 12 + size > len(data):
            break
        read = io.BytesIO(data[at + _HEADER.size : at + 12 + size])
        records = [_record(read) for _ in range(count)]
        yield StoredBatch(
            base, epoch, bool(attributes & _TRANSACTIONAL), bool(attributes & _CONTROL),
            producer_id, producer_epoch, records,
        )  # fmt: skip
        at += 12 + size


def _record(read: io.BytesIO) -> tuple[bytes | None, bytes | None]:
    """Return key and value of the next record (DefaultRecord)."""
    end = _varint(read) + read.tell()
    read.read(1)
    _varint(read), _varint(read)
    key, found = _field(read), _field(read)
    read.seek(end)
    return key, found


def _field(read: io.BytesIO) -> bytes | None:
    size = _varint(read)
    return None if size < 0 else read.read(size)


def _varint(read: io.BytesIO) -> int:
    number = shift = 0
    while True:
        byte = read.read(1)[0]
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return (number >> 1) ^ -(number & 1)


def _control(offset: int, epoch: int, key: bytes, data: bytes) -> Iterator[Entry]:
    _, kind = struct.unpack(">hh", key)
    if kind == LEADER_CHANGE:  # LeaderChangeMessage: version, leader id, …
        yield Entry(offset, epoch, "LeaderChange", {"leaderId": struct.unpack(">hi", data[:6])[1]})
    elif kind == VOTERS:
        yield Entry(offset, epoch, "Voters", {})
