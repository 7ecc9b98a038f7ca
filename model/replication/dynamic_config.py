"""DynamicBrokerConfig: the settings of a broker with the metadata's dynamic ones on top.

Kafka's class of that name reconfigures the parts of a broker one by one. Here the parts read
:attr:`DynamicBrokerConfig.current` when they need a setting.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.replication.quota import ReplicationQuotas

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig, TopicConfig
    from kafkasim.model.controller.common.image import MetadataImage


class DynamicBrokerConfig:
    """The settings in force, and the replication throttles that follow from them."""

    __slots__ = ("_broker_id", "_image", "_static", "current", "quotas")

    def __init__(self, static: BrokerConfig, image: MetadataImage, broker_id: int) -> None:
        self._static = static
        self._image = image
        self._broker_id = broker_id
        self.current = static
        self.quotas = ReplicationQuotas(static, broker_id)

    def topic(self, name: str) -> TopicConfig:
        """Return the settings of a topic: its own, else the broker's."""
        return self.current.topic_config(self._image.configs.get(name, {}))

    def update(self) -> None:
        """Take over the broker's dynamic settings in the metadata."""
        dynamic = self._image.dynamic_config(self._broker_id)
        known = self._static.properties()  # what Kafka does not know, it stores and ignores
        self.current = self._static.with_properties(
            {key: text for key, text in dynamic.items() if key in known}
        )
        self.quotas.update(self.current)
