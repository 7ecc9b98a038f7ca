"""Cutting a replica's log, and the checkpoints that depend on it (Kafka: LogManager.truncateTo)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkasim.model.replication.partitions.ports import RecoveryPoints
    from kafkasim.model.storage.log.unified_log import UnifiedLog


def truncate_log(
    log: UnifiedLog, kept: RecoveryPoints, cut: Callable[[int], object], offset: int
) -> int:
    """Cut the log by calling ``cut(offset)``; return where it ended before.

    A cleaning of segments that are gone is aborted; a lower recovery point is made durable.
    """
    before, recovery_point = log.log_end_offset, log.recovery_point
    active = log.segments[-1].base_offset
    cut(offset)
    if offset <= active or log.segments[-1].base_offset != active:
        kept.truncated_segments(log.tp, log.segments[-1].base_offset)
    if log.recovery_point < recovery_point:
        kept.checkpoint_recovery_points(log.tp)
    return before
