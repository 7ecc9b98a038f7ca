"""Stories about transactions, for both judges: the run's own and the checks of Spark.

A story is a list of (node, fact) and the anomalies that it shows, each with its count. The topic is
``orders``, partition 0; its records are of the producer id 7.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkasim.analysis.judging.source import Loss
from kafkasim.model import facts

T, OUT = "topic-id", "out-id"
Rows = list[tuple[str, Any]]

TID = "tx"


def begun(number: int = 0, epoch: int = 0, node: str = "producer-1") -> Rows:
    return [(node, facts.TransactionBegun(TID, number, 7, epoch))]


def sent(*ids: int, number: int = 0, node: str = "producer-1", topic: str = T) -> Rows:
    return [(node, facts.TransactionSent(TID, number, topic, 0, one)) for one in ids]


def offsets(offset: int, number: int = 0, node: str = "producer-1") -> Rows:
    return [(node, facts.TransactionOffsets(TID, number, "g", "orders", 0, offset))]


def ending(commit: bool, number: int = 0, node: str = "producer-1") -> Rows:
    return [(node, facts.TransactionEnding(TID, number, commit))]


def ended(outcome: str, number: int = 0, node: str = "producer-1") -> Rows:
    return [(node, facts.TransactionEnded(TID, number, outcome))]


def decided(commit: bool = True, epoch: int = 0) -> Rows:
    state = "PrepareCommit" if commit else "PrepareAbort"
    fact = facts.TransactionState(TID, 7, epoch, "Ongoing", state, ("orders-0",), 60000, 1, "end")
    return [("broker-2", fact)]


def initialized(epoch: int = 0) -> Rows:
    fact = facts.TransactionState(TID, 7, epoch, "Empty", "Empty", (), 60000, 1, "init")
    return [("broker-2", fact)]


def told(epoch: int, reason: str, coordinator: int = 1, pid: int = 7) -> Rows:
    """A coordinator tells a record of the id; what was told last decides about its epoch."""
    state = "Empty" if reason == "init" else "PrepareAbort"
    fact = facts.TransactionState(TID, pid, epoch, "Ongoing", state, (), 60000, coordinator, reason)
    return [("broker-2", fact)]


def loaded() -> Rows:
    return [("broker-2", facts.TransactionsLoaded(0, 1, loaded=True))]


def completed() -> Rows:
    fact = facts.TransactionState(
        TID, 7, 0, "PrepareCommit", "CompleteCommit", (), 60000, 1, "markers"
    )
    return [("broker-2", fact)]


def appended(
    base: int, *ids: int, pid: int = 7, epoch: int = 0, topic: str = T, sequence: int = 0
) -> Rows:
    fact = facts.Appended(topic, 0, 0, base, base + len(ids), pid, epoch, sequence, ids)
    return [("broker-1", fact)]


def marker(offset: int, commit: bool, epoch: int = 0, topic: str = T) -> Rows:
    return [("broker-1", facts.MarkerWritten(topic, 0, 7, epoch, commit, offset, 0, 1))]


def polled(offset: int, record_id: int) -> Rows:
    fact = facts.Polled("g", "m1", T, 0, offset + 1, -1, (offset,), (record_id,))
    return [("consumer-1", fact)]


def final(*batches: tuple[int, tuple[int, ...], int], topic: str = T) -> Rows:
    """A final leader's log of batches: (base offset, record ids, producer id)."""
    nexts = [base + max(1, len(ids)) for base, ids, _ in batches]
    fact = facts.FinalReplica(
        topic, 0, True, 0, 0, nexts[-1], nexts[-1], nexts[-1], (0, 0),
        tuple(base for base, _, _ in batches), tuple(nexts), (0,) * len(batches),
        tuple(pid for _, _, pid in batches), (0,) * len(batches),
        tuple(len(ids) for _, ids, _ in batches), tuple(i for _, ids, _ in batches for i in ids),
    )  # fmt: skip
    return [("broker-1", fact)]


def committed(offset: int) -> Rows:
    """The group has processed what is below the offset, and commits it."""
    return [
        ("consumer-1", facts.Processed("g", "m1", T, 0, 0, offset)),
        ("broker-1", facts.OffsetCommitted("g", "orders", 0, offset, 1, "m1", 1)),
    ]


def sought(offset: int) -> Rows:
    return [("consumer-1", facts.Positioned("g", "m1", T, 0, offset, "seek"))]


TOPICS: Rows = [
    ("controller-1", facts.TopicCreated(1, T, "orders", 1, 1, 1)),
    ("controller-1", facts.TopicCreated(2, OUT, "out", 1, 1, 1)),
]
READER: Rows = [
    ("consumer-1", facts.ReadsCommitted("g")),
    ("consumer-1", facts.Positioned("g", "m1", T, 0, 0, "earliest")),
]
PROCESSOR: Rows = [("processor-1", facts.ProcessorStarted("g", "exactly-once", ("orders",), "out"))]
OPEN = [*TOPICS, *READER, *begun(), *sent(100, 101), *appended(0, 100, 101)]
COMMITTED = [*OPEN, *ending(True), *decided(), *ended("committed"), *marker(2, True)]
ABORTED = [*OPEN, *ending(False), *decided(False), *ended("aborted"), *marker(2, False)]
LOG = final((0, (100, 101), 7), (2, (), 7))
INPUT = [*TOPICS, *READER, *PROCESSOR, *appended(0, 100, pid=-1), *committed(1)]
INPUT_LOG = final((0, (100,), -1))
NO_OUTPUT = [*INPUT_LOG, *final((0, (900,), -1), topic=OUT)]
UNREAD = [*TOPICS, *READER, *PROCESSOR, *appended(0, 100, pid=-1)]


NEXT = "next-id"
CREATED_AGAIN = [
    *TOPICS, *READER, *PROCESSOR, *committed(1),
    ("controller-1", facts.TopicCreated(9, NEXT, "orders", 1, 1, 1)),
    ("consumer-1", facts.Positioned("g", "m1", NEXT, 0, 0, "earliest")),
    *appended(0, 100, pid=-1, topic=NEXT), *final((0, (100,), -1), topic=NEXT),
    *final((0, (900,), -1), topic=OUT),
]  # fmt: skip
"""What was committed is of the topic that had the name before."""


def log_start(reason: str) -> Rows:
    return [("broker-1", facts.LogStart(T, 0, 1, reason, 1, 1))]


TWICE = [
    *TOPICS, *READER, *PROCESSOR, *appended(0, 100, 100, pid=-1), *polled(0, 100), *polled(1, 100),
    *committed(2),
]  # fmt: skip

STORIES: dict[str, tuple[Rows, dict[str, int]]] = {
    "committed, then read": ([*COMMITTED, *polled(0, 100), *polled(1, 101), *LOG], {}),
    "aborted, not read": ([*ABORTED, *LOG], {}),
    "an aborted record is read": ([*ABORTED, *polled(0, 100), *LOG], {"aborted-read": 1}),
    "read of a transaction whose commit nobody asked for": (
        [*OPEN, *polled(0, 100), *marker(2, False), *LOG], {"aborted-read": 1}),
    "read before the coordinator had decided": (
        [*OPEN, *ending(True), *polled(0, 100), *decided(), *ended("committed"),
         *marker(2, True), *LOG], {"precommitted-read": 1}),
    "read of what a new coordinator has found decided": (
        [*OPEN, *ending(True), ("broker-3", facts.TransactionsLoaded(0, 2, True)),
         *marker(2, True), *polled(0, 100), *ended("committed"), *LOG], {}),
    "read by a group that reads uncommitted records": (
        [*TOPICS, *begun(), *sent(100), *appended(0, 100), *polled(0, 100), *ending(False),
         *ended("aborted"), *marker(1, False), *final((0, (100,), 7), (1, (), 7))], {}),
    "read by a member of read_uncommitted beside one of read_committed": (
        [*ABORTED, ("consumer-2", facts.Polled("g", "m2", T, 0, 1, -1, (0,), (100,))), *LOG], {}),
    "torn: one of two records is aborted": (
        [*OPEN, *marker(2, False), *sent(102), *appended(3, 102), *ending(True), *decided(),
         *ended("committed"), *marker(4, True),
         *final((0, (100, 101), 7), (2, (), 7), (3, (102,), 7), (4, (), 7))],
        {"torn-transaction": 1}),
    "torn: nobody knows the outcome, and the halves differ": (
        [*OPEN, *marker(2, False), *sent(102), *appended(3, 102), *ending(True),
         *ended("fenced"), *marker(4, True),
         *final((0, (100, 101), 7), (2, (), 7), (3, (102,), 7), (4, (), 7))],
        {"torn-transaction": 1}),
    "whole: nobody knows the outcome": (
        [*OPEN, *ending(True), *ended("fenced"), *marker(2, False), *LOG], {}),
    "torn: the log lacks a record": (
        [*OPEN, *sent(102), *ending(True), *decided(), *ended("committed"), *marker(2, True),
         *LOG], {"torn-transaction": 1}),
    "torn: aborted, and committed all the same": (
        [*OPEN, *ending(False), *ended("aborted"), *marker(2, True), *LOG],
        {"torn-transaction": 1}),
    "torn: the offsets are missing": (
        [*OPEN, *offsets(5), *committed(4), *ending(True), *decided(), *ended("committed"),
         *marker(2, True), *completed(), *LOG], {"torn-transaction": 1}),
    "torn: the offsets of an earlier transaction are missing": (
        [*OPEN, *offsets(5), *ending(True), *decided(), *ended("committed"), *marker(2, True),
         *begun(1), *ending(True, 1), *decided(), *ended("committed", 1), *LOG],
        {"torn-transaction": 1}),
    "whole: the marker for the offsets is under way": (
        [*OPEN, *offsets(5), *ending(True), *decided(), *ended("committed"), *marker(2, True),
         *LOG], {}),
    "whole: a coordinator has found the offsets in its log": (
        [*OPEN, *offsets(5), *ending(True), *decided(), *ended("committed"), *marker(2, True),
         *completed(), ("broker-3", facts.FinalOffset("g", "orders", 0, 5)), *LOG], {}),
    "whole, with offsets": (
        [*OPEN, *offsets(5), *ending(True), *decided(), *ended("committed"), *marker(2, True),
         *committed(5), *LOG], {}),
    "read where a truncated log had a record of a transaction": (
        [*OPEN, *appended(0, 900, pid=-1), *ending(False), *polled(0, 900), *ended("aborted"),
         *final((0, (900,), -1))], {}),
    "hanging": ([*OPEN, *final((0, (100, 101), 7))], {"hanging-transaction": 2}),
    "two producers under one epoch": (
        [*TOPICS, *initialized(), *READER, *begun(), *sent(100, 101), *appended(0, 100, 101),
         *begun(0, 0, "producer-2"), *marker(2, False), *LOG], {"zombie-producer": 1}),
    "a zombie commits behind its successor": (
        [*OPEN, *begun(0, 1, "producer-2"), *ending(True), *decided(), *ended("committed"),
         *marker(2, True), *LOG], {"zombie-producer": 1}),
    "a commit that was asked for before the successor began": (
        [*OPEN, *ending(True), *decided(), *begun(0, 1, "producer-2"), *ended("committed"),
         *marker(2, True), *LOG], {}),
    "a fence that failed before raises the epoch once": (
        [*OPEN, *told(0, "init"), *told(2, "fence"), *told(3, "init"), *told(5, "timeout"),
         *ending(False), *ended("aborted"), *marker(2, False), *LOG], {}),
    "each attempt of a fence raised the epoch": (
        [*OPEN, *told(0, "init"), *told(3, "timeout"), *told(4, "init"), *told(7, "fence"),
         *ending(False), *ended("aborted"), *marker(2, False), *LOG], {"needless-epoch": 2}),
    "an epoch is left out by InitProducerId, and raised by a partition": (
        [*OPEN, *told(0, "init"), *told(2, "init"), *told(3, "add"), *ending(False),
         *ended("aborted"), *marker(2, False), *LOG], {"needless-epoch": 2}),
    "what a coordinator loads may hold epochs that nobody told": (
        [*OPEN, *told(0, "init"), *loaded(), *told(3, "init"), *told(7, "init", coordinator=2),
         *told(0, "init", pid=8), *ending(False), *ended("aborted"), *marker(2, False), *LOG], {}),
    "each input has an output": (
        [*INPUT, *appended(0, 100, pid=-1, topic=OUT), *INPUT_LOG,
         *final((0, (100,), -1), topic=OUT)], {}),
    "an input without an output": (
        [*INPUT, *INPUT_LOG, *final((0, (900,), -1), topic=OUT)], {"lost-output": 1}),
    "an input that was deleted, and that a power loss has brought back": (
        [*UNREAD, *log_start("delete-records"), *committed(1), *NO_OUTPUT], {}),
    "an input that a follower of the leader's log start does not have": (
        [*UNREAD, *log_start("leader"), *committed(1), *NO_OUTPUT], {"lost-output": 1}),
    "an input of a topic that was created again: committed in the one before": (
        CREATED_AGAIN, {}),
    "an input that is not committed yet": (
        [*TOPICS, *READER, *PROCESSOR, *committed(0), *INPUT_LOG], {}),
    "an input with two outputs": (
        [*INPUT, *polled(0, 100), *INPUT_LOG, *final((0, (100, 900, 100), -1), topic=OUT)],
        {"duplicate-output": 1, "duplicate": 1}),
    "a record that its producer wrote twice, with an output each": (
        [*TWICE, *final((0, (100, 100), -1), topic=OUT)], {"duplicate": 1}),
    "a record that its producer wrote twice, with three outputs": (
        [*TWICE, *final((0, (100, 100, 100), -1), topic=OUT)],
        {"duplicate-output": 1, "duplicate": 1}),
    "an aborted output does not count": (
        [*INPUT, *begun(), *sent(100, topic=OUT), *appended(0, 100, topic=OUT), *ending(False),
         *ended("aborted"), *marker(1, False, topic=OUT), *INPUT_LOG,
         *final((0, (100,), 7), (1, (), 7), topic=OUT)], {"lost-output": 1}),
    "an aborted input needs no output": (
        [*ABORTED, *PROCESSOR, *committed(3), *LOG], {}),
}  # fmt: skip

ATTEMPTS: dict[str, tuple[Rows, dict[str, int]]] = {
    "the same record in a second attempt": (
        [*ABORTED, *begun(1, 1), *sent(101, number=1), *appended(3, 101, epoch=1),
         *ending(True, 1), *decided(epoch=1), *ended("committed", 1), *marker(4, True, 1),
         *sought(3), *polled(3, 101),
         *final((0, (100, 101), 7), (2, (), 7), (3, (101,), 7), (4, (), 7))], {}),
    "hanging behind a marker": (
        [*ABORTED, *appended(3, 101), *final((0, (100, 101), 7), (2, (), 7), (3, (101,), 7))],
        {"hanging-transaction": 1}),
}  # fmt: skip
"""Stories in which a log holds a record twice, once aborted or open."""

RESTING: dict[str, tuple[Rows, dict[str, int]]] = {
    "torn: the log lacks a record that was appended": (
        [*OPEN, *sent(102), *appended(2, 102), *ending(True), *decided(), *ended("committed"),
         *marker(2, True), *LOG], {"torn-transaction": 1}),
    "an input without an output that was written": (
        [*INPUT, *appended(0, 100, pid=-1, topic=OUT), *INPUT_LOG,
         *final((0, (900,), -1), topic=OUT)], {"lost-output": 1}),
    "an input with two outputs, and commits were lost in between": (
        [*INPUT, *appended(0, 100, pid=-1, topic=OUT), *sought(0),
         *appended(1, 100, pid=-1, topic=OUT), *INPUT_LOG,
         *final((0, (100, 100), -1), topic=OUT)], {"duplicate-output": 1, "duplicate": 1}),
}  # fmt: skip
"""Stories of what a legal loss may explain, if it touched what they rest on."""

STANDING = "last-replica-standing"
LAST = 1000
"""A row behind all others."""
COORDINATORS: Rows = [
    ("controller-1", facts.TopicCreated(3, "offsets-id", "__consumer_offsets", 1, 1, 1)),
    ("controller-1", facts.TopicCreated(4, "state-id", "__transaction_state", 1, 1, 1)),
]
OFFSETS, STATE = ("offsets-id", 0), ("state-id", 0)


def loss(first: int = 0, end: int = 10, seq: int = LAST, reason: str = STANDING) -> Loss:
    return Loss(first, end, seq, 0, reason)


Losses = list[tuple[tuple[str, int], Loss]]

EXCUSES: dict[str, tuple[Losses, Losses]] = {
    # story: losses of which each explains it, losses of which none does
    "torn: the log lacks a record that was appended": (
        [((T, 0), loss(2, 3))],
        [((T, 0), loss(0, 2)), ((T, 0), loss(2, 3, seq=1)), ((OUT, 0), loss()), (STATE, loss()),
         ((T, 0), loss(2, 3, reason="unclean-election"))],
    ),
    "torn: one of two records is aborted": (
        [((T, 0), loss(2, 3)), (STATE, loss())],
        [((OUT, 0), loss()), (OFFSETS, loss()), (STATE, loss(seq=1))],
    ),
    "torn: the offsets are missing": (
        [(OFFSETS, loss()), (STATE, loss())],
        [((T, 0), loss()), (OFFSETS, loss(seq=1))],
    ),
    "hanging": (
        [((T, 0), loss(2, 3)), (STATE, loss())],
        [((OUT, 0), loss()), (OFFSETS, loss()), ((T, 0), loss(seq=1))],
    ),
    "an input without an output that was written": (
        [((OUT, 0), loss(0, 1)), ((T, 0), loss(0, 1))],
        [((OUT, 0), loss(1, 2)), ((T, 0), loss(1, 2)), (OFFSETS, loss()), (STATE, loss())],
    ),
    "an input with two outputs, and commits were lost in between": (
        [(OFFSETS, loss(seq=11))],
        [(OFFSETS, loss(seq=9)), (OFFSETS, loss()), ((T, 0), loss()), (STATE, loss())],
    ),
    "two producers under one epoch": (
        [(STATE, loss(seq=5))], [(STATE, loss(seq=1)), ((T, 0), loss(seq=5)), (OFFSETS, loss())],
    ),
    "an aborted record is read": (
        [((T, 0), loss(2, 3, seq=12)), (STATE, loss(seq=12))],
        [((T, 0), loss()), (STATE, loss()), ((T, 0), loss(0, 0, seq=12)), (OFFSETS, loss(seq=12)),
         ((T, 0), loss(2, 3, seq=1)), ((T, 0), loss(2, 3, seq=12, reason="unclean-election"))],
    ),
}  # fmt: skip


def acked(base: int, *ids: int, epoch: int = 0, sequence: int = 0, topic: str = T) -> Rows:
    return [("producer-1", facts.Acked(topic, 0, base, ids, -1, 7, epoch, sequence, 1000, 1))]


def taken(sequence: int = 0, *more: tuple[str, Any]) -> Rows:
    """A batch is acknowledged behind another one under its id and epoch, in row 12 or later."""
    ack = facts.Acked(T, 0, 0, (101,), -1, 7, 0, sequence, 1000, 1)
    return [
        *COORDINATORS, *TOPICS, *initialized(), *begun(), *sent(100), *appended(0, 100),
        *ending(True), *decided(), *ended("committed"), *marker(1, True), *more,
        ("producer-1", ack), *final((0, (100,), 7), (1, (), 7)),
    ]  # fmt: skip


TAKEN: dict[str, tuple[Rows, Losses, Losses]] = {
    # story: rows, losses of which each explains the lost write, losses of which none does
    "taken for a duplicate of a lost epoch": (
        taken(), [(STATE, loss(seq=5)), (STATE, loss(seq=11))],
        [(STATE, loss(seq=4)), (STATE, loss(seq=12)), (OFFSETS, loss(seq=11)),
         (STATE, loss(seq=11, reason="unclean-election")), ((T, 0), loss(3, 5, seq=11))],
    ),
    "another sequence": (taken(1), [], [(STATE, loss(seq=11))]),
    "a batch that was appended itself": (
        taken(0, *appended(2, 101)), [], [(STATE, loss(seq=11))],
    ),
}  # fmt: skip
"""Stories of a record that was acknowledged, and is in no log."""

BEHIND = [*begun(), *appended(5, 100), *appended(6, 101, sequence=1)]

ORDER_SENT: dict[str, tuple[Rows, bool]] = {
    # story: rows, and whether records were appended out of order
    "sent: the offset of the batch that it was taken for": (
        [*BEHIND, *acked(6, 101, sequence=1), *acked(5, 102)], False),
    "sent: what follows is compared with the last that was appended": (
        [*BEHIND, *acked(6, 101, sequence=1), *acked(5, 102), *appended(4, 103, sequence=2),
         *acked(4, 103, sequence=2)], True),
    "sent: appended itself, below an earlier one": (
        [*BEHIND, *appended(4, 102, sequence=2), *acked(6, 101, sequence=1),
         *acked(4, 102, sequence=2)], True),
}  # fmt: skip
"""Stories of acknowledged offsets of a transactional producer (nonmonotonic-send)."""


def failed(
    *ids: int, error: str = "NOT_LEADER_OR_FOLLOWER", may_be: bool = True, topic: str = T
) -> Rows:
    return [("producer-1", facts.SendFailed(topic, 0, ids, error, may_be, 1000, 1))]


def added(epoch: int = 0) -> Rows:
    fact = facts.TransactionState(
        TID, 7, epoch, "CompleteAbort", "Ongoing", ("orders-0",), 60000, 1, "add"
    )
    return [("broker-2", fact)]


def excused(story: str) -> Rows:
    """A story of :data:`EXCUSES`, with the coordinators' topics."""
    return [*COORDINATORS, *(STORIES | RESTING)[story][0]]


def keyed(base: int, record_id: int) -> Rows:
    return [
        ("broker-1", facts.KeysAppended(T, 0, 0, base, (f"key-{record_id}",), ())),
        *appended(base, record_id, sequence=base and 1),
    ]


def control(offset: int, commit: bool) -> Rows:
    batch = facts.Appended(T, 0, 0, offset, offset + 1, 7, 0, -1, ())
    return [("broker-1", batch), *marker(offset, commit)]


def removed(offset: int, began_ms: int) -> Rows:
    """The cleaner of the leader removes what stands at an offset; the horizon is 1 s behind."""
    return [("broker-1", facts.Cleaned(T, 0, 0, 4, 0, 4, began_ms, 1000, (offset, offset + 1)))]


def copied(base: int, end: int) -> Rows:
    return [("broker-2", facts.Replicated(T, 0, 0, 0, base, end))]


def missed_marker(
    first: int = 1, *, early: Sequence[tuple[str, Any]] = (), commits: bool = True
) -> Rows:
    """Broker-2 copies up to ``first`` before the leader's cleaner removes the aborted record 100
    and its marker, and then the rest. It leads in the end, and a reader gets the record."""
    return [
        *TOPICS, *READER, *begun(), *sent(100), *keyed(0, 100), *ending(False), *decided(False),
        *ended("aborted"), *control(1, False), *copied(0, first), *begun(1), *sent(101, number=1),
        *keyed(2, 101), *ending(commits, 1), *decided(commits),
        *ended("committed" if commits else "aborted", 1), *control(3, commits), *removed(0, 5),
        *removed(1, 1005), *early, *copied(2, 4), *(() if early else polled(0, 100)),
        *final((0, (100,), 7), (2, (101,), 7), (3, (), 7)),
    ]  # fmt: skip


MISSED_MARKERS: dict[str, tuple[Rows, dict[str, int]]] = {
    # story: rows, and what is not explained
    "missed marker: the next one is of a commit": (missed_marker(), {}),
    "no missed marker: the replica has copied it": (
        missed_marker(2), {"aborted-read": 1, "torn-transaction": 1}),
    "no missed marker: the replica has not copied the record": (
        missed_marker(0), {"aborted-read": 1, "torn-transaction": 1}),
    "no missed marker: the next one is of an abort": (
        missed_marker(commits=False), {"aborted-read": 1}),
    "no missed marker: the record was read before": (
        missed_marker(early=polled(0, 100)), {"aborted-read": 1}),
}  # fmt: skip
"""Stories of an aborted record that a replica has as committed."""

ONE_OPEN: Rows = [*TOPICS, *READER, *begun(), *sent(100), *appended(0, 100), *ending(True)]
AFTER_SKIP: Rows = [*completed(), *ended("committed"), *final((0, (100,), 7))]
HANGING = {"hanging-transaction": 1}
UNENDED = [*ONE_OPEN, *AFTER_SKIP]
LEFT_OPEN: dict[str, tuple[Rows, dict[tuple[str, int], int], str, dict[str, int]]] = {
    # story: rows, first open offsets among what the run misses, the stall's excuse, and what is
    # not explained
    "left open: the stall has an excuse": (UNENDED, {(T, 0): 0}, "lost-voters", {}),
    "left open: the stall has none": (UNENDED, {(T, 0): 0}, "", HANGING),
    "left open: what is missing lies behind": (UNENDED, {(T, 0): 1}, "lost-voters", HANGING),
    "left open: in another partition": (UNENDED, {(T, 1): 0}, "lost-voters", HANGING),
}
"""Stories of a transaction that a stalled run has not ended."""

TOO_EARLY = {"aborted-read": 1, "torn-transaction": 1}
TORN = {"torn-transaction": 1}
AGAIN = {"duplicate-output": 1}
ABORTED_LATE = [*TOPICS, *READER, *begun(), *sent(100), *ending(False)]


def came_late(*rows: Any, verified: bool = True) -> Rows:
    """Record 100 of an aborted transaction is appended in the next one, which commits."""
    return [
        *ABORTED_LATE, *rows, *decided(False), *ended("aborted"), *marker(0, False), *begun(1),
        *(added() if verified else ()), *appended(1, 100), *ending(True, 1), *decided(),
        *ended("committed", 1), *marker(2, True), *polled(1, 100),
        *final((0, (), 7), (1, (100,), 7), (2, (), 7)),
    ]  # fmt: skip


def entered(hole: str, partition: int = 0, pid: int = 7, **names: str) -> Rows:
    return [("a-host", facts.HoleEntered(hole, T, partition, producer_id=pid, **names))]


def led_back(offset: int, *between: Any) -> Rows:
    """The processor of a committed input begins again, and writes the input's output again."""
    return [
        *INPUT, *appended(0, 100, pid=-1, topic=OUT), *between,
        ("consumer-1", facts.Positioned("g", "m1", T, 0, offset, "committed")),
        *polled(0, 100), *appended(1, 100, pid=-1, topic=OUT), *INPUT_LOG,
        *final((0, (100, 100), -1), topic=OUT),
    ]  # fmt: skip


UNASKED: Rows = [("broker-1", facts.VerificationSkipped(T, 0, 7, 0))]
SKIPPED: Rows = [("broker-2", facts.MarkerSkipped(TID, "orders", 0, 7, 0, 1))]
OPERATED = [
    *OPEN, *ending(True), *decided(), *ended("committed"), *marker(2, False),
    *final((0, (100, 101), 7), (2, (), 7)),
]  # fmt: skip
KNOWN: dict[str, tuple[Rows, dict[str, int]]] = {
    # story: rows, and what is not explained
    **MISSED_MARKERS,
    "late batch: its request was under way": (came_late(*failed(100)), {}),
    "no late batch: its send had not failed": (came_late(), TOO_EARLY),
    "no late batch: it surely failed": (came_late(*failed(100, may_be=False)), TOO_EARLY),
    "no late batch: nobody had added the partition": (
        came_late(*failed(100), verified=False), TOO_EARLY),
    "unverified batch: nobody was asked": (
        came_late(*failed(100), *UNASKED, verified=False), {}),
    "late end: the request was sent again": (
        [*ABORTED_LATE[:-1], *appended(0, 100), *entered("late-end"), *ending(False),
         *decided(), *ended("aborted"), *marker(1, True), *polled(0, 100),
         *final((0, (100,), 7), (1, (), 7))], {}),
    "no late end: of another producer": (
        [*ABORTED_LATE[:-1], *appended(0, 100), *entered("late-end", pid=8), *ending(False),
         *decided(), *ended("aborted"), *marker(1, True), *polled(0, 100),
         *final((0, (100,), 7), (1, (), 7))], TOO_EARLY),
    "skipped marker": ([*ONE_OPEN, *SKIPPED, *AFTER_SKIP], {}),
    "no marker, and none was skipped": ([*ONE_OPEN, *AFTER_SKIP], HANGING),
    "unlisted id: an operator aborts it": ([*OPERATED, *entered("unlisted-id")], {}),
    "unlisted id: in another partition": ([*OPERATED, *entered("unlisted-id", 1)], TORN),
    "given back: the record was taken for another": (
        [*COMMITTED[:-1], *entered("given-back-sequence"), *marker(2, True),
         *final((0, (100,), 7), (2, (), 7))], {}),
    "two outputs: the group began again below its commit": (led_back(0), {}),
    "two outputs: the group was where it had committed": (led_back(1), AGAIN),
    "no output: its offset was left over": (
        [*INPUT, *entered("carried-offsets", -1, group="g"), *NO_OUTPUT], {}),
    "no output: another group's was": (
        [*INPUT, *entered("carried-offsets", -1, group="h"), *NO_OUTPUT], {"lost-output": 1}),
}  # fmt: skip
"""Stories of what Kafka is known to do."""
