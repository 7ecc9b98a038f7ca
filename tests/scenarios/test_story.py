"""What ``--explain`` says: faults, elections, ISRs, truncations, groups, in words."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from kafkasim.analysis.story.faults import EFFECTS, effect, name, numbers_of
from kafkasim.analysis.story.sentences import AHEAD
from kafkasim.analysis.story.story import Story
from kafkasim.model import facts
from kafkasim.sim.faults.kinds import KINDS

SECOND = 1_000_000


def told(*rows: tuple[float, str, Any], **cluster: Any) -> list[str]:
    """Return the story of facts; each row is (seconds since ready, node, fact)."""
    faults = cluster.pop("faults", [])
    replayed = []
    for seq, (at, node, fact) in enumerate(rows):
        row = dict.fromkeys(facts.COLUMNS)
        row |= dataclasses.asdict(fact)
        row |= {"seq": seq, "t_us": SECOND + round(at * SECOND), "node": node}
        replayed.append({**row, "kind": type(fact).__name__})
    manifest = {"ready_us": SECOND, "spec": {"cluster": cluster, "faults": faults}}
    story = Story(manifest, [row for row in replayed if row["kind"] in AHEAD])
    for row in replayed:
        story.replay(row)
    return [line.strip() for line in story.finish(40)]


def partition(
    offset: int, leader: int, epoch: int, isr: tuple[int, ...], reason: str, **more: Any
) -> facts.PartitionChanged:
    fields = {"replicas": (1, 2, 3), "unclean": False, "number": 0, **more}
    number = fields.pop("number")
    return facts.PartitionChanged(
        offset, "T", number, leader, epoch, offset, isr, fields.pop("replicas"), reason,
        fields.pop("unclean"), **fields,
    )  # fmt: skip


ORDERS = facts.TopicCreated(1, "T", "orders", 2, 3, 2)
CREATED = [
    (-0.5, "controller-1", ORDERS),
    (-0.5, "controller-1", partition(1, 1, 0, (1, 2, 3), "created")),
    (-0.5, "controller-1", partition(1, 1, 0, (1, 2, 3), "created", number=1)),
]


def test_a_fault_says_what_is_cut_between_whom_and_for_how_long() -> None:
    near = "broker-1|broker-1+broker-2+broker-3"
    assert told(
        (2.0, "world", facts.FaultStarted("partition", near)),
        (8.25, "world", facts.FaultEnded("partition", near)),
    ) == [
        (
            "+2.000s  fault begins: network partition between broker-1 and each of broker-2, "
            "broker-3 for 6.2 s: no traffic passes"
        ),
        "+8.250s  fault ends: network partition between broker-1 and each of broker-2, broker-3",
    ]


def test_a_fault_that_stops_a_process_is_one_line() -> None:
    assert told(
        (2.0, "world", facts.FaultStarted("crash", "broker-2")),
        (2.0, "broker-2", facts.HostStopped("crash")),
        (5.0, "broker-2", facts.HostStarted(1)),
        (5.0, "world", facts.FaultEnded("crash", "broker-2")),
    ) == [
        "+2.000s  fault: crash of broker-2: killed as by kill -9, the page cache survives",
        "+5.000s  broker-2 starts again",
    ]


def test_the_numbers_of_a_fault_come_from_the_scenario() -> None:
    slow = {"kind": "slow-link", "node": "broker-1", "extra": "200000us"}
    cut = {"kind": "cut-purpose", "node": "leader:orders-0", "purpose": "raft-fetch"}
    assert effect("slow-link", numbers_of([slow, cut], "slow-link", "broker-1|broker-2")) == (
        "every packet takes 200 ms longer"
    )
    numbers = numbers_of([slow, cut], "cut-purpose", "broker-3|controller-1")
    assert name("cut-purpose", "broker-3|controller-1", numbers) == (
        "cut of messages on raft-fetch connections between broker-3 and controller-1"
    )


def test_a_number_that_is_not_certain_is_left_out() -> None:
    both = [{"kind": "flaky", "loss": 0.1}, {"kind": "flaky", "loss": 0.2}]
    assert effect("flaky", numbers_of(both, "flaky", "broker-1|broker-2")) == (
        "some of the packets are lost and sent again"
    )


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_fault_has_words(kind: str) -> None:
    assert kind in EFFECTS or kind == "rack-loss"
    target = "broker-1|broker-2" if KINDS[kind].link else "broker-1"
    assert name(kind, target, {})
    assert effect(kind, {})


def test_an_election_says_who_led_who_leads_why_and_in_which_epoch() -> None:
    fenced = facts.BrokerRegistration(9, 1, 5, "fenced", True, False, None)
    assert told(
        *CREATED,
        (3.0, "controller-1", partition(9, 2, 1, (2, 3), "fenced")),
        (3.0, "controller-1", partition(9, 2, 1, (2, 3), "fenced", number=1)),
        (3.0, "controller-1", fenced),
    ) == [
        "+3.000s  the controller fences broker-1: its heartbeats are missing",
        (
            "+3.000s  broker-1 leaves the ISR of orders-0, orders-1 (fenced by the controller);"
            " the ISR is now 2,3"
        ),
        (
            "+3.000s  broker-2 replaces broker-1 as leader of orders-0, orders-1 (leader epoch 1):"
            " broker-1 was fenced"
        ),
    ]


def test_a_broker_that_shuts_down_without_a_leadership_is_not_said_to_miss_heartbeats() -> None:
    def fenced(offset: int) -> facts.BrokerRegistration:
        return facts.BrokerRegistration(offset, 1, 5, "fenced", True, False, None)

    leaves = facts.BrokerState("PENDING_CONTROLLED_SHUTDOWN")
    killed = facts.HostStopped("crash")
    lines = told(
        (2.0, "broker-1", leaves),
        (3.0, "controller-1", fenced(9)),
        (9.0, "controller-1", fenced(10)),
        (20.0, "broker-1", leaves),
        (21.0, "broker-1", killed),
        (30.0, "controller-1", fenced(12)),
    )
    assert [line.partition(": ")[2] for line in lines if "fences" in line] == [
        "it shuts down and leads no partition",
        "the session of the process that shut down is over",
        "its heartbeats are missing",
    ]


def test_the_two_fences_of_a_broker_that_shut_down_have_reasons_of_their_own() -> None:
    def standing(offset: int, change: str) -> facts.BrokerRegistration:
        return facts.BrokerRegistration(offset, 1, 5, change, change == "fenced", False, None)

    lines = told(
        (2.0, "controller-1", standing(9, "shutting-down")),
        (3.0, "controller-1", standing(10, "fenced")),
        (9.0, "controller-1", standing(11, "fenced")),
        (12.0, "controller-1", standing(12, "registered")),
        (20.0, "controller-1", standing(13, "fenced")),
    )
    assert [line.partition(": ")[2] for line in lines if "fences" in line] == [
        "its controlled shutdown is done",
        "the session of the process that shut down is over",
        "its heartbeats are missing",
    ]


def test_an_unclean_election_says_that_records_are_lost() -> None:
    assert told(
        *CREATED,
        (1.0, "controller-1", partition(5, 1, 0, (1,), "lag")),
        (3.0, "controller-1", partition(9, 3, 1, (3,), "unclean", unclean=True)),
    )[-1] == (
        "+3.000s  UNCLEAN election: broker-3, not in the ISR 1, leads orders-0 (leader epoch 1);"
        " records that only the ISR had are lost"
    )


def test_with_zookeeper_a_moment_without_a_leader_is_no_line() -> None:
    assert told(
        *CREATED,
        (3.0, "broker-2", partition(8, -1, 1, (2, 3), "fenced")),
        (3.1, "broker-2", partition(9, 2, 2, (2, 3), "fenced")),
        mode="zookeeper",
    ) == [
        "+3.000s  broker-1 leaves the ISR of orders-0 (gone from ZooKeeper); the ISR is now 2,3",
        (
            "+3.100s  broker-2 replaces broker-1 as leader of orders-0 (leader epoch 2):"
            " broker-1 is gone from ZooKeeper"
        ),
    ]


@pytest.mark.parametrize(
    ("high_watermark", "how_many"), [(40, "none"), (42, "2"), (44, "all"), (90, "all")]
)
def test_a_truncation_says_how_much_of_it_was_committed(high_watermark: int, how_many: str) -> None:
    """Only high watermarks of earlier leader epochs count: the new leader's are of its own log."""
    assert told(
        *CREATED,
        (1.0, "broker-1", facts.HighWatermark("T", 0, 0, high_watermark, 1, (1,))),
        (2.0, "broker-2", facts.HighWatermark("T", 0, 1, 99, 1, (2,))),
        (3.0, "broker-1", facts.Truncated("T", 0, 1, 44, 40)),
    ) == [
        (
            "+3.000s  broker-1 truncates orders-0 from offset 44 to 40, to follow leader epoch 1: 4"
            f" records cut, {how_many} of them had been committed"
        )
    ]


def test_a_cancelled_reassignment_is_told_apart_from_a_complete_one() -> None:
    moving = partition(
        5, 1, 0, (1, 2, 3), "reassignment",
        replicas=(1, 2, 4, 3), adding_replicas=(4,), removing_replicas=(3,),
    )  # fmt: skip
    begun = (1.0, "controller-1", moving)
    back = partition(6, 1, 0, (1, 2, 3), "reassignment")
    done = partition(6, 1, 0, (1, 2, 4), "reassignment", replicas=(1, 2, 4))
    assert [told(*CREATED, begun, (9.0, "controller-1", end))[-1] for end in (back, done)] == [
        "+9.000s  reassignment of orders-0 is cancelled: the replicas are 1,2,3",
        "+9.000s  reassignment of orders-0 is complete: the replicas are 1,2,4",
    ]


def test_a_rebalance_says_why_it_began_and_who_is_in_the_new_generation() -> None:
    one, two = "consumer-1-398ee85f053427fe", "consumer-2-13459d3c6780295f"
    expired = f"session of {two} expired"
    preparing = facts.GroupState("billing", "PreparingRebalance", 1, (one,), "range", expired)
    completing = facts.GroupState("billing", "CompletingRebalance", 2, (one,), "range", "joined")
    assert told((1.0, "broker-2", preparing), (2.0, "broker-2", completing)) == [
        "+1.000s  group billing rebalances: session of consumer-2 expired",
        "+2.000s  group billing: generation 2, members consumer-1",
    ]


def test_records_that_producers_gave_up_are_counted_in_one_line() -> None:
    lost = [facts.SendFailed("T", 0, ids, "TIMED_OUT", True, 1, 1) for ids in ((1, 2), (3,))]
    assert told(*CREATED, (1.0, "producer-2", lost[0]), (1.1, "producer-1", lost[1])) == [
        (
            "+1.000s  producer-1, producer-2 failed to send 3 records of orders-0: TIMED_OUT,"
            " may have been appended"
        )
    ]


@pytest.mark.parametrize(
    ("mode", "error", "said"),
    [
        ("kraft", "OPERATION_NOT_ATTEMPTED", "broker-1 does not send an ISR change for orders-0"),
        ("kraft", "INELIGIBLE_REPLICA", "the controller refuses an ISR change by broker-1"),
        ("zookeeper", "OPERATION_NOT_ATTEMPTED", "ZooKeeper refuses an ISR change by broker-1"),
    ],
)
def test_who_refuses_an_isr_change_depends_on_the_mode(mode: str, error: str, said: str) -> None:
    failed = facts.IsrUpdateFailed("T", 0, 0, error)
    assert any(said in line for line in told(*CREATED, (2.0, "broker-1", failed), mode=mode))


def test_a_coordinator_that_cannot_load_says_what_does_not_fit() -> None:
    reason = "billing is not a consumer group"
    failed = facts.CoordinatorLoadFailed("__consumer_offsets", 3, 2, 44, reason)
    (line,) = told((1.5, "broker-3", failed))
    assert line == (
        "+1.500s  broker-3 cannot load __consumer_offsets-3, which has no coordinator now:"
        f" at offset 44 {reason}"
    )


def test_a_task_of_streams_is_restored_and_goes_on_elsewhere() -> None:
    def task(number: int, role: str, state: str) -> facts.TaskState:
        return facts.TaskState("counting", 1, f"0_{number}", role, state, "")

    assert told(
        (1.0, "streams-1", task(0, "active", "RUNNING")),
        (1.0, "streams-1", task(1, "active", "RUNNING")),
        (1.1, "streams-2", task(0, "standby", "RUNNING")),
        (9.0, "streams-2", facts.StateWiped("counting", "0_1", "dirty")),
        (9.1, "streams-2", facts.RestoreBegan("counting", 1, "0_0", "active", "log", 0, 5, 5)),
        (9.1, "streams-2", facts.RestoreBegan("counting", 1, "0_1", "active", "log", 1, 0, 90)),
        (9.1, "streams-2", facts.RestoreBegan("counting", 1, "0_2", "standby", "log", 2, 0, -1)),
        (20.0, "streams-2", facts.StreamThreadState("counting", 1, "DEAD", "")),
        (21.0, "streams-3", facts.StreamThreadState("counting", 1, "DEAD", "an error")),
    ) == [
        "+1.000s  streams-1 processes task 0_0, 0_1 of counting",
        "+9.000s  streams-2 deletes its state of task 0_1 of counting: dirty",
        "+9.100s  streams-2 restores log-1 from offset 0 to 90",
        "+21.000s  stream thread 1 of streams-3 is DEAD: an error",
    ]
