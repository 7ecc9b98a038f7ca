"""A scenario as a run's manifest stores it, with all defaults, is read back as the same one."""

from __future__ import annotations

import pytest

from kafkasim.scenarios.language.library import names, scenario, scripts
from kafkasim.scenarios.language.spec import parse


@pytest.mark.parametrize("name", [*names(), *scripts()])
def test_a_stored_scenario_is_the_one_that_ran(name: str) -> None:
    ran, _ = scenario(name)
    assert parse(ran.model_dump(mode="json", by_alias=True), "manifest") == ran
