"""Faults: validation, the injector in a small world, the nemesis."""

import random

import pytest

from kafkasim.model.effects import Process
from kafkasim.model.facts import (
    ClockStepped,
    ControllerActive,
    FaultEnded,
    FaultStarted,
    HostPaused,
    HostResumed,
    HostStarted,
    HostStopped,
    PartitionChanged,
    TopicCreated,
)
from kafkasim.sim.faults.injector import Injector
from kafkasim.sim.faults.kinds import EVER_US, KINDS, Fault, FaultError, When, validate
from kafkasim.sim.faults.nemesis import WEIGHTS, Nemesis
from kafkasim.sim.trace.recording import Trace
from kafkasim.sim.world import World

SECOND = 1_000_000
PLACES = {"broker-1": None, "broker-2": None, "rack-a": None}

# --------------------------------------------------------------------------------- validation


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (Fault("pause", ("broker-1",)), "kind: 'pause' is none of gc-pause, crash"),
        (Fault("crash", ()), "targets: crash needs at least one"),
        (
            Fault("crash", ("broker-9",)),
            "targets: 'broker-9' is none of broker-1, broker-2, rack-a",
        ),
        (
            Fault("crash", ("leader:orders",)),
            "targets: 'leader:orders' must be like 'leader:orders-0'",
        ),
        (Fault("crash", ("@node",)), "targets: '@node' needs a when"),
        (Fault("partition", ("broker-1",)), "others: partition needs the far side of the link"),
        (Fault("crash", ("broker-1",), ("broker-2",)), "others: crash has no far side"),
        (Fault("crash", ("broker-1",), at_us=-1), "at: must not be negative, is -1"),
        (Fault("gc-pause", ("broker-1",)), "for: gc-pause needs a duration"),
        (Fault("restart", ("broker-1",), duration_us=1), "for: restart has no duration"),
        (Fault("crash", ("broker-1",), duration_us=0), "for: must be positive, is 0"),
        (Fault("crash", ("broker-1",), parameters=(("x", 1),)), "x: crash has no parameter"),
        (Fault("clock-step", ("broker-1",)), "offset-us: clock-step needs it"),
        (
            Fault("flaky", ("broker-1",), ("broker-2",), parameters=(("loss", 2),)),
            "loss: must be at most 1, is 2",
        ),
        (
            Fault("slow-disk", ("broker-1",), parameters=(("factor", "big"),)),
            "factor: must be a float, is 'big'",
        ),
        (
            Fault("rack-loss", ("rack-a",), parameters=(("how", "flood"),)),
            "how: 'flood' is none of crash, power-loss, isolate",
        ),
        (Fault("crash", ("broker-1",), when=When("Elected")), "when.fact: 'Elected' is none of "),
        (
            Fault("crash", ("broker-1",), when=When("HostStopped", (("epoch", 1),))),
            "when.epoch: HostStopped has reason",
        ),
        (
            Fault("crash", ("broker-1",), when=When("HostStopped", count=0)),
            "when.count: must be at least 1, is 0",
        ),
        (Fault("crash", ("broker-1",), until=When("Elected")), "until.fact: 'Elected' is none of "),
        (
            Fault("restart", ("broker-1",), until=When("HostStopped")),
            "until: restart does not last until a fact",
        ),
    ],
)
def test_invalid_fault_is_one_line_that_names_the_field(fault, message):
    with pytest.raises(FaultError) as caught:
        validate(fault, PLACES)
    assert str(caught.value).startswith(message)
    assert str(type(caught.value)(*caught.value.args)) == str(caught.value)


def test_roles_are_places_everywhere():
    when = When("IsrChanged", (("topic", "orders"), ("change", "shrink")))
    for name in ("leader:orders-0", "follower:my-orders-3", "active-controller", "@node"):
        assert validate(Fault("crash", (name,), when=when), PLACES) is None


# ------------------------------------------------------------------------- the injector in a world


class Idle(Process):
    """A process that does nothing."""


def make_world(brokers=2):
    trace = Trace()
    world = World(1, trace)
    log = []
    for kind in (
        FaultStarted, FaultEnded, HostStarted, HostStopped, HostPaused, HostResumed, ClockStepped,
    ):  # fmt: skip
        trace.subscribe(kind, lambda _, t_us, node, fact: log.append((t_us, node, fact)))
    for number in range(1, brokers + 1):
        name = f"broker-{number}"
        host = world.add_host(name, rack=f"rack-{number % 2}", clock_offset_us=0)
        host.start(lambda files, rng, now, name=name: Idle(name, files, rng, now))
    log.clear()
    return world, trace, log


def names(log):
    return [(t_us, type(fact).__name__, node) for t_us, node, fact in log]


def test_fault_starts_at_its_time_and_heals_after_its_duration():
    world, trace, log = make_world()
    injector = Injector(world, trace)
    injector.arm([Fault("crash", ("broker-1",), at_us=5, duration_us=10)], ready_us=100)
    world.run(1000)
    assert log == [
        (105, "world", FaultStarted("crash", "broker-1")),
        (105, "broker-1", HostStopped("crash")),
        (115, "broker-1", HostStarted(1)),
        (115, "world", FaultEnded("crash", "broker-1")),
    ]


def test_fault_without_duration_lasts_until_all_is_healed():
    world, trace, log = make_world()
    with Injector(world, trace) as injector:
        injector.arm([Fault("power-loss", ("broker-1",))])
        world.run(50)
        assert not world.hosts["broker-1"].powered
    assert names(log)[-2:] == [(50, "HostStarted", "broker-1"), (50, "FaultEnded", "world")]


def test_fault_ends_at_a_fact_that_comes_after_its_start():
    world, trace, log = make_world()
    injector = Injector(world, trace)
    until = When("HostStopped", (("reason", "halt"),))
    injector.arm([Fault("crash", ("broker-1",), at_us=5, duration_us=50, until=until)])
    for at_us in (3, 20, 30):
        world.at(at_us, trace.record, at_us, "broker-2", HostStopped("halt"))
    world.run(100)
    assert [entry for entry in log if entry[1] != "broker-2"] == [
        (5, "world", FaultStarted("crash", "broker-1")),
        (5, "broker-1", HostStopped("crash")),
        (20, "broker-1", HostStarted(1)),
        (20, "world", FaultEnded("crash", "broker-1")),
    ]


def test_no_fault_starts_after_healing():
    world, trace, log = make_world()
    with Injector(world, trace) as injector:
        injector.arm([Fault("crash", ("broker-1",), at_us=10)])
    world.run(50)
    assert log == []


def test_nth_fact_that_meets_the_condition_starts_the_fault_at_its_node():
    world, trace, log = make_world()
    injector = Injector(world, trace)
    when = When("HostStopped", (("reason", "halt"),), node="broker-2", count=2)
    injector.arm([Fault("crash", ("@node",), at_us=3, when=when)])
    for at_us, node, reason in [
        (10, "broker-2", "halt"),
        (11, "broker-1", "halt"),
        (12, "broker-2", "crash"),
        (13, "broker-2", "halt"),
        (14, "broker-2", "halt"),
    ]:
        world.at(at_us, trace.record, at_us, node, HostStopped(reason))
    world.run(100)
    assert [entry for entry in log if entry[1] == "world"] == [
        (16, "world", FaultStarted("crash", "broker-2"))
    ]


def test_what_comes_before_the_time_of_a_condition_does_not_count():
    world, trace, log = make_world()
    injector = Injector(world, trace)
    when = When("HostStopped", after_us=11, count=2)
    until = When("HostStopped", after_us=4)
    injector.arm([Fault("isolate", ("@node",), when=when, until=until, duration_us=60)])
    for at_us in (10, 12, 14, 17, 20):
        world.at(at_us, trace.record, at_us, "broker-2", HostStopped("halt"))
    world.run(100)
    assert [(at, type(fact).__name__) for at, node, fact in log if node == "world"] == [
        (14, "FaultStarted"),
        (20, "FaultEnded"),
    ]


def partition_changed(leader, isr, partition=0, offset=1):
    return PartitionChanged(offset, "id", partition, leader, 1, 1, isr, (1, 2, 3), "created", False)


def test_condition_bounds_lists_by_their_length_and_numbers_by_their_value():
    world, trace, log = make_world()
    injector = Injector(world, trace)
    alone = When("PartitionChanged", most=(("isr", 1),), least=(("partition", 1),))
    injector.arm([Fault("crash", ("broker-1",), when=alone)])
    for at_us, isr, partition in [(10, (1, 2), 1), (11, (1,), 0), (12, (1,), 1)]:
        fact = partition_changed(1, isr, partition)
        world.at(at_us, trace.record, at_us, "controller-1", fact)
    world.run(100)
    assert [entry[0] for entry in log if isinstance(entry[2], FaultStarted)] == [12]


def test_condition_on_a_role_asks_who_has_it_with_the_fact():
    world, trace, log = make_world()
    injector = Injector(world, trace)
    leading = When("HostStarted", node="leader:orders-0")
    injector.arm([Fault("crash", ("@node",), when=leading)])
    trace.record(0, "controller-1", TopicCreated(1, "id", "orders", 1, 3, 2))
    trace.record(0, "controller-1", partition_changed(2, (1, 2)))
    for at_us, node in [(10, "broker-1"), (11, "broker-2")]:
        world.at(at_us, trace.record, at_us, node, HostStarted(1))
    world.run(100)
    assert [entry for entry in log if isinstance(entry[2], FaultStarted)] == [
        (11, "world", FaultStarted("crash", "broker-2"))
    ]


def test_roles_are_resolved_when_the_fault_starts():
    world, trace, log = make_world()
    injector = Injector(world, trace)
    trace.record(0, "controller-1", TopicCreated(1, "id", "orders", 1, 3, 2))
    trace.record(0, "controller-1", partition_changed(2, (1, 2)))
    trace.record(0, "broker-1", ControllerActive(1, True))
    roles = ["leader:orders-0", "follower:orders-0", "active-controller", "leader:payments-0"]
    found = [injector.start(Fault("clock-drift", (r,), parameters=(("ppm", 1),))) for r in roles]
    assert found == [True, True, True, False]
    assert [entry[2].target for entry in log] == ["broker-2", "broker-1", "broker-1"]
    assert [reason for _, reason in injector.skipped] == ["nobody is leader:payments-0"]


def test_overlapping_faults_keep_a_host_down_until_the_last_ends():
    world, trace, log = make_world()
    injector = Injector(world, trace)
    injector.arm(
        [
            Fault("crash", ("broker-1",), at_us=10, duration_us=20),
            Fault("power-loss", ("broker-1",), at_us=20, duration_us=50),
            Fault("restart", ("broker-1",), at_us=40),
        ]
    )
    world.run(100)
    assert [entry for entry in names(log) if entry[1].startswith("HostS")] == [
        (10, "HostStopped", "broker-1"),
        (20, "HostStopped", "broker-1"),  # the page cache goes now
        (70, "HostStarted", "broker-1"),
    ]


def test_last_fault_to_end_kills_what_another_one_has_stopped_cleanly():
    world, trace, log = make_world()
    injector = Injector(world, trace)
    injector.arm(
        [
            Fault("crash", ("broker-1",), at_us=10, duration_us=50),
            Fault("stop", ("broker-1",), at_us=30, duration_us=10),
        ]
    )
    host = world.hosts["broker-1"]

    def operator_starts() -> None:
        host.start()  # before the crash is over
        host.process.shutdown = lambda _now: None  # this one never ends its clean stop

    world.at(20, operator_starts)
    world.run(100)
    assert [entry for entry in names(log) if entry[1].startswith("HostS")] == [
        (10, "HostStopped", "broker-1"),
        (20, "HostStarted", "broker-1"),
        (60, "HostStopped", "broker-1"),
        (60, "HostStarted", "broker-1"),
    ]


def test_longer_pause_is_not_ended_by_a_shorter_one():
    world, trace, log = make_world()
    injector = Injector(world, trace)
    injector.arm(
        [
            Fault("gc-pause", ("broker-1",), at_us=10, duration_us=50),
            Fault("gc-pause", ("broker-1",), at_us=20, duration_us=10),
        ]
    )
    world.run(100)
    assert [t_us for t_us, kind, _ in names(log) if kind == "HostResumed"] == [60]


def test_rack_loss_hits_every_host_of_the_rack():
    world, trace, log = make_world(brokers=4)
    injector = Injector(world, trace)
    injector.arm([Fault("rack-loss", ("rack-1",), duration_us=9)])
    world.run(100)
    assert [(t_us, node) for t_us, kind, node in names(log) if kind == "HostStopped"] == [
        (0, "broker-1"),
        (0, "broker-3"),
    ]


PARAMETERS = {
    "slow-link": (("extra-us", 5),),
    "flaky": (("loss", 0.5),),
    "cut-purpose": (("purpose", "heartbeat"),),
    "clock-step": (("offset-us", 7),),
    "clock-drift": (("ppm", 7),),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_starts_and_heals_without_a_trace_left(kind):
    world, trace, log = make_world()
    host = world.hosts["broker-1"]
    host.disk.append("orders-0/0.log", "batch", 10)
    before = (host.clock_step_us, host.clock.drift_ppm, host.disk.slow_factor)
    others = ("broker-2",) if KINDS[kind].link else ()
    duration = None if KINDS[kind].duration == "none" else 50
    target = "rack-1" if kind == "rack-loss" else "broker-1"
    fault = Fault(kind, (target,), others, 10, None, duration, PARAMETERS.get(kind, ()))
    injector = Injector(world, trace)
    injector.arm([fault])
    world.run(10_000)
    injector.heal_all()
    kinds = [name for _, name, node in names(log) if node == "world"]
    after = (host.clock_step_us, host.clock.drift_ppm, host.disk.slow_factor)
    assert (kinds, after, world.link_faults.rules) == (["FaultStarted", "FaultEnded"], before, [])
    assert host.alive
    assert not host.paused


def test_faults_that_last_for_ever_are_not_healed_with_the_others():
    world, trace, _ = make_world()
    pairs = [("broker-1", EVER_US), ("broker-2", None)]
    faults = [Fault("crash", (name,), duration_us=lasts) for name, lasts in pairs]
    faults.append(Fault("partition", ("broker-1",), ("broker-2",), duration_us=EVER_US))
    faults.append(Fault("partition", ("broker-2",), ("broker-1",)))
    injector = Injector(world, trace)
    injector.arm(faults)
    world.run(10_000)
    injector.heal_all()
    world.run(20_000)
    alive = [world.hosts[name].alive for name, _ in pairs]
    down = [injector.keeps_down(name) for name, _ in pairs]
    assert (alive, down, len(world.link_faults.rules)) == ([False, True], [True, False], 1)
    assert [fault.lasts for fault in injector.active] == [True, True]


# ----------------------------------------------------------------------------------- the nemesis

NEMESIS = Nemesis(("broker-1", "broker-2", "broker-3"), 600 * SECOND, clients=("producer-1",))


def test_schedule_is_valid_ordered_and_within_its_duration():
    schedule = NEMESIS.draw(random.Random(1))
    for fault in schedule:
        validate(fault)
    assert len(schedule) > 40
    assert [f.at_us for f in schedule] == sorted(f.at_us for f in schedule)
    assert all(f.guarded for f in schedule)
    assert all(f.at_us + (f.duration_us or 0) <= 600 * SECOND for f in schedule)
    assert {f.kind for f in schedule} <= set(WEIGHTS)


def test_same_stream_gives_the_same_schedule():
    assert NEMESIS.draw(random.Random(7)) == NEMESIS.draw(random.Random(7))
    assert NEMESIS.draw(random.Random(7)) != NEMESIS.draw(random.Random(8))


def test_weights_select_the_kinds():
    only = Nemesis(("a", "b"), 100 * SECOND, weights={"crash": 1, "isolate": 0})
    assert {f.kind for f in only.draw(random.Random(1))} == {"crash"}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"servers": ()}, "servers: the nemesis needs at least one"),
        ({"weights": {"flood": 1}}, "weights: 'flood' is none of "),
        ({"weights": {"crash": -1}}, "weights: crash must not be negative"),
        ({"weights": {"partition": 1}}, "weights: no kind of fault can be drawn"),
        ({"shortest_us": 0}, "shortest: must be positive"),
    ],
)
def test_invalid_nemesis_names_the_field(options, message):
    with pytest.raises(FaultError, match=message):
        Nemesis(**({"servers": ("broker-1",), "duration_us": SECOND} | options))


class Forbids:
    """A budget that no fault fits that loses data."""

    def allows(self, nodes, loses):
        return not loses


@pytest.mark.parametrize("kind", ["power-loss", "crash"])
def test_guarded_fault_outside_the_budget_is_skipped(kind):
    world, trace, log = make_world()
    injector = Injector(world, trace, Forbids())
    fault = Fault(kind, ("broker-1",), guarded=True)
    injector.arm([fault])
    world.run(10)
    skipped = [(fault, "outside the no-loss budget")] if kind == "power-loss" else []
    assert (bool(log), injector.skipped) == (kind == "crash", skipped)
