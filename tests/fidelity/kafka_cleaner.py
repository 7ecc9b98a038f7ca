"""What the log cleaner leaves of a compacted topic: real Kafka's files, and the model's segments.

Each script writes to a topic of its own on both sides. Record timestamps, which run ahead of the
clock, decide when a segment is rolled (segment.ms), and a closed segment makes a log dirty enough
(min.cleanable.dirty.ratio = 0), so each ``clean`` is one cleaning. The files of broker 1 are copied
then, and DumpLogSegments prints them at the end. The text has every batch that is left with its
sequence numbers, its size, whether it has a delete horizon, and its records; times count back from
the newest record's.

Producer ids are given, and their markers are sent as a coordinator sends them, so no coordinator
takes part: transaction.partition.verification.enable is off.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, Protocol

from kafkasim.model import messages as m
from kafkasim.model.broker import BrokerRules
from kafkasim.model.errors import Errors
from kafkasim.model.records import Record, RecordBatch, TopicPartition, batch_of, offsets_of
from tests.fidelity.batches import record_size
from tests.fidelity.conversations.talk import Talk
from tests.fidelity.real_kafka import NoKafka, running
from tests.fidelity.real_zookeeper import cluster_of
from tests.fidelity.sides import SETTINGS, ModelSide, RealSide

VERSIONS = ("4.0.0", "4.1.0")
SMALL_SEGMENTS = {"4.1.0": "internal_segment_bytes"}
"""What allows a topic segments below 1 MiB, where segment.bytes does not."""

CLEANER_SETTINGS = {
    **SETTINGS,
    "log.cleaner.backoff.ms": "100",
    "transaction.partition.verification.enable": "false",
}
ROUND_MS = 20_000  # between the records of two cleanings
CLEANED_WITHIN = 1.5  # seconds
PAUSE = 0.2
"""Seconds before a cleaning: how far a marker is from its delete horizon decides its size."""

DAY = 86_400_000
SOON = 3000
"""A delete.retention.ms that outlasts the next cleaning."""

MODEL_EPOCH_US = 1_700_000_000_000_000  # of the model's wall clock


class Logs(Protocol):
    """The logs of broker 1."""

    segment_bytes: str
    """The setting of a topic for the size of its segments."""

    def now_ms(self) -> int:
        """Return the wall clock."""
        ...

    def keep(self, label: str, tp: TopicPartition) -> None:
        """Keep what a log is now."""
        ...


class Topic:
    """One script's topic: ``write`` appends a batch, ``clean`` has all that was written cleaned."""

    def __init__(self, talk: Talk, logs: Logs, name: str, **configs: object) -> None:
        settings = {
            "cleanup_policy": "compact", "segment_ms": "10000", "min_cleanable_dirty_ratio": "0",
            "delete_retention_ms": str(DAY),
        }  # fmt: skip
        settings |= {key: str(value) for key, value in configs.items()}
        if "segment_bytes" in settings:
            settings[logs.segment_bytes] = settings.pop("segment_bytes")
        self._side, self._logs, self._name = talk.side, logs, name
        self._tp = talk.create(re.sub(r"\W+", "-", name), (1, 2, 3), **settings)
        self._ms = logs.now_ms()
        self._sequences: dict[tuple[int, int], int] = {}
        self._fillers = 0

    def write(self, *records: str, by: int = -1, epoch: int = 0, txn: bool = False) -> None:
        """Append a batch; ``a=1`` is a record, ``a`` a tombstone, ``by`` a producer's id."""
        made = []
        for delta, text in enumerate(records):
            key, equals, number = text.partition("=")
            record = Record(key, int(number) if equals else None, 0, self._ms)
            made.append(Record(key, record.value, record_size(delta, record), self._ms))
        fields: dict[str, Any] = {}
        if by >= 0:
            sequence = self._sequences.get((by, epoch), 0)
            self._sequences[by, epoch] = sequence + len(records)
            fields = {"producer_id": by, "producer_epoch": epoch, "base_sequence": sequence}
        batch = batch_of(tuple(made), transactional=txn, **fields)
        request = m.ProduceRequest(
            -1, 5000, (m.ProducePartition(self._tp, batch),), "writer" if txn else None
        )
        answer = self._side.ask(1, request)
        assert answer.partitions[0].error is Errors.NONE, answer

    def end(self, by: int, committed: bool, epoch: int = 0) -> None:
        """Append a marker."""
        marker = m.WritableTxnMarker(by, epoch, committed, (self._tp,), 0)
        self._side.ask(1, m.WriteTxnMarkersRequest((marker,)))

    def clean(self, when: str, ends: int = -1) -> None:
        """Roll the segment, wait for the cleaner, and keep the log.

        ``ends`` is the producer of an open transaction, which has kept the cleaner away until now.
        """
        self._side.settle(PAUSE)
        self._ms += ROUND_MS
        self._fillers += 1
        self.write(f"-={self._fillers}")
        if ends >= 0:
            self.end(ends, True)
        self._side.settle(CLEANED_WITHIN)
        self._logs.keep(f"{self._name}: {when}", self._tp)

    def retain(self, retention_ms: int) -> None:
        """Set delete.retention.ms."""
        change = (("delete.retention.ms", str(retention_ms)),)
        resource = m.AlterableConfig("topic", self._tp.topic, change)
        self._side.ask(1, m.IncrementalAlterConfigsRequest((resource,)))
        self._side.settle(1)

    def wait(self, seconds: float) -> None:
        """Let time pass."""
        self._side.settle(seconds)


def keys(talk: Talk, logs: Logs) -> None:
    """Only the last record of each key stays; batches keep their last offset."""
    topic = Topic(talk, logs, "keys")
    topic.write("a=1", "b=2")
    topic.write("a=3")
    topic.write("c=4", "d=5", "c=6")
    topic.clean("first cleaning")
    topic.write("b=7", "d=8")
    topic.clean("second cleaning")
    topic.write("a=9")
    topic.write("a=10")
    topic.clean("third cleaning")
    topic.clean("nothing but the filler is new")


def tombstones(talk: Talk, logs: Logs) -> None:
    """A tombstone stays until its batch's delete horizon, and the batch keeps that."""
    for name, retention_ms in (("0", 0), ("a day", DAY), ("3 s", SOON)):
        topic = Topic(talk, logs, f"tombstones, {name}", delete_retention_ms=retention_ms)
        topic.write("a=1", "b=2", "c=3")
        topic.write("a")
        topic.write("b", "d=4", "e=5")
        topic.clean("first cleaning")
        topic.write("d=6")
        topic.clean("second cleaning")
        topic.wait(SOON / 1000)
        topic.write("c")
        topic.clean("third cleaning, 3 s later")
        topic.write("c=7")
        topic.wait(SOON / 1000)
        topic.clean("fourth cleaning, 3 s later")


def producers(talk: Talk, logs: Logs) -> None:
    """The last batch of each producer stays, as a header if need be."""
    topic = Topic(talk, logs, "producers")
    topic.write("a=1", by=1001)
    topic.write("b=2", "c=3", by=1001)
    topic.write("a=4", by=1002)
    topic.write("d=5", "a=6", by=1002)
    topic.write("a=7", "b=8", "c=9")
    topic.clean("first cleaning")
    topic.write("e=10", by=1001)
    topic.write("d=11")
    topic.clean("second cleaning")
    topic.write("e", by=1001, epoch=1)
    topic.clean("third cleaning")


def transactions(talk: Talk, logs: Logs) -> None:
    """Aborted records go at once; a marker once nothing is left, and behind its horizon."""
    for name, retention_ms in (("0", 0), ("a day", DAY), ("3 s", SOON)):
        topic = Topic(talk, logs, f"transactions, {name}", delete_retention_ms=retention_ms)
        topic.write("a=1", "b=2", by=1001, txn=True)
        topic.write("a=3", by=1002, txn=True)
        topic.end(1001, True)
        topic.write("c=4", "b=5", by=1002, txn=True)
        topic.end(1002, False)
        topic.write("c=6", by=1003, txn=True)
        topic.end(1003, False)
        topic.write("d=7", by=1003, txn=True)
        topic.end(1003, True)
        topic.clean("first cleaning")
        topic.write("a=8", "b=9", "d=10")
        topic.clean("second cleaning")
        topic.write("e=11", by=1001, txn=True)
        topic.end(1001, True)
        topic.write("e=12", by=1002, txn=True)
        topic.end(1002, True)
        topic.write("e", by=1003, txn=True)
        topic.end(1003, True)
        topic.clean("third cleaning")
        topic.wait(SOON / 1000)
        topic.clean("fourth cleaning, 3 s later")
        topic.wait(SOON / 1000)
        topic.clean("fifth cleaning, 3 s later")


def epochs(talk: Talk, logs: Logs) -> None:
    """A marker with a higher epoch is the last that is known of its producer (KIP-890)."""
    topic = Topic(talk, logs, "epochs", delete_retention_ms=0)
    topic.write("a=1", by=1001, txn=True)
    topic.end(1001, True, epoch=1)
    topic.write("b=2", by=1002, txn=True)
    topic.end(1002, False, epoch=1)
    topic.end(1003, False)
    topic.clean("first cleaning")
    topic.write("a=3", "b=4")
    topic.clean("second cleaning")
    topic.clean("third cleaning")
    topic.clean("fourth cleaning")
    topic.write("b=5", by=1002, epoch=1, txn=True)
    topic.end(1002, True, epoch=2)
    topic.clean("fifth cleaning")
    topic.clean("sixth cleaning")


def retention(talk: Talk, logs: Logs) -> None:
    """Another delete.retention.ms moves no delete horizon that is set."""
    topic = Topic(talk, logs, "delete.retention.ms changes")
    topic.write("a")
    topic.clean("a day")
    topic.retain(0)
    topic.write("b")
    topic.clean("0 ms")
    topic.retain(DAY)
    topic.write("c")
    topic.clean("a day again")


def spread(talk: Talk, logs: Logs) -> None:
    """An aborted transaction in several segments, which are cleaned into several."""
    topic = Topic(talk, logs, "a transaction in several segments", segment_bytes=400)
    for number in range(8):
        topic.write(f"a={number}", f"k{number}={number}", by=1001, txn=True)
        topic.write(f"b={number}", f"l{number}={number}", by=1002, txn=True)
    topic.end(1001, False)
    topic.clean("first cleaning", ends=1002)
    topic.write("c=1", by=1001, txn=True)
    topic.end(1001, False)
    topic.clean("second cleaning")
    topic.write("c", "k1", by=1001, txn=True)
    topic.end(1001, True)
    topic.clean("third cleaning")
    topic.clean("fourth cleaning")


def open_transaction(talk: Talk, logs: Logs) -> None:
    """Nothing is cleaned from the first record of an open transaction on."""
    topic = Topic(talk, logs, "an open transaction")
    topic.write("a=1")
    topic.write("a=2")
    topic.clean("before it")
    topic.write("b=3", by=1001, txn=True)
    topic.write("a=4", "b=5")
    topic.clean("while it is open")
    topic.write("a=6")
    topic.clean("while it is still open")
    topic.end(1001, False)
    topic.clean("after it was aborted")


def segments(talk: Talk, logs: Logs) -> None:
    """Cleaned segments are put together up to segment.bytes."""
    topic = Topic(talk, logs, "small segments", segment_bytes=400, delete_retention_ms=0)
    topic.write("z=1", by=1001, txn=True)
    for number in range(12):
        topic.write(f"a={number}", f"k{number}={number}")
    topic.clean("first cleaning", ends=1001)
    topic.write("z=2", by=1001, txn=True)
    for number in range(0, 12, 2):
        topic.write(f"k{number}")
    topic.clean("second cleaning", ends=1001)
    topic.clean("third cleaning")


SCRIPTS: tuple[Callable[[Talk, Logs], None], ...] = (
    keys, tombstones, retention, producers, transactions, epochs, open_transaction, segments,
    spread,
)  # fmt: skip


class ModelLogs:
    """The segments of the model's broker 1, as text."""

    segment_bytes = "segment_bytes"

    def __init__(self, side: ModelSide) -> None:
        self._cluster = side.cluster
        for process in self._cluster.processes.values():
            process.clock_offset_us = MODEL_EPOCH_US
        self.lines: list[str] = []

    def now_ms(self) -> int:
        return int(self._cluster.broker(1).wall_ms(self._cluster.now))

    def keep(self, label: str, tp: TopicPartition) -> None:
        shown = []
        for segment in self._cluster.partition(1, tp).log.segments:
            shown.append((segment.base_offset, [_of_model(batch) for batch in segment.batches]))
        self.lines += _text(label, shown)


def model_lines(rules: BrokerRules | None = None) -> list[str]:
    """Return what the model leaves of all scripts."""
    side = ModelSide(rules=rules, settings=CLEANER_SETTINGS)
    logs = ModelLogs(side)
    for script in SCRIPTS:
        script(Talk(side, script.__name__), logs)
    return logs.lines


class RealLogs:
    """Copies of broker 1's files, which DumpLogSegments prints at the end."""

    def __init__(self, side: RealSide, version: str, directory: Path) -> None:
        self.segment_bytes = SMALL_SEGMENTS.get(version, "segment_bytes")
        self._cluster = side.cluster
        self._directory = directory
        self._kept: list[tuple[str, Path]] = []

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000

    def keep(self, label: str, tp: TopicPartition) -> None:
        place = self._directory / f"kept-{len(self._kept):03d}"
        place.mkdir()
        data = self._cluster.directory / "data-1" / f"{tp.topic}-{tp.partition}"
        for file in sorted(data.glob("*.log")):
            shutil.copy(file, place)
        self._kept.append((label, place))

    def lines(self) -> list[str]:
        """Return the text of all that was kept."""
        files = [file for _, place in self._kept for file in sorted(place.glob("*.log"))]
        printed = _dumped(self._cluster.libs, files)
        lines = []
        for label, place in self._kept:
            shown = [(int(file.stem), printed[file]) for file in sorted(place.glob("*.log"))]
            lines += _text(label, shown)
        return lines


def ask(version: str) -> list[str]:
    """Return what a version of Kafka leaves of all scripts."""
    with tempfile.TemporaryDirectory(prefix="kafkasim-fidelity-") as scratch:
        cluster = cluster_of(version, Path(scratch), CLEANER_SETTINGS)
        with running(cluster):
            side = RealSide(cluster)
            logs = RealLogs(side, version, Path(scratch))
            for script in SCRIPTS:
                script(Talk(side, script.__name__), logs)
            return logs.lines()


Batch = dict[str, Any]
"""A batch under DumpLogSegments' names; ``records`` are (offset, time in ms, what it holds)."""


def _of_model(batch: RecordBatch) -> Batch:
    records = [
        (offset, record.timestamp_ms, _content(batch, record))
        for offset, record in zip(offsets_of(batch), batch.records, strict=True)
    ]
    return {
        "baseOffset": batch.base_offset,
        "lastOffset": batch.last_offset,
        "baseSequence": batch.base_sequence,
        "lastSequence": batch.last_sequence,
        "producerId": batch.producer_id,
        "producerEpoch": batch.producer_epoch,
        "partitionLeaderEpoch": batch.leader_epoch,
        "isTransactional": batch.transactional,
        "isControl": batch.control,
        "deleteHorizonMs": batch.delete_horizon_ms >= 0,
        "CreateTime": batch.max_timestamp_ms,
        "size": batch.size,
        "records": records,
    }


def _content(batch: RecordBatch, record: Record) -> str:
    if batch.control:
        return "COMMIT" if record.value.committed else "ABORT"
    return f"{record.key}={'null' if record.value is None else record.value}"


_FIELD = re.compile(r"(\w+): (\S+)")


def _dumped(libs: Path, files: Iterable[Path]) -> dict[Path, list[Batch]]:
    """Return the batches of segments as DumpLogSegments prints them."""
    found: dict[Path, list[Batch]] = {}
    command = ["java", "-cp", f"{libs}/*", "kafka.tools.DumpLogSegments", "--print-data-log"]
    done = subprocess.run(
        [*command, "--files", ",".join(map(str, files))], capture_output=True, text=True
    )
    if done.returncode != 0:
        raise NoKafka(f"DumpLogSegments failed: {done.stderr[-400:].strip()}")
    batches: list[Batch] = []
    for line in done.stdout.splitlines():
        fields = dict(_FIELD.findall(line))
        if line.startswith("Dumping "):
            batches = found[Path(line.removeprefix("Dumping "))] = []
        elif line.startswith("baseOffset: "):
            assert fields["isvalid"] == "true", line
            batches.append(_of_line(fields))
        elif line.startswith("| offset: "):
            content = fields.get("endTxnMarker") or f"{fields['key']}={_payload(fields)}"
            record = (int(fields["offset"]), int(fields["CreateTime"]), content)
            batches[-1]["records"].append(record)
    return found


def _payload(fields: dict[str, str]) -> str:
    return "null" if fields["valueSize"] == "-1" else fields["payload"]


def _of_line(fields: dict[str, str]) -> Batch:
    numbers = (
        "baseOffset", "lastOffset", "baseSequence", "lastSequence", "producerId", "producerEpoch",
        "partitionLeaderEpoch", "CreateTime", "size",
    )  # fmt: skip
    batch: Batch = {name: int(fields[name]) for name in numbers}
    batch |= {name: fields[name] == "true" for name in ("isTransactional", "isControl")}
    return batch | {"deleteHorizonMs": "empty" not in fields["deleteHorizonMs"], "records": []}


def _text(label: str, segments: list[tuple[int, list[Batch]]]) -> list[str]:
    """Return the text of a log."""
    lines = [f"# {label}"]
    times = [each["CreateTime"] for _, found in segments for each in found if not each["isControl"]]
    newest = max(times)  # the filler's, which is the last round's
    for base, batches in segments:
        lines.append(f"segment {base}")
        lines += [f"  {_line(batch, newest)}" for batch in batches]
    return lines


def _line(batch: Batch, newest_ms: int) -> str:
    text = f"{batch['baseOffset']}..{batch['lastOffset']} epoch {batch['partitionLeaderEpoch']}"
    text += f" size {batch['size']}"
    if batch["producerId"] >= 0:
        text += f" producer {batch['producerId']}/{batch['producerEpoch']}"
        text += f" sequence {batch['baseSequence']}..{batch['lastSequence']}"
    text += " transactional" * batch["isTransactional"] + " control" * batch["isControl"]
    text += " horizon" * batch["deleteHorizonMs"]
    if batch["isControl"]:  # at the time of its append
        return f"{text}: " + " ".join(f"{offset}:{what}" for offset, _, what in batch["records"])
    text += f" at {(batch['CreateTime'] - newest_ms) // 1000} s:"
    for offset, at_ms, what in batch["records"]:
        text += f" {offset}:{what}" + (f"@{at_ms}" if at_ms != batch["CreateTime"] else "")
    return text
