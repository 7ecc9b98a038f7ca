"""Mutants of a stored run, read by the commands that judge, measure and draw stored runs.

``metrics``, ``plot`` and ``report`` read the directory of a run without Spark and are run as they
are. ``check`` gives Spark what :func:`opened` makes of the directories: a mutant that passes there
differs from a whole run in values only.
"""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from kafkasim.analysis.runs import BadInput, find_runs, read_trace
from kafkasim.analysis.source.schema import (
    FINDINGS,
    RUNS,
    arrow,
    arrow_row,
    finding_rows,
    stored_row,
)
from kafkasim.analysis.verdict import combine
from tests.fuzz.harness import StoredRun, answer
from tests.fuzz.mutations import mutate, mutate_bytes

COMMANDS = (["metrics"], ["metrics", "--at", "0.5s"], ["plot", "isr-flapping"],
            ["plot", "latency"], ["report"], ["check"])  # fmt: skip

QUICK = (["metrics"], ["metrics", "--at", "ready"], ["check"])
"""Those that draw no picture."""


def opened(place: Path, allowed: tuple[int, ...] = (0, 2)) -> str:
    """Read a place as ``check`` does before Spark; return what is wrong with the answer, or ""."""
    try:
        runs, _ = find_runs(place)
        rows = [
            arrow_row(stored_row({"run": run.name, "label": "fuzz", **run.manifest}))
            for run in runs
        ]
        pa.Table.from_pylist(rows, arrow(RUNS))
        for run in runs:
            read_trace(run.place, ["kind"])
            found = finding_rows({**run.manifest, "run": run.name})
            pa.Table.from_pylist(found, arrow(FINDINGS))
        combine(runs, [], [])
    except BadInput as refused:
        told = str(refused)
        if str(place) not in told or "\n" in told:
            return f"not one line that names {place}: {told}"
        return "" if 2 in allowed else told
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return "" if 0 in allowed else "it is not refused"


class ReadRun:
    """A stored run whose files are mutated and read."""

    def __init__(self, stored: StoredRun) -> None:
        self._stored = stored
        self._table = pq.read_table(stored.base / "trace.parquet")
        self._place = stored.mutant
        self._out = stored.mutant.parent / "out"

    def try_mutant(self, number: int) -> str:
        """Try the ``number``-th mutant with a command; return what is wrong, or ""."""
        rng = random.Random(number)
        what = self._mutate(rng)
        command = rng.choice((*COMMANDS, *QUICK, *QUICK))
        wrong = self.answer(command)
        return f"{what}, {' '.join(command)}: {wrong}" if wrong else ""

    def code(self, command: list[str]) -> int:
        """Return the exit code of a command for the files that are there, 1 of a wrong answer."""
        codes = [code for code in (0, 2) if not self.answer(command, (code,))]
        return codes[0] if codes else 1

    def answer(self, command: list[str], allowed: tuple[int, ...] = (0, 2)) -> str:
        """Return what is wrong with a command's answer to the files that are there, or ""."""
        place = self._place
        if command == ["check"]:
            return opened(place, allowed)
        options = ["--out", str(self._out / "x.html")] if command[0] == "report" else []
        if command[0] == "plot":
            options = ["--out", str(self._out / "picture")]
        return answer([*command, str(place), *options], place, allowed)

    def write(self, manifest: bytes | None, trace: bytes | None) -> None:
        """Write the files of the run; None leaves one out."""
        shutil.rmtree(self._place)
        self._place.mkdir()
        for name, content in (("manifest.json", manifest), ("trace.parquet", trace)):
            if content is not None:
                (self._place / name).write_bytes(content)

    def write_table(self, change: Callable[[Any], Any], version: str | None = "") -> None:
        """Write the trace as a changed table; with a version None without one."""
        manifest = json.dumps(self._stored.manifest).encode()
        self.write(manifest, None)
        found = change(self._table)
        metadata = {**(self._table.schema.metadata or {})}
        if version is None:
            metadata = {}
        elif version:
            metadata = {b"kafkasim.schema_version": version.encode()}
        pq.write_table(found.replace_schema_metadata(metadata), self._place / "trace.parquet")

    def _mutate(self, rng: random.Random) -> str:
        """Write a mutant, and return what it is."""
        manifest, trace = json.dumps(self._stored.manifest).encode(), self._stored.trace
        kind = rng.choice(("value", "value", "value", "text", "bytes", "absent", "cut", "table"))
        if kind == "value":
            data = mutate(rng, self._stored.manifest)
            self.write(json.dumps(data, default=str).encode(), trace)
        elif kind == "text":
            self.write(mutate_bytes(rng, manifest), trace)
        elif kind == "bytes":
            self.write(manifest, mutate_bytes(rng, trace))
        elif kind == "absent":
            files = rng.choice(((manifest, None), (None, trace), (manifest, b""), (b"", trace)))
            self.write(*files)
        elif kind == "cut":
            self.write(manifest, trace[: rng.randrange(len(trace))])
        else:
            return self._mutate_table(rng)
        return kind

    def _mutate_table(self, rng: random.Random) -> str:
        column = rng.choice(self._table.column_names)
        at = self._table.column_names.index(column)
        kind = rng.choice(("lacks", "type", "nulls", "rows", "version", "no version"))
        if kind == "lacks":
            self.write_table(lambda table: table.drop_columns([column]))
        elif kind in ("type", "nulls"):
            other = pa.float64() if kind == "type" else self._table.schema.field(at).type
            nulls = pa.nulls(self._table.num_rows, other)
            self.write_table(lambda table: table.set_column(at, column, nulls))
        elif kind == "rows":
            self.write_table(lambda table: table.slice(0, rng.randrange(table.num_rows)))
        else:
            self.write_table(lambda table: table, rng.choice(("0", "999", "x")) if kind == "version"
                             else None)  # fmt: skip
        return f"{column}: {kind}"


def write_fleet(place: Path, manifest: dict[str, Any], trace: Any) -> None:
    """Write a fleet of one run, ``fuzz/seed-000001``."""
    named = {"run": "fuzz/seed-000001", "label": "fuzz", **manifest}
    row = pa.Table.from_pylist([arrow_row(stored_row(named))], arrow(RUNS))
    (place / "runs").mkdir(parents=True)
    batched = row.append_column("batch", pa.array(["b1"]))
    pq.write_table(batched, place / "runs" / "part.parquet")
    found = place / "findings" / "batch=b1"
    found.mkdir(parents=True)
    rows = pa.Table.from_pylist(finding_rows(named), arrow(FINDINGS))
    pq.write_table(rows, found / "part.parquet")
    for kind in pc.unique(trace["kind"]).to_pylist():
        folder = place / "facts" / "batch=b1" / f"kind={kind}"
        folder.mkdir(parents=True)
        found = trace.filter(pc.equal(trace["kind"], kind)).drop_columns(["kind"])
        named_rows = pa.array([named["run"]] * found.num_rows)
        pq.write_table(found.append_column("run", named_rows), folder / "part.parquet")
