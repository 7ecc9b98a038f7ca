"""The verdict on a run: what failed, what is expected, and the result that callers get.

A finding is a broken invariant, a delivery anomaly, an observation that is missing or must not be
there, or ``no-progress``. It is *expected* if a loss or a hole covers it, or if the scenario
permits it. One finding that is not expected makes the run fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from kafkasim.analysis.judging.delivery import CAUSED
from kafkasim.analysis.judging.finding import NO_PROGRESS, Finding
from kafkasim.analysis.judging.invariants.online import INVARIANTS

PERMITTED = "permitted"
"""``Finding.expected_by`` of what the scenario permits."""

NEVER_US = 1 << 62


class Expectations(Protocol):
    """What a scenario says of its runs (``expect`` in its file)."""

    @property
    def permits(self) -> Sequence[str]:
        """Findings that the configuration allows, in one topic only as ``finding:TOPIC``."""

    @property
    def must_see(self) -> Sequence[str]:
        """Observations that a run must show; ``no-progress``: it must stand still."""

    @property
    def in_time(self) -> Sequence[str]:
        """Observations that a run must show before the faults are healed."""

    @property
    def never(self) -> Sequence[str]:
        """Observations that no run may show."""


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What the judges found in one run."""

    findings: list[Finding]
    topics: dict[str, str]  # topic id -> name
    seen: dict[str, int]  # observation -> when it was first made, in µs
    faults_end_us: int  # when the faults were healed


@dataclass(frozen=True)
class Verdict:
    """All findings of a run, with what was expected of it and not met, and the verdict on them."""

    findings: list[Finding]

    @property
    def failed(self) -> list[str]:
        """The names of the findings of which one is not expected."""
        return sorted({each.name for each in self.findings if not each.expected_by})

    @property
    def expected(self) -> list[str]:
        """The names of the findings that are all expected."""
        return sorted({each.name for each in self.findings} - {*self.failed})

    @property
    def word(self) -> str:
        """The verdict in one word: pass, fail or expected."""
        return "fail" if self.failed else "expected" if self.findings else "pass"

    @property
    def failure(self) -> str:
        """What kind of promise was broken: safety, liveness, or "" for none."""
        if not self.failed:
            return ""
        return "liveness" if self.failed == [NO_PROGRESS] else "safety"


def judge(evidence: Evidence, expect: Expectations) -> Verdict:
    """Return the verdict on a run with this evidence."""
    found = [_permitted(each, expect.permits, evidence.topics) for each in evidence.findings]
    return Verdict([*found, *_unmet(evidence, expect)])


def _permitted(finding: Finding, permits: Sequence[str], topics: Mapping[str, str]) -> Finding:
    """Return a finding as expected, if the scenario permits it for its cause."""
    topic = topics.get(finding.topic_id, finding.topic_id)
    named = finding.name in permits or f"{finding.name}:{topic}" in permits
    caused = bool(finding.cause) or finding.name not in CAUSED
    if finding.expected_by or not (named and caused):
        return finding
    return replace(finding, expected_by=PERMITTED)


def _unmet(evidence: Evidence, expect: Expectations) -> list[Finding]:
    """Return ``missing:OBSERVATION`` and ``seen:OBSERVATION`` for what ``expect`` asks for."""
    seen, healed_us = dict(evidence.seen), evidence.faults_end_us
    if any(each.name == NO_PROGRESS for each in evidence.findings):
        seen[NO_PROGRESS] = NEVER_US  # at the end of the run
    texts: dict[str, str] = {}
    for what in expect.must_see:
        if what not in seen:
            texts[f"missing:{what}"] = f"{what} did not happen, but the scenario says that it must"
    for what in expect.in_time:
        if seen.get(what, NEVER_US) > healed_us:
            late = "in time" if what in seen else ""
            told = f"{what} did not happen {late}".rstrip()
            texts[f"missing:{what}"] = f"{told}, but the scenario says that it must"
    for what in expect.never:
        if what in seen:
            texts[f"seen:{what}"] = f"{what} happened, but the scenario says that it must not"
    return [
        Finding(name, "", -1, text, t_us=seen.get(name.partition(":")[2], -1))
        for name, text in texts.items()
    ]


@dataclass(kw_only=True)
class Result:
    """What a run showed."""

    scenario: str
    seed: int
    digest: str  # of the trace
    verdict: str  # pass, fail or expected
    failure: str  # "", safety or liveness
    anomalies: list[str]  # what failed; in an expected run, what is expected
    expected: list[str]
    events: int  # rows of the trace
    sim_seconds: float
    wall_seconds: float
    code_version: str
    config_digest: str
    variants: list[str] = field(default_factory=list)
    acted: list[str] = field(default_factory=list)  # rules whose variant decided otherwise
    missing: list[str] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    observations: dict[str, int] = field(default_factory=dict)
    remarks: list[str] = field(default_factory=list)  # no anomalies, but worth to be known
    exchanges: int = 0  # requests that were answered
    ready_us: int = 0  # when the cluster was ready, in simulated time
    topics: dict[str, str] = field(default_factory=dict)  # topic id -> name
    directory: str | None = None  # where trace and manifest lie

    def summary(self) -> dict[str, Any]:
        """Return the object that ``run --json`` prints."""
        names = ("scenario", "seed", "digest", "verdict", "failure", "anomalies", "expected",
                 "events", "sim_seconds", "wall_seconds", "code_version", "config_digest",
                 "variants", "missing", "observations", "remarks", "directory")  # fmt: skip
        return {name: getattr(self, name) for name in names}


def is_unmet(name: str) -> bool:
    """Return whether a finding is a stall, or an observation that is missing or must not be."""
    return name == NO_PROGRESS or name.startswith(("missing:", "seen:"))


def in_order(findings: Sequence[Finding]) -> dict[str, bool]:
    """Return the names of findings, and of each whether it failed: True if one is not expected.

    First come the invariants, by the row that broke each; then what else failed, then what else
    is expected, by name.
    """
    verdict = Verdict([*findings])
    broken = sorted((each for each in findings if each.name in INVARIANTS), key=lambda it: it.seq)
    names = dict.fromkeys([*(each.name for each in broken), *verdict.failed, *verdict.expected])
    return {name: name in verdict.failed for name in names}
