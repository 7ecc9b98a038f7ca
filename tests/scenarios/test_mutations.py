"""Every mutation is caught by what it is said to break, and without it the same run passes.

``tests/bugs`` holds the scenarios that exist for one mutation only; the others are in the
catalogue.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkasim.scenarios.language import library
from kafkasim.scenarios.running.runner import run
from kafkasim.scenarios.variants.mutations import MUTATIONS
from kafkasim.scenarios.variants.variant import Variant

BUGS = Path(__file__).parent.parent / "bugs"
SEEDS = {
    "M01-hw-ignores-followers": 1,
    "M02-isr-expands-unchecked": 1,
    "M03-no-truncation": 1,
    "M04-no-epoch-fencing": 1,
    "M05-no-min-isr": 1,
    "M06-vote-not-durable": 7,
    "M07-no-generation-check": 1,
    "M08-no-sequence-check": 1,
    "M10-short-log-kept": 1,
    "M30-shrinks-whoever-lags": 1,
    "M31-half-a-session": 1,
    "M32-zk-half-a-session": 1,
    "M47-two-sessions": 1,
    "M48-zk-two-sessions": 1,
    "M29-zk-tells-only-the-others": 1,
    "M33-leads-on": 1,
    "M38-reads-on": 1,
    "M39-keeps-lost-replicas": 1,
    "M34-never-lets-go": 1,
    "M35-waits-for-every-replica": 1,
    "M36-waits-for-one-more": 1,
    "M37-zk-keeps-leaderships": 1,
    "M40-every-rejoin-rebalances": 14,
    "M41-rebalance-waits-on": 1,
    "M42-heartbeats-unheard": 1,
    "M43-offsets-expire-at-once": 1,
    "M44-coordinator-never-resigns": 1,
    "M45-new-partitions-unseen": 1,
    "M46-gathers-metadata": 1,
    "M51-decisions-forgotten": 2,
    "M60-keeps-lost-partitions": 1,
    "M61-hands-over-at-once": 1,
    "M62-drops-rest-of-batch": 1,
    "M71-start-epoch-dropped": 1,
    "M81-share-delivers-once-more": 1,
}
TWINS = (
    "M09-commits-alone",
    "M20-zk-any-controller-epoch",
    "M21-zk-no-bounce",
    "M22-zk-reassignment-forgotten",
    "M23-elr-kept",
    "M28-loads-one-buffer",
    "M70-keys-collide",
    "M80-share-answers-early",
)
"""Mutations that the twin of a scenario of the catalogue shows."""


def _place(name: str) -> str:
    path = BUGS / f"{name}.toml"
    return str(path) if path.exists() else name


def test_every_mutation_is_proven() -> None:
    assert sorted([*SEEDS, *TWINS]) == sorted(mutation.id for mutation in MUTATIONS)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mutation", [m for m in MUTATIONS if m.id in SEEDS], ids=lambda mutation: mutation.id
)
def test_a_mutation_is_caught(mutation: Variant) -> None:
    scenario, _ = library.scenario(_place(mutation.scenario))
    seed = SEEDS[mutation.id]
    mutated = run(scenario, seed, variants=[mutation.id])
    assert mutated.verdict == "fail"
    assert mutation.breaks in mutated.anomalies
    assert run(scenario, seed).verdict in ("pass", "expected")
