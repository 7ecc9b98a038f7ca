"""Run a stored run again and compare its trace row by row with the stored one.

The manifest holds all that decides a run: the scenario as data, the seed and the variants. A
difference with equal code is nondeterminism, and the first differing row is where to look.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafkasim.analysis.judging.verdict import Result
from kafkasim.model.facts import FACTS
from kafkasim.scenarios.language.clusters import members
from kafkasim.scenarios.language.files.applications import check_unchanged
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.runner import run
from kafkasim.sim.trace.reading import open_trace, readable
from kafkasim.sim.trace.store import TRACE_FILE, ManifestError, code_version, read_manifest

ROWS_AT_ONCE = 16_384


@dataclass(frozen=True)
class Difference:
    """The first row that differs; a side is None if its trace ended before."""

    stored: dict[str, Any] | None
    replayed: dict[str, Any] | None

    def lines(self) -> list[str]:
        """Return where the rows differ, the differing fields, and both rows."""
        one = self.stored or self.replayed
        assert one is not None, self
        place = f"row {one['seq']}, t={one['t_us']} µs: {one['kind']} of {one['node']}"
        lines = [f"first difference at {place}"]
        if self.stored is None or self.replayed is None:
            ended = "the stored trace" if self.stored is None else "the replay"
            return [*lines, f"  {ended} ended before this row: {shown(one)}"]
        lines += [
            f"  {name}: stored {self.stored[name]!r}, replayed {self.replayed[name]!r}"
            for name in self.stored
            if self.stored[name] != self.replayed[name]
        ]
        return [*lines, f"  stored:   {shown(self.stored)}", f"  replayed: {shown(self.replayed)}"]


@dataclass(frozen=True)
class Replay:
    """A stored run and its repetition."""

    manifest: dict[str, Any]
    result: Result
    difference: Difference | None

    @property
    def same_code(self) -> bool:
        """Whether the stored run was made by this code."""
        return bool(self.manifest["code_version"] == code_version())

    @property
    def identical(self) -> bool:
        """Whether all rows are equal and the digest is the manifest's."""
        return self.difference is None and self.result.digest == self.manifest["digest"]


def stored_scenario(directory: Path) -> tuple[Scenario, dict[str, Any]]:
    """Return the scenario and the manifest of a stored run.

    The manifest's spec has the scenario's own types: a number that somebody wrote as a text there
    is a number.

    Raises:
        ManifestError: there is no usable manifest.
        ScenarioError: this code cannot read its scenario.
    """
    manifest = read_manifest(directory)
    place = str(directory / "manifest.json")
    if not isinstance(manifest.get("spec"), dict):
        raise ManifestError(place, "lacks spec: the scenario that was run")
    scenario = parse(manifest["spec"], place)
    return scenario, {**manifest, "spec": scenario.model_dump(mode="json", by_alias=True)}


def added_variants(scenario: Scenario, manifest: dict[str, Any]) -> list[str]:
    """Return the variants that were given in addition to the scenario's own."""
    own = len(scenario.cluster.variants)
    return list(manifest["variants"][own:])


def replay(directory: Path) -> Replay:
    """Run a stored run again and compare.

    Raises:
        ManifestError: manifest or trace is missing, damaged or of another schema.
        ScenarioError: this code cannot read the stored scenario, or an application was changed.
    """
    scenario, manifest = stored_scenario(directory)
    if "journal" in manifest:
        file = manifest["journal"]
        raise ManifestError(
            str(directory), f"is of a journal: kafkasim replay {file} runs it again"
        )
    for alone in members(scenario).values():
        check_unchanged(alone, str(directory))
    stored = open_trace(directory)
    with TemporaryDirectory(prefix="kafkasim-replay-") as scratch:
        again = Path(scratch)
        result = run(scenario, manifest["seed"], again, added_variants(scenario, manifest))
        with readable(directory):
            difference = first_difference(stored, pq.ParquetFile(again / TRACE_FILE))
    return Replay(manifest, result, difference)


def first_difference(stored: Any, replayed: Any) -> Difference | None:
    """Return the first row at which two traces differ, None when they are equal."""
    for one, other in zip_longest(_slices(stored), _slices(replayed)):
        if one is not None and other is not None and one.equals(other):
            continue
        rows = one.to_pylist() if one is not None else []
        others = other.to_pylist() if other is not None else []
        for row, twin in zip_longest(rows, others):
            if row != twin:
                return Difference(row, twin)
    return None


def _slices(trace: Any) -> Iterator[Any]:
    """Yield a trace in pieces of ROWS_AT_ONCE rows, whatever its row groups."""
    held: list[Any] = []
    count = 0
    for batch in trace.iter_batches(batch_size=ROWS_AT_ONCE):
        held.append(batch)
        count += batch.num_rows
        if count >= ROWS_AT_ONCE:
            table = pa.Table.from_batches(held)
            yield table.slice(0, ROWS_AT_ONCE).combine_chunks()
            rest = table.slice(ROWS_AT_ONCE).combine_chunks()
            held, count = rest.to_batches(), rest.num_rows
    if count:
        yield pa.Table.from_batches(held).combine_chunks()


def shown(row: dict[str, Any]) -> str:
    """Return a row as text: its kind and the kind's fields, with long lists cut."""
    names = [field.name for field in fields(FACTS[row["kind"]])]
    values = ", ".join(f"{name}={_short(row[name])}" for name in names)
    return f"{row['kind']}({values})"


def _short(value: Any) -> str:
    if isinstance(value, list) and len(value) > 8:
        return f"[{', '.join(map(str, value[:6]))}, … {len(value)} in all]"
    return repr(value)
