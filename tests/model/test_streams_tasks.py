"""A task restores from its changelog, flushes its caches when it commits, and fires punctuators.

What operators do is held to TopologyTestDriver (tests/fidelity/test_topologies.py).
"""

from __future__ import annotations

import pytest

from kafkasim.model.streams.declared import build
from kafkasim.model.streams.dsl import (
    JoinWindows,
    KStream,
    StreamsBuilder,
    Suppressed,
    TimeWindows,
)
from kafkasim.model.streams.processors.context import (
    Cancellable,
    Context,
    Processor,
    PunctuationType,
)
from kafkasim.model.streams.processors.rules import OperatorRules
from kafkasim.model.streams.records import StreamRecord
from kafkasim.model.streams.reference import Logged, ReferenceTask
from kafkasim.model.streams.task import TaskTopology
from kafkasim.model.streams.topology import StoreKind, Topology
from tests.fidelity.kafka_topologies import Case, cases

COUNT_STORE = "KSTREAM-AGGREGATE-STATE-STORE-0000000001"


def counting() -> Topology:
    builder = StreamsBuilder()
    builder.stream("in").groupByKey().count().toStream().to("out")
    return builder.build()


def task(topology: Topology, cache_bytes: int = 0) -> ReferenceTask:
    return ReferenceTask(topology, topology.whole("app"), "app", 0, cache_bytes)


def take(reference: ReferenceTask, *records: tuple[str, str, int]) -> None:
    for offset, record in enumerate(records):
        reference.take("in", 0, offset, StreamRecord(*record))


def test_without_cache_every_update_goes_downstream_at_once() -> None:
    reference = task(counting())
    take(reference, ("a", "x", 1), ("a", "y", 2))
    assert [output.value for output in reference.outputs] == [1, 2]
    assert reference.changelog == [Logged(COUNT_STORE, "a", 1, 1), Logged(COUNT_STORE, "a", 2, 2)]


def test_a_cache_holds_updates_back_until_the_commit() -> None:
    reference = task(counting(), cache_bytes=10_000)
    take(reference, ("a", "x", 1), ("b", "x", 2), ("a", "y", 3))
    assert (reference.outputs, reference.changelog) == ([], [])
    reference.commit()
    assert [output[1:] for output in reference.outputs] == [("b", 1, 2), ("a", 2, 3)]
    assert [logged.key for logged in reference.changelog] == ["b", "a"]
    reference.commit()
    assert len(reference.outputs) == 2


def test_a_full_cache_lets_all_written_entries_of_its_store_go() -> None:
    reference = task(counting(), cache_bytes=150)  # an entry has about 57 bytes
    take(reference, ("a", "x", 1), ("b", "x", 2), ("c", "x", 3))
    assert [output.key for output in reference.outputs] == ["a", "b", "c"]


def test_a_recycled_task_forgets_what_it_cached() -> None:
    reference = task(counting(), cache_bytes=10_000)
    take(reference, ("a", "x", 1))
    reference.task.clear_caches()
    reference.commit()
    take(reference, ("a", "y", 2))
    reference.commit()
    assert [output.value for output in reference.outputs] == [1]


UNCACHED = [case for case in cases() if not case.cache and "full" not in case.name]


@pytest.mark.parametrize("case", UNCACHED, ids=lambda case: case.name)
def test_a_store_is_the_fold_of_its_changelog(case: Case) -> None:
    topology = build(case.chains)
    reference, restored = task(topology), task(topology)
    offsets = dict.fromkeys(topology.whole("app").source_topics, 0)
    queue = [each for each in case.inputs if len(each) == 4]
    for topic, key, value, timestamp in queue:
        reference.take(topic, 0, offsets[topic], StreamRecord(key, value, timestamp))
        offsets[topic] += 1
        queue += [[*output] for output in reference.outputs if output.topic in offsets]
        reference.outputs.clear()
    reference.commit()
    for store, key, value, timestamp in reference.changelog:
        restored.task.stores[store].restore(key, value, -1 if timestamp is None else timestamp)
    for name, store in reference.task.stores.items():
        if store.spec.kind is StoreKind.JOIN_WINDOW:
            # Kafka numbers what it logs apart from what it keeps, and logs values of null, too.
            kept = sorted(map(str, store.entries.values()))
            assert sorted(map(str, restored.task.stores[name].entries.values())) == kept
        else:
            assert restored.task.stores[name].all() == store.all()


class Ticker(Processor):
    """Forwards the time of each punctuation, and cancels it after two."""

    def __init__(self, kind: PunctuationType) -> None:
        self._kind, self._fired = kind, 0
        self._scheduled: Cancellable | None = None

    def init(self, context: Context) -> None:
        """Schedule the punctuator."""
        super().init(context)
        self._scheduled = context.schedule(10, self._kind, self._punctuate)

    def process(self, record: StreamRecord) -> None:
        """Take a record and say nothing."""

    def _punctuate(self, time_ms: int) -> None:
        self._fired += 1
        if self._fired == 2 and self._scheduled is not None:
            self._scheduled.cancel()
        self.context.forward(StreamRecord("tick", time_ms, time_ms))


def ticking(kind: PunctuationType) -> ReferenceTask:
    builder = StreamsBuilder()
    stream: KStream = builder.stream("in").process(lambda: Ticker(kind))
    stream.to("out")
    return task(builder.build())


def test_a_late_stream_time_punctuator_fires_once_and_keeps_its_grid() -> None:
    reference = ticking(PunctuationType.STREAM_TIME)
    take(reference, ("a", "x", 47), ("a", "x", 49), ("a", "x", 50), ("a", "x", 99))
    assert [output.value for output in reference.outputs] == [47, 50]


def test_a_wall_clock_punctuator_fires_after_its_interval() -> None:
    reference = ticking(PunctuationType.WALL_CLOCK_TIME)
    for now_ms in (9, 10, 19, 35, 90):
        reference.now_ms = now_ms
        reference.task.punctuate_wall_clock()
    assert [output.value for output in reference.outputs] == [10, 35]
    assert reference.task.wall_clock_punctuators.next_ms() is None


class SpuriousResults(OperatorRules):
    """A left join before KAFKA-10847."""

    def holds_unjoined(self) -> bool:
        """Join with null at once."""
        return False


class RestoredTimes(OperatorRules):
    """suppress() before KAFKA-7895."""

    def restores_suppressed_context(self) -> bool:
        """Take the time of the changelog record."""
        return False


def with_rules(topology: Topology, rules: OperatorRules) -> ReferenceTask:
    reference = task(topology)
    whole = topology.whole("app")
    reference.task = TaskTopology(topology, whole, "app", 0, reference, None, rules)
    return reference


@pytest.mark.parametrize(
    ("rules", "values"),
    [(OperatorRules(), [["l", "r"]]), (SpuriousResults(), [["l", None], ["l", "r"]])],
)
def test_a_left_join_waits_for_a_partner_that_comes_in_time(
    rules: OperatorRules, values: list[list[str | None]]
) -> None:
    builder = StreamsBuilder()
    right = builder.stream("right")
    windows = JoinWindows.ofTimeDifferenceWithNoGrace(10_000)
    left = builder.stream("left")
    left.leftJoin(right, lambda one, other: [one, other], windows).to("out")
    reference = with_rules(builder.build(), rules)
    reference.task.init()
    reference.take("left", 0, 0, StreamRecord("k", "l", 5_000))
    reference.take("right", 0, 0, StreamRecord("k", "r", 8_000))
    assert [output.value for output in reference.outputs] == values


@pytest.mark.parametrize(("rules", "time"), [(OperatorRules(), 3), (RestoredTimes(), 500)])
def test_a_restored_final_result_has_the_time_of_its_last_record(
    rules: OperatorRules, time: int
) -> None:
    builder = StreamsBuilder()
    windows = builder.stream("in").groupByKey().windowedBy(TimeWindows.ofSizeWithNoGrace(10))
    windows.count().suppress(Suppressed.untilWindowCloses()).toStream().to("out")
    topology = builder.build()
    before = with_rules(topology, rules)
    before.task.init()
    take(before, ("a", "x", 1), ("a", "y", 3))
    before.commit()
    after = with_rules(topology, rules)
    for store, key, value, timestamp in before.changelog:
        written = 500 if timestamp is None else timestamp  # the producer's clock at the commit
        after.task.stores[store].restore(key, value, written)
    after.task.init()
    take(after, ("b", "x", 12))
    assert [output[2:] for output in after.outputs] == [(2, time)]
