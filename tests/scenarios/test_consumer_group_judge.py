"""The judges of consumer groups (KIP-848) on facts written by hand."""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from tests.scenarios.fact_makers import Row, T
from tests.scenarios.test_invariants import LOADED, OFFSETS, judge


def beats(
    member: str, epoch: int, topics: tuple[str, ...] = (), instance: str | None = None
) -> Row:
    """A heartbeat of a member whose rebalance timeout is 10 s; sessions are 45 s."""
    return "broker-1", facts.MemberRequest(
        "billing", member, instance, "ConsumerGroupHeartbeat", epoch, topics, (), 0,
        10_000 if epoch == 0 else 0,
    )  # fmt: skip


def group(state: str, epoch: int, *members: str, reason: str = "") -> Row:
    return "broker-1", facts.GroupState("billing", state, epoch, members, "uniform", reason)


def owns(member: str, epoch: int, *partitions: str, node: str = "broker-1") -> Row:
    return node, facts.GroupAssigned("billing", epoch, member, partitions)


def later(seconds: float) -> Row:
    return "world", seconds


ALONE: list[Row] = [
    OFFSETS, LOADED, beats("m1", 0, ("orders",)), group("Stable", 1, "m1"),
    owns("m1", 1, "orders-0", "orders-1"),
]  # fmt: skip
TWO: list[Row] = [
    *ALONE, beats("m2", 0, ("orders",)), group("Reconciling", 2, "m1", "m2"),
]  # fmt: skip

STORIES: dict[str, tuple[list[Row], list[Row], list[Row]]] = {
    # name: what happened before, how it goes on well, how it goes on badly
    "EXCL an owner that has not released, at another epoch": (
        TWO,
        [owns("m1", 2, "orders-0"), owns("m2", 2, "orders-1")],
        [owns("m2", 2, "orders-1")],
    ),
    "EXCL what a coordinator loads is without members that are gone": (
        [*ALONE, group("Empty", 2, reason="loaded")],
        [beats("m2", 0, ("orders",)), group("Stable", 3, "m2"), owns("m2", 3, "orders-0")],
        [group("Stable", 3, "m1", "m2"), owns("m1", 2, "orders-0"), owns("m2", 3, "orders-0")],
    ),
    "EXCL a coordinator loads what the previous one had not committed": (
        [*ALONE, group("Stable", 4, "m2", "m1", reason="loaded")],
        [owns("m2", 3, "orders-0", "orders-1"), owns("m1", 4)],
        [owns("m2", 3, "orders-0", "orders-1"), owns("m1", 4, "orders-1")],
    ),
    "needless-rebalance the epoch rises for nothing": (
        [*ALONE, later(60)],
        [("controller-1", facts.TopicCreated(9, T, "orders", 4, 3, 1)), group("Stable", 2, "m1")],
        [beats("m1", 1), group("Stable", 2, "m1")],
    ),
    "needless-rebalance a subscription that is told again": (
        [*ALONE, later(60)],
        [beats("m1", 1, ("orders", "payments")), group("Stable", 2, "m1")],
        [beats("m1", 1, ("orders",)), group("Stable", 2, "m1")],
    ),
    "needless-eviction a member that is heard": (
        [*TWO, group("Stable", 2, "m1", "m2"), later(40), beats("m2", 2)],
        [later(46), group("Stable", 3, "m1")],
        [later(44), group("Stable", 3, "m1")],
    ),
    "needless-eviction a revocation that is not overdue": (
        TWO,
        [later(10), group("Stable", 3, "m2")],
        [later(9), group("Stable", 3, "m2")],
    ),
    "needless-eviction a static member whose place is taken": (
        [OFFSETS, LOADED, beats("m1", 0, ("orders",), "i"), group("Stable", 1, "m1")],
        [beats("m2", 0, ("orders",), "i"), group("Stable", 1, "m2")],
        [beats("m2", 0, ("orders",), "j"), group("Stable", 2, "m2")],
    ),
    "needless-eviction a member that has not left": (
        TWO,
        [beats("m1", -1), group("Stable", 3, "m2")],
        [beats("m2", -1), group("Stable", 3, "m2")],
    ),
}


@pytest.mark.parametrize("story", STORIES)
def test_a_story_that_goes_well(story: str) -> None:
    before, good, _ = STORIES[story]
    assert judge([*before, *good]) == []


@pytest.mark.parametrize("story", STORIES)
def test_a_story_that_goes_badly(story: str) -> None:
    before, _, bad = STORIES[story]
    assert judge([*before, *bad]) == [(story.split()[0], "")]


def test_a_deposed_coordinator_says_nothing_of_ownership() -> None:
    moved = ("broker-2", facts.CoordinatorLoaded(0, 2, True))
    assert judge([*TWO, moved, owns("m2", 2, "orders-1")]) == []
