"""PIDSTATE on real logs: what a replay finds wrong with producers and the last stable offset."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.model.storage.log.unified_log import UnifiedLog
from kafkasim.scenarios.judging.invariants.final import check_producer_state
from tests.model.storage_support import make_log
from tests.model.test_storage_transactions import end, send


@pytest.fixture
def log() -> UnifiedLog:
    """Producer 1 has ended a transaction and raised its epoch, 2 has one open, 3 ended one whose
    marker is above the high watermark."""
    made = make_log()
    send(made, 1, 0)
    end(made, 1, committed=False, epoch=1)
    send(made, 3, 0)
    send(made, 2, 0)
    send(made, 2, 1)
    made.update_high_watermark(5)
    end(made, 3)
    return made


def found(log: Any) -> list[str]:
    violations: list[str] = []
    cluster = SimpleNamespace(violated=lambda *row: violations.append(row[0]))
    check_producer_state(cluster, 1, 1, "broker-1", ("t", 0), log)  # type: ignore[arg-type]
    return violations


def test_state_that_the_log_gives(log: UnifiedLog) -> None:
    assert log.last_stable_offset == 2
    assert found(log) == []
    log.raise_log_start(4)
    assert found(log) == []


def test_epoch_of_a_marker_was_forgotten(log: UnifiedLog) -> None:
    log.producers.entries[1].epoch = 0
    assert found(log) == ["PIDSTATE"]


def test_open_transaction_was_forgotten(log: UnifiedLog) -> None:
    log.producers.entries[2].txn_first_offset = -1
    assert found(log) == ["PIDSTATE"]


def test_a_log_may_forget_a_silent_producer_without_an_open_transaction(log: UnifiedLog) -> None:
    del log.producers.entries[1]
    assert found(log) == ["PIDSTATE"]
    log.producers.expiration_ms = 0
    assert found(log) == []
    del log.producers.entries[2]
    assert found(log) == ["PIDSTATE"]


@pytest.mark.parametrize("wrong", [1, 4, 5])
def test_last_stable_offset_is_wrong(log: UnifiedLog, wrong: int) -> None:
    log.transactions.first_unstable_offset = wrong
    assert found(log) == ["PIDSTATE"]
