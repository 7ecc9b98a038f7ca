"""A topology: nodes in the order of their adding, and what follows from them.

Models InternalTopologyBuilder: checks of what is added, groups of connected nodes (a
subtopology each, numbered by their first node), internal topics, co-partition groups. Left out:
global stores, sources by pattern, named topologies.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from kafkasim.model.group.assignors.java import java_order
from kafkasim.model.streams.processors.context import Supplier
from kafkasim.model.streams.topology.description import describe
from kafkasim.model.streams.topology.nodes import (
    Deserializer,
    Node,
    ProcessorNode,
    SinkNode,
    SourceNode,
    StoreSpec,
    TopologyError,
)


def changelog_topic(application_id: str, store: str) -> str:
    """Return the name of a store's changelog (ProcessorStateManager.storeChangelogTopic)."""
    return f"{application_id}-{store}-changelog"


@dataclass(frozen=True, slots=True)
class Subtopology:
    """A group of connected nodes, of which each partition is a task (TopicsInfo)."""

    id: int
    nodes: tuple[str, ...]  # in the order of the topology
    source_topics: tuple[str, ...]
    sink_topics: tuple[str, ...]
    repartition_topics: dict[str, int | None]  # that it reads: partitions, None if not given
    stores: tuple[StoreSpec, ...]  # in the order in which a task initialises and flushes them
    changelog_topics: dict[str, str]  # by store; of a table its source, if that is the changelog


class Topology:
    """Sources, processors, sinks and stores. Adding what Kafka refuses raises TopologyError."""

    def __init__(self) -> None:
        self.nodes: dict[str, Node] = {}
        self.stores: dict[str, StoreSpec] = {}
        self.internal_topics: dict[str, int | None] = {}  # repartition topics, without prefix
        self.source_changelogs: dict[str, str] = {}  # store -> the source topic that is its log
        self._copartitioned: list[tuple[str, ...]] = []  # names of sources
        self._group_of: dict[str, str] = {}  # union-find over nodes

    def add_source(
        self,
        name: str,
        *topics: str,
        reset: str | None = None,
        deserializer: Deserializer | None = None,
    ) -> None:
        """Add a node that reads topics."""
        if not topics:
            raise TopologyError("You must provide at least one topic")
        for topic in topics:
            for node in self.nodes.values():
                if isinstance(node, SourceNode) and topic in node.topics:
                    raise TopologyError(f"Topic {topic} has already been registered")
        self._add(SourceNode(name, topics, reset, deserializer))

    def add_processor(self, name: str, supplier: Supplier, *parents: str) -> None:
        """Add a node that runs a processor."""
        self._add(ProcessorNode(name, supplier, parents))

    def add_sink(self, name: str, topic: str, *parents: str) -> None:
        """Add a node that writes to a topic."""
        for parent in parents:
            if isinstance(self.nodes.get(parent), SinkNode):
                raise TopologyError(f"Sink {parent} cannot be a parent of {name}")
        self._add(SinkNode(name, topic, parents))

    def add_store(self, spec: StoreSpec, *processors: str) -> None:
        """Add a store, and connect it to processors."""
        known = self.stores.setdefault(spec.name, spec)
        if known is not spec and known != spec:
            raise TopologyError(f"A different StateStore has already been added as {spec.name}")
        for processor in processors:
            self.connect(processor, spec.name)

    def connect(self, processor: str, *stores: str) -> None:
        """Let a processor use stores (connectProcessorAndStateStores)."""
        for store in stores:
            if store not in self.stores:
                raise TopologyError(f"StateStore {store} is not added yet")
            node = self.nodes.get(processor)
            if not isinstance(node, ProcessorNode):
                raise TopologyError(f"Processor {processor} is not added yet")
            for user in self._users(store)[:1]:
                self._unite(user, processor)
            if store not in node.stores:
                node.stores.append(store)

    def reuse_source_topic(self, store: str, topic: str) -> None:
        """Take the source topic of a table for its changelog (connectSourceStoreAndTopic)."""
        self.stores[store] = replace(self.stores[store], logged=False)
        self.source_changelogs[store] = topic

    def add_internal_topic(self, topic: str, partitions: int | None) -> None:
        """Declare a repartition topic, without its prefix; its name gets the application id."""
        self.internal_topics[topic] = partitions

    def copartition(self, sources: Iterable[str]) -> None:
        """Require that the topics of these sources have equally many partitions."""
        self._copartitioned.append(tuple(sources))

    def check_copartitioning(self) -> None:
        """Refuse repartition topics that must agree and were given different numbers."""
        for sources in self._copartitioned:
            topics = self._topics_of(sources)
            given = {topic: self.internal_topics.get(topic) for topic in topics}
            counts = {number for number in given.values() if number is not None}
            if None not in given.values() and len(counts) > 1:
                told = ", ".join(f"{topic}={given[topic]}" for topic in sorted(given))
                raise TopologyError(
                    f"Following topics do not have the same number of partitions: [{{{told}}}]"
                )

    def subtopologies(self, application_id: str) -> tuple[Subtopology, ...]:
        """Return the subtopologies, by number (subtopologyToTopicsInfo)."""
        groups = self.node_groups()
        return tuple(self._subtopology(n, group, application_id) for n, group in enumerate(groups))

    def whole(self, application_id: str) -> Subtopology:
        """Return all nodes as one, for a single task in one place (buildTopology)."""
        return self._subtopology(0, list(self.nodes), application_id)

    def copartition_groups(self, application_id: str) -> tuple[tuple[str, ...], ...]:
        """Return groups of source topics that must have equally many partitions, each sorted."""
        group_of: dict[str, dict[str, None]] = {}
        for sources in self._copartitioned:
            topics = [self._named(topic, application_id) for topic in self._topics_of(sources)]
            group = next((group_of[topic] for topic in topics if topic in group_of), {})
            group |= dict.fromkeys(topics)
            group_of |= dict.fromkeys(topics, group)
        groups = {tuple(sorted(group)): None for group in group_of.values()}
        return tuple(groups)

    def node_groups(self) -> list[list[str]]:
        """Return the names of connected nodes, in the order of adding (makeNodeGroups)."""
        groups: dict[str, list[str]] = {}
        for name in self.nodes:
            groups.setdefault(self._root(name), []).append(name)
        return list(groups.values())

    def children(self) -> dict[str, list[str]]:
        """Return the children of each node in the order in which it forwards to them."""
        children: dict[str, list[str]] = {name: [] for name in self.nodes}
        for node in self.nodes.values():
            for parent in node.parents:
                children[parent].append(node.name)
        return children

    def describe(self) -> str:
        """Return what Topology.describe() prints."""
        return describe(self.nodes, self.node_groups())

    def _add(self, node: Node) -> None:
        if node.name in self.nodes:
            raise TopologyError(f"Processor {node.name} is already added")
        if not node.parents and not isinstance(node, SourceNode):
            raise TopologyError(f"{node.name} needs at least one parent")
        for parent in node.parents:
            if parent == node.name:
                raise TopologyError(f"Processor {node.name} cannot be a parent of itself")
            if parent not in self.nodes:
                raise TopologyError(f"Parent processor {parent} is not added yet for {node.name}")
        self.nodes[node.name] = node
        self._group_of[node.name] = node.name
        for parent in node.parents:
            self._unite(node.name, parent)

    def _users(self, store: str) -> list[str]:
        nodes = self.nodes.values()
        return [n.name for n in nodes if isinstance(n, ProcessorNode) and store in n.stores]

    def _root(self, name: str) -> str:
        while self._group_of[name] != name:
            name = self._group_of[name]
        return name

    def _unite(self, one: str, other: str) -> None:
        self._group_of[self._root(one)] = self._root(other)

    def _topics_of(self, sources: Iterable[str]) -> list[str]:
        nodes = [self.nodes.get(source) for source in sources]
        found = [topic for n in nodes if isinstance(n, SourceNode) for topic in n.topics]
        return list(dict.fromkeys(found))

    def _named(self, topic: str, application_id: str) -> str:
        return f"{application_id}-{topic}" if topic in self.internal_topics else topic

    def _subtopology(self, number: int, names: list[str], application_id: str) -> Subtopology:
        nodes = [self.nodes[name] for name in names]
        sources = [topic for n in nodes if isinstance(n, SourceNode) for topic in n.topics]
        sinks = [node.topic for node in nodes if isinstance(node, SinkNode)]
        processors = [node for node in nodes if isinstance(node, ProcessorNode)]
        used = [store for node in processors for store in java_order(node.stores)]
        stores = tuple(self.stores[name] for name in dict.fromkeys(used))
        return Subtopology(
            number,
            tuple(names),
            tuple(self._named(topic, application_id) for topic in sources),
            tuple(dict.fromkeys(self._named(topic, application_id) for topic in sinks)),
            {
                self._named(topic, application_id): self.internal_topics[topic]
                for topic in sources
                if topic in self.internal_topics
            },
            stores,
            {
                spec.name: self.source_changelogs.get(spec.name)
                or changelog_topic(application_id, spec.name)
                for spec in stores
                if spec.logged or spec.name in self.source_changelogs
            },
        )
