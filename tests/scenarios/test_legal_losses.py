"""What a legal loss excuses: the lost records, and what rested on them."""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from kafkasim.model.coordinator.hashing import partition_for
from tests.scenarios.fact_makers import (
    P,
    Row,
    T,
    appended,
    changed,
    committed,
    created,
    fetched,
    high_watermark,
    led,
    polled,
)
from tests.scenarios.invariant_stories.common import (
    ALIVE,
    EXPOSED,
    REPLICATED,
    TWO,
    assigned,
)
from tests.scenarios.invariant_stories.judged import judge, judged
from tests.scenarios.test_invariants import STORIES

LAST = "last-replica-standing"


def _only_broker_1(_key: tuple[str, int], node: str) -> str:
    return LAST if node == "broker-1" else ""


def test_a_loss_outside_the_budget_is_expected() -> None:
    rows = [*EXPOSED, ("broker-2", led(1))]
    assert judge(rows, LAST) == [("ACKED", LAST)]


@pytest.mark.parametrize("story", [s for s in STORIES if s.split()[0] != "ACKED"])
def test_a_fault_outside_the_budget_excuses_nothing_but_lost_records(story: str) -> None:
    before, _, bad = STORIES[story]
    assert judge([*before, *bad], LAST) == [(story.split()[0], "")]


LOST_ONE: list[Row] = [  # the last in-sync replica comes back without offset 1
    *ALIVE, *TWO, ("consumer-1", polled((0, 1), (10, 11))),
    ("broker-1", facts.LogLoaded(T, P, 0, 1, 1, False)), ("broker-1", led(1, 1)),
]  # fmt: skip


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([("consumer-1", polled((1,), (99,)))], ("STABLEREAD", LAST)),
        ([("consumer-1", polled((0,), (99,)))], ("STABLEREAD", "")),
        ([("broker-2", appended(0, (99,)))], ("MATCH", "")),
        ([("broker-1", appended(1, (99,), epoch=1)), ("broker-1", high_watermark(2, epoch=1)),
          ("broker-1", high_watermark(1, epoch=1))], ("HWMONO", "")),
        ([("broker-1", appended(1, (12,), epoch=1)), ("broker-1", high_watermark(2, epoch=1)),
          ("controller-1", changed(3, (1, 2)))], ("ISRDATA", "")),
        ([("broker-2", led(1, 1))], ("ONELEADER", "")),
    ],
)  # fmt: skip
def test_a_legal_loss_covers_the_lost_records_alone(
    rows: list[Row], found: tuple[str, str]
) -> None:
    judged = judge([*LOST_ONE, *rows], LAST)
    assert (judged[0], found in judged) == (("ACKED", LAST), True)


def test_a_leader_that_has_not_lost_data_itself_is_not_excused() -> None:
    rows = [*EXPOSED, ("broker-2", led(1))]
    invariants = judged(rows, _only_broker_1, unclean=False)
    assert [(v.name, v.expected_by) for v in invariants.finish()] == [("ACKED", "")]


HELD_ONE: list[Row] = [  # broker-2 holds the first record, and joins the ISR; the second it lacks
    *ALIVE, ("controller-1", created()), ("broker-1", led(0)),
    ("controller-1", changed(3, (1,))), ("broker-1", appended(0, (10,))),
    ("broker-2", REPLICATED), ("broker-1", high_watermark(1)),
    ("broker-1", appended(1, (11,))),
]  # fmt: skip

FORGETS: Row = ("broker-1", facts.ExpansionForgotten(T, P, 0, 3, (2,)))

LEARNS: Row = ("broker-1", facts.ExpansionForgotten(T, P, 0, 4, ()))

JOINS: Row = ("controller-1", changed(4, (1, 2)))

ELECTS: Row = ("controller-1", changed(5, (2,), leader=2, epoch=1))

UNAWAITED: Row = ("broker-1", high_watermark(2, (1,)))

FORGOT = "forgotten-expansion"


@pytest.mark.parametrize(
    ("rows", "found"),
    [
        ([FORGETS, JOINS, UNAWAITED], [("ISRDATA", FORGOT)]),
        ([FORGETS, UNAWAITED, JOINS], [("ISRDATA", FORGOT)]),
        ([UNAWAITED, JOINS], [("ISRDATA", "")]),
        ([FORGETS, LEARNS, UNAWAITED, JOINS], [("ISRDATA", "")]),
        ([JOINS, UNAWAITED], [("ISRDATA", "")]),
        ([FORGETS, LEARNS, JOINS, UNAWAITED], [("ISRDATA", "")]),
        ([("broker-1", facts.ExpansionForgotten(T, P, 0, 3, (3,))), JOINS, UNAWAITED],
         [("ISRDATA", "")]),
        ([FORGETS, JOINS, ("broker-1", high_watermark(2))], [("ISRDATA", "")]),
        ([FORGETS, JOINS, UNAWAITED, LEARNS, ("broker-1", appended(2, (12,))),
          ("broker-1", high_watermark(3, (1,)))], [("ISRDATA", FORGOT), ("ISRDATA", "")]),
        ([FORGETS, JOINS, ("broker-2", facts.Truncated(T, P, 0, 1, 0)), UNAWAITED],
         [("ISRDATA", ""), ("ISRDATA", "")]),
        ([FORGETS, JOINS, UNAWAITED, ELECTS, ("broker-2", led(1, 1))],
         [("ISRDATA", FORGOT), ("ACKED", FORGOT)]),
        ([FORGETS, JOINS, ELECTS, ("broker-2", led(1, 1)), UNAWAITED], []),
        ([JOINS, ELECTS, ("broker-2", led(1, 1)), UNAWAITED], [("ISRDATA", "")]),
    ],
)  # fmt: skip
def test_a_member_whose_expansion_was_forgotten_may_lack_what_was_exposed_meanwhile(
    rows: list[Row], found: list[tuple[str, str]]
) -> None:
    assert judge([*HELD_ONE, *rows]) == found


def test_what_a_deposed_leader_exposes_for_a_forgotten_expansion_is_lost() -> None:
    rows = [*HELD_ONE, FORGETS, JOINS, ELECTS, ("broker-2", led(1, 1)), UNAWAITED]
    losses = judged(rows, unclean=False).history.losses((T, P))
    lost = [(loss.first, loss.end, loss.reason) for loss in losses]
    assert lost == [(1, 2, FORGOT)]


@pytest.mark.parametrize("zookeeper", [False, True])
def test_only_a_zookeeper_leader_goes_on_in_its_epoch_after_a_loss(zookeeper: bool) -> None:
    """No controller remembers that it bounced; a KRaft registration is a new leader epoch."""
    epoch: Row = ("broker-1", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1))
    rows: list[Row] = [
        *([epoch] if zookeeper else []), *TWO,
        ("broker-1", facts.LogLoaded(T, P, 0, 1, 1, False)), ("broker-1", led(0, 1)),
        ("broker-1", appended(1, (99,))),
    ]  # fmt: skip
    assert judge(rows, LAST) == [("ACKED", LAST), ("MATCH", LAST if zookeeper else "")]


@pytest.mark.parametrize("zookeeper", [False, True])
def test_such_a_leader_may_lose_what_followers_had_before_it_was_committed(zookeeper: bool) -> None:
    epoch: Row = ("broker-1", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1))
    rows: list[Row] = [
        *([epoch] if zookeeper else []), *EXPOSED, ("broker-1", appended(1, (11,))),
        ("broker-1", facts.LogLoaded(T, P, 0, 1, 1, False)), ("broker-1", led(0, 1)),
        ("broker-1", appended(1, (99,))),
    ]  # fmt: skip
    assert judge(rows, LAST) == [("MATCH", LAST if zookeeper else "")]
    assert judge(rows) == [("MATCH", "")]


REOPENED: list[Row] = [  # broker-1 leads again in its epoch, without offset 1, and writes it anew
    ("broker-1", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1)), *TWO,
    ("broker-2", appended(0, (10,))), ("broker-2", appended(1, (11,))),
    ("broker-1", facts.LogLoaded(T, P, 0, 1, 1, False)), ("broker-1", led(0, 1)),
    ("broker-1", appended(1, (99,))), ("broker-1", high_watermark(2)),
]  # fmt: skip


@pytest.mark.parametrize(
    "rows",
    [
        [("broker-2", led(1, 2))],
        [("broker-1", led(1, 2)), ("broker-1", appended(2, (12,), 1)),
         ("broker-1", high_watermark(3, epoch=1)), ("broker-2", appended(2, (12,), 1)),
         ("broker-2", led(2, 3))],
    ],
    ids=["it has the first batch", "and all later ones"],
)  # fmt: skip
def test_a_follower_keeps_what_its_leader_lost_and_wrote_anew_in_its_epoch(rows: list[Row]) -> None:
    """Epochs and end offsets say that nothing diverges, so no fetch truncates it."""
    invariants = judged([*REOPENED, *rows], _only_broker_1, unclean=False)
    found = [each for each in invariants.finish() if each.name == "ACKED"]
    assert [(each.expected_by, "broker-2" in each.text) for each in found[1:]] == [(LAST, True)]


def _loss_of(key: tuple[str, int], node: str) -> list[Row]:
    """A coordinator's log loses the one record that it had exposed."""
    return [
        (node, facts.Appended(*key, 0, 0, 1, -1, -1, -1, ())),
        (node, facts.HighWatermark(*key, 0, 1, 1, (1,))),
        (node, facts.LogLoaded(*key, 0, 0, 0, False)),
        (node, facts.BecameLeader(*key, 1, 1, 0, 0, (2,))),
    ]


def test_what_a_group_was_promised_is_lost_with_records_of_its_offsets_partition() -> None:
    offsets = facts.TopicCreated(2, "offsets-id", "__consumer_offsets", 50, 3, 1)
    key = ("offsets-id", partition_for("billing", 50))
    broken: list[Row] = [
        ("broker-1", committed(5)), ("broker-1", fetched(4)),
        assigned("m1", "orders-0"), assigned("m2", "orders-0"),
    ]  # fmt: skip
    lost = _loss_of(key, "broker-1")
    promised, answered = broken[::2], broken[1::2]
    for rows, why in (
        (broken, ""), ([*promised, *lost, *answered], LAST),
        ([*lost, *promised, *answered], ""), ([*promised, *answered, *lost], ""),
    ):  # fmt: skip
        told: list[Row] = [("controller-1", offsets), *rows]
        invariants = judged(told, lambda _key, _node: LAST, unclean=False)
        found = [(v.name, v.expected_by) for v in invariants.finish() if v.name != "ACKED"]
        assert found == [("OFFSET", why), ("EXCL", why)]
