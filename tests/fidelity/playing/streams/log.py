"""What an application of Kafka Streams leaves behind: assignments, changelogs, checkpoints.

Real Kafka's are read from files of brokers and instances. The schema of a subscription's user data
comes from the jar of Kafka Streams; that of an assignment's has none (AssignmentInfo.encode).
"""

from __future__ import annotations

import io
import re
import struct
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kafkasim.model.streams.assignment.info import AssignmentInfo, AssignorError, SubscriptionInfo
from kafkasim.model.streams.task_id import TaskId
from kafkasim.model.values import value
from tests.fidelity.playing.groups.log import GroupLogReader
from tests.fidelity.playing.metadata_log import batches
from tests.fidelity.playing.transactions.log import MARKERS
from tests.fidelity.schema_table import read_schemas
from tests.fidelity.wire import fields_of

TASK = re.compile(r"\d+_\d+")


@value
class Event:
    """What an instance tells of itself: a state of its thread, or what becomes of a changelog."""

    node: str
    kind: str  # state | error | restore-began | restore-ended | restore-suspended | standby-…
    place: str  # the state, or the changelog's partition as topic-number
    numbers: tuple[int, ...] = ()  # offsets, counts


@value
class Batch:
    """A batch of a partition: records, or a marker."""

    base: int
    producer: int  # id of the producer of a transaction; −1: there is none
    marker: str  # "COMMIT" or "ABORT"; "" for records
    records: tuple[tuple[bytes | None, bytes | None], ...]


class DataLog:
    """The records of one partition, without markers."""

    def __init__(self, found: Iterable[Batch]) -> None:
        self.committed: list[tuple[bytes | None, bytes | None]] = []
        self.aborted: list[tuple[bytes | None, bytes | None]] = []
        self.open: dict[int, list[tuple[bytes | None, bytes | None]]] = {}
        """By producer: those of the transaction that is under way"""
        self._markers: list[int] = []
        for batch in found:
            if batch.marker:
                self._markers.append(batch.base)
                ended = self.committed if batch.marker == "COMMIT" else self.aborted
                ended += self.open.pop(batch.producer, [])
            elif batch.producer >= 0:
                self.open.setdefault(batch.producer, []).extend(batch.records)
            else:
                self.committed += batch.records

    def fold(self, offset: int) -> int:
        """Return how many records are before an offset: how many markers there are is a race."""
        return offset - bisect_left(self._markers, offset)


def stored_batches(file: Path) -> Iterator[Batch]:
    """Yield the batches of a broker's segment."""
    for batch in batches(file):
        marker, producer = "", batch.producer_id if batch.transactional else -1
        if batch.control:
            key, _ = batch.records[0]
            assert key is not None, "a control record has a key"
            marker = MARKERS[struct.unpack(">hh", key)[1]]
        yield Batch(batch.base, producer, marker, tuple(batch.records))


def stored_events(node: str, file: Path) -> list[Event]:
    """Return what an instance has printed (java/StreamsInstance.java)."""
    rows = [line.split() for line in file.read_text(errors="replace").splitlines()]
    return [
        Event(node, row[1], row[2], tuple([int(number) for number in row[3:]]))
        for row in rows
        if row[:1] == ["event"]
    ]


def stored_checkpoints(state: Path) -> dict[str, dict[str, int] | None]:
    """Return the checkpoint file of each task that has state; None without a file.

    A file has a version, how many entries there are, and TOPIC PARTITION OFFSET for each
    (OffsetCheckpoint).
    """
    found: dict[str, dict[str, int] | None] = {}
    for place in sorted(state.iterdir() if state.exists() else ()):
        if not TASK.fullmatch(place.name) or not (place / "rocksdb").exists():
            continue
        file = place / ".checkpoint"
        found[place.name] = None
        if file.exists():
            rows = [line.split() for line in file.read_text().splitlines()[2:]]
            found[place.name] = {f"{topic}-{number}": int(at) for topic, number, at in rows}
    return found


class StreamsLogReader(GroupLogReader):
    """Reads ``__consumer_offsets`` with what assignors of Kafka Streams wrote into it."""

    def __init__(self, libs: Path, streams_libs: Path) -> None:
        """``libs`` has Kafka's jars, ``streams_libs`` those of Kafka Streams."""
        super().__init__(libs)
        jar = next(streams_libs.glob("kafka-streams-[0-9]*.jar"))
        (self._info,) = read_schemas(jar, r"common/message/SubscriptionInfoData\.json")

    def _subscription(self, data: bytes) -> dict[str, Any]:
        found = super()._subscription(data)
        return found | {"userData": found["userData"] and self._told(found["userData"])}

    def _told(self, data: bytes) -> SubscriptionInfo:
        found = fields_of(self._info, struct.unpack(">i", data[:4])[0], data)
        sums = {
            TaskId(each["topicGroupId"], each["partition"]): each["offsetSum"]
            for each in found["taskOffsetSums"]
        }
        error = AssignorError(found["errorCode"])
        return SubscriptionInfo(str(found["processId"]), sums, found["uniqueField"], error)

    def _assignment_user_data(self, data: bytes) -> AssignmentInfo | None:
        found = self._decode("ConsumerProtocolAssignment", data) if data else {}
        return assignment_info(found["userData"]) if found.get("userData") else None


def assignment_info(data: bytes) -> AssignmentInfo:
    """Return what the user data of an assignment say (AssignmentInfo, versions 10 and 11).

    Left out: the partitions of standbys, and which host has what.
    """
    read = io.BytesIO(data)
    version, _ = _numbers(read, ">ii")
    assert version in (10, 11), version
    active = [_task(read) for _ in range(*_numbers(read, ">i"))]
    standby = {}
    for _ in range(*_numbers(read, ">i")):
        standby[_task(read)] = ()
        for _ in range(*_numbers(read, ">i")):
            read.seek(_numbers(read, ">H")[0] + 4, io.SEEK_CUR)
    error, next_rebalance_ms = struct.unpack(">iq", data[-12:])
    return AssignmentInfo(active, standby, next_rebalance_ms, AssignorError(error))


def _task(read: io.BytesIO) -> TaskId:
    subtopology, number, name = _numbers(read, ">iii")
    assert name == 0, "a named topology"
    return TaskId(subtopology, number)


def _numbers(read: io.BytesIO, form: str) -> tuple[int, ...]:
    return struct.unpack(form, read.read(struct.calcsize(form)))
