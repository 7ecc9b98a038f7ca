"""What all tests share: lanes, Hypothesis profiles, and what runs are made of.

A test is in one of three lanes. One that simulates whole scenarios, starts commands, plans queries
of Spark or otherwise takes a second is marked ``slow``; one that takes minutes, ``soak``. ``make
test`` runs all others, and a whole run of each kind: what is marked ``early``, and of each slow
test that has parameters the first.

``ci`` is the default and deterministic: the same examples on every machine, no deadline (runs are
simulated, the wall clock says nothing). ``soak`` draws new examples each time and many of them:
``HYPOTHESIS_PROFILE=soak pytest -m soak``.
"""

import gc
import os
import shlex
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from kafkasim.model import values

settings.register_profile(
    "ci",
    derandomize=True,
    deadline=None,
    database=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
settings.register_profile(
    "soak",
    deadline=None,
    max_examples=500,
    print_blob=True,
    suppress_health_check=list(HealthCheck),
)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

collect_ignore = ["example_project"]  # a project of its own: test_example_project.py runs it

WHOLE_RUNS = ("bugs", "fuzz")
"""The folders whose tests all simulate whole scenarios or start commands."""

gc.disable()  # hundreds of modules are about to be imported, and none of their objects goes


def pytest_configure(config: pytest.Config) -> None:
    """Freeze values, but where whole runs are simulated: a run takes a tenth longer with them."""
    values.FROZEN = not config.option.markexpr.startswith(("slow", "soak"))


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark whole folders as slow, and the first of each slow test that has parameters as early."""
    known: set[str] = set()
    for item in items:
        lanes = {mark.name for mark in item.iter_markers()}
        if item.path.parent.name in WHOLE_RUNS and "slow" not in lanes:
            item.add_marker("slow")
            lanes.add("slow")
        name, parameter, _ = item.nodeid.partition("[")
        if parameter and "slow" in lanes and not lanes & {"soak", "spark"} and name not in known:
            known.add(name)
            item.add_marker("early")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Let a failure end in the command that repeats it."""
    report = yield
    if report.failed:
        command = f".venv/bin/python -m pytest {shlex.quote(item.nodeid)}"
        report.sections.append(("To repeat this test", command))
    return report


def pytest_collection_finish() -> None:
    """Exempt all that was imported and collected from garbage collection, which begins now."""
    gc.freeze()
    gc.enable()
