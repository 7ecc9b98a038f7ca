"""Check the applications of Kafka Streams: their properties, topologies and input topics."""

from __future__ import annotations

from kafkasim.analysis.judging.user_processors import load_processor
from kafkasim.model.config import ConfigError
from kafkasim.model.config.streams import streams_settings
from kafkasim.model.streams.declared import topology_of
from kafkasim.scenarios.language.checks.allowed import some
from kafkasim.scenarios.language.tables import Scenario, StreamsTable


def check_streams(scenario: Scenario) -> None:
    """Check every application.

    Raises:
        ValueError: for the first mistake.
    """
    topics = [topic.name for topic in scenario.topics]
    later = [o.topic for o in scenario.operations if o.kind == "create-topic" and o.topic]
    names: dict[str, None] = {}
    for index, table in enumerate(scenario.streams):
        place = f"streams.{index}"
        if table.application_id in names:
            told = f"{table.application_id!r} is that of another application"
            raise ValueError(f"{place}.application-id: {told}; allowed: one table for each")
        names[table.application_id] = None
        _check(place, table, [*topics, *later])


def _check(place: str, table: StreamsTable, topics: list[str]) -> None:
    try:
        settings = streams_settings(table.properties)
    except ConfigError as error:
        raise ValueError(f"{place}.config.{error}") from None
    static = settings.consumer.get("group.instance.id", "")
    if static and table.count > 1 and "{node}" not in static:
        told = f"{static!r} is that of every instance"
        raise ValueError(f"{place}.config.group.instance.id: {told}; allowed: a text with {{node}}")
    topology = topology_of(table.topology, f"{place}.topology", load_processor)
    for each in topology.subtopologies(table.application_id):
        for topic in each.source_topics:
            if topic not in each.repartition_topics and topic not in topics:
                raise ValueError(f"{place}.topology: no topic {topic!r}; allowed: {some(topics)}")
