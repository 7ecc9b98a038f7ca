"""Campaigns of the search: what is measured, when one ends, and which need not run."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count, islice

from kafkasim.scenarios.bench.campaign import (
    NEVER,
    Campaign,
    campaign,
    campaigns,
    figure,
    line,
    seeds_of,
)
from kafkasim.scenarios.searching.draw import mode_of
from kafkasim.scenarios.searching.search import Finding


def _clock() -> Callable[[], float]:
    """Return a clock that is a second further at each look."""
    seconds = count()
    return lambda: float(next(seconds))


def _finding(*hits: int) -> Callable[[int, str], Iterator[Finding]]:
    def findings(first: int, _: str) -> Iterator[Finding]:
        for seed in count(first):
            yield Finding(seed, "fail" if seed in hits else "pass")

    return findings


def test_a_campaign_ends_at_the_first_seed_that_shows_the_variant() -> None:
    assert campaign("V", 5, 60.0, _finding(7), _clock()) == Campaign(3.0, 7, 3)


def test_a_campaign_ends_without_a_find_when_its_time_is_over() -> None:
    assert campaign("V", 5, 4.0, _finding(), _clock()) == Campaign(NEVER, -1, 4)


def test_a_seed_that_fails_without_the_variant_is_told_and_is_no_find() -> None:
    def findings(first: int, _: str) -> Iterator[Finding]:
        yield Finding(first, "crash", ("unmodified",))
        yield Finding(first + 1, "fail")

    found = campaign("V", 1, 60.0, findings, _clock())
    assert (found.seed, found.unmodified) == (2, (1,))
    assert "FAIL UNMODIFIED: [1]" in line("V", [found], 1, 60.0)


def test_campaigns_that_cannot_change_the_median_do_not_run() -> None:
    done = campaigns("V", [10, 20, 30], 0.0, _finding())
    assert [each.seconds for each in done] == [NEVER, NEVER]
    assert figure(done, 3) == NEVER
    assert line("V", done, 3, 40.0).split()[:3] == ["V", ">", "40"]


def test_the_figure_is_the_median() -> None:
    done = [Campaign(seconds, 1, 1) for seconds in (3.0, NEVER, 1.0)]
    assert figure(done, 3) == 3.0


def test_campaigns_take_the_seeds_of_the_mode_in_which_the_variant_can_show() -> None:
    modes = {"B33-zk-write-without-epoch-check": ["zookeeper"], "B43-no-pre-vote": ["kraft"]}
    for variant, wanted in modes.items():
        for first in (100, 101):
            seeds = list(islice(seeds_of(variant, first), 4))
            assert sorted({mode_of(seed) for seed in seeds}) == wanted
            assert seeds[0] in (first, first + 1)
