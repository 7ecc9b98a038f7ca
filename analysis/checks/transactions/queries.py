"""Transactions: does a read_committed reader get whole, committed transactions and nothing else?"""

from __future__ import annotations

from kafkasim.analysis.checks.base import AT_END, about, offending

READS = offending(
    # A read_committed group got a record of a transaction that did not commit, or not yet.
    """
    SELECT run, topic_id, partition, seq, offset, record_id, group,
           IF(outcome = 'aborted' OR commit_asked IS NULL, 'aborted-read', 'precommitted-read')
               AS name, story
    FROM (SELECT run, topic_id, partition, seq, offset, record_id, group,
                 max_by(begun, appended) AS begun
          FROM polled_records
          JOIN committed_only USING (run, node, group)
          JOIN (SELECT run, topic_id, partition, offset, appended, begun FROM placed_records)
              USING (run, topic_id, partition, offset)
          WHERE appended < seq
          GROUP BY run, topic_id, partition, seq, offset, record_id, group)
    JOIN transactions USING (run, begun)
    WHERE outcome = 'aborted' OR commit_asked IS NULL OR coalesce(decided, 1L << 62) >= seq""",
    "name",
    "'group %s got record %d at offset %d of %s', group, record_id, offset, story",
    place=about("offset"),
)

HANGING = offending(
    # A record of a transaction stands in a final log without a marker behind it.
    """
    SELECT run, topic_id, partition, begun AS seq, offset, record_id, story
    FROM final_fates JOIN transactions USING (run, begun) WHERE state = 'open'""",
    "'hanging-transaction'",
    "'%s is open at offset %d', story, offset",
    place=about(shown=AT_END),
)

TORN = offending(
    # Some records or offsets of a transaction are readable and others are not.
    """
    SELECT run, topic_id, partition, seq, story FROM (
        SELECT run, transactions.begun AS seq, outcome,
               IF(outcome = 'aborted' AND aborted IS NULL, committed, aborted) AS first,
               format_string('%s (%s) is aborted in part', transactions.story, outcome) AS story
        FROM (SELECT run, begun,
                     min(IF(state = 'committed', struct(topic_id, partition, offset), NULL))
                         AS committed,
                     min(IF(state = 'aborted', struct(topic_id, partition, offset), NULL))
                         AS aborted
              FROM final_fates GROUP BY run, begun)
        JOIN transactions USING (run, begun)
        WHERE (aborted IS NOT NULL AND (outcome = 'committed' OR committed IS NOT NULL))
           OR (outcome = 'aborted' AND committed IS NOT NULL))
    LATERAL VIEW inline(array(first)) AS topic_id, partition, offset
    UNION ALL
    SELECT run, topic_id, partition, begun,
           format_string('%s committed without record %d', story, record_id)
    FROM (SELECT run, begun, topic_id, partition, record_id FROM transaction_rows
          WHERE what = 'sent')
    JOIN transactions USING (run, begun)
    JOIN (SELECT run, topic_id, partition FROM final_leaders WHERE log_start_offset = 0)
        USING (run, topic_id, partition)
    LEFT ANTI JOIN final_fates USING (run, topic_id, partition, record_id, begun)
    WHERE outcome = 'committed'
    UNION ALL
    SELECT run, CAST(NULL AS STRING), CAST(NULL AS BIGINT), begun,
           format_string('%s committed without offset %d', story, wanted)
    FROM (SELECT run, begun, group, topic, partition, max_by(offset, seq) AS wanted
          FROM transaction_rows WHERE what = 'offset' GROUP BY run, begun, group, topic, partition)
    JOIN transactions USING (run, begun)
    -- A coordinator that takes over finds commits in its log, and does not tell them again.
    LEFT JOIN (SELECT run, group, topic, partition, max(offset) AS highest
               FROM (SELECT run, group, topic, partition, offset FROM OffsetCommitted
                     UNION ALL SELECT run, group, topic, partition, offset FROM FinalOffset)
               GROUP BY run, group, topic, partition) USING (run, group, topic, partition)
    -- While the markers of its last transaction are under way, its offsets are not demanded.
    LEFT JOIN (SELECT run, transactional_id, sort_array(collect_list(struct(seq, state))) AS told
               FROM TransactionState GROUP BY run, transactional_id)
        USING (run, transactional_id)
    WHERE outcome = 'committed' AND coalesce(highest, -1) < wanted
        AND NOT coalesce(filter(told, one -> one.seq > commit_asked).state
                         = array('PrepareCommit'), false)""",
    "'torn-transaction'",
    "'%s', story",
    place=about(shown=AT_END),
)

ZOMBIE = offending(
    # Two producers have one producer id and epoch, or one commits after the other has begun.
    """
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq, story
    FROM (SELECT run, begun AS seq, story, struct(node, owner) AS mine,
                 first_value(struct(node, owner)) OVER (
                     PARTITION BY run, producer_id, producer_epoch ORDER BY begun) AS theirs
          FROM transactions)
    WHERE mine != theirs
    UNION ALL
    SELECT run, NULL, NULL, begun, story
    FROM (SELECT run, begun, story, outcome, commit_asked, struct(node, owner) AS mine,
                 lead(struct(node, owner)) OVER (
                     PARTITION BY run, transactional_id ORDER BY begun) AS theirs,
                 lead(begun) OVER (PARTITION BY run, transactional_id ORDER BY begun) AS next
          FROM transactions)
    WHERE mine != theirs AND outcome = 'committed' AND next < commit_asked""",
    "'zombie-producer'",
    "'%s', story",
)

OUTPUTS = offending(
    # A committed input of a processor has no readable output, or a record was written twice.
    """
    WITH processors AS (SELECT DISTINCT run, group, topics, topic AS output FROM ProcessorStarted),
    written AS (
        SELECT run, group, record_id, count(1) AS times,
               max(struct(topic_id, partition, offset)) AS place
        FROM final_states
        JOIN (SELECT DISTINCT run, topic_id, topic AS output FROM TopicCreated)
            USING (run, topic_id)
        JOIN processors USING (run, output)
        WHERE state = 'committed' GROUP BY run, group, record_id)
    SELECT run, place.topic_id AS topic_id, place.partition AS partition, record_id AS seq,
           'duplicate-output' AS name, array(group) AS groups,
           format_string('record %d was written %d times by %s', record_id, times, group) AS story
    FROM written WHERE times > 1
    UNION ALL
    SELECT run, topic_id, partition, record_id, 'lost-output', array(group),
           format_string('%s committed past record %d at offset %d without an output', group,
                         record_id, offset)
    FROM (SELECT run, topic_id, partition, record_id, offset FROM final_states
          WHERE state = 'committed')
    JOIN (SELECT DISTINCT run, topic_id, topic FROM TopicCreated) USING (run, topic_id)
    JOIN processors USING (run)
    JOIN (SELECT run, group, topic, partition, max_by(offset, seq) AS end FROM OffsetCommitted
          GROUP BY run, group, topic, partition) USING (run, group, topic, partition)
    JOIN (SELECT run, topic_id, partition, group, min(offset) AS first FROM Positioned
          WHERE reason != 'none' GROUP BY run, topic_id, partition, group)
        USING (run, topic_id, partition, group)
    LEFT ANTI JOIN written USING (run, group, record_id)
    WHERE array_contains(topics, topic) AND offset >= first AND offset < end""",
    "name",
    "'%s', story",
    "groups",
    about(shown=AT_END),
)
