"""How a run is shown: one line when it is as expected, one screen when it is not.

class → anomaly → records, offsets, epochs, brokers → short causal story → one copyable command →
where the trace lies.
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from scenarios.runner import Result

MOST = 6


def command(
    result: Result, name: str, settings: Sequence[str], variants: Sequence[str], twin: bool = False
) -> str:
    """Return the command that replays a run."""
    parts = ["kafkasim", "run", name, "--seed", str(result.seed)]
    for setting in settings:
        parts += ["--set", setting]
    for variant in variants:
        parts += ["--variant", variant]
    if twin:
        parts.append("--twin")
    return shlex.join(parts)


def headline(result: Result) -> str:
    """Return the line that every run prints."""
    found = f"({', '.join(result.anomalies)})" if result.anomalies else ""
    return (
        f"{result.verdict}{found}  {result.scenario}  seed {result.seed}  "
        f"{result.sim_seconds:.1f} s simulated in {result.wall_seconds:.2f} s  "
        f"{result.events} events  digest {result.digest[:16]}  code {result.code_version[:12]}  "
        f"config {result.config_digest}"
    )


def screen(result: Result, replay: str) -> str:
    """Return the one-screen report of a run that did not go as expected."""
    lines = [f"{result.failure or result.verdict}: {', '.join(result.anomalies) or 'nothing'}"]
    topics = result.topics
    for violation in result.violations[:MOST]:
        place = f"{topics.get(violation.topic_id, violation.topic_id)}-{violation.partition}"
        excuse = f" [expected: {violation.expected}]" if violation.expected else ""
        when = (violation.t_us - result.ready_us) / 1e6
        lines.append(
            f"  {violation.invariant} {place} at t={when:.3f} s (row {violation.seq}):"
            f" {violation.message}{excuse}"
        )
    more = len(result.violations) - MOST
    if more > 0:
        lines.append(f"  … and {more} more violations")
    for anomaly in result.delivery[:MOST]:
        place = f"{topics.get(anomaly.topic_id, anomaly.topic_id)}-{anomaly.partition}"
        lines.append(f"  {anomaly.name} {place}: {anomaly.count}, the first: {anomaly.detail}")
    lines += [f"  no progress: {text}" for text in result.missing[:MOST]]
    for name in result.anomalies:
        if name.startswith("missing:"):
            lines.append(f"  {name.removeprefix('missing:')} was not seen")
        if name.startswith("seen:"):
            lines.append(f"  {name.removeprefix('seen:')} was seen and must not be")
    seen = sorted(result.observations.items(), key=lambda item: item[1])
    story = [f"{(at - result.ready_us) / 1e6:+.2f}s {name}" for name, at in seen if ":" in name
             or not any(other.startswith(f"{name}:") for other, _ in seen)]  # fmt: skip
    if story:
        lines.append(f"  story: {', '.join(story)}")
    lines.append(f"  replay: {replay}")
    if result.directory is not None:
        lines.append(f"  trace:  {result.directory}/trace.parquet")
    return "\n".join(lines)
