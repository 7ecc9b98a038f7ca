"""StripedReplicaPlacer: leaders unfenced, racks alternate, the seed decides."""

from __future__ import annotations

import random

import pytest

from kafkasim.model.controller.common.placement import UsableBroker, place, placement_problem


def brokers(*specs: tuple[int, str | None, bool]) -> list[UsableBroker]:
    return [UsableBroker(*spec) for spec in specs]


THREE_RACKS = brokers(*[(number, f"r{number % 3}", False) for number in range(9)])


def test_equal_seeds_place_alike() -> None:
    first = place(random.Random(3), 12, 3, THREE_RACKS)
    assert first == place(random.Random(3), 12, 3, list(reversed(THREE_RACKS)))
    assert first != place(random.Random(4), 12, 3, THREE_RACKS)


def test_replicas_are_spread_over_the_racks() -> None:
    for replicas in place(random.Random(1), 30, 3, THREE_RACKS):
        assert sorted(replica % 3 for replica in replicas) == [0, 1, 2]


def test_leaders_go_round_all_brokers() -> None:
    leaders = [replicas[0] for replicas in place(random.Random(1), 9, 3, THREE_RACKS)]
    assert sorted(leaders) == list(range(9))


def test_replicas_differ_even_with_more_replicas_than_racks() -> None:
    for replicas in place(random.Random(1), 20, 5, THREE_RACKS):
        assert len(dict.fromkeys(replicas)) == 5


def test_a_fenced_broker_follows_but_never_leads() -> None:
    cluster = brokers((1, None, False), (2, None, True), (3, None, False))
    placed = place(random.Random(1), 10, 3, cluster)
    assert [replicas[2] for replicas in placed] == [2] * 10
    racks = brokers((1, "a", True), (2, "b", False))
    assert place(random.Random(1), 3, 2, racks) == [(2, 1)] * 3


@pytest.mark.parametrize(
    ("cluster", "factor", "problem"),
    [
        (brokers((1, None, False)), 2, "only 1 broker(s) are registered."),
        (brokers((1, None, True)), 1, "All brokers are currently fenced."),
        (brokers((1, None, False)), 1, None),
    ],
)
def test_what_cannot_be_placed_is_said(
    cluster: list[UsableBroker], factor: int, problem: str | None
) -> None:
    said = placement_problem(factor, cluster)
    assert said is None if problem is None else (said or "").endswith(problem)
