"""What instances of real Kafka Streams did and left behind, as text."""

from __future__ import annotations

from kafkasim.model.records import GROUP_METADATA_TOPIC
from tests.fidelity.playing.clients import STREAMS_ARTIFACT, StoredLogs, state_directory
from tests.fidelity.playing.streams.history import StreamsHistory, partitions_of
from tests.fidelity.playing.streams.log import (
    DataLog,
    StreamsLogReader,
    stored_batches,
    stored_checkpoints,
    stored_events,
)
from tests.fidelity.real_kafka import fetched


def streams_history(logs: StoredLogs) -> list[str]:
    """Return the text of the group's log, of all instances, their disks, and the partitions."""
    nodes = logs.nodes
    (table,) = nodes.scenario.streams
    instances = [f"streams-{number}" for number in range(1, table.count + 1)]
    data = {
        f"{topic}-{number}": DataLog(stored_batches(logs.segment(topic, number)))
        for topic, number in partitions_of({t: logs.numbers(t) for t in logs.topics.values()})
    }
    reader = StreamsLogReader(logs.libs, fetched(STREAMS_ARTIFACT, nodes.version))
    entries = reader.entries(logs.segment(GROUP_METADATA_TOPIC, 0))
    events = [event for name in instances for event in stored_events(name, nodes.log_file(name))]
    checkpoints = {
        name: stored_checkpoints(state_directory(nodes.directory, name) / table.application_id)
        for name in instances
    }
    return StreamsHistory(logs.topics, data).lines(entries, events, checkpoints)
