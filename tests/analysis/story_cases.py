"""The stories of the run's own judges, as cases of the checks that find the same.

A story tells what happened before, how it goes on well, and how it goes on badly. The check must
find what the judge finds, and nothing where the judge finds nothing.
"""

from __future__ import annotations

from tests.analysis.analysis_rows import Case, passing, timed
from tests.scenarios.test_consumer_group_judge import STORIES as CONSUMER_GROUPS
from tests.scenarios.test_harm import STORIES as HARM

CHECKED = {"EXCL": "double-owner"}
"""What the judges of the run and the checks name differently, where stories are told to both."""


def _of_harm() -> dict[str, tuple[Case, dict[str, int]]]:
    cases: dict[str, tuple[Case, dict[str, int]]] = {}
    for story, (before, good, bad) in HARM.items():
        name = story.split()[0]
        if name in CHECKED:
            cases[f"{story}: good"] = timed([*before, *good]), {}
            cases[f"{story}: bad"] = timed([*before, *bad]), {CHECKED[name]: 1}
    return cases


def _of_consumer_groups() -> dict[str, tuple[Case, dict[str, int]]]:
    cases: dict[str, tuple[Case, dict[str, int]]] = {}
    for story, (before, good, bad) in CONSUMER_GROUPS.items():
        name = story.split()[0]
        if name in CHECKED:
            cases[f"KIP-848, {story}: good"] = passing([*before, *good]), {}
            cases[f"KIP-848, {story}: bad"] = passing([*before, *bad]), {CHECKED[name]: 1}
    return cases


STORY_CASES = {**_of_harm(), **_of_consumer_groups()}
