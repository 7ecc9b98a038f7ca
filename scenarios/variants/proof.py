"""Does a script find its bug? What fired in a run, in order, and what the catalogue says of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafkasim.scenarios.variants import Variant

if TYPE_CHECKING:
    from kafkasim.scenarios.running.runner import Result

LIVE = "LIVE"


def fired(result: Result) -> list[str]:
    """Return what a run broke, first things first.

    First the invariants by the row that broke each, those too that a loss outside the no-loss
    budget excuses (a variant may be about just that loss); then the delivery anomalies that nothing
    excuses; then LIVE, where a run did not converge or not show what it must.
    """
    rows = sorted(result.violations, key=lambda violation: violation.seq)
    found = dict.fromkeys(violation.invariant for violation in rows)
    unexcused = [name for name in result.anomalies if name not in result.expected]
    stuck = [name for name in unexcused if name == "no-progress" or ":" in name]
    found |= dict.fromkeys(name for name in unexcused if name not in stuck)
    return [*found, *([LIVE] if stuck else [])]


def page(variants: Sequence[Variant]) -> str:
    """Return the page of the historical bugs, in Markdown."""
    rows = [
        f"| {variant.id} | {variant.source} | {_rules(variant)} | {variant.breaks}"
        f" | [{variant.scenario}]({variant.scenario}.toml)"
        f" | `kafkasim run {variant.scenario} --variant {variant.id}` |"
        for variant in variants
    ]
    return "\n".join([*_HEAD, *rows])


def _rules(variant: Variant) -> str:
    return " ".join(" ".join((rules.__doc__ or "").split()) for rules in variant.rules)


_HEAD = (
    "# Historical bugs",
    "",
    "Each script follows the schedule that a bug of Kafka needed. With the variant, which brings the",
    "old rule back, the named invariant is the first to break; without it the same script passes.",
    "LIVE is a run that does not converge, or does not show what it must. Written by",
    "`kafkasim list --markdown > scenarios/catalogue/bugs/README.md`.",
    "",
    "| variant | source | the old rule | breaks first | script | command |",
    "|---|---|---|---|---|---|",
)
