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
    acked,
    appended,
    committed,
    final,
    led,
    marker,
    polled,
    positioned,
    processed,
    tombstone,
    topic,
)
from tests.analysis.gap_cases import NEXT, of_next
from tests.scenarios.transaction_cases import COORDINATORS, OFFSETS, OUT, Losses, loss
from tests.scenarios.transaction_cases import appended as written


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

Excused = tuple[Case, dict[str, int], Losses, Losses]
"""A case, what it shows, the losses of which each explains it, and those of which none does."""

UNCLEAN = loss(reason="unclean-election")
KNOWN = ("broker-1", facts.GroupState("g", "Empty", 1, (), "", "loaded"))  # names the group
TWICE = [positioned(0), polled([0, 1], [100, 101])]  # rows 3 and 4

# Rows 3 to 10: a transaction is aborted, its marker is lost, and it is committed.
HIDDEN = [*COORDINATORS, topic(), READ_COMMITTED, positioned(0), appended(0, 2), *marker(2, False),
          led(2, 2, 2), *marker(2, True, epoch=2)]  # fmt: skip

RESULT_EXCUSES: dict[str, Excused] = {
    "stored twice: it was delivered twice": (
        [*COORDINATORS, topic(), *TWICE, positioned(0, "committed"), polled([0, 1], [100, 101]),
         LED, stored(0, 0, 1), KNOWN],
        {"duplicate-result": 1, "duplicate": 1},
        [(OFFSETS, loss(seq=5)), ((T, 0), loss(0, 1, seq=5))],
        [(OFFSETS, loss(seq=7)), ((T, 0), loss(0, 1, seq=3)), ((T, 0), loss(0, 1, seq=7)),
         ((T, 0), loss(1, 2, seq=5)), ((OUT, 0), loss(seq=5)), (OFFSETS, UNCLEAN)]),
    "stored twice: a reset led back to it": (
        [*COORDINATORS, topic(), *TWICE, positioned(0, "earliest", "m2"),
         polled([0, 1], [100, 101], "m2"), LED, stored(0, 0, 1), KNOWN],
        {"duplicate-result": 1, "duplicate": 1},
        [(OFFSETS, loss(seq=4)), ((T, 0), loss(5, 9, seq=4))],
        [((T, 0), loss(5, 9, seq=6)), ((OUT, 0), loss(seq=4))]),
    "stored twice: it was delivered once": (
        [*COORDINATORS, topic(), *TWICE, LED, stored(0, 0, 1), KNOWN], {"duplicate-result": 1},
        [], [(OFFSETS, loss(seq=2)), (OFFSETS, loss()), ((T, 0), loss(0, 1, seq=5))]),
    "no result: a reset passed over it": (
        [*COORDINATORS, topic(), positioned(0), polled([0], [100]), positioned(2, "latest", "m2"),
         polled([2], [102], "m2"), LED, stored(0, 2), KNOWN],
        {"lost-result": 1},
        [(OFFSETS, loss(seq=4)), ((T, 0), loss(1, 2, seq=4))],
        [(OFFSETS, loss(seq=6)), ((T, 0), loss(1, 2, seq=6)), ((OUT, 0), loss(seq=4))]),
    "no result: the group got the record": (
        [*COORDINATORS, topic(), positioned(0), polled([0, 1, 2], [100, 101, 102]), LED,
         stored(0, 2), KNOWN],
        {"lost-result": 1}, [], [(OFFSETS, loss()), ((T, 0), loss(1, 2))]),
    "no result: its marker was lost": (
        [*HIDDEN, LED, stored(0, 2), KNOWN], {"lost-result": 1},
        [((T, 0), loss(2, 3, seq=8)), ((T, 0), loss(1, 3, seq=8))],
        [((T, 0), loss(0, 1, seq=8)), ((T, 0), loss(3, 9, seq=8)), ((T, 0), loss(1, 3, seq=5)),
         (OFFSETS, loss())]),
    "no result: a marker stood there, and was lost": (
        [*COORDINATORS, topic(), READ_COMMITTED, positioned(0), appended(0, 1), *marker(1, True),
         appended(1, 2, producer=8, epoch=2), LED, stored(0, 2), KNOWN], {"lost-result": 1},
        [((T, 0), loss(1, 2, seq=7))], [((T, 0), loss(2, 3, seq=7)), ((T, 0), loss(1, 2, seq=6))]),
    "no result: the record stood there all the time": (
        [*COORDINATORS, topic(), READ_COMMITTED, positioned(0), appended(0, 2), *marker(2, True),
         LED, stored(0, 2), KNOWN], {"lost-result": 1}, [],
        [((T, 0), loss(1, 2)), ((T, 0), loss(2, 3)), ((T, 0), loss(5, 9)), (OFFSETS, loss())]),
    "no result: another producer's transaction was aborted": (
        [*COORDINATORS, topic(), READ_COMMITTED, positioned(0), appended(0, 2, producer=8),
         *marker(2, False), LED, stored(0, 2), KNOWN], {"lost-result": 1}, [],
        [((T, 0), loss(1, 2)), ((T, 0), loss(2, 3))]),
}  # fmt: skip


def again(base: int, record_id: int, epoch: int = 1) -> tuple[str, facts.Appended]:
    """Another broker leads and appends."""
    batch = facts.Appended(T, 0, epoch, base, base + 1, 8, 0, 0, (record_id,))
    return ("broker-2", batch)


def leads(node: int, epoch: int, end: int) -> tuple[str, facts.BecameLeader]:
    return (f"broker-{node}", facts.BecameLeader(T, 0, epoch, epoch, end, 0, (1, 2)))


EXPOSED = ("broker-1", facts.HighWatermark(T, 0, 0, 2, 1, (1, 2)))  # by the first leader

# Rows 3 to 5: the records are appended and acknowledged; then the group gets the first one.
SENT = [*COORDINATORS, topic(), *written(0, 100), *written(1, 101), acked(0, 100, 101)]
GOT = [polled([0], [100]), processed(0, 1), counted(0, 1)]  # rows 6 to 8

# It gets both in rows 6 to 8, and the second one again.
BOTH = [polled([0, 1], [100, 101]), processed(0, 2), counted(0, 2)]
MORE = [positioned(1, "committed"), polled([1], [101]), processed(1, 2), counted(0, 1)]
SURPLUS = {"audit-surplus": 1, "duplicate": 1}
OTHERS = [("consumer-2", fact) for _, fact in MORE]

AUDIT_EXCUSES: dict[str, Excused] = {
    "a window of which nothing came: each record must be lost": (
        [*SENT, published(0, 2), KNOWN], {"audit-missing": 1}, [((T, 0), loss(0, 2))],
        [((T, 0), loss(0, 1)), ((T, 0), loss(1, 2)), ((T, 0), loss(0, 2, seq=4))]),
    "a window with too few records: the group got one of them": (
        [*SENT, *GOT, published(0, 2), KNOWN], {"audit-missing": 1}, [((T, 0), loss(1, 2))],
        [((T, 0), loss(0, 1)), ((T, 0), loss(2, 9)), ((T, 0), loss(1, 2, seq=4)),
         (OFFSETS, loss()), ((OUT, 0), loss()), ((T, 0), UNCLEAN)]),
    "a window with too few records: its member died before it counted one": (
        [*SENT, polled([0, 1], [100, 101]), processed(0, 1), counted(0, 1), published(0, 2), KNOWN],
        {"audit-missing": 1}, [((T, 0), loss(1, 2))], [((T, 0), loss(0, 1))]),
    "a window with too few records: one that nobody acknowledged was lost": (
        [*SENT[:-1], acked(0, 100), published(0, 1), KNOWN], {"audit-missing": 1},
        [((T, 0), loss(0, 1))], [((T, 0), loss(1, 2))]),
    "a window with too few records: nobody appended them": (
        [*COORDINATORS, topic(), acked(0, 100, 101), published(0, 2), KNOWN],
        {"audit-missing": 1}, [], [((T, 0), loss())]),
    "a window with too few records: a later leader has another one there": (
        [*SENT, *GOT, leads(2, 1, 1), again(1, 102), published(0, 2), KNOWN],
        {"audit-missing": 1}, [((T, 0), loss(1, 2, seq=9))], [((T, 0), loss(1, 2, seq=11))]),
    "a window with too few records: a later leader has it behind the first copy": (
        [*SENT, *GOT, leads(2, 1, 2), again(2, 101), published(0, 2), KNOWN],
        {"audit-missing": 1}, [((T, 0), loss(1, 3, seq=11))],
        [((T, 0), loss(1, 2, seq=11)), ((T, 0), loss(2, 3, seq=11))]),
    "a window with too few records: a later leader has it in place of the first copy": (
        [*SENT, *GOT, leads(2, 1, 1), again(1, 101), published(0, 2), KNOWN],
        {"audit-missing": 1}, [((T, 0), loss(1, 2, seq=11))], [((T, 0), loss(1, 2, seq=9))]),
    "a window with too few records: a deposed leader exposes one": (
        [*SENT, *GOT, leads(2, 1, 1), again(1, 102), EXPOSED, published(0, 2), KNOWN],
        {"audit-missing": 1}, [((T, 0), loss(1, 2, seq=11))], [((T, 0), loss(1, 2, seq=12))]),
    "a window with too few records: who was deposed leads again": (
        [*SENT, *GOT, leads(2, 1, 1), again(1, 102), leads(1, 2, 2), published(0, 2), KNOWN],
        {"audit-missing": 1}, [((T, 0), loss(1, 2, seq=12))], []),
    "a window with too few records: a reset passed over it": (
        [*SENT, positioned(2, "latest"), published(0, 2), KNOWN], {"audit-missing": 1},
        [(OFFSETS, loss(seq=4)), ((T, 0), loss(5, 9, seq=4))],
        [(OFFSETS, loss(seq=6)), ((T, 0), loss(5, 9, seq=6))]),
    "a window with too few records: a reset passed over one of them": (
        [*SENT, positioned(1, "latest"), published(0, 2), KNOWN], {"audit-missing": 1},
        [((T, 0), loss(1, 2, seq=5))], [(OFFSETS, loss(seq=5)), ((T, 0), loss(5, 9, seq=5))]),
    "a window with too many records": (  # polled in rows 6 and 10
        [*SENT, *BOTH, *MORE, published(0, 2), KNOWN], SURPLUS,
        [(OFFSETS, loss(seq=7)), (OFFSETS, loss(seq=9))],
        [(OFFSETS, loss(seq=5)), (OFFSETS, loss(seq=11)), ((T, 0), loss(1, 2, seq=8)),
         ((T, 0), loss(0, 1, seq=8)), ((T, 0), loss(5, 9, seq=8)), (("offsets", 1), loss(seq=8))]),
    "a window with too many records: another member has got one again": (
        [*SENT, *BOTH, *OTHERS, published(0, 2), KNOWN], SURPLUS,
        [(OFFSETS, loss(seq=8))], [(OFFSETS, loss(seq=11))]),
    "a window with too many records: a reset led back to one": (
        [*SENT, *BOTH, positioned(1, "earliest"), *MORE[1:], published(0, 2), KNOWN],
        SURPLUS | {"needless-reset": 1},
        [((T, 0), loss(5, 9, seq=8))], [((T, 0), loss(5, 9, seq=10)), (OFFSETS, loss(seq=11))]),
    "a window with too many records: a reset passed over it": (
        [*SENT, *BOTH, positioned(2, "earliest"), *MORE, published(0, 2), KNOWN],
        SURPLUS | {"needless-reset": 1},
        [], [((T, 0), loss(5, 9, seq=12))]),
    "a window with too many records: another copy took the place of a lost one": (
        [*SENT, *BOTH, leads(2, 1, 1), again(1, 101), *MORE, published(0, 2), KNOWN], SURPLUS,
        [((T, 0), loss(1, 2, seq=9))],
        [((T, 0), loss(0, 1, seq=9)), ((T, 0), loss(1, 2, seq=11)), (OFFSETS, loss(seq=9))]),
    "a window with too many records: another copy stands beside the first one": (
        [*SENT, *BOTH, leads(2, 1, 2), again(2, 101), polled([2], [101]), processed(2, 3),
         counted(0, 1), published(0, 2), KNOWN], {"audit-surplus": 1},
        [], [((T, 0), loss(5, 9, seq=9)), (OFFSETS, loss(seq=9))]),
    "a window with too many records: got three times": (
        [*SENT, *BOTH, *MORE, *MORE, published(0, 2), KNOWN], SURPLUS,
        [], [(OFFSETS, loss(seq=8)), (OFFSETS, loss(seq=12))]),
    "a window with too many records: nothing came twice": (
        [*SENT[:-1], acked(0, 100), *BOTH, published(0, 1), KNOWN], {"audit-surplus": 1},
        [], [(OFFSETS, loss(seq=7)), ((T, 0), loss(1, 2, seq=7))]),
    "a window with too many records: polled twice, and counted once": (
        [*SENT, BOTH[0], positioned(0, "committed"), *BOTH, counted(0, 1), published(0, 2), KNOWN],
        SURPLUS, [], [(OFFSETS, loss(seq=6)), (OFFSETS, loss(seq=9))]),
}  # fmt: skip
