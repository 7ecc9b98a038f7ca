"""Check the workloads: their topics exist, their properties are Kafka's."""

from __future__ import annotations

from kafkasim.model.config import ConsumerConfig, ProducerConfig
from kafkasim.scenarios.language.checks.allowed import check_properties, some
from kafkasim.scenarios.language.tables import Scenario


def check_workloads(scenario: Scenario) -> None:
    """Check every workload.

    Raises:
        ValueError: for the first mistake.
    """
    topics = [topic.name for topic in scenario.topics]
    for index, workload in enumerate(scenario.workload):
        place = f"workload.{index}"
        if not topics:
            raise ValueError(f"{place}: there is no topic; add a [[topics]] table")
        if workload.kind == "producer":
            named = [workload.topic] if workload.topic is not None else []
            key = f"{place}.topic"
            check_properties(f"{place}.config", ProducerConfig, workload.config)
        else:
            named, key = workload.topics, f"{place}.topics"
            check_properties(f"{place}.config", ConsumerConfig, workload.config)
        for name in named:
            if name not in topics:
                raise ValueError(f"{key}: no topic {name!r}; allowed: {some(topics)}")
