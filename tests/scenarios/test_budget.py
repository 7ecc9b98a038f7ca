"""The no-loss budget: when a loss of data leaves no witness."""

from dataclasses import replace

import pytest

from kafkasim.analysis.judging.history.budget import Budget
from kafkasim.analysis.judging.promise import follow
from kafkasim.model.facts import (
    BecameLeader,
    BrokerRegistration,
    ControllerActive,
    DiskDamaged,
    HostStarted,
    HostStopped,
    LogPlaced,
    PartitionChanged,
    RaftRole,
    ZkControllerWrite,
)
from kafkasim.sim.trace.recording import Trace


def partition_changed(leader, isr, partition=0, offset=1):
    return PartitionChanged(offset, "id", partition, leader, 1, 1, isr, (1, 2, 3), "created", False)


P0 = ("id", 0)
BROKERS = {"broker-1": 1, "broker-2": 2, "broker-3": 3}


def budget_after(*events):
    """Replay events: an ISR, or a sign and a name.

    ``+``: started, ``!``: lost power, ``-``: crashed, ``@``: registered.
    """
    trace = Trace()
    budget = Budget()
    follow(trace, budget)
    for name in BROKERS:
        trace.record(0, name, HostStarted(0))
    for t_us, event in enumerate(events, 1):
        if isinstance(event, tuple):
            changed = replace(partition_changed(event[0], event, offset=t_us), partition_epoch=t_us)
            trace.record(t_us, "controller-1", changed)
        elif event[0] == "+":
            trace.record(t_us, event[1:], HostStarted(1))
        elif event[0] == "@":
            broker = BROKERS[event[1:]]
            told = BrokerRegistration(t_us, broker, t_us, "registered", True, False, None)
            trace.record(t_us, "controller-1", told)
        else:
            reason = "power-loss" if event[0] == "!" else "crash"
            trace.record(t_us, event[1:], HostStopped(reason))
    return budget


@pytest.mark.parametrize(
    ("events", "inside"),
    [
        (((1, 2, 3), "!broker-1"), True),  # two witnesses
        (((1, 2), "!broker-1", (2,)), True),  # one, until broker 1 left
        (((1, 2), "!broker-1", (2,), "!broker-2"), False),  # then the last replica
        (((1,), "!broker-1"), False),  # the last replica standing
        (((2, 3), "!broker-1"), True),  # not in the ISR
        (((1, 2), "-broker-2", "!broker-1"), False),  # the other is down
        (((1, 2), "!broker-1", "-broker-2"), False),  # the witness stops too early
        (((1, 2), "!broker-1", (2,), "-broker-2"), True),  # and late enough
        (((1, 2), "!broker-1", (1,)), False),  # the witness leaves first
        (((1, 2, 3), "!broker-1", "!broker-2"), True),  # broker 3 is left to both
        (((1, 2, 3), "!broker-1", "!broker-2", "!broker-3"), False),
        (((1, 2), "!broker-1", "+broker-1", "!broker-2"), False),  # up, but not intact
        (((1, 2), "!broker-1", (2,), "+broker-1", (2, 1), "!broker-2"), True),  # caught up
        (((1, 2), "-broker-1", "-broker-2", "+broker-1", "+broker-2"), True),  # lost nothing
        (((1,), "!broker-2", (1, 2), "-broker-1"), False),  # it was about to join, and did
        (((1,), "!broker-2", (1, 2), (1,), "-broker-1"), True),
        (((1,), "!broker-2", (1, 3), (1, 3, 2), "-broker-1", "-broker-3"), True),  # a later join
        (((1,), "!broker-2", "@broker-2", (1, 2), "-broker-1"), True),  # it has registered since
    ],
)
def test_loss_is_inside_while_a_witness_remains(events, inside):
    assert (P0 not in budget_after(*events).outside) is inside


@pytest.mark.parametrize("last_known", [True, False])
def test_the_last_known_leader_still_may_lead_when_the_elr_is_empty(last_known):
    budget = budget_after((2, 1), "!broker-1")
    for elr in ((2,), ()):  # broker 1 leaves the ELR as it registers, then broker 2 does
        known = (1,) if last_known else ()
        left = replace(partition_changed(-1, ()), elr=elr, last_known_elr=known)
        budget.on_PartitionChanged(0, 9, "controller-1", left)
    assert (P0 in budget.outside) is last_known


@pytest.mark.parametrize(("prefix", "inside"), [("/d1/", False), ("/d2/", True), ("", False)])
def test_a_replica_in_a_failed_directory_is_no_witness(prefix, inside):
    budget = budget_after((1, 2))
    budget.on_LogPlaced(0, 0, "broker-2", LogPlaced(*P0, "/d1"))
    budget.on_DiskDamaged(0, 5, "broker-2", DiskDamaged("failed disk", prefix))
    budget.on_HostStopped(0, 6, "broker-1", HostStopped("power-loss"))
    assert (P0 not in budget.outside) is inside


@pytest.mark.parametrize("placed_again", [False, True])
def test_the_only_witness_loses_its_directory(placed_again):
    budget = budget_after((1, 2))
    budget.on_LogPlaced(0, 0, "broker-2", LogPlaced(*P0, "/d1"))
    if placed_again:  # its next process has the log somewhere else
        budget.on_LogPlaced(0, 0, "broker-2", LogPlaced(*P0, "/d2"))
    budget.on_HostStopped(0, 6, "broker-1", HostStopped("power-loss"))
    budget.on_DiskDamaged(0, 7, "broker-2", DiskDamaged("failed disk", "/d1/"))
    assert (P0 not in budget.outside) is placed_again


@pytest.mark.parametrize(("zookeeper", "elected"), [(True, True), (True, False), (False, True)])
def test_a_bounce_that_no_controller_remembers_is_outside(zookeeper, elected):
    trace = Trace()
    budget = Budget()
    follow(trace, budget)
    for name in BROKERS:
        trace.record(0, name, HostStarted(0))
    if zookeeper:
        trace.record(1, "broker-3", ZkControllerWrite(1, 1, "/controller_epoch", 1))
    trace.record(2, "broker-3", partition_changed(1, (1, 2), offset=2))
    trace.record(3, "broker-1", HostStopped("power-loss"))
    trace.record(4, "broker-1", HostStarted(1))
    if elected:
        trace.record(5, "broker-2", ControllerActive(2, True))
    trace.record(6, "broker-1", BecameLeader(*P0, 0, 0, 0, 0, (1, 2)))
    assert (P0 in budget.outside) is (zookeeper and elected)


def test_budget_keeps_the_isr_of_the_highest_partition_epoch():
    trace = Trace()
    budget = Budget()
    follow(trace, budget)
    trace.record(0, "broker-1", HostStarted(0))
    newest, older = partition_changed(1, (1,)), partition_changed(1, (1, 2))
    trace.record(1, "broker-1", replace(newest, partition_epoch=2))
    trace.record(2, "broker-3", replace(older, partition_epoch=1))
    trace.record(3, "broker-1", HostStopped("power-loss"))
    assert budget.outside == {P0: "power loss of broker-1 at 3 µs, ISR [1]"}


def test_reason_names_the_fault_and_the_isr():
    assert budget_after((1,), "!broker-1").outside == {
        P0: "power loss of broker-1 at 2 µs, ISR [1]"
    }


@pytest.mark.parametrize(
    ("events", "loses", "nodes", "allowed"),
    [
        (((1, 2),), True, ("broker-1",), True),
        (((1,),), True, ("broker-1",), False),
        (((1, 2),), True, ("broker-1", "broker-2"), False),
        (((1, 2), "!broker-1"), False, ("broker-2",), False),
        (((1, 2), "!broker-1", (2,)), False, ("broker-2",), True),
        (((1, 2), "!broker-1"), False, ("broker-3",), True),
        (((1,),), True, ("consumer-1",), True),
    ],
)
def test_budget_says_what_may_be_done_now(events, loses, nodes, allowed):
    assert budget_after(*events).allows(nodes, loses) is allowed


def test_a_single_voter_that_loses_power_may_lose_what_it_has_committed():
    trace = Trace()
    budget = Budget()
    follow(trace, budget)
    trace.record(0, "controller-1", RaftRole("leader", 1, 3001))
    assert not budget.allows(["controller-1"], True)
    assert budget.allows(["controller-1"], False)
    trace.record(1, "controller-2", RaftRole("follower", 1, 3001))
    assert budget.allows(["controller-1"], True)
