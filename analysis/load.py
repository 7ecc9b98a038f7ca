"""Give Spark stored runs as temporary views: ``runs``, ``findings`` and one for each kind of fact.

with views(open_stored(spark, "out/fleet")):
    spark.sql("SELECT run, count(1) FROM Acked GROUP BY run").show()
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkasim.analysis.spark.session import INTERPRETED, tuned
from kafkasim.model.facts import FACTS

if TYPE_CHECKING:
    from kafkasim.analysis.stored import Stored

SMALL_ROWS = 5_000_000
"""Up to so many rows each view is one partition: then no query shuffles, and each is one task."""

PARTITION_ROWS = 1_000_000
"""Rows of all kinds for each partition by run."""

COMPILED_ROWS = 2_000_000
"""From so many rows on Spark compiles queries; for fewer it takes longer than it saves."""

TUNING = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # both sides lie together by run already
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",  # default 128
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}
"""Settings for queries whose every step works by run, unless somebody configured them."""

SMALL_TUNING = {
    "spark.sql.adaptive.enabled": "false",  # nothing shuffles: there is nothing to adapt
    "spark.sql.constraintPropagation.enabled": "false",  # it would cost more than it saves
}


@contextmanager
def views(
    stored: Stored, shared: Mapping[str, str] | None = None, texts: Iterable[str] | None = None
) -> Iterator[None]:
    """Provide the views for as long as the context lasts, and ``shared`` queries by their names.

    ``texts`` are the queries that will be asked, if that is known: then only the kinds of fact that
    they and the shared queries name are made.
    """
    spark, rows, asked = stored.spark, stored.rows, dict(shared or {})
    small = rows <= SMALL_ROWS
    parts = max(spark.sparkContext.defaultParallelism, rows // PARTITION_ROWS)
    tuning = TUNING | (SMALL_TUNING if small else {})
    if rows < COMPILED_ROWS:
        tuning |= INTERPRETED
    named = FACTS if texts is None else set(re.findall(r"\w+", " ".join([*texts, *asked.values()])))
    frames = {kind: stored.facts(kind) for kind in FACTS if kind in named}
    frames |= {"runs": stored.runs_table(), "findings": stored.findings_table()}
    with tuned(spark, tuning):
        try:
            for name, frame in frames.items():
                frame = frame.coalesce(1) if small else frame.repartition(parts, "run")
                frame.createOrReplaceTempView(name)
            for name, text in asked.items():
                spark.sql(text).createOrReplaceTempView(name)
            yield
        finally:
            for name in (*asked, *frames):
                spark.catalog.dropTempView(name)
