"""The metrics of a run at a moment, under Kafka's JMX names (KAFKA.md, 9.4).

A meter (``…PerSec``) is given as in JMX, as a count and a mean rate, here since t = 0 (the fact
Phase(ready)). A gauge shows what the controller had committed at that moment. Beside Kafka's
metrics there are some that no broker has: how often each replica left the ISR and why, the time
under min ISR, without a leader and under-replicated, the gaps between shrink and expand, the
downtime of rebalances, and percentiles of the produce latency.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from kafkasim.analysis.figures import stream_metrics
from kafkasim.analysis.figures.timeline import COLUMNS as LINE_COLUMNS
from kafkasim.analysis.figures.timeline import KINDS as LINE_KINDS
from kafkasim.analysis.figures.timeline import Key, MembershipChange, OneRun, Row, Timeline, build

REPLICA_MANAGER = "kafka.server:type=ReplicaManager"
LOG_MANAGER = "kafka.log:type=LogManager"
CONTROLLER = "kafka.controller:type=KafkaController"
CONTROLLER_STATS = "kafka.controller:type=ControllerStats"
REQUEST_METRICS = "kafka.network:type=RequestMetrics"
CONSUMER = "kafka.consumer:type=consumer-fetch-manager-metrics"
COORDINATOR = "kafka.consumer:type=consumer-coordinator-metrics"
PRODUCER = "kafka.producer:type=producer-metrics"
OURS = "kafkasim"

KINDS = (
    *LINE_KINDS, "IsrChanged", "IsrUpdateFailed", "BrokerRegistration", "ControllerActive",
    "RequestStats", "Acked", "SendFailed", "Polled", "Rebalanced", "ConsumerAssigned",
    "ConsumerRevoked", "LogDirOffline", "LogPlaced",
    "Throttled",
    *[kind for kind in stream_metrics.KINDS if kind not in LINE_KINDS],
)  # fmt: skip
COLUMNS = (
    *LINE_COLUMNS, "change", "replica_ids", "broker", "fenced", "active", "api", "count", "errors",
    "total_us", "queue_us", "local_us", "remote_us", "response_queue_us", "throttle_us",
    "total_max_us", "latency_us", "attempts",
    "record_ids", "client_id", "request", "throttle_ms",
    "group", "member_id", "position", "high_watermark", "assignment", "error",
    *[column for column in stream_metrics.COLUMNS if column not in LINE_COLUMNS],
)  # fmt: skip

PERCENTILES = (50, 95, 99)


@dataclass(frozen=True)
class Metric:
    """One value: JMX object, name, tags (broker-1, topic, request…), attribute and value."""

    object: str
    name: str
    tags: str
    attribute: str
    value: float


@dataclass(frozen=True)
class RunMetrics:
    """All metrics of one run at ``at_us`` after t = 0."""

    run: str
    at_us: int
    metrics: list[Metric]

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return asdict(self)

    def value(self, name: str, tags: str = "", attribute: str = "Value") -> float:
        """Return one value.

        Raises:
            KeyError: there is no such metric.
        """
        for metric in self.metrics:
            if (metric.name, metric.tags, metric.attribute) == (name, tags, attribute):
                return metric.value
        raise KeyError(f"{name}{{{tags}}}.{attribute}")


def of_run(run: OneRun, at: int | None = None) -> RunMetrics:
    """Return the metrics of a run at ``at`` µs after t = 0, by default at its end."""
    return measure(run.name, run.read(KINDS, COLUMNS), at)


def measure(name: str, rows: Sequence[Row], at: int | None = None) -> RunMetrics:
    """Return the metrics that rows (in order) tell."""
    whole = build(rows)
    until = whole.end_us if at is None else whole.ready_us + at
    rows = [row for row in rows if row["t_us"] <= until]
    line = build(rows, until)
    seconds = max(1, until - line.ready_us) / 1e6
    by_kind: dict[str, list[Row]] = {kind: [] for kind in KINDS}
    for row in rows:
        by_kind[row["kind"]].append(row)
    metrics = [
        *_gauges(line),
        *_brokers(by_kind),
        *_meters(line, by_kind, seconds),
        *_requests(by_kind["RequestStats"]),
        *_clients(line, by_kind),
        *_durations(line),
        *_flapping(line, seconds),
        *_streams(rows, seconds),
    ]
    return RunMetrics(name, until - line.ready_us, metrics)


def _streams(rows: Sequence[Row], seconds: float) -> list[Metric]:
    return [
        Metric(thing, name, tags, "Value", value)
        for thing, name, tags, value in stream_metrics.values(rows, seconds)
    ]


def _gauges(line: Timeline) -> list[Metric]:
    counts = dict.fromkeys(
        ("UnderReplicatedPartitions", "UnderMinIsrPartitionCount", "AtMinIsrPartitionCount"), 0
    )
    offline = imbalance = 0
    led: dict[int, int] = {}
    for key, states in line.partitions.items():
        state = states[-1]
        needed = line.min_isr.get(key[0], 1)
        counts["UnderReplicatedPartitions"] += state.under_replicated
        counts["UnderMinIsrPartitionCount"] += len(state.isr) < needed
        counts["AtMinIsrPartitionCount"] += len(state.isr) == needed
        offline += state.leader == -1
        imbalance += state.leader != state.replicas[0]
        for replica in state.replicas:
            led.setdefault(replica, 0)
        if state.leader >= 0:
            led[state.leader] = led.get(state.leader, 0) + 1
    found = [Metric(REPLICA_MANAGER, name, "", "Value", count) for name, count in counts.items()]
    found.append(Metric(CONTROLLER, "OfflinePartitionsCount", "", "Value", offline))
    found.append(Metric(CONTROLLER, "PreferredReplicaImbalanceCount", "", "Value", imbalance))
    return found + [
        Metric(REPLICA_MANAGER, "LeaderCount", f"broker-{broker}", "Value", led[broker])
        for broker in sorted(led)
    ]


def _brokers(by_kind: dict[str, list[Row]]) -> list[Metric]:
    fenced = {row["broker"]: row["fenced"] for row in by_kind["BrokerRegistration"]}
    active = {row["node"]: row["active"] for row in by_kind["ControllerActive"]}
    for row in by_kind["HostStopped"]:
        if not any(r["node"] == row["node"] and r["seq"] > row["seq"]
                   for r in by_kind["ControllerActive"]):  # fmt: skip
            active.pop(row["node"], None)
    return [
        Metric(CONTROLLER, "ActiveControllerCount", "", "Value", sum(active.values())),
        Metric(CONTROLLER, "FencedBrokerCount", "", "Value", sum(fenced.values())),
        *_log_directories(by_kind),
    ]


def _log_directories(by_kind: dict[str, list[Row]]) -> list[Metric]:
    """Count the directories that failed since the start of each broker that has several."""
    started = {row["node"]: row["seq"] for row in by_kind["HostStarted"]}
    offline = dict.fromkeys(sorted({row["node"] for row in by_kind["LogPlaced"]}), 0)
    for row in by_kind["LogDirOffline"]:
        if row["node"] in offline and row["seq"] > started.get(row["node"], -1):
            offline[row["node"]] += 1
    return [
        Metric(LOG_MANAGER, "OfflineLogDirectoryCount", node, "Value", count)
        for node, count in offline.items()
    ]


def _meters(line: Timeline, by_kind: dict[str, list[Row]], seconds: float) -> list[Metric]:
    ready = line.ready_us
    shrinks = [row for row in by_kind["IsrChanged"] if row["change"] == "shrink"]
    expands = [row for row in by_kind["IsrChanged"] if row["change"] == "expand"]
    unclean = sum(state.unclean for states in line.partitions.values() for state in states)
    found = []
    for name, rows in (
        ("IsrShrinksPerSec", shrinks),
        ("IsrExpandsPerSec", expands),
        ("FailedIsrUpdatesPerSec", by_kind["IsrUpdateFailed"]),
    ):
        nodes = sorted({row["node"] for row in rows})
        for tags in ["", *nodes]:
            count = sum(row["t_us"] >= ready and tags in ("", row["node"]) for row in rows)
            found += _meter(REPLICA_MANAGER, name, tags, count, seconds)
    return found + _meter(CONTROLLER_STATS, "UncleanLeaderElectionsPerSec", "", unclean, seconds)


def _meter(thing: str, name: str, tags: str, count: int, seconds: float) -> list[Metric]:
    return [
        Metric(thing, name, tags, "Count", count),
        Metric(thing, name, tags, "MeanRate", round(count / seconds, 6)),
    ]


REQUEST_TIMES = {
    "TotalTimeMs": "total_us",
    "RequestQueueTimeMs": "queue_us",
    "LocalTimeMs": "local_us",
    "RemoteTimeMs": "remote_us",
    "ResponseQueueTimeMs": "response_queue_us",
    "ThrottleTimeMs": "throttle_us",
}


def _requests(rows: Sequence[Row]) -> list[Metric]:
    """Return the means over all requests of an API at a broker (JMX has the same as histograms)."""
    sums: dict[tuple[str, str], dict[str, int]] = {}
    for row in rows:
        for api in dict.fromkeys((row["api"], _metric_of_api(row["api"]))):
            total = sums.setdefault((row["node"], api), {})
            for name in ("count", "errors", *REQUEST_TIMES.values()):
                total[name] = total.get(name, 0) + row[name]
            total["max"] = max(total.get("max", 0), row["total_max_us"])
    found = []
    for (node, api), total in sorted(sums.items()):
        tags = f"{node},request={api}"
        count = max(1, total["count"])
        for name, key in REQUEST_TIMES.items():
            mean = round(total[key] / count / 1000, 3)
            found.append(Metric(REQUEST_METRICS, name, tags, "Mean", mean))
        found.append(Metric(REQUEST_METRICS, "TotalTimeMs", tags, "Max", total["max"] / 1000))
        found.append(Metric(REQUEST_METRICS, "RequestsPerSec", tags, "Count", total["count"]))
        found.append(Metric(REQUEST_METRICS, "ErrorsPerSec", tags, "Count", total["errors"]))
    return found


def _metric_of_api(api: str) -> str:
    """Return the name that all requests of an API have: FetchConsumer is a Fetch, too."""
    return "Fetch" if api in ("FetchConsumer", "FetchFollower") else api


def _clients(line: Timeline, by_kind: dict[str, list[Row]]) -> list[Metric]:
    # A batch that waits long fills up meanwhile: its records count, not the batch.
    acked = sorted(row["latency_us"] for row in by_kind["Acked"] for _ in row["record_ids"])
    found = [
        Metric(OURS, "produce-latency-ms", "", f"{percent}thPercentile", value / 1000)
        for percent in PERCENTILES
        if (value := percentile(acked, percent)) is not None
    ]
    if acked:
        found.append(Metric(OURS, "produce-latency-ms", "", "Max", acked[-1] / 1000))
    retries = sum(row["attempts"] - 1 for row in by_kind["Acked"] + by_kind["SendFailed"])
    found.append(Metric(PRODUCER, "record-retry-total", "", "Value", retries))
    found += _throttles(by_kind["Throttled"])
    failed = len(by_kind["SendFailed"])
    found.append(Metric(PRODUCER, "record-error-total", "", "Value", failed))
    lag: dict[tuple[str, str], dict[Key, int]] = {}
    for row in by_kind["Polled"]:
        if row["high_watermark"] >= 0:
            mine = lag.setdefault((row["group"], row["member_id"]), {})
            key = (row["topic_id"], row["partition"])
            mine[key] = max(0, row["high_watermark"] - row["position"])
    for (group, member), lags in sorted(lag.items()):
        tags = f"{group},{member}"
        found.append(Metric(CONSUMER, "records-lag-max", tags, "Value", max(lags.values())))
    took = [row["latency_us"] for row in by_kind["Rebalanced"]]
    if took:
        mean = round(sum(took) / len(took) / 1000, 3)
        found.append(Metric(COORDINATOR, "rebalance-latency-avg", "", "Value", mean))
        found.append(Metric(COORDINATOR, "rebalance-latency-max", "", "Value", max(took) / 1000))
    for group, down in sorted(rebalance_downtime(by_kind, line.end_us).items()):
        found.append(Metric(OURS, "rebalance-downtime-ms", group, "Value", down / 1000))
    return found


def _throttles(rows: Sequence[Row]) -> list[Metric]:
    """Return the longest throttle time of each client, of those that it was told."""
    longest: dict[tuple[str, str], int] = {}
    for row in rows:
        key = (row["request"], row["client_id"])
        longest[key] = max(longest.get(key, 0), row["throttle_ms"])
    return [
        Metric(
            PRODUCER if request == "Produce" else CONSUMER,
            "produce-throttle-time-max" if request == "Produce" else "fetch-throttle-time-max",
            client_id, "Value", throttle_ms,
        )
        for (request, client_id), throttle_ms in sorted(longest.items())
        if request in ("Produce", "Fetch")
    ]  # fmt: skip


def rebalance_downtime(by_kind: dict[str, list[Row]], end_us: int) -> dict[str, int]:
    """Return per group the sum over partitions of the time between owners (after the first)."""
    since: dict[tuple[str, str], int] = {}
    total: dict[str, int] = {}
    events = sorted(by_kind["ConsumerAssigned"] + by_kind["ConsumerRevoked"],
                    key=lambda row: row["seq"])  # fmt: skip
    for row in events:
        for name in row["assignment"]:
            place = (row["group"], name)
            if row["kind"] == "ConsumerRevoked":
                since.setdefault(place, row["t_us"])
            elif place in since:
                down = row["t_us"] - since.pop(place)
                total[row["group"]] = total.get(row["group"], 0) + down
    for (group, _), began in since.items():
        total[group] = total.get(group, 0) + end_us - began
    return total


def _durations(line: Timeline) -> list[Metric]:
    """Return partition time (summed over partitions) in the states that hurt, since t = 0."""
    under_min = under_replicated = leaderless = 0
    for key in line.partitions:
        needed = line.min_isr.get(key[0], 1)
        for began, ended, state in line.spans(key):
            lasted = max(0, ended - max(began, line.ready_us))
            under_min += lasted * (len(state.isr) < needed)
            under_replicated += lasted * state.under_replicated
            leaderless += lasted * (state.leader == -1)
    return [
        Metric(OURS, "under-min-isr-ms", "", "Value", under_min / 1000),
        Metric(OURS, "under-replicated-ms", "", "Value", under_replicated / 1000),
        Metric(OURS, "leaderless-ms", "", "Value", leaderless / 1000),
    ]


def _flapping(line: Timeline, seconds: float) -> list[Metric]:
    """Return membership changes per replica and minute with their reasons, and return gaps."""
    changes = [
        change
        for key in line.user_partitions()
        for change in line.changes(key)
        if change.t_us >= line.ready_us
    ]
    per: dict[tuple[Key, int], list[MembershipChange]] = {}
    for change in changes:
        per.setdefault(((change.topic_id, change.partition), change.replica), []).append(change)
    found = []
    for (key, replica), mine in sorted(per.items(), key=lambda i: (line.name(i[0][0]), i[0][1])):
        tags = f"{line.name(key)},replica={replica}"
        rate = round(len(mine) * 60 / seconds, 3)
        found.append(Metric(OURS, "isr-flaps-per-minute", tags, "Value", rate))
        for reason in sorted({change.reason for change in mine}):
            count = sum(change.reason == reason for change in mine)
            found.append(Metric(OURS, "isr-flaps", f"{tags},reason={reason}", "Count", count))
        for number, gap in enumerate(gaps(mine)):
            tagged = f"{tags},gap={number}"
            found.append(Metric(OURS, "isr-shrink-to-expand-ms", tagged, "Value", gap / 1000))
    found.append(Metric(OURS, "isr-flaps", "", "Count", len(changes)))
    return found


def gaps(changes: Sequence[MembershipChange]) -> list[int]:
    """Return how long one replica stayed out of an ISR, each time it came back."""
    found = []
    left: int | None = None
    for change in changes:
        if not change.joined:
            left = change.t_us
        elif left is not None:
            found.append(change.t_us - left)
            left = None
    return found


def percentile(ordered: Sequence[int], percent: int) -> int | None:
    """Return the nearest-rank percentile of sorted values, None of nothing."""
    if not ordered:
        return None
    rank = -(-len(ordered) * percent // 100)
    return ordered[max(1, rank) - 1]
