"""Which groups of a scenario do something outside Kafka, or by an application of the user."""

from __future__ import annotations

from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.client_hosts import produced_topic


def own_groups(scenario: Scenario) -> list[str]:
    """Return the groups whose members are a user's application."""
    return [
        workload.group
        for workload in scenario.workload
        if workload.kind == "consumer-group" and workload.app is not None
    ]


def outputs(scenario: Scenario) -> dict[str, str]:
    """Return the topic of the outputs of each such group that names one."""
    return {
        workload.group: workload.output
        for workload in scenario.workload
        if workload.kind == "consumer-group" and workload.output is not None
    }


def topic_names(scenario: Scenario) -> list[str]:
    """Return the names of all topics that a scenario has or whose creation it asks for."""
    asked = [each.topic for each in scenario.operations if each.topic is not None]
    internal: list[str] = []
    if scenario.streams:
        from kafkasim.scenarios.running.streaming import internal_topics

        internal = [topic for table in scenario.streams for topic in internal_topics(table)]
    return [*[topic.name for topic in scenario.topics], *asked, *internal]


def audited(scenario: Scenario) -> tuple[str, ...]:
    """Return the topics of which producers publish how many records they have sent."""
    return tuple(
        produced_topic(workload, scenario)
        for workload in scenario.workload
        if workload.kind == "producer" and workload.audit is not None
    )
