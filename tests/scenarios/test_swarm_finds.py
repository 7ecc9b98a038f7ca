"""Historical bugs that the search finds in a seed of its own draws."""

from __future__ import annotations

import pytest

from kafkasim.scenarios.searching.search import examine

FOUND: dict[str, tuple[int, tuple[str, ...]]] = {
    "B60-verification-error-seq-loop": (372, ("VERIFYORDER",)),
    "B92-share-start-moves-back": (2264, ("accepted-again",)),
    "B99-late-topic-is-all": (312, ("no-progress",)),
    "B100-diverged-fetch-counts": (6, ("ISRDATA",)),
    "B101-clock-goes-back": (14, ("no-progress",)),
    "B102-failed-expiry-is-pending": (28, ("no-progress",)),
}
"""Variant, a seed that passes without it, and what fails with it."""


@pytest.mark.slow
@pytest.mark.parametrize("variant", FOUND)
def test_a_seed_finds_the_bug(variant: str) -> None:
    seed, anomalies = FOUND[variant]
    found = examine(seed, [variant])
    assert (found.verdict, found.anomalies) == ("fail", anomalies)
    assert not examine(seed).failed
