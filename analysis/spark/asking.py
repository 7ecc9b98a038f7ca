"""Which checks may find something in stored runs, and what Spark is asked for them.

Spark takes longer to plan all checks than to judge a small fleet, so what cannot find anything is
not planned.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kafkasim.analysis.checks import CHECKS, NEEDED, RARE

if TYPE_CHECKING:
    from pyspark.sql import Row, SparkSession


def able(has: Callable[[str], bool]) -> dict[str, str]:
    """Return the checks, by name, whose kind of fact there is; ``has(kind)`` tells."""
    return {
        name: text for name, text in CHECKS.items() if NEEDED.get(name) is None or has(NEEDED[name])
    }


def filled(spark: SparkSession, checks: Mapping[str, str]) -> dict[str, str]:
    """Return those of some checks whose rare view has rows, or that need none."""
    rare = {name: RARE[name] for name in checks if name in RARE}
    each = [
        f"(SELECT '{view}' AS view FROM {view} LIMIT 1)" for view in dict.fromkeys(rare.values())
    ]
    found = {row["view"] for row in spark.sql(" UNION ALL ".join(each)).collect()} if each else ()
    return {name: text for name, text in checks.items() if name not in rare or rare[name] in found}


def read_by(texts: Iterable[str], shared: Mapping[str, str]) -> dict[str, str]:
    """Return the shared views that queries read, with the views that those read, in order."""
    found: set[str] = set()
    new = words(texts) & shared.keys()
    while new:
        found |= new
        new = words(shared[name] for name in new) & shared.keys() - found
    return {name: text for name, text in shared.items() if name in found}


def words(texts: Iterable[str]) -> set[str]:
    """Return all names in some queries."""
    return {word for text in texts for word in re.findall(r"\w+", text)}


def queries(checks: Mapping[str, str], lossy: Sequence[str] = ()) -> list[str]:
    """Return a query for each check: a row per run, check, anomaly, partition and groups.

    Of the runs ``lossy``, which have lost records, there is a row for each place.

    Spark plans them one by one in 0.6 of the CPU time that it takes for their union.
    """
    names = ", ".join(_quoted(name) for name in lossy)
    kept = f"IF(run IN ({names}), place, NULL)" if lossy else "CAST(NULL AS STRING)"
    return [
        f"""
        SELECT run, '{name}' AS check, anomaly, topic_id, partition, groups, weak, excused, place,
               count(1) AS count, min(seq) AS seq, min_by(detail, seq) AS detail
        FROM (SELECT run, anomaly, topic_id, partition, groups, seq, detail,
                     place.weak AS weak, place.excused AS excused, {kept} AS place
              FROM ({text}))
        GROUP BY run, anomaly, topic_id, partition, groups, weak, excused, place"""
        for name, text in checks.items()
    ]


def rows(spark: SparkSession, texts: Sequence[str]) -> list[Row]:
    """Return the rows of all queries; while some run, Spark plans the next ones."""
    with ThreadPoolExecutor(spark.sparkContext.defaultParallelism) as pool:
        return [row for found in pool.map(lambda text: spark.sql(text).collect(), texts)
                for row in found]  # fmt: skip


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"
