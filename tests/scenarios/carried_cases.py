"""Stories of offsets that a failed transaction left to the next one, for both judges.

Record 100 is the input at offset 0 of ``orders``-0. Transaction 0 sends its output and the offset
1, and ends aborted. Transaction 1 processes partition 1 and commits offset 1 of partition 0, too.
"""

from __future__ import annotations

from typing import Any

from kafkasim.model import facts
from tests.scenarios.transaction_cases import (
    INPUT_LOG,
    OUT,
    PROCESSOR,
    READER,
    TID,
    TOPICS,
    Rows,
    T,
    appended,
    begun,
    decided,
    ended,
    ending,
    failed,
    final,
    marker,
    sent,
)

HOME = "offsets-id"
LATE: Rows = failed(100, error="TIMED_OUT", topic=OUT)


def given(partition: int, offset: int, number: int = 0) -> Rows:
    return [("producer-1", facts.TransactionOffsets(TID, number, "g", "orders", partition, offset))]


def taken(base: int, count: int) -> Rows:
    """The group's coordinator appends the ``count`` offsets of a TxnOffsetCommit."""
    return [("broker-1", facts.Appended(HOME, 0, 0, base, base + count, 7, 0, -1, ()))]


def marked(offset: int, commit: bool) -> Rows:
    return [*taken(offset, 1), *marker(offset, commit, topic=HOME)]


def committed(partition: int, offset: int, behind: int) -> Rows:
    fact = facts.OffsetCommitted("g", "orders", partition, offset, 1, "m1", 1, behind)
    return [("broker-1", fact)]


def aborting(*between: tuple[str, Any], number: int = 0, asked: bool = False) -> Rows:
    """A transaction sends the output of the input, fails and is aborted."""
    first = ending(True, number) if asked else []
    return [
        *begun(number), *sent(100, number=number, topic=OUT), *given(0, 1, number), *between,
        *first, *ending(False, number), *decided(False), *ended("aborted", number),
    ]  # fmt: skip


def left_over(
    aborted: Rows,
    number: int = 1,
    count: int = 2,
    offset: int = 1,
    ids: tuple[int, ...] = (101,),
    before: Rows | None = None,
) -> Rows:
    """A later transaction commits ``offset`` with its own; its request has ``count`` offsets."""
    return [
        *TOPICS, ("controller-1", facts.TopicCreated(3, HOME, "__consumer_offsets", 1, 1, 1)),
        *READER, *PROCESSOR, *appended(0, 100, pid=-1),
        ("consumer-1", facts.Processed("g", "m1", T, 0, 0, 2)), *(before or []),
        *aborted, *marked(9, False),
        *begun(number), *sent(*ids, number=number, topic=OUT), *given(1, 5, number),
        *appended(0, 101, topic=OUT), *taken(10, count), *ending(True, number), *decided(),
        *ended("committed", number), *marker(1, True, topic=OUT), *marked(12, True),
        *committed(0, offset, 13), *committed(1, 5, 13),
        *INPUT_LOG, *final((0, (101,), 7), (1, (), 7), topic=OUT),
    ]  # fmt: skip


LOST = {"lost-output": 1}
BETWEEN: Rows = [*begun(1), *given(1, 4, 1), *ending(False, 1), *decided(False)]
CARRIED: dict[str, tuple[Rows, dict[str, int]]] = {
    "offsets left over: no coordinator took them": (left_over(aborting()), {}),
    "offsets left over: a batch failed before they were answered": (
        left_over(aborting(*taken(8, 1), *LATE)), {}),
    "offsets left over: another transaction failed in between": (
        left_over([*aborting(), *BETWEEN, *ended("aborted", 1)], number=2), {}),
    "offsets left over: transactions without offsets in between": (
        left_over([*aborting(), *begun(1), *ending(True, 1), *ended("committed", 1)], number=2),
        {}),
    "no offsets left over: they were answered": (left_over(aborting(*taken(8, 1))), LOST),
    "no offsets left over: a batch failed before they were sent": (
        left_over([*begun(), *sent(100, topic=OUT), *LATE, *aborting(*taken(8, 1))[2:]]), LOST),
    "no offsets left over: a batch failed after the end was asked for": (
        left_over([*aborting(*taken(8, 1))[:-2], *LATE, *aborting()[-2:]]), LOST),
    "no offsets left over: the commit was asked for": (left_over(aborting(asked=True)), LOST),
    "no offsets left over: the transaction was fenced": (
        left_over([*aborting()[:-1], *ended("fenced")]), LOST),
    "no offsets left over: those of another transaction were answered in between": (
        left_over([*aborting(), *BETWEEN[:2], *taken(8, 2), *BETWEEN[2:], *ended("aborted", 1)],
                  number=2), LOST),
    "no offsets left over: another producer object": (  # under the epoch of the first one
        left_over(aborting(), number=0), LOST | {"zombie-producer": 1}),
    "no offsets left over: the later request had its own alone": (
        left_over(aborting(), count=1), LOST),
    "no offsets left over: a committed transaction had sent the output": (
        left_over(aborting(), ids=(100, 101)), LOST | {"torn-transaction": 1}),
    "no offsets left over: the transaction had not sent the output": (
        left_over([*begun(), *aborting()[2:]]), LOST),
    "no offsets left over: another offset was committed": (
        left_over(aborting(), offset=2), LOST),
    "no offsets left over: the input was committed before": (
        left_over(aborting(), before=committed(0, 1, 1)), LOST),
}  # fmt: skip
"""Stories of inputs that are committed without an output."""
