"""Records that a leader before KIP-890 appended though their transaction had ended there."""

from __future__ import annotations

UNVERIFIED_BATCHES = """
    -- Records that had failed with an unknown outcome in a transaction, and came when the partition
    -- had its marker, of the same epoch, and had not been added again. The leader asked nobody.
    -- (analysis/judging/transactions/known/unverified.py)
    WITH places AS (
        SELECT DISTINCT run, topic_id, partition, producer_id,
               concat(topic, '-', partition) AS place
        FROM VerificationSkipped
        JOIN (SELECT DISTINCT run, topic_id, topic FROM TopicCreated) USING (run, topic_id)),
    failed AS (
        SELECT run, topic_id, partition, producer_id, record_id,
               struct(failed, begun, producer_epoch AS epoch) AS of
        FROM (SELECT run, node, topic_id, partition, record_id, seq AS failed
              FROM SendFailed LATERAL VIEW explode(record_ids) AS record_id WHERE indeterminate)
        JOIN (SELECT run, node, begun, ended, outcome, producer_id, producer_epoch
              FROM transactions) USING (run, node)
        WHERE begun < failed AND failed < ended AND outcome != 'committed'),
    came AS (
        SELECT run, topic_id, partition, producer_id, producer_epoch, appended, offset, record_id,
               max(of) AS of
        FROM (SELECT run, topic_id, partition, producer_id, producer_epoch, seq AS appended,
                     base_offset + place AS offset, record_id
              FROM Appended LEFT SEMI JOIN places USING (run, topic_id, partition, producer_id)
              LATERAL VIEW posexplode(record_ids) AS place, record_id)
        JOIN failed USING (run, topic_id, partition, producer_id, record_id)
        WHERE of.failed < appended
        GROUP BY run, topic_id, partition, producer_id, producer_epoch, appended, offset,
                 record_id),
    told AS (
        SELECT run, topic_id, partition, producer_id,
               struct(seq, 'added' AS what, producer_epoch AS epoch) AS now
        FROM (SELECT run, producer_id, producer_epoch, seq, place
              FROM TransactionState LATERAL VIEW explode(assignment) AS place
              WHERE state = 'Ongoing')
        JOIN places USING (run, producer_id, place)
        UNION ALL
        SELECT run, topic_id, partition, producer_id, struct(seq, 'marked', producer_epoch)
        FROM MarkerWritten
        UNION ALL
        SELECT run, topic_id, partition, producer_id, struct(seq, 'skipped', producer_epoch)
        FROM VerificationSkipped)
    SELECT run, topic_id, partition, offset, record_id, begun, appended
    FROM (SELECT run, topic_id, partition, producer_epoch, appended, offset, record_id,
                 of.begun AS begun, of.epoch AS epoch,
                 max(now) FILTER (WHERE now.what = 'marked') AS marked,
                 max(now) FILTER (WHERE now.what != 'skipped') AS added,
                 max(now) FILTER (WHERE now.what = 'marked' OR now.what = 'skipped'
                                      AND now.epoch = producer_epoch) AS skipped
          FROM came JOIN told USING (run, topic_id, partition, producer_id)
          WHERE now.seq < appended
          GROUP BY run, topic_id, partition, producer_id, producer_epoch, appended, offset,
                   record_id, of)
    JOIN (SELECT run, begun, min(seq) AS asked FROM transaction_rows
          WHERE what IN ('commit', 'abort') GROUP BY run, begun) USING (run, begun)
    WHERE asked < appended AND epoch = producer_epoch
        AND begun < marked.seq AND marked.epoch = producer_epoch
        AND NOT (added.what = 'added' AND added.epoch = producer_epoch)
        AND skipped.what = 'skipped'"""

NO_UNVERIFIED = """
    -- Without a leader of such a release.
    SELECT '' AS run, '' AS topic_id, 0L AS partition, 0L AS offset, 0L AS record_id, 0L AS begun,
           0L AS appended WHERE false"""

UNVERIFIED_OUTPUTS = """
    unverified AS (
        -- How many readable outputs of a group, by record, are such records.
        SELECT run, group, record_id, count(1) AS unverified
        FROM (SELECT run, topic_id, partition, offset, record_id, group FROM final_states
              JOIN (SELECT DISTINCT run, topic_id, topic AS output FROM TopicCreated)
                  USING (run, topic_id)
              JOIN processors USING (run, output) WHERE state = 'committed')
        LEFT SEMI JOIN unverified_batches USING (run, topic_id, partition, offset, record_id)
        GROUP BY run, group, record_id)"""
"""A subquery behind ``processors``."""
