"""From chains of steps to a topology, by the calls of the DSL."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.streams.declared.parsing import Chain, Step, parse
from kafkasim.model.streams.dsl.streams import (
    KGroupedStream,
    KGroupedTable,
    KStream,
    KTable,
    Materialized,
    StreamsBuilder,
    WindowedKStream,
)
from kafkasim.model.streams.dsl.windows import JoinWindows, SessionWindows, Suppressed, TimeWindows
from kafkasim.model.streams.processors.context import PunctuationType, Supplier
from kafkasim.model.streams.processors.punctuate import PunctuateProcessor
from kafkasim.model.streams.topology.nodes import TopologyError
from kafkasim.model.streams.topology.topology import Topology

Load = Callable[[str], Supplier]
"""Returns the supplier of a user's processor, by the text of `process`."""

NAMES: dict[type, str] = {
    KStream: "a stream",
    KTable: "a table",
    KGroupedStream: "a grouped stream",
    KGroupedTable: "a grouped table",
    WindowedKStream: "a windowed stream",
}


def topology_of(tables: Any, place: str = "topology", load: Load | None = None) -> Topology:
    """Return the topology that a scenario file declares.

    Raises:
        ValueError: a mistake; the line begins with ``place`` and ends with what is allowed.
    """
    return build(parse(tables, place), load)


def build(chains: tuple[Chain, ...], load: Load | None = None) -> Topology:
    """Return the topology of parsed chains; ``load`` finds users' processors.

    Raises:
        ValueError: steps that do not fit each other, or what Kafka refuses.
    """
    builder, named = StreamsBuilder(), dict[str, Any]()
    for chain in chains:
        flow = _begin(builder, chain, named)
        for step in chain.steps:
            flow = _apply(flow, step, named, load)
        if chain.named is not None:
            named[chain.named] = flow
    try:
        return builder.build()
    except TopologyError as error:
        raise ValueError(f"{chains[0].place.rpartition('.')[0]}: {error}") from None


def _begin(builder: StreamsBuilder, chain: Chain, named: dict[str, Any]) -> Any:
    if chain.kind == "stream":
        return builder.stream(
            *chain.source,
            reset=chain.options.get("reset"),
            deserializer=chain.options.get("value-deserializer"),
        )
    if chain.kind == "table":
        deserializer = chain.options.get("value-deserializer")
        return builder.table(chain.source, _materialized(chain.options), deserializer)
    if chain.kind == "store":
        return builder.addStateStore(chain.source, chain.options.get("logging", True))
    return _named(chain.source, named, f"{chain.place}.from")


def _named(name: str, named: dict[str, Any], place: str) -> Any:
    if name not in named:
        known = ", ".join(named) or "none yet: give an earlier chain a name with as"
        raise ValueError(f"{place}: no chain {name!r}; allowed: {known}")
    return named[name]


def _materialized(options: dict[str, Any]) -> Materialized | None:
    if not options.keys() & {"store", "caching", "logging", "retention"}:
        return None
    return Materialized(
        options.get("store"),
        options.get("caching", True),
        options.get("logging", True),
        options.get("retention"),
    )


def _apply(flow: Any, step: Step, named: dict[str, Any], load: Load | None) -> Any:
    allowed = [kind for kind in NAMES if (kind, step.name) in STEPS]
    apply = STEPS.get((type(flow), step.name))
    if apply is None:
        on = NAMES.get(type(flow), "nothing: the chain has ended")
        can = ", ".join(NAMES[kind] for kind in allowed)
        raise ValueError(f"{step.place}: {step.name} follows {on}; allowed after: {can}")
    try:
        return apply(flow, step, _Names(named, load))
    except TopologyError as error:
        raise ValueError(f"{step.place}: {error}") from None


class _Names:
    """What a step may refer to: chains, and users' processors."""

    def __init__(self, chains: dict[str, Any], load: Load | None) -> None:
        self._chains, self._load = chains, load

    def chain(self, step: Step, *kinds: type) -> Any:
        """Return the chain that a step names, of one of some kinds."""
        found = _named(step.argument, self._chains, f"{step.place}.{step.name}")
        if not isinstance(found, kinds):
            can = " or ".join(NAMES[kind] for kind in kinds)
            raise ValueError(f"{step.place}.{step.name}: {step.argument} is not {can}")
        return found

    def processor(self, step: Step) -> Supplier:
        """Return the supplier of a user's processor."""
        if self._load is None:
            raise ValueError(f"{step.place}: processors of a file are not allowed here")
        try:
            return self._load(step.argument)
        except ValueError as error:
            raise ValueError(f"{step.place}.{step.name}: {error}") from None


Apply = Callable[[Any, Step, _Names], Any]


def _pair(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], tuple[Any, Any]]:
    def pair(key: Any, value: Any) -> tuple[Any, Any]:
        new_key, new_value = function(key, value)
        return new_key, new_value

    return pair


def _process(flow: KStream, step: Step, names: _Names) -> KStream:
    call = flow.process if step.name == "process" else flow.processValues
    return call(names.processor(step), *step.options.get("stores", ()))


def _punctuate(flow: KStream, step: Step, _: _Names) -> KStream:
    kind, options = PunctuationType(step.argument), step.options
    return flow.process(
        lambda: PunctuateProcessor(kind, options["every"], options.get("key"), options["value"])
    )


def _windowed_by(flow: KGroupedStream, step: Step, _: _Names) -> WindowedKStream:
    options = step.options
    needed = {"tumbling": ("size",), "hopping": ("size", "advance"), "session": ("gap",)}
    for key in (*needed[step.argument], *options):
        if key not in options or key not in (*needed[step.argument], "grace"):
            can = ", ".join((*needed[step.argument], "grace"))
            raise ValueError(f"{step.place}: {step.argument} windows have {can}")
    grace_ms = options.get("grace", 0)
    if step.argument == "session":
        return flow.windowedBy(SessionWindows.ofInactivityGapAndGrace(options["gap"], grace_ms))
    windows = TimeWindows.ofSizeAndGrace(options["size"], grace_ms)
    if step.argument == "hopping":
        windows = windows.advanceBy(options["advance"])
    return flow.windowedBy(windows)


def _aggregate(flow: Any, step: Step, _: _Names) -> KTable:
    options, initial = step.options, step.options["initial"]
    arguments: list[Any] = [lambda: initial, step.argument]
    if isinstance(flow, KGroupedTable):
        if "subtract" not in options:
            raise ValueError(f"{step.place}: subtract is missing: the group is of a table")
        arguments.append(options["subtract"])
    elif isinstance(flow, WindowedKStream):
        if flow.has_sessions and "merge" not in options:
            raise ValueError(f"{step.place}: merge is missing: sessions are merged")
        arguments.append(options.get("merge"))
    made: KTable = flow.aggregate(*arguments, materialized=_materialized(options))
    return made


def _reduce(flow: Any, step: Step, _: _Names) -> KTable:
    arguments = [step.argument]
    if isinstance(flow, KGroupedTable):
        if "subtract" not in step.options:
            raise ValueError(f"{step.place}: subtract is missing: the group is of a table")
        arguments.append(step.options["subtract"])
    made: KTable = flow.reduce(*arguments, materialized=_materialized(step.options))
    return made


def _count(flow: Any, step: Step, _: _Names) -> KTable:
    made: KTable = flow.count(_materialized(step.options))
    return made


def _suppress(flow: KTable, step: Step, _: _Names) -> KTable:
    options = step.options
    bounds = (options.get("max-records"), options.get("max-bytes"))
    early = options.get("when-full", "shut-down") == "emit-early"
    if step.argument == "until-window-closes":
        if early or "limit" in options:
            raise ValueError(
                f"{step.place}: until-window-closes has no limit and never emits early"
            )
        return flow.suppress(Suppressed.untilWindowCloses(*bounds))
    if "limit" not in options:
        raise ValueError(f"{step.place}: limit is missing")
    return flow.suppress(Suppressed.untilTimeLimit(options["limit"], *bounds, emit_early=early))


def _join_stream(flow: KStream, step: Step, names: _Names) -> KStream:
    other = names.chain(step, KStream, KTable)
    options, value = step.options, _three(step.options["value"])
    call = {"join": flow.join, "left-join": flow.leftJoin, "outer-join": flow.outerJoin}[step.name]
    if isinstance(other, KTable):
        if step.name == "outer-join":
            raise ValueError(f"{step.place}: a stream and a table have join and left-join only")
        return call(other, value, None)  # type: ignore[arg-type]
    within = options.get("within", 0)
    if not options.keys() & {"within", "before", "after"}:
        raise ValueError(f"{step.place}: within is missing; allowed: within, before, after, grace")
    windows = JoinWindows.ofTimeDifferenceAndGrace(within, options.get("grace", 0))
    windows = windows.before(options.get("before", within)).after(options.get("after", within))
    return call(other, value, windows)


def _join_table(flow: KTable, step: Step, names: _Names) -> KTable:
    other = names.chain(step, KTable)
    call = {"join": flow.join, "left-join": flow.leftJoin, "outer-join": flow.outerJoin}[step.name]
    return call(other, _three(step.options["value"]), _materialized(step.options))


STEPS: dict[tuple[type, str], Apply] = {
    (KStream, "filter"): lambda flow, step, _: flow.filter(step.argument),
    (KStream, "filter-not"): lambda flow, step, _: flow.filterNot(step.argument),
    (KStream, "map"): lambda flow, step, _: flow.map(_pair(step.argument)),
    (KStream, "map-values"): lambda flow, step, _: flow.mapValues(_two(step.argument)),
    (KStream, "select-key"): lambda flow, step, _: flow.selectKey(step.argument),
    (KStream, "flat-map"): lambda flow, step, _: flow.flatMap(step.argument),
    (KStream, "flat-map-values"): lambda flow, step, _: flow.flatMapValues(_two(step.argument)),
    (KStream, "process"): _process,
    (KStream, "process-values"): _process,
    (KStream, "punctuate"): _punctuate,
    (KStream, "merge"): lambda flow, step, names: flow.merge(names.chain(step, KStream)),
    (KStream, "repartition"): lambda flow, step, _: flow.repartition(
        None if step.argument is True else step.argument, step.options.get("partitions")
    ),
    (KStream, "to"): lambda flow, step, _: flow.to(step.argument),
    (KStream, "to-table"): lambda flow, step, _: flow.toTable(_materialized(step.options)),
    (KStream, "group-by-key"): lambda flow, step, _: flow.groupByKey(step.options.get("name")),
    (KStream, "group-by"): lambda flow, step, _: flow.groupBy(
        step.argument, step.options.get("name")
    ),
    (KStream, "join"): _join_stream,
    (KStream, "left-join"): _join_stream,
    (KStream, "outer-join"): _join_stream,
    (KTable, "filter"): lambda flow, step, _: flow.filter(
        step.argument, _materialized(step.options)
    ),
    (KTable, "filter-not"): lambda flow, step, _: flow.filterNot(
        step.argument, _materialized(step.options)
    ),
    (KTable, "map-values"): lambda flow, step, _: flow.mapValues(
        _two(step.argument), _materialized(step.options)
    ),
    (KTable, "to-stream"): lambda flow, *_: flow.toStream(),
    (KTable, "suppress"): _suppress,
    (KTable, "group-by"): lambda flow, step, _: flow.groupBy(
        _pair(step.argument), step.options.get("name")
    ),
    (KTable, "join"): _join_table,
    (KTable, "left-join"): _join_table,
    (KTable, "outer-join"): _join_table,
    (KGroupedStream, "windowed-by"): _windowed_by,
    (WindowedKStream, "emit"): lambda flow, step, _: flow.emitStrategy(step.argument),
    **{
        (kind, name): apply
        for kind in (KGroupedStream, WindowedKStream, KGroupedTable)
        for name, apply in (("count", _count), ("reduce", _reduce), ("aggregate", _aggregate))
    },
}  # fmt: skip
"""What a step does to what comes before it."""


def _two(function: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Return a function whose two parameters can be seen (ValueMapperWithKey)."""
    return lambda key, value: function(key, value)


def _three(function: Callable[..., Any]) -> Callable[[Any, Any, Any], Any]:
    """Return a function whose three parameters can be seen (ValueJoinerWithKey)."""
    return lambda key, left, right: function(key, left, right)
