"""The facts of a stored run, selected with Arrow."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkasim.analysis.judging.finding import is_finding
from kafkasim.model.facts import FACTS
from kafkasim.sim.trace.reading import Row, open_trace, readable
from kafkasim.sim.trace.store import MANIFEST_FILE, TRACE_FILE, ManifestError

Key = tuple[str, int]  # topic id, partition

END = 1 << 62
"""A row number behind all rows."""


TEXTS = ("anomalies", "expected", "missing")
"""Keys that hold names of findings, or what did not converge."""


def check_findings(manifest: Mapping[str, Any], place: str) -> None:
    """Check that what a manifest says of a run's findings is what judges write.

    Raises:
        ManifestError: it was stored without findings, or one of them is none.
    """
    if not manifest.keys() >= {"findings", *TEXTS, "observations"}:
        raise ManifestError(place, "has no findings: run the scenario again")
    for found in manifest["findings"]:
        if not is_finding(found):
            raise ManifestError(place, f"findings: {found!r:.80} is no finding")
    for key in TEXTS:
        if not all(isinstance(each, str) for each in manifest[key]):
            raise ManifestError(place, f"{key} is no list of texts: {manifest[key]!r:.80}")
    for what, at_us in manifest["observations"].items():
        if type(at_us) is not int or not -(2**63) <= at_us < 2**63:
            raise ManifestError(place, f"observations: {what!r:.80} has no time: {at_us!r:.80}")


class _NamedRow(dict[str, Any]):
    """The row that a finding names. If it is of another kind than the finding's, it lacks columns.

    Raises:
        ManifestError: in place of KeyError.
    """

    def __init__(self, place: str, row: Row) -> None:
        super().__init__(row)
        self._place = place

    def __missing__(self, column: str) -> Any:
        """Say that the finding names the wrong row."""
        reason = f"a finding is of row {self['seq']}, a {self['kind']}, which has no {column}"
        raise ManifestError(self._place, reason)


class Facts:
    """One run: its manifest, and its rows by kind, partition and place in the trace.

    Raises:
        ManifestError: there is no whole run in the directory, or it was stored without findings.
    """

    def __init__(
        self, directory: Path, manifest: Mapping[str, Any], in_force: Sequence[str] = ()
    ) -> None:
        self.manifest, self.in_force = manifest, in_force
        self._manifest = str(directory / MANIFEST_FILE)
        check_findings(self.manifest, self._manifest)
        trace = open_trace(directory)
        with readable(directory):
            self._table = trace.read()
        if (rows := self._table.num_rows) != self.manifest["rows"]:
            reason = f"has {rows} rows, its manifest says {self.manifest['rows']}"
            raise ManifestError(str(directory / TRACE_FILE), reason)
        self.ready_us = int(self.manifest.get("ready_us", 0))
        self.zookeeper = self.manifest["spec"]["cluster"].get("mode") == "zookeeper"
        self._kinds: dict[str, Any] = {}
        self.topics: dict[str, str] = {
            row["topic_id"]: row["topic"] for row in self.rows(["TopicCreated"])
        }

    def rows(
        self,
        kinds: Sequence[str],
        key: Key | None = None,
        *,
        after: int = -1,
        before: int = END,
        where: Callable[[Row], bool] = lambda _row: True,
        **equal: Any,
    ) -> list[Row]:
        """Return the rows of some kinds in order, with row numbers between two others.

        ``key`` selects a partition, ``equal`` rows whose columns have these values.
        """
        found: list[Row] = []
        for kind in kinds:
            table = self._of_kind(kind)
            if key is not None:
                equal = {**equal, "topic_id": key[0], "partition": key[1]}
            keep = pc.and_(pc.greater(table["seq"], after), pc.less(table["seq"], before))
            for name, value in equal.items():
                keep = pc.and_(keep, pc.equal(table[name], pa.scalar(value)))
            found += [row for row in table.filter(keep).to_pylist() if where(row)]
        return sorted(found, key=lambda row: int(row["seq"]))

    def row(self, seq: int) -> Row:
        """Return the row that a finding names, without the columns that its kind has not.

        Raises:
            ManifestError: there is none; or, when a column is read that it has not.
        """
        found = self._table.filter(pc.equal(self._table["seq"], seq)).to_pylist()
        if not found:
            raise ManifestError(self._manifest, f"a finding is of row {seq}, which is not there")
        kind = found[0]["kind"]
        return _NamedRow(self._manifest, {name: found[0][name] for name in _columns(kind)})

    def last(self, kinds: Sequence[str], key: Key | None = None, **more: Any) -> Row | None:
        """Return the last row that :meth:`rows` selects, or None."""
        found = self.rows(kinds, key, **more)
        return found[-1] if found else None

    def first(self, kinds: Sequence[str], key: Key | None = None, **more: Any) -> Row | None:
        """Return the first row that :meth:`rows` selects, or None."""
        found = self.rows(kinds, key, **more)
        return found[0] if found else None

    def name(self, key: Key) -> str:
        """Return ``topic-partition``, or "" for no partition."""
        return f"{self.topics.get(key[0], key[0])}-{key[1]}" if key[1] >= 0 else ""

    def topic_ids(self, topic: str) -> list[str]:
        """Return the ids of the topics that had a name, in the order of their creation."""
        return [topic_id for topic_id, name in self.topics.items() if name == topic]

    def _of_kind(self, kind: str) -> Any:
        if kind not in self._kinds:
            keep = pc.equal(self._table["kind"], kind)
            self._kinds[kind] = self._table.select(_columns(kind)).filter(keep)
        return self._kinds[kind]


def _columns(kind: str) -> list[str]:
    """Return the columns of a kind of fact."""
    fields = FACTS[kind].__dataclass_fields__  # type: ignore[attr-defined]
    return ["seq", "t_us", "node", "kind", *fields]
