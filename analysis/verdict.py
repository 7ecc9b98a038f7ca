"""Judge stored runs with all checks: pass, fail or expected for each run.

The checks see only the traces. A finding is *expected* if the scenario permits the anomaly, or if
it follows from records that the run's manifest says a fault outside the no-loss budget has cost
(``losses``). While it ran, a run also judged itself with invariants that see every
host; findings of its own that no check has are added under the check ``run``, and so is a crash.
For each check the verdict gives the share of runs that violate it, with a Wilson 95 % interval.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from kafkasim.analysis.checks import CHECKS
from kafkasim.analysis.checks.liveness import left_open, waited
from kafkasim.analysis.interval import wilson
from kafkasim.analysis.runs import StoredRun
from kafkasim.analysis.spark.asking import able, filled, queries, rows
from kafkasim.analysis.words import counted

if TYPE_CHECKING:
    from rich.table import Table

    from kafkasim.analysis.stored import Stored

RUN_CHECK = "run"

UNCLEAN = "unclean-election"
"""The reason of a loss that the topic's configuration allows."""

FORGOTTEN = "forgotten-expansion"
"""The reason of a loss that follows when a leader does not wait for a member of the ISR. Until it
learns of that, its cleaner also removes records for later ones that are lost (LATEST)."""

FROM_RECORDS = ("lost-write", "unseen", "inconsistent-offsets", "nonmonotonic-send")
"""Anomalies at lost offsets that follow when the partition itself loses committed records, in a
way that Kafka allows: the records are gone, and their offsets are used for others. Nothing else is
explained by a loss: logs that disagree, two leaders in an epoch, a high watermark that moves back.
"""

FROM_ORDER = ("poll-skip", "nonmonotonic-poll")
"""Anomalies of a reader that an unclean election explains, and no other loss."""

CAUSED = (*FROM_RECORDS, *FROM_ORDER)
"""Anomalies that a scenario may permit only where the trace shows a cause: an unclean election
that cost the records, or an acknowledgement with acks=0 or 1."""

FROM_EPOCH = ("MATCH", "HWMONO")
"""Anomalies of a ZooKeeper partition whose leader lost records and went on in its old epoch."""

FROM_POSITIONS = ("duplicate", "skipped-by-commit", "offset-regression")
"""Anomalies of a group whose position was among lost records, so auto.offset.reset moved it."""

FROM_OFFSETS = (
    "duplicate", "unseen", "skipped-by-commit", "offset-regression", "double-owner",
    "early-handover", "stale-coordinator", "vanished-offset", "needless-eviction", "long-rebalance",
    "needless-rebalance", "stale-commit", "application-failed",
)  # fmt: skip
"""Anomalies that follow when the partition with a group's offsets loses data: the group starts from
an older commit or where auto.offset.reset says, and its generations start from 1 again."""


FROM_SPOTS = (
    "aborted-read", "precommitted-read", "torn-transaction", "hanging-transaction",
    "zombie-producer", "lost-output", "duplicate-output", "lost-result", "duplicate-result",
    "audit-missing", "audit-surplus", "accepted-again", "share-skipped",
)  # fmt: skip
"""Anomalies of what spans partitions: transactions, results outside of Kafka, the audit, and share
groups. They rest on records, and on what the coordinators' topics hold. The check tells on
which (``Place.spots``). A lost write may rest on what __transaction_state holds, too."""


class Loss(NamedTuple):
    """What a partition has legally lost, as the manifest tells it."""

    topic_id: str
    partition: int
    first: int  # the lowest lost offset
    end: int  # the offset after the last one
    seq: int  # the row in which a leader without these records was elected
    t_us: int  # when that was
    reason: str


class Place(NamedTuple):
    """What decides whether a loss explains a finding (``checks/base.py:about``)."""

    offset: int = -1
    shown: int = 1 << 62
    promise: int = -1
    reset: int = -1
    batch_us: int | None = None
    weak: bool = False
    excused: str = ""
    spots: Sequence[tuple[str | None, int | None, int, int, int, int, str]] = ()
    """(topic id, partition, first offset, end, after and before which rows, part of the finding)"""


NOWHERE = Place()

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
    place: Place = NOWHERE


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


RATE_COLUMNS = ("check", "runs", "violated", "rate (95 %)", "expected", "rate (95 %)")


@dataclass(frozen=True)
class Rate:
    """In how many runs a check found something: the rates, with Wilson 95 % intervals.

    A run with a violation is none of those in which all that was found is expected.
    """

    check: str
    runs: int
    violations: int
    expected: int
    rate: float  # of violations
    low: float
    high: float
    expected_rate: float
    expected_low: float
    expected_high: float

    def cells(self) -> tuple[str, ...]:
        """Return the row of a table with the columns :data:`RATE_COLUMNS`."""
        violated = f"{self.rate:.1%} ({self.low:.1%} to {self.high:.1%})"
        expected = f"{self.expected_rate:.1%}"
        expected += f" ({self.expected_low:.1%} to {self.expected_high:.1%})"
        return (self.check, str(self.runs), str(self.violations), violated,
                str(self.expected), expected)  # fmt: skip


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

        table = Table(title=counted(len(self.runs), "run"), title_justify="left")
        for place, name in enumerate(RATE_COLUMNS):
            table.add_column(name, justify="right" if place else "left")
        for rate in self.rates:
            style = "red" if rate.violations else "yellow" if rate.expected else None
            table.add_row(*rate.cells(), style=style)
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
        from kafkasim.analysis.load import in_slices

        texts = list(able(stored.has).values())
        found = [one for part in in_slices(stored, check, texts) for one in part]
    return combine(stored.runs, found, stored.bad)


def check(stored: Stored) -> list[CheckFinding]:
    """Return the findings of all checks, from one query each over the views."""
    runs = stored.runs
    manifests = {run.name: run.manifest for run in runs}
    of_places = ("losses", "stall_excuse")  # they excuse places, not whole partitions
    lossy = [run.name for run in runs if any(run.manifest.get(key) for key in of_places)]
    found: dict[tuple[Any, ...], CheckFinding] = {}
    found_rows = rows(stored.spark, queries(filled(stored.spark, able(stored.has)), lossy))
    for row in sorted(found_rows, key=lambda row: int(row["seq"])):
        manifest = manifests[row["run"]]
        topics = manifest.get("topics", {})
        short = Place(weak=row["weak"], excused=row["excused"])
        place = short if row["place"] is None else Place(*row["place"])
        raw = CheckFinding(
            row["run"], row["check"], row["anomaly"], row["topic_id"], row["partition"],
            row["count"], row["detail"], groups=tuple(row["groups"]), place=place,
        )  # fmt: skip
        named = topics.get(raw.topic, raw.topic) if raw.topic else None
        one = replace(raw, topic=named, expected=excuse(raw, manifest), place=NOWHERE)
        key = (one.run, one.check, one.topic or "", one.partition or 0, one.anomaly, one.groups,
               one.expected)  # fmt: skip
        first = found.get(key)
        found[key] = one if first is None else replace(first, count=first.count + one.count)
    return [found[key] for key in sorted(found)]


def excuse(found: CheckFinding, manifest: Mapping[str, Any]) -> str:
    """Return why a finding is expected in this run, "" if it is not. ``found.topic`` is the id.

    It is expected if the scenario permits the anomaly, if it follows from records that the
    partition lost, if a stall that has an excuse leaves its transaction open, if the check says why
    Kafka does so, or if each group concerned has a reason: its offsets partition lost records, or
    it waits before the record in such a stall.
    """
    if found.anomaly == "no-progress":
        return str(manifest.get("stall_excuse", ""))
    losses = [Loss(*row) for row in manifest.get("losses", [])]
    reasons = [loss.reason for loss in losses if _explains(loss, found)]
    topic = str(manifest.get("topics", {}).get(found.topic, found.topic))
    permits = manifest.get("permits", [])
    if found.anomaly in permits or f"{found.anomaly}:{topic}" in permits:
        if reasons or found.place.weak or found.anomaly not in CAUSED:
            return "permitted"
    legal = [each for each in reasons if each != UNCLEAN and found.anomaly not in FROM_SPOTS]
    legal += _touching([loss for loss in losses if loss.reason != UNCLEAN], found.place)
    if found.anomaly in FROM_EPOCH:
        for topic_id, partition, reason in manifest.get("reopened_partitions", []):
            if (topic_id, partition) == (found.topic, found.partition):
                return str(reason)
    if found.anomaly in FROM_OFFSETS and not legal:
        homes = {group: (id_, n) for group, id_, n in manifest.get("offsets_partitions", [])}
        lost = [_commits_lost(losses, homes.get(group), found.place) for group in found.groups]
        held = [_stalled(found, topic, manifest, group) for group in found.groups]
        kept = [one or other for one, other in zip(lost, held, strict=True)]
        legal = kept if all(kept) else []
    if found.anomaly == "hanging-transaction" and not legal and not found.place.excused:
        return _stalled(found, topic, manifest)
    return legal[0] if legal else found.place.excused


def _stalled(found: CheckFinding, topic: str, manifest: Mapping[str, Any], group: str = "") -> str:
    """Return which stall kept a group from an unseen record, or left a transaction open, or ""."""
    missing, partition = str(manifest.get("reason", "")), f"{topic}-{found.partition}"
    held = found.anomaly == "unseen" and waited(missing, group, partition, found.place.offset)
    if found.anomaly == "hanging-transaction":
        held = left_open(missing, partition, found.place.offset)
    return str(manifest.get("stall_excuse", "")) if held else ""


def _explains(loss: Loss, found: CheckFinding) -> bool:
    """Return whether a loss explains a finding. Nothing is explained by what came later."""
    place = found.place
    if (loss.topic_id, loss.partition) != (found.topic, found.partition):
        return False
    if found.anomaly == "ACKED":
        return loss.seq == place.shown
    if found.anomaly == "LATEST":
        return loss.reason == FORGOTTEN and loss.seq < place.shown
    if found.anomaly in FROM_RECORDS:
        begun = place.batch_us is None or place.batch_us < loss.t_us
        return begun and _covers(loss, place.offset) and loss.seq < place.shown
    if found.anomaly in FROM_POSITIONS and found.groups:
        return loss.seq < place.reset and loss.seq < place.shown
    return found.anomaly in FROM_ORDER and loss.reason == UNCLEAN and loss.seq < place.shown


def _touching(losses: Sequence[Loss], place: Place) -> list[str]:
    """Return a reason for each part of a finding, none if one part rests on nothing lost."""
    found = {spot[-1]: "" for spot in place.spots}
    for topic_id, partition, first, end, after, before, part in place.spots:
        known = found[part]
        for loss in losses:
            if known or (loss.topic_id, loss.partition) != (topic_id, partition):
                continue
            if loss.first < end and first < loss.end and after < loss.seq < before:
                known = found[part] = loss.reason
    return list(found.values()) if all(found.values()) else []


def _covers(loss: Loss, offset: int) -> bool:
    return offset < 0 or loss.first <= offset < loss.end


def _commits_lost(losses: Sequence[Loss], partition: Any, place: Place) -> str:
    """Return why records of a group's offsets partition were lost meanwhile, or ""."""
    for loss in losses:
        if (loss.topic_id, loss.partition) == partition and loss.reason != UNCLEAN:
            if place.promise < loss.seq < place.shown:
                return loss.reason
    return ""


def combine(
    runs: Sequence[StoredRun], found: Sequence[CheckFinding], bad: Sequence[str] = ()
) -> Verdicts:
    """Return the verdicts of runs from what the checks found and what the manifests say."""

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
    rates = [(len(hits) / runs if runs else 0.0, *wilson(len(hits), runs))
             for hits in (violated, excused)]  # fmt: skip
    return Rate(name, runs, len(violated), len(excused), *rates[0], *rates[1])
