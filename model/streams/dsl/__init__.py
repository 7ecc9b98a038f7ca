"""Streams' DSL under Kafka's names: StreamsBuilder, KStream, KTable, windows."""

from kafkasim.model.streams.dsl.streams import KStream, KTable, StreamsBuilder
from kafkasim.model.streams.dsl.windows import (
    JoinWindows,
    SessionWindows,
    Suppressed,
    TimeWindows,
)

__all__ = [
    "JoinWindows",
    "KStream",
    "KTable",
    "SessionWindows",
    "StreamsBuilder",
    "Suppressed",
    "TimeWindows",
]
