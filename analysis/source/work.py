"""One seed as a worker runs it: Arrow batches of its facts and findings, and its row of ``runs``.

The run's trace goes through a file in the worker's temporary directory, as ``run --out`` writes it,
so that the memory of a worker does not grow with the length of a run. A run in which the simulator
crashes has no facts, the verdict ``crash`` and a traceback: it is a result, not the fleet's end.
"""

from __future__ import annotations

import json
import tempfile
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafkasim.analysis.source.jobs import FleetJob
from kafkasim.analysis.source.schema import (
    FACTS_TABLE,
    FINDINGS,
    RUNS,
    arrow,
    arrow_row,
    finding_rows,
    stored_row,
)
from kafkasim.model.facts import SCHEMA_VERSION
from kafkasim.scenarios.running import runner
from kafkasim.sim.trace.store import MANIFEST_FILE, TRACE_FILE, code_version, judges_version

BATCH_ROWS = 8_192
"""Rows of one Arrow batch."""


class SeedRun:
    """One seed of one configuration, run on entry, with its trace on disk until exit."""

    def __init__(self, job: FleetJob, seed: int) -> None:
        self.job = job
        self.seed = seed
        self.row: dict[str, Any] = {}
        self.found: list[dict[str, Any]] = []  # its rows of ``findings``
        self._directory = tempfile.TemporaryDirectory(prefix="kafkasim-run-")

    def __enter__(self) -> SeedRun:
        place = Path(self._directory.name)
        try:
            runner.run(self.job.scenario, self.seed, place, self.job.variants)
            manifest = json.loads((place / MANIFEST_FILE).read_text(encoding="utf-8"))
        except Exception as error:
            manifest = crashed(self.job, error)
        manifest |= named(self.job, self.seed)
        self.row, self.found = stored_row(manifest), finding_rows(manifest)
        return self

    def __exit__(self, *_: object) -> None:
        self._directory.cleanup()

    def runs(self) -> Iterator[pa.RecordBatch]:
        """Yield the run's row of ``runs``."""
        yield pa.RecordBatch.from_pylist([arrow_row(self.row)], schema=arrow(RUNS))

    def findings(self) -> Iterator[pa.RecordBatch]:
        """Yield the run's rows of ``findings``."""
        yield pa.RecordBatch.from_pylist(self.found, schema=arrow(FINDINGS))

    def facts(self) -> Iterator[pa.RecordBatch]:
        """Yield the run's facts, in their order."""
        schema = arrow(FACTS_TABLE)
        path = Path(self._directory.name) / TRACE_FILE
        if self.row["verdict"] == "crash":
            return
        with pq.ParquetFile(path, pre_buffer=False) as file:
            for batch in file.iter_batches(BATCH_ROWS):
                columns = {name: batch.column(name) for name in batch.schema.names}
                columns["run"] = pa.repeat(pa.scalar(self.row["run"]), batch.num_rows)
                arrays = [
                    columns[field.name].cast(field.type)
                    if field.name in columns
                    else pa.nulls(batch.num_rows, field.type)
                    for field in schema
                ]
                yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def named(job: FleetJob, seed: int) -> dict[str, Any]:
    """Return what a manifest has of a run's place in a fleet."""
    return {
        "run": job.run_name(seed),
        "label": job.label,
        "seed": seed,
        "twin": job.configuration.twin,
        "settings": list(job.configuration.settings),
    }


def crashed(job: FleetJob, error: Exception) -> dict[str, Any]:
    """Return the manifest of a run in which the simulator crashed."""
    return {
        "scenario": job.scenario.name,
        "variants": [*job.scenario.cluster.variants, *job.variants],
        "code_version": code_version(),
        "config_digest": job.config_digest,
        "schema_version": SCHEMA_VERSION,
        "reason": f"{type(error).__name__}: {error}".split("\n")[0],
        "verdict": "crash",
        "failure": "crash",
        "anomalies": ["crash"],
        "judges": judges_version(),
        "spec": job.scenario.model_dump(mode="json", by_alias=True),
        "traceback": "".join(traceback.format_exception(error)),
    }
