"""The audit over tiers: windows of hand-written rows, and a whole run whose mirror loses some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkasim.analysis.figures.audit import Count, windows
from kafkasim.scenarios.cli import invoke

ARROWS = {
    ("r", "group g"): ["cluster b"], ("r", "group h"): ["cluster a"],
    ("r", "mirror a->b"): ["cluster a"], ("r", "cluster b"): ["mirror a->b"],
    ("r", "mirror b->c"): ["cluster b"], ("r", "cluster c"): ["mirror b->c"],
    ("r", "mirror b->a"): ["cluster b"], ("r", "cluster a"): ["mirror b->a"],
}  # fmt: skip


def row(records: int, *copies: tuple[str, int], window: int = 0) -> dict[str, Any]:
    told = [{"tier": tier, "times": times} for tier, times in copies]
    of = {"run": "r", "home": "a", "topic": "orders", "window": window}
    return {**of, "copies": told, "records": records}


HOME, MIRROR, TARGET = ("cluster a", 1), ("mirror a->b", 1), ("cluster b", 1)
PRODUCER, HERE, THERE = ("producer", 1), ("group h", 1), ("group g", 1)


def test_the_tier_is_named_that_lost_a_record_or_has_it_twice() -> None:
    found = windows(
        [
            row(90, PRODUCER, HOME, MIRROR, TARGET, HERE, THERE),
            row(4, PRODUCER, HOME, HERE),  # the mirror passed them over
            row(3, PRODUCER, HOME, MIRROR, ("cluster b", 2), HERE, ("group g", 2)),
            row(2, PRODUCER, HOME, MIRROR, TARGET, HERE),  # the group did not get them
            row(1, PRODUCER),
        ],
        ARROWS,
    )
    assert [(each.place, each.number) for each in found] == [("a:orders", 0)]
    assert {tier: count for (_, tier), count in found[0].counts.items()} == {
        "producer": Count(100), "cluster a": Count(99, lost=1), "mirror a->b": Count(95, lost=4),
        "cluster b": Count(95, doubled=3), "group g": Count(93, lost=2),
        "group h": Count(99),
    }  # fmt: skip
    assert list(found[0].lines(5.0)) == [
        "cluster a lost 1 records of a:orders, 0 s to 5 s",
        "mirror a->b lost 4 records of a:orders, 0 s to 5 s",
        "cluster b doubled 3 records of a:orders, 0 s to 5 s",
        "group g lost 2 records of a:orders, 0 s to 5 s",
    ]


def test_in_a_chain_of_mirrors_each_is_compared_with_the_cluster_that_it_reads() -> None:
    further = [("mirror b->c", 1), ("cluster c", 1)]
    rows = [
        row(9, PRODUCER, HOME, MIRROR, TARGET, *further),
        row(2, PRODUCER, HOME, MIRROR, TARGET),
        row(1, PRODUCER, HOME),
    ]
    (found,) = windows(rows, ARROWS)
    assert [(tier, count.lost) for (_, tier), count in found.counts.items()] == [
        ("producer", 0), ("cluster a", 0), ("mirror a->b", 1), ("cluster b", 0),
        ("mirror b->c", 2), ("cluster c", 0),
    ]  # fmt: skip


def test_a_cluster_that_is_gone_is_no_tier_and_what_is_behind_it_is_compared_with_its_source() -> (
    None
):
    (found,) = windows([row(5, PRODUCER, MIRROR, TARGET), row(2, PRODUCER)], ARROWS)
    assert [(tier, count.lost) for (_, tier), count in found.counts.items()] == [
        ("producer", 0), ("mirror a->b", 2), ("cluster b", 0),
    ]  # fmt: skip


@pytest.mark.spark
@pytest.mark.slow
def test_what_retention_took_before_the_mirror_came_is_lost_at_the_mirror(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    place = str(tmp_path)
    removed = 'clusters.0.operations=[{kind="delete-records", topic="orders", offset=-1, at="15s"}]'
    assert invoke(["run", "mirror-audit", "--set", removed, "--out", place]) == 0
    capsys.readouterr()
    assert invoke(["audit", place]) == 10
    told = capsys.readouterr().out.splitlines()
    lost = [line for line in told if " records of a:orders, " in line]
    assert len(lost) == 1
    assert lost[0].startswith("mirror a->b lost ")
    assert lost[0].endswith(" records of a:orders, 10 s to 15 s")
    assert invoke(["audit", place, "--window", "x"]) == 2
