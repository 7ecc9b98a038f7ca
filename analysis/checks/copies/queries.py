"""idempotent-duplicate and handover-redelivery, as analysis/judging/copies states them."""

from __future__ import annotations

from kafkasim.analysis.checks.base import AT_END, about, offending

RECORD_COPIES = """
    -- The records that a final log holds twice or more in batches of idempotent producers.
    SELECT run, topic_id, partition, record_id
    FROM (SELECT run, topic_id, partition, inline(arrays_zip(record_ids, producers))
                     AS (record_id, producer_id)
          FROM (SELECT run, topic_id, partition, record_ids,
                       flatten(transform(arrays_zip(producer_ids, record_counts), batch ->
                           array_repeat(batch.producer_ids, CAST(batch.record_counts AS INT))))
                           AS producers
                FROM final_leaders WHERE size(array_distinct(record_ids)) < size(record_ids)))
    WHERE producer_id >= 0
    GROUP BY run, topic_id, partition, record_id HAVING count(1) > 1"""

IDEMPOTENT_DUPLICATE = offending(
    # An idempotent producer's record is stored twice outside of aborted transactions. Hosts that
    # read write one value as often as they are given it, so the topics that they write are not
    # judged. A producer with a gap numbers the batches in flight there anew (KIP-360).
    """
    SELECT run, topic_id, partition, record_id, record_id AS seq, first, second,
           coalesce(again, false) AS again
    FROM (SELECT run, topic_id, partition, record_id, min(offset) AS first, max(offset) AS second
          FROM record_copies
          JOIN final_records USING (run, topic_id, partition, record_id)
          LEFT ANTI JOIN (SELECT run, topic_id, partition, offset FROM holes WHERE aborted)
              USING (run, topic_id, partition, offset)
          GROUP BY run, topic_id, partition, record_id HAVING count(1) > 1)
    LEFT ANTI JOIN (
        SELECT run, topic_id
        FROM (SELECT run, node, topic_id FROM Acked
              UNION ALL SELECT run, node, topic_id FROM SendFailed)
        LEFT SEMI JOIN Positioned USING (run, node)
        UNION ALL
        SELECT run, topic_id FROM ProcessorStarted
        JOIN (SELECT run, topic, topic_id FROM topics) USING (run, topic)) USING (run, topic_id)
    LEFT JOIN (SELECT DISTINCT run, topic_id, partition, record_id, true AS again
               FROM SequencesRewritten LATERAL VIEW explode(record_ids) AS record_id)
        USING (run, topic_id, partition, record_id)""",
    "'idempotent-duplicate'",
    "'record %d was sent once, and is at %d and %d', record_id, first, second",
    place=about("second", shown=AT_END, excused="IF(again, 'rewritten-sequences', '')"),
)

HANDOVERS = """
    -- What auto-commit acknowledged before a partition was revoked, and what poll() had given by
    -- then, of the partitions and members with such a commit. −1: nothing since the last
    -- revocation, since the position was set, or the commit failed.
    -- A client keeps and commits positions by name, so all topics of a name count together.
    SELECT run, topic_id, partition, group, member_id, seq, node, given, covered FROM (
        SELECT run, partition, group, member_id, seq, node, revoked,
               last_value(IF(given >= 0, topic_id, NULL), true) OVER earlier AS topic_id,
               last_value(given, true) OVER earlier AS given,
               last_value(covered, true) OVER earlier AS covered
        FROM (SELECT /*+ SHUFFLE_HASH(created_again) */
                     told.*, coalesce(first_id, topic_id) AS first_id
              FROM (SELECT run, topic_id, partition, group, member_id, seq, node, false AS revoked,
                           -1L AS given, CAST(NULL AS BIGINT) AS covered
                    FROM Positioned WHERE reason != 'none'
                    UNION ALL
                    SELECT run, topic_id, partition, group, member_id, seq, node, false,
                           get(offsets, size(offsets) - 1) + 1, NULL
                    FROM Polled WHERE size(offsets) > 0
                    UNION ALL
                    SELECT run, topic_id, partition, group, member_id, seq, node, false, NULL,
                           IF(error = 'NONE', offset, -1L)
                    FROM CommitResult WHERE revoking
                    UNION ALL
                    SELECT run, topic_id, partition, group, member_id, seq, node, NOT lost, -1L, -1L
                    FROM (SELECT run, group, member_id, seq, node, lost,
                                 regexp_extract(tp, '^(.*)-[0-9]+$', 1) AS topic,
                                 CAST(regexp_extract(tp, '-([0-9]+)$', 1) AS BIGINT) AS partition
                          FROM ConsumerRevoked LATERAL VIEW explode(assignment) AS tp)
                    JOIN (SELECT run, topic, topic_id FROM topics
                          LEFT ANTI JOIN created_again USING (run, topic_id)) USING (run, topic))
                  AS told
              LEFT JOIN created_again USING (run, topic_id))
        LEFT SEMI JOIN (SELECT run, coalesce(first_id, topic_id) AS first_id, partition, group,
                               member_id
                        FROM CommitResult LEFT JOIN created_again USING (run, topic_id)
                        WHERE revoking AND error = 'NONE')
            USING (run, first_id, partition, group, member_id)
        WINDOW earlier AS (PARTITION BY run, first_id, partition, group, member_id ORDER BY seq
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
    WHERE revoked AND covered >= 0 AND given > covered"""

HANDOVER_REDELIVERY = offending(
    # A member with auto-commit revoked a partition of which it had got records behind the commit
    # that was acknowledged for it (KAFKA-14196).
    "SELECT * FROM handovers",
    "'handover-redelivery'",
    "'%s of group %s got offset %d and had committed %d when it revoked the partition', node,"
    " group, given - 1, covered",
    "array(group)",
    about("covered"),
)

VIEWS = {"record_copies": RECORD_COPIES, "handovers": HANDOVERS}
"""Views for these checks, by name."""
