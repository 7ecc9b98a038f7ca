"""The root of a standstill: what a wait depends on, and when nobody knows why it lasts."""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.analysis.judging.holes import EnteredHoles
from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.settings import Settings
from kafkasim.analysis.judging.source import Loss, PartitionKey
from kafkasim.analysis.judging.wait import DOWN, OPEN, READ, SENDS, SHORT, Wait
from kafkasim.analysis.judging.waits import Standstill
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, P, Row, T, changed, created, led

STATE = facts.TopicCreated(2, "txn", "__transaction_state", 1, 3, 2)
BEGUN: list[Row] = [
    ("controller-1", created()),
    ("controller-1", STATE),
    ("controller-1", changed(2, (1, 2))),
    ("broker-1", led(0)),
]
ENDED: Row = ("broker-3", facts.HostStopped("halt"))
BACK: Row = ("broker-3", facts.HostStarted(1))
FULL: Row = ("broker-3", facts.DiskFilled("", 1))
FAILED: Row = ("broker-3", facts.ReplicaFailed(T, P, "diverging"))
OWNED: Row = ("producer-1", facts.TransactionBegun("pay", 1, 7, 0))
EXHAUSTED: Row = ("broker-1", facts.EpochsExhausted("pay", 7, 32767, "timeout"))
SKIPPED: Row = ("broker-1", facts.VerificationSkipped(T, P, 7, 0))
MARKED: Row = ("broker-1", facts.MarkerWritten(T, P, 7, 0, True, 3, 0, 0))

ISR = Wait(SHORT, topic_id=T, partition=P, name="orders-0", detail="ISR [1, 2] of [1, 2, 3]")
HANGING = Wait(OPEN, topic_id=T, partition=P, name="orders-0", producer_id=7, offset=2)
SENDING = Wait(SENDS, "producer-1")
READING = Wait(
    READ, "consumer-1", T, P, "orders-0", "billing", offset=2, end=3,
    detail="last read by consumer-1",
)  # fmt: skip


def roots(
    rows: list[Row], waits: list[Wait], lost: dict[PartitionKey, str] | None = None
) -> list[str]:
    trace = FakeTrace()
    progress = Progress(trace)
    losses = lost or {}

    def lost_at(key: PartitionKey) -> Sequence[Loss]:
        return [Loss(0, 1, 1, 1, losses[key])] if key in losses else []

    history: Any = SimpleNamespace(
        holes=EnteredHoles(trace), losses=lost_at, excuse=lambda _: "last-replica-standing"
    )
    settings = Settings(
        transactional_ids={"producer-1": "pay"}, members={"billing": ["consumer-1"]}
    )
    standstill = Standstill(trace, history, progress, settings)
    told: list[Row] = [("world", wait.fact(0)) for wait in waits]
    trace.record([*BEGUN, *rows, *told])
    return [finding.expected_by for finding in standstill.finish()]


@pytest.mark.parametrize(
    ("rows", "waits", "expected"),
    [
        ([], [ISR], [""]),
        ([ENDED], [ISR, Wait(DOWN, "broker-3")], ["late-session", "late-session"]),
        ([FULL, ENDED], [ISR, Wait(DOWN, "broker-3")], ["", ""]),
        ([FULL, BACK, ENDED], [ISR], ["late-session"]),
        ([ENDED, BACK], [ISR], [""]),
        ([FAILED], [ISR], ["last-replica-standing"]),
        ([FAILED, BACK], [ISR], [""]),
        ([OWNED], [HANGING], [""]),
        ([OWNED, EXHAUSTED], [HANGING], ["epochs-exhausted"]),
        ([OWNED, EXHAUSTED], [SENDING], ["epochs-exhausted"]),
        ([OWNED, EXHAUSTED], [READING], [""]),
        ([OWNED, EXHAUSTED], [READING, HANGING], ["epochs-exhausted", "epochs-exhausted"]),
        ([SKIPPED], [HANGING], ["unverified-batch"]),
        ([SKIPPED, MARKED], [HANGING], [""]),
    ],
)
def test_a_wait_is_followed_to_its_root(
    rows: list[Row], waits: list[Wait], expected: list[str]
) -> None:
    assert roots(rows, waits) == expected


def test_a_loss_of_the_coordinators_partition_is_a_root() -> None:
    lost = {("txn", 0): "unclean-election"}
    assert roots([], [SENDING], lost) == ["unclean-election"]
    assert roots([], [READING], lost) == [""]


def test_a_wait_is_one_sentence() -> None:
    assert [str(wait) for wait in (ISR, HANGING, READING)] == [
        "orders-0: ISR [1, 2] of [1, 2, 3]",
        "orders-0 has an open transaction of producer id 7 from offset 2 on",
        "group billing is at 2 of 3 in orders-0 (last read by consumer-1)",
    ]
