"""Stored runs judged again by the judges of this code, a Spark task for some runs of a batch.

A run's findings are stored beside its facts. Where other judges made them, the facts are read again
and judged as they were while the run lasted. A task reads the facts of its runs with Arrow, which
opens local files and those of ``hdfs``, ``s3``, ``gs`` and ``abfs``; nothing is shuffled, and
nothing is written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from operator import itemgetter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kafkasim.analysis.judging.courts import judge_stored
from kafkasim.analysis.judging.stored import columns_of, facts_of, facts_of_kind
from kafkasim.analysis.runs import BadInput
from kafkasim.analysis.source.schema import FINDINGS, ddl, finding_rows

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from kafkasim.analysis.stored import Stored

RUNS_A_TASK = 10
"""The facts of so many runs, some megabytes each, are in the memory of a task at once."""

DAMAGED = (
    pa.ArrowException, OSError, ArithmeticError, AssertionError, AttributeError, LookupError,
    TypeError, ValueError,
)  # fmt: skip
"""What reading or judging raises if the stored facts are damaged."""

TAKEN = ("run", "ready_us", "topics", "judged_by", "verdict")
"""What judges and findings take from a row of ``runs``."""


@dataclass(frozen=True)
class Task:
    """Some runs of a batch: their manifests, and the files of their facts as ``Stored.files``."""

    manifests: Sequence[Mapping[str, Any]]
    files: Sequence[tuple[str, str]]


def findings_of(stored: Stored, names: Collection[str]) -> DataFrame:
    """Return the rows of ``findings`` that the present judges make of some stored runs.

    No run of ``names`` may have crashed: such a run has no facts.

    Raises:
        BadInput: the facts of a run cannot be read, or are not those of a run.
    """
    rows = stored.runs_table().select(*TAKEN).collect()
    manifests = {row["run"]: row.asDict() for row in rows}
    tasks = [
        Task([manifests[name] for name in runs[start : start + RUNS_A_TASK]], files)
        for runs, files in stored.files(names)
        for start in range(0, len(runs), RUNS_A_TASK)
    ]
    found = stored.spark.sparkContext.parallelize(tasks, len(tasks)).flatMap(judged).collect()
    for one in found:
        if isinstance(one, str):
            raise BadInput(f"{stored.place}: {one}")
    return stored.spark.createDataFrame(found, ddl(FINDINGS))


def judged(task: Task) -> Iterator[dict[str, Any] | str]:
    """Yield the rows of ``findings`` of the runs of a task, or one line that says why not."""
    names = [manifest["run"] for manifest in task.manifests]
    try:
        facts = _facts(names, task.files)
        for row in task.manifests:
            manifest = {**row, "judged_by": json.loads(row["judged_by"])}
            found = judge_stored(manifest, facts.pop(manifest["run"]))
            yield from finding_rows({**manifest, "findings": [asdict(one) for one in found]})
    except DAMAGED as error:
        reason = f"{type(error).__name__}: {error}".split("\n")[0][:120]
        yield f"the facts of {names[0]} to {names[-1]} cannot be judged again ({reason})"


def _facts(names: Sequence[str], files: Sequence[tuple[str, str]]) -> dict[str, list[Any]]:
    """Return the facts of runs, in their order."""
    facts: dict[str, list[Any]] = {name: [] for name in names}
    for kind, place in files:
        dataset = ds.dataset(re.sub("^file:/+", "/", place), format="parquet")
        if not kind:
            facts[names[0]] = facts_of(dataset.to_table())
            continue
        rows = dataset.to_table(
            columns=["run", *columns_of(kind)], filter=pc.field("run").isin(names)
        )
        for name in pc.unique(rows["run"]).to_pylist():
            facts[name] += facts_of_kind(kind, rows.filter(pc.equal(rows["run"], name)))
    for mine in facts.values():
        mine.sort(key=itemgetter(0))
    return facts
