"""The audit over tiers: windows of hand-written rows, and a whole run whose mirror loses some."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafkasim.analysis.figures.audit import Count, windows
from kafkasim.scenarios.cli import invoke

READ = {("r", "group g"): ["cluster b"], ("r", "group h"): ["cluster a"]}


def row(records: int, *copies: tuple[int, str, int], window: int = 0) -> dict[str, Any]:
    told = [{"rank": rank, "tier": tier, "times": times} for rank, tier, times in copies]
    of = {"run": "r", "home": "a", "topic": "orders", "window": window}
    return {**of, "copies": told, "records": records}


def test_the_tier_is_named_that_lost_a_record_or_has_it_twice() -> None:
    home, mirror, target = (1, "cluster a", 1), (2, "mirror-1", 1), (3, "cluster b", 1)
    producer, here, there = (0, "producer", 1), (4, "group h", 1), (4, "group g", 1)
    found = windows(
        [
            row(90, producer, home, mirror, target, here, there),
            row(4, producer, home, here),  # the mirror passed them over
            row(3, producer, home, mirror, (3, "cluster b", 2), here, (4, "group g", 2)),
            row(2, producer, home, mirror, target, here),  # the group did not get them
            row(1, producer),
        ],
        READ,
    )
    assert [(each.place, each.number) for each in found] == [("a:orders", 0)]
    assert {tier: count for (_, tier), count in found[0].counts.items()} == {
        "producer": Count(100), "cluster a": Count(99, lost=1), "mirror-1": Count(95, lost=4),
        "cluster b": Count(95, doubled=3), "group g": Count(93, lost=2),
        "group h": Count(99),
    }  # fmt: skip
    assert list(found[0].lines(5.0)) == [
        "cluster a lost 1 records of a:orders, 0 s to 5 s",
        "mirror-1 lost 4 records of a:orders, 0 s to 5 s",
        "cluster b doubled 3 records of a:orders, 0 s to 5 s",
        "group g lost 2 records of a:orders, 0 s to 5 s",
    ]


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
    assert lost[0].startswith("mirror-1 lost ")
    assert lost[0].endswith(" records of a:orders, 10 s to 15 s")
    assert invoke(["audit", place, "--window", "x"]) == 2
