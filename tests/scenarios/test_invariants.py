"""Each invariant on facts written by hand: a story that keeps it, and one that breaks only it."""

from __future__ import annotations

import pytest

from kafkasim.analysis.judging.invariants.online import INVARIANTS
from kafkasim.model import facts
from tests.scenarios.fact_makers import (
    P,
    Row,
    T,
    appended,
    committed,
    fetched,
)
from tests.scenarios.invariant_stories import (
    access,
    harm,
    membership,
    readers,
    replicas,
)
from tests.scenarios.invariant_stories.common import REPLICATED, START, Stories, assigned
from tests.scenarios.invariant_stories.judged import judge, judged

STORIES: Stories = {
    **replicas.STORIES,
    **membership.STORIES,
    **readers.STORIES,
    **harm.STORIES,
    **access.STORIES,
}


def test_every_invariant_has_a_story() -> None:
    assert sorted({story.split()[0] for story in STORIES}) == sorted({*INVARIANTS})


@pytest.mark.parametrize("story", STORIES)
def test_facts_that_keep_the_invariant(story: str) -> None:
    before, good, _ = STORIES[story]
    assert judge([*before, *good]) == []


@pytest.mark.parametrize("story", STORIES)
def test_facts_that_break_it(story: str) -> None:
    before, _, bad = STORIES[story]
    assert judge([*before, *bad]) == [(story.split()[0], "")]


@pytest.mark.parametrize(
    ("end", "found"),
    [
        (1, []),  # the deleted log is back: a power loss has undone the deletion
        (0, ["MATCH"]),  # the log that was created after it, which was not flushed
    ],
)
def test_a_log_that_is_loaded_after_a_deletion_may_be_the_deleted_one(
    end: int, found: list[str]
) -> None:
    invariants = judged([
        *START, ("broker-1", appended(0, (10,))), ("broker-1", appended(1, (11,), 2)),
        ("broker-2", REPLICATED), ("broker-2", facts.LogDeleted(T, P, 1)),
        ("broker-2", facts.HostStopped("power-loss")),
        ("broker-2", facts.LogLoaded(T, P, 0, end, 0, False)),
        ("broker-2", appended(1, (11,), 2)),
    ])  # fmt: skip
    assert [each.name for each in invariants.finish()] == found


def test_many_violations_of_one_invariant_do_not_hide_another() -> None:
    rows: list[Row] = [("broker-1", committed(5)), *[("broker-1", fetched(4))] * 100]
    rows += [assigned("m1", "orders-0"), assigned("m2", "orders-0")]
    found = [name for name, _ in judge(rows)]
    assert found == ["OFFSET"] * 20 + ["EXCL"]


def test_a_deposed_coordinator_may_answer_stale() -> None:
    rows: list[Row] = [
        ("broker-1", committed(4, epoch=0)),
        ("broker-2", committed(5, epoch=1)),
        ("broker-1", fetched(4, epoch=0)),
    ]
    assert judge(rows) == []
