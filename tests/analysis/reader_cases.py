"""What moves groups past records, results outside of Kafka, the audit: for both judges.

``RESULT_EXCUSES`` and ``AUDIT_EXCUSES`` add what a legal loss explains, and what it does not.
"""

from __future__ import annotations

from dataclasses import replace

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
    tombstone,
    topic,
)
from tests.analysis.gap_cases import NEXT, of_next
from tests.scenarios.transaction_cases import COORDINATORS, OFFSETS, OUT, Losses, loss


def starts(offset: int, reason: str = "retention") -> tuple[str, facts.LogStart]:
    """The leader's log start moves."""
    return ("broker-1", facts.LogStart(T, 0, offset, reason, offset, offset))


RETENTION_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "overtaken by retention, sent to the log start": (
        [positioned(0), polled([0], [100]), starts(3), positioned(3)], {"lost-to-retention": 1}),
    "overtaken by retention, sent to the end": (
        [positioned(0, "committed"), starts(1), positioned(5, "latest")], {"lost-to-retention": 1}),
    "not overtaken: it had read what was deleted": (
        [positioned(0), polled([0, 1, 2], [100, 101, 102]), positioned(1, "seek"), starts(3),
         positioned(3)], {}),
    "not overtaken: another member got it": (
        [positioned(0), positioned(0, member="m2"), polled([0, 1], [100, 101], "m2"), starts(2),
         positioned(2)], {}),
    "not retention: an operator deleted the records": (
        [positioned(0), starts(3, "delete-records"), positioned(3)], {}),
    "not overtaken: it came from another topic of the name": (
        [topic(), *of_next(topic()), positioned(0), *of_next(positioned(0)), starts(3),
         positioned(3)], {}),
    "not overtaken: it gave the partition up before": (
        [positioned(0), positioned(0, "none"), starts(3), positioned(3)], {}),
    "not overtaken: only a marker was deleted": (
        [READ_COMMITTED, positioned(0), appended(0, 1), polled([0], [100]), *marker(1, True),
         starts(2), positioned(2)], {}),
}  # fmt: skip


APART = "billing"
"""The group of a user's application."""

NOTHING = ("world", facts.Phase("safety", ""))
READ = [positioned(0, "committed"), polled([0, 1, 2, 3, 4], [100, 101, 102, 103, 104])]  # up to 5
CUT = ((T, 0), loss(3, 9, seq=3, reason="unclean-election"))


def reads(replica: int, partition: int = 0, node: str = "consumer-1") -> tuple[str, object]:
    """A consumer fetches from a replica from now on; −1: from the leader."""
    return (node, facts.ReadReplica("g", T, partition, replica))


def follows(end: int, partition: int = 0, node: str = "broker-2") -> tuple[str, object]:
    """A broker begins to follow, with a log of this end."""
    return (node, facts.BecameFollower(T, partition, 1, 1, end))


RESET_CASES: dict[str, tuple[Case, dict[str, int], Losses]] = {
    "reset: nothing was lost": ([*READ, positioned(0)], {"needless-reset": 1}, []),
    "reset to the end": ([*READ, positioned(9, "latest")], {"needless-reset": 1}, []),
    "a truncation of which no log knows": (
        [*READ, positioned(3, "truncation")], {"needless-reset": 1}, []),
    "reset: another member had read so far": (
        [*READ, positioned(5, "committed", "m2"), positioned(0, member="m2")],
        {"needless-reset": 1}, []),
    "reset: the records were lost afterwards": (
        [*READ, positioned(0), NOTHING], {"needless-reset": 1}, [CUT]),
    "reset: records above the position were lost": (
        [*READ, positioned(3, "seek"), NOTHING, NOTHING, positioned(0)],
        {"needless-reset": 1}, [CUT]),
    "reset: another partition has lost records": (
        [*READ, NOTHING, NOTHING, positioned(0)], {"needless-reset": 1}, [((T, 1), CUT[1])]),
    "reset: the log start was as high": (
        [*READ, starts(5, "delete-records"), positioned(9, "latest")], {"needless-reset": 1}, []),
    "reset, not needless: records below the position were lost": (
        [*READ, NOTHING, NOTHING, positioned(0)], {}, [CUT]),
    "reset, not needless: the log start is above": (
        [*READ, starts(6, "delete-records"), positioned(6)], {}, []),
    "reset, not needless: a replica that it had left answered": (
        [*READ, reads(2), reads(-1), follows(4), positioned(0)], {}, []),
    "reset, not needless: the leader names the replica again, for nothing": (
        [reads(2), *READ, follows(4), reads(-1), reads(2), reads(-1), positioned(0)], {}, []),
    "reset: it still fetches from the replica": (
        [*READ, reads(-1), reads(2), follows(4), positioned(0)], {"needless-reset": 1}, []),
    "reset: the replica had its position": (
        [*READ, reads(2), reads(-1), follows(5), positioned(0)], {"needless-reset": 1}, []),
    "reset: the replica was short before it was named": (
        [*READ, follows(4), reads(2), reads(-1), positioned(0)], {"needless-reset": 1}, []),
    "reset: the replica was short afterwards": (
        [*READ, reads(2), reads(-1), positioned(0), follows(4)], {"needless-reset": 1}, []),
    "reset: another replica was short": (
        [*READ, reads(2), reads(-1), follows(4, node="broker-3"), positioned(0)],
        {"needless-reset": 1}, []),
    "reset: a replica of another partition was short": (
        [*READ, reads(2), reads(-1), follows(4, 1), positioned(0)], {"needless-reset": 1}, []),
    "reset: it read another partition from a replica": (
        [*READ, reads(2, 1), reads(-1, 1), follows(4), positioned(0)], {"needless-reset": 1}, []),
    "reset: another member read from the replica": (
        [*READ, reads(2, node="consumer-2"), reads(-1, node="consumer-2"), follows(4),
         positioned(0)], {"needless-reset": 1}, []),
    "reset: it read from the leader only": (
        [*READ, follows(4), positioned(0)], {"needless-reset": 1}, []),
    "reset, not needless: it had no position": (
        [*READ, positioned(0, "none"), positioned(0)], {}, []),
    "reset, not judged: nobody had read so far": (
        [*READ, positioned(7, "seek"), positioned(0)], {}, []),
    "reset, not judged: it came from another topic of the name": (
        [topic(), *READ, *of_next(topic(), polled([5], [205])), positioned(0)], {}, []),
    "reset, not judged: it came from another topic of the name, where it had not polled": (
        [topic(), *READ, *of_next(topic(), positioned(5, "seek")), positioned(0)], {}, []),
    "reset: in one of two topics of a name": (
        [topic(), *of_next(topic()), *READ, *of_next(*READ, positioned(0))],
        {"needless-reset": 1}, []),
    "reset: beside a topic of another name": (
        [topic(), ("controller-1", facts.TopicCreated(2, NEXT, "invoices", 1, 3, 2)), *READ,
         *of_next(polled([5], [205])), positioned(0)], {"needless-reset": 1}, []),
    "reset, not judged: the topic was deleted": (
        [*READ, ("controller-1", facts.TopicDeleted(1, T, "orders")), positioned(0)], {}, []),
    "reset, not judged: an old consumer": (
        [("consumer-1", facts.PartitionOwner("g", "m1", "orders", 0, "claimed", "m1")), *READ,
         positioned(0)], {}, []),
    "reset, not judged: a user's application may seek to an end": (
        [(node, replace(fact, group=APART)) for node, fact in [*READ, positioned(0)]], {}, []),
}  # fmt: skip
"""Resets of positions, and what the run has lost."""


def told(offset: int, error: str = "NONE") -> tuple[str, facts.CommitResult]:
    """The client tells its application what became of a commit."""
    return ("consumer-1", facts.CommitResult("g", "m1", T, 0, offset, 1, "async", error, False))


AHEAD = [topic(), *READ]
AGAIN: Case = [
    ("controller-1", facts.TopicDeleted(2, T, "orders")),
    tombstone(),
    ("controller-1", facts.TopicCreated(1, NEXT, "orders", 1, 3, 2)),
    ("consumer-1", facts.Positioned("g", "m1", NEXT, 0, 2, "earliest")),
]
"""Topic orders is deleted and created again, and the group starts at offset 2 of the new one."""


def told_again(offset: int) -> tuple[str, facts.CommitResult]:
    """What the client tells of a commit in the new topic."""
    fact = facts.CommitResult("g", "m1", NEXT, 0, offset, 1, "async", "NONE", False)
    return ("consumer-1", fact)


COMMIT_CASES: dict[str, tuple[Case, dict[str, int]]] = {
    "commits: one that failed was sent again": (
        [*AHEAD, told(3, "NOT_COORDINATOR"), committed(5), told(5), committed(3), told(3)],
        {"reordered-commit": 1, "offset-regression": 1}),
    "commits in order: forward": ([*AHEAD, committed(3), told(3), committed(5), told(5)], {}),
    "commits in order: the client had given the first one up": (
        [*AHEAD, told(3, "REQUEST_TIMED_OUT"), committed(5), told(5), committed(3)],
        {"offset-regression": 1}),
    "commits in order: one of two requests was given up": (
        [*AHEAD, committed(3), told(3), committed(5), told(5), committed(3)],
        {"offset-regression": 1}),
    "commits in order: of two members": (
        [*AHEAD, told(3), committed(5), told(5),
         ("broker-1", facts.OffsetCommitted("g", "orders", 0, 3, 1, "m2", 1))],
        {"offset-regression": 1}),
    "commits in order: the position went back": (
        [*AHEAD, committed(5), told(5), positioned(2, "seek"), committed(3), told(3)],
        {"offset-regression": 1}),
    "commits in order: the topic was created again": (
        [*AHEAD, committed(5), told(5), *AGAIN, committed(3), told_again(3)], {}),
    "commits in a topic that was created again": (
        [*AHEAD, *AGAIN, *of_next(polled([2], [202])), committed(3), told_again(3), committed(1),
         told_again(1)],
        {"reordered-commit": 1, "offset-regression": 1}),
    "commits in order: the position went back in the other topic of the name": (
        [topic(), *of_next(topic()), positioned(0),
         *of_next(positioned(5, "seek"), polled([5, 6], [205, 206])), committed(7), told_again(7),
         positioned(1), polled([1], [101]), *of_next(polled([2], [202])), committed(3),
         told_again(3)], {"offset-regression": 1}),
    "commits: behind what was left in the other topic": (
        [*AHEAD, *AGAIN, *of_next(polled([2], [202])), committed(3), told_again(3), committed(1),
         told(1)], {"reordered-commit": 1, "offset-regression": 1}),
    "commits in order: a position without a poll went back": (
        [topic(), positioned(4), committed(4), told(4), positioned(0, "committed"), committed(0),
         told(0)], {"offset-regression": 1}),
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
    "stored twice, not judged: of two topics of the name": (
        [topic(), positioned(0), *of_next(topic(), positioned(0), LED, stored(0, 0, 2))], {}),
    "stored twice, and no result: of a topic with another name": (
        [topic(), positioned(0), ("controller-1", facts.TopicCreated(2, NEXT, "invoices", 1, 3, 2)),
         *of_next(positioned(0), LED, stored(0, 0, 2))],
        {"duplicate-result": 1, "lost-result": 1}),
    "no result of a marker": (
        [topic(), READ_COMMITTED, positioned(0), appended(0, 1), *marker(1, True),
         appended(2, 3, producer=-1), final(1, 100, leading=True), stored(0, 2)], {}),
}  # fmt: skip


def published(window: int, records: int) -> tuple[str, facts.AuditPublished]:
    """An auditing group gets the event of a window, whose records have the ids 100 and 101."""
    event = facts.AuditPublished("g", "producer-1@5", "orders", window, records, 100, 101)
    return ("consumer-1", event)


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

Excused = tuple[Case, Losses, Losses]
"""A case, the losses of which each explains it, and those of which none does."""

UNCLEAN = loss(reason="unclean-election")
KNOWN = ("broker-1", facts.GroupState("g", "Empty", 1, (), "", "loaded"))  # names the group
ELSEWHERE = ((OUT, 0), loss())

RESULT_EXCUSES: dict[str, Excused] = {
    "stored twice: rests on what the group had committed, and on the record": (
        [*COORDINATORS, topic(), positioned(0), LED, stored(0, 1, 1), KNOWN],
        [(OFFSETS, loss()), ((T, 0), loss(1, 2)), ((T, 0), loss(1, 9))],
        [((T, 0), loss(0, 1)), ELSEWHERE, (OFFSETS, UNCLEAN)]),
    "no result: rests on the record, and on the markers behind it": (
        [*COORDINATORS, topic(), positioned(0), LED, stored(0, 2), KNOWN],
        [(OFFSETS, loss()), ((T, 0), loss(2, 3))],
        [((T, 0), loss(0, 1)), ELSEWHERE, ((T, 0), UNCLEAN)]),
}  # fmt: skip

AUDIT_EXCUSES: dict[str, Excused] = {
    "a window that lacks records: rests on the topic, and on what the group had committed": (
        [*COORDINATORS, topic(), published(0, 2), KNOWN],
        [(OFFSETS, loss()), ((T, 0), loss())], [ELSEWHERE, ((T, 0), UNCLEAN)]),
    "a window with too many records": (
        [*COORDINATORS, topic(), counted(0, 3), published(0, 2), KNOWN],
        [(OFFSETS, loss()), ((T, 0), loss())], [ELSEWHERE, (OFFSETS, UNCLEAN)]),
}  # fmt: skip
