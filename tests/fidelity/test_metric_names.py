"""What ``kafkasim metrics`` prints has the JMX names of real Kafka.

``metrics/VERSION.txt`` has the objects of a real controller, broker and clients, with their
attributes. What Kafka does not have stands under ``kafkasim``.
"""

from __future__ import annotations

import pytest

from kafkasim.analysis.figures import metrics, stream_metrics
from kafkasim.analysis.figures.metrics import Metric
from kafkasim.model import facts, messages
from kafkasim.model.messages import request_name
from tests.analysis.analysis_rows import Case, T, acked, changed, dicts, end, topic
from tests.fidelity.kafka_metrics import VERSIONS, committed

OF_CLIENTS = (metrics.CONSUMER, metrics.COORDINATOR, metrics.PRODUCER)
"""Objects of clients: there a metric is an attribute."""

OF_STREAMS = (stream_metrics.CLIENT, stream_metrics.THREAD, stream_metrics.TASK)
"""The same of Kafka Streams; the tags are the object's keys. Newer ones have a process-id, too."""

EVERYTHING: Case = [
    topic(),
    changed((1, 2, 3), 0, reason="created"),
    ("world", facts.Phase("ready", "")),
    ("broker-1", facts.HostStarted(0)),
    ("broker-1", facts.LogPlaced(T, 0, "/d1")),
    ("broker-1", facts.LogDirOffline("/d1", "id", "I/O error")),
    ("broker-1", facts.IsrChanged(T, 0, 1, 1, "shrink", (3,), (1, 2))),
    ("broker-1", facts.IsrUpdateFailed(T, 0, 0, "INVALID_REQUEST")),
    changed((1, 2), 1, reason="lag"),
    changed((1, 2, 3), 2, reason="caught-up"),
    ("broker-1", facts.RequestStats("Produce", 3, 1, 9000, 300, 600, 8000, 100, 0, 5000)),
    ("broker-1", facts.Throttled("p", "Produce", 500, "u", "producer_byte_rate", "5", 1)),
    ("broker-1", facts.Throttled("c", "Fetch", 700, "u", "consumer_byte_rate", "5", 1)),
    acked(0, 1),
    ("p", facts.SendFailed(T, 0, (2,), "REQUEST_TIMED_OUT", True, 9_000, 4)),
    ("c", facts.Polled("g", "m1", T, 0, 3, 10, (), ())),
    ("c", facts.Rebalanced("g", "m1", 1, 3_000_000)),
    ("c", facts.ConsumerAssigned("g", "m1", 1, ("orders-0",))),
    ("c", facts.ConsumerRevoked("g", "m1", 1, ("orders-0",), False)),
    ("s", facts.StreamThreadState("app", 1, "RUNNING", "")),
    ("s", facts.TaskState("app", 1, "0_0", "active", "RUNNING", "restored")),
    ("s", facts.TaskTook("app", 1, "0_0", "orders", 0, 0, "null", "1", 5, 6)),
    ("s", facts.RecordDropped("app", "0_0", "N", "null-key", "orders", 0, 0)),
    ("s", facts.TaskFlushed("app", 1, "0_0", ("orders-0@1",))),
    ("s", facts.TaskCommitted("app", 1, "0_0", ("orders-0@1",))),
    ("s", facts.Restored("app", 1, "0_0", "active", "log", 0, 0, 2, 2, 20)),
    ("s", facts.Restored("app", 1, "0_1", "standby", "log", 1, 0, 2, 2, 20)),
    end(),
]
"""Facts of every kind that becomes a metric."""


def printed() -> list[Metric]:
    """Return a metric of every name that ``kafkasim metrics`` can print."""
    return metrics.measure("run", dicts(EVERYTHING)).metrics


def unknown(found: list[Metric], version: str) -> list[str]:
    """Return the metrics that no process of a version of Kafka has."""
    by_role, _ = committed(version)
    objects = {name: of for role in by_role.values() for name, of in role.items()}
    missing = []
    for each in found:
        if each.object == metrics.OURS:
            continue
        if each.object in OF_CLIENTS:
            name, attribute = f"{each.object},client-id=*", each.name
        elif each.object in OF_STREAMS:
            name, attribute = _of_streams(each, objects), each.name
        else:
            name, attribute = _named(each, list(objects)), each.attribute
        if attribute not in objects.get(name, ()):
            missing.append(f"{name} {attribute}")
    return sorted(dict.fromkeys(missing))


def _of_streams(metric: Metric, objects: dict[str, tuple[str, ...]]) -> str:
    """Return the object that has a metric of Kafka Streams, with at least the metric's tags."""
    keys = {tag.partition("=")[0] for tag in metric.tags.split(",")}
    for name, attributes in objects.items():
        kind, *found = name.split(",")
        has = {each.partition("=")[0] for each in found}
        if kind == metric.object and metric.name in attributes and keys <= has:
            return name
    return metric.object


def _named(metric: Metric, objects: list[str]) -> str:
    """Return the object of a metric, with the keys that tell it apart from others."""
    name = f"{metric.object},name={metric.name}"
    return next((each for each in objects if each == name or each.startswith(f"{name},")), name)


@pytest.mark.parametrize("version", VERSIONS)
def test_every_metric_has_kafkas_name(version: str) -> None:
    assert unknown(printed(), version) == []


def test_every_fact_that_becomes_a_metric_is_told() -> None:
    told = {type(fact).__name__ for _, fact in EVERYTHING}
    silent = {"HostPaused", "HostResumed", "HostStopped", "FaultStarted", "FaultEnded"}
    always = {"BrokerRegistration", "ControllerActive"}  # counted also when there is none
    assert set(metrics.KINDS) - told == silent | always


def test_a_wrong_object_name_or_attribute_is_found() -> None:
    wrong = [
        Metric(metrics.REPLICA_MANAGER, "LeaderCounts", "broker-1", "Value", 1),
        Metric(metrics.REPLICA_MANAGER, "LeaderCount", "broker-1", "Count", 1),
        Metric(metrics.CONTROLLER_STATS, "LeaderCount", "", "Value", 1),
        Metric(metrics.PRODUCER, "request-latency", "", "50thPercentile", 1),
        Metric(metrics.REPLICA_MANAGER, "LeaderCount", "broker-1", "Value", 1),
    ]
    assert len(unknown(wrong, "4.0.0")) == 4


def test_requests_have_kafkas_names() -> None:
    known = {
        name for version in VERSIONS for names in committed(version)[1].values() for name in names
    }
    own = {
        request_name_of(name)
        for name in messages.__all__
        if name.endswith("Request") and not name.startswith("Zk")
    }
    assert own - known == {"RaftFetch"}  # between controllers, where no metric counts requests


def request_name_of(name: str) -> str:
    """Return what a message class's requests are called in metrics."""
    made = object.__new__(getattr(messages, name))
    if name == "FetchRequest":
        return "Fetch"
    return request_name(made)
