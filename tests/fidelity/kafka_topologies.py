"""What Kafka Streams' operators do with generated records, as TopologyTestDriver says.

A case is a topology, as a scenario file has it, with records drawn from a seed: out of order, late
by more than the grace, with null keys and values, with equal timestamps. `java/Topologies.java`
builds the same topology and prints what it describes, writes, logs, keeps and drops;
:func:`model_lines` prints the same of the model. Each topology runs with the record cache and
without.
"""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kafkasim.model.streams.declared import Chain, Expression, build, parse
from kafkasim.model.streams.processors.context import StreamsFailure
from kafkasim.model.streams.records import ValueAndTimestamp, Windowed, serialized
from kafkasim.model.streams.reference import TestDriver
from kafkasim.model.streams.topology.nodes import StoreKind
from tests.fidelity.real_kafka import fetched, run_java

HERE = Path(__file__).parent
ANSWERS = HERE / "topologies" / "answers.txt"

VERSIONS = ("3.9.1", "4.0.0", "4.1.0")
"""They say the same, so one file is held to all of them."""
ARTIFACT = "kafka-streams-test-utils"
CACHE_BYTES = 10 * 1024 * 1024
START_MS = 1_000_000
RECORDS = 24

IN, OTHER = {"stream": "in"}, {"stream": "other", "as": "other"}
TABLE = {"table": "table", "as": "table"}
OUT: list[Any] = [{"to": "out"}]
TABLE_OUT: list[Any] = ["to-stream", {"to": "out"}]
PAIR = "[left, right]"
NUMBER = "(100 if value is None else value)"
"""The value, or a number in place of null."""

COPIES = {"flat-map-values": "[value] if value is None else [value, value + 1, value + 2]"}
"""Several updates in one record: the cache lets the last one of a key out."""


def chain(*steps: Any, **begin: Any) -> dict[str, Any]:
    """Return a chain over topic `in`, or another."""
    return {**(begin or IN), "steps": list(steps)}


def windows(kind: str, **options: Any) -> dict[str, Any]:
    """Return a step that groups by windows."""
    return {"windowed-by": kind, **options}


TUMBLING = windows("tumbling", size=10, grace=5)
HOPPING = windows("hopping", size=10, advance=4, grace=3)
SESSION = windows("session", gap=5, grace=4)
NO_GRACE = windows("tumbling", size=10)
LONG = windows("tumbling", size=60_000, grace=30_000)
FINAL = {"suppress": "until-window-closes"}
SUM = {"aggregate": f"aggregate + {NUMBER}", "initial": 0}
MERGED_SUM = {**SUM, "merge": "one + other"}
BY_VALUE = {"group-by": f"'g' + str({NUMBER} % 3)"}
TABLE_BY_VALUE = {"group-by": "['g' + str(value % 3), value]"}
LIST = {"aggregate": "aggregate + [value]", "initial": []}


def joined(kind: str, **options: Any) -> list[dict[str, Any]]:
    """Return the chains of a join of two streams."""
    return [chain(**OTHER), chain({kind: "other", "value": PAIR, **options}, *OUT)]


def with_table(kind: str, *before: Any) -> list[dict[str, Any]]:
    """Return the chains of a join of a stream and a table."""
    return [chain(**TABLE), chain(*before, {kind: "table", "value": PAIR}, *OUT)]


def tables(kind: str, *after: Any, **kept: Any) -> list[dict[str, Any]]:
    """Return the chains of a join of two tables."""
    step = {kind: "table", "value": PAIR, **kept}
    return [chain(**TABLE), chain(step, *after, *TABLE_OUT, table="in")]


CASES: dict[str, list[dict[str, Any]]] = {
    "map": [chain({"map": f"[str({NUMBER} % 2), key]"}, *OUT)],
    "filter": [chain({"filter": f"{NUMBER} % 2 == 0"}, {"filter-not": "key == 'a'"}, *OUT)],
    "select-key": [
        chain({"select-key": f"str({NUMBER} % 3)"}, {"map-values": f"{NUMBER} * 2"}, *OUT)
    ],
    "flat-map": [chain({"flat-map": f"[[key, value], ['x', {NUMBER} + 1]]"}, *OUT)],
    "merge": [chain(**OTHER), chain({"merge": "other"}, *OUT)],
    "repartition": [chain({"select-key": f"str({NUMBER} % 3)"}, "repartition", *OUT)],
    "count": [chain(COPIES, "group-by-key", "count", *TABLE_OUT)],
    "count-store": [chain("group-by-key", {"count": True, "store": "counts"}, *TABLE_OUT)],
    "count-unnamed": [chain("group-by-key", {"count": True, "caching": False}, *TABLE_OUT)],
    "count-by": [chain(COPIES, BY_VALUE, "count", *TABLE_OUT)],
    "count-twice": [
        {**chain(BY_VALUE, **IN), "as": "groups"},
        chain("count", *TABLE_OUT, **{"from": "groups"}),
        chain({"reduce": "aggregate + value"}, "to-stream", {"to": "sums"}, **{"from": "groups"}),
    ],
    "reduce": [chain(COPIES, "group-by-key", {"reduce": "max(aggregate, value)"}, *TABLE_OUT)],
    "reduce-to-null": [
        chain("group-by-key",
              {"reduce": "None if value % 5 == 0 else aggregate + value"}, *TABLE_OUT)
    ],
    "aggregate": [chain("group-by-key", LIST, {"filter": "len(value) > 1"}, *TABLE_OUT)],
    "tumbling": [chain(COPIES, "group-by-key", TUMBLING, "count", *TABLE_OUT)],
    "tumbling-no-grace": [chain("group-by-key", NO_GRACE, SUM, *TABLE_OUT)],
    "tumbling-by": [chain(BY_VALUE, TUMBLING, {"reduce": f"aggregate + {NUMBER}"}, *TABLE_OUT)],
    "hopping": [chain("group-by-key", HOPPING, SUM, *TABLE_OUT)],
    "retention": [chain("group-by-key", NO_GRACE, {**SUM, "retention": 200}, *TABLE_OUT)],
    "long-windows": [chain("group-by-key", LONG, "count", *TABLE_OUT)],
    "sessions": [chain(COPIES, "group-by-key", SESSION, "count", *TABLE_OUT)],
    "sessions-reduce": [
        chain("group-by-key", SESSION, {"reduce": f"aggregate + {NUMBER}"}, *TABLE_OUT)
    ],
    "sessions-by": [chain(BY_VALUE, SESSION, MERGED_SUM, *TABLE_OUT)],
    "windows-final": [
        chain("group-by-key", TUMBLING, {"emit": "on-window-close"}, "count", *TABLE_OUT)
    ],
    "hopping-final": [
        chain("group-by-key", HOPPING, {"emit": "on-window-close"}, SUM, *TABLE_OUT)
    ],
    "sessions-final": [
        chain("group-by-key", SESSION, {"emit": "on-window-close"}, "count", *TABLE_OUT)
    ],
    "suppress": [chain("group-by-key", TUMBLING, "count", FINAL, *TABLE_OUT)],
    "suppress-sessions": [chain("group-by-key", SESSION, "count", FINAL, *TABLE_OUT)],
    "suppress-filtered": [
        chain("group-by-key", TUMBLING, "count", {"filter": "value > 1"}, FINAL, *TABLE_OUT)
    ],
    "suppress-full": [
        chain("group-by-key", TUMBLING, "count", {**FINAL, "max-records": 3}, *TABLE_OUT)
    ],
    "suppress-time": [
        chain("group-by-key", "count", {"suppress": "until-time-limit", "limit": 7}, *TABLE_OUT)
    ],
    "suppress-early": [
        chain("group-by-key", "count",
              {"suppress": "until-time-limit", "limit": 20, "max-records": 2,
               "when-full": "emit-early"}, *TABLE_OUT)
    ],
    "join": joined("join", within=6, grace=4),
    "join-asymmetric": joined("join", before=2, after=8),
    "join-repartitioned": [
        chain(**OTHER),
        chain({"select-key": f"'a' if {NUMBER} % 2 == 0 else 'b'"},
              {"join": "other", "value": PAIR, "within": 6}, *OUT),
    ],
    "left-join": joined("left-join", within=6, grace=4),
    "left-join-asymmetric": joined("left-join", before=8, after=2, grace=1),
    "left-join-repartitioned": [
        chain(**OTHER),
        chain({"select-key": f"None if {NUMBER} % 4 == 0 else 'a'"},
              {"left-join": "other", "value": PAIR, "within": 6}, *OUT),
    ],
    "outer-join": joined("outer-join", within=6, grace=4),
    "outer-join-asymmetric": joined("outer-join", before=2, after=8, grace=1),
    "join-itself": [
        {**chain(**IN), "as": "self"},
        chain({"join": "self", "value": PAIR, "within": 4}, *OUT, **{"from": "self"}),
    ],
    "stream-table-join": with_table("join"),
    "stream-table-left-join": with_table("left-join"),
    "stream-table-repartitioned": with_table("left-join", {"select-key": "'a'"}),
    "stream-aggregate-join": [
        {**chain("group-by-key", "count", **OTHER), "as": "counts"},
        chain({"join": "counts", "value": PAIR}, *OUT),
    ],
    "join-filtered-table": [
        chain({"filter": "value % 2 == 0"}, **TABLE),
        *with_table("left-join")[1:],
    ],
    "join-mapped-table": [
        chain({"map-values": "[value]"}, **TABLE), *with_table("join")[1:]
    ],
    "join-joined-tables": [
        {"table": "other", "as": "second"},
        chain({"outer-join": "second", "value": PAIR}, **TABLE),
        *with_table("left-join")[1:],
    ],
    "join-suppressed": [
        {**chain("group-by-key", "count", {"suppress": "until-time-limit", "limit": 7},
                 stream="other"), "as": "table"},
        *with_table("left-join")[1:],
    ],
    "suppress-group": [
        chain("group-by-key", "count", {"suppress": "until-time-limit", "limit": 7},
              {"group-by": "['g', value]"}, SUM | {"subtract": "aggregate - value"}, *TABLE_OUT)
    ],
    "count-of-counts": [
        chain(COPIES, "group-by-key", "count", {"group-by": "[str(value), key]"}, "count",
              *TABLE_OUT)
    ],
    "filter-of-sums": [
        chain(COPIES, "group-by-key", {**SUM, "store": "sums"},
              {"filter-not": "value % 3 == 0", "store": "some"}, {"map-values": "value * 2"},
              {"group-by": "['g', value]"}, "count", *TABLE_OUT)
    ],
    "suppress-mapped": [
        chain("group-by-key", HOPPING, "count", {"map-values": "[value]"}, FINAL,
              {"filter": "value[0] > 1"}, *TABLE_OUT)
    ],
    "map-after-filter-of-table": [
        chain({"map-values": "value + 1"}, {"filter": "value % 2 == 0"},
              {"group-by": "['g' + str(value % 3), value]"}, "count", *TABLE_OUT, table="in",
              store="kept")
    ],
    "table": [chain(*TABLE_OUT, table="in")],
    "table-store": [chain({"map-values": "value + 1"}, *TABLE_OUT, table="in", store="kept")],
    "table-filter": [chain({"filter": "value % 2 == 0"}, *TABLE_OUT, table="in")],
    "table-filter-store": [
        chain({"filter": "value % 2 == 0", "store": "even"}, *TABLE_OUT, table="in")
    ],
    "table-filter-old": [
        chain({"filter": "value % 2 == 0"}, TABLE_BY_VALUE, "count", *TABLE_OUT, table="in")
    ],
    "table-map-values": [
        chain({"map-values": "value * 10", "caching": False}, *TABLE_OUT, table="in")
    ],
    "table-count-by": [chain(TABLE_BY_VALUE, "count", *TABLE_OUT, table="in")],
    "table-sum-by": [
        chain(TABLE_BY_VALUE, {**SUM, "subtract": "aggregate - value"}, *TABLE_OUT, table="in")
    ],
    "table-reduce-by": [
        chain(TABLE_BY_VALUE,
              {"reduce": "aggregate + value", "subtract": "aggregate - value"},
              *TABLE_OUT, table="in")
    ],
    "to-table": [chain(COPIES, "to-table", {"map-values": "value"}, *TABLE_OUT)],
    "to-table-repartitioned": [
        chain({"select-key": f"'k' + str({NUMBER} % 2)"}, {"to-table": True, "store": "last"},
              *TABLE_OUT)
    ],
    "tables-join": tables("join"),
    "tables-left-join": tables("left-join"),
    "tables-outer-join": tables("outer-join"),
    "tables-join-store": tables("outer-join", store="both"),
    "tables-join-old": tables("left-join", {"filter": "value[1] is not None"}, {
        "group-by": "['g', value[0]]"}, "count"),
    "punctuate-stream-time": [
        chain({"punctuate": "stream-time", "every": 7, "key": "'tick'", "value": "time"}, *OUT)
    ],
    "punctuate-wall-clock": [
        chain({"punctuate": "wall-clock-time", "every": 700, "key": "'tick'", "value": "time"},
              "group-by-key", "count", *TABLE_OUT)
    ],
    "windowed-tables-join": [
        {**chain("group-by-key", TUMBLING, "count", stream="other"), "as": "table"},
        chain("group-by-key", TUMBLING, "count", {"outer-join": "table", "value": PAIR},
              *TABLE_OUT),
    ],
    "session-tables-join": [
        {**chain("group-by-key", SESSION, "count", stream="other"), "as": "table"},
        chain("group-by-key", SESSION, "count", {"left-join": "table", "value": PAIR},
              *TABLE_OUT),
    ],
}  # fmt: skip
"""Topologies by name."""

INPUTS = ("in", "other", "table")


@dataclass(frozen=True)
class Case:
    """A topology, the bytes of the record cache, and the records that it takes."""

    name: str
    chains: tuple[Chain, ...]
    cache: int
    inputs: list[list[Any]]
    describe: bool

    def outputs(self) -> list[str]:
        """Return the topics that it writes to."""
        steps = [step for each in self.chains for step in each.steps]
        return sorted({step.argument for step in steps if step.name == "to"})

    def line(self) -> str:
        """Return the case as the Java program reads it."""
        return json.dumps(
            {
                "name": self.name, "cache": self.cache, "inputs": self.inputs,
                "describe": self.describe, "outputs": self.outputs(),
                "chains": [_as_json(each) for each in self.chains],
            }
        )  # fmt: skip


def _as_json(value: Any) -> Any:
    if isinstance(value, Expression):
        return value.tree
    if isinstance(value, Chain):
        return {
            "kind": value.kind, "source": value.source, "options": _as_json(value.options),
            "named": value.named,
            "steps": [
                {"name": s.name, "argument": _as_json(s.argument), "options": _as_json(s.options)}
                for s in value.steps
            ],
        }  # fmt: skip
    if isinstance(value, dict):
        return {key: _as_json(each) for key, each in value.items()}
    return value


def cases(seed: int = 0) -> Iterator[Case]:
    """Return all cases, with the cache first; the committed ones are of seed 0."""
    for number, (name, tables) in enumerate(CASES.items()):
        chains = parse(tables, name)
        topics = [topic for topic in INPUTS if any(topic in _topics(each) for each in chains)]
        span = 40_000 if name == "long-windows" else 10
        for cache in (CACHE_BYTES, 0):
            rng = random.Random(1_000_000 * seed + 1000 * number + (cache > 0))
            inputs = list(_inputs(rng, topics, span))
            yield Case(f"{name}, {'cache' if cache else 'no cache'}", chains, cache, inputs,
                       cache > 0)  # fmt: skip


def _topics(chain: Chain) -> tuple[str, ...]:
    return chain.source if chain.kind == "stream" else (chain.source,)


def _inputs(rng: random.Random, topics: list[str], span: int) -> Iterator[list[Any]]:
    """Draw records; time goes on by a few ms, or much, and some records are older."""
    now = rng.randrange(3 * span)
    for _ in range(RECORDS):
        if rng.random() < 0.2:
            yield [rng.choice((300, 600, 1000, 2500))]
        topic = rng.choice(topics)
        key = rng.choice(("a", "a", "b", "b", "c", None if rng.random() < 0.5 else "d"))
        value = None if rng.random() < (0.2 if topic == "table" else 0.07) else rng.randrange(100)
        late = rng.choice((0, 0, 0, rng.randrange(span), rng.randrange(3 * span)))
        yield [topic, key, value, max(0, now - late)]
        now += rng.choice((0, 1, span // 4, span // 2, rng.randrange(2 * span)))
        if rng.random() < 0.05:
            now += 20 * span


def ask(version: str, seed: int = 0) -> list[str]:
    """Return what TopologyTestDriver prints of all cases."""
    libs = fetched(ARTIFACT, version)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as file:
        file.write("\n".join([case.line() for case in cases(seed)]) + "\n")
        file.flush()
        return run_java(libs, HERE / "java" / "Topologies.java", file.name)


def committed() -> dict[str, list[str]]:
    """Return what Kafka said, by case."""
    return by_case(ANSWERS.read_text(encoding="utf-8").splitlines())


def by_case(lines: list[str]) -> dict[str, list[str]]:
    """Return the lines of each case, by its name."""
    found: dict[str, list[str]] = {}
    for line in lines:
        if line.startswith("case "):
            found[line.removeprefix("case ")] = mine = []
        mine.append(line)
    return found


def model_lines(case: Case) -> list[str]:
    """Return what the model says of a case, as the Java program prints it."""
    lines = [f"case {case.name}"]
    topology = build(case.chains)
    if case.describe:
        described = topology.describe().splitlines()
        lines += [f"  {line}" if line else "" for line in described]
    driver = TestDriver(topology, "app", case.cache, START_MS)
    try:
        for each in case.inputs:
            is_record = len(each) > 1
            lines.append(f"  < {each[0]} {_text(each[1:])}" if is_record else f"  + {each[0]}")
            lines += _piped(driver, case, each)
    except StreamsFailure:
        return [*lines, "  fails: StreamsException"]
    lines.append(f"  dropped {len(driver.reference.dropped)}")
    for name in sorted(driver.reference.task.stores):
        kind = topology.stores[name].kind
        if kind is not StoreKind.SUPPRESSION:
            for key, entry in driver.reference.task.visible(name).all():
                lines += _entry(name, kind, key, entry)
    return lines


def _piped(driver: TestDriver, case: Case, given: list[Any]) -> list[str]:
    reference, lines = driver.reference, list[str]()
    written, logged = len(reference.outputs), len(reference.changelog)
    if len(given) == 1:
        driver.advance_wall_clock(given[0])
    else:
        driver.pipe(*given)
    outputs = reference.outputs[written:]
    for topic in case.outputs():
        lines += [
            f"    > {topic} {_text([_shown(o.key), o.value, o.timestamp])}"
            for o in outputs
            if o.topic == topic
        ]
    changes = reference.changelog[logged:]
    for store in sorted({change.store for change in changes}, key=lambda s: f"app-{s}-changelog"):
        for change in changes:
            if change.store == store:
                time = "" if change.timestamp is None else f" {change.timestamp}"
                key = serialized(change.key).hex()
                is_set = "null" if change.value is None else "set"
                lines.append(f"    log app-{store}-changelog {key} {is_set}{time}")
    return lines


def _entry(name: str, kind: StoreKind, key: Any, entry: Any) -> list[str]:
    if kind is StoreKind.OUTER_JOIN:
        return [f"  in {name}" for _ in entry]
    if isinstance(entry, ValueAndTimestamp):
        return [f"  in {name} {_text([_shown(key), *entry])}"]
    return [f"  in {name} {_text([_shown(key), entry])}"]


def _shown(key: Any) -> Any:
    return str(key) if isinstance(key, Windowed) else key


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
