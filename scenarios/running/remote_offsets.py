"""How an application goes on where its group was in another cluster (RemoteClusterUtils).

``translateOffsets`` reads the checkpoints that a mirror has left in this cluster, and the
application commits for the group what they say, before its members join.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.connect.policies import DefaultReplicationPolicy
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.running.mirroring import read_to_end
from kafkasim.sim.apps.client_port import ClientPort

REMOTE = "remote"
"""The client that reads the checkpoints; it is in no group."""


async def commit_remote_offsets(
    port: ClientPort, group: str, source: str, said: Mapping[int, Any]
) -> None:
    """Commit a group's translated offsets; ``said`` is what mirrors have written, by record id.

    A group that has members keeps its own offsets: the coordinator refuses the commit.
    """
    offsets: dict[TopicPartition, int] = {}

    def take(record_id: int) -> None:
        checkpoint = said[record_id]
        if checkpoint.group == group:
            offsets[checkpoint.tp] = checkpoint.down

    await read_to_end(port, REMOTE, DefaultReplicationPolicy().checkpoints_topic(source), take)
    if offsets:
        try:
            await port.call("consumer.commit_sync", offsets)
        except KafkaError as error:
            if error.error != "UNKNOWN_MEMBER_ID":
                raise
