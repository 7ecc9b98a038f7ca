"""The verdict on a run: what failed, what is expected, and the result that callers get.

A finding is an invariant, a delivery anomaly, an observation that is missing or must not be
there, or ``no-progress``. A finding is *expected* if all its occurrences are excused: by a loss
that the claim does not cover, or because the scenario permits the anomaly. One unexcused finding
makes the run fail.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kafkasim.analysis.judging.delivery import CAUSED
from kafkasim.analysis.judging.finding import Finding
from kafkasim.analysis.judging.invariants.online import INVARIANTS

LIVE = "LIVE"
"""What :func:`fired` calls a run that did not converge or did not meet its ``expect`` table."""

NEVER_US = 1 << 62


class Expectations(Protocol):
    """What a scenario says of its runs (``expect`` in its file)."""

    @property
    def permits(self) -> Sequence[str]:
        """Findings that the configuration allows, in one topic only as ``finding:TOPIC``."""

    @property
    def must_see(self) -> Sequence[str]:
        """Observations that a run must show."""

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
    """The findings of a run. ``word`` is pass, fail or expected."""

    failed: list[str]
    expected: list[str]

    @property
    def word(self) -> str:
        """The verdict in one word."""
        return "fail" if self.failed else "expected" if self.expected else "pass"

    @property
    def failure(self) -> str:
        """What kind of promise was broken: safety, liveness, or "" for none."""
        if not self.failed:
            return ""
        return "liveness" if self.failed == ["no-progress"] else "safety"


def judge(evidence: Evidence, expect: Expectations) -> Verdict:
    """Return the verdict on a run with this evidence."""
    excused: dict[str, bool] = {}  # finding -> whether all its occurrences are excused
    for finding in evidence.findings:
        name, ok = finding.name, _is_permitted(finding, expect.permits, evidence.topics)
        excused[name] = excused.get(name, True) and ok
    excused |= dict.fromkeys(_unmet(evidence, expect), False)
    return Verdict(
        sorted(name for name, ok in excused.items() if not ok),
        sorted(name for name, ok in excused.items() if ok),
    )


def _is_permitted(finding: Finding, permits: Sequence[str], topics: Mapping[str, str]) -> bool:
    """Return whether a loss explains a finding, or the scenario permits it for its cause."""
    topic = topics.get(finding.topic_id, finding.topic_id)
    named = finding.name in permits or f"{finding.name}:{topic}" in permits
    caused = bool(finding.cause) or finding.name not in CAUSED
    return (named and caused) or bool(finding.expected_by)


def _unmet(evidence: Evidence, expect: Expectations) -> list[str]:
    """Return ``missing:OBSERVATION`` and ``seen:OBSERVATION`` for what ``expect`` asks for."""
    seen = evidence.seen
    found = [f"missing:{name}" for name in expect.must_see if name not in seen]
    late = evidence.faults_end_us
    found += [f"missing:{name}" for name in expect.in_time if seen.get(name, NEVER_US) > late]
    found += [f"seen:{name}" for name in expect.never if name in seen]
    return found


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


def fired(result: Result) -> list[str]:
    """Return what a run broke, in the order in which it broke.

    First come the invariants by the row that broke each, with those that a loss outside the
    no-loss budget excuses, because a variant may be about just that loss. Then come the delivery
    anomalies that nothing excuses, then LIVE.
    """
    broken = [finding for finding in result.findings if finding.name in INVARIANTS]
    found = dict.fromkeys(each.name for each in sorted(broken, key=lambda each: each.seq))
    unexcused = [name for name in result.anomalies if name not in result.expected]
    stuck = [name for name in unexcused if name == "no-progress" or ":" in name]
    found |= dict.fromkeys(name for name in unexcused if name not in stuck)
    return [*found, *([LIVE] if stuck else [])]
