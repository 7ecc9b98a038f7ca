"""The graph that the DSL builds, before it becomes a topology (GraphNode, InternalStreamsBuilder).

Names come from one counter in the order of the calls. Nodes are written to the topology in the
order in which they were added, each after its parents.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from kafkasim.model.streams.processors.context import Supplier
from kafkasim.model.streams.processors.stateless import FilterProcessor
from kafkasim.model.streams.processors.tables import TableOperator
from kafkasim.model.streams.topology.nodes import Deserializer, StoreSpec, TopologyError
from kafkasim.model.streams.topology.topology import Topology

STORE_NAME = "STATE-STORE-"


class GraphNode:
    """A step of the DSL; ``write`` adds its nodes to a topology."""

    def __init__(self, name: str, grace_ms: int | None = None) -> None:
        """``grace_ms`` is that of a windowed aggregation (GracePeriodGraphNode)."""
        self.name = name
        self.grace_ms = grace_ms
        self.relaxed_null_key = False  # a left or outer join takes null keys (KIP-962)
        self.children: dict[GraphNode, None] = {}
        self.parents: dict[GraphNode, None] = {}
        self.priority = -1
        self.written = False

    def write(self, topology: Topology) -> None:
        """Add what this step is made of to a topology."""

    def parent_names(self) -> tuple[str, ...]:
        """Return the names of the parents' nodes."""
        return tuple(parent.name for parent in self.parents)

    def find_grace(self) -> int:
        """Return the grace of the windowed aggregation above (GraphGraceSearchUtil).

        Raises:
            TopologyError: there is none.
        """
        if self.grace_ms is not None:
            return self.grace_ms
        if not self.parents:
            raise TopologyError(
                f"Window close time is only defined for windowed computations. Got [{self.name}]."
            )
        return max(parent.find_grace() for parent in self.parents)


class SourceGraphNode(GraphNode):
    """Reads topics as a stream."""

    def __init__(
        self,
        name: str,
        topics: tuple[str, ...],
        reset: str | None,
        deserializer: Deserializer | None,
    ) -> None:
        super().__init__(name)
        self.topics, self.reset, self._deserializer = topics, reset, deserializer

    def write(self, topology: Topology) -> None:
        """Add the source."""
        topology.add_source(
            self.name, *self.topics, reset=self.reset, deserializer=self._deserializer
        )

    def merge(self, other: SourceGraphNode) -> None:
        """Take the children of another source of the same topics; this deserializer stays."""
        if self.reset != other.reset:
            raise TopologyError(
                "Can't configure different offset reset policies on the same input topic(s)"
            )
        for child in other.children:
            del child.parents[other]
            child.parents[self] = None
            self.children[child] = None
        other.children.clear()


class ProcessorGraphNode(GraphNode):
    """A processor with the stores that it brings, or that were added before."""

    def __init__(
        self,
        name: str,
        supplier: Supplier,
        stores: Callable[[], Iterable[StoreSpec]] = tuple,
        connected: Callable[[], Iterable[str]] = tuple,
        grace_ms: int | None = None,
    ) -> None:
        """``stores`` and ``connected`` are asked last: a table may become materialised until
        then."""
        super().__init__(name, grace_ms)
        self._supplier, self._stores, self._connected = supplier, stores, connected

    def write(self, topology: Topology) -> None:
        """Add the processor below its parents."""
        self.write_below(topology, *self.parent_names())

    def write_below(self, topology: Topology, *parents: str) -> None:
        """Add the processor, its stores, and its connections."""
        topology.add_processor(self.name, self._supplier, *parents)
        for spec in self._stores():
            topology.add_store(spec, self.name)
        topology.connect(self.name, *self._connected())


def table_node(name: str, operator: TableOperator, grace_ms: int | None = None) -> GraphNode:
    """Return the step of an operator that makes a table."""
    return ProcessorGraphNode(name, operator, lambda: operator.stores, grace_ms=grace_ms)


class TableSourceGraphNode(GraphNode):
    """Reads a topic as a table."""

    def __init__(
        self,
        name: str,
        source: str,
        topic: str,
        operator: TableOperator,
        deserializer: Deserializer | None,
    ) -> None:
        super().__init__(name)
        self.source, self.topic, self.reuses_topic = source, topic, False
        self._operator, self._deserializer = operator, deserializer

    def write(self, topology: Topology) -> None:
        """Add the source and the processor that keeps the table."""
        topology.add_source(self.source, self.topic, deserializer=self._deserializer)
        topology.add_processor(self.name, self._operator, self.source)
        for spec in self._operator.stores:
            topology.add_store(spec, self.name)
            if self.reuses_topic:  # topology.optimization = reuse.ktable.source.topics
                topology.reuse_source_topic(spec.name, self.topic)


class SinkGraphNode(GraphNode):
    """Writes to a topic."""

    def __init__(self, name: str, topic: str) -> None:
        super().__init__(name)
        self._topic = topic

    def write(self, topology: Topology) -> None:
        """Add the sink."""
        topology.add_sink(self.name, self._topic, *self.parent_names())


class RepartitionGraphNode(GraphNode):
    """Writes to a repartition topic and reads it; its name is that of the source.

    Records with a null key are dropped on the way, unless a left or outer join comes later.
    """

    def __init__(
        self, source: str, sink: str, topic: str, filter_name: str | None, partitions: int | None
    ) -> None:
        """``filter_name`` is None below a grouped table, whose records have keys."""
        super().__init__(source)
        self.sink, self.topic, self.partitions = sink, topic, partitions
        self._filter_name = filter_name
        self.takes_null_keys = False

    def write(self, topology: Topology) -> None:
        """Add the filter, the sink and the source."""
        topology.add_internal_topic(self.topic, self.partitions)
        parents = self.parent_names()
        if self._filter_name is not None:
            takes_all = self.takes_null_keys
            topology.add_processor(
                self._filter_name,
                lambda: FilterProcessor(lambda key, _: takes_all or key is not None),
                *parents,
            )
            parents = (self._filter_name,)
        topology.add_sink(self.sink, self.topic, *parents)
        topology.add_source(self.name, self.topic)


class JoinGraphNode(GraphNode):
    """Two processors, one for each side, and the node where their results meet.

    ``parents`` names the nodes above the two sides.
    """

    def __init__(
        self,
        this: ProcessorGraphNode,
        other: ProcessorGraphNode,
        merge: ProcessorGraphNode,
        parents: tuple[str, str],
    ) -> None:
        super().__init__(merge.name)
        self._this, self._other, self._merge, self._parents = this, other, merge, parents

    def write(self, topology: Topology) -> None:
        """Add the three processors."""
        self._this.write_below(topology, self._parents[0])
        self._other.write_below(topology, self._parents[1])
        self._merge.write_below(topology, self._this.name, self._other.name)


class Graph:
    """The graph under construction; names, order, and the way to a topology."""

    def __init__(self) -> None:
        self.root = GraphNode("root")
        self.copartitioned: list[tuple[str, ...]] = []
        self._names = 0
        self._priorities = 0

    def new_name(self, prefix: str) -> str:
        """Return a name such as KSTREAM-MAP-0000000003 (newProcessorName)."""
        name = f"{prefix}{self._names:010d}"
        self._names += 1
        return name

    def new_store_name(self, prefix: str) -> str:
        """Return a name such as KSTREAM-AGGREGATE-STATE-STORE-0000000003."""
        return self.new_name(prefix + STORE_NAME)

    def add(self, child: GraphNode, *parents: GraphNode) -> None:
        """Add a step below others; added again, it comes later."""
        for parent in parents:
            parent.children[child] = None
            child.parents[parent] = None
            child.priority = self._priorities
            self._priorities += 1

    def build(self, reuse_source_topics: bool = False) -> Topology:
        """Return the topology (buildAndOptimizeTopology).

        ``reuse_source_topics``: the topic of a table is its changelog.

        Raises:
            TopologyError: Kafka refuses it.
        """
        self._merge_sources()
        self._let_null_keys_pass()
        if reuse_source_topics:
            for node in self.root.children:
                if isinstance(node, TableSourceGraphNode):
                    node.reuses_topic = True
        topology = Topology()
        for sources in self.copartitioned:
            topology.copartition(sources)
        for node in self._in_order():
            node.write(topology)
        topology.check_copartitioning()
        return topology

    def _in_order(self) -> Iterable[GraphNode]:
        queue: list[tuple[int, GraphNode]] = [(-1, self.root)]
        while queue:
            _, node = heapq.heappop(queue)
            if not node.written and all(parent.written for parent in node.parents):
                node.written = True
                yield node
            for child in node.children:
                entry = (child.priority, child)
                if not child.written and entry not in queue:
                    heapq.heappush(queue, entry)

    def _merge_sources(self) -> None:
        main: dict[str, SourceGraphNode] = {}
        for node in list(self.root.children):
            if not isinstance(node, SourceGraphNode):
                continue
            for topic in node.topics:
                first = main.setdefault(topic, node)
                if first is node:
                    continue
                if first.topics != node.topics:
                    raise TopologyError(
                        "Two source nodes are subscribed to overlapping but not equal input topics"
                    )
                first.merge(node)
                self.root.children.pop(node, None)

    def _let_null_keys_pass(self) -> None:
        """Let repartition topics above a left or outer join take null keys (KIP-962)."""

        def takes_null_keys(node: GraphNode) -> bool:
            below = [child.relaxed_null_key | takes_null_keys(child) for child in node.children]
            if isinstance(node, RepartitionGraphNode):
                node.takes_null_keys = any(below)
            return any(below)

        takes_null_keys(self.root)
