"""EPOCHREASON on facts written by hand, at times in seconds: see test_harm.py."""

from __future__ import annotations

from typing import Any

from kafkasim.model import facts
from tests.scenarios.fact_makers import T

Timed = tuple[float, str, Any]

PID = 7


def _appended(
    t: float, base: int, sequence: int, *ids: int, epoch: int = 0, leader_epoch: int = 1
) -> Timed:
    end = base + len(ids)
    return t, "broker-1", facts.Appended(T, 0, leader_epoch, base, end, PID, epoch, sequence, ids)


def _acked(t: float, base: int, sequence: int, *ids: int, epoch: int = 0) -> Timed:
    return t, "producer-1", facts.Acked(T, 0, base, ids, -1, PID, epoch, sequence, 1000, 1)


def _failed(
    t: float, *ids: int, partition: int = 0, attempts: int = 2, node: str = "producer-1"
) -> Timed:
    return t, node, facts.SendFailed(T, partition, ids, "TIMED_OUT", True, 9000, attempts)


def _rewritten(t: float, epoch: int, *ids: int, partition: int = 0) -> Timed:
    return t, "producer-1", facts.SequencesRewritten(T, partition, PID, epoch, ids)


def _leads(t: float, start: int) -> Timed:
    return t, "broker-2", facts.BecameLeader(T, 0, 2, 2, start, 0, (1, 2))


def _loaded(t: float, end: int) -> Timed:
    return t, "broker-2", facts.LogLoaded(T, 0, 0, end, end, True)


SENT: list[Timed] = [
    (0, "producer-1", facts.HostStarted(0)),
    _appended(1, 0, 0, 10), _acked(1.1, 0, 0, 10),
]  # fmt: skip
ONCE: list[Timed] = [*SENT, _failed(2, 11), _rewritten(2.1, 1, 12)]

RAISED_STORIES: dict[str, tuple[list[Timed], list[Timed], list[Timed]]] = {
    "EPOCHREASON a batch was given up": (
        SENT, [_failed(2, 11), _rewritten(2.1, 1, 12)], [_rewritten(2.1, 1, 12)],
    ),
    "EPOCHREASON a batch of another partition was given up": (
        SENT, [_failed(2, 11, partition=1), _rewritten(2.1, 1, 12, partition=1)],
        [_failed(2, 11, partition=1), _rewritten(2.1, 1, 12)],
    ),
    "EPOCHREASON a batch that was never sent leaves no gap": (
        SENT, [_failed(2, 11, attempts=1), _rewritten(2.1, 1, 12)],
        [_failed(2, 11, attempts=0), _rewritten(2.1, 1, 12)],
    ),
    "EPOCHREASON one batch is one reason": (
        ONCE, [_failed(3, 12), _rewritten(3.1, 2, 13)], [_rewritten(3.1, 2, 13)],
    ),
    "EPOCHREASON a leader lacks what the one before had": (
        SENT, [_leads(2, 0), _rewritten(2.1, 1, 12)], [_leads(2, 1), _rewritten(2.1, 1, 12)],
    ),
    "EPOCHREASON the leader before goes on, and the present one lacks what it appends": (
        [*SENT, _leads(2, 1)], [_appended(3, 1, 1, 11), _rewritten(3.1, 1, 12)],
        [_appended(3, 1, 1, 11, leader_epoch=2), _rewritten(3.1, 1, 12)],
    ),
    "EPOCHREASON what the leader before appends in one epoch is one reason": (
        [*SENT, _leads(2, 1), _appended(3, 1, 1, 11), _rewritten(3.1, 1, 12)],
        [_appended(3.2, 2, 0, 12, epoch=1), _rewritten(3.3, 2, 13)],
        [_appended(3.2, 1, 0, 12, epoch=1, leader_epoch=2), _rewritten(3.3, 2, 13)],
    ),
    "EPOCHREASON a leader that had forgotten the producer took a later batch first": (
        SENT, [_appended(2, 1, 2, 12), _rewritten(2.1, 1, 11)],
        [_appended(2, 1, 1, 12), _rewritten(2.1, 1, 11)],
    ),
    "EPOCHREASON a leader that never knew the producer took a later batch first": (
        SENT[:1], [_appended(2, 0, 2, 12), _rewritten(2.1, 1, 11)],
        [_appended(2, 0, 0, 12), _rewritten(2.1, 1, 11)],
    ),
    "EPOCHREASON a batch that was numbered anew had been appended": (
        ONCE, [_appended(2.2, 1, 2, 12), _rewritten(3, 2, 13)],
        [_appended(2.2, 1, 0, 12, epoch=1), _rewritten(3, 2, 13)],
    ),
    "EPOCHREASON a leader has loaded its log, and knows the last of two batches only": (
        [*SENT, _appended(2, 1, 1, 11), _appended(2.1, 2, 2, 12)],
        [_loaded(3, 3), _leads(3.1, 3), _rewritten(3.2, 1, 11, 12)],
        [_leads(3.1, 3), _rewritten(3.2, 1, 11, 12)],
    ),
    "EPOCHREASON a leader has loaded its log, and one batch has no answer": (
        [*SENT, _appended(2, 1, 1, 11), _appended(2.1, 2, 2, 12), _loaded(3, 3)],
        [_leads(3.1, 3), _rewritten(3.2, 1, 11, 12)],
        [_acked(3, 1, 1, 11), _leads(3.1, 3), _rewritten(3.2, 1, 12)],
    ),
    "EPOCHREASON a leader has cut its log off, and knows the last of two batches only": (
        [*SENT, _appended(2, 1, 1, 11), _appended(2.1, 2, 2, 12)],
        [(3, "broker-2", facts.Truncated(T, 0, 1, 5, 3)), _leads(3.1, 3), _rewritten(3.2, 1, 11)],
        [(3, "broker-2", facts.Truncated(T, 0, 1, 5, 2)), _leads(3.1, 3), _rewritten(3.2, 1, 11)],
    ),
    "EPOCHREASON an epoch with nothing in flight": (
        SENT, [_failed(2, 11), _acked(3, 1, 0, 12, epoch=1)],
        [_failed(2, 11), _acked(3, 1, 0, 12, epoch=2)],
    ),
    "EPOCHREASON what another host gave up": (
        SENT, [_failed(2, 11), _acked(3, 1, 0, 12, epoch=1)],
        [_failed(2, 11, node="producer-2"), _acked(3, 1, 0, 12, epoch=1)],
    ),
    "EPOCHREASON what an earlier process gave up": (
        [_failed(0, 5), *SENT], [_failed(2, 11), _acked(3, 1, 0, 12, epoch=1)],
        [_acked(3, 1, 0, 12, epoch=1)],
    ),
    "EPOCHREASON a coordinator raises the epoch of a transactional producer": (
        SENT, [(2, "producer-1", facts.TransactionBegun("id", 1, PID, 1)),
               _acked(3, 1, 0, 12, epoch=1)],
        [(2, "producer-1", facts.TransactionBegun("id", 1, PID + 1, 1)),
         _acked(3, 1, 0, 12, epoch=1)],
    ),
}  # fmt: skip
