"""Hand-written rows: a case is a list of (node, fact), numbered in order.

They are a second apart, unless they tell their times (:class:`At`).
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.source.schema import (
    FINDINGS,
    RUNS,
    arrow,
    arrow_row,
    finding_rows,
    stored_row,
)
from kafkasim.model import facts
from kafkasim.sim.trace.store import MANIFEST_FILE, TRACE_FILE, judges_version, write_manifest
from kafkasim.sim.trace.table import FactWriter, arrow_schema, fact_table

Case = Sequence[tuple[str, Any]]

T = "topic-id"


@dataclass(frozen=True)
class At:
    """A fact and its time in seconds, in the place of a fact."""

    seconds: float
    fact: Any


def passing(story: Case) -> Case:
    """Return a story at one instant, in which a number in the place of a fact lets time pass."""
    now, case = 0.0, []
    for node, fact in story:
        if isinstance(fact, int | float):
            now += fact
        else:
            case.append((node, At(now, fact)))
    return case


def rows(case: Case) -> list[tuple[int, int, str, str, tuple[Any, ...]]]:
    found = []
    for seq, (node, told) in enumerate(case):
        each = told if isinstance(told, At) else At(seq, told)
        kind = type(each.fact)
        row = facts.ROW[kind](each.fact)
        found.append((seq, int(each.seconds * 1_000_000), node, kind.__name__, row))
    return found


def dicts(case: Case) -> list[dict[str, Any]]:
    table = fact_table(rows(case), arrow_schema(facts.COLUMNS))
    return list(table.to_pylist())


def write_fleet(
    place: Path,
    cases: Mapping[str, Case],
    findings: Mapping[str, list[Finding]] | None = None,
) -> None:
    """Leave the tables of a fleet, of one batch, with a run for each case.

    ``findings`` are those of some cases.
    """
    names = [name for name, case in cases.items() for _ in case]
    told = [row for case in cases.values() for row in rows(case)]
    table = fact_table(told, arrow_schema(facts.COLUMNS))
    manifests = [
        {
            "run": name, "label": "by-hand", "scenario": "by-hand", "seed": seed, "digest": name,
            "verdict": "pass", "rows": len(case), "schema_version": facts.SCHEMA_VERSION,
            "findings": [asdict(one) for one in (findings or {}).get(name, [])],
            "judges": judges_version(),
        }
        for seed, (name, case) in enumerate(cases.items())
    ]  # fmt: skip
    _write_batch(place, "000001", table.add_column(0, "run", pa.array(names)), manifests)


def add_runs(place: Path, directories: Mapping[str, Path]) -> None:
    """Add run directories to a fleet of :func:`write_fleet`, as its second batch."""
    tables, manifests = [], []
    for name, directory in directories.items():
        table = pq.read_table(directory / TRACE_FILE, schema=arrow_schema(facts.COLUMNS))
        tables.append(table.add_column(0, "run", pa.repeat(pa.scalar(name), table.num_rows)))
        manifest = json.loads((directory / MANIFEST_FILE).read_text(encoding="utf-8"))
        manifests.append({"run": name, "label": name, **manifest})
    _write_batch(place, "000002", pa.concat_tables(tables), manifests)


def _write_batch(
    place: Path, batch: str, table: pa.Table, manifests: Sequence[dict[str, Any]]
) -> None:
    for kind in pc.unique(table["kind"]).to_pylist():
        directory = place / "facts" / f"batch={batch}" / f"kind={kind}"
        directory.mkdir(parents=True)
        mine = table.filter(pc.equal(table["kind"], kind)).drop(["kind"])
        pq.write_table(mine, directory / "part-0.parquet")
    found = place / "findings" / f"batch={batch}"
    found.mkdir(parents=True)
    rows = [row for manifest in manifests for row in finding_rows(manifest)]
    pq.write_table(pa.Table.from_pylist(rows, schema=arrow(FINDINGS)), found / "part-0.parquet")
    runs = [arrow_row(stored_row(manifest)) | {"batch": batch} for manifest in manifests]
    (place / "runs").mkdir(exist_ok=True)
    schema = arrow({**RUNS, "batch": "string"})
    pq.write_table(pa.Table.from_pylist(runs, schema=schema), place / "runs" / f"{batch}.parquet")


def write_run(directory: Path, case: Case, **manifest: Any) -> Path:
    """Leave a run directory as the runner does."""
    directory.mkdir(parents=True)
    writer = FactWriter(directory / "trace.parquet")
    writer.write_rows(rows(case))
    writer.close()
    whole = {
        "scenario": "by-hand", "seed": 1, "variants": [], "code_version": "c", "rows": len(case),
        "config_digest": "d", "schema_version": facts.SCHEMA_VERSION, "digest": directory.name,
        "reason": "converged", "verdict": "pass", "anomalies": [], "expected": [],
        "findings": [], "judges": judges_version(), "topics": {T: "orders"},
    }  # fmt: skip
    write_manifest(directory, whole | manifest)
    return directory


# Facts with the fields that no check looks at filled in.


def topic(min_isr: int = 2, replication_factor: int = 3) -> tuple[str, Any]:
    created = facts.TopicCreated(1, T, "orders", 1, replication_factor, min_isr)
    return "controller-1", created


def acked(base: int, *ids: int, producer: int = 7) -> tuple[str, Any]:
    return "producer-1", facts.Acked(T, 0, base, ids, -1, producer, 0, 0, 1000, 1)


def appended(base: int, end: int, producer: int = 7, epoch: int = 1) -> tuple[str, Any]:
    return "broker-1", facts.Appended(T, 0, epoch, base, end, producer, 0, 0, ())


def marker(
    offset: int, committed: bool, producer: int = 7, epoch: int = 1
) -> tuple[tuple[str, Any], tuple[str, Any]]:
    """A marker's batch, and what it says."""
    said = facts.MarkerWritten(T, 0, producer, 0, committed, offset, epoch, 0)
    return appended(offset, offset + 1, producer, epoch), ("broker-1", said)


READ_COMMITTED = ("consumer-1", facts.ReadsCommitted("g"))


def positioned(offset: int, reason: str = "earliest", member: str = "m1") -> tuple[str, Any]:
    return "consumer-1", facts.Positioned("g", member, T, 0, offset, reason)


def polled(
    offsets: Sequence[int], ids: Sequence[int], member: str = "m1", position: int = -1
) -> tuple[str, Any]:
    """``position`` is that after the poll; by default it is behind the last record."""
    position = position if position >= 0 else offsets[-1] + 1
    fact = facts.Polled("g", member, T, 0, position, position, tuple(offsets), tuple(ids))
    return "consumer-1", fact


def processed(base: int, offset: int) -> tuple[str, Any]:
    return "consumer-1", facts.Processed("g", "m1", T, 0, base, offset)


def committed(offset: int, epoch: int = 1, end: int = -1) -> tuple[str, Any]:
    return "broker-1", facts.OffsetCommitted("g", "orders", 0, offset, 1, "m1", epoch, end)


def tombstone(end: int = -1) -> tuple[str, Any]:
    return "broker-1", facts.OffsetsDeleted("g", "orders", 0, 1, end)


def fetched(offset: int, epoch: int = 1) -> tuple[str, Any]:
    return "broker-1", facts.OffsetFetched("g", "orders", 0, offset, epoch)


def assigned(member: str, *partitions: str, generation: int = 1) -> tuple[str, Any]:
    return "broker-1", facts.GroupAssigned("g", generation, member, partitions)


def led(broker: int, epoch: int, start: int, isr: tuple[int, ...] = (1, 2, 3)) -> tuple[str, Any]:
    return f"broker-{broker}", facts.BecameLeader(T, 0, epoch, epoch, start, start, isr)


def mark(
    high_watermark: int, epoch: int = 1, broker: int = 1, by: tuple[int, ...] = (1, 2, 3)
) -> tuple[str, Any]:
    fact = facts.HighWatermark(T, 0, epoch, high_watermark, 2, by)
    return f"broker-{broker}", fact


def registered(
    broker: int, fenced: bool = False, shutting_down: bool = False, by: str = "controller-1"
) -> tuple[str, Any]:
    fact = facts.BrokerRegistration(1, broker, 1, "registered", fenced, shutting_down, None)
    return by, fact


def elected(controller_epoch: int, node: str) -> tuple[str, Any]:
    return node, facts.ZkControllerWrite(
        controller_epoch, controller_epoch, "/controller_epoch", controller_epoch
    )


def changed(
    isr: tuple[int, ...],
    partition_epoch: int,
    leader: int = 1,
    reason: str = "lag",
    unclean: bool = False,
    leader_epoch: int = 1,
) -> tuple[str, Any]:
    fact = facts.PartitionChanged(
        partition_epoch, T, 0, leader, leader_epoch, partition_epoch, isr, (1, 2, 3), reason,
        unclean,
    )  # fmt: skip
    return "controller-1", fact


def final(
    broker: int,
    *ids: int,
    leading: bool = False,
    start: int = 0,
    producer: int = 7,
    high_watermark: int | None = None,
    deleted: int = 0,
    stable: int | None = None,
) -> tuple[str, Any]:
    """A final log with one batch per record id; those below ``deleted`` wait to be deleted.

    A batch of record id −1 is a marker, without records.
    """
    count = len(ids)
    below = start + count if high_watermark is None else high_watermark
    end = max(start + count, below)
    offsets = tuple(range(start, start + count))
    fact = facts.FinalReplica(
        T, 0, leading, 1, max(start, deleted),
        below, below if stable is None else stable, end, (1, 0), offsets,
        tuple(o + 1 for o in offsets), (1,) * count, (producer,) * count, offsets,
        tuple(int(each >= 0) for each in ids), tuple(each for each in ids if each >= 0),
    )  # fmt: skip
    return f"broker-{broker}", fact


def end(reason: str = "converged") -> tuple[str, Any]:
    return "world", facts.Phase("end", reason)
