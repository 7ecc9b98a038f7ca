"""Hypothesis strategies for clusters, configurations, workloads and schedules of faults.

    from hypothesis import given
    import kafkasim
    from kafkasim import strategies

    @given(strategies.scenarios())
    def test_nothing_acknowledged_is_lost(scenario):
        assert kafkasim.run(scenario).verdict != "fail"

Every strategy draws the tables of the scenario language as plain data, and every scenario that
:func:`scenarios` draws is valid. Timeouts are seconds, so that a run of some seconds sees sessions
end and leaders move. Faults are guarded by default: one that would cost more than Kafka promises
to survive does not start. Hypothesis is needed: ``pip install 'kafkasim[testing]'``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy

from kafkasim.scenarios.language.nodes import node_names
from kafkasim.scenarios.language.spec import parse
from kafkasim.sim.faults.kinds import KINDS, Allowed
from kafkasim.sim.faults.nemesis import PURPOSES, WEIGHTS

__all__ = [
    "broker_configs", "clusters", "consumer_groups", "faults", "producers", "scenarios", "topics",
]  # fmt: skip

Data = dict[str, Any]

BROKER: Mapping[str, Sequence[Any]] = {
    "replica.lag.time.max.ms": (1000, 1500, 3000, 10_000),
    "broker.session.timeout.ms": (2000, 3000, 6000),
    "broker.heartbeat.interval.ms": (300, 500),
    "replica.fetch.wait.max.ms": (100, 500),
    "replica.socket.timeout.ms": (2000, 30_000),
    "replica.high.watermark.checkpoint.interval.ms": (500, 5000),
    "log.flush.interval.messages": (1, 10, 9_223_372_036_854_775_807),
    "num.io.threads": (1, 8),
}
"""Properties of brokers that move when replicas fall behind, and the values that are drawn."""

SMALL = {
    "group.initial.rebalance.delay.ms": 0,
    "group.min.session.timeout.ms": 1000,
    "offsets.topic.num.partitions": 1,
}
"""Properties that every drawn cluster has, so that short runs do not wait for nothing."""

PARAMETERS: Mapping[str, SearchStrategy[Any]] = {
    "extra-us": st.integers(1, 500).map(lambda ms: f"{ms}ms"),
    "offset-us": st.sampled_from(("-10s", "-1s", "1s", "10s")),
    "ppm": st.integers(-200, 200),
    "purpose": st.sampled_from(PURPOSES),
    "api": st.sampled_from(("Fetch", "Produce", "AlterPartition", "OffsetCommit", "JoinGroup")),
}
"""Parameters of faults whose sensible values are fewer than the allowed ones."""

KEYS = {"extra-us": "extra", "offset-us": "offset"}


def broker_configs(properties: Mapping[str, Sequence[Any]] = BROKER) -> SearchStrategy[Data]:
    """Draw server properties: any of ``properties``, each with one of its values."""
    drawn = {name: st.sampled_from(tuple(values)) for name, values in properties.items()}
    return st.fixed_dictionaries({}, optional=drawn).map(lambda some: {**SMALL, **some})


@st.composite
def clusters(
    draw: st.DrawFn,
    *,
    mode: str | None = None,
    brokers: SearchStrategy[int] | None = None,
    config: SearchStrategy[Data] | None = None,
) -> Data:
    """Draw a ``[cluster]`` table: KRaft or ZooKeeper, with two to five brokers by default."""
    chosen = mode or draw(st.sampled_from(("kraft", "zookeeper")))
    table: Data = {
        "mode": chosen,
        "brokers": draw(st.integers(2, 5) if brokers is None else brokers),
        "config": draw(broker_configs() if config is None else config),
    }
    servers = "controllers" if chosen == "kraft" else "zookeepers"
    table[servers] = draw(st.sampled_from((1, 3)))
    if chosen == "zookeeper":
        table["config"].pop("broker.session.timeout.ms", None)
        table["config"].pop("broker.heartbeat.interval.ms", None)
    factor = min(3, table["brokers"])
    table["config"]["offsets.topic.replication.factor"] = factor
    return table


@st.composite
def topics(draw: st.DrawFn, cluster: Data, name: str = "orders") -> Data:
    """Draw a ``[[topics]]`` table whose replicas the cluster can have."""
    factor = draw(st.integers(1, min(3, cluster["brokers"])))
    return {
        "name": name,
        "partitions": draw(st.integers(1, 3)),
        "replication-factor": factor,
        "config": {"min.insync.replicas": draw(st.integers(1, min(2, factor)))},
    }


@st.composite
def producers(draw: st.DrawFn, acks: Sequence[str] = ("all",)) -> Data:
    """Draw a workload of producers; ``acks`` are those to choose from."""
    return {
        "kind": "producer",
        "count": draw(st.integers(1, 2)),
        "rate": f"{draw(st.sampled_from((3, 10, 30)))}/s",
        "keys": draw(st.sampled_from(("none", "uniform:5"))),
        "config": {
            "acks": draw(st.sampled_from(tuple(acks))),
            "linger.ms": draw(st.sampled_from((0, 5, 100))),
            "request.timeout.ms": 2000,
            "delivery.timeout.ms": 15_000,
            "metadata.max.age.ms": 5000,
        },
    }


@st.composite
def consumer_groups(draw: st.DrawFn, group: str = "group") -> Data:
    """Draw a consumer group that commits after processing."""
    session = draw(st.sampled_from((1500, 3000, 6000)))
    return {
        "kind": "consumer-group",
        "group": group,
        "count": draw(st.integers(1, 3)),
        "commit": draw(st.sampled_from(("sync", "async"))),
        "config": {
            "session.timeout.ms": session,
            "heartbeat.interval.ms": session // 3,
            "auto.offset.reset": "earliest",
            "request.timeout.ms": 2000,
            "default.api.timeout.ms": 5000,
            "metadata.max.age.ms": 5000,
            "max.poll.interval.ms": 10_000,
        },
    }


@st.composite
def faults(
    draw: st.DrawFn,
    scenario: Mapping[str, Any],
    *,
    kinds: Sequence[str] = tuple(WEIGHTS),
    until_ms: int = 4000,
    guarded: bool = True,
) -> Data:
    """Draw a ``[[faults]]`` table that hits a host of the scenario before ``until_ms``.

    ``kinds`` are those to choose from; by default all that a nemesis draws. With ``guarded`` a
    fault does not start that would leave the no-loss budget.
    """
    kind = draw(st.sampled_from(tuple(kinds)))
    spec = KINDS[kind]
    nodes = node_names(parse({**scenario, "faults": []}, "the scenario"))
    servers = [name for name in nodes if not name.startswith(("producer-", "consumer-"))]
    table: Data = {"kind": kind, "at": f"{draw(st.integers(0, until_ms))}ms", "guarded": guarded}
    if kind == "rack-loss":
        table["rack"] = draw(st.sampled_from(scenario["cluster"]["racks"]))
    else:
        table["node"] = draw(st.sampled_from(servers))
    if spec.link:
        others = [name for name in nodes if name != table["node"]]
        table["peers"] = [draw(st.sampled_from(others))]
    if spec.duration != "none":
        table["for"] = f"{draw(st.integers(100, until_ms))}ms"
    for name, allowed in spec.parameters.items():
        if allowed.required or (name in ("api", "direction", "purpose") and draw(st.booleans())):
            table[KEYS.get(name, name)] = draw(_parameter(name, allowed))
    return table


def _parameter(name: str, allowed: Allowed) -> SearchStrategy[Any]:
    """Return the values of a parameter: those written down here, else all that are allowed."""
    if name in PARAMETERS:
        return PARAMETERS[name]
    if allowed.choices:
        return st.sampled_from(allowed.choices)
    low = 0 if allowed.lowest is None else allowed.lowest
    high = low + 100 if allowed.highest is None else min(allowed.highest, low + 100)
    if allowed.type is int:
        return st.integers(int(low), int(high))
    return st.floats(low, high, allow_nan=False, width=32)


@st.composite
def scenarios(
    draw: st.DrawFn,
    *,
    mode: str | None = None,
    kinds: Sequence[str] = tuple(WEIGHTS),
    most_faults: int = 4,
    acks: Sequence[str] = ("all",),
) -> Data:
    """Draw a whole scenario, as :func:`kafkasim.run` takes it.

    A cluster, a topic, producers, a group and up to ``most_faults`` guarded faults. It permits that
    records are delivered again and, with another acks than all, that they are lost.
    """
    cluster = draw(clusters(mode=mode))
    producer = draw(producers(acks))
    lossy = producer["config"]["acks"] != "all"
    data: Data = {
        "name": "drawn",
        "claim": "Within the no-loss budget the cluster keeps its promises.",
        "duration": "5s",
        "cluster": cluster,
        "topics": [draw(topics(cluster))],
        "workload": [producer, draw(consumer_groups())],
        "expect": {
            "permits": ["duplicate", "offset-regression"]
            + ["lost-write", "unseen", "nonmonotonic-send"] * lossy
        },
    }
    some = st.lists(faults(data, kinds=kinds), max_size=most_faults)
    data["faults"] = draw(some)
    return data
