"""When a host stood still, on facts written by hand."""

from __future__ import annotations

from kafkasim.analysis.judging.harm.truth.standstills import Standstills
from kafkasim.model import facts
from tests.scenarios.fact_makers import FakeTrace, Row

SECOND = 1_000_000


def _stalls(target: str) -> Row:
    return "world", facts.FaultStarted("disk-stall", target)


def _goes_on(target: str) -> Row:
    return "world", facts.FaultEnded("disk-stall", target)


def _told(*rows: Row) -> list[tuple[str, int, int]]:
    trace = FakeTrace()
    told: list[tuple[str, int, int]] = []
    Standstills(trace, lambda host, begin, end: told.append((host, begin, end)))
    trace.record(rows)
    return told


def test_a_pause_is_told_with_its_length() -> None:
    assert _told(("world", 1), ("broker-1", facts.HostPaused(2 * SECOND))) == [
        ("broker-1", SECOND, 3 * SECOND)
    ]


def test_two_stalls_of_a_disk_are_one_and_end_with_the_later() -> None:
    told = _told(
        _stalls("broker-1|broker-2"), ("world", 1), _stalls("broker-1"),
        ("world", 1), _goes_on("broker-1|broker-2"), ("world", 1), _goes_on("broker-1"),
    )  # fmt: skip
    assert told == [("broker-2", 0, 2 * SECOND), ("broker-1", 0, 3 * SECOND)]


def test_a_slow_disk_is_no_standstill() -> None:
    slow = facts.FaultStarted("slow-disk", "broker-1"), facts.FaultEnded("slow-disk", "broker-1")
    assert _told(("world", slow[0]), ("world", 1), ("world", slow[1])) == []
