"""The settings of a scenario's share groups: the members', the groups', and the brokers'."""

from __future__ import annotations

from typing import Any

from kafkasim.model.config import BrokerConfig
from kafkasim.model.messages.clients.admin import AlterableConfig
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.node_settings import properties_text
from kafkasim.scenarios.variants.releases import CONSUMER

OF_OTHER_CONSUMERS = (
    "auto.offset.reset", "enable.auto.commit", "group.instance.id", "isolation.level",
    "partition.assignment.strategy", "session.timeout.ms", "heartbeat.interval.ms",
    "group.protocol", "group.remote.assignor",
)  # fmt: skip


def share_defaults(version: str) -> dict[str, Any]:
    """Return the defaults of a release that differ from the model's, for a share consumer."""
    return {
        key: default
        for key, default in CONSUMER.get(version, {}).items()
        if key not in OF_OTHER_CONSUMERS
    }


def group_settings(scenario: Scenario) -> tuple[AlterableConfig, ...]:
    """Return the settings that an operator gives the share groups before they start."""
    return tuple(
        [
            AlterableConfig("group", workload.group, properties_text(workload.group_config))
            for workload in scenario.workload
            if workload.kind == "share-group" and workload.group_config
        ]
    )


def delivery_limit(scenario: Scenario) -> int:
    """Return the brokers' group.share.delivery.count.limit."""
    config = BrokerConfig.from_properties(scenario.cluster.config)
    return config.group_share_delivery_count_limit
