"""Each delivery anomaly on facts written by hand: one story that shows it, one that does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kafkasim.model import facts
from kafkasim.scenarios.judging.delivery import Delivery
from tests.scenarios.fact_makers import (
    FakeTrace,
    Row,
    T,
    acked,
    batch,
    committed,
    created,
    final,
    polled,
    positioned,
    processed,
)

TOPIC: list[Row] = [("controller-1", created())]
AT_ZERO: Row = ("consumer-1", positioned(0))
BOTH: Row = ("broker-1", final([batch(0, [10]), batch(1, [11])]))
DELETED_BOTH: Row = ("broker-1", final([batch(0, [10]), batch(1, [11])], log_start=2))
FIRST: Row = ("broker-1", final([batch(0, [10])]))
READ: list[Row] = [AT_ZERO, ("consumer-1", polled((0, 1), (10, 11)))]
ACKED_BOTH: Row = ("producer-1", acked(0, (10, 11)))


def _polls(*offsets: tuple[int, ...]) -> list[Row]:
    """One member's polls, in order, from position 0; record id = offset + 10."""
    return [
        AT_ZERO,
        *(("consumer-1", polled(some, tuple(offset + 10 for offset in some))) for some in offsets),
    ]


def _other_group(offsets: tuple[int, ...], ids: tuple[int, ...]) -> object:
    return replace(polled(offsets, ids, "m9"), group="audit")


STORIES: dict[str, tuple[list[Row], list[Row]]] = {
    # name: (how it goes well, how it goes badly)
    "lost-write an acknowledged record is in no log": (
        [ACKED_BOTH, BOTH],
        [ACKED_BOTH, FIRST],
    ),
    "unseen nobody read an acknowledged record": (
        [ACKED_BOTH, *READ, BOTH],
        [ACKED_BOTH, AT_ZERO, ("consumer-1", polled((0,), (10,))), BOTH],
    ),
    "unseen a record that was deleted before it was read": (
        [ACKED_BOTH, *_polls((0,)), DELETED_BOTH],
        [ACKED_BOTH, *_polls((0,)), BOTH],
    ),
    "skipped-by-commit a record that was deleted before it was processed": (
        [*TOPIC, ("consumer-1", positioned(1)), ("broker-1", committed(2)), DELETED_BOTH],
        [*TOPIC, ("consumer-1", positioned(1)), ("broker-1", committed(2)), BOTH],
    ),
    "duplicate one value at two offsets": (
        [BOTH],
        [("broker-1", final([batch(0, [10]), batch(1, [10])]))],
    ),
    "duplicate one offset delivered twice to a group": (
        [*READ, BOTH],
        [*READ, ("consumer-2", positioned(1, member="m2")),
         ("consumer-2", polled((1,), (11,), "m2")), BOTH],
    ),
    "inconsistent-offsets two values at an offset": (
        [AT_ZERO, ("consumer-1", polled((0,), (10,)))],
        [AT_ZERO, ("consumer-1", polled((0,), (10,))), ("consumer-2", _other_group((0,), (99,)))],
    ),
    "poll-skip a record between two polls is missing": (
        _polls((0,), (1,)),
        _polls((0,), (2,)),
    ),
    "poll-skip a record inside one poll is missing": (
        _polls((0, 1, 2)),
        _polls((0, 2)),
    ),
    "unseen a reset to latest gives up what is below": (
        [ACKED_BOTH, AT_ZERO, ("consumer-1", polled((0,), (10,))),
         ("consumer-1", positioned(2, "latest")), BOTH],
        [ACKED_BOTH, AT_ZERO, ("consumer-1", polled((0,), (10,))),
         ("consumer-1", positioned(2, "committed")), BOTH],
    ),
    "nonmonotonic-send within a producer epoch": (
        [("producer-1", acked(1, (11,))),
         ("producer-1", replace(acked(2, (10,)), producer_epoch=1))],
        [("producer-1", acked(1, (11,))), ("producer-1", acked(2, (10,)))],
    ),
    "nonmonotonic-send an acknowledged send lands before the last one": (
        [("producer-1", acked(0, (10,))), ("producer-1", acked(1, (11,)))],
        [("producer-1", acked(1, (10,))), ("producer-1", acked(0, (11,)))],
    ),
    "offset-regression a commit goes backwards": (
        [("broker-1", committed(4)), ("broker-1", committed(5))],
        [("broker-1", committed(5)), ("broker-1", committed(4))],
    ),
    "skipped-by-commit a commit beyond what is processed": (
        [*READ, ("consumer-1", processed(0, 2)), ("broker-1", committed(2)), BOTH],
        [*READ, ("consumer-1", processed(0, 1)), ("broker-1", committed(2)), BOTH],
    ),
    "skipped-by-commit a hole in what is processed": (
        [*READ, ("consumer-1", processed(1, 2)), ("consumer-2", processed(0, 1)),
         ("broker-1", committed(2)), BOTH],
        [*READ, ("consumer-1", processed(1, 2)), ("broker-1", committed(2)), BOTH],
    ),
}  # fmt: skip


def judge(rows: Sequence[Row], forgiven: str = "") -> list[tuple[str, int, str]]:
    """Return (name, count, excuse) of the anomalies that the facts show."""
    trace = FakeTrace()
    delivery = Delivery(trace, lambda _key, _offset: forgiven)
    trace.record([*TOPIC, *rows])
    return [(found.name, found.count, found.expected) for found in delivery.finish()]


@pytest.mark.parametrize("story", STORIES)
def test_facts_without_the_anomaly(story: str) -> None:
    assert judge(STORIES[story][0]) == []


@pytest.mark.parametrize("story", STORIES)
def test_facts_with_the_anomaly(story: str) -> None:
    assert judge(STORIES[story][1]) == [(story.split()[0], 1, "")]


def test_a_poll_that_goes_back_delivers_twice() -> None:
    assert judge([*_polls((0, 1), (1,)), BOTH]) == [
        ("duplicate", 1, ""),
        ("nonmonotonic-poll", 1, ""),
    ]


def test_a_rebalance_forgets_the_covered_range() -> None:
    rows: list[Row] = [
        *_polls((0,)),
        ("consumer-1", positioned(1, "none")),
        ("consumer-1", positioned(5)),
        ("consumer-1", polled((5,), (15,))),
    ]
    assert judge(rows) == []


def test_a_record_below_the_log_start_is_not_lost() -> None:
    assert judge([ACKED_BOTH, ("broker-1", final([batch(2, [12])], log_start=2))]) == []


def test_an_acknowledgement_without_an_offset_counts() -> None:
    rows: list[Row] = [("producer-1", acked(-1, (10,), acks=0)), ("broker-1", final([]))]
    assert judge(rows) == [("lost-write", 1, "")]


def test_order_is_not_promised_without_idempotence() -> None:
    rows: list[Row] = [
        ("producer-1", acked(1, (10,), pid=-1)),
        ("producer-1", acked(0, (11,), pid=-1)),
    ]
    assert judge(rows) == []


def test_a_loss_outside_the_budget_is_expected() -> None:
    found = judge([ACKED_BOTH, FIRST], "last-replica-standing")
    assert found == [("lost-write", 1, "last-replica-standing")]


def test_a_loss_excuses_the_records_that_were_lost_and_no_others() -> None:
    trace = FakeTrace()
    delivery = Delivery(trace, lambda _key, offset: "lost" if offset in (-1, 1) else "")
    trace.record([*TOPIC, ACKED_BOTH, ("broker-1", final([]))])
    assert [(found.name, found.count, found.expected) for found in delivery.finish()] == [
        ("lost-write", 1, ""), ("lost-write", 1, "lost"),
    ]  # fmt: skip


@pytest.mark.parametrize("lost", ["offsets-id", T, "another-id"])
def test_what_follows_from_lost_commits_is_expected(lost: str) -> None:
    offsets = facts.TopicCreated(2, "offsets-id", "__consumer_offsets", 1, 3, 1)
    trace = FakeTrace()
    delivery = Delivery(trace, lambda key, _offset: "lost" if key == (lost, 0) else "")
    trace.record([
        *TOPIC, ("controller-1", offsets), ACKED_BOTH, AT_ZERO,
        ("consumer-1", polled((0,), (10,))), ("consumer-1", polled((0,), (10,))), BOTH,
        ("broker-1", committed(5)), ("broker-1", committed(4)),
    ])  # fmt: skip
    excuse = {"offsets-id": "lost", T: "lost"}.get(lost, "")
    assert {found.name: found.expected for found in delivery.finish()} == {
        "duplicate": excuse, "nonmonotonic-poll": "", "skipped-by-commit": excuse,
        "offset-regression": "lost" if lost == "offsets-id" else "", "unseen": excuse,
    }  # fmt: skip


def test_only_the_leader_of_the_latest_epoch_is_the_truth() -> None:
    deposed = final([batch(0, [10])], leader_epoch=0)
    leader = final([batch(0, [10]), batch(1, [11])], leader_epoch=1)
    assert judge([ACKED_BOTH, ("broker-1", leader), ("broker-2", deposed)]) == []
