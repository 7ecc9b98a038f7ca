"""The page of the historical bugs, in Markdown (``kafkasim list --markdown``)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from kafkasim.scenarios.variants.variant import Variant

COLUMNS = 100


def page(variants: Sequence[Variant]) -> str:
    """Return the page that lists variants and the scripts that find them."""
    return "\n".join([*_HEAD, *[line for variant in variants for line in _entry(variant)]])


def _entry(variant: Variant) -> list[str]:
    rules = " ".join(" ".join((rules.__doc__ or "").split()) for rules in variant.rules)
    return [
        "",
        f"## {variant.id}",
        "",
        f"[Script]({variant.scenario}.toml) · {variant.source} · breaks {variant.breaks}",
        "",
        *_item(f"Old rule: {rules}"),
        *_item(f"Kafka's rule: {variant.claim}"),
    ]


def _item(text: str) -> list[str]:
    return textwrap.wrap(text, COLUMNS, initial_indent="- ", subsequent_indent="  ")


_HEAD = (
    "# Historical bugs",
    "",
    "Each script follows the schedule that a bug of Kafka needed. A variant of the same name",
    "brings the old rule back:",
    "",
    "    kafkasim run NAME --variant NAME",
    "",
    "With the variant, the invariant or anomaly named after *breaks* is the first to break;",
    "without it the script passes. LIVE means that the run does not converge, or does not meet",
    "its `expect` table. This page is written by",
    "`kafkasim list --markdown > scenarios/catalogue/bugs/README.md`.",
)
