"""What the group coordinators of real Kafka have written, as text."""

from __future__ import annotations

from kafkasim.model.records import GROUP_METADATA_TOPIC
from tests.fidelity.playing.clients import StoredLogs
from tests.fidelity.playing.groups.history import GroupHistory
from tests.fidelity.playing.groups.log import GroupLogReader


def group_history(logs: StoredLogs) -> list[str]:
    """Return the text of the only partition of ``__consumer_offsets``."""
    ends = {
        (topic, number): logs.end(topic, number)
        for topic in logs.topics.values()
        for number in logs.numbers(topic)
    }
    entries = GroupLogReader(logs.libs).entries(logs.segment(GROUP_METADATA_TOPIC, 0))
    return GroupHistory(logs.topics, ends).lines(entries)
