"""Each delivery anomaly on facts written by hand: one story that shows it, one that does not."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kafkasim.analysis.judging.delivery import CAUSED
from kafkasim.analysis.judging.source import UNCLEAN, Loss
from kafkasim.model import facts
from kafkasim.model.coordinator.hashing import partition_for
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
    tombstone,
)
from tests.scenarios.histories import Delivery, history_of
from tests.scenarios.transaction_cases import ORDER_SENT, TAKEN

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
    "offset-regression an operator deleted it while the commit waited for replicas": (
        [("broker-1", tombstone(7)), ("broker-1", committed(5, end=6)), ("broker-1", committed(4))],
        [("broker-1", tombstone(7)), ("broker-1", committed(5, end=8)), ("broker-1", committed(4))],
    ),
    "skipped-by-commit an offset that was deleted": (
        [*READ, ("consumer-1", processed(0, 2)), ("broker-1", committed(2)),
         ("broker-1", tombstone()), BOTH],
        [*READ, ("consumer-1", processed(0, 1)), ("broker-1", committed(2)),
         ("broker-1", tombstone()), BOTH],
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
    losses = [Loss(0, 1 << 60, 5, 1, forgiven)] if forgiven else []
    delivery = Delivery(trace, history_of(trace, lambda _key: losses))
    trace.record([*TOPIC, *rows])
    return [(found.name, found.count, found.expected_by) for found in delivery.finish()]


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
    delivery = Delivery(trace, history_of(trace, lambda _key: [Loss(1, 2, 5, 1, "lost")]))
    trace.record([*TOPIC, ACKED_BOTH, ("broker-1", final([]))])
    assert [(found.name, found.count, found.expected_by) for found in delivery.finish()] == [
        ("lost-write", 1, ""), ("lost-write", 1, "lost"),
    ]  # fmt: skip


def explained(rows: Sequence[Row], key: tuple[str, int], loss: Loss) -> dict[str, tuple[str, str]]:
    """Return (excuse, cause) of each anomaly that the facts show after this loss."""
    trace = FakeTrace()
    delivery = Delivery(trace, history_of(trace, lambda asked: [loss] if asked == key else []))
    trace.record([*TOPIC, *rows])
    return {found.name: (found.expected_by, found.cause) for found in delivery.finish()}


@pytest.mark.parametrize(("began_us", "excuse"), [(-1000, "lost"), (-2000, "")])
def test_a_batch_that_began_after_the_loss_was_not_lost_by_it(began_us: int, excuse: str) -> None:
    loss = Loss(0, 2, 1, began_us + 1, "lost")
    assert explained([ACKED_BOTH, FIRST], (T, 0), loss) == {"lost-write": (excuse, excuse)}


@pytest.mark.parametrize(("seq", "excuse"), [(3, "lost"), (4, "")])
def test_a_group_is_excused_if_it_was_reset_after_the_loss(seq: int, excuse: str) -> None:
    rows: list[Row] = [
        *READ, ("consumer-1", positioned(2, "none")), ("consumer-1", positioned(0, "truncation")),
        ("consumer-1", polled((0, 1), (10, 11))),
    ]  # fmt: skip
    loss = Loss(0, 2, seq, 1, "lost")
    assert explained(rows, (T, 0), loss) == {"duplicate": (excuse, "")}
    again = [row for row in rows if getattr(row[1], "reason", "") != "truncation"]
    assert explained(again, (T, 0), loss)["duplicate"] == ("", "")


@pytest.mark.parametrize(("seq", "excuse"), [(1, "lost"), (5, "")])
def test_a_client_commits_less_after_a_truncation_that_a_loss_explains(
    seq: int, excuse: str
) -> None:
    rows: list[Row] = [
        AT_ZERO, ("broker-1", committed(5)), ("consumer-1", positioned(2, "truncation")),
        ("broker-1", committed(4)),
    ]  # fmt: skip
    loss = Loss(2, 5, seq, 1, "lost")
    assert explained(rows, (T, 0), loss) == {"offset-regression": (excuse, "")}
    again = [row for row in rows if getattr(row[1], "reason", "") != "truncation"]
    assert explained(again, (T, 0), loss) == {"offset-regression": ("", "")}


def test_two_reads_differ_because_of_an_earlier_loss_only() -> None:
    rows: list[Row] = [
        AT_ZERO, ("consumer-1", polled((0,), (10,))), ("consumer-2", _other_group((0,), (99,))),
    ]  # fmt: skip
    name = "inconsistent-offsets"
    assert explained(rows, (T, 0), Loss(0, 1, 2, 1, "lost"))[name] == ("lost", "lost")
    assert explained(rows, (T, 0), Loss(0, 1, 4, 1, "lost"))[name] == ("", "")
    assert explained(rows, (T, 0), Loss(1, 2, 2, 1, "lost"))[name] == ("", "")


def test_an_unclean_election_is_a_cause_and_no_excuse() -> None:
    loss = Loss(1, 2, 1, 1, UNCLEAN)
    assert explained([ACKED_BOTH, FIRST], (T, 0), loss) == {"lost-write": ("", UNCLEAN)}
    assert explained([ACKED_BOTH, ("broker-1", final([]))], (T, 1), loss) == {
        "lost-write": ("", "")
    }
    skip = [*_polls((0,)), ("consumer-1", polled((2,), (12,)))]
    assert explained(skip, (T, 0), loss) == {"poll-skip": ("", UNCLEAN)}
    assert explained(skip, (T, 0), replace(loss, reason="lost")) == {"poll-skip": ("", "")}


def test_an_acknowledgement_by_the_leader_alone_is_a_cause() -> None:
    weak: Row = ("producer-1", acked(0, (10, 11), acks=1))
    nothing = Loss(0, 0, 0, 0, "lost")
    assert explained([weak, FIRST], (T, 0), nothing) == {"lost-write": ("", "acks")}
    assert explained([ACKED_BOTH, FIRST], (T, 0), nothing) == {"lost-write": ("", "")}


def test_an_anomaly_that_needs_a_cause_has_a_story() -> None:
    assert set(CAUSED) <= {story.split()[0] for story in STORIES} | {"nonmonotonic-poll"}
    assert "inconsistent-offsets" in CAUSED


OFFSETS = facts.TopicCreated(2, "offsets-id", "__consumer_offsets", 1, 3, 1)


@pytest.mark.parametrize(
    ("lost", "seq"), [("offsets-id", 6), ("offsets-id", 8), (T, 6), ("another-id", 6)]
)
def test_what_follows_from_lost_commits_is_expected(lost: str, seq: int) -> None:
    """A loss between a commit and what breaks it explains that; one before or after does not."""
    found = explained(
        [
            ("controller-1", OFFSETS), ACKED_BOTH, AT_ZERO, ("consumer-1", polled((0,), (10,))),
            ("broker-1", committed(5)), ("consumer-1", positioned(0, "latest")),
            ("consumer-1", polled((0,), (10,))), ("broker-1", committed(4)), BOTH,
        ],
        (lost, 0),
        Loss(0, 9, seq, 1, "lost"),
    )  # fmt: skip
    assert {name: excuse for name, (excuse, _) in found.items()} == {
        "duplicate": "lost" if (lost, seq) == ("offsets-id", 6) else "",
        "offset-regression": "lost" if (lost, seq) == ("offsets-id", 6) else "",
        "skipped-by-commit": "lost" if (lost, seq) == ("offsets-id", 6) else "",
        "unseen": "lost" if lost in ("offsets-id", T) else "",
    }


def test_only_the_leader_of_the_latest_epoch_is_the_truth() -> None:
    deposed = final([batch(0, [10])], leader_epoch=0)
    leader = final([batch(0, [10]), batch(1, [11])], leader_epoch=1)
    assert judge([ACKED_BOTH, ("broker-1", leader), ("broker-2", deposed)]) == []


@pytest.mark.parametrize("story", TAKEN)
def test_a_record_taken_for_a_duplicate_was_lost_with_its_epoch(story: str) -> None:
    rows, good, bad = TAKEN[story]
    for number, (place, loss) in enumerate([*good, *bad]):
        trace = FakeTrace()
        history = history_of(trace, lambda key, at=place, one=loss: [one] if key == at else [])
        delivery = Delivery(trace, history)
        trace.record(rows)
        (found,) = [each for each in delivery.finish() if each.name == "lost-write"]
        assert found.expected_by == (loss.reason if number < len(good) else ""), loss


@pytest.mark.parametrize("story", ORDER_SENT)
def test_what_was_taken_for_a_duplicate_says_nothing_of_the_order(story: str) -> None:
    rows, breaks = ORDER_SENT[story]
    assert ("nonmonotonic-send" in explained(rows, (T, 0), Loss(0, 0, 0, 0, ""))) == breaks


STALL = {("billing", (T, 0)): 1}


@pytest.mark.parametrize(
    ("positions", "reason", "excuse"),
    [
        (STALL, "static-leader-returned", "static-leader-returned"),
        (STALL, "", ""),
        ({("billing", (T, 0)): 2}, "static-leader-returned", ""),
        ({("audit", (T, 0)): 1}, "static-leader-returned", ""),
        ({("billing", (T, 1)): 1}, "static-leader-returned", ""),
    ],
    ids=["it waits there", "no excuse", "it was past it", "another group", "another partition"],
)
def test_a_stall_excuses_the_records_that_the_group_could_not_read(
    positions: dict[tuple[str, tuple[str, int]], int], reason: str, excuse: str
) -> None:
    trace = FakeTrace()
    delivery = Delivery(trace, history_of(trace, lambda _key: []))
    trace.record([*TOPIC, ACKED_BOTH, AT_ZERO, ("consumer-1", polled((0,), (10,))), BOTH])
    delivery.learn_stall(positions, reason)
    assert [(a.name, a.offset, a.expected_by) for a in delivery.finish()] == [("unseen", 1, excuse)]


@pytest.mark.parametrize("lost", [True, False])
def test_a_stall_excuses_a_record_only_if_each_other_group_has_a_reason_too(lost: bool) -> None:
    home = ("offsets-id", partition_for("audit", 50))
    gone = {home: [Loss(0, 5, 3, 0, "last-replica-standing")]} if lost else {}
    trace = FakeTrace()
    delivery = Delivery(trace, history_of(trace, lambda key: gone.get(key, [])))
    offsets = facts.TopicCreated(2, home[0], "__consumer_offsets", 50, 3, 1)
    other = facts.Positioned("audit", "a1", T, 0, 0, "earliest")
    trace.record(
        [
            *TOPIC,
            ("controller-1", offsets),
            ACKED_BOTH,
            AT_ZERO,
            ("consumer-2", other),
            ("consumer-1", polled((0,), (10,))),
            BOTH,
        ]
    )
    delivery.learn_stall(STALL, "static-leader-returned")
    found = [(a.name, bool(a.expected_by)) for a in delivery.finish()]
    assert found == [("unseen", lost)]
