"""Applications: did one fail, what have they stored outside of Kafka, what do they count?"""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

FAILED = offending(
    """
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq,
           node, exception, reason, task
    FROM ApplicationFailed""",
    "'application-failed'",
    "'%s: %s: %s in %s', node, exception, reason, task",
    # A consumer group (KIP-848) that its coordinator has lost ends its consumers.
    r"filter(array(regexp_extract(reason, '^GROUP_ID_NOT_FOUND: group (.*)$', 1)), g -> g <> '')",
)

RESULTS = offending(
    # A database that has two results of a record, or none although the group is past it: a later
    # record of the partition has one, or the group has committed a later offset.
    """
    SELECT run, topic_id, partition, group, offset, times, 0 AS seq FROM (
        SELECT run, topic_id, partition, group, offset, count(stored) AS times FROM (
            SELECT run, topic_id, partition, group, offset, 1 AS stored
            FROM FinalResults LATERAL VIEW explode(offsets) AS offset
            UNION ALL
            SELECT run, topic_id, partition, group, offset, CAST(NULL AS INT) AS stored
            FROM (SELECT run, topic_id, partition, group,
                         greatest(start, log_start_offset) AS low,
                         greatest(reached, coalesce(committed, 0)) AS high
                  FROM (SELECT run, topic_id, partition, group,
                               max(coalesce(array_max(offsets) + 1, 0)) AS reached
                        FROM FinalResults GROUP BY run, topic_id, partition, group)
                  JOIN (SELECT run, topic_id, partition, group, min(offset) AS start
                        FROM Positioned WHERE reason != 'none'
                        GROUP BY run, topic_id, partition, group)
                      USING (run, topic_id, partition, group)
                  JOIN (SELECT run, topic_id, partition, max(log_start_offset) AS log_start_offset
                        FROM FinalReplica WHERE leading GROUP BY run, topic_id, partition)
                      USING (run, topic_id, partition)
                  JOIN topics USING (run, topic_id)
                  LEFT JOIN (SELECT run, group, topic, partition, max(offset) AS committed
                             FROM OffsetCommitted GROUP BY run, group, topic, partition)
                      USING (run, group, topic, partition))
            LATERAL VIEW explode(sequence(low, greatest(low, high - 1))) AS offset
            WHERE low < high)
        GROUP BY run, topic_id, partition, group, offset)
    LEFT JOIN (SELECT run, topic_id, partition, offset, marker, aborted FROM holes)
        USING (run, topic_id, partition, offset)
    LEFT JOIN committed_parts USING (run, topic_id, partition, group)
    WHERE times > 1 OR times = 0
          AND NOT coalesce(marker OR (aborted AND coalesce(only, false)), false)""",
    "IF(times > 1, 'duplicate-result', 'lost-result')",
    "'group %s stored %d results of offset %d', group, times, offset",
    "array(group)",
)

AUDIT = offending(
    # A window of a producer in which an auditing group has not got as many records as the
    # producer's monitoring event says. A window without an event is not judged.
    """
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq, group,
           topic, source, window, published, coalesce(counted, 0) AS counted
    FROM (SELECT run, group, topic, source, window, min(seq) AS seq,
                 max_by(records, seq) AS published
          FROM AuditPublished GROUP BY run, group, topic, source, window)
    LEFT JOIN (SELECT run, group, topic, source, window, sum(records) AS counted
               FROM AuditCounted GROUP BY run, group, topic, source, window)
        USING (run, group, topic, source, window)
    WHERE published != coalesce(counted, 0)""",
    "IF(counted < published, 'audit-missing', 'audit-surplus')",
    "'group %s counted %d records of window %d of %s in %s, which says %d',"
    " group, counted, window, source, topic, published",
    "array(group)",
)
