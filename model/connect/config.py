"""The settings of one flow of MirrorMaker 2 (MirrorConnectorConfig and its subclasses)."""

from __future__ import annotations

from dataclasses import dataclass

from kafkasim.model.config.base import MAX_INT, Config, long, setting
from kafkasim.model.connect.policies import POLICIES, DefaultReplicationPolicy


@dataclass(frozen=True)
class MirrorConfig(Config):
    """What a dedicated MirrorMaker is told of a flow A→B."""

    topics: str = setting(".*")  # expressions, separated by commas
    groups: str = setting(".*")
    replication_policy_class: str = setting(
        "org.apache.kafka.connect.mirror.DefaultReplicationPolicy", allowed=tuple(POLICIES)
    )
    replication_policy_separator: str = setting(".")
    replication_factor: int = setting(2, 1)  # of mirrored topics
    offset_lag_max: int = long(100, 0)
    emit_checkpoints_enabled: bool = setting(True)
    emit_checkpoints_interval_seconds: int = long(60, 1)
    sync_group_offsets_enabled: bool = setting(False)
    sync_group_offsets_interval_seconds: int = long(60, 1)
    refresh_topics_interval_seconds: int = long(600, 1)
    refresh_groups_interval_seconds: int = long(600, 1)
    offset_flush_interval_ms: int = long(60000, 1)
    offset_syncs_topic_replication_factor: int = setting(3, 1, MAX_INT)
    checkpoints_topic_replication_factor: int = setting(3, 1, MAX_INT)
    offset_storage_replication_factor: int = setting(3, 1, MAX_INT)

    @property
    def policy(self) -> DefaultReplicationPolicy:
        """What mirrored topics are called."""
        return POLICIES[self.replication_policy_class](self.replication_policy_separator)
