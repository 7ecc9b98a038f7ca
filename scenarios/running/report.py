"""How a run is shown: one line if it went as expected, one screen if it did not.

The screen has, from top to bottom: the class of failure and the anomalies, the findings (records,
offsets, epochs, brokers), a short story of the run, the command that replays it, and the path of
its trace.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from kafkasim.analysis.judging.finding import grouped
from kafkasim.analysis.judging.invariants.online import INVARIANTS
from kafkasim.analysis.judging.verdict import Result, is_unmet
from kafkasim.scenarios.language.files.rules import shown

MOST = 6
"""Findings of one kind that are shown; more are counted."""

NOT_KEPT = "  trace:  not kept; add --out DIR"


def command(
    seed: int,
    name: str,
    settings: Sequence[str] = (),
    variants: Sequence[str] = (),
    twin: bool = False,
    out: Path | None = None,
) -> str:
    """Return the command that runs one seed again; it can be pasted into a shell."""
    parts = ["kafkasim", "run", name, "--seed", str(seed)]
    for setting in settings:
        parts += ["--set", setting]
    for variant in variants:
        parts += ["--variant", shown(variant)]
    if twin:
        parts += ["--twin", "--runs", "1"]
    if out is not None:
        parts += ["--out", str(out)]
    return shlex.join(parts)


def headline(result: Result) -> str:
    """Return the line that is printed for every run."""
    found = f"({', '.join(result.anomalies)})" if result.anomalies else ""
    return (
        f"{result.verdict}{found}  {result.scenario}  seed {result.seed}  "
        f"{result.sim_seconds:.1f} s simulated in {result.wall_seconds:.2f} s  "
        f"{result.events} events  digest {result.digest[:16]}  code {result.code_version[:12]}  "
        f"config {result.config_digest}"
    )


def remarks(result: Result) -> list[str]:
    """Return the lines that stand below the headline, whatever the verdict is."""
    notes = list(result.remarks)
    if result.variants and not result.acted:
        notes.append("no decision differs from Kafka's: this run says nothing about the variant")
    return [f"  note: {text}" for text in notes]


def screen(result: Result, replay: str, story: Sequence[str] = ()) -> str:
    """Return the one-screen report of a run that did not go as expected.

    ``story`` are the lines that tell what happened; without them the run's observations are listed.
    """
    kind = f"{result.failure} failure" if result.failure else result.verdict
    lines = [f"{kind}: {', '.join(result.anomalies) or 'nothing'}", *findings(result)]
    if story:
        lines += ["  story:", *(f"    {line}" for line in story)]
    else:
        lines += _observed(result)
    lines.append(f"  replay: {replay}")
    if result.directory is not None:
        lines.append(f"  trace:  {result.directory}/trace.parquet")
    else:
        lines.append(NOT_KEPT)
    return "\n".join(lines)


def findings(result: Result) -> list[str]:
    """Return what was found in a run, a line each: where, when, how many, and the first of them."""
    lines = _violations(result)
    others = [each for each in result.findings if each.name not in INVARIANTS]
    unmet = [each for each in others if is_unmet(each.name)]
    others = [each for each in others if not is_unmet(each.name)]
    for some in [*grouped(others)[:MOST], *[[each] for each in unmet[:MOST]]]:
        found, times_found = some[0], sum(each.count for each in some)
        place = f"{result.topics.get(found.topic_id, found.topic_id)}-{found.partition}"
        excuse = f" [expected: {found.expected_by}]" if found.expected_by else ""
        if found.partition < 0:
            times = f" ({times_found} times)" if times_found > 1 else ""
            lines.append(f"  {found.name}: {found.text}{times}{excuse}")
            continue
        count = f"{times_found} record{'s' * (times_found != 1)}"
        lines.append(f"  {found.name} in {place}: {count}, first: {found.text}{excuse}")
    return lines


def _violations(result: Result) -> list[str]:
    """Return the first violations of each invariant: where, when, what disagrees."""
    lines: list[str] = []
    broken = [each for each in result.findings if each.name in INVARIANTS]
    counts = Counter(each.name for each in broken)
    each = max(1, MOST // max(1, len(counts)))
    shown: Counter[str] = Counter()
    for found in broken:
        shown[found.name] += 1
        if shown[found.name] > each:
            continue
        topic = result.topics.get(found.topic_id, found.topic_id)
        place = f" in {topic}-{found.partition}" if found.partition >= 0 else ""
        excuse = f" [expected: {found.expected_by}]" if found.expected_by else ""
        when = (found.t_us - result.ready_us) / 1e6
        lines.append(
            f"  {found.name} violated{place} at {when:+.3f}s (row {found.seq}):"
            f" {found.text}{excuse}"
        )
    more = {name: count - each for name, count in counts.items() if count > each}
    if more:
        lines.append(f"  … and {', '.join(f'{count} more {name}' for name, count in more.items())}")
    return lines


def _observed(result: Result) -> list[str]:
    seen = sorted(result.observations.items(), key=lambda item: item[1])
    story = [
        f"{(at - result.ready_us) / 1e6:+.2f}s {name}"
        for name, at in seen
        if ":" in name or not any(other.startswith(f"{name}:") for other, _ in seen)
    ]
    return [f"  story: {', '.join(story)}"] if story else []
