"""Drawn clusters with two log directories a broker."""

from __future__ import annotations

import copy
import random

import pytest

from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.searching.draw import draw
from kafkasim.scenarios.searching.draw_faults import LOG_DIRS, two_directories


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_what_is_drawn_is_a_scenario(seed: int) -> None:
    data = draw(seed)
    data["expect"].pop("never", None)
    data.pop("operations", None)
    two_directories(random.Random(seed), data, 1.0)
    scenario = parse(data, "drawn")
    assert scenario.cluster.config["log.dirs"] == LOG_DIRS
    assert any(fault.dir in LOG_DIRS for fault in scenario.faults)


def test_a_claim_that_forbids_something_is_left_alone() -> None:
    data = draw(0)
    data["expect"]["never"] = ["fenced"]
    before = copy.deepcopy(data)
    two_directories(random.Random(0), data, 1.0)
    assert data == before


@pytest.mark.parametrize(("mode", "kind", "left"), [
    ("zookeeper", "reassign", True), ("kraft", "reassign", False), ("kraft", "replace-disk", True),
])  # fmt: skip
def test_operations_that_need_all_directories_are_left_alone(
    mode: str, kind: str, left: bool
) -> None:
    data = draw(0)
    data["expect"].pop("never", None)
    data["cluster"]["mode"] = mode
    data["operations"] = [{"kind": kind, "at": "1s"}]
    before = copy.deepcopy(data)
    two_directories(random.Random(0), data, 1.0)
    assert (data == before) is left
