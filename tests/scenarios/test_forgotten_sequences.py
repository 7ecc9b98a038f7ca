"""What waits for a processor whose records a leader refuses since it forgot their sequences."""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from kafkasim.scenarios.judging.progress import Progress
from kafkasim.scenarios.judging.transactions.liveness.forgotten_sequences import (
    FORGOTTEN_SEQUENCES,
    ForgottenSequences,
)
from tests.scenarios.fact_makers import FakeTrace, Row

NODE = "processor-1"
LAG = "group billing is at 4 of 9 in orders-0 (last read by processor-1)"
GIVEN = "group billing was given records below 6 of orders-0 and has committed 4"
BUSY = "processor-1 handles what it was given"
OPEN = "outputs-0 has an open transaction of producer id 7 from offset 3 on"
OUT_OF_ORDER = "OUT_OF_ORDER_SEQUENCE_NUMBER"


def _begun(epoch: int = 0, node: str = NODE, producer_id: int = 7) -> Row:
    return (node, facts.TransactionBegun("shop", 1, producer_id, epoch))


def _appended(sequence: int, epoch: int = 0, partition: int = 0, producer_id: int = 7) -> Row:
    records = (1,) if sequence >= 0 else ()  # else a marker
    fact = facts.Appended("O", partition, 0, 3, 4, producer_id, epoch, sequence, records)
    return ("broker-1", fact)


def _ends(committing: bool = True, node: str = NODE) -> Row:
    return (node, facts.TransactionEnding("shop", 1, committing))


def _ended(outcome: str) -> Row:
    return (NODE, facts.TransactionEnded("shop", 1, outcome))


def _fails(error: str = OUT_OF_ORDER, partition: int = 0, node: str = NODE) -> Row:
    return (node, facts.SendFailed("O", partition, (1,), error, False, 1, 1))


def _wait(seconds: float) -> Row:
    return ("", seconds)


WROTE = [_begun(), _appended(0), _appended(-1)]
FORGOTTEN = [*WROTE, _wait(2), _appended(-1)]
REFUSED = [_begun(), _ends(), _fails()]
STUCK = [*FORGOTTEN, *REFUSED]


def _excuse(rows: list[Row], *lines: str) -> str:
    trace = FakeTrace()
    positions = {("billing", ("I", 0)): (6, NODE), ("billing", ("I", 1)): (6, "processor-2")}
    judge = ForgottenSequences(trace, 1_500_000, positions)
    trace.record([("broker-1", facts.TopicCreated(1, "I", "orders", 2, 3, 1)), *rows])
    return Progress(trace).stall_excuse(list(lines), lambda _: "", judge.excuse)


def test_a_processor_that_commits_at_once_is_refused_for_ever() -> None:
    again = [_ends(False), _ended("aborted"), _appended(-1), *REFUSED]
    for rows in (STUCK, [*STUCK, *again], [*STUCK, *again[:-1]]):
        assert _excuse(rows, LAG, GIVEN, BUSY, OPEN) == FORGOTTEN_SEQUENCES


def test_a_refusal_while_it_aborts_leaves_it_as_stuck_as_it_was() -> None:
    rows = [*STUCK, _ended("aborted"), _begun(), _ends(False), _fails(), _ended("aborted")]
    assert _excuse(rows, LAG, GIVEN, BUSY, OPEN) == FORGOTTEN_SEQUENCES


@pytest.mark.parametrize(
    "line",
    [
        LAG.replace("processor-1", "processor-2"),
        GIVEN.replace("orders-0", "orders-1"),
        GIVEN.replace("orders", "outputs"),
        BUSY.replace("processor-1", "processor-2"),
        OPEN.replace("id 7", "id 8"),
        "processor-1 is down",
        "orders-0: ISR [1] of [1, 2, 3]",
        "producer-1 has records that are neither acknowledged nor failed",
    ],
)
def test_nothing_else_waits_for_it(line: str) -> None:
    assert _excuse(STUCK, line) == ""


@pytest.mark.parametrize(
    "rows",
    [
        [*WROTE, _wait(1), _appended(-1), *REFUSED],
        [*WROTE, _wait(1), _appended(-1), _wait(1), _appended(-1), *REFUSED],
        [*WROTE, _wait(2), *REFUSED],
        [*WROTE, _wait(2), _appended(1), _appended(-1), *REFUSED],
        [*FORGOTTEN, _appended(0), *REFUSED],
        [_begun(), _appended(-1), *REFUSED],
        [*WROTE, _wait(2), _appended(-1, partition=1), *REFUSED],
        [*WROTE, _wait(2), _appended(-1, epoch=1), *REFUSED],
        [*WROTE, _wait(2), _appended(-1, producer_id=8), *REFUSED],
        [*FORGOTTEN, _begun(), _fails(), _ends()],
        [*FORGOTTEN, _begun(), _ends(False), _fails()],
        [*FORGOTTEN, _begun(), _ends(), _fails("NOT_LEADER_OR_FOLLOWER")],
        [*FORGOTTEN, _begun(), _ends(), _fails(partition=1)],
        [*FORGOTTEN, _begun(), _ends()],
        [*STUCK, _begun(epoch=1)],
        [*STUCK, _ended("committed")],
        [*STUCK, _fails("TIMED_OUT")],
        [*STUCK, _begun(), _fails(), _ends(False)],
        [*STUCK, _begun(), _ends(False), _fails("TIMED_OUT")],
        [*STUCK, _begun(), _ends(False), _fails(partition=1)],
        [*STUCK, _appended(0), _begun(), _ends(False), _fails()],
        [*STUCK, (NODE, facts.HostStopped("crash"))],
    ],
    ids=["in-time", "kept-by-markers", "any-sequence-goes", "new-records", "begins-anew",
         "first-marker", "another-partition", "another-epoch", "another-producer",
         "not-committing", "aborting", "another-error", "refused-elsewhere", "not-refused",
         "new-epoch", "committed", "other-failure", "refused-before-it-aborts",
         "aborting-with-another-error", "aborting-refused-elsewhere", "aborting-with-new-records",
         "ended"],
)  # fmt: skip
def test_a_processor_that_is_known_or_asks_for_a_new_epoch_has_no_excuse(rows: list[Row]) -> None:
    for line in (LAG, GIVEN, BUSY, OPEN):
        assert _excuse(rows, line) == ""
