"""Check a whole scenario, table after table.

Each mistake raises ValueError; its one line begins with the key's path and ends with what is
allowed.
"""

from __future__ import annotations

from kafkasim.analysis.judging.finding import ANOMALIES, NO_PROGRESS
from kafkasim.scenarios.language.checks.access import check_access
from kafkasim.scenarios.language.checks.allowed import meant, some
from kafkasim.scenarios.language.checks.cluster_tables import check_clusters
from kafkasim.scenarios.language.checks.fault_tables import check_faults
from kafkasim.scenarios.language.checks.operation_tables import check_operations
from kafkasim.scenarios.language.checks.server_tables import (
    check_configs,
    check_mode,
    check_topics,
)
from kafkasim.scenarios.language.checks.workload_tables import check_workloads
from kafkasim.scenarios.language.nodes import node_names
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.language.vocabulary import OBSERVATIONS


def check(scenario: Scenario) -> None:
    """Check that the tables of a scenario agree with each other.

    Raises:
        ValueError: for the first mistake.
    """
    if scenario.clusters:
        check_clusters(scenario, check)
        return
    for key in ("links", "mirrors"):
        if getattr(scenario, key):
            raise ValueError(f"{key}: are between several clusters; write [[clusters]]")
    nodes = node_names(scenario)
    check_mode(scenario)
    check_topics(scenario)
    check_configs(scenario, nodes)
    check_access(scenario)
    check_workloads(scenario)
    if scenario.streams:
        from kafkasim.scenarios.language.checks.streams_tables import check_streams

        check_streams(scenario)
    check_faults(scenario, nodes)
    check_operations(scenario, nodes)
    _check_permits(scenario)
    _check_observations(scenario)


def _check_permits(scenario: Scenario) -> None:
    topics = [topic.name for topic in scenario.topics]
    for name in scenario.expect.permits:
        anomaly, colon, topic = name.partition(":")
        if anomaly not in (*ANOMALIES, NO_PROGRESS):
            known = meant(anomaly, (*ANOMALIES, NO_PROGRESS))
            raise ValueError(f"expect.permits: no anomaly {anomaly!r}; {known}")
        if colon and topic not in topics:
            raise ValueError(f"expect.permits: no topic {topic!r}; allowed: {some(topics)}")


def _check_observations(scenario: Scenario) -> None:
    expect = scenario.expect
    for key, names in (
        ("must-see", expect.must_see),
        ("in-time", expect.in_time),
        ("fleet-must-see", expect.fleet_must_see),
        ("never", expect.never),
    ):
        for name in names:
            if name == NO_PROGRESS and key == "must-see":
                continue
            if name.partition(":")[0] not in OBSERVATIONS:
                told = meant(name.partition(":")[0], OBSERVATIONS)
                raise ValueError(f"expect.{key}: no observation {name!r}; {told}")
