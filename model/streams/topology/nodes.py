"""The nodes of a topology and its stores, as data (NodeFactory, StoreFactory)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from kafkasim.model.streams.processors.context import Supplier

ADDITIONAL_RETENTION_MS = 86_400_000
"""windowstore.changelog.additional.retention.ms."""


class TopologyError(ValueError):
    """A topology that Kafka refuses (TopologyException, IllegalArgumentException)."""


class StoreKind(Enum):
    """What a store keeps, and by which keys."""

    KEY_VALUE = "key-value"  # timestamped: key -> ValueAndTimestamp
    PLAIN = "plain"  # key -> value, for a user's own processors
    WINDOW = "window"  # timestamped: (key, window start) -> ValueAndTimestamp
    SESSION = "session"  # (key, start, end) -> value
    JOIN_WINDOW = "join-window"  # one side of a stream-stream join: duplicates are kept
    OUTER_JOIN = "outer-join"  # (time, side, key) -> values that found no partner yet
    SUPPRESSION = "suppression"  # the buffer of suppress(), in memory


@dataclass(frozen=True, slots=True)
class StoreSpec:
    """A state store: what the runtime needs to make it, and to make its changelog."""

    name: str
    kind: StoreKind
    retention_ms: int = 0  # of the three windowed kinds
    window_size_ms: int = 0
    cached: bool = False
    logged: bool = True
    time_ordered: bool = False  # fetch_all goes by time: stores of emit-on-window-close

    @property
    def windowed(self) -> bool:
        """Whether the store forgets what is older than its retention."""
        return self.kind in (StoreKind.WINDOW, StoreKind.SESSION, StoreKind.JOIN_WINDOW)

    @property
    def persistent(self) -> bool:
        """Whether the store is on disk (RocksDB); suppress() keeps its buffer in memory."""
        return self.kind is not StoreKind.SUPPRESSION

    def changelog_configs(self) -> dict[str, str]:
        """Return the settings of the changelog topic (InternalTopicConfig.properties)."""
        configs = {"message.timestamp.type": "CreateTime", "cleanup.policy": "compact"}
        if self.windowed:
            configs["cleanup.policy"] = "compact,delete"
            configs["retention.ms"] = str(self.retention_ms + ADDITIONAL_RETENTION_MS)
        if self.kind is StoreKind.JOIN_WINDOW:
            configs["cleanup.policy"] = "delete"  # KAFKA-13345
        return configs


REPARTITION_CONFIGS = {
    "cleanup.policy": "delete",
    "segment.bytes": "52428800",
    "retention.ms": "-1",
    "message.timestamp.type": "CreateTime",
}
"""The settings of repartition topics (RepartitionTopicConfig)."""


Deserializer = Callable[[Any], Any]
"""Returns the value of what a record carries; raises StreamsFailure if it carries none."""


@dataclass(frozen=True, slots=True)
class SourceNode:
    """Reads topics. ``reset`` overrides auto.offset.reset for them, None does not.

    ``deserializer`` None takes a value as it is.
    """

    name: str
    topics: tuple[str, ...]
    reset: str | None = None
    deserializer: Deserializer | None = None
    parents: tuple[str, ...] = ()


@dataclass(slots=True)
class ProcessorNode:
    """Runs a processor, which each task makes anew."""

    name: str
    supplier: Supplier
    parents: tuple[str, ...]
    stores: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class SinkNode:
    """Writes to a topic, whose partition follows from the key."""

    name: str
    topic: str
    parents: tuple[str, ...]


Node = SourceNode | ProcessorNode | SinkNode
