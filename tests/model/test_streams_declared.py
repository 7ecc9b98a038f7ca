"""A topology as tables is the same as by the DSL's calls, and a mistake in it is one line."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.streams.declared import Expression, topology_of
from kafkasim.model.streams.dsl import StreamsBuilder, Suppressed, TimeWindows
from kafkasim.model.streams.processors.context import Processor, StreamsFailure
from kafkasim.model.streams.records import StreamRecord
from kafkasim.model.streams.reference import TestDriver


def steps(*each: Any) -> list[dict[str, Any]]:
    return [{"stream": "in", "steps": list(each)}]


def test_tables_make_the_topology_of_the_same_calls() -> None:
    declared = [
        {"table": "users", "as": "users"},
        {
            "stream": ["orders"],
            "steps": [
                {"select-key": "value['user']"},
                {"left-join": "users", "value": "[left, right]"},
                "group-by-key",
                {"windowed-by": "tumbling", "size": "10s", "grace": "2s"},
                "count",
                {"suppress": "until-window-closes"},
                "to-stream",
                {"to": "counts"},
            ],
        },
    ]
    builder = StreamsBuilder()
    users = builder.table("users")
    orders = builder.stream("orders").selectKey(lambda _, value: value["user"])
    joined = orders.leftJoin(users, lambda left, right: [left, right]).groupByKey()
    counts = joined.windowedBy(TimeWindows.ofSizeAndGrace(10_000, 2_000)).count()
    counts.suppress(Suppressed.untilWindowCloses()).toStream().to("counts")
    by_calls = builder.build()
    by_tables = topology_of(declared)
    assert by_tables.describe() == by_calls.describe()
    assert by_tables.stores == by_calls.stores


@pytest.mark.parametrize(
    ("tables", "line"),
    [
        ([], "topology: a list of chains is needed"),
        ([{"steps": []}], "topology.0: where does it begin? allowed: stream, table, from, store"),
        (
            [{"stream": "a", "setps": []}],
            "topology.0.setps: no such key; allowed: reset, value-deserializer",
        ),
        ([{"from": "x"}], "topology.0.from: no chain 'x'; allowed: none yet"),
        (steps({"fliter": "value"}), "topology.0.steps.0: no step fliter; allowed: filter,"),
        (steps("count"), "topology.0.steps.0: count follows a stream; allowed after: a grouped"),
        (steps({"to": "x"}, "count"), "topology.0.steps.1: count follows nothing: the chain has"),
        (steps({"filter": "valu"}), "topology.0.steps.0.filter: 'valu' is not allowed in 'valu'"),
        (steps({"filter": "value +"}), "topology.0.steps.0.filter: 'value +' is no expression"),
        (steps({"filter": "open('x')"}), "topology.0.steps.0.filter: \"open('x')\" is not allowed"),
        (steps({"join": "x"}), "topology.0.steps.0: value is missing; allowed: value, within"),
        (
            steps("group-by-key", {"windowed-by": "tumbling", "size": "10 s"}),
            "topology.0.steps.1.size: '10 s' is no duration; allowed: such as",
        ),
        (
            steps("group-by-key", {"windowed-by": "session", "size": 5}),
            "topology.0.steps.1: session windows have gap, grace",
        ),
        (
            steps("group-by-key", {"windowed-by": "hopping", "size": 5, "advance": 6}),
            "topology.0.steps.1: Window advancement interval should be more than zero",
        ),
        (
            steps("group-by-key", "count", {"suppress": "until-window-closes"}),
            "topology.0.steps.2: Window close time is only defined for windowed computations",
        ),
        ([1], "topology.0: a table is needed, with one of: stream, table, from, store"),
        ([{"stream": "a", "steps": "count"}], "topology.0.steps: a list is needed; allowed:"),
        ([{"stream": ""}], "topology.0.stream: '' is no text"),
        (steps(7), "topology.0.steps.0: a step is a name or a table; allowed: filter"),
        (steps({"to-stream": 7}), "topology.0.steps.0.to-stream: 7 is not allowed; allowed: true"),
        (
            steps({"repartition": True, "partitions": 0}),
            "topology.0.steps.0.partitions: 0 is not allowed; allowed: a number of at least 1",
        ),
        (
            [{"table": "a", "store": "s", "caching": "no"}],
            "topology.0.caching: 'no' is not allowed; allowed: true, false",
        ),
        (
            steps("group-by-key", {"windowed-by": "daily"}),
            "topology.0.steps.1.windowed-by: 'daily' is not allowed; allowed: tumbling, hopping",
        ),
        (
            [{"stream": "a", "as": "s"}, {"table": "b", "steps": [{"join": "s", "value": "0"}]}],
            "topology.1.steps.0.join: s is not a table",
        ),
        (
            [{"table": "b", "as": "t"}, *steps({"outer-join": "t", "value": "0"})],
            "topology.1.steps.0: a stream and a table have join and left-join only",
        ),
        (
            [{"stream": "b", "as": "s"}, *steps({"join": "s", "value": "0", "grace": 5})],
            "topology.1.steps.0: within is missing; allowed: within, before, after, grace",
        ),
        (
            steps(
                "group-by-key",
                {"windowed-by": "session", "gap": 5},
                {"aggregate": "1", "initial": 0},
            ),
            "topology.0.steps.2: merge is missing: sessions are merged",
        ),
        (
            [{"table": "a", "steps": [{"group-by": "[key, value]"}, {"reduce": "value"}]}],
            "topology.0.steps.1: subtract is missing: the group is of a table",
        ),
        (
            [
                {
                    "table": "a",
                    "steps": [{"group-by": "[key, value]"}, {"aggregate": "value", "initial": 0}],
                }
            ],
            "topology.0.steps.1: subtract is missing: the group is of a table",
        ),
        (
            [{"table": "a", "steps": [{"suppress": "until-time-limit"}]}],
            "topology.0.steps.0: limit is missing",
        ),
        (
            steps(
                "group-by-key",
                {"windowed-by": "tumbling", "size": 5},
                "count",
                {"suppress": "until-window-closes", "limit": 5},
            ),
            "topology.0.steps.3: until-window-closes has no limit and never emits early",
        ),
        (
            [*steps({"to": "x"}), {"stream": ["in", "b"], "steps": [{"to": "y"}]}],
            "topology: Two source nodes are subscribed to overlapping but not equal input topics",
        ),
        (steps({"process": "my.py"}), "topology.0.steps.0: processors of a file are not allowed"),
    ],
)
def test_a_mistake_is_one_line_that_says_what_is_allowed(tables: Any, line: str) -> None:
    with pytest.raises(ValueError, match=r"^topology") as caught:
        topology_of(tables)
    assert str(caught.value).startswith(line)
    assert "\n" not in str(caught.value)


def test_an_expression_without_a_value_stops_the_application() -> None:
    add = Expression("value + 1", ("key", "value"))
    assert add("k", 1) == 2
    with pytest.raises(StreamsFailure, match=r"value \+ 1: .*with key='k', value=None"):
        add("k", None)


class Latest(Processor):
    """Keeps the last value of each key in a store, and forwards the one before."""

    def process(self, record: StreamRecord) -> None:
        """Forward what the store had."""
        store = self.context.store("latest")
        before = store.get(record.key)
        store.put(record.key, record.value)
        self.context.forward(record._replace(value=before))


def test_a_processor_of_a_users_file_has_its_store() -> None:
    declared = [
        {"store": "latest"},
        *steps({"process": "mine.py:Latest", "stores": "latest"}, {"to": "out"}),
    ]
    loaded: list[str] = []

    def load(text: str) -> type[Processor]:
        loaded.append(text)
        return Latest

    driver = TestDriver(topology_of(declared, load=load))
    driver.pipe("in", "a", 1, 10)
    driver.pipe("in", "a", 2, 20)
    assert loaded == ["mine.py:Latest"]
    assert [output[1:] for output in driver.outputs] == [("a", None, 10), ("a", 1, 20)]
