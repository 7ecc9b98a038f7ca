"""The JMX objects that real brokers, controllers and clients have (java/MetricNames.java).

Those of Kafka Streams are told by an instance that is not started (java/StreamsMetricNames.java).
"""

from __future__ import annotations

import tempfile
from pathlib import Path

from tests.fidelity.conversations.talk import Talk
from tests.fidelity.kafka_topologies import ARTIFACT
from tests.fidelity.real_kafka import CONTROLLER, fetched, run_java, running
from tests.fidelity.real_zookeeper import VERSION as ZOOKEEPER
from tests.fidelity.real_zookeeper import cluster_of
from tests.fidelity.sides import SETTINGS, RealSide

HERE = Path(__file__).parent
VERSIONS = ("4.0.0", "4.1.0", ZOOKEEPER)


def ask(version: str) -> list[str]:
    """Return a line for each JMX object of the controller, of a leading broker, of clients."""
    with tempfile.TemporaryDirectory(prefix="kafkasim-fidelity-") as scratch:
        cluster = cluster_of(version, Path(scratch), SETTINGS)
        with running(cluster):
            talk = Talk(RealSide(cluster), "metrics")
            talk.create("measured")
            talk.coordinator("metrics")
            bootstrap = f"127.0.0.1:{cluster.ports[1]}"
            lines = _names(cluster.libs, "client", bootstrap, "measured")
            nodes = {"broker": 1, "controller": CONTROLLER}
            for role, node in nodes.items():
                if node in cluster.processes:  # in ZooKeeper mode a broker is the controller
                    lines += _names(cluster.libs, role, str(cluster.processes[node].pid))
            return [*lines, *streams(version)]


def streams(version: str) -> list[str]:
    """Return the lines of an instance of Kafka Streams, and of a task."""
    libs = fetched(ARTIFACT, version.removesuffix("-zookeeper"))
    return run_java(libs, HERE / "java" / "StreamsMetricNames.java")


def committed(version: str) -> tuple[dict[str, dict[str, tuple[str, ...]]], dict[str, list[str]]]:
    """Return the committed objects by role (attributes by object), and the requests by role."""
    objects: dict[str, dict[str, tuple[str, ...]]] = {}
    requests: dict[str, list[str]] = {}
    for row in (HERE / "metrics" / f"{version}.txt").read_text().splitlines():
        role, name, attributes = row.split(" | ")
        if name == "requests":
            requests[role] = attributes.split(",")
        else:
            objects.setdefault(role, {})[name] = tuple(attributes.split(","))
    return objects, requests


def _names(libs: Path, *arguments: str) -> list[str]:
    return run_java(libs, HERE / "java" / "MetricNames.java", *arguments)
