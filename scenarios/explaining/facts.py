"""The facts of a stored run, selected with Arrow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafkasim.model.facts import FACTS
from kafkasim.scenarios.applications.session import USERS
from kafkasim.scenarios.running.replay import open_trace, readable
from kafkasim.scenarios.showing.state import Row
from kafkasim.sim.trace.store import read_manifest

Key = tuple[str, int]  # topic id, partition

END = 1 << 62
"""A row number behind all rows."""


def record(record_id: int) -> str:
    """Return a record of a workload: ``record 17 of producer-2``.

    A host that runs a user's application is a consumer's (applications/session.py).
    """
    number = record_id >> 32
    kind, own = ("producer", number) if number < USERS else ("consumer", number - USERS)
    return f"record {record_id & 0xFFFFFFFF} of {kind}-{own}"


class Facts:
    """One run: its manifest, and its rows by kind, partition and place in the trace.

    Raises:
        ManifestError: there is no whole run in the directory.
    """

    def __init__(self, directory: Path) -> None:
        self.manifest: dict[str, Any] = read_manifest(directory)
        trace = open_trace(directory)
        with readable(directory):
            self._table = trace.read()
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
        """Return one row, without the columns that its kind has not."""
        found = self._table.filter(pc.equal(self._table["seq"], seq)).to_pylist()[0]
        return {name: found[name] for name in _columns(found["kind"])}

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
    """Return the columns of a kind of fact; CommitResult's ``kind`` is the fact's in a row."""
    fields = FACTS[kind].__dataclass_fields__  # type: ignore[attr-defined]
    return list(dict.fromkeys(("seq", "t_us", "node", "kind", *fields)))
