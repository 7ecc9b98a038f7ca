"""What waits for a metadata quorum that has lost too many of its voters' disks."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.controllers.lost_voters import (
    LOST,
    UNSTARTABLE,
    LostVoters,
)
from kafkasim.analysis.judging.transactions.liveness.controllers.registrations import (
    Registrations,
)
from kafkasim.analysis.judging.transactions.liveness.holders import Holders
from kafkasim.analysis.judging.transactions.liveness.positions import Positions
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row

HOSTS = {3001: "controller-1", 3002: "controller-2", 3004: "controller-4"}
SHORT = "orders-0: ISR [3] of [3, 2, 4]"
LAG = "group billing is at 0 of 4 in orders-0 (last read by nobody)"
REPLACED: Row = ("controller-4", facts.DiskReplaced(("D",)))


def _voters(offset: int, **directories: str) -> Row:
    ids = tuple([int(each[1:]) for each in directories])
    fact = facts.VotersChanged(offset, ids, tuple(directories.values()))
    return ("controller-1", fact)


def _in_log_of(node: str, row: Row) -> Row:
    return (node, row[1])


def _role(node: str, epoch: int, leader: int) -> Row:
    return (node, facts.RaftRole("leader", epoch, leader))


def _committed(offset: int) -> Row:
    return ("controller-1", facts.MetadataCommitted(offset, 1, 0))


def _offsets(min_isr: int) -> Row:
    fact = facts.TopicCreated(1, "offsets-id", "__consumer_offsets", 1, 3, min_isr)
    return ("controller-1", fact)


def _home(*isr: int, leader: int = 1, epoch: int = 0) -> Row:
    change = facts.PartitionChanged(
        5, "offsets-id", 0, leader, 1, epoch, isr, (1, 2, 3), "lag", unclean=False
    )
    return ("controller-1", change)


def _minimum(resource: str) -> Row:
    fact = facts.ConfigChanged(9, resource, "min.insync.replicas", "2")
    return ("controller-1", fact)


TWO, COMMITTED = _voters(9, v3001="", v3004="D"), _committed(9)


def _excuse(rows: list[Row], *lines: str) -> str:
    trace = FakeTrace()
    holders = Holders(trace, {}, Positions(trace))
    judge = LostVoters(trace, HOSTS, Registrations(trace, 60_000_000), holders)
    trace.record(rows)
    return Progress(trace).stall_excuse(list(lines), lambda _: "", judge.excuse)


@pytest.mark.parametrize(
    "line",
    [SHORT, "orders-0 has no leader", "orders-0: broker 3 does not lead epoch 4 yet",
     "broker-2 is not unfenced since it started"],
)  # fmt: skip
def test_what_a_controller_decides_waits_for_ever_once_half_of_the_voters_are_lost(
    line: str,
) -> None:
    assert _excuse([TWO, COMMITTED, REPLACED], line) == LOST


def test_what_needs_no_controller_is_missing_all_the_same() -> None:
    for line in (LAG, "producer-1 has records that are neither acknowledged nor failed"):
        assert _excuse([TWO, COMMITTED, REPLACED], line) == ""
        assert _excuse([TWO, COMMITTED, REPLACED], SHORT, line) == ""


@pytest.mark.parametrize(
    "rows",
    [
        [TWO, COMMITTED],
        [TWO, COMMITTED, ("controller-2", facts.DiskReplaced(("D",)))],
        [TWO, COMMITTED, ("broker-4", facts.DiskReplaced())],
        [TWO, COMMITTED, ("controller-1", facts.DiskReplaced(("C",)))],  # of the configuration
        [_voters(9, v3001="", v3002="", v3004="D"), COMMITTED, REPLACED],
        [TWO, REPLACED, _voters(12, v3001="", v3004="E"), _committed(12)],
        [TWO, COMMITTED, REPLACED, _voters(12, v3001=""), _committed(12)],
    ],
    ids=["no-disk", "no-voter", "broker", "static", "majority", "added-again", "removed"],
)
def test_a_quorum_with_a_majority_has_no_excuse(rows: list[Row]) -> None:
    assert _excuse(rows, SHORT) == ""


def test_a_set_that_is_not_committed_may_come_to_count_or_not() -> None:
    three, two = _voters(4, v3001="", v3002="", v3004="D"), _voters(9, v3001="", v3004="D")
    leads = _role("controller-1", 1, 3001)
    assert _excuse([leads, three, _committed(8), two, REPLACED], SHORT) == ""
    assert _excuse([three, two, _committed(9), REPLACED], SHORT) == LOST
    alone = _voters(12, v3001="")
    assert _excuse([two, _committed(9), REPLACED, alone], SHORT) == ""


REMOVED: list[Row] = [
    _role("controller-1", 1, 3001),
    _voters(4, v3001="C", v3002="D"),
    _in_log_of("controller-2", _voters(4, v3001="C", v3002="D")),
    _committed(4),
    _voters(9, v3002="D"),
]
"""The leader of two voters has appended the set without itself; nobody else has it."""

ENDED: Row = ("controller-1", facts.HostStopped("crash"))
AGAIN = [_voters(4, v3001="C", v3002="D"), _voters(9, v3002="D")]


def test_a_leader_that_removed_itself_stands_for_no_election() -> None:
    deposed: Row = ("controller-1", facts.RaftRole("unattached", 2, -1))
    assert _excuse([*REMOVED, deposed], SHORT) == LOST
    assert _excuse([*REMOVED, ENDED, *AGAIN], SHORT) == LOST
    assert _excuse([*REMOVED, ENDED, *AGAIN], LAG) == ""


@pytest.mark.parametrize(
    "rows",
    [
        REMOVED,  # it leads on, until the change is committed
        [*REMOVED, _in_log_of("controller-2", _voters(9, v3002="D")), ENDED],
        [*REMOVED, ENDED, AGAIN[0]],  # the record was lost with the page cache
        [*REMOVED, ENDED, *AGAIN, _role("controller-2", 2, 3002)],
        [*REMOVED[:3], _voters(9, v3002="D"), ENDED],  # nobody knows which set is committed
        [*REMOVED[:4], _voters(9, v3001="C"), ENDED],  # it removes the other one
        [*REMOVED[:4], _voters(9, v3001="C", v3002="D", v3004="E"), ENDED],
    ],
    ids=["leads", "told", "forgotten", "elected", "unknown", "other", "added"],
)
def test_a_quorum_that_can_elect_has_no_excuse(rows: list[Row]) -> None:
    assert _excuse(rows, SHORT) == ""


def test_of_three_voters_two_elect_without_the_leader_that_removed_itself() -> None:
    three = _voters(4, v3001="C", v3002="D", v3004="E")
    rows = [REMOVED[0], three, _committed(4), _voters(9, v3002="D", v3004="E"), ENDED]
    assert _excuse(rows, SHORT) == ""
    assert _excuse([*rows, REPLACED], SHORT) == ""
    lost: Row = ("controller-4", facts.DiskReplaced(("E",)))
    assert _excuse([*rows, lost], SHORT) == LOST
    elected = [_role("controller-2", 2, 3002), ("controller-2", facts.HostStopped("crash"))]
    assert _excuse([*rows, *elected, lost], SHORT) == ""  # 3001 may vote for 3002 of epoch 2


def test_a_voter_may_be_added_whose_disk_was_replaced_before() -> None:
    """The set before counts no votes once all its voters have the new one."""
    one, added = _voters(4, v3001="C"), _voters(9, v3001="C", v3004="D")
    assert _excuse([one, _committed(4), REPLACED, added], SHORT) == LOST
    assert _excuse([one, _committed(4), REPLACED], SHORT) == ""
    assert _excuse([one, _committed(4), REPLACED, _in_log_of("controller-4", added)], SHORT) == ""
    truncated = one
    assert _excuse([one, _committed(4), REPLACED, added, truncated], SHORT) == ""
    again = _voters(9, v3001="C", v3004="E")
    assert _excuse([one, _committed(4), REPLACED, again], SHORT) == ""


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([_offsets(2), _home(1, 2, 3), _home(1, epoch=1)], LOST),
        ([_offsets(3), _home(1, 2, 3), _home(1, 2, epoch=1)], LOST),
        ([_offsets(2), _home(1, 2, 3), _home(1, leader=-1, epoch=1)], LOST),
        ([_offsets(2), _home(1, 2, 3), _home(1, 2, epoch=1)], ""),
        ([_offsets(2), _home(1, 2, 3), _home(1, 2, epoch=2), _home(1, epoch=1)], ""),
        ([_offsets(3), _home(1, 2, epoch=1), _minimum("topic:__consumer_offsets")], ""),
        ([_offsets(3), _home(1, 2, epoch=1), _minimum("broker:")], ""),
        ([_offsets(3), _home(1, 2, epoch=1), _minimum("topic:orders")], LOST),
        ([_home(1, epoch=1)], ""),
    ],
    ids=["min-isr", "min-isr-3", "no-leader", "enough", "older", "lowered", "all-lowered",
         "other-topic", "no-topic"],
)  # fmt: skip
def test_a_group_waits_whose_coordinator_may_not_write(rows: list[Row], expected: str) -> None:
    assert _excuse([*rows, TWO, COMMITTED, REPLACED], LAG) == expected
    assert _excuse([*rows, TWO, COMMITTED], LAG) == ""


def test_a_broker_that_cannot_register_without_a_majority_stays_down() -> None:
    """Its session of 9 s may end, and its next attempt come, 18 s after the last election."""
    limit = ("broker-2", facts.TimeLimit("broker.session.timeout.ms", 9_000_000))
    starts: list[Row] = [limit, ("broker-2", facts.HostStarted(1))]
    ends: Row = ("broker-2", facts.HostStopped("halt"))
    before, later, rest = (("", 17), ("", 19), ("", 60))
    down = "broker-2 is down"
    assert _excuse([TWO, COMMITTED, *starts, before, REPLACED, rest, ends], down) == LOST
    assert _excuse([TWO, COMMITTED, *starts, later, REPLACED, rest, ends], down) == ""
    assert (
        _excuse([TWO, COMMITTED, *starts, before, REPLACED, rest, ends], "broker-3 is down") == ""
    )
    assert _excuse([TWO, COMMITTED, *starts, before, rest, ends], down) == ""
    assert _excuse([TWO, COMMITTED, *starts, before, REPLACED, before, ends], down) == ""
    crashes = ("broker-2", facts.HostStopped("crash"))
    assert _excuse([TWO, COMMITTED, *starts, before, REPLACED, rest, crashes], down) == ""


LED: Row = ("controller-1", facts.RaftRole("follower", 2, 3004))
NOBODY: Row = ("controller-1", facts.RaftRole("candidate", 3, -1))
STARTS: Row = ("controller-4", facts.HostStarted(1))
HALTS: Row = ("controller-4", facts.HostStopped("halt"))


def test_the_last_leader_ends_whenever_it_starts_with_its_new_disk() -> None:
    """Who is left names it as the leader, which it knows nothing of."""
    rows = [TWO, COMMITTED, LED, REPLACED, STARTS, HALTS, STARTS, HALTS]
    assert _excuse(rows, "controller-4 is down", SHORT) == LOST
    assert _excuse(rows, "controller-1 is down") == ""


@pytest.mark.parametrize(
    "rows",
    [
        [_voters(9, v3001="", v3002="", v3004="D"), COMMITTED, LED, REPLACED, STARTS, HALTS],
        [TWO, COMMITTED, LED, STARTS, HALTS],
        [TWO, COMMITTED, REPLACED, STARTS, HALTS],
        [TWO, COMMITTED, ("controller-4", facts.RaftRole("follower", 2, 3001)), REPLACED, STARTS,
         HALTS],
        [TWO, COMMITTED, LED, NOBODY, REPLACED, STARTS, HALTS],
        [TWO, COMMITTED, LED, REPLACED, STARTS, ("controller-4", facts.HostStopped("crash"))],
        [TWO, COMMITTED, LED, REPLACED, STARTS, HALTS, STARTS],
    ],
    ids=["majority", "no-disk", "no-leader", "another-leader", "another-epoch", "crash", "runs"],
)  # fmt: skip
def test_no_other_controller_has_a_reason_to_be_down(rows: list[Row]) -> None:
    assert _excuse(rows, "controller-4 is down") == ""


STOOD: list[Row] = [
    ("controller-2", facts.RaftRole("candidate", 3, -1)),
    ("controller-2", facts.RaftRole("follower", 3, 3001)),
    _in_log_of("controller-2", _voters(9, v3001="C", v3004="D")),
]
"""A voter that lost the election of the epoch, and was removed by the leader that won it"""

HALTED: Row = ("controller-2", facts.HostStopped("halt"))
DOWN = "controller-2 is down"


def test_a_removed_voter_whose_vote_makes_it_a_candidate_does_not_start() -> None:
    assert _excuse([*STOOD, HALTED], DOWN) == UNSTARTABLE


@pytest.mark.parametrize(
    "rows",
    [
        [*STOOD, ("controller-2", facts.HostStopped("crash"))],
        [*STOOD[:2], HALTED],  # still a voter
        [*STOOD, HALTED, ("controller-2", facts.HostStarted(2))],
        [STOOD[0], ("controller-2", facts.RaftRole("unattached", 4, -1)), STOOD[2], HALTED],
        [*STOOD, ("controller-2", facts.DiskReplaced(("E",))), HALTED],
        [*STOOD[1:], HALTED],  # never a candidate
        [STOOD[0], ("controller-2", facts.RaftRole("leader", 3, 3002)), *STOOD[1:], HALTED],
    ],
    ids=["crash", "voter", "started", "later-epoch", "empty-disk", "follower", "leader"],
)
def test_a_controller_that_is_no_candidate_must_run(rows: list[Row]) -> None:
    assert _excuse(rows, DOWN) == ""
