"""DynamicBrokerConfig: the settings of a broker with the metadata's dynamic ones on top.

Kafka's class of that name reconfigures the parts of a broker one by one. Here the parts read
:attr:`DynamicBrokerConfig.current` when they need a setting.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafkasim.model.config import ConfigError, check_segment_bytes
from kafkasim.model.replication.quotas.replication_quota import ReplicationQuotas

if TYPE_CHECKING:
    from kafkasim.model.config import BrokerConfig, TopicConfig
    from kafkasim.model.controller.common.image import MetadataImage


class DynamicBrokerConfig:
    """The settings in force, and the replication throttles that follow from them.

    ``internal_segment_bytes`` says that topics may have the setting of that name. To a broker of an
    earlier release it is an unknown key, which LogConfig ignores.
    """

    __slots__ = (
        "_broker_id",
        "_image",
        "_internal_segment_bytes",
        "_static",
        "current",
        "quotas",
    )

    def __init__(
        self,
        static: BrokerConfig,
        image: MetadataImage,
        broker_id: int,
        internal_segment_bytes: bool,
    ) -> None:
        self._static = static
        self._image = image
        self._broker_id = broker_id
        self._internal_segment_bytes = internal_segment_bytes
        self.current = static
        self.quotas = ReplicationQuotas(static, broker_id)

    def topic(self, name: str) -> TopicConfig:
        """Return the settings of a topic: its own, else the broker's."""
        return self.topic_config(self._image.configs.get(name, {}))

    def topic_config(self, overrides: Mapping[str, Any]) -> TopicConfig:
        """Return a topic's settings: ``overrides``, else the broker's."""
        if "internal.segment.bytes" in overrides and not self._internal_segment_bytes:
            known = {
                key: each for key, each in overrides.items() if key != "internal.segment.bytes"
            }
            return self.current.topic_config(known)
        return self.current.topic_config(overrides)

    def problem(self) -> str:
        """Return what keeps the broker from loading its logs; "" if nothing does.

        A broker of 4.1 takes no segment.bytes of less than 1 MiB, on whichever brokers the topic is
        (LogManager.fetchTopicConfigOverrides, in startup). Left out: one that runs already, and
        gets such a setting from a controller of 4.0, keeps the settings of before, or cannot create
        the log. Here it uses the new ones.
        """
        for name, overrides in self._image.configs.items():
            try:
                if self._internal_segment_bytes:
                    check_segment_bytes(overrides, internal=True)
            except ConfigError as error:
                return f"topic {name}: {error}"
        return ""

    def update(self) -> None:
        """Take over the broker's dynamic settings in the metadata."""
        dynamic = self._image.dynamic_config(self._broker_id)
        known = self._static.properties()  # what Kafka does not know, it stores and ignores
        self.current = self._static.with_properties(
            {key: text for key, text in dynamic.items() if key in known}
        )
        self.quotas.update(self.current)
