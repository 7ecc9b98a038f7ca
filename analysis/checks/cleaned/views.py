"""What log cleaners have removed: the views that several checks read.

A fleet without a cleaning gets the empty ones (``NOTHING``), which cost no plan.
"""

from __future__ import annotations

CLEANED_OFFSETS = """
    -- The offsets whose records a cleaner has removed from any replica, and the first row that says
    -- so. From then on readers and replicas may lack them (judging/invariants/cleaned).
    SELECT run, topic_id, partition, offset, min(seq) AS removed_at FROM (
        SELECT run, topic_id, partition, seq, element_at(removed, 2 * place + 1) AS low,
               element_at(removed, 2 * place + 2) AS high
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

VIEWS = {
    "cleaned_offsets": CLEANED_OFFSETS,
    "cleaned_records": CLEANED_RECORDS,
    "cleaned_batches": CLEANED_BATCHES,
}

_NOBODY = "'' AS run, '' AS topic_id, 0L AS partition"

NOTHING = {
    "cleaned_offsets": f"SELECT {_NOBODY}, 0L AS offset, 0L AS removed_at WHERE false",
    "cleaned_records": f"SELECT {_NOBODY}, 0L AS record_id WHERE false",
    "cleaned_batches": f"SELECT {_NOBODY}, 0L AS base_offset, true AS gone WHERE false",
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
