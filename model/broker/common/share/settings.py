"""The settings of share groups at a broker: its own, and those of each group (GroupConfigManager).

Kafka: ShareGroupConfig, GroupConfig, ShareFetchUtils.recordLockDurationMsOrDefault.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.config import ShareGroupSettings

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.image import MetadataImage


class ShareSettings:
    """What share partitions and share sessions are configured with."""

    def __init__(self, config: BrokerConfig, image: MetadataImage) -> None:
        self._image = image
        self._default_lock_ms = config.group_share_record_lock_duration_ms
        self.most_deliveries = config.group_share_delivery_count_limit
        self.most_in_flight = config.group_share_partition_max_record_locks
        self.max_sessions = config.group_share_max_share_sessions

    def group(self, group_id: str) -> ShareGroupSettings:
        """Return the settings of one group."""
        return ShareGroupSettings.from_properties(self._image.group_configs.get(group_id, {}))

    def lock_duration_ms(self, group_id: str) -> int:
        """Return how long a member of the group may hold a record."""
        own = self.group(group_id).share_record_lock_duration_ms
        return own if own > 0 else self._default_lock_ms
