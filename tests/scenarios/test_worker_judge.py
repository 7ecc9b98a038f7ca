"""Workers of Connect: what the judge says of hand-written facts, and of whole runs."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.analysis.judging.courts import StoredTrace
from kafkasim.analysis.judging.workers import Workers
from kafkasim.model import facts
from kafkasim.scenarios.language import library
from kafkasim.scenarios.running.runner import run

NODES = ("w1", "w2")
TASK = "MirrorSourceConnector-0"
Row = tuple[int, str, Any]


def judged(*rows: Row, zombie_s: int = 5) -> Workers:
    """Return the judge of two workers; ``rows`` have their time in s."""
    trace = StoredTrace()
    made = Workers(trace, NODES, zombie_s * 1_000_000)
    trace.feed([(seq, t * 1_000_000, node, fact) for seq, (t, node, fact) in enumerate(rows)])
    return made


def started(t: int, node: str) -> Row:
    return t, node, facts.WorkStarted("g", TASK)


def stopped(t: int, node: str) -> Row:
    return t, node, facts.WorkStopped("g", TASK)


def ends(t: int) -> Row:
    return t, "world", facts.Phase("end", "")


def gone(t: int, node: str) -> Row:
    return t, node, facts.HostStopped("crash")


@pytest.mark.parametrize(
    ("rows", "found"),
    [([started(1, "w1"), started(5, "w2"), stopped(10, "w1"), ends(20)], []),  # as long as allowed
     ([started(1, "w1"), started(5, "w2"), stopped(11, "w1"), ends(20)], ["task-twice"]),
     ([started(1, "w1"), gone(4, "w1"), started(5, "w2"), ends(20)], []),
     ([started(1, "w1"), started(5, "w2"), ends(20)], ["task-twice"]),
     ([started(1, "w1"), started(5, "other"), ends(20)], [])],  # of another group
)  # fmt: skip
def test_a_task_runs_on_one_worker_but_for_the_time_that_a_zombie_may_take(
    rows: list[Row], found: list[str]
) -> None:
    made = judged(*rows)
    assert [[each.name for each in made.finish()] for _ in range(2)] == [found, found]


def assigned(t: int, node: str, tasks: int, delay_us: int = 0, generation: int = 7) -> Row:
    work = ("MirrorSourceConnector", *[f"MirrorSourceConnector-{n}" for n in range(tasks)])
    return t, node, facts.WorkAssigned("g", generation, node == "w1", work, delay_us)


@pytest.mark.parametrize(
    ("rows", "found"),
    [([assigned(1, "w1", 2), assigned(1, "w2", 1)], []),
     ([assigned(1, "w1", 3), assigned(1, "w2", 1)], ["tasks-uneven"]),
     ([assigned(1, "w1", 3, 40), assigned(1, "w2", 1, 40)], []),  # it rebalances again
     ([assigned(17, "w1", 3), assigned(17, "w2", 1)], []),  # it may rebalance yet
     ([assigned(1, "w1", 3), assigned(1, "w2", 1, generation=6)], []),  # w2 has not got it yet
     ([assigned(1, "w1", 3), assigned(1, "w2", 1), gone(2, "w2")], [])],
)  # fmt: skip
def test_the_last_assignment_is_even(rows: list[Row], found: list[str]) -> None:
    assert [each.name for each in judged(*rows, ends(20)).finish()] == found


def test_it_says_which_task_ran_nowhere_for_longest() -> None:
    rows = [started(1, "w1"), gone(4, "w1"), started(9, "w2"), ends(20)]
    assert judged(*rows).told == [f"{TASK} ran nowhere for 5.0 s"]
    assert judged(*rows[:2], ends(20)).told == [f"{TASK} ran nowhere for 16.0 s"]
    assert judged(started(1, "w1"), ends(20)).told == []


@pytest.mark.slow
def test_the_partitions_of_a_killed_worker_stand_still_for_session_and_delay() -> None:
    scenario, _ = library.scenario("mirror-worker-killed")
    result = run(scenario, 0)
    assert (result.verdict, result.anomalies) == ("expected", ["duplicate"])
    (told,) = [each for each in result.remarks if each.startswith("workers a->b")]
    seconds = float(told.partition(" for ")[2].partition(" s")[0])
    assert 10 + 15 - 3 < seconds < 10 + 15 + 5  # two heartbeats of 3 s, one of the other worker
