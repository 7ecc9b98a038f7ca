"""Stories of batches that leaders before KIP-890 append behind the marker of their transaction."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkasim.model import facts
from tests.scenarios.transaction_cases import (
    INPUT,
    INPUT_LOG,
    OUT,
    READER,
    TID,
    TOPICS,
    Rows,
    T,
    added,
    appended,
    begun,
    decided,
    ended,
    ending,
    failed,
    final,
    initialized,
    marker,
    polled,
    sent,
    sought,
)

Told = Sequence[tuple[str, Any]]


def skipped(epoch: int = 0, topic: str = T) -> Rows:
    """The leader asks no coordinator about a batch."""
    return [("broker-1", facts.VerificationSkipped(topic, 0, 7, epoch))]


EXPIRED = failed(100, error="TIMED_OUT")
ABORTS = ending(False)
MARKED = marker(1, False)
COMES = [*skipped(), *appended(2, 100, sequence=1)]
LOG = ((0, (99,), 7), (1, (), 7), (2, (100,), 7))


def late(
    fails: Told = EXPIRED,
    *,
    asked: Told = ABORTS,
    behind: Told = MARKED,
    comes: Told = COMES,
) -> Rows:
    """Record 100 fails, and its transaction is aborted. Its batch comes behind the marker of the
    record 99, which was in time."""
    return [
        *TOPICS, *READER, *begun(), *sent(98, 99, 100), *added(), *skipped(), *appended(0, 99),
        *fails, *asked, *decided(False), *ended("aborted"), *behind, *comes,
    ]  # fmt: skip


def joined(rows: Rows | None = None) -> Rows:
    """The next transaction, of another epoch, commits the late record, and it is read."""
    return [
        *(rows or late()), *initialized(1), *begun(1, 1), *sent(101, number=1), *added(1),
        *skipped(1), *appended(3, 101, epoch=1), *ending(True, 1), *decided(epoch=1),
        *ended("committed", 1), *marker(4, True, 1), *sought(2), *polled(2, 100),
        *final(*LOG, (3, (101,), 7), (4, (), 7)),
    ]  # fmt: skip


def output(*comes: tuple[str, Any]) -> Rows:
    """A processor writes the output of an input again, and the first one came behind its marker."""
    adds = facts.TransactionState(
        TID, 7, 0, "CompleteAbort", "Ongoing", ("out-0",), 60000, 1, "add"
    )
    return [
        *INPUT, *begun(), *sent(100, topic=OUT), *failed(100, topic=OUT), *ending(False),
        *decided(False), *ended("aborted"), *marker(0, False, topic=OUT), *comes,
        *appended(1, 100, topic=OUT), *begun(1), *sent(100, number=1, topic=OUT),
        ("broker-2", adds), *appended(2, 100, topic=OUT, sequence=1), *ending(True, 1), *decided(),
        *ended("committed", 1), *marker(3, True, topic=OUT), *INPUT_LOG,
        *final((0, (), 7), (1, (100,), 7), (2, (100,), 7), (3, (), 7), topic=OUT),
    ]  # fmt: skip


HANGING = {"hanging-transaction": 1}


def hanging(rows: Rows) -> Rows:
    return [*rows, *final(*LOG)]


UNVERIFIED_BATCHES: dict[str, tuple[Rows, dict[str, int]]] = {
    # story: rows, and what is not explained
    "unverified: it failed before the abort was asked for": (hanging(late()), {}),
    "unverified: it failed during an abort": (
        hanging(late([], asked=[*ending(False), *EXPIRED])), {}),
    "unverified: it failed during a commit": (
        hanging(late([], asked=[*ending(True), *EXPIRED, *ending(False)])), {}),
    "unverified, and a second batch behind it": (
        [*late([*EXPIRED, *failed(98)]), *appended(3, 98, sequence=2),
         *final(*LOG, (3, (98,), 7))], {}),
    "unverified: another epoch was let pass, too": (
        hanging(late(comes=[*skipped(), *skipped(1), *appended(2, 100, sequence=1)])), {}),
    "unverified: committed with the next transaction": (joined(), {}),
    "unverified: an output is committed with the next one": (
        output(*skipped(topic=OUT)), {"duplicate": 1}),
    "verified: the leader knows the question": (
        hanging(late(comes=appended(2, 100, sequence=1))), HANGING),
    "verified: another epoch was let pass": (
        hanging(late(comes=[*skipped(1), *appended(2, 100, sequence=1)])), HANGING),
    "verified: an output of a leader that knows the question": (
        output(), {"duplicate-output": 1, "torn-transaction": 1, "duplicate": 1}),
    "unverified: it had not failed": (hanging(late([])), HANGING),
    "unverified: another batch had failed": (hanging(late(failed(99))), HANGING),
    "unverified: no broker could have appended it": (
        hanging(late(failed(100, may_be=False))), HANGING),
    "unverified: nobody had asked for the end": (hanging(late(asked=[])), HANGING),
    "unverified: the marker has not come": (
        hanging(late(behind=[])), {"hanging-transaction": 2}),
    "unverified: the marker has a newer epoch": (
        hanging(late(behind=marker(1, False, 1))), HANGING),
    "unverified: its partition was added again": (hanging(late(comes=[*added(), *COMES])), HANGING),
    "unverified: it was read before it came": (
        joined([*late(comes=[]), *appended(2, 100, sequence=1), *sought(2), *polled(2, 100),
                     *COMES]), {"aborted-read": 1, "duplicate": 1}),
}  # fmt: skip
