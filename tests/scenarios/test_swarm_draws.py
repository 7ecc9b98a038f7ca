"""The shapes of the swarm: each is a valid scenario whenever it is drawn, and about one place."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.searching import draw_shape
from kafkasim.scenarios.searching.draw import MODES, draw
from kafkasim.scenarios.searching.draw_shape import SHAPES
from kafkasim.scenarios.searching.shapes.focus import Focus

DRAWN = [
    (shape, mode)
    for shape, *weights in SHAPES
    for mode, weight in zip(MODES, weights, strict=True)
    if weight
]


@pytest.mark.parametrize(("shape", "mode"), DRAWN, ids=lambda each: getattr(each, "__name__", each))
def test_a_shape_is_valid_and_short_however_it_is_drawn(
    shape: Callable[[Focus], None], mode: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(draw_shape, "PLAYED", 0)
    for number in range(20):
        data = draw(2 * number + MODES.index(mode))
        focus = Focus(random.Random(number), data, mode)
        shape(focus)
        focus.install()
        scenario = parse(data, shape.__name__)
        assert scenario.duration <= 10_000_000
        assert scenario.faults or scenario.operations
        assert len(scenario.topics[0].assignment) == scenario.topics[0].partitions


def test_every_shape_and_the_plain_draw_turn_up() -> None:
    def shapes(mode: int) -> int:
        kept = [draw(seed) for seed in range(mode, 120, 2)]
        return sum(bool(data["topics"][0].get("assignment")) for data in kept)

    for mode in (0, 1):
        assert 20 < shapes(mode) < 55


def test_a_seed_is_drawn_the_same_again() -> None:
    assert [draw(seed) for seed in range(30)] == [draw(seed) for seed in range(30)]
