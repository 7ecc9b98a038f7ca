"""What all tests share: Hypothesis profiles, and what runs are made of.

``ci`` is the default and deterministic: the same examples on every machine, no deadline (runs are
simulated, the wall clock says nothing). ``soak`` draws new examples each time and many of them:
``HYPOTHESIS_PROFILE=soak pytest -m soak``.
"""

import gc
import os

import pytest
from hypothesis import HealthCheck, settings

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


LONGEST = "test_every_command_runs"
"""A test of minutes: one that begins last keeps one core busy while the other waits."""

gc.disable()  # hundreds of modules are about to be imported, and none of their objects goes


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with the longest test; all others keep their order."""
    items.sort(key=lambda item: item.name != LONGEST)


def pytest_collection_finish() -> None:
    """Exempt all that was imported and collected from garbage collection, which begins now."""
    gc.freeze()
    gc.enable()
