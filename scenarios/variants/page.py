"""The page of the historical bugs, in Markdown (``kafkasim list --markdown``)."""

from __future__ import annotations

from collections.abc import Sequence

from kafkasim.scenarios.variants.variant import Variant


def page(variants: Sequence[Variant]) -> str:
    """Return the page that lists variants and the scripts that find them."""
    rows = [
        f"| [{variant.scenario}]({variant.scenario}.toml) | {variant.source}"
        f" | {_rules(variant)} | {variant.breaks} |"
        for variant in variants
    ]
    return "\n".join([*_HEAD, *rows])


def _rules(variant: Variant) -> str:
    """Return what each rule of the variant does, as its docstring says it."""
    return " ".join(" ".join((rules.__doc__ or "").split()) for rules in variant.rules)


_HEAD = (
    "# Historical bugs",
    "",
    "Each script follows the schedule that a bug of Kafka needed. A variant of the same name brings",
    "the old rule back:",
    "",
    "    kafkasim run NAME --variant NAME",
    "",
    "With the variant, the invariant or anomaly in the last column is the first to break. Without it",
    "the script passes. LIVE means that the run does not converge, or does not meet its `expect`",
    "table. This page is written by",
    "`kafkasim list --markdown > scenarios/catalogue/bugs/README.md`.",
    "",
    "| name | source | the old rule | breaks first |",
    "|---|---|---|---|",
)
