"""What log cleaners have removed: the views that several checks read.

A fleet without a cleaning gets the empty ones (``NOTHING``), which cost no plan.
"""

from __future__ import annotations

CLEANED_OFFSETS = """
    -- The offsets whose records a cleaner has removed from any replica, and the first row that says
    -- so. From then on readers and replicas may lack them (judging/invariants/cleaned).
    SELECT run, topic_id, partition, offset, min(seq) AS removed_at FROM (
        SELECT run, topic_id, partition, seq, try_element_at(removed, 2 * place + 1) AS low,
               try_element_at(removed, 2 * place + 2) AS high
        FROM Cleaned LATERAL VIEW explode(
            IF(size(removed) > 0, sequence(0, CAST(size(removed) / 2 AS INT) - 1),
               CAST(array() AS ARRAY<INT>))) AS place)
    LATERAL VIEW explode(sequence(low, high - 1)) AS offset
    GROUP BY run, topic_id, partition, offset"""

CLEANED_RECORDS = """
    -- The records that stood there.
    SELECT DISTINCT run, topic_id, partition, record_id FROM (
        SELECT run, topic_id, partition, base_offset + place AS offset, record_id
        FROM Appended
        LEFT SEMI JOIN (SELECT DISTINCT run, topic_id, partition FROM Cleaned)
            USING (run, topic_id, partition)
        LATERAL VIEW posexplode(record_ids) AS place, record_id)
    JOIN cleaned_offsets USING (run, topic_id, partition, offset)"""

CLEANED_BATCHES = """
    -- The batches in final logs of which every record may be missing in another replica.
    SELECT run, topic_id, partition, base_offset, true AS gone FROM (
        SELECT run, topic_id, partition, base_offset, next_offset,
               explode(sequence(base_offset, next_offset - 1)) AS offset
        FROM (SELECT DISTINCT run, topic_id, partition, base_offset, next_offset
              FROM FinalReplica
              LEFT SEMI JOIN (SELECT DISTINCT run, topic_id, partition FROM Cleaned)
                  USING (run, topic_id, partition)
              LATERAL VIEW inline(arrays_zip(base_offsets, next_offsets))
                  AS base_offset, next_offset))
    LEFT JOIN cleaned_offsets USING (run, topic_id, partition, offset)
    GROUP BY run, topic_id, partition, base_offset, next_offset
    HAVING count(removed_at) = next_offset - base_offset"""

MISSED = """
    -- What a replica has not copied, because another one's cleaner had removed it before
    -- (analysis/judging/copies/uncopied.py), and the row in which it went on behind that.
    SELECT run, topic_id, partition, node, offset, max(seq) AS since
    FROM (SELECT run, topic_id, partition, node, seq, explode(sequence(low, end - 1)) AS offset
          FROM (SELECT *, lag(end) OVER (
                    PARTITION BY run, topic_id, partition, node ORDER BY seq) AS low
                FROM (SELECT run, topic_id, partition, node, seq, next_offset AS end, true AS copied
                      FROM Replicated
                      UNION ALL
                      SELECT run, topic_id, partition, node, seq, next_offset, false FROM Appended
                      UNION ALL
                      SELECT run, topic_id, partition, node, seq, offset, false FROM Truncated
                      UNION ALL
                      SELECT run, topic_id, partition, node, seq, log_end_offset, false
                      FROM LogLoaded)
                LEFT SEMI JOIN (SELECT DISTINCT run, topic_id, partition FROM KeysAppended
                                LEFT SEMI JOIN Cleaned USING (run, topic_id, partition)
                                LEFT SEMI JOIN MarkerWritten USING (run, topic_id, partition))
                    USING (run, topic_id, partition))
          WHERE copied AND low < end)
    JOIN cleaned_offsets USING (run, topic_id, partition, offset)
    WHERE removed_at < seq
    GROUP BY run, topic_id, partition, node, offset"""

TAKEN_OTHERWISE = f"""
    -- The aborted records that count as committed in a replica which has missed their marker, and
    -- the committed ones that count as aborted there: the next marker of their producer that it has
    -- says so.
    WITH missed AS ({MISSED})
    SELECT run, topic_id, partition, node, key, offset, min(first) AS since,
           min_by(committed, at) AS committed
    FROM (SELECT run, topic_id, partition, leader_epoch, base_offset + place AS offset, key
          FROM KeysAppended LATERAL VIEW posexplode(keys) AS place, key)
    LEFT ANTI JOIN outdated USING (run, topic_id, partition, offset, leader_epoch)
    LEFT JOIN (SELECT run, topic_id, partition, offset, aborted FROM holes WHERE aborted)
        USING (run, topic_id, partition, offset)
    JOIN (SELECT run, topic_id, partition, leader_epoch, producer_id,
                 explode(sequence(base_offset, next_offset - 1)) AS offset
          FROM Appended LEFT SEMI JOIN missed USING (run, topic_id, partition))
        USING (run, topic_id, partition, offset, leader_epoch)
    JOIN (SELECT run, topic_id, partition, node, min(since) AS first FROM missed
          GROUP BY run, topic_id, partition, node) USING (run, topic_id, partition)
    LEFT ANTI JOIN missed USING (run, topic_id, partition, node, offset)
    JOIN (SELECT run, topic_id, partition, node, producer_id, at, committed
          FROM (SELECT run, topic_id, partition, producer_id, offset, offset AS at, leader_epoch,
                       committed FROM MarkerWritten)
          LEFT ANTI JOIN outdated USING (run, topic_id, partition, offset, leader_epoch)
          JOIN (SELECT DISTINCT run, topic_id, partition, node FROM missed)
              USING (run, topic_id, partition)
          LEFT ANTI JOIN missed USING (run, topic_id, partition, node, offset))
        USING (run, topic_id, partition, node, producer_id)
    WHERE at > offset
    GROUP BY run, topic_id, partition, node, key, offset, aborted
    HAVING min_by(committed, at) = coalesce(aborted, false)"""

MISSED_MARKERS = """
    -- The aborted records that any replica has had as committed, and since which row.
    SELECT run, topic_id, partition, offset, min(since) AS missed
    FROM taken_otherwise WHERE committed GROUP BY run, topic_id, partition, offset"""

VIEWS = {
    "cleaned_offsets": CLEANED_OFFSETS,
    "cleaned_records": CLEANED_RECORDS,
    "cleaned_batches": CLEANED_BATCHES,
    "taken_otherwise": TAKEN_OTHERWISE,
    "missed_markers": MISSED_MARKERS,
}

_NOBODY = "'' AS run, '' AS topic_id, 0L AS partition"

NOTHING = {
    "cleaned_offsets": f"SELECT {_NOBODY}, 0L AS offset, 0L AS removed_at WHERE false",
    "cleaned_records": f"SELECT {_NOBODY}, 0L AS record_id WHERE false",
    "cleaned_batches": f"SELECT {_NOBODY}, 0L AS base_offset, true AS gone WHERE false",
    "taken_otherwise": f"""
        SELECT {_NOBODY}, '' AS node, '' AS key, 0L AS offset, 0L AS since, true AS committed
        WHERE false""",
    "missed_markers": f"SELECT {_NOBODY}, 0L AS offset, 0L AS missed WHERE false",
}
"""The same where nothing was cleaned."""

FINAL_RECORDS = """
    -- What the final leaders hold, where batches have lost records: FinalCleaned tells the offsets.
    SELECT run, topic_id, partition, record_id, offset FROM (
        SELECT run, topic_id, partition, log_start_offset, record_ids,
               coalesce(record_offsets, flatten(transform(
                   arrays_zip(base_offsets, record_counts), batch ->
                   IF(batch.record_counts > 0,
                      sequence(batch.base_offsets, batch.base_offsets + batch.record_counts - 1),
                      CAST(array() AS ARRAY<BIGINT>))))) AS offsets
        FROM final_leaders
        LEFT JOIN (SELECT run, topic_id, partition, node, record_offsets FROM FinalCleaned)
            USING (run, topic_id, partition, node))
    LATERAL VIEW inline(arrays_zip(record_ids, offsets)) AS record_id, offset
    WHERE offset >= log_start_offset"""
