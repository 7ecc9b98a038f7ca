"""Share partitions whose next fetch is below the log start, by hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kafkasim.analysis.judging.progress import Progress
from kafkasim.analysis.judging.transactions.liveness.shares.stopped_shares import (
    GAP,
    ROLLED_BACK,
    StoppedShares,
)
from kafkasim.model import facts
from kafkasim.model.messages.share import ACCEPT
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run
from tests.scenarios.fact_makers import FakeTrace, Row
from tests.stateful.test_share_partition_stateful import Shares

LINE = "share group workers is at 4 of 20 in orders-0"
NODE = "broker-1"
PARTITION = ("workers", "id", 0)
AVAILABLE, ACQUIRED, ACKNOWLEDGED, ARCHIVED = 0, 1, 2, 4

TOPIC: Row = ("controller-1", facts.TopicCreated(0, "id", "orders", 1, 3, 1))


SEED = Path(__file__).parents[1] / "bugs" / "seeds" / "share-rollback-below-log-start.json"


def _loaded(node: str = NODE, epoch: int = 0) -> Row:
    return node, facts.SharePartitionLoaded(*PARTITION, epoch, 1, 0)


def _log_start(offset: int, reason: str = "log-start", node: str = NODE) -> Row:
    return node, facts.ShareStartMoved(*PARTITION, 0, offset, reason)


def _moved(state: str, reason: str, first: int = 0, last: int = 3) -> Row:
    return NODE, facts.ShareMoved("workers", "m", "id", 0, 0, first, last, state, 1, reason)


def _acquired(first: int, last: int) -> Row:
    return NODE, facts.ShareAcquired("workers", "m", "id", 0, 0, first, last, 1, 9)


def _final(
    *ranges: tuple[int, int, int], start: int = 4, gap: int = -1, node: str = NODE, epoch: int = 0
) -> Row:
    firsts, lasts, states = zip(*ranges, strict=True)
    counts = tuple([1] * len(ranges))
    of = (start, lasts[-1], gap, firsts, lasts, states, counts)
    return node, facts.FinalSharePartition(*PARTITION, epoch, *of)


def _excuse(*rows: Row, line: str = LINE) -> str:
    trace = FakeTrace()
    shares = StoppedShares(trace)
    trace.record([TOPIC, *rows])
    return Progress(trace).stall_excuse([line], lambda _: "", shares.excuse)


BELOW = (0, 3, AVAILABLE)
LATER = (4, 9, ACQUIRED)
PASSED = [_loaded(), _acquired(0, 9), _log_start(4)]
FAILED = _moved("AVAILABLE", "rolled-back")


def test_a_record_that_a_failed_write_frees_below_the_log_start_stops_its_share_partition() -> None:
    assert _excuse(*PASSED, FAILED, _final(BELOW, LATER)) == ROLLED_BACK


@pytest.mark.parametrize(
    "rows",
    [
        [*PASSED, _final(BELOW, LATER)],  # nobody knows why it is available
        [*PASSED, _moved("AVAILABLE", "lock-expired"), _final(BELOW, LATER)],
        [*PASSED, _moved("AVAILABLE", "acknowledged"), _final(BELOW, LATER)],
        [*PASSED, _moved("ACQUIRED", "rolled-back"), _final(BELOW, LATER)],  # its lock is not over
        [_loaded(), FAILED, _log_start(4), _final(BELOW, LATER)],  # the log start archives it
        [*PASSED, _moved("AVAILABLE", "rolled-back", 4, 9), _final(BELOW, LATER)],  # another one
        [*PASSED, FAILED, _final((0, 3, ARCHIVED), LATER)],
        [*PASSED, FAILED, _final((0, 3, ARCHIVED), (4, 9, AVAILABLE))],  # a fetch finds the log
        [*PASSED, FAILED, _final(BELOW, LATER, start=10)],  # all that it has fetched is below
        [_loaded(), _log_start(4, "records"), FAILED, _final(BELOW, LATER)],
        [*PASSED, FAILED],  # it is not led when the run ends
        [*PASSED, FAILED, _final(BELOW, LATER, node="broker-2")],
        [*PASSED, FAILED, _loaded("broker-2", 1), _final(BELOW, LATER)],  # it is led anew
        [*PASSED, FAILED, _loaded(), _final(BELOW, LATER)],
    ],
)
def test_a_record_below_the_log_start_has_to_be_archived_otherwise(rows: list[Row]) -> None:
    assert _excuse(*rows) == ""


READ = (6, 9, ACKNOWLEDGED)
HOLE = [_loaded(), _log_start(4)]


def test_a_gap_that_the_log_start_has_passed_is_fetched_for_ever() -> None:
    assert _excuse(*HOLE, _final(READ, gap=0)) == GAP
    assert _excuse(*HOLE, _final((0, 1, ACKNOWLEDGED), READ, gap=2)) == GAP
    next_one = [_log_start(4, node="broker-2"), _final(READ, gap=0, node="broker-2")]
    assert _excuse(*HOLE, _loaded("broker-2", 0), *next_one) == GAP


@pytest.mark.parametrize(
    "rows",
    [
        [*HOLE, _final(READ)],  # no gap
        [*HOLE, _final(READ, gap=4)],  # it begins in the log
        [*HOLE, _final((0, 4, ACKNOWLEDGED), READ, gap=0)],
        [*HOLE, _final((0, 9, ACKNOWLEDGED), gap=0)],  # nothing is missing
        [*HOLE, _final(READ, start=10, gap=0)],  # all that was read is below
        [*HOLE, _acquired(0, 5), _final(READ, gap=0)],  # it was fetched
        [_loaded(), _final(READ, start=0, gap=0)],  # the log begins there
        [_log_start(4), _loaded("broker-2", 1), _final(READ, gap=0, node="broker-2", epoch=1)],
    ],
)
def test_a_gap_has_to_be_fetched_otherwise(rows: list[Row]) -> None:
    assert _excuse(*rows) == ""


@pytest.mark.parametrize(
    "line",
    [
        LINE.replace("workers", "others"),
        LINE.replace("orders-0", "orders-1"),
        LINE.replace("orders", "payments"),
        "group workers is at 4 of 20 in orders-0 (last read by consumer-1)",
        "orders-0 has no leader",
    ],
)
def test_what_waits_for_something_else_is_not_excused(line: str) -> None:
    assert _excuse(*PASSED, FAILED, _final(BELOW, LATER), line=line) == ""


def _told(shares: Shares) -> str:
    """Return the excuse by what the share partition's leader has told."""
    rows = [(NODE, fact) for fact in [*shares.context.out, shares.share.ground_truth()]]
    trace = FakeTrace()
    judge = StoppedShares(trace)
    topic = facts.TopicCreated(0, shares.share.topic_id, "orders", 1, 3, 1)
    trace.record([("controller-1", topic), *rows])
    return judge.excuse("share group g is at 4 of 20 in orders-0")


@pytest.mark.parametrize(("passes_first", "why"), [(True, ROLLED_BACK), (False, "")])
def test_the_leader_tells_of_a_record_that_is_available_below_the_log_start(
    passes_first: bool, why: str
) -> None:
    shares = Shares()
    shares.fetch("a", 100, 1, 3)
    shares.acknowledge_range("a", 0, 3, ACCEPT)
    if passes_first:
        shares.forget_batches(1)
    shares.wait(1000)
    shares.persister_answers(ok=False)
    if not passes_first:
        shares.forget_batches(1)
    assert _told(shares) == why


@pytest.mark.parametrize(("fetches_first", "why"), [(True, ""), (False, GAP)])
def test_the_leader_tells_of_a_gap_below_the_log_start(fetches_first: bool, why: str) -> None:
    shares = Shares()
    shares.fetch("a", 100, 1, 3)
    shares.acknowledge_range("a", 4, 5, ACCEPT)
    shares.persister_answers(ok=True)
    shares.another_leader_takes_over()
    if fetches_first:
        shares.fetch("a", 100, 1, 3)
    shares.forget_batches(1)
    assert _told(shares) == why


def _deletes_nothing(scenario: dict[str, Any]) -> None:
    scenario["operations"].clear()


def _is_led_anew(scenario: dict[str, Any]) -> None:
    crash = {"kind": "crash", "node": "leader:orders-0", "at": "23500ms", "for": "3s"}
    scenario["faults"].append(crash)


@pytest.mark.slow
@pytest.mark.parametrize("twin", [_deletes_nothing, _is_led_anew])
def test_a_run_stops_by_the_deletion_and_only_until_another_leader_comes(
    twin: Callable[[dict[str, Any]], None],
) -> None:
    """The twins of a stored seed, whose share partition stops for good."""
    found = json.loads(SEED.read_text(encoding="utf-8"))
    twin(found["scenario"])
    assert run(parse(found["scenario"], SEED.name), found["seed"]).verdict == "pass"
