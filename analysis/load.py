"""Give Spark the facts of stored runs: a temporary view for each kind, and views over those."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from kafkasim.analysis.checks import RARE_VIEWS
from kafkasim.analysis.checks.base import JUDGED_KINDS, NO_CONTENTS, NO_OUTDATED, SHARED
from kafkasim.analysis.checks.cleaned.views import FINAL_RECORDS, NOTHING
from kafkasim.analysis.checks.harm.group_views import VIEWS as GROUP_VIEWS
from kafkasim.analysis.checks.recreated import views as recreated
from kafkasim.analysis.checks.shares.queries import VIEWS as SHARE_VIEWS
from kafkasim.analysis.checks.transactions.given_back import GIVEN_BACK_RECORDS, NO_GIVEN_BACK
from kafkasim.analysis.checks.transactions.taken import NO_TAKEN, TAKEN_RECORDS
from kafkasim.analysis.checks.transactions.unverified import NO_UNVERIFIED
from kafkasim.analysis.checks.transactions.views import VIEWS
from kafkasim.analysis.spark.asking import read_by, words
from kafkasim.analysis.spark.session import tuned
from kafkasim.analysis.stored import Stored

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Found = TypeVar("Found")

TWICE = {"taken_records": TAKEN_RECORDS, "given_back_records": GIVEN_BACK_RECORDS}

JUDGED_VIEWS = SHARED | VIEWS | TWICE | RARE_VIEWS | SHARE_VIEWS
"""The views that the checks read beside those of the kinds."""

REWRITES = ("contested", "rewritten", "kept_batches")
"""The views that only the views ``outdated`` and ``contents`` read."""

RUNS_VIEW = "runs"
"""The view of the runs: what ran in each (``spec``), and what it has legally lost (``losses``)."""

SMALL_ROWS = 5_000_000
"""Up to so many rows each view is one partition: then no check shuffles, and each is one task. What
is judged goes slice by slice of so many rows. Measures of more are one query, whose views are
partitioned by run, which serves every step of every measure."""

SLICES_AT_ONCE = 2
"""While a slice is judged, Spark plans the next one."""

SLICE_CORES = 8
"""Cores that a slice keeps busy: most of its tasks end soon."""

PARTITION_ROWS = 1_000_000
"""Rows of all kinds for each partition by run."""

COMPILED_ROWS = 2_000_000
"""From so many rows on Spark compiles the query. For fewer the compilation of all checks takes
longer than their interpretation (1.5 million facts: 74 CPU s against 66)."""

COMPILED_EXPRESSIONS_ROWS = 300_000
"""From so many rows on Spark compiles the expressions, too. All kinds of facts in 4 279 rows took
94 CPU s with it and 68 without, but 1.5 million rows 59 and 78."""

KEPT = {
    "acked_ids": "Acked",
    "lost_ids": "Acked",
    "unread_ids": "Polled",
    "poll_jumps": "Polled",
    "jumps": "Polled",
    "poll_gaps": "Polled",
    "fallen_marks": "HighWatermark",
    "differing_logs": "FinalReplica",
    "contested": "Appended",
    "rewritten": "Appended",
    "kept_batches": "Appended",
    "outdated": "MarkerWritten",
    "contents": "MarkerWritten",
    "holes": "MarkerWritten",
    "cleaned_offsets": "Cleaned",
    **dict.fromkeys(("created_again", "carried", "gone_over"), "TopicDeleted"),
    "homes": "GroupState",
    "deciders": "TransactionBegun",
    "taken_records": "TransactionBegun",
    "given_back_records": "TransactionBegun",
    **dict.fromkeys(VIEWS, "TransactionBegun"),
    **dict.fromkeys(GROUP_VIEWS, "GroupState"),
    "share_deliveries": "ShareAcquired",
    "moved_members": "Positioned",
    "record_copies": "FinalReplica",
    "handovers": "ConsumerRevoked",
    "commits_back": "OffsetCommitted",
    "members_gone": "GroupState",
    "disturbances": "HostStarted",
    "shutdown_waits": "BrokerState",
    "active_brokers": "BrokerState",
    "standing_marks": "HighWatermark",
    "late_answers": "BecameLeader",
    "passed_batches": "BecameLeader",
}
"""Shared views that are computed once and kept, where there are facts of a kind. They stand upon
each other, and several checks read each of them: Spark would plan and compute all that is below
each time anew, 300 scans for the checks of transactions. Those of ``checks.RARE`` are kept because
Spark asks first whether they have rows."""

TUNING = {
    "spark.sql.autoBroadcastJoinThreshold": "-1",  # both sides lie together by run already
    "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",  # default 128
    "spark.sql.requireAllClusterKeysForCoPartition": "false",
}
"""Settings for queries whose every step works by run, unless somebody configured them."""

SMALL_TUNING = {
    "spark.sql.adaptive.enabled": "false",  # nothing shuffles: there is nothing to adapt
    # Planning takes longer than the query: what follows would cost more than it saves.
    "spark.sql.constraintPropagation.enabled": "false",
    "spark.sql.lightweightPlanChangeValidation": "false",
}


def in_slices(stored: Stored, work: Callable[[Stored], Found], texts: Sequence[str]) -> list[Found]:
    """Return what ``work`` finds in each slice of the runs, by queries that are among ``texts``.

    Each slice has views of its own.

    No step of a check looks at two runs. So memory depends on the size of a slice, not on how many
    there are; a slice is planned as a small fleet is, and Spark compiles its code once.
    """
    slices = stored.slices(SMALL_ROWS)

    def one(part: Stored) -> Found:
        with views(part, texts=texts, rows=stored.rows, small=True):
            return work(part)

    if len(slices) == 1:
        return [one(stored)]
    cores = stored.spark.sparkContext.defaultParallelism
    with ThreadPoolExecutor(max(SLICES_AT_ONCE, cores // SLICE_CORES)) as pool:
        try:
            own = [replace(part, spark=stored.spark.newSession()) for part in slices]
            return list(pool.map(one, own))
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


@contextmanager
def views(
    stored: Stored,
    kinds: Sequence[str] = JUDGED_KINDS,
    shared: Mapping[str, str] = JUDGED_VIEWS,
    *,
    texts: Sequence[str] | None = None,
    rows: int | None = None,
    small: bool | None = None,
) -> Iterator[None]:
    """Provide a view for each kind and the shared views, for as long as the context lasts.

    ``texts`` are the queries that will be asked, if that is known: no other view is made. ``rows``
    is how many facts the same queries read in all, where these runs are a slice of them. ``small``
    tells whether each view is one partition; by default their number decides.
    """
    spark = stored.spark
    rows = stored.rows if rows is None else rows
    small = rows <= SMALL_ROWS if small is None else small
    parts = max(spark.sparkContext.defaultParallelism, rows // PARTITION_ROWS)
    tuning = TUNING | (SMALL_TUNING if small else {})
    if rows < COMPILED_ROWS:
        tuning["spark.sql.codegen.wholeStage"] = "false"
    if rows < COMPILED_EXPRESSIONS_ROWS:
        tuning["spark.sql.codegen.factoryMode"] = "NO_CODEGEN"
    asked = _asked(stored, shared)
    if texts is not None:
        kinds, asked = _read(texts, kinds, asked)
    kept: list[DataFrame] = []
    with tuned(spark, tuning):
        try:
            for kind in kinds:
                frame = stored.facts(kind)
                frame = frame.coalesce(1) if small else frame.repartition(parts, "run")
                frame.createOrReplaceTempView(kind)
            whole = stored.runs_table().select("run", "spec", "losses")
            whole = whole.coalesce(1) if small else whole.repartition(parts, "run")
            whole.createOrReplaceTempView(RUNS_VIEW)
            for name, text in asked.items():
                frame = spark.sql(text)
                if name in KEPT and stored.has(KEPT[name]):
                    with tuned(spark, {"spark.sql.adaptive.enabled": "false"}):
                        frame = frame.localCheckpoint(eager=False)
                    kept.append(frame)
                frame.createOrReplaceTempView(name)
            yield
        finally:
            for name in (*kinds, *asked, RUNS_VIEW):
                spark.catalog.dropTempView(name)
            for frame in kept:
                _forget(frame)


def _read(
    texts: Sequence[str], kinds: Sequence[str], shared: Mapping[str, str]
) -> tuple[list[str], dict[str, str]]:
    """Return the kinds and the shared views that some queries read."""
    read = read_by(texts, shared)
    named = words([*texts, *read.values()])
    return [kind for kind in kinds if kind in named], read


def _forget(frame: DataFrame) -> None:
    """Free what a local checkpoint holds, which Spark does only when its driver collects garbage.

    The slices of 20 million facts filled the heap with views that nobody read any more.
    """
    frame._jdf.logicalPlan().rdd().unpersist(False)  # no method of DataFrame does


def _asked(stored: Stored, shared: Mapping[str, str]) -> dict[str, str]:
    """Return the shared views without those that nothing reads in these runs."""
    asked = dict(shared)
    if not stored.has("MarkerWritten") and "contents" in asked:
        asked["contents"] = NO_CONTENTS
    if not stored.has("MarkerWritten") and not stored.has("KeysAppended"):
        asked = {name: text for name, text in asked.items() if name not in REWRITES}
        if "outdated" in asked:
            asked["outdated"] = NO_OUTDATED
    if not stored.has("TopicDeleted"):
        read = [name for name in asked if name not in recreated.VIEWS or name in recreated.NOTHING]
        asked = {name: recreated.NOTHING.get(name, asked[name]) for name in read}
    if not stored.has("Cleaned"):
        asked |= {name: text for name, text in NOTHING.items() if name in asked}
    if stored.has("FinalCleaned") and "final_records" in asked:
        asked["final_records"] = FINAL_RECORDS
    if not stored.has("TransactionBegun") and "taken_records" in asked:
        asked["taken_records"] = NO_TAKEN
    failed = stored.has("TransactionBegun") and stored.has("SendFailed")
    if not failed and "given_back_records" in asked:
        asked["given_back_records"] = NO_GIVEN_BACK
    if not stored.has("TransactionBegun") and not stored.has("ProcessorStarted"):
        asked = {name: text for name, text in asked.items() if name not in VIEWS}
    elif not stored.has("VerificationSkipped") and "unverified_batches" in asked:
        asked["unverified_batches"] = NO_UNVERIFIED
    if not stored.has("SharePartitionLoaded") and not stored.has("ShareAcquired"):
        asked = {name: text for name, text in asked.items() if name not in SHARE_VIEWS}
    return asked
