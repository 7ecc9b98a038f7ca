"""The settings of the old consumer (kafka.consumer.ConsumerConfig of Kafka 1.1)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from kafkasim.model.config.base import Config, ConfigError, setting


@dataclass(frozen=True)
class LegacyConsumerConfig(Config):
    """The settings of an old consumer, which keeps its group in ZooKeeper.

    fetch.max.bytes is left out because that consumer never read it, and offsets.storage=kafka with
    dual.commit.enabled and offsets.channel.* because it is not modelled.
    """

    zookeeper_connect: str = setting("")  # the ensemble: endpoints separated by commas
    group_id: str = setting("")
    client_id: str = setting("")
    zookeeper_session_timeout_ms: int = setting(6000, 1)  # without pings the consumer is gone
    # How long to wait for the first session; unless given, as long as a session lasts.
    zookeeper_connection_timeout_ms: int = setting(6000, 1)
    socket_timeout_ms: int = setting(30000, 1)  # of each request to a broker
    fetch_message_max_bytes: int = setting(1048576, 0)  # of one partition in a response
    fetch_min_bytes: int = setting(1, 0)  # a parked fetch is answered from this size on
    fetch_wait_max_ms: int = setting(100, 0)  # how long a broker may park a fetch
    queued_max_message_chunks: int = setting(2, 1)  # fetched and not read, for each topic
    auto_commit_enable: bool = setting(True)  # commit what the application has got
    auto_commit_interval_ms: int = setting(60000, 1)  # between two such commits
    auto_offset_reset: str = setting("largest", allowed=("largest", "smallest"))
    offsets_storage: str = setting("zookeeper", allowed=("zookeeper",), no_effect="the only one")
    rebalance_max_retries: int = setting(4, 0)  # attempts at a rebalance
    # Between two attempts; unless given, zookeeper.sync.time.ms.
    rebalance_backoff_ms: int = setting(2000, 0)
    zookeeper_sync_time_ms: int = setting(2000, 0)  # how far a ZooKeeper follower may be behind
    refresh_leader_backoff_ms: int = setting(200, 0)  # between two looks for leaders
    consumer_timeout_ms: int = setting(-1, -1)  # without a record for so long next() fails; −1 off
    partition_assignment_strategy: str = setting("range", allowed=("range", "roundrobin"))

    @classmethod
    def from_properties(cls, properties: Mapping[str, Any]) -> Self:
        """Return the configuration; some defaults follow from other settings.

        Raises:
            ConfigError: as in :meth:`Config.from_properties`.
        """
        alone = super().from_properties(properties)
        derived = {
            "zookeeper.connection.timeout.ms": alone.zookeeper_session_timeout_ms,
            "rebalance.backoff.ms": alone.zookeeper_sync_time_ms,
            "client.id": alone.group_id,
        }
        return super().from_properties({**derived, **properties})

    def validate(self) -> None:
        """Check that a broker may not park a fetch for longer than the socket waits.

        Raises:
            ConfigError: it may.
        """
        if self.fetch_wait_max_ms > self.socket_timeout_ms:
            raise ConfigError(
                "socket.timeout.ms",
                f"{self.socket_timeout_ms} is below fetch.wait.max.ms = {self.fetch_wait_max_ms}",
            )
