"""The runtime under every coordinator, with a shard that only remembers what was replayed."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkasim.model.coordinator.context import CoordinatorContext
from kafkasim.model.coordinator.loader import ReplayFailed
from kafkasim.model.coordinator.log import MemoryCoordinatorLog
from kafkasim.model.coordinator.runtime import CoordinatorRuntime
from kafkasim.model.coordinator.shards import OwnedShards
from kafkasim.model.effects import Post, Process, Read
from kafkasim.model.errors import Errors
from kafkasim.model.facts import CoordinatorLoaded, CoordinatorLoadFailed
from kafkasim.model.group.rules import GroupRules
from kafkasim.model.records import Record, TopicPartition, batch_of
from kafkasim.model.storage.files import MemoryFiles

TOPIC = "__state"
TP = TopicPartition(TOPIC, 3)
TIMEOUT_MS = 5000
BUFFER = 100


class Remembered:
    """A shard: the keys that were replayed, with the end offset of their batch."""

    def __init__(self, context: CoordinatorContext) -> None:
        self.context = context
        self.replayed: list[tuple[Any, int]] = []

    def replay(self, record: Record, end_offset: int, now_ms: int) -> None:
        if record.key == "misfit":
            raise ReplayFailed("it does not fit")
        self.replayed.append((record.key, end_offset))


class Machine:
    """A process with nothing but a runtime and its shards."""

    def __init__(self) -> None:
        self.process = Process("broker-1", MemoryFiles(), random.Random(1), 0)
        self.log = MemoryCoordinatorLog()
        self.runtime = CoordinatorRuntime(self.process, "lane", self.log, TIMEOUT_MS)
        self.told: list[Any] = []
        self.reads: list[Read] = []  # that the disk has not finished
        self.owned: OwnedShards[Remembered] = OwnedShards(
            self.runtime,
            TOPIC,
            Remembered,
            self.on_loaded,
            self.on_unloaded,
            BUFFER,
            GroupRules().load_continues,
        )

    def run(self, now: int) -> list[Any]:
        """Run what was posted; return the other effects."""
        effects = list(self.process.out)
        self.process.out.clear()
        for effect in effects:
            if isinstance(effect, Post):
                assert effect.lane == "lane", effect
                effect.handler(effect.message, now)
            elif isinstance(effect, Read):
                self.reads.append(effect)
        rest = [effect for effect in effects if not isinstance(effect, Post | Read)]
        return rest + (self.run(now) if self.process.out else [])

    def read(self, now: int) -> list[Any]:
        """Let the disk finish what it reads now; return the effects of that."""
        reads, self.reads = self.reads, []
        for each in reads:
            each.handler(None, now)
        return self.run(now)

    def elect(self, epoch: int = 4) -> Remembered:
        self.owned.on_elected(TP.partition, epoch, 0)
        self.run(0)
        return self.owned.by_partition[TP.partition]

    def on_loaded(self, shard: Remembered, now: int) -> None:
        self.told.append(("loaded", shard.context.tp, now))

    def on_unloaded(self, shard: Remembered) -> None:
        self.told.append(("unloaded", shard.context.tp))

    def complete(self, argument: Any, error: Errors, now: int) -> None:
        self.told.append((argument, error, now))


@pytest.fixture
def machine() -> Machine:
    return Machine()


def record(key: str) -> Record:
    return Record(key, 1, 10, 0)


def test_a_shard_is_active_once_the_whole_log_is_replayed(machine: Machine) -> None:
    machine.log.append(TP, batch_of((record("a"), record("b"))), 0)
    machine.log.append(TP, batch_of((record("c"),)), 0)
    machine.log.high_watermarks[TP] = 2
    machine.owned.on_elected(TP.partition, 4, 0)
    assert machine.owned.active() == []

    assert machine.run(0) == []
    assert machine.read(0) == []
    assert machine.owned.active() == []
    assert machine.read(0) == [CoordinatorLoaded(3, 4, True)]
    (shard,) = machine.owned.active()
    assert shard.replayed == [("a", 2), ("b", 2), ("c", 3)]
    assert (shard.context.last_written, shard.context.last_committed) == (3, 2)
    assert machine.told == [("loaded", TP, 0)]


def test_a_record_that_does_not_fit_leaves_the_partition_without_a_coordinator(
    machine: Machine,
) -> None:
    """The next election loads it again."""
    machine.log.append(TP, batch_of((record("a"),)), 0)
    machine.log.append(TP, batch_of((record("misfit"), record("b"))), 0)
    machine.owned.on_elected(TP.partition, 4, 0)
    machine.run(0)
    machine.read(0)

    failed = CoordinatorLoadFailed(TOPIC, 3, 4, 1, "it does not fit")
    assert machine.read(0) == [failed]
    assert machine.owned.by_partition == {}
    assert machine.told == []
    machine.owned.on_elected(TP.partition, 5, 0)
    machine.run(0)
    machine.read(0)
    assert machine.read(0) == [CoordinatorLoadFailed(TOPIC, 3, 5, 1, "it does not fit")]


def test_a_log_is_read_in_pieces_of_the_load_buffer(machine: Machine) -> None:
    batches = [batch_of((record(key), record(key))) for key in ("a", "b", "c")]
    for batch in batches:
        machine.log.append(TP, batch, 0)
    machine.owned.on_elected(TP.partition, 4, 0)
    machine.run(0)
    sizes = []
    for now in (1, 2, 3):
        assert machine.owned.active() == []
        sizes += [each.size for each in machine.reads]
        machine.read(now)
    assert sizes == [batch.size for batch in batches]  # at least one batch, whatever its size
    assert machine.told == [("loaded", TP, 3)]


def test_one_partition_is_loaded_after_the_other(machine: Machine) -> None:
    other, empty = TopicPartition(TOPIC, 4), TopicPartition(TOPIC, 5)
    for tp in (TP, other):
        machine.log.append(tp, batch_of((record("a"),)), 0)
    for tp in (TP, other, empty):
        machine.owned.on_elected(tp.partition, 1, 0)
    machine.run(0)
    assert len(machine.reads) == 1
    machine.read(1)
    assert len(machine.reads) == 1
    machine.read(2)
    assert machine.told == [("loaded", TP, 1), ("loaded", other, 2), ("loaded", empty, 2)]


def test_the_load_of_a_partition_that_was_lost_stops(machine: Machine) -> None:
    machine.log.append(TP, batch_of((record("a"),)), 0)
    machine.owned.on_elected(TP.partition, 1, 0)
    machine.run(0)
    machine.owned.on_resigned(TP.partition, 2, 1)
    assert machine.read(2) == []
    machine.owned.on_elected(TP.partition, 3, 3)
    machine.run(3)
    machine.read(4)
    assert machine.told == [("loaded", TP, 4)]


def test_deferred_events_complete_in_order_when_the_high_watermark_has_passed(
    machine: Machine,
) -> None:
    context = machine.elect().context
    machine.told.clear()
    machine.runtime.defer(context, machine.complete, "nothing to wait for", 1)
    for key in ("a", "b"):
        assert machine.runtime.append(context, (record(key),), 2) is Errors.NONE
        machine.runtime.defer(context, machine.complete, key, 2)
    machine.owned.on_high_watermark(TP.partition, 1, 3)
    machine.owned.on_high_watermark(TP.partition, 1, 4)
    machine.owned.on_high_watermark(TP.partition, 2, 5)

    assert machine.told == [
        ("nothing to wait for", Errors.NONE, 1),
        ("a", Errors.NONE, 3),
        ("b", Errors.NONE, 5),
    ]
    assert machine.process.timers.next_deadline() is None


def test_an_append_that_fails_changes_nothing(machine: Machine) -> None:
    context = machine.elect().context
    machine.log.error = Errors.NOT_ENOUGH_REPLICAS
    error = machine.runtime.append(context, (record("a"),), 1)
    assert (error, context.last_written) == (Errors.NOT_ENOUGH_REPLICAS, 0)


def test_an_event_that_waits_too_long_times_out_though_its_record_stays(machine: Machine) -> None:
    context = machine.elect().context
    machine.told.clear()
    machine.runtime.append(context, (record("a"),), 0)
    machine.runtime.defer(context, machine.complete, "a", 0)
    timers = machine.process.timers
    assert timers.next_deadline() == TIMEOUT_MS * 1000
    due = timers.pop_due(TIMEOUT_MS * 1000)
    assert due is not None
    timers.fire(due[0], due[1], TIMEOUT_MS * 1000)

    assert machine.told == [("a", Errors.REQUEST_TIMED_OUT, TIMEOUT_MS * 1000)]
    assert machine.log.end(TP) == 1


def test_a_resignation_fails_what_waits_and_an_older_one_changes_nothing(machine: Machine) -> None:
    shard = machine.elect(epoch=4)
    machine.told.clear()
    machine.runtime.append(shard.context, (record("a"),), 1)
    machine.runtime.defer(shard.context, machine.complete, "a", 1)
    machine.owned.on_resigned(TP.partition, 4, 2)
    assert machine.owned.active() == [shard]
    machine.owned.on_resigned(TP.partition, 5, 3)

    assert machine.told == [("a", Errors.NOT_COORDINATOR, 3), ("unloaded", TP)]
    assert machine.run(3) == [CoordinatorLoaded(3, 5, False)]
    assert machine.owned.by_partition == {}


def test_a_second_election_keeps_the_shard_under_the_new_epoch(machine: Machine) -> None:
    shard = machine.elect(epoch=4)
    machine.owned.on_elected(TP.partition, 6, 1)
    assert machine.run(1) == [CoordinatorLoaded(3, 6, True)]
    assert machine.owned.active() == [shard]
    assert shard.context.epoch == 6
