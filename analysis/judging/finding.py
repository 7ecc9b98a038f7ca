"""A finding: one row for what a run did that a guarantee, or its scenario, forbids.

All judges return findings, a fleet stores them, and every command shows them.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, get_type_hints

MOST = 1000
"""How many occurrences of one kind at one place a run keeps; what is above is summed."""

NO_PROGRESS = "no-progress"
"""The name of a finding for what a healed cluster still lacks at the limit."""

CRASH = "crash"
"""The name of a finding for a run in which the simulator crashed."""

ANOMALIES: tuple[str, ...] = (
    "lost-write", "unseen", "duplicate", "idempotent-duplicate", "handover-redelivery",
    "inconsistent-offsets", "poll-skip", "nonmonotonic-poll", "nonmonotonic-send", "reordered-key",
    "offset-regression", "reordered-commit", "skipped-by-commit", "lost-to-retention",
    "needless-reset", "lost-deletion", "application-failed", "aborted-read",
    "precommitted-read", "torn-transaction", "hanging-transaction", "zombie-producer",
    "needless-epoch", "lost-output", "duplicate-output", "audit-missing", "audit-surplus",
    "lost-result", "duplicate-result", "accepted-again", "held-twice", "over-delivered",
    "share-skipped", "wrong-output", "wrong-state", "mirror-gap",
    "mirror-disorder", "translated-past", "needless-reread", "checkpoint-behind",
    "checkpoint-regression", "skipped-at-failover", "internal-mirrored", "task-twice",
    "tasks-uneven", "mirror-replay",
)  # fmt: skip
"""What may go wrong in delivery, by Jepsen's names and ours; a scenario may permit it."""


@dataclass(frozen=True, slots=True)
class Finding:
    """What broke a guarantee, where, and why that is expected, if it is.

    ``cause`` is why the configuration lets it happen, "" for no reason: ``unclean-election`` where
    such an election has cost the records, ``acks`` for records that were acknowledged without the
    ISR. A scenario permits some findings only where they have a cause (``verdict.py``).
    """

    name: str  # of the guarantee or anomaly: ACKED, lost-write, …
    topic_id: str  # "" for a finding that concerns no partition
    partition: int  # −1 for none
    text: str  # what disagrees, in one sentence; of several, the first
    count: int = 1  # how many records, or occurrences, it stands for
    expected_by: str = ""  # the loss or hole that covers it (last-replica-standing, …)
    offset: int = -1  # of the first record concerned; −1: of no single record
    record_id: int = -1  # of that record; −1 unknown
    group: str = ""
    seq: int = -1  # the row of the trace that showed it; −1: it shows at the end only
    t_us: int = -1  # the time of that row in µs; −1 unknown
    cause: str = ""


def grouped(findings: Iterable[Finding]) -> list[list[Finding]]:
    """Return findings by name, partition, and why they are expected, in the order of these."""
    groups: dict[tuple[str, str, int, str, str], list[Finding]] = {}
    for one in findings:
        kind = (one.name, one.topic_id, one.partition, one.expected_by, one.cause)
        groups.setdefault(kind, []).append(one)
    return [some for _, some in sorted(groups.items(), key=lambda item: item[0])]


def summed(findings: Iterable[Finding]) -> list[Finding]:
    """Return findings in the order of their kinds; the last one of many stands for all the rest."""
    kept = []
    for some in grouped(findings):
        kept += some[: MOST - 1]
        if rest := some[MOST - 1 :]:
            kept.append(replace(rest[0], count=sum(each.count for each in rest)))
    return kept


_TYPES = get_type_hints(Finding)


def is_finding(found: Any) -> bool:
    """Return whether a value of JSON has the fields of a finding, with their types."""
    return (
        isinstance(found, dict)
        and found.keys() == _TYPES.keys()
        and all(_is(found[name], of) for name, of in _TYPES.items())
    )


def _is(value: Any, of: type) -> bool:
    """Return whether a value of JSON is a text, or an integer of 64 bits."""
    if of is int:
        return type(value) is int and -(2**63) <= value < 2**63
    return isinstance(value, of)
