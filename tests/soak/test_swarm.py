"""The swarm: random clusters under random faults keep their claims. Long; ``make soak`` runs it.

KAFKASIM_SOAK_SEEDS says how many (300), KAFKASIM_SOAK_FIRST from which on (1). A seed that fails is
a bug of the model, the simulator or an invariant: find out which, fix it, and leave its scenario in
``tests/bugs/seeds``.
"""

from __future__ import annotations

import os

import pytest

from kafkasim.scenarios.searching.draw import draw
from kafkasim.scenarios.searching.search import search

FIRST = int(os.environ.get("KAFKASIM_SOAK_FIRST", "1"))
COUNT = int(os.environ.get("KAFKASIM_SOAK_SEEDS", "300"))
CHUNK = 25


@pytest.mark.soak
@pytest.mark.parametrize("first", range(FIRST, FIRST + COUNT, CHUNK))
def test_every_drawn_cluster_keeps_its_claim(first):
    found = list(search(range(first, min(first + CHUNK, FIRST + COUNT))))
    assert not any(finding.failed for finding in found), "\n\n".join(f.report for f in found)


@pytest.mark.slow
def test_the_first_drawn_clusters_keep_their_claims():
    assert [finding.report for finding in search(range(1, 3)) if finding.failed] == []


def test_a_seed_always_draws_the_same_scenario():
    assert draw(5) == draw(5)
    assert draw(5) != draw(6)
