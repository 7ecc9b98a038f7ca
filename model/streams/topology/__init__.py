"""Topologies as data: nodes, stores, subtopologies, internal topics, co-partitioning, describe."""

from kafkasim.model.streams.topology.nodes import (
    ProcessorNode,
    SinkNode,
    SourceNode,
    StoreKind,
    StoreSpec,
    TopologyError,
)
from kafkasim.model.streams.topology.topology import Subtopology, Topology, changelog_topic

__all__ = [
    "ProcessorNode",
    "SinkNode",
    "SourceNode",
    "StoreKind",
    "StoreSpec",
    "Subtopology",
    "Topology",
    "TopologyError",
    "changelog_topic",
]
