"""The stories of the run's own judges, as cases of the checks that find the same.

A story tells what happened before, how it goes on well, and how it goes on badly. The check must
find what the judge finds, and nothing where the judge finds nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tests.scenarios.invariant_stories.minima import STORIES as MINIMA

from kafkasim.model import facts
from tests.analysis.analysis_rows import At, Case, passing, registered
from tests.analysis.reader_cases import APART
from tests.scenarios.invariant_stories.judged import LIMITS
from tests.scenarios.test_consumer_group_judge import STORIES as CONSUMER_GROUPS
from tests.scenarios.test_harm import STORIES as HARM
from tests.scenarios.test_invariants import STORIES as INVARIANTS

Told = Mapping[str, tuple[Sequence[Any], Sequence[Any], Sequence[Any]]]


def _cases(
    stories: Told, as_case: Callable[[Sequence[Any]], Case], names: Mapping[str, str], of: str = ""
) -> dict[str, tuple[Case, dict[str, int]]]:
    """Return the stories about the invariants ``names``, which the checks call by their values.

    ``of`` tells the cases from those of other stories.
    """
    cases: dict[str, tuple[Case, dict[str, int]]] = {}
    for story, (before, good, bad) in stories.items():
        name = names.get(story.split()[0])
        if name is not None:
            cases[f"{of}{story}: good"] = as_case([*before, *good]), {}
            cases[f"{of}{story}: bad"] = as_case([*before, *bad]), {name: 1}
    return cases


SPEC = {
    "cluster": {"config": {"offsets.retention.minutes": LIMITS.retention_us // 60_000_000}},
    "workload": [
        {"kind": "consumer-group", "group": "g", "app": None},
        {"kind": "consumer-group", "group": APART, "app": "billing.py"},
    ],
}
"""The scenario of the cases: the limits that the judges of the stories have, and the groups."""

OF_GROUPS = (
    "early-handover", "stale-coordinator", "vanished-offset", "needless-eviction", "long-rebalance",
    "needless-rebalance", "stale-commit", "changed-generation",
)  # fmt: skip


def _at(story: Sequence[tuple[float, str, Any]]) -> Case:
    """Return a story that tells the time of each fact, in seconds."""
    return [(node, At(seconds, fact)) for seconds, node, fact in story]


def _to_end(story: Sequence[tuple[float, str, Any]]) -> Case:
    """Return such a story of a run that ends with its last fact, with brokers 1 and 3 alive.

    All members of an ISR are registered, and controllers of KRaft hear the others than broker 2,
    which have replayed all that the story tells.
    """
    end = story[-1][0]
    active = [node for _, node, fact in story if isinstance(fact, facts.ControllerActive)]
    heard = [
        (at, node, facts.BrokerHeartbeat(broker, 1, 6, False, False))
        for at in range(0, int(end) + 1, 5)
        for node in dict.fromkeys(active)
        for broker in (1, 3)
    ]
    others = [(0, *registered(broker)) for broker in (1, 3)]
    told = sorted([*others, *story, *heard], key=lambda each: each[0])
    return [*_at(told), ("world", At(end, facts.Phase("end", "converged")))]


def _of_registered(story: Sequence[tuple[float, str, Any]]) -> Case:
    """Return such a story of brokers that registered before it begins."""
    return [*[(node, At(0, fact)) for node, fact in map(registered, (1, 2, 3))], *_at(story)]


STEADY_CLOCKS = {name: story for name, story in HARM.items() if "clock counts" not in name}
"""The stories without those of clocks that drift: the checks do not judge these hosts by times."""

LATE_UNFENCING = {
    name: story
    for name, story in INVARIANTS.items()
    if "unfenced in controlled shutdown" in name and not name.endswith("is fenced")
}
"""The stories that tell who joins an ISR: the checks do not judge who has to leave it."""

STORY_CASES = {
    **_cases(HARM, _of_registered, {each: each for each in ("HWSTALL", "ACKLATE")}),
    **_cases(HARM, _at, {each: each for each in ("VERIFYORDER", "EPOCHREASON")}),
    **_cases(HARM, _to_end, {"DEADINISR": "DEADINISR"}),
    **_cases(STEADY_CLOCKS, _at, {each: each for each in ("SHUTDOWNENDS", "FENCEREASON")}),
    **_cases(INVARIANTS, passing, {each: each for each in ("READISR", *OF_GROUPS)}),
    **_cases(MINIMA, passing, {"MINISR": "MINISR"}),
    **_cases(LATE_UNFENCING, passing, {"ISRELIG": "ISRELIG"}),
    **_cases(
        CONSUMER_GROUPS,
        passing,
        {
            "EXCL": "double-owner",
            "needless-eviction": "needless-eviction",
            "needless-rebalance": "needless-rebalance",
        },
        "KIP-848: ",
    ),
}
