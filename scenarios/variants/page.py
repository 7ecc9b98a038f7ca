"""The page of the historical bugs, in Markdown (``kafkasim list --markdown``)."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence

from kafkasim.scenarios.variants.variant import Variant

COLUMNS = 100

WITHOUT_SCRIPT = {
    "A08": "KAFKA-19282: quotas were looked up for every client although the last one had been"
    " removed. That costs time alone; the model asks its metadata whether there are any.",
    "A12": "KAFKA-9796: a stopping broker ended its network threads before the acceptor, which"
    " waited for room in their queues. Here the threads of a process end together.",
    "A13": "KAFKA-5595: a late response went to another client whose connection had the same ports."
    " Here the number of a connection is never used again.",
    "A14": "KIP-291: requests of the controller wait behind those of clients. Up to 3.9 that is the"
    " default, without a `control.plane.listener.name`; the model has no such listener.",
    "A15": "KAFKA-15653: a callback used the buffers of another thread. The model has no buffers.",
    "B12": "KAFKA-8400: after a failed read a leader took -1 for its follower's log end. The next"
    " fetch of the follower corrects it, so a run shows no harm;"
    " `tests/model/test_replication_rules.py` holds the rule.",
    "B59": "KIP-98: without `enable.idempotence` retries repeat and reorder records. That is a"
    " setting still; `kafkasim run key-order --twin` shows it.",
    "B64": "auto-commit before the work is done: what an application does, which no release"
    " changed; `kafkasim run auto-commit-loses` shows it.",
    "B71b": "KAFKA-8069: offsets expired at a failover because of the expiry time in their value,"
    " version 1, of an `inter.broker.protocol.version` below 2.1. The model's values have none.",
}
"""Entries of KAFKA.md, 8.1 to 8.5 and 8.8, that have no variant, and why."""


def page(variants: Sequence[Variant]) -> str:
    """Return the page that lists variants and the scripts that find them."""
    entries = [line for variant in variants for line in _entry(variant)]
    without = [line for entry, why in WITHOUT_SCRIPT.items() for line in _item(f"{entry}: {why}")]
    return "\n".join([*_HEAD, *entries, "", "## Without a script", "", *without])


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
