"""The judges in memory on cleaned logs; Spark has the same cases."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasim.analysis.judging.history.contents import Contents
from kafkasim.analysis.judging.invariants.missed_deletions import MissedDeletions
from kafkasim.model import facts
from kafkasim.model.records import Record, RecordBatch, assigned, batch_of
from kafkasim.model.replication.logs.keys import summary
from tests.analysis.analysis_rows import T, mark, marker, polled, positioned, topic
from tests.analysis.cleaning_cases import (
    CLEANED_READS,
    DELETION_CASES,
    HORIZON_CASES,
    LATEST_CASES,
    cleaned,
    keyed,
)
from tests.scenarios.fact_makers import FakeTrace
from tests.scenarios.histories import Delivery, history_of
from tests.scenarios.invariant_stories.judged import judged


@pytest.mark.parametrize("name", LATEST_CASES)
def test_what_a_cleaner_may_remove(name: str) -> None:
    rows, expected = LATEST_CASES[name]
    assert ("LATEST" in violations(list(rows))) == bool(expected)


@pytest.mark.parametrize("name", HORIZON_CASES)
def test_how_long_a_deletion_stays(name: str) -> None:
    rows, expected = HORIZON_CASES[name]
    assert ("HORIZON" in violations(list(rows))) == ("HORIZON" in expected)


@pytest.mark.parametrize("name", DELETION_CASES)
def test_a_reader_within_the_delete_horizon_gets_the_deletion(name: str) -> None:
    rows, expected = DELETION_CASES[name]
    trace = FakeTrace()
    judge = MissedDeletions(trace, Contents(trace))
    trace.record(list(rows))
    found = {anomaly.name: anomaly.count for anomaly in judge.finish()}
    assert found == {name: 1 for name in expected if name == "lost-deletion"}


def test_an_aborted_deletion_is_not_missed() -> None:
    aborted = [*keyed(1, "a", gone=(1,), producer=8), *marker(2, False, producer=8)]
    trace, noted = FakeTrace(), []
    MissedDeletions(trace, Contents(trace), lambda name, _: noted.append(name))
    trace.record([topic(), *keyed(0, "a"), *aborted, *keyed(3, "b"), mark(4), positioned(0),
                  polled([0], [100]), cleaned(1, 2, end=4), polled([3], [103])])  # fmt: skip
    assert noted == []


@pytest.mark.parametrize("name", CLEANED_READS)
def test_what_readers_may_lack(name: str) -> None:
    rows, expected = CLEANED_READS[name]
    trace = FakeTrace()
    delivery = Delivery(trace, history_of(trace, lambda _key: []))
    trace.record(list(rows))
    found = {anomaly.name: anomaly.count for anomaly in delivery.finish()}
    assert found == expected


def violations(rows: list[Any], *copied: RecordBatch) -> list[str]:
    """Return the invariants that the rows break; broker-2 has these batches in its log."""
    told = [(node, _with(fact, copied)) for node, fact in rows]
    return [each.name for each in judged(told, unclean=False).finish()]


def _with(fact: Any, copied: tuple[RecordBatch, ...]) -> Any:
    """Return a fact; a Replicated tells the batches that were copied."""
    if not copied or not isinstance(fact, facts.Replicated):
        return fact
    return replace(fact, batches=summary(copied, copied[-1]))


def stored(base: int, *ids: int, deltas: tuple[int, ...] | None = None, end: int = 0) -> Any:
    """A batch of the leader's, or what is left of it."""
    records = tuple([Record("k", each, 40, 0) for each in ids])
    one = assigned(batch_of(records, producer_id=7, producer_epoch=0, base_sequence=base), base, 1)
    if deltas is None:
        return one
    return RecordBatch(base, end - 1, 1, 7, 0, base, records, 100, 0, False, False, deltas)


def replicated(base: int, end: int) -> tuple[str, facts.Replicated]:
    return "broker-2", facts.Replicated(T, 0, 1, 1, base, end, ())


THREE = [topic(), *keyed(0, "a", "b"), *keyed(2, "a"), *keyed(3, "b"), mark(4)]


def test_a_follower_copies_what_is_left_of_a_batch() -> None:
    rows = [*THREE, cleaned(0, 1, end=4), replicated(0, 4)]
    left = stored(0, 101, deltas=(1,), end=2)
    assert violations(rows, left, stored(2, 102), stored(3, 103)) == []


def test_a_follower_copies_a_log_without_a_cleaned_batch() -> None:
    rows = [*THREE, cleaned(0, 2, end=4), replicated(2, 4)]
    assert violations(rows, stored(2, 102), stored(3, 103)) == []


def test_a_follower_copies_a_batch_without_records() -> None:
    rows = [*THREE, cleaned(0, 2, end=4), replicated(0, 4)]
    left = stored(0, deltas=(), end=2)
    assert violations(rows, left, stored(2, 102), stored(3, 103)) == []


@pytest.mark.parametrize(
    ("removed", "copied"),
    [
        ((0, 1), [stored(2, 102), stored(3, 103)]),  # offset 1 has not been removed
        ((), [stored(0, 101, deltas=(1,), end=2), stored(2, 102), stored(3, 103)]),
        ((0, 1), [stored(0, 101, deltas=(1,), end=2), stored(3, 103)]),  # offset 2 is missing
    ],
)
def test_a_follower_lacks_what_nobody_has_cleaned(
    removed: tuple[int, ...], copied: list[RecordBatch]
) -> None:
    rows = [*THREE, cleaned(*removed, end=4), replicated(copied[0].base_offset, 4)]
    assert "MATCH" in violations(rows, *copied)
