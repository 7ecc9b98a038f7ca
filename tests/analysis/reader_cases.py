"""What groups lose to retention, and results outside of Kafka: both judges are held to these."""

from __future__ import annotations

from kafkasim.model import facts
from tests.analysis.analysis_rows import (
    READ_COMMITTED,
    Case,
    T,
    appended,
    committed,
    final,
    marker,
    polled,
    positioned,
    processed,
    topic,
)


def starts(offset: int, reason: str = "retention") -> tuple[str, facts.LogStart]:
    """The leader's log start moves."""
    return ("broker-1", facts.LogStart(T, 0, offset, reason, offset, offset))


RETENTION_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "overtaken by retention, sent to the log start": (
        [positioned(0), polled([0], [100]), starts(3), positioned(3)], {"lost-to-retention": 1}),
    "overtaken by retention, sent to the end": (
        [positioned(0, "committed"), starts(1), positioned(5, "latest")], {"lost-to-retention": 1}),
    "not overtaken: it had read what was deleted": (
        [positioned(0), polled([0, 1, 2], [100, 101, 102]), starts(3), positioned(3)], {}),
    "not overtaken: another member got it": (
        [positioned(0), positioned(0, member="m2"), polled([0, 1], [100, 101], "m2"), starts(2),
         positioned(2)], {}),
    "not retention: an operator deleted the records": (
        [positioned(0), starts(3, "delete-records"), positioned(3)], {}),
    "not overtaken: it gave the partition up before": (
        [positioned(0), positioned(0, "none"), starts(3), positioned(3)], {}),
    "not overtaken: only a marker was deleted": (
        [READ_COMMITTED, positioned(0), appended(0, 1), polled([0], [100]), *marker(1, True),
         starts(2), positioned(2)], {}),
}  # fmt: skip


def stored(*offsets: int, node: str = "consumer-1") -> tuple[str, facts.FinalResults]:
    """Results in the database of a member of group g, when the run ends."""
    return (node, facts.FinalResults("g", T, 0, tuple(sorted(offsets))))


LED = final(1, 100, 101, 102, leading=True)

RESULT_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "one result each": ([topic(), positioned(0), LED, stored(0, 1, 2)], {}),
    "not lost: nothing behind it is done": ([topic(), positioned(0), LED, stored(0, 1)], {}),
    "not lost: the group began behind it": ([topic(), positioned(1), LED, stored(1, 2)], {}),
    "stored twice": ([topic(), positioned(0), LED, stored(0, 1, 1, 2)], {"duplicate-result": 1}),
    "stored twice, by two members": (
        [topic(), positioned(0), LED, stored(0, 1), stored(1, 2, node="consumer-2")],
        {"duplicate-result": 1}),
    "no result, and a later one": (
        [topic(), positioned(0), LED, stored(0, 2)], {"lost-result": 1}),
    "no result, and a later commit": (
        [topic(), positioned(0), processed(0, 2), committed(2), LED, stored()],
        {"lost-result": 1}),
    "no result of a marker": (
        [topic(), READ_COMMITTED, positioned(0), appended(0, 1), *marker(1, True),
         appended(2, 3, producer=-1), final(1, 100, leading=True), stored(0, 2)], {}),
}  # fmt: skip


def published(window: int, records: int) -> tuple[str, facts.AuditPublished]:
    """An auditing group gets the event of a window."""
    return ("consumer-1", facts.AuditPublished("g", "producer-1@5", "orders", window, records))


def counted(window: int, records: int) -> tuple[str, facts.AuditCounted]:
    """An auditing group gets records of a window."""
    return ("consumer-1", facts.AuditCounted("g", "producer-1@5", "orders", window, records))


AUDIT_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "windows that add up": (
        [counted(0, 3), published(0, 5), counted(0, 2), counted(1, 1), published(1, 1)], {}),
    "an event that is read twice counts once": (
        [counted(0, 3), published(0, 3), published(0, 3)], {}),
    "no event: its producer died with its counts": ([counted(0, 3)], {}),
    "a window with too few records": ([counted(0, 3), published(0, 4)], {"audit-missing": 1}),
    "a window of which nothing came": ([published(0, 4)], {"audit-missing": 1}),
    "a window with too many records": ([counted(0, 5), published(0, 4)], {"audit-surplus": 1}),
}  # fmt: skip
