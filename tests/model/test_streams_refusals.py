"""What Kafka Streams refuses, and what a processor may do with its stores and children."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kafkasim.model.streams.dsl import (
    JoinWindows,
    KTable,
    SessionWindows,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from kafkasim.model.streams.dsl.streams import Materialized
from kafkasim.model.streams.processors.context import Processor, PunctuationType, StreamsFailure
from kafkasim.model.streams.processors.stateless import PassThrough
from kafkasim.model.streams.records import StreamRecord, base_key, serialized
from kafkasim.model.streams.reference import TestDriver
from kafkasim.model.streams.topology import StoreKind, StoreSpec, Topology, TopologyError


@pytest.mark.parametrize(
    ("make", "line"),
    [
        (lambda: TimeWindows.ofSizeWithNoGrace(0), "must be larger than zero"),
        (lambda: TimeWindows.ofSizeAndGrace(5, -1), "Grace period must not be negative"),
        (lambda: SessionWindows.ofInactivityGapWithNoGrace(0), "cannot be zero or negative"),
        (lambda: SessionWindows.ofInactivityGapAndGrace(5, -1), "must not be negative"),
        (
            lambda: JoinWindows.ofTimeDifferenceWithNoGrace(5).before(-6),
            "must not be negative",
        ),
        (lambda: JoinWindows.ofTimeDifferenceAndGrace(5, -1), "must not be negative"),
    ],
)
def test_windows_that_cannot_be_are_refused(make: Callable[[], Any], line: str) -> None:
    with pytest.raises(TopologyError, match=line):
        make()


def test_a_retention_shorter_than_its_windows_is_refused() -> None:
    windowed = StreamsBuilder().stream("in").groupByKey()
    windows = windowed.windowedBy(TimeWindows.ofSizeAndGrace(10, 5))
    with pytest.raises(TopologyError, match=r"Got retention=\[14\], allowed: at least 15"):
        windows.count(Materialized(retention_ms=14))


def test_topologies_that_cannot_be_are_refused() -> None:
    topology = Topology()
    topology.add_source("source", "in")
    topology.add_sink("sink", "out", "source")
    store = StoreSpec("store", StoreKind.PLAIN)
    refused: list[tuple[Callable[[], None], str]] = [
        (lambda: topology.add_source("other"), "at least one topic"),
        (lambda: topology.add_source("other", "in"), "already been registered"),
        (lambda: topology.add_processor("source", PassThrough, "source"), "already added"),
        (lambda: topology.add_processor("p", PassThrough), "at least one parent"),
        (lambda: topology.add_processor("p", PassThrough, "p"), "parent of itself"),
        (lambda: topology.add_processor("p", PassThrough, "q"), "q is not added yet for p"),
        (lambda: topology.add_sink("s", "x", "sink"), "Sink sink cannot be a parent"),
        (lambda: topology.connect("source", "store"), "StateStore store is not added yet"),
        (lambda: topology.add_store(store, "source"), "Processor source is not added yet"),
        (
            lambda: topology.add_store(StoreSpec("store", StoreKind.SESSION)),
            "different StateStore",
        ),
    ]
    for add, line in refused:
        with pytest.raises(TopologyError, match=line):
            add()


def test_sources_of_one_topic_must_agree_where_they_begin() -> None:
    builder = StreamsBuilder()
    builder.stream("in", reset="earliest").to("x")
    builder.stream("in", reset="latest").to("y")
    with pytest.raises(TopologyError, match="different offset reset policies"):
        builder.build()


def test_sources_of_one_topic_are_one_node() -> None:
    builder = StreamsBuilder()
    builder.stream("in").to("x")
    builder.stream("in").to("y")
    driver = TestDriver(builder.build())
    driver.pipe("in", "k", 1, 5)
    assert [output.topic for output in driver.outputs] == ["x", "y"]


def test_a_table_may_have_its_topic_for_a_changelog() -> None:
    builder = StreamsBuilder()
    users = builder.table("users", Materialized("kept"))
    users.toStream().to("out")
    topology = builder.build("reuse.ktable.source.topics")
    (only,) = topology.subtopologies("app")
    assert only.changelog_topics == {"kept": "users"}
    driver = TestDriver(topology)
    driver.pipe("users", "k", 1, 5)
    assert driver.reference.changelog == []


class Steps(Processor):
    """Runs a function for each record."""

    def __init__(self, step: Callable[[Steps, StreamRecord], None]) -> None:
        self._step = step

    def process(self, record: StreamRecord) -> None:
        """Run the function."""
        self._step(self, record)


def processed(step: Callable[[Steps, StreamRecord], None], *stores: str) -> TestDriver:
    builder = StreamsBuilder()
    builder.addStateStore("letters")
    builder.addStateStore("others")
    stream = builder.stream("in").process(lambda: Steps(step), *stores)
    stream.to("x")
    stream.to("y")
    driver = TestDriver(builder.build())
    driver.pipe("in", "k", 1, 5)
    return driver


def test_a_processor_sees_its_store_in_the_order_of_keys() -> None:
    found: list[Any] = []

    def step(steps: Steps, _: StreamRecord) -> None:
        store = steps.context.store("letters")
        for key in "dbca":
            store.put(key, key.upper())
        found.extend((store.delete("b"), store.put_if_absent("b", 1), store.put_if_absent("b", 2)))
        found.extend((store.range("b", "c"), store.range(None, "a"), store.range("d", None)))

    driver = processed(step, "letters")
    assert found == ["B", None, 1, [("b", 1), ("c", "C")], [("a", "A")], [("d", "D")]]
    assert [logged.key for logged in driver.reference.changelog] == list("dbcabb")


def test_a_processor_knows_its_record_and_may_choose_a_child() -> None:
    known: list[Any] = []

    def step(steps: Steps, record: StreamRecord) -> None:
        context = steps.context
        known.extend((context.task_id, context.node, context.stream_time_ms))
        context.forward(record, "KSTREAM-SINK-0000000003")

    driver = processed(step)
    assert known == ["0_0", "KSTREAM-PROCESSOR-0000000001", 5]
    assert [output.topic for output in driver.outputs] == ["y"]


@pytest.mark.parametrize(
    ("step", "line"),
    [
        (lambda s, _: s.context.store("others"), "has no access to StateStore others"),
        (lambda s, _: s.context.store("letters").put(None, 1), "key cannot be null"),
        (lambda s, r: s.context.forward(r, "z"), "Unknown downstream node: z .* allowed: KSTREAM"),
        (
            lambda s, _: s.context.schedule(0, PunctuationType.STREAM_TIME, print),
            "minimum supported scheduling interval is 1 millisecond",
        ),
        (
            lambda s, r: s.context.forward(r._replace(timestamp=-1)),
            r"Invalid \(negative\) timestamp of -1",
        ),
    ],
)
def test_what_a_processor_may_not_do_stops_the_application(
    step: Callable[[Steps, StreamRecord], None], line: str
) -> None:
    with pytest.raises((StreamsFailure, ValueError), match=line):
        processed(step, "letters")


def test_a_topic_that_is_not_read_is_refused() -> None:
    builder = StreamsBuilder()
    builder.stream("in").peek(lambda _key, _value: None).foreach(lambda _key, _value: None)
    with pytest.raises(ValueError, match="Unknown topic: out; allowed: in"):
        TestDriver(builder.build()).pipe("out", "k", 1, 5)


def test_a_grouped_table_has_no_null_keys() -> None:
    builder = StreamsBuilder()
    table: KTable = builder.stream("in").groupByKey().count()
    held = table.suppress(Suppressed.untilTimeLimit(1, max_bytes=10_000))
    held.groupBy(lambda key, value: (key, value)).reduce(max, min).toStream().to("out")
    driver = TestDriver(builder.build())
    driver.pipe("in", "k", 1, 5)
    driver.pipe("in", "j", 1, 9)
    assert [output[1:] for output in driver.outputs if output.topic == "out"] == [("k", 1, 5)]


def test_keys_as_bytes() -> None:
    given = ("é", 1, -1, None, b"\x00", True, [1, "a"])
    assert [serialized(each) for each in given] == [
        "é".encode(), bytes(7) + b"\x01", b"\xff" * 8, b"", b"\x00", b"true", b'[1,"a"]',
    ]  # fmt: skip
    assert base_key("k") == "k"
