"""One partition of a coordinator's topic under one tenure of this broker (CoordinatorContext).

A tenure begins when the broker is elected leader of the partition and ends when it resigns.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.records import Record, TopicPartition

Parked = tuple[int, int]  # connection and correlation of a request that waits for its answer
Complete = Callable[[Any, Errors, int], None]  # (argument, error, now)


class DeferredEvent:
    """Calls ``complete(argument, error, now)`` once the high watermark reaches ``end_offset``."""

    __slots__ = ("argument", "complete", "deadline_us", "end_offset")

    def __init__(
        self, end_offset: int, deadline_us: int, complete: Complete, argument: Any
    ) -> None:
        self.end_offset = end_offset
        self.deadline_us = deadline_us
        self.complete = complete
        self.argument = argument


class CoordinatorContext:
    """How far the partition's log is written, committed and answered."""

    __slots__ = (
        "deferred",
        "epoch",
        "is_active",
        "lane",
        "last_committed",
        "last_written",
        "partition",
        "pending",
        "pending_base",
        "pending_size",
        "tp",
    )

    def __init__(self, tp: TopicPartition, epoch: int, lane: str) -> None:
        self.tp = tp
        self.lane = lane  # on which everything about the partition runs
        self.partition = tp.partition
        self.epoch = epoch  # the leader epoch; a re-election of this broker raises it
        self.is_active = False  # True from the end of loading to the resignation
        self.last_written = 0  # the log end offset that the state reflects, open batch included
        self.last_committed = 0  # the high watermark, ≤ last_written once it is known
        # The open batch: records that the state reflects, and the log does not have yet.
        self.pending: list[Record] = []
        self.pending_base = 0  # the offset at which they begin
        self.pending_size = 0  # in bytes
        # End offsets rise from left to right; so do deadlines, apart from those of markers.
        self.deferred: deque[DeferredEvent] = deque()
