"""LATEST: what a log cleaner may remove (analysis/judging/invariants/cleaned/latest.py)."""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

RECORDS = """
    -- The records of compacted topics that were neither truncated nor aborted, each with the next
    -- one of its key.
    SELECT *, lead(offset) OVER (
               PARTITION BY run, topic_id, partition, key ORDER BY offset) AS later
    FROM (SELECT run, topic_id, partition, offset, max_by(key, leader_epoch) AS key,
                 max_by(array_contains(tombstones, offset), leader_epoch) AS tombstone,
                 max_by(seq, leader_epoch) AS appended
          FROM (SELECT run, topic_id, partition, seq, leader_epoch, tombstones, key,
                       base_offset + place AS offset
                FROM KeysAppended LATERAL VIEW posexplode(keys) AS place, key)
          LEFT ANTI JOIN outdated USING (run, topic_id, partition, offset, leader_epoch)
          GROUP BY run, topic_id, partition, offset)
    LEFT ANTI JOIN (SELECT run, topic_id, partition, offset FROM holes WHERE aborted)
        USING (run, topic_id, partition, offset)"""

REMOVED = """
    SELECT run, topic_id, partition, seq, node, mapped_offset, began_ms,
           t_us, cleanings, offset
    FROM (SELECT *, try_element_at(removed, 2 * place + 1) AS low,
                 try_element_at(removed, 2 * place + 2) AS high
          FROM Cleaned
          JOIN (SELECT run, topic_id, partition, collect_list(
                           struct(seq, base_offset, next_offset,
                                  began_ms + delete_retention_ms AS horizon_ms)) AS cleanings
                FROM Cleaned GROUP BY run, topic_id, partition)
              USING (run, topic_id, partition)
          LATERAL VIEW explode(
              IF(size(removed) > 0, sequence(0, CAST(size(removed) / 2 AS INT) - 1),
                 CAST(array() AS ARRAY<INT>))) AS place)
    LATERAL VIEW explode(sequence(low, high - 1)) AS offset"""

_EXPOSED = """
    -- The highest high watermark that a leader had before each swap of segments.
    SELECT run, topic_id, partition, Cleaned.seq, max(high_watermark) AS exposed
    FROM Cleaned JOIN HighWatermark USING (run, topic_id, partition)
    WHERE HighWatermark.seq < Cleaned.seq GROUP BY run, topic_id, partition, Cleaned.seq"""

_DELETED = """
    -- Up to where records were deleted before each swap of segments.
    SELECT run, topic_id, partition, Cleaned.seq, max(LogStart.offset) AS deleted
    FROM Cleaned JOIN LogStart USING (run, topic_id, partition)
    WHERE LogStart.seq < Cleaned.seq AND reason IN ('delete-records', 'retention')
    GROUP BY run, topic_id, partition, Cleaned.seq"""

LATEST = offending(
    # A cleaner removes a record for a later one of its key that is committed and whose key it has
    # seen, or for an aborted one whose marker this replica has missed; a tombstone or a marker if a
    # cleaning that began delete.retention.ms before has met it; and what was aborted or deleted, or
    # what this replica, which has missed the marker of its commit, has as aborted.
    f"""
    SELECT found.run, found.topic_id, found.partition, seq, found.node, offset, found.key FROM (
        SELECT *, array_min(transform(
                   filter(cleanings, one -> one.seq < seq AND one.base_offset <= offset
                                            AND offset < one.next_offset),
                   one -> one.horizon_ms)) AS met
        FROM ({REMOVED})
        LEFT JOIN ({RECORDS}) USING (run, topic_id, partition, offset)
        LEFT JOIN ({_EXPOSED}) USING (run, topic_id, partition, seq)
        LEFT JOIN ({_DELETED}) USING (run, topic_id, partition, seq)
        LEFT JOIN (SELECT run, topic_id, partition, offset, marker FROM holes)
            USING (run, topic_id, partition, offset)
        LEFT SEMI JOIN KeysAppended USING (run, topic_id, partition)) AS found
    LEFT ANTI JOIN taken_otherwise AS taken
        ON taken.run = found.run AND taken.topic_id = found.topic_id
           AND taken.partition = found.partition AND taken.node = found.node
           AND taken.key = found.key AND since < seq
           AND IF(committed,
                  found.offset < taken.offset
                  AND taken.offset < least(mapped_offset, coalesce(exposed, 0)),
                  found.offset = taken.offset)
    WHERE (key IS NOT NULL
           AND NOT coalesce(found.later < least(mapped_offset, coalesce(exposed, 0)), false)
           OR key IS NULL AND coalesce(marker, false))
      AND NOT (coalesce(tombstone, true)
               AND coalesce(met <= began_ms, false))
      AND offset >= coalesce(deleted, 0)""",
    "'LATEST'",
    "'the cleaner of %s removed offset %d (%s)', node, offset, coalesce(key, 'a marker')",
)
