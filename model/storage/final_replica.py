"""The last fact of a replica: its whole log, for the checks that judge a run.

This has no counterpart in Kafka. The checks compare replicas by what they hold at the end.
"""

from __future__ import annotations

from kafkasim.model.facts import FinalCleaned, FinalReplica
from kafkasim.model.records import offsets_of
from kafkasim.model.storage.log.unified_log import UnifiedLog


def final_replica(log: UnifiedLog, leading: bool, leader_epoch: int) -> FinalReplica:
    """Return the content of ``log``; ``leading`` is what the replica believes of itself."""
    batches = [batch for segment in log.segments for batch in segment.batches]
    record_ids: list[int] = []
    counts: list[int] = []
    for batch in batches:
        before = len(record_ids)
        for record in batch.records:
            if isinstance(record.value, int):  # else it is of an internal topic
                record_ids.append(record.value)
        counts.append(len(record_ids) - before)
    return FinalReplica(
        log.topic_id,
        log.tp.partition,
        leading,
        leader_epoch,
        log.log_start_offset,
        log.high_watermark,
        log.last_stable_offset,
        log.log_end_offset,
        tuple([number for entry in log.epochs.entries for number in entry]),
        tuple([batch.base_offset for batch in batches]),
        tuple([batch.last_offset + 1 for batch in batches]),
        tuple([batch.leader_epoch for batch in batches]),
        tuple([batch.producer_id for batch in batches]),
        tuple([batch.base_sequence for batch in batches]),
        tuple(counts),
        tuple(record_ids),
    )


def final_facts(
    log: UnifiedLog, leading: bool, leader_epoch: int
) -> list[FinalCleaned | FinalReplica]:
    """Return the content of ``log``, and where its records stand if a batch has lost some."""
    found: list[FinalCleaned | FinalReplica] = [final_replica(log, leading, leader_epoch)]
    batches = [batch for segment in log.segments for batch in segment.batches]
    if all(batch.offset_deltas is None for batch in batches):
        return found
    offsets = [
        offset
        for batch in batches
        for offset, record in zip(offsets_of(batch), batch.records, strict=True)
        if isinstance(record.value, int)
    ]
    tp = log.tp
    cleaned = FinalCleaned(log.topic_id, tp.partition, leading, leader_epoch, tuple(offsets))
    return [cleaned, *found]
