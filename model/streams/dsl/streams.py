"""StreamsBuilder, KStream, KTable and what is between them, with Streams' names of methods.

Models StreamsBuilder, KStreamImpl, KStreamImplJoin, KGroupedStreamImpl, TimeWindowedKStreamImpl,
SessionWindowedKStreamImpl, KTableImpl, KGroupedTableImpl. The names of nodes, stores and internal
topics are those that Kafka makes of the same calls. Left out: branches, global tables, versioned
tables, foreign-key joins, cogroup, sliding windows, names given by users but for stores and
repartition topics.

Functions take what Streams' take: mappers and predicates (key, value), value mappers (value) or
(key, value), reducers (aggregate, value), aggregators (key, value, aggregate), joiners
(left, right) or (key, left, right), mergers (key, one, other).
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from kafkasim.model.streams.dsl.graph import (
    Graph,
    GraphNode,
    JoinGraphNode,
    ProcessorGraphNode,
    RepartitionGraphNode,
    SinkGraphNode,
    SourceGraphNode,
    TableSourceGraphNode,
    table_node,
)
from kafkasim.model.streams.dsl.windows import JoinWindows, SessionWindows, Suppressed, TimeWindows
from kafkasim.model.streams.processors.aggregates import StreamAggregate
from kafkasim.model.streams.processors.context import Supplier
from kafkasim.model.streams.processors.joins import (
    JoinWindowProcessor,
    StreamJoin,
    StreamTableJoinProcessor,
)
from kafkasim.model.streams.processors.sessions import SessionAggregate
from kafkasim.model.streams.processors.stateless import (
    FilterProcessor,
    FlatMapProcessor,
    MapProcessor,
    MapValuesProcessor,
    PassThrough,
    PeekProcessor,
)
from kafkasim.model.streams.processors.suppression import Suppress
from kafkasim.model.streams.processors.table_operators import (
    TableAggregate,
    TableJoin,
    TableJoinMerger,
    TableMap,
    TableRepartitionMapProcessor,
)
from kafkasim.model.streams.processors.tables import TableOperator, TableSource
from kafkasim.model.streams.processors.windows import WindowAggregate
from kafkasim.model.streams.topology.nodes import Deserializer, StoreKind, StoreSpec, TopologyError
from kafkasim.model.streams.topology.topology import Topology

AGGREGATE = "KSTREAM-AGGREGATE-"
REDUCE = "KSTREAM-REDUCE-"
REPARTITION_SUFFIX = "-repartition"


@dataclass(frozen=True, slots=True)
class Materialized:
    """How a table is kept: Materialized.as(name), withCachingDisabled, withLoggingDisabled, …"""

    name: str | None = None
    caching: bool = True
    logging: bool = True
    retention_ms: int | None = None  # of windows; None: size and grace


def with_key(function: Callable[..., Any], without: int) -> Callable[..., Any]:
    """Return a function that takes the key first, of one that may take ``without`` values only.

    Kafka: ValueMapper and ValueMapperWithKey, ValueJoiner and ValueJoinerWithKey.
    """
    if len(inspect.signature(function).parameters) > without:
        return function
    return lambda _, *values: function(*values)


class StreamsBuilder:
    """Builds a topology from streams and tables."""

    def __init__(self) -> None:
        self._graph = Graph()

    def stream(
        self, *topics: str, reset: str | None = None, deserializer: Deserializer | None = None
    ) -> KStream:
        """Read topics as a stream. ``reset`` is theirs instead of auto.offset.reset."""
        name = self._graph.new_name("KSTREAM-SOURCE-")
        node = SourceGraphNode(name, topics, reset, deserializer)
        self._graph.add(node, self._graph.root)
        return KStream(self._graph, name, (name,), False, node)

    def table(
        self,
        topic: str,
        materialized: Materialized | None = None,
        deserializer: Deserializer | None = None,
    ) -> KTable:
        """Read a topic as a table."""
        graph = self._graph
        given = materialized or Materialized()
        store = given.name or graph.new_store_name(topic + "-")
        source = graph.new_name("KSTREAM-SOURCE-")
        name = graph.new_name("KTABLE-SOURCE-")
        spec = StoreSpec(store, StoreKind.KEY_VALUE, cached=given.caching, logged=given.logging)
        operator = TableSource(spec, materialized=given.name is not None)
        node = TableSourceGraphNode(name, source, topic, operator, deserializer)
        graph.add(node, graph.root)
        return KTable(graph, name, (source,), operator, node)

    def addStateStore(self, name: str, logging: bool = True) -> StreamsBuilder:
        """Add a key-value store for processors; connect it in ``process``."""
        spec = StoreSpec(name, StoreKind.PLAIN, logged=logging)
        self._graph.add(_StoreGraphNode(spec), self._graph.root)
        return self

    def build(self, topology_optimization: str = "none") -> Topology:
        """Return the topology; optimization `reuse.ktable.source.topics` is the one that exists.

        Raises:
            TopologyError: Kafka refuses it.
        """
        return self._graph.build("reuse.ktable.source.topics" in topology_optimization)


class _StoreGraphNode(GraphNode):
    """A store of a user's processors."""

    def __init__(self, spec: StoreSpec) -> None:
        super().__init__(spec.name)
        self._spec = spec

    def write(self, topology: Topology) -> None:
        """Add the store."""
        topology.add_store(self._spec)


class _Stream:
    """What streams and tables share: their node, and the sources that they come from."""

    def __init__(self, graph: Graph, name: str, sources: tuple[str, ...], node: GraphNode) -> None:
        self._graph, self._name, self._sources, self._node = graph, name, sources, node

    def _copartition_with(self, other: _Stream) -> tuple[str, ...]:
        sources = tuple(sorted({*self._sources, *other._sources}))
        self._graph.copartitioned.append(sources)
        return sources


class KStream(_Stream):
    """A stream of records."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        sources: tuple[str, ...],
        repartition_required: bool,
        node: GraphNode,
    ) -> None:
        super().__init__(graph, name, sources, node)
        self._repartition_required = repartition_required
        self._repartitioned: RepartitionGraphNode | None = None

    def filter(self, predicate: Callable[[Any, Any], Any]) -> KStream:
        """Keep the records for which the predicate holds."""
        return self._next("KSTREAM-FILTER-", lambda: FilterProcessor(predicate))

    def filterNot(self, predicate: Callable[[Any, Any], Any]) -> KStream:
        """Keep the records for which the predicate does not hold."""
        return self._next("KSTREAM-FILTER-", lambda: FilterProcessor(predicate, negated=True))

    def map(self, mapper: Callable[[Any, Any], tuple[Any, Any]]) -> KStream:
        """Replace key and value: the stream needs repartitioning before it is grouped."""
        return self._next("KSTREAM-MAP-", lambda: MapProcessor(mapper), changes_key=True)

    def mapValues(self, mapper: Callable[..., Any]) -> KStream:
        """Replace the value."""
        keyed = with_key(mapper, 1)
        return self._next("KSTREAM-MAPVALUES-", lambda: MapValuesProcessor(keyed))

    def selectKey(self, mapper: Callable[[Any, Any], Any]) -> KStream:
        """Replace the key: the stream needs repartitioning before it is grouped."""
        supplier = _key_selector(mapper)
        return self._next("KSTREAM-KEY-SELECT-", supplier, changes_key=True)

    def flatMap(self, mapper: Callable[[Any, Any], Any]) -> KStream:
        """Replace each record by any number of (key, value)."""
        return self._next("KSTREAM-FLATMAP-", lambda: FlatMapProcessor(mapper), changes_key=True)

    def flatMapValues(self, mapper: Callable[..., Any]) -> KStream:
        """Replace each value by any number of values."""
        keyed = with_key(mapper, 1)

        def pairs(key: Any, value: Any) -> list[tuple[Any, Any]]:
            return [(key, each) for each in keyed(key, value)]

        return self._next("KSTREAM-FLATMAPVALUES-", lambda: FlatMapProcessor(pairs))

    def peek(self, action: Callable[[Any, Any], Any]) -> KStream:
        """Call an action for each record."""
        return self._next("KSTREAM-PEEK-", lambda: PeekProcessor(action))

    def foreach(self, action: Callable[[Any, Any], Any]) -> None:
        """Call an action for each record, and end there."""
        self._next("KSTREAM-FOREACH-", lambda: PeekProcessor(action, forwards=False))

    def process(self, supplier: Supplier, *stores: str) -> KStream:
        """Run a processor of your own, which may use stores and punctuators, and change keys."""
        name = self._graph.new_name("KSTREAM-PROCESSOR-")
        node = ProcessorGraphNode(name, supplier, connected=lambda: stores)
        return self._below(name, node, changes_key=True)

    def processValues(self, supplier: Supplier, *stores: str) -> KStream:
        """Run a processor of your own that keeps the key."""
        name = self._graph.new_name("KSTREAM-PROCESSVALUES-")
        node = ProcessorGraphNode(name, supplier, connected=lambda: stores)
        return self._below(name, node)

    def merge(self, other: KStream) -> KStream:
        """Let two streams be one, without any order between them."""
        name = self._graph.new_name("KSTREAM-MERGE-")
        node = ProcessorGraphNode(name, PassThrough)
        self._graph.add(node, self._node, other._node)
        sources = tuple(sorted({*self._sources, *other._sources}))
        required = self._repartition_required or other._repartition_required
        return KStream(self._graph, name, sources, required, node)

    def repartition(self, name: str | None = None, partitions: int | None = None) -> KStream:
        """Write the stream to a repartition topic and read it."""
        prefix = name or self._graph.new_name("KSTREAM-REPARTITION-")
        node = self._repartition_node(prefix, partitions)
        self._graph.add(node, self._node)
        return KStream(self._graph, node.name, (node.name,), False, node)

    def to(self, topic: str) -> None:
        """Write the stream to a topic."""
        node = SinkGraphNode(self._graph.new_name("KSTREAM-SINK-"), topic)
        self._graph.add(node, self._node)

    def toTable(self, materialized: Materialized | None = None) -> KTable:
        """Keep the last value of each key."""
        graph = self._graph
        name = graph.new_name("KSTREAM-TOTABLE-")
        given = materialized or Materialized()
        store = given.name or graph.new_store_name("KSTREAM-TOTABLE-")
        parent, sources = self._node, self._sources
        if self._repartition_required:
            parent = self._repartition_node(name)
            graph.add(parent, self._node)
            sources = (parent.name,)
        spec = StoreSpec(store, StoreKind.KEY_VALUE, cached=given.caching, logged=given.logging)
        operator = TableSource(spec, materialized=given.name is not None)
        node = table_node(name, operator)
        graph.add(node, parent)
        return KTable(graph, name, sources, operator, node)

    def groupByKey(self, name: str | None = None) -> KGroupedStream:
        """Group by the key; ``name`` is that of a repartition topic, if one is needed."""
        return KGroupedStream(
            self._graph, self._name, self._sources, self._node, self._repartition_required, name
        )

    def groupBy(self, mapper: Callable[[Any, Any], Any], name: str | None = None) -> KGroupedStream:
        """Group by another key, over a repartition topic."""
        node_name = name or self._graph.new_name("KSTREAM-KEY-SELECT-")
        node = ProcessorGraphNode(node_name, _key_selector(mapper))
        self._graph.add(node, self._node)
        return KGroupedStream(self._graph, node_name, self._sources, node, True, name)

    def join(
        self,
        other: KStream | KTable,
        joiner: Callable[..., Any],
        windows: JoinWindows | None = None,
    ) -> KStream:
        """Join with a stream within windows, or with a table: pairs only."""
        return self._join(other, joiner, windows, left=False, outer=False)

    def leftJoin(
        self,
        other: KStream | KTable,
        joiner: Callable[..., Any],
        windows: JoinWindows | None = None,
    ) -> KStream:
        """Join; a record of this stream without a partner is joined with null."""
        return self._join(other, joiner, windows, left=True, outer=False)

    def outerJoin(
        self, other: KStream, joiner: Callable[..., Any], windows: JoinWindows
    ) -> KStream:
        """Join; a record of either stream without a partner is joined with null."""
        return self._join(other, joiner, windows, left=True, outer=True)

    def _join(
        self,
        other: KStream | KTable,
        joiner: Callable[..., Any],
        windows: JoinWindows | None,
        left: bool,
        outer: bool,
    ) -> KStream:
        keyed = with_key(joiner, 2)
        this = self._for_join()
        if isinstance(other, KTable):
            return this._join_table(other, keyed, left)
        assert windows is not None, "a join of two streams has windows"
        that = other._for_join()
        sources = this._copartition_with(that)
        node = _stream_join(self._graph, (this, that), keyed, windows, left, outer)
        return KStream(self._graph, node.name, sources, False, node)

    def _for_join(self) -> KStream:
        """Return the stream, repartitioned if its key may have changed."""
        if not self._repartition_required:
            return self
        node = self._repartition_node(self._name)  # takes three names, also if one is there
        if self._repartitioned is None:
            self._repartitioned = node
            self._graph.add(node, self._node)
        return KStream(self._graph, node.name, (node.name,), False, self._repartitioned)

    def _join_table(self, table: KTable, joiner: Callable[..., Any], left: bool) -> KStream:
        sources = self._copartition_with(table)
        name = self._graph.new_name("KSTREAM-LEFTJOIN-" if left else "KSTREAM-JOIN-")
        operator = table.operator
        operator.store_names()  # the table is materialised: its values are looked up
        node = ProcessorGraphNode(
            name,
            lambda: StreamTableJoinProcessor(operator, joiner, left),
            connected=operator.store_names,
        )
        node.relaxed_null_key = left
        self._graph.add(node, self._node)
        return KStream(self._graph, name, sources, False, node)

    def _repartition_node(self, prefix: str, partitions: int | None = None) -> RepartitionGraphNode:
        return repartition_node(self._graph, prefix, partitions)

    def _next(self, prefix: str, supplier: Supplier, changes_key: bool = False) -> KStream:
        name = self._graph.new_name(prefix)
        return self._below(name, ProcessorGraphNode(name, supplier), changes_key)

    def _below(self, name: str, node: GraphNode, changes_key: bool = False) -> KStream:
        self._graph.add(node, self._node)
        required = changes_key or self._repartition_required
        return KStream(self._graph, name, self._sources, required, node)


def _key_selector(mapper: Callable[[Any, Any], Any]) -> Supplier:
    return lambda: MapProcessor(lambda key, value: (mapper(key, value), value))


def repartition_node(graph: Graph, prefix: str, partitions: int | None) -> RepartitionGraphNode:
    """Return the step over a repartition topic (createRepartitionedSource)."""
    ends = prefix.endswith(REPARTITION_SUFFIX)
    topic = prefix if ends else prefix + REPARTITION_SUFFIX
    sink = graph.new_name("KSTREAM-SINK-")
    filters = graph.new_name("KSTREAM-FILTER-")
    source = graph.new_name("KSTREAM-SOURCE-")
    if not re.fullmatch(r"KSTREAM.*-[0-9]{10}", prefix):
        sink, filters, source = f"{topic}-sink", f"{topic}-filter", f"{topic}-source"
    return RepartitionGraphNode(source, sink, topic, filters, partitions)


def _stream_join(
    graph: Graph,
    sides: tuple[KStream, KStream],
    joiner: Callable[..., Any],
    windows: JoinWindows,
    left: bool,
    outer: bool,
) -> GraphNode:
    """Add the nodes of a join of two streams; return the last (KStreamImplJoin.join)."""
    windowed = [graph.new_name("KSTREAM-WINDOWED-") for _ in sides]
    this = graph.new_name("KSTREAM-OUTERTHIS-" if outer else "KSTREAM-JOINTHIS-")
    other = graph.new_name("KSTREAM-OUTEROTHER-" if left else "KSTREAM-JOINOTHER-")
    merge = graph.new_name("KSTREAM-MERGE-")
    retention_ms = windows.size_ms + windows.grace_ms
    stores = tuple(
        StoreSpec(f"{name}-store", StoreKind.JOIN_WINDOW, retention_ms, windows.size_ms)
        for name in (this, other)
    )
    waiting = None
    if left:
        number = this.rpartition("-")[2]
        waiting = StoreSpec(f"KSTREAM-OUTERSHARED-{number}-store", StoreKind.OUTER_JOIN)
    for side, name, store in zip(sides, windowed, stores):
        graph.add(_windowed_node(name, store), side._node)
    join = StreamJoin(merge, windows, joiner, (stores[0], stores[1]), waiting, outer)
    held = () if waiting is None else (waiting,)
    nodes = JoinGraphNode(
        ProcessorGraphNode(this, lambda: join.side(True), lambda: (stores[1], *held)),
        ProcessorGraphNode(other, lambda: join.side(False), lambda: (stores[0], *held)),
        ProcessorGraphNode(merge, PassThrough),
        (windowed[0], windowed[1]),
    )
    nodes.relaxed_null_key = left
    graph.add(nodes, sides[0]._node, sides[1]._node)
    return nodes


def _windowed_node(name: str, store: StoreSpec) -> GraphNode:
    return ProcessorGraphNode(name, lambda: JoinWindowProcessor(store.name), lambda: (store,))


class _Grouped(_Stream):
    """A grouped stream, with windows or without: over a repartition topic if the key changed."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        sources: tuple[str, ...],
        node: GraphNode,
        repartition_required: bool,
        topic: str | None,
    ) -> None:
        super().__init__(graph, name, sources, node)
        self._repartition_required, self._topic = repartition_required, topic
        self._repartitioned: RepartitionGraphNode | None = None

    def _burn_name(self, materialized: Materialized | None) -> None:
        """Take the name that count(Materialized) without a store's name takes for nothing."""
        if materialized is not None and materialized.name is None:
            self._graph.new_store_name(AGGREGATE)

    def _aggregate(
        self,
        prefix: str,
        materialized: Materialized | None,
        make: Callable[[StoreSpec], TableOperator],
        spec: Callable[[str, Materialized], StoreSpec],
        grace_ms: int | None = None,
    ) -> KTable:
        graph, given = self._graph, materialized or Materialized()
        store = given.name or graph.new_store_name(prefix)
        name = graph.new_name(prefix)
        operator = make(spec(store, given))
        parent, sources = self._node, self._sources
        if self._repartition_required:
            new = repartition_node(graph, self._topic or store, None)
            if self._repartitioned is None or self._topic is None:
                self._repartitioned = new
            parent, sources = self._repartitioned, (new.name,)
            graph.add(parent, self._node)
        node = table_node(name, operator, grace_ms)
        graph.add(node, parent)
        return KTable(graph, name, sources, operator, node)


class KGroupedStream(_Grouped):
    """A stream grouped by key."""

    def count(self, materialized: Materialized | None = None) -> KTable:
        """Count the records of each key."""
        self._burn_name(materialized)
        return self.aggregate(lambda: 0, lambda _key, _value, count: count + 1, materialized)

    def reduce(
        self, reducer: Callable[[Any, Any], Any], materialized: Materialized | None = None
    ) -> KTable:
        """Combine the values of each key; the first is the aggregate."""

        def reduce(_: Any, value: Any, aggregate: Any) -> Any:
            return reducer(aggregate, value)

        return self._aggregate(
            REDUCE, materialized, lambda spec: StreamAggregate(spec, None, reduce), _key_value
        )

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        materialized: Materialized | None = None,
    ) -> KTable:
        """Aggregate the values of each key."""
        return self._aggregate(
            AGGREGATE,
            materialized,
            lambda spec: StreamAggregate(spec, initializer, aggregator),
            _key_value,
        )

    def windowedBy(self, windows: TimeWindows | SessionWindows) -> WindowedKStream:
        """Group by window, too."""
        arguments = (self._graph, self._name, self._sources, self._node)
        return WindowedKStream(*arguments, self._repartition_required, self._topic, windows, self)


def _key_value(name: str, given: Materialized) -> StoreSpec:
    return StoreSpec(name, StoreKind.KEY_VALUE, cached=given.caching, logged=given.logging)


class WindowedKStream(_Grouped):
    """A stream grouped by key and window: TimeWindowedKStream and SessionWindowedKStream."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        sources: tuple[str, ...],
        node: GraphNode,
        repartition_required: bool,
        topic: str | None,
        windows: TimeWindows | SessionWindows,
        grouped: KGroupedStream,
    ) -> None:
        super().__init__(graph, name, sources, node, repartition_required, topic)
        self._windows, self._emit_final, self._of = windows, False, grouped

    @property
    def has_sessions(self) -> bool:
        """Whether the windows are sessions."""
        return isinstance(self._windows, SessionWindows)

    def emitStrategy(self, strategy: str) -> WindowedKStream:
        """Emit `on-window-update` (the default) or `on-window-close` (KIP-825)."""
        self._emit_final = strategy == "on-window-close"
        return self

    def count(self, materialized: Materialized | None = None) -> KTable:
        """Count the records of each key and window."""
        self._burn_name(materialized)
        return self.aggregate(
            lambda: 0, lambda _key, _value, count: count + 1, lambda _key, one, other: one + other,
            materialized,
        )  # fmt: skip

    def reduce(
        self, reducer: Callable[[Any, Any], Any], materialized: Materialized | None = None
    ) -> KTable:
        """Combine the values of each key and window."""

        def reduce(_: Any, value: Any, aggregate: Any) -> Any:
            return value if aggregate is None else reducer(aggregate, value)

        def merge(key: Any, one: Any, other: Any) -> Any:
            return reduce(key, other, one)

        return self._windowed(REDUCE, lambda: None, reduce, merge, materialized)

    def aggregate(
        self,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any] | None = None,
        materialized: Materialized | None = None,
    ) -> KTable:
        """Aggregate by key and window; ``merger`` is for sessions."""
        return self._windowed(AGGREGATE, initializer, aggregator, merger, materialized)

    def _windowed(
        self,
        prefix: str,
        initializer: Callable[[], Any],
        aggregator: Callable[[Any, Any, Any], Any],
        merger: Callable[[Any, Any, Any], Any] | None,
        materialized: Materialized | None,
    ) -> KTable:
        windows, final = self._windows, self._emit_final
        if isinstance(windows, TimeWindows):
            return self._aggregate(
                prefix,
                materialized,
                lambda spec: WindowAggregate(spec, windows, initializer, aggregator, final),
                self._window_spec,
                windows.grace_ms,
            )
        assert merger is not None, "sessions need a merger"
        merges = merger
        return self._aggregate(
            prefix,
            materialized,
            lambda spec: SessionAggregate(spec, windows, initializer, aggregator, merges, final),
            self._session_spec,
            windows.grace_ms + windows.gap_ms,
        )

    def _window_spec(self, name: str, given: Materialized) -> StoreSpec:
        windows = self._windows
        assert isinstance(windows, TimeWindows)
        least = windows.size_ms + windows.grace_ms
        return StoreSpec(
            name, StoreKind.WINDOW, _retention(name, given, least), windows.size_ms,
            given.caching, given.logging, self._emit_final,
        )  # fmt: skip

    def _session_spec(self, name: str, given: Materialized) -> StoreSpec:
        windows = self._windows
        assert isinstance(windows, SessionWindows)
        retention_ms = _retention(name, given, windows.gap_ms + windows.grace_ms)
        cached = given.caching and not self._emit_final
        return StoreSpec(
            name, StoreKind.SESSION, retention_ms, 0, cached, given.logging, self._emit_final
        )


def _retention(name: str, given: Materialized, least_ms: int) -> int:
    """Return the retention of a windowed store.

    Raises:
        TopologyError: it is shorter than the window and its grace.
    """
    if given.retention_ms is None:
        return least_ms
    if given.retention_ms < least_ms:
        raise TopologyError(
            f"The retention period of the window store {name} must be no smaller than its window "
            f"size plus the grace period. Got retention=[{given.retention_ms}], "
            f"allowed: at least {least_ms}"
        )
    return given.retention_ms


class KTable(_Stream):
    """A table: the last value of each key."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        sources: tuple[str, ...],
        operator: TableOperator,
        node: GraphNode,
    ) -> None:
        super().__init__(graph, name, sources, node)
        self.operator = operator

    def filter(
        self, predicate: Callable[[Any, Any], Any], materialized: Materialized | None = None
    ) -> KTable:
        """Keep the keys whose values the predicate holds for."""
        return self._map(
            "KTABLE-FILTER-",
            lambda key, value: value if predicate(key, value) else None,
            materialized,
            filters=True,
        )

    def filterNot(
        self, predicate: Callable[[Any, Any], Any], materialized: Materialized | None = None
    ) -> KTable:
        """Keep the keys whose values the predicate does not hold for."""
        return self.filter(lambda key, value: not predicate(key, value), materialized)

    def mapValues(
        self, mapper: Callable[..., Any], materialized: Materialized | None = None
    ) -> KTable:
        """Replace each value."""
        return self._map("KTABLE-MAPVALUES-", with_key(mapper, 1), materialized, filters=False)

    def _map(
        self,
        prefix: str,
        compute: Callable[[Any, Any], Any],
        materialized: Materialized | None,
        filters: bool,
    ) -> KTable:
        graph, spec = self._graph, None
        if materialized is not None and materialized.name is None:
            graph.new_store_name(prefix)
        elif materialized is not None and materialized.name is not None:
            spec = _key_value(materialized.name, materialized)
        name = graph.new_name(prefix)
        operator = TableMap(self.operator, compute, spec, filters)
        node = table_node(name, operator)
        graph.add(node, self._node)
        return KTable(graph, name, self._sources, operator, node)

    def toStream(self, mapper: Callable[[Any, Any], Any] | None = None) -> KStream:
        """Take each update for a record; ``mapper`` selects another key."""
        name = self._graph.new_name("KTABLE-TOSTREAM-")
        node = ProcessorGraphNode(name, _to_stream)
        self._graph.add(node, self._node)
        stream = KStream(self._graph, name, self._sources, False, node)
        return stream if mapper is None else stream.selectKey(mapper)

    def suppress(self, suppressed: Suppressed) -> KTable:
        """Hold back updates.

        Raises:
            TopologyError: it waits for windows to close, and there are none.
        """
        graph = self._graph
        name = graph.new_name("KTABLE-SUPPRESS-")
        limit_ms = suppressed.time_limit_ms
        wait_ms = self._node.find_grace() if limit_ms is None else limit_ms
        spec = StoreSpec(graph.new_store_name("KTABLE-SUPPRESS-"), StoreKind.SUPPRESSION)
        operator = Suppress(spec, suppressed, wait_ms, self.operator)
        node = table_node(name, operator)
        graph.add(node, self._node)
        return KTable(graph, name, (self._name,), operator, node)

    def groupBy(
        self, selector: Callable[[Any, Any], tuple[Any, Any]], name: str | None = None
    ) -> KGroupedTable:
        """Group by another key, over a repartition topic; the selector returns key and value."""
        node_name = name or self._graph.new_name("KTABLE-SELECT-")
        node = ProcessorGraphNode(node_name, lambda: TableRepartitionMapProcessor(selector))
        self._graph.add(node, self._node)
        self.operator.enable_sending_old_values(True)
        return KGroupedTable(self._graph, node_name, self._sources, node, name)

    def join(
        self, other: KTable, joiner: Callable[..., Any], materialized: Materialized | None = None
    ) -> KTable:
        """Join with a table: keys that both have."""
        return self._join(other, joiner, materialized, "inner")

    def leftJoin(
        self, other: KTable, joiner: Callable[..., Any], materialized: Materialized | None = None
    ) -> KTable:
        """Join with a table: keys that this one has."""
        return self._join(other, joiner, materialized, "left")

    def outerJoin(
        self, other: KTable, joiner: Callable[..., Any], materialized: Materialized | None = None
    ) -> KTable:
        """Join with a table: keys that either has."""
        return self._join(other, joiner, materialized, "outer")

    def _join(
        self,
        other: KTable,
        joiner: Callable[..., Any],
        materialized: Materialized | None,
        kind: str,
    ) -> KTable:
        graph, spec = self._graph, None
        if materialized is not None:
            store = materialized.name or graph.new_store_name("KTABLE-MERGE-")
            spec = _key_value(store, materialized)
        merge = graph.new_name("KTABLE-MERGE-")
        sources = self._copartition_with(other)
        if kind != "inner":
            self.operator.enable_sending_old_values(True)
        if kind == "outer":
            other.operator.enable_sending_old_values(True)
        join = TableJoin(self.operator, other.operator, with_key(joiner, 2), kind)
        sides = (join.side(True), join.side(False))
        operator = TableJoinMerger(join, sides, spec)
        names = graph.new_name("KTABLE-JOINTHIS-"), graph.new_name("KTABLE-JOINOTHER-")
        for table in (self, other):
            table.operator.store_names()  # both are materialised
        node = JoinGraphNode(
            ProcessorGraphNode(names[0], sides[0], connected=other.operator.store_names),
            ProcessorGraphNode(names[1], sides[1], connected=self.operator.store_names),
            ProcessorGraphNode(merge, operator, lambda: operator.stores),
            (self._name, other._name),
        )
        graph.add(node, self._node)
        graph.add(node, other._node)
        return KTable(graph, merge, sources, operator, node)


def _to_stream() -> MapValuesProcessor:
    return MapValuesProcessor(lambda _key, change: change.new)


class KGroupedTable(_Stream):
    """A table grouped by another key."""

    def __init__(
        self,
        graph: Graph,
        name: str,
        sources: tuple[str, ...],
        node: GraphNode,
        topic: str | None,
    ) -> None:
        super().__init__(graph, name, sources, node)
        self._topic = topic
        self._repartitioned: RepartitionGraphNode | None = None

    def count(self, materialized: Materialized | None = None) -> KTable:
        """Count the keys of each group."""
        return self.aggregate(
            lambda: 0,
            lambda _key, _value, count: count + 1,
            lambda _key, _value, count: count - 1,
            materialized,
        )

    def reduce(
        self,
        adder: Callable[[Any, Any], Any],
        subtractor: Callable[[Any, Any], Any],
        materialized: Materialized | None = None,
    ) -> KTable:
        """Combine the values of each group; both functions take aggregate and value."""
        return self._aggregate(
            "KTABLE-REDUCE-",
            materialized,
            None,
            lambda _, value, aggregate: adder(aggregate, value),
            lambda _, value, aggregate: subtractor(aggregate, value),
        )

    def aggregate(
        self,
        initializer: Callable[[], Any],
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
        materialized: Materialized | None = None,
    ) -> KTable:
        """Aggregate the values of each group."""
        prefix = "KTABLE-AGGREGATE-"
        return self._aggregate(prefix, materialized, initializer, adder, subtractor)

    def _aggregate(
        self,
        prefix: str,
        materialized: Materialized | None,
        initializer: Callable[[], Any] | None,
        adder: Callable[[Any, Any, Any], Any],
        subtractor: Callable[[Any, Any, Any], Any],
    ) -> KTable:
        graph, given = self._graph, materialized or Materialized()
        store = given.name or graph.new_store_name("KTABLE-AGGREGATE-")
        operator = TableAggregate(_key_value(store, given), initializer, adder, subtractor)
        sink = graph.new_name("KSTREAM-SINK-")
        source = graph.new_name("KSTREAM-SOURCE-")
        name = graph.new_name(prefix)
        if self._repartitioned is None or self._topic is None:
            topic = (self._topic or store) + REPARTITION_SUFFIX
            self._repartitioned = RepartitionGraphNode(source, sink, topic, None, None)
        graph.add(self._repartitioned, self._node)
        node = table_node(name, operator)
        graph.add(node, self._repartitioned)
        return KTable(graph, name, (source,), operator, node)
