"""Liveness: what is missing of a healed cluster, and what Kafka could not do either."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.progress import Progress
from kafkasim.model import facts
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from tests.scenarios.fact_makers import (
    FakeTrace,
    P,
    Row,
    T,
    appended,
    batch,
    changed,
    created,
    final,
    high_watermark,
    led,
    polled,
    positioned,
    registration,
)

SHORT: list[Row] = [
    ("controller-1", created()),
    ("controller-1", changed(2, (1, 2))),
    ("broker-1", led(0)),
]
FAILED: list[Row] = [("broker-3", facts.ReplicaFailed(T, P, "diverging"))]
MISSING = ["orders-0: ISR [1, 2] of [1, 2, 3]"]


def _registered(offset: int, broker: int) -> Row:
    """A registration whose broker epoch is its own metadata offset, as KRaft commits it."""
    return ("controller-1",
            facts.BrokerRegistration(
                offset, broker, offset, "registered", True, False, None))  # fmt: skip


def _after(rows: list[Row], zookeeper: bool = False) -> Progress:
    trace = FakeTrace()
    progress = Progress(trace, zookeeper)
    trace.record([("controller-1", facts.ControllerActive(0, True)), *rows])
    return progress


def _lost(_: Any) -> str:
    return "last-replica-standing"


def _nothing_lost(_: Any) -> str:
    return ""


def test_an_isr_that_is_short_is_missing() -> None:
    assert _after(SHORT).missing_partitions() == MISSING


def test_a_failed_replica_of_a_partition_that_lost_data_does_not_come_back() -> None:
    progress = _after([*SHORT, *FAILED])
    assert progress.stall_excuse(MISSING, _lost) == "last-replica-standing"


def test_a_failed_replica_is_our_fault_where_nothing_was_lost() -> None:
    assert _after([*SHORT, *FAILED]).stall_excuse(MISSING, _nothing_lost) == ""


def _log_start(node: str, offset: int) -> Row:
    return (node, facts.LogStart(T, P, offset, "delete-records", offset, offset + 2))


def _end_of_broker_3(end: int) -> Row:
    """The final log of broker-3: one batch from offset 0 to ``end``."""
    return ("broker-3", final([batch(0, range(end))], leading=False))


LOADED_AT_0: Row = ("broker-1", facts.LogLoaded(T, P, 0, 12, 12, False))
CUT_TO_4: Row = ("broker-3", facts.Truncated(T, P, 1, 6, 4))


@pytest.mark.parametrize(
    ("rows", "excuse"),
    [
        ([_log_start("broker-1", 9), LOADED_AT_0, *FAILED, _end_of_broker_3(4)],
         "forgotten-log-start"),
        ([_log_start("broker-1", 9), *FAILED, _end_of_broker_3(4)], ""),  # the leader remembers
        ([_log_start("broker-2", 9), *FAILED, _end_of_broker_3(4)], "forgotten-log-start"),
        ([_log_start("broker-1", 4), *FAILED, _end_of_broker_3(4)], ""),  # it ends at the start
        ([_log_start("broker-1", 4), CUT_TO_4, *FAILED, _end_of_broker_3(4)],
         "log-start-within-a-batch"),
        ([_log_start("broker-1", 3), CUT_TO_4, *FAILED, _end_of_broker_3(4)], ""),
        ([CUT_TO_4, *FAILED, _end_of_broker_3(4)], ""),  # nothing was deleted
        ([*FAILED, _log_start("broker-2", 9), _end_of_broker_3(4)], ""),  # it failed before
        ([_log_start("broker-2", 9), _end_of_broker_3(4)], ""),  # it has not failed
    ],
)  # fmt: skip
def test_a_replica_whose_log_ends_among_deleted_records_may_fail(
    rows: list[Row], excuse: str
) -> None:
    assert _after([*SHORT, *rows]).stall_excuse(MISSING, _nothing_lost) == excuse


def test_where_data_was_lost_a_replica_that_has_not_failed_must_come_back() -> None:
    assert _after(SHORT).stall_excuse(MISSING, _lost) == ""


def test_a_failed_replica_is_hopeful_again_as_a_follower_or_a_new_process() -> None:
    again = ("broker-3", facts.BecameFollower(T, P, 1, 1, 0))
    started = ("broker-3", facts.HostStarted(2))
    for hope in (again, started):
        assert _after([*SHORT, *FAILED, hope]).stall_excuse(MISSING, _lost) == ""


def test_whatever_else_is_missing_is_not_excused() -> None:
    progress = _after([*SHORT, *FAILED])
    assert progress.stall_excuse([*MISSING, "group billing is at 0 of 4 in orders-0"], _lost) == ""
    assert progress.stall_excuse([], _lost) == ""


def test_all_who_are_absent_need_an_excuse() -> None:
    rows = [*SHORT[:1], ("controller-1", changed(2, (1,))), SHORT[2], *FAILED]
    assert _after(rows).stall_excuse(["orders-0: ISR [1] of [1, 2, 3]"], _lost) == ""


@pytest.mark.parametrize(
    ("min_isr", "isr", "position", "mark", "failed", "excuse"),
    [
        (2, (1,), 1, 2, (2, 3), "last-replica-standing"),
        (2, (1,), 0, 2, (2, 3), ""),  # it has not read the batch before
        (2, (1,), 1, 4, (2, 3), ""),  # the high watermark is at a batch's end
        (1, (1,), 1, 2, (2, 3), ""),  # the ISR is large enough
        (2, (1,), 1, 2, (2,), ""),  # broker-3 has not failed
    ],
)
def test_a_group_waits_for_a_high_watermark_within_a_batch_below_the_minimum_isr(
    min_isr: int, isr: tuple[int, ...], position: int, mark: int, failed: tuple[int, ...],
    excuse: str,
) -> None:  # fmt: skip
    log = final([batch(0, [10]), batch(1, [11, 12, 13])], hw=mark)
    rows: list[Row] = [
        ("controller-1", facts.TopicCreated(1, T, "orders", 1, 3, min_isr)),
        ("controller-1", changed(2, isr)), ("broker-1", led(0)),
        *[(f"broker-{each}", facts.ReplicaFailed(T, P, "below the log end")) for each in failed],
        ("broker-1", log),
    ]  # fmt: skip
    group = f"group billing is at {position} of {mark} in orders-0 (last read by consumer-1)"
    missing = [f"orders-0: ISR {list(isr)} of [1, 2, 3]", group]
    assert _after(rows).stall_excuse(missing, _lost) == excuse
    assert _after(rows).stall_excuse([group], _lost) == excuse
    assert _after(rows).stall_excuse(missing, _nothing_lost) == ""


def test_a_registration_that_replaces_the_living_process_keeps_it_out() -> None:
    alive = [("broker-3", facts.HostStarted(1)), _registered(10, 3)]
    late = _after([*SHORT, *alive, _registered(11, 3)])
    assert late.stall_excuse(MISSING, _nothing_lost) == "late-registration"
    assert _after([*SHORT, *alive]).stall_excuse(MISSING, _nothing_lost) == ""


def test_a_broker_that_was_unregistered_while_it_ran_waits_for_its_restart() -> None:
    started: Row = ("broker-3", facts.HostStarted(1))
    gone = [started, _registered(10, 3), _told(12, "unregistered", 10)]
    assert list(_after(gone).unregistered) == [3]
    assert list(_after([*gone, started]).unregistered) == []
    told_again = [*gone, started, _told(12, "unregistered", 10)]
    assert list(_after(told_again).unregistered) == []
    assert list(_after([*told_again, _told(20, "unregistered", 19)]).unregistered) == [3]
    before = [started, _told(9, "unregistered", 8), _registered(10, 3)]
    assert list(_after(before).unregistered) == []


def _missing(*rows: Row, zookeeper: bool = False) -> list[str]:
    return _after(list(rows), zookeeper).missing_brokers(["broker-3", "controller-1"])


def _told(offset: int, change: str, epoch: int) -> Row:
    fenced = change in ("fenced", "bounced")
    told = facts.BrokerRegistration(offset, 3, epoch, change, fenced, False, None)
    return "controller-1", told


def test_a_broker_is_missing_from_its_start_until_it_is_unfenced() -> None:
    started: Row = ("broker-3", facts.HostStarted(1))
    awaited = ["broker-3 is not unfenced since it started"]
    assert _missing(started) == _missing(started, _registered(10, 3)) == awaited
    back = [started, _registered(10, 3), _told(11, "unfenced", 10)]
    assert _missing(*back) == []
    assert _missing(*back, started, _told(12, "dir-offline", 10)) == awaited  # the former process
    assert _missing(*back, started, _registered(20, 3), _told(21, "unfenced", 20)) == []
    fenced = [*back, _told(12, "fenced", 10)]
    assert (_missing(*fenced), _missing(*fenced, _told(13, "unfenced", 10))) == (awaited, [])
    assert _after([*back, started]).missing_brokers(["broker-1"]) == []  # the host is down


def test_a_deposed_zookeeper_controller_fences_nobody() -> None:
    """It slept while its successor was elected, which tells of all brokers that are registered."""
    told = _told(20, "registered", 20)[1]
    elected: list[Row] = [("broker-4", facts.ControllerActive(2, True)), ("broker-4", told)]
    late, own = _told(15, "fenced", -1), ("broker-4", _told(21, "fenced", -1)[1])
    assert _missing(*elected, late, zookeeper=True) == []
    assert _missing(*elected, own, zookeeper=True) == ["broker-3 is not unfenced since it started"]


def test_an_elected_zookeeper_controller_tells_of_a_dead_process_too() -> None:
    started: Row = ("broker-3", facts.HostStarted(1))
    back = [started, _told(10, "registered", 10)]
    assert _missing(*back, zookeeper=True) == []
    again = [*back, started, _told(10, "registered", 10)]
    assert _missing(*again, zookeeper=True) == ["broker-3 is not unfenced since it started"]
    bounced = [*again, _told(20, "bounced", 10), _told(20, "registered", 20)]
    assert _missing(*bounced, zookeeper=True) == []


def test_nobody_waits_for_a_broker_that_cannot_or_shall_not_be_unfenced() -> None:
    started: Row = ("broker-3", facts.HostStarted(1))
    assert _missing(started, _told(12, "unregistered", 10)) == []
    late = [started, _registered(10, 3), _registered(11, 3)]
    assert _after(late).stall_excuse(_missing(*late), _nothing_lost) == "late-registration"


@pytest.mark.slow
def test_a_run_does_not_end_before_a_leader_is_back_that_nobody_asks() -> None:
    """With acks=0 no client misses it, and the controller knows its old registration."""
    scenario = {
        "name": "late", "claim": "The leader is back at the end.", "duration": "4s",
        "cluster": {"brokers": 3, "controllers": 1},
        "topics": [{"name": "orders", "assignment": [[2]]}],
        "workload": [{"kind": "producer", "rate": "20/s", "config": {"acks": "0"}}],
        "faults": [{"kind": "crash", "node": "broker-2", "at": "3900ms", "for": "8s"}],
        "expect": {"permits": ["lost-write"]},
    }  # fmt: skip
    result = run(parse(scenario, "late"), 1)
    assert (result.verdict, result.anomalies) == ("expected", ["lost-write"])


def test_a_new_process_registers_in_its_own_right() -> None:
    rows = [*SHORT, _registered(10, 3), ("broker-3", facts.HostStarted(1)), _registered(11, 3)]
    assert _after(rows).stall_excuse(MISSING, _nothing_lost) == ""


def test_with_zookeeper_one_process_registers_again_after_its_session() -> None:
    rows = [*SHORT, ("broker-3", facts.HostStarted(1)), _registered(10, 3), _registered(11, 3)]
    assert _after(rows, zookeeper=True).stall_excuse(MISSING, _nothing_lost) == ""


def test_unfenced_brokers_are_told_in_order() -> None:
    rows = [("controller-1", registration(n, n)) for n in (3, 1)]
    rows.append(("controller-1", registration(4, 3, "fenced", True)))
    assert _after(rows).unfenced() == [1]


def _marker(offset: int, epoch: int) -> facts.MarkerWritten:
    return facts.MarkerWritten(T, P, 5, 0, True, offset, epoch, 0)


OPEN: list[Row] = [
    *SHORT,
    ("producer-1", facts.TransactionBegun("tid", 1, 5, 0)),
    ("broker-1", appended(0, (10,), pid=5, seq=0)),
]
HELD_BACK = ["orders-0 has an open transaction of producer id 5 from offset 0 on"]


def _open_after(rows: list[Row]) -> list[str]:
    trace = FakeTrace()
    progress, holes = Progress(trace), Contents(trace)
    trace.record(rows)
    return progress.open_transactions(holes.first_open)


def test_a_transaction_is_open_until_its_marker() -> None:
    assert _open_after(OPEN) == HELD_BACK
    assert _open_after([*OPEN, ("broker-1", _marker(1, 0))]) == []


def test_a_deposed_leader_opens_and_ends_no_transaction() -> None:
    deposed: list[Row] = [*OPEN, ("broker-2", led(1, 1))]
    assert _open_after([*deposed, ("broker-1", _marker(1, 0))]) == HELD_BACK
    ended: list[Row] = [*deposed, ("broker-2", _marker(1, 1))]
    late = ("broker-1", appended(1, (11,), pid=5, seq=1))
    assert _open_after([*ended, late]) == []


def test_a_deposed_leader_that_leads_again_has_kept_its_marker() -> None:
    """Without a fetch from the leader in between it has truncated nothing."""
    control = facts.Appended(T, P, 0, 1, 2, 5, 0, -1, ())
    deposed: list[Row] = [*OPEN, ("broker-2", led(1, 1)), ("broker-1", control),
                          ("broker-1", _marker(1, 0))]  # fmt: skip
    committed = ("broker-1", high_watermark(2, epoch=2))
    assert _open_after([*deposed, ("broker-1", led(2, 2)), committed]) == []
    later: list[Row] = [("broker-1", appended(2, (12,), 2, pid=5, seq=1)),
                        ("broker-1", high_watermark(3, epoch=2))]  # fmt: skip
    found = ["orders-0 has an open transaction of producer id 5 from offset 2 on"]
    assert _open_after([*deposed, ("broker-1", led(2, 2)), *later]) == found
    other = ("broker-2", appended(1, (13,), 1, pid=6, seq=0))
    third: list[Row] = [("broker-2", led(2, 2)), ("broker-2", high_watermark(2, epoch=2))]
    assert _open_after([*deposed, other, *third]) == HELD_BACK


READ: list[Row] = [
    ("controller-1", created()),
    ("broker-1", led(0)),
    ("broker-1", high_watermark(2)),
    ("consumer-1", positioned(0)),
    ("consumer-2", positioned(0, member="m2")),
    ("consumer-2", polled((0, 1), (10, 11), "m2")),
    ("consumer-1", polled((0,), (10,))),
]
"""consumer-1 lost the partition while it slept, and returns a record that it had fetched."""
LOSES: Row = ("consumer-1", positioned(1, "none", ""))


def _lag_after(*rows: Row) -> list[str]:
    return _after([*READ, *rows]).lag("billing", [T])


def test_a_group_is_where_the_new_owner_is_once_the_former_one_knows_its_loss() -> None:
    assert _lag_after(LOSES) == []
    read_by_1 = ["group billing is at 1 of 2 in orders-0 (last read by consumer-1)"]
    assert _lag_after() == read_by_1
    assert _lag_after(("consumer-2", facts.HostStopped("crash")), LOSES) == read_by_1
    assert _lag_after(("consumer-2", positioned(2, "none", "m2")), LOSES) == read_by_1
    behind = ["group billing is at 0 of 2 in orders-0 (last read by consumer-2)"]
    assert _lag_after(("consumer-2", positioned(0, "seek", "m2")), LOSES) == behind


def test_a_group_is_where_the_owner_is_whatever_a_member_that_slept_still_takes_up() -> None:
    """It takes up what an earlier generation gave it, until it hears of the next one."""

    def given(generation: int, member: str, *names: str) -> Row:
        return ("broker-1", facts.GroupAssigned("billing", generation, member, names))

    late: list[Row] = [("consumer-1", positioned(1)), ("consumer-1", polled((1,), (11,)))]
    to_2: list[Row] = [given(1, "m1", "orders-0"), given(2, "m2", "orders-0"), *READ[:6]]
    behind = ["group billing is at 1 of 2 in orders-0 (last read by consumer-1)"]
    found = [
        _after([*to_2, *rows]).lag("billing", [T])
        for rows in (
            late[:1],
            [("consumer-2", facts.HostStopped("crash")), late[0]],
            [("consumer-2", positioned(2, "none", "m2")), late[0]],
            [given(3, "m2"), late[0]],
            [given(3, "m2"), given(3, "m1", "orders-0"), late[0]],
            [late[0], ("consumer-2", positioned(2, "none", "m2"))],
            [late[0], ("consumer-2", positioned(0, "seek", "m2")), late[1]],
        )
    ]
    again = ["group billing is at 0 of 2 in orders-0 (last read by consumer-2)"]
    assert found == [[], behind, behind, behind, behind, behind, again]


def test_no_group_can_read_what_a_leader_has_lost_that_leads_again_in_its_epoch() -> None:
    """So does a ZooKeeper leader that was restarted; what it exposes anew is to be read."""
    cut: list[Row] = [("broker-1", led(0, 1))]
    owner_gone: list[Row] = [("consumer-2", facts.HostStopped("crash")), LOSES]
    assert _lag_after(*owner_gone, *cut) == []
    anew = ["group billing is at 1 of 2 in orders-0 (last read by consumer-1)"]
    assert _lag_after(*owner_gone, *cut, ("broker-1", high_watermark(2))) == anew
    assert _lag_after(*owner_gone, ("broker-1", led(0, 2))) == anew


def test_what_an_old_consumer_had_fetched_before_a_reset_does_not_take_it_back() -> None:
    """Its queue stays as it is (ConsumerFetcherThread.handleOffsetOutOfRange)."""
    old: Row = ("consumer-1", facts.PartitionOwner("billing", "m1", "orders", P, "claimed", ""))
    reset: Row = ("consumer-1", positioned(2, "latest"))
    queued: Row = ("consumer-1", polled((0,), (10,)))
    rebalanced: Row = ("consumer-1", positioned(0))
    behind = ["group billing is at 1 of 2 in orders-0 (last read by consumer-1)"]
    begun = READ[:3]
    found = [
        _after([*begun, *rows]).lag("billing", [T])
        for rows in (
            [old, queued],
            [old, reset, queued],
            [old, reset, rebalanced, queued],
            [reset, queued],  # a Java consumer drops what it had fetched
        )
    ]
    assert found == [behind, [], behind, behind]
