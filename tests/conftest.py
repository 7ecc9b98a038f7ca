"""What all tests share: Hypothesis profiles, and what runs are made of.

``ci`` is the default and deterministic: the same examples on every machine, no deadline (runs are
simulated, the wall clock says nothing). ``soak`` draws new examples each time and many of them:
``HYPOTHESIS_PROFILE=soak pytest -m soak``.
"""

import os

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
