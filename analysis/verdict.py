"""Judge stored runs with all checks: pass, fail or expected for each run.

The checks see only the traces. A finding is *expected* if the scenario permits the anomaly, or if
the run's manifest says that the partition lost records to a fault outside the no-loss budget
(``excused_partitions``). While it ran, a run also judged itself with invariants that see every
host; findings of its own that no check has are added under the check ``run``, and so is a crash.
For each check the verdict gives the share of runs that violate it, with a Wilson 95 % interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any

from kafkasim.analysis.interval import wilson
from kafkasim.analysis.runs import StoredRun

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.table import Table

    from kafkasim.analysis.stored import Stored

RUN_CHECK = "run"

FROM_RECORDS = ("ACKED", "lost-write", "unseen", "inconsistent-offsets", "nonmonotonic-send")
"""Anomalies that follow when the partition itself loses committed records, in a way that Kafka
allows: the records are gone, and their offsets are used for others. Nothing else is explained by a
loss: logs that disagree, two leaders in an epoch, a high watermark that moves back."""

FROM_EPOCH = ("MATCH", "HWMONO")
"""Anomalies of a ZooKeeper partition whose leader lost records and went on in its old epoch."""

FROM_POSITIONS = ("duplicate", "skipped-by-commit")
"""Anomalies of a group whose position was among lost records: auto.offset.reset moves it."""

FROM_OFFSETS = ("duplicate", "unseen", "skipped-by-commit", "offset-regression", "double-owner")
"""Anomalies that follow when the partition with a group's offsets loses data: the group starts from
an older commit or where auto.offset.reset says, and its generations start from 1 again."""

EXIT_CODES = {"pass": 0, "expected": 0, "crash": 1, "safety": 10, "liveness": 11}


@dataclass(frozen=True)
class CheckFinding:
    """An anomaly in one partition of a run; ``expected`` says why it is excused, "" if not."""

    run: str
    check: str
    anomaly: str
    topic: str | None
    partition: int | None
    count: int
    detail: str
    expected: str = ""
    groups: tuple[str, ...] = ()  # the consumer groups concerned


@dataclass(frozen=True)
class RunVerdict:
    """The verdict of one run: pass | fail | expected | crash; ``failure`` names the class."""

    run: str
    scenario: str
    seed: int
    verdict: str
    failure: str
    anomalies: list[str]
    expected: list[str]
    digest: str


@dataclass(frozen=True)
class Rate:
    """How often a check failed: its rate over runs, with a Wilson 95 % interval."""

    check: str
    runs: int
    violations: int
    expected: int
    rate: float
    low: float
    high: float


@dataclass
class Verdicts:
    """The verdicts on all runs, the rates of all checks, and every finding."""

    runs: list[RunVerdict]
    rates: list[Rate]
    found: list[CheckFinding]
    skipped: list[str] = field(default_factory=list)

    @property
    def exit_code(self) -> int:
        """0 as expected, 1 a crash, 10 safety, 11 liveness; the most severe of them counts."""
        failures = {run.failure for run in self.runs if run.failure}
        for name in ("crash", "safety", "liveness"):
            if name in failures:
                return EXIT_CODES[name]
        return 0

    def to_json(self) -> dict[str, Any]:
        """Return everything as JSON values."""
        return {**asdict(self), "exit_code": self.exit_code}

    def table(self) -> Table:
        """Return the checks and their rates as a table for the terminal."""
        from rich.table import Table

        table = Table(title=f"{len(self.runs)} runs", title_justify="left")
        table.add_column("check")
        for name in ("runs", "violated", "expected", "rate", "95 % interval"):
            table.add_column(name, justify="right")
        for rate in self.rates:
            style = "red" if rate.violations else "yellow" if rate.expected else None
            table.add_row(
                rate.check, str(rate.runs), str(rate.violations), str(rate.expected),
                f"{rate.rate:.1%}", f"{rate.low:.1%} – {rate.high:.1%}", style=style,
            )  # fmt: skip
        return table

    def runs_table(self, most: int = 20) -> Table:
        """Return the runs that did not pass, the failed ones first, as a table for the terminal."""
        from rich.table import Table

        table = Table(title="runs that did not pass", title_justify="left")
        for name in ("run", "verdict", "anomalies", "the first"):
            table.add_column(name)
        first: dict[str, CheckFinding] = {}
        for one in self.found:
            if one.run not in first or (first[one.run].expected and not one.expected):
                first[one.run] = one
        odd = [run for run in self.runs if run.verdict != "pass"]
        for run in sorted(odd, key=lambda run: (run.verdict == "expected", run.run))[:most]:
            story = describe(first[run.run]) if run.run in first else ""
            style = None if run.verdict == "expected" else "red"
            names = ", ".join(run.anomalies or run.expected)
            table.add_row(run.run, run.verdict, names, story, style=style)
        if len(odd) > most:
            table.caption = f"… and {len(odd) - most} more"
        return table


def describe(found: CheckFinding) -> str:
    """Return a finding as one line."""
    where = "" if found.topic is None else f" {found.topic}-{found.partition}"
    times = f" ({found.count} times)" if found.count > 1 else ""
    excuse = f" [expected: {found.expected}]" if found.expected else ""
    return f"{found.anomaly}{where}: {found.detail}{times}{excuse}"


def judge(stored: Stored) -> Verdicts:
    """Judge stored runs."""
    found: list[CheckFinding] = []
    if any(not run.crashed for run in stored.runs):
        from kafkasim.analysis.load import views

        with views(stored):
            found = check(stored.spark, stored.runs)
    return combine(stored.runs, found, stored.bad)


def check(spark: SparkSession, runs: Sequence[StoredRun]) -> list[CheckFinding]:
    """Return the findings of all checks in ``runs``, from one query over the views."""
    manifests = {run.name: run.manifest for run in runs}
    found = []
    for row in spark.sql(query()).collect():
        manifest = manifests[row["run"]]
        topics = manifest.get("topics", {})
        raw = CheckFinding(
            row["run"], row["check"], row["anomaly"], row["topic_id"], row["partition"],
            row["count"], row["detail"], groups=tuple(row["groups"]),
        )  # fmt: skip
        named = topics.get(raw.topic, raw.topic) if raw.topic else None
        found.append(replace(raw, topic=named, expected=excuse(raw, manifest)))
    return sorted(
        found, key=lambda f: (f.run, f.check, f.topic or "", f.partition or 0, f.anomaly, f.groups)
    )


def query() -> str:
    """Return all checks as one query: a row per run, check, anomaly, partition and groups."""
    from kafkasim.analysis.checks import CHECKS

    each = [f"SELECT '{name}' AS check, * FROM ({text})" for name, text in CHECKS.items()]
    return f"""
        SELECT run, check, anomaly, topic_id, partition, groups, count(1) AS count,
               min_by(detail, seq) AS detail
        FROM ({" UNION ALL ".join(each)})
        GROUP BY run, check, anomaly, topic_id, partition, groups"""


def excuse(found: CheckFinding, manifest: Mapping[str, Any]) -> str:
    """Return why a finding is expected in this run, "" if it is not. ``found.topic`` is the id.

    It is expected if the scenario permits the anomaly, if it follows from records that the
    partition lost, or from those that the offsets partitions of all groups concerned lost.
    """
    topic = manifest.get("topics", {}).get(found.topic, found.topic)
    permits = manifest.get("permits", [])
    if found.anomaly in permits or f"{found.anomaly}:{topic}" in permits:
        return "permitted"
    if found.anomaly == "no-progress":
        return str(_either(manifest, "stall_excuse", "hopeless", ""))
    if found.anomaly in FROM_RECORDS or (found.anomaly in FROM_POSITIONS and found.groups):
        for topic_id, partition, reason in _either(manifest, "excused_partitions", "forgiven", []):
            if (topic_id, partition) == (found.topic, found.partition):
                return str(reason)
    if found.anomaly in FROM_EPOCH:
        for topic_id, partition, reason in manifest.get("reopened_partitions", []):
            if (topic_id, partition) == (found.topic, found.partition):
                return str(reason)
    if found.anomaly in FROM_OFFSETS and found.groups:
        lost = _either(manifest, "excused_groups", "forgiven_groups", {})
        if all(group in lost for group in found.groups):
            return str(lost[found.groups[0]])
    return ""


def _either(manifest: Mapping[str, Any], key: str, earlier: str, default: Any) -> Any:
    """Return a key of the manifest, or what runs stored before it was renamed have there."""
    return manifest.get(key, manifest.get(earlier, default))


def combine(
    runs: Sequence[StoredRun], found: Sequence[CheckFinding], bad: Sequence[str] = ()
) -> Verdicts:
    """Return the verdicts of runs from what the checks found and what the manifests say."""
    from kafkasim.analysis.checks import CHECKS

    by_run: dict[str, list[CheckFinding]] = {run.name: [] for run in runs}
    for one in found:
        by_run[one.run].append(one)
    for run in runs:
        by_run[run.name] += _own(run, by_run[run.name])
    every = [one for run in runs for one in by_run[run.name]]
    whole = sum(not run.crashed for run in runs)
    rates = [_rate(name, every, whole) for name in CHECKS]
    rates.append(_rate(RUN_CHECK, every, len(runs)))
    return Verdicts([_verdict(run, by_run[run.name]) for run in runs], rates, every, list(bad))


def _own(run: StoredRun, found: Sequence[CheckFinding]) -> list[CheckFinding]:
    """Return what the run found about itself and no check has found."""
    manifest = run.manifest
    if run.crashed:
        reason = str(manifest.get("reason", ""))
        return [CheckFinding(run.name, RUN_CHECK, "crash", None, None, 1, reason)]
    expected = manifest.get("expected", [])
    known = {one.anomaly for one in found}
    return [
        CheckFinding(run.name, RUN_CHECK, name, None, None, 1, "found by the run itself",
              "expected by the run itself" if name in expected else "")
        for name in sorted({*manifest.get("anomalies", []), *expected})
        if name not in known
    ]  # fmt: skip


def _verdict(run: StoredRun, found: Sequence[CheckFinding]) -> RunVerdict:
    failed = sorted({one.anomaly for one in found if not one.expected})
    excused = sorted({one.anomaly for one in found if one.expected} - set(failed))
    verdict = "fail" if failed else "expected" if excused else "pass"
    failure = "" if not failed else "liveness" if failed == ["no-progress"] else "safety"
    if run.crashed:
        verdict = failure = "crash"
    manifest = run.manifest
    return RunVerdict(
        run.name, str(manifest["scenario"]), int(manifest["seed"]), verdict, failure,
        failed, excused, str(manifest["digest"]),
    )  # fmt: skip


def _rate(name: str, found: Sequence[CheckFinding], runs: int) -> Rate:
    violated = {one.run for one in found if one.check == name and not one.expected}
    excused = {one.run for one in found if one.check == name} - violated
    low, high = wilson(len(violated), runs)
    rate = len(violated) / runs if runs else 0.0
    return Rate(name, runs, len(violated), len(excused), rate, low, high)
