"""What an unclean election loses is lost legally; nothing else is."""

from __future__ import annotations

import pytest

from kafkasim.model import facts
from tests.scenarios.fact_makers import (
    P,
    Row,
    T,
    appended,
    changed,
    created,
    high_watermark,
    led,
    polled,
    registration,
)
from tests.scenarios.invariant_stories.common import ALIVE, EXPOSED, TWO
from tests.scenarios.invariant_stories.judged import judge


def test_an_unclean_leader_brings_what_it_has() -> None:
    rows: list[Row] = [
        *ALIVE, *EXPOSED,
        ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)),
        ("broker-2", led(1)),
    ]  # fmt: skip
    assert judge(rows) == []


def test_a_broker_that_hears_of_its_election_after_an_unclean_one_answers_for_nothing() -> None:
    rows: list[Row] = [
        *ALIVE, *TWO, ("controller-1", changed(9, (2,), leader=2, epoch=2, unclean=True)),
        ("broker-2", led(2)), ("broker-2", appended(0, (12,), epoch=2)),
        ("broker-2", high_watermark(1, (2,), epoch=2)), ("broker-1", led(1, 2)),
        ("controller-1", changed(10, (2,), leader=2, epoch=2)),
        ("broker-2", facts.Truncated(T, P, 2, 1, 1)),
    ]  # fmt: skip
    assert judge(rows) == []


@pytest.mark.parametrize(
    ("led_since", "found"), [([], []), ([("broker-3", led(1, 1))], ["ISRDATA"])]
)
def test_an_unclean_leader_that_never_led_may_be_elected_again(
    led_since: list[Row], found: list[str]
) -> None:
    rows: list[Row] = [
        *ALIVE, *TWO, ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)),
        ("broker-3", appended(0, (10,))), *led_since,
        ("controller-1", changed(10, (), leader=-1, epoch=2)),
        ("controller-1", changed(11, (2,), leader=2, epoch=3)), ("broker-2", led(3)),
    ]  # fmt: skip
    assert [name for name, _ in judge(rows)][:1] == found


@pytest.mark.parametrize(
    ("unclean", "epoch", "found"),
    [
        (True, 0, []),
        (False, 0, [("ISRDATA", "")]),  # nothing permits the unclean election
        (True, 1, [("ISRDATA", "")]),  # the unclean leader is not later
    ],
)
def test_a_leader_that_an_unclean_one_has_replaced_exposes_what_is_lost(
    unclean: bool, epoch: int, found: list[tuple[str, str]]
) -> None:
    rows: list[Row] = [
        *ALIVE, *EXPOSED, ("broker-1", appended(1, (11,))), ("broker-2", appended(0, (10,))),
        ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)),
        ("broker-2", led(1, 1)), ("broker-1", high_watermark(2, (1,), epoch=epoch)),
    ]  # fmt: skip
    assert judge(rows, unclean=unclean) == found


@pytest.mark.parametrize(("offset", "why"), [(0, ""), (1, "unclean-election")])
def test_an_unclean_election_changes_what_it_lost_and_nothing_else(offset: int, why: str) -> None:
    rows: list[Row] = [
        *ALIVE, *TWO, ("consumer-1", polled((0, 1), (10, 11))), ("broker-2", appended(0, (10,))),
        ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)),
        ("broker-2", led(1, 1)), ("broker-2", appended(1, (12,), epoch=1)),
        ("broker-2", high_watermark(2, epoch=1)), ("consumer-2", polled((offset,), (99,))),
    ]  # fmt: skip
    assert judge(rows) == [("STABLEREAD", why)]
    assert judge(rows, unclean=False) == [("STABLEREAD", "")]


@pytest.mark.parametrize("zookeeper", [False, True])
def test_an_unclean_leader_that_leads_on_in_its_epoch_may_lose_what_it_exposed(
    zookeeper: bool,
) -> None:
    """It is alone in the ISR, and its disk is replaced."""
    epoch: Row = ("broker-1", facts.ZkControllerWrite(2, 1, "/controller_epoch", 1))
    rows: list[Row] = [
        *([epoch] if zookeeper else []), *ALIVE, *TWO,
        ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)), ("broker-2", led(1)),
        ("broker-2", appended(0, (12,), epoch=1)), ("broker-2", appended(1, (13,), epoch=1)),
        ("broker-2", high_watermark(2, (2,), epoch=1)), ("broker-2", facts.DiskReplaced()),
        ("broker-2", facts.HostStarted(1)), ("broker-2", led(1)),
        ("broker-2", appended(0, (14,), epoch=1)), ("broker-2", high_watermark(1, (2,), epoch=1)),
    ]  # fmt: skip
    behind = "last-replica-standing" if zookeeper else ""
    lost = [("ACKED", "last")] if zookeeper else []
    assert judge(rows, "last") == [*lost, ("MATCH", behind), ("HWMONO", behind)]
    assert ("HWMONO", "") in judge(rows)


REPLACED: list[Row] = [  # broker-1 goes on alone, though broker-2 was elected uncleanly and leads
    *ALIVE, ("controller-1", registration(3, 3)), ("controller-1", created()),
    ("controller-1", changed(5, (1,))), ("broker-1", appended(0, (10,))),
    ("broker-1", high_watermark(1, (1,))),
    ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)),
    ("broker-1", appended(1, (11,))), ("broker-1", high_watermark(2, (1,))), ("broker-2", led(1)),
    ("broker-1", appended(2, (13,))), ("broker-1", high_watermark(3, (1,))),
    ("broker-2", appended(0, (12,), epoch=1)), ("broker-2", high_watermark(1, (2,), epoch=1)),
]  # fmt: skip

AGAIN: list[Row] = [
    ("controller-1", changed(10, (2, 3), leader=2, epoch=2)), ("broker-2", led(2, 1)),
]  # fmt: skip


def test_what_a_leader_exposes_after_an_unclean_election_is_lost_at_once() -> None:
    replicated: Row = ("broker-3", appended(0, (12,), epoch=1))
    assert judge([*REPLACED, replicated, *AGAIN]) == []
    lost: Row = ("consumer-1", polled((0, 1, 2), (10, 11, 13)))
    assert judge([*REPLACED, lost, replicated, *AGAIN]) == [("STABLEREAD", "unclean-election")]
    # What the elected leader exposes binds, and so does the rest where nobody allowed the election.
    assert ("ISRDATA", "") in judge([*REPLACED, *AGAIN])
    assert ("ACKED", "") in judge([*REPLACED, replicated, *AGAIN], unclean=False)


def test_what_the_unclean_leader_has_is_not_lost_by_its_election() -> None:
    told: list[Row] = [
        *ALIVE, ("controller-1", registration(3, 3)), ("controller-1", created()),
        ("controller-1", changed(5, (1,))), ("broker-1", appended(0, (10,))),
        ("broker-2", appended(0, (10,))),
        ("controller-1", changed(9, (2,), leader=2, epoch=1, unclean=True)),
        ("broker-2", led(1, 1)), ("broker-1", high_watermark(1, (1, 2))),
        ("controller-1", changed(10, (3,), leader=3, epoch=2)), ("broker-3", led(2)),
    ]  # fmt: skip
    assert ("ACKED", "") in judge(told)
