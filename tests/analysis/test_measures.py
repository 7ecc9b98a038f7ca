"""Measures from hand-written facts: each figure of a run, and zeros for one where nothing is."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkasim.analysis.judging.finding import Finding
from kafkasim.model import facts
from tests.analysis.analysis_rows import (
    Case,
    T,
    acked,
    appended,
    changed,
    end,
    final,
    polled,
    processed,
    topic,
    write_fleet,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow]

READY = ("world", facts.Phase("ready", ""))


def owned(*names: str) -> tuple[str, Any]:
    return "consumer-1", facts.ConsumerAssigned("g", "m1", 1, names)


def revoked(*names: str) -> tuple[str, Any]:
    return "consumer-1", facts.ConsumerRevoked("g", "m1", 1, names, False)


def shared(member: str, *offsets: int) -> tuple[str, Any]:
    counts = tuple(1 for _ in offsets)
    ids = tuple(100 + offset for offset in offsets)
    return "consumer-3", facts.SharePolled("g-shares", member, T, 0, offsets, ids, counts)


def acknowledged(
    offsets: list[int], types: list[int], error: str = "NONE", group: str = "g-shares"
) -> tuple[str, Any]:
    of = (tuple(offsets), tuple(types), error)
    return "consumer-3", facts.ShareAcknowledged(group, "m1", T, 0, *of)


BUSY: Case = [  # a row a second
    topic(),  # min ISR 2
    changed((1, 2, 3), 0, reason="created"),
    READY,  # at 2 s
    ("controller-2", facts.ControllerActive(2, True)),
    changed((1, 2), 1),  # from 4 s: under-replicated
    changed((1,), 2, reason="fenced"),  # from 5 s: under min ISR, too
    changed((1,), 2, reason="fenced"),  # another controller repeats it
    changed((1,), 3, leader=-1),  # from 7 s: without leader
    changed((1, 2, 3), 4, reason="caught-up", unclean=True),  # from 8 s: healthy
    acked(0, 100, 101),
    ("producer-1", facts.Acked(T, 0, 2, (102,), -1, 7, 0, 0, 5000, 1)),
    ("producer-1", facts.SendFailed(T, 0, (103, 104), "NOT_LEADER_OR_FOLLOWER", False, 5, 1)),
    polled([0, 1], [100, 101]),
    polled([1, 2], [101, 102]),
    owned("orders-0", "orders-1"),
    revoked("orders-0"),  # at 15 s, until 17 s
    revoked("orders-0"),
    owned("orders-0"),
    revoked("orders-1"),  # at 18 s, until the end at 22 s
    ("consumer-1", facts.Rebalanced("g", "m1", 1, 7)),
    ("consumer-2", facts.Rebalanced("g", "m2", 1, 7)),
    ("consumer-2", facts.Rebalanced("g", "m2", 2, 7)),
    ("consumer-1", facts.HostStopped("crash")),  # at 22 s: orders-0 has no owner either
    ("controller-2", facts.HostPaused(5)),  # at 23 s
    ("consumer-1", facts.HostPaused(5)),
    ("controller-2", facts.HostResumed()),  # at 25 s
    ("controller-3", facts.ControllerActive(3, True)),
    ("controller-2", facts.ControllerActive(2, False)),  # deposed, no longer the holder
    ("controller-3", facts.HostStopped("crash")),  # at 28 s
    end(),  # at 29 s
    final(1, 100, 101, 101, leading=True),
    shared("m1", 0, 1),
    shared("m2", 1, 2),  # the second of them again
    shared("m2", 2),
    appended(0, 2),
    appended(1, 4),  # what was at offset 1 is lost
    acknowledged([0, 1], [1, 1], "COORDINATOR_NOT_AVAILABLE"),
    acknowledged([0], [1]),  # 3 s after its append
    acknowledged([0, 1, 2], [1, 1, 3]),  # offset 1: 3 s; offset 2 is rejected
    appended(0, 1),
    acknowledged([3], [1]),  # 5 s
    acknowledged([3], [1], group="others"),  # 6 s
    acknowledged([3], [1], group="others"),
    processed(0, 1),
    ("consumer-1", facts.Processed("others", "m1", T, 0, 0, 1)),
    processed(1, 2),  # 2 s later
]

EXPECTED = {
    "minutes": 27 / 60, "isr_changes": 3, "isr_changes_per_minute": 60 / 9,
    "under_replicated_s": 4.0, "under_min_isr_s": 3.0, "leaderless_s": 1.0, "unavailable_s": 3.0,
    "unclean_elections": 1, "controller_failovers": 2, "controllerless_s": 3.0,
    "latency_p50_ms": 1.0, "latency_p99_ms": 4.92, "latency_p999_ms": 4.992, "latency_max_ms": 5.0,
    "acked_records": 3, "lost_records": 1, "lost_per_million": 1e6 / 3, "duplicate_records": 1,
    "redelivered_records": 3, "failed_records": 2, "rebalances": 2, "rebalance_downtime_s": 20.0,
    "stranded_records": 1, "read_again_records": 1, "skipped_records": 4, "processing_gap_s": 2.0,
    "task_downtime_s": 0.0, "restored_bytes": 0,
    "share_latency_p50_ms": 4000.0, "share_latency_p99_ms": 5970.0, "share_latency_max_ms": 6000.0,
}  # fmt: skip

QUIET = dict.fromkeys(EXPECTED, 0) | {
    "minutes": 1 / 60,
    "lost_per_million": None,
    "processing_gap_s": None,
}
QUIET |= {name: None for name in EXPECTED if "latency_" in name}


def test_measures(spark: SparkSession, tmp_path: Path) -> None:
    from kafkasim.analysis.figures.measures import MEASURES, measuring
    from kafkasim.analysis.stored import open_stored

    lost = Finding("lost-write", T, 0, "record 102 acknowledged at offset 2")
    skipped = Finding("skipped-at-failover", T, 0, "group g begins in b", count=4)
    cases = {"busy": BUSY, "quiet": [READY, end()], "unready": [end()]}
    write_fleet(tmp_path, cases, {"busy": [lost, skipped]})
    with measuring(open_stored(spark, str(tmp_path))):
        rows = [row.asDict() for row in spark.sql(MEASURES).orderBy("run").collect()]
    assert [row.pop("run") for row in rows] == ["busy", "quiet"]
    reasons = [row.pop("isr_changes_by_reason") for row in rows]
    assert rows == [pytest.approx(EXPECTED), pytest.approx(QUIET)]
    assert reasons == [pytest.approx(dict.fromkeys(["caught-up", "fenced", "lag"], 60 / 27)), {}]
