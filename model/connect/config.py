"""The settings of one flow of MirrorMaker 2 (MirrorConnectorConfig and its subclasses)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

from kafkasim.model.config.base import MAX_SHORT, long, setting
from kafkasim.model.connect.policies import (
    CONFIGS_EXCLUDED,
    EXCLUDED,
    GROUPS_EXCLUDED,
    POLICIES,
    DefaultReplicationPolicy,
    is_cycle,
    matches,
)
from kafkasim.model.connect.rules import MirrorRules
from kafkasim.model.connect.workers.config import WorkerConfig, WorkerSettings

SOURCE_CONSUMER, PRODUCER = "source.consumer.", "producer.override."
"""What is in front of the settings of clients: of those that read A, of the one that writes records
to B."""

FLUSH_MS = 5000
"""The default of offset.flush.timeout.ms."""

GRACEFUL_MS = 5000
"""The default of task.shutdown.graceful.timeout.ms."""


@dataclass(frozen=True)
class MirrorConfig(WorkerSettings):
    """What a dedicated MirrorMaker is told of a flow A→B, and of the workers that run it."""

    topics: str = setting(".*")  # expressions, separated by commas
    topics_exclude: str = setting(EXCLUDED)
    groups: str = setting(".*")
    groups_exclude: str = setting(GROUPS_EXCLUDED)
    replication_policy_class: str = setting(
        "org.apache.kafka.connect.mirror.DefaultReplicationPolicy", allowed=tuple(POLICIES)
    )
    replication_policy_separator: str = setting(".")
    replication_factor: int = setting(2, 1)  # of mirrored topics
    heartbeats_replication_enabled: bool = setting(True)
    sync_topic_configs_enabled: bool = setting(True)
    sync_topic_configs_interval_seconds: int = long(600, 1)
    config_properties_exclude: str = setting(CONFIGS_EXCLUDED)
    use_defaults_from: str = setting("target", allowed=("target", "source"))
    sync_topic_acls_enabled: bool = setting(True)
    sync_topic_acls_interval_seconds: int = long(600, 1)
    offset_lag_max: int = long(100, 0)
    emit_checkpoints_enabled: bool = setting(True)
    emit_checkpoints_interval_seconds: int = long(60, 1)
    emit_heartbeats_enabled: bool = setting(True)
    emit_heartbeats_interval_seconds: int = long(1, 1)
    sync_group_offsets_enabled: bool = setting(False)
    sync_group_offsets_interval_seconds: int = long(60, 1)
    refresh_topics_interval_seconds: int = long(600, 1)
    refresh_groups_interval_seconds: int = long(600, 1)
    offset_flush_interval_ms: int = long(60000, 1)
    offset_syncs_topic_location: str = setting(
        "source", allowed=("source", "target"), name="offset-syncs.topic.location"
    )
    offset_syncs_topic_replication_factor: int = setting(
        3, 1, MAX_SHORT, name="offset-syncs.topic.replication.factor"
    )
    checkpoints_topic_replication_factor: int = setting(3, 1, MAX_SHORT)
    heartbeats_topic_replication_factor: int = setting(3, 1, MAX_SHORT)
    offset_storage_replication_factor: int = setting(3, 1, MAX_SHORT)

    @property
    def policy(self) -> DefaultReplicationPolicy:
        """What mirrored topics are called."""
        return POLICIES[self.replication_policy_class](self.replication_policy_separator)

    @property
    def settled_ms(self) -> int:
        """How long a quiet flow takes at most until its checkpoints are final; 0: emits none.

        The group is found, offset syncs go with a commit of source offsets, a checkpoint follows.
        """
        seconds = self.refresh_groups_interval_seconds + self.emit_checkpoints_interval_seconds
        return (self.offset_flush_interval_ms + 1000 * seconds) * self.emit_checkpoints_enabled

    @property
    def zombie_ms(self) -> int:
        """How long a worker that has lost its group may run what others have been given.

        Its session ends, it looks for the coordinator, and its tasks stop.
        """
        return self.session_timeout_ms + self.heartbeat_interval_ms + GRACEFUL_MS

    @property
    def replay_ms(self) -> int:
        """How old an acknowledgement is at most whose record a task copies again.

        Source offsets are committed every offset.flush.interval.ms, within offset.flush.timeout.ms.
        """
        return self.offset_flush_interval_ms + FLUSH_MS

    def worker(self, group_id: str, client_id: str) -> WorkerConfig:
        """Return the settings of a worker's membership in its group."""
        kept = {each.name: getattr(self, each.name) for each in fields(WorkerSettings)}
        return WorkerConfig(group_id=group_id, client_id=client_id, **kept)

    def takes_topic(self, target: str, topic: str, rules: MirrorRules) -> bool:
        """Return whether a topic is mirrored (MirrorSourceConnector.shouldReplicateTopic)."""
        policy = self.policy
        wanted = matches(self.topics, topic) and not matches(self.topics_exclude, topic)
        beats = self.heartbeats_replication_enabled and policy.is_heartbeats(topic)
        return (
            (wanted or beats)
            and not rules.is_internal(topic)
            and not is_cycle(policy, target, topic)
        )

    def takes_group(self, group: str) -> bool:
        """Return whether a group has checkpoints (DefaultGroupFilter)."""
        return matches(self.groups, group) and not matches(self.groups_exclude, group)


def divided(properties: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """Return a flow's own properties, under "", and those of its clients, by their prefix."""
    found: dict[str, dict[str, Any]] = {"": {}, SOURCE_CONSUMER: {}, PRODUCER: {}}
    for key, each in properties.items():
        prefix = next((p for p in (SOURCE_CONSUMER, PRODUCER) if key.startswith(p)), "")
        found[prefix][key.removeprefix(prefix)] = each
    return found
