"""Metrics and timelines on hand-written rows (one row a second)."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkasim.analysis import plots
from kafkasim.analysis.figures import metrics
from kafkasim.analysis.figures.timeline import build, from_directory
from kafkasim.analysis.plots.latency import windows
from kafkasim.analysis.runs import find_runs
from kafkasim.model import facts
from tests.analysis.analysis_rows import (
    Case,
    T,
    acked,
    changed,
    dicts,
    end,
    led,
    mark,
    registered,
    topic,
    write_fleet,
    write_run,
)

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def isr_changed(change: str, replica: int) -> tuple[str, facts.IsrChanged]:
    return "broker-1", facts.IsrChanged(T, 0, 1, 1, change, (replica,), (1, 2))


READY = ("world", facts.Phase("ready", ""))

FLAP: Case = [
    topic(),  # 0 s
    changed((1, 2, 3), 0, reason="created"),
    READY,  # 2 s: t = 0
    ("world", facts.FaultStarted("gc-pause", "broker-3")),
    ("broker-3", facts.HostPaused(4_000_000)),
    changed((1, 2), 1, reason="lag"),  # 5 s
    isr_changed("shrink", 3),
    changed((1,), 2, reason="fenced"),  # 7 s
    ("broker-3", facts.HostResumed()),
    ("world", facts.FaultEnded("gc-pause", "broker-3")),
    changed((1, 3), 3, reason="caught-up"),  # 10 s
    changed((1, 3), 3, reason="caught-up"),  # a new controller repeats it
    acked(0, 1),
    end(),  # 13 s
]


@pytest.mark.parametrize(
    ("at", "under_replicated", "under_min", "at_min", "shrinks"),
    [(0, 0, 0, 0, 0), (3_000_000, 1, 0, 1, 0), (5_000_000, 1, 1, 0, 1), (None, 1, 0, 1, 1)],
)
def test_gauges_follow_time(
    at: int | None, under_replicated: int, under_min: int, at_min: int, shrinks: int
) -> None:
    found = metrics.measure("r", dicts(FLAP), at)
    assert (
        found.value("UnderReplicatedPartitions"),
        found.value("UnderMinIsrPartitionCount"),
        found.value("AtMinIsrPartitionCount"),
        found.value("IsrShrinksPerSec", "", "Count"),
    ) == (under_replicated, under_min, at_min, shrinks)


def test_flaps_count_every_membership_change_with_its_reason() -> None:
    found = metrics.measure("r", dicts(FLAP))
    flaps = {m.tags: m.value for m in found.metrics if m.name == "isr-flaps"}
    assert flaps == {
        "": 3,
        "orders-0,replica=2,reason=fenced": 1,
        "orders-0,replica=3,reason=caught-up": 1,
        "orders-0,replica=3,reason=lag": 1,
    }
    gaps = {m.tags: m.value for m in found.metrics if m.name == "isr-shrink-to-expand-ms"}
    assert gaps == {"orders-0,replica=3,gap=0": 5000}
    assert found.value("isr-flaps-per-minute", "orders-0,replica=3") == pytest.approx(10.909)


def test_partition_time_in_bad_states() -> None:
    found = metrics.measure("r", dicts(FLAP))
    names = ("under-min-isr-ms", "under-replicated-ms", "leaderless-ms")
    assert [found.value(name) for name in names] == [3000, 8000, 0]


def test_leaderless_and_unclean() -> None:
    case = [
        topic(), changed((1, 2, 3), 0), READY, changed((1,), 1, leader=-1), end(),
        changed((2,), 2, leader=2, unclean=True, reason="unclean"), end(),
    ]  # fmt: skip
    found = metrics.measure("r", dicts(case))
    assert found.value("leaderless-ms") == 2000
    assert found.value("UncleanLeaderElectionsPerSec", "", "Count") == 1
    assert metrics.measure("r", dicts(case), 2_000_000).value("OfflinePartitionsCount") == 1


def test_rebalance_downtime_is_the_time_without_owner() -> None:
    case = [
        READY,
        ("c1", facts.ConsumerAssigned("g", "m1", 1, ("orders-0", "orders-1"))),
        ("c1", facts.ConsumerRevoked("g", "m1", 1, ("orders-0",), False)),
        end(),
        ("c2", facts.ConsumerAssigned("g", "m2", 2, ("orders-0",))),
    ]
    assert metrics.measure("r", dicts(case)).value("rebalance-downtime-ms", "g") == 2000


def test_request_metrics_are_means_over_requests() -> None:
    case = [
        READY,
        ("broker-1", facts.RequestStats("Produce", 3, 1, 9000, 300, 600, 8000, 100, 0, 5000)),
        ("broker-1", facts.RequestStats("Produce", 1, 0, 1000, 100, 200, 700, 0, 2000, 1000)),
    ]
    found = metrics.measure("r", dicts(case))
    tags = "broker-1,request=Produce"
    assert found.value("TotalTimeMs", tags, "Mean") == 2.5
    assert found.value("TotalTimeMs", tags, "Max") == 5
    assert found.value("LocalTimeMs", tags, "Mean") == 0.2
    assert found.value("ResponseQueueTimeMs", tags, "Mean") == 0.025
    assert found.value("ThrottleTimeMs", tags, "Mean") == 0.5
    assert found.value("RequestsPerSec", tags, "Count") == 4


def test_the_longest_throttle_time_of_a_client() -> None:
    def throttled(client_id: str, request: str, throttle_ms: int) -> tuple[str, facts.Throttled]:
        of = ("ANONYMOUS", "producer_byte_rate", "5", 1)
        return "broker-1", facts.Throttled(client_id, request, throttle_ms, *of)

    case = [
        READY, throttled("a", "Produce", 500), throttled("a", "Produce", 300),
        throttled("b", "Fetch", 900), throttled("b", "CreateTopics", 7000), end(),
    ]  # fmt: skip
    found = metrics.measure("r", dicts(case))
    longest = {(m.name, m.tags): m.value for m in found.metrics if "throttle" in m.name}
    assert longest == {
        ("produce-throttle-time-max", "a"): 500, ("fetch-throttle-time-max", "b"): 900,
    }  # fmt: skip


def test_meters_count_by_broker_since_ready() -> None:
    failed = facts.IsrUpdateFailed(T, 0, 1, "INVALID_UPDATE_VERSION")
    case = [
        isr_changed("shrink", 3), READY, isr_changed("shrink", 3), isr_changed("expand", 3),
        ("broker-2", facts.IsrChanged(T, 0, 2, 2, "expand", (1,), (2, 1))), ("broker-2", failed),
    ]  # fmt: skip
    found = metrics.measure("r", dicts(case))
    names = ("IsrShrinksPerSec", "IsrExpandsPerSec", "FailedIsrUpdatesPerSec")
    counts = {(m.name, m.tags): m.value for m in found.metrics if m.attribute == "Count"}
    assert {key: count for key, count in counts.items() if key[0] in names} == {
        ("IsrShrinksPerSec", ""): 1, ("IsrShrinksPerSec", "broker-1"): 1,
        ("IsrExpandsPerSec", ""): 2, ("IsrExpandsPerSec", "broker-1"): 1,
        ("IsrExpandsPerSec", "broker-2"): 1,
        ("FailedIsrUpdatesPerSec", ""): 1, ("FailedIsrUpdatesPerSec", "broker-2"): 1,
    }  # fmt: skip
    assert found.value("IsrExpandsPerSec", "", "MeanRate") == 0.5  # two in the 4 s since ready


@pytest.mark.parametrize(
    ("at", "active", "fenced"), [(0, 1, 0), (1_000_000, 2, 0), (3_000_000, 1, 1)]
)
def test_controllers_that_think_they_are_active_and_fenced_brokers(
    at: int, active: int, fenced: int
) -> None:
    case = [
        registered(1), registered(2), ("controller-1", facts.ControllerActive(1, True)), READY,
        ("controller-2", facts.ControllerActive(2, True)),
        registered(2, fenced=True), ("controller-1", facts.HostStopped("crash")), end(),
    ]  # fmt: skip
    found = metrics.measure("r", dicts(case), at)
    assert found.value("ActiveControllerCount") == active
    assert found.value("FencedBrokerCount") == fenced


def test_leaders_and_who_should_lead() -> None:
    case = [topic(), changed((1, 2, 3), 0), READY, changed((2, 3), 1, leader=2), end()]
    found = metrics.measure("r", dicts(case))
    led = {m.tags: m.value for m in found.metrics if m.name == "LeaderCount"}
    assert led == {"broker-1": 0, "broker-2": 1, "broker-3": 0}
    assert found.value("PreferredReplicaImbalanceCount") == 1
    assert metrics.measure("r", dicts(case), 0).value("PreferredReplicaImbalanceCount") == 0


def test_a_replica_that_is_being_added_is_not_under_replication() -> None:
    moving = facts.PartitionChanged(
        1, T, 0, 1, 1, 1, (1, 2, 3), (1, 2, 3, 4), "reassignment", False, adding_replicas=(4,)
    )
    found = metrics.measure("r", dicts([topic(), READY, ("controller-1", moving), end()]))
    assert found.value("UnderReplicatedPartitions") == 0
    assert found.value("under-replicated-ms") == 0


def test_consumer_lag_is_the_worst_partition_of_each_member() -> None:
    def got(partition: int, position: int, mark: int, member: str) -> tuple[str, facts.Polled]:
        return "c", facts.Polled("g", member, T, partition, position, mark, (), ())

    case = [READY, got(0, 3, 10, "m1"), got(1, 3, 5, "m1"), got(0, 8, 10, "m1"),
            got(0, 9, -1, "m1"), got(2, 1, 30, "m2"), end()]  # fmt: skip
    found = metrics.measure("r", dicts(case))
    assert found.value("records-lag-max", "g,m1") == 2
    assert found.value("records-lag-max", "g,m2") == 29


def test_rebalance_latency() -> None:
    case = [READY, ("c1", facts.Rebalanced("g", "m1", 1, 3_000_000)),
            ("c2", facts.Rebalanced("g", "m2", 1, 1_000_000)), end()]  # fmt: skip
    found = metrics.measure("r", dicts(case))
    assert found.value("rebalance-latency-avg") == 2000
    assert found.value("rebalance-latency-max") == 3000


def test_producers_latency_retries_and_errors() -> None:
    def sent(latency_us: int, attempts: int, *ids: int) -> tuple[str, facts.Acked]:
        return "p", facts.Acked(T, 0, 0, ids, -1, 7, 0, 0, latency_us, attempts)

    acks = [sent(1000, 1, 5, 6, 7), sent(5000, 3, 1)]
    lost = facts.SendFailed(T, 0, (2,), "REQUEST_TIMED_OUT", True, 9_000, 4)
    found = metrics.measure("r", dicts([READY, *acks, ("p", lost), end()]))
    assert found.value("produce-latency-ms", "", "50thPercentile") == 1
    assert found.value("produce-latency-ms", "", "99thPercentile") == 5
    assert found.value("produce-latency-ms", "", "Max") == 5
    assert found.value("record-retry-total") == 5
    assert found.value("record-error-total") == 1


@pytest.mark.parametrize(
    ("values", "percent", "expected"),
    [([], 50, None), ([7], 99, 7), ([1, 2, 3, 4], 50, 2), (list(range(1, 101)), 99, 99)],
)
def test_percentile(values: list[int], percent: int, expected: int | None) -> None:
    assert metrics.percentile(values, percent) == expected


def test_timeline_knows_pauses_and_faults() -> None:
    line = build(dicts(FLAP))
    assert line.paused == {"broker-3": [(4_000_000, 8_000_000)]}
    assert line.faults == [(3_000_000, 9_000_000, "gc-pause", "broker-3")]


def test_a_process_that_never_comes_back_is_down_to_the_end() -> None:
    line = build(dicts([READY, ("broker-1", facts.HostStopped("crash")), end()]))
    assert line.down == {"broker-1": [(1_000_000, 2_000_000)]}


PLOTTED: Case = [*FLAP[:-1], led(1, 1, 0), mark(1), end()]


@pytest.mark.slow
@pytest.mark.parametrize("kind", sorted(plots.ONE_RUN))
def test_plots_are_written_and_repeat(tmp_path: Path, kind: str) -> None:
    write_run(tmp_path / "run", PLOTTED)
    run = from_directory(find_runs(tmp_path / "run")[0][0])
    files = plots.ONE_RUN[kind](run, tmp_path / "one")
    assert [path.name for path in files] == ["one.png", "one.svg"]
    assert files[0].read_bytes().startswith(b"\x89PNG")
    again = plots.ONE_RUN[kind](run, tmp_path / "two")
    assert files[1].read_bytes() == again[1].read_bytes()


@pytest.mark.slow
@pytest.mark.spark
def test_runs_of_a_fleet_and_of_directories_are_read_alike(
    spark: SparkSession, tmp_path: Path
) -> None:
    from kafkasim.analysis.plots import fleet_view
    from kafkasim.analysis.stored import open_stored

    write_fleet(tmp_path / "fleet", {"by-hand/seed-000001": PLOTTED})
    write_run(tmp_path / "tree" / "by-hand" / "seed-000001", PLOTTED)
    fleet, tree = (open_stored(spark, str(tmp_path / name)) for name in ("fleet", "tree"))
    columns = ["phase", "topic_id", "isr", "high_watermark"]
    kinds = ["Phase", "PartitionChanged", "HighWatermark"]
    rows = fleet.one("by-hand/seed-000001").read(kinds, columns)
    assert rows == tree.one().read(kinds, columns)
    assert [row["kind"] for row in rows].count("PartitionChanged") == 5
    assert fleet_view.points(fleet) == [replace(one, seed=0) for one in fleet_view.points(tree)]


def test_configurations_of_a_fleet_are_ordered_by_the_numbers_in_them() -> None:
    from kafkasim.analysis.plots import fleet_view

    labels = [f"flapping[lag={lag},pause={pause}s]" for lag in (3000, 10000) for pause in (2.5, 12)]
    points = [fleet_view.Point(label, 0, "pass", 1.0, 0.0) for label in sorted(labels)]
    ticks = fleet_view.picture(points).axes[0].get_yticklabels()
    assert [tick.get_text() for tick in ticks] == labels


def test_offline_log_directories_count_until_the_next_start() -> None:
    rows: Case = [
        topic(),
        READY,
        ("broker-1", facts.HostStarted(0)),
        ("broker-1", facts.LogPlaced(T, 0, "/d1")),
        ("broker-1", facts.LogDirOffline("/d1", "id", "I/O error")),  # at 4 s, t = 3 s
        ("broker-1", facts.HostStarted(1)),
    ]
    name = "OfflineLogDirectoryCount"
    counts = [
        metrics.measure("r", dicts(rows), at).value(name, "broker-1") for at in (3_000_000, None)
    ]
    assert counts == [1, 0]


def test_each_record_counts_in_a_window_of_the_latency_picture() -> None:
    times, values = windows([(0.1, 1000, 1), (0.2, 5000, 3), (1.5, 7000, 0)], 60.0, 50)
    assert (times[0], values[0]) == (0.5, 5.0)
    assert math.isnan(values[1])


def test_the_metrics_of_streams_are_those_of_its_living_processes() -> None:
    def task(node: str, state: str, reason: str = "") -> tuple[str, facts.TaskState]:
        return node, facts.TaskState("app", 1, "0_0", "active", state, reason)

    def thread(node: str, state: str, reason: str = "") -> tuple[str, facts.StreamThreadState]:
        return node, facts.StreamThreadState("app", 1, state, reason)

    took = ("s-1", facts.TaskTook("app", 1, "0_0", "orders", 0, 0, "null", "1", 5, 6))
    flushed = ("s-1", facts.TaskFlushed("app", 1, "0_0", ("orders-0@1",)))
    committed = ("s-1", facts.TaskCommitted("app", 1, "0_0", ("orders-0@1",)))
    case: Case = [
        topic(), READY, thread("s-0", "RUNNING"), thread("s-1", "RUNNING"),
        task("s-1", "RESTORING"), task("s-1", "RUNNING"), took, took, flushed, committed,  # 1 s
        ("s-1", facts.RecordDropped("app", "0_0", "N", "null-key", "orders", 0, 3)),
        thread("s-1", "PARTITIONS_REVOKED"), flushed, committed,  # of a revocation
        task("s-1", "CLOSED"), thread("s-1", "DEAD", "an error"),
        ("s-0", facts.HostStopped("crash")), end(),
    ]  # fmt: skip
    found = {
        (each.name, each.tags): each.value
        for each in metrics.measure("run", dicts(case)).metrics
        if each.object.startswith("kafka.streams") and not each.name.endswith("-rate")
    }
    client, of = "client-id=s-1", "thread-id=s-1-StreamThread-1"
    assert found == {
        ("alive-stream-threads", client): 0,
        ("failed-stream-threads", client): 1,
        ("process-total", of): 2,
        ("task-created-total", of): 1,
        ("task-closed-total", of): 1,
        ("commit-total", of): 1,
        ("commit-latency-avg", of): 1000,
        ("commit-latency-max", of): 1000,
        ("dropped-records-total", f"{of},task-id=0_0"): 1,
    }
