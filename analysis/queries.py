"""Queries on delivery and ISR guarantees, to read, copy and vary.

    with views(open_stored(spark, "out/fleet"), VIEWS):
        spark.sql(QUERIES["lost-write"]).show()

Each is over one view for each kind of fact (``model/facts``) and the views of :data:`VIEWS`, and
returns a row for each violation, or for each figure. They say what happened. Which of it Kafka
allows, because of a loss, a setting or a known defect, is said by the judges: a row of the view
``findings``, under the name in :data:`FINDINGS`, with ``expected_by``.
"""

from __future__ import annotations

VIEWS = {
    "final_leaders": """
    -- The log that counts at the end of a run: that of the leader of the highest epoch.
    SELECT * FROM (
        SELECT *, row_number() OVER (
            PARTITION BY run, topic_id, partition ORDER BY leader_epoch DESC) AS place
        FROM FinalReplica WHERE leading)
    WHERE place = 1""",
    "partition_changes": """
    -- The committed changes, each metadata record once: a new controller records them again.
    SELECT *, lag(isr) OVER (
               PARTITION BY run, topic_id, partition ORDER BY partition_epoch) AS before
    FROM (
        SELECT *, row_number() OVER (
            PARTITION BY run, topic_id, partition, partition_epoch ORDER BY seq) AS times
        FROM PartitionChanged)
    WHERE times = 1""",
    "clock": """
    -- When each run was ready, and when it ended.
    SELECT run, max(IF(phase = 'ready', t_us, NULL)) AS ready_us, max(t_us) AS end_us
    FROM Phase GROUP BY run""",
    "topics": """
    -- needed: the minimum of in-sync replicas with which the topic was created.
    SELECT DISTINCT run, topic, topic_id, least(min_isr, replication_factor) AS needed
    FROM TopicCreated""",
    "partition_spans": """
    -- The states of each partition: how many seconds each lasted, from ready on, until the next
    -- one, the end of its topic or of the run.
    SELECT changes.*, needed, topics.topic, ready_us,
           greatest(0, least(end_us, coalesce(lead(t_us) OVER in_order, gone, end_us))
                       - greatest(t_us, ready_us)) / 1e6 AS lasted
    FROM partition_changes AS changes
    JOIN clock USING (run)
    JOIN topics USING (run, topic_id)
    LEFT JOIN (SELECT run, topic_id, min(t_us) AS gone FROM TopicDeleted GROUP BY run, topic_id)
        USING (run, topic_id)
    WINDOW in_order AS (PARTITION BY run, topic_id, partition ORDER BY partition_epoch)""",
}
"""Views that several queries read, by name, each after those that it reads itself."""

QUERIES = {
    "lost-write": """
    -- A record was acknowledged, and the final log does not hold it. Records below the log start
    -- were deleted. In a compacted partition a later record of the key may stand for it.
    SELECT run, topic_id, partition, record_id, offset
    FROM (SELECT run, topic_id, partition, record_id,
                 IF(base_offset < 0, -1, base_offset + place) AS offset
          FROM Acked LATERAL VIEW posexplode(record_ids) AS place, record_id)
    JOIN (SELECT run, topic_id, partition, log_start_offset FROM final_leaders)
        USING (run, topic_id, partition)
    LEFT ANTI JOIN (SELECT run, topic_id, partition, explode(record_ids) AS record_id
                    FROM final_leaders) USING (run, topic_id, partition, record_id)
    LEFT ANTI JOIN Cleaned USING (run, topic_id, partition)
    WHERE offset < 0 OR offset >= log_start_offset""",
    "stored-twice": """
    -- The final log holds a record twice: its producer sent it again, without idempotence.
    SELECT run, topic_id, partition, record_id, count(1) AS copies
    FROM final_leaders LATERAL VIEW explode(record_ids) AS record_id
    GROUP BY run, topic_id, partition, record_id HAVING count(1) > 1""",
    "redelivered": """
    -- A group got a record twice: at-least-once delivery may do so after each rebalance.
    SELECT run, topic_id, partition, group, offset, count(1) AS times
    FROM Polled LATERAL VIEW explode(offsets) AS offset
    GROUP BY run, topic_id, partition, group, offset HAVING count(1) > 1""",
    "inconsistent-offsets": """
    -- Consumers read two different records at one offset.
    SELECT run, topic_id, partition, offset, collect_set(record_id) AS records
    FROM Polled LATERAL VIEW inline(arrays_zip(offsets, record_ids)) AS offset, record_id
    GROUP BY run, topic_id, partition, offset HAVING count(DISTINCT record_id) > 1""",
    "nonmonotonic-poll": """
    -- A poll returned a lower offset than its consumer's position, which nobody had set back.
    SELECT run, topic_id, partition, group, member_id, seq, offset, before
    FROM (SELECT *, lag(position) OVER (
              PARTITION BY run, topic_id, partition, group, member_id ORDER BY seq) AS before
          FROM (SELECT run, topic_id, partition, group, member_id, seq, get(offsets, 0) AS offset,
                       position FROM Polled
                UNION ALL
                SELECT run, topic_id, partition, group, member_id, seq, NULL, offset
                FROM Positioned))
    WHERE offset < before""",
    "nonmonotonic-send": """
    -- Two acknowledged batches of an idempotent producer lie in another order than they were sent.
    SELECT run, topic_id, partition, producer_id, base_sequence, base_offset, before
    FROM (SELECT *, lag(base_offset) OVER (
              PARTITION BY run, topic_id, partition, producer_id, producer_epoch
              ORDER BY base_sequence) AS before
          FROM Acked WHERE base_offset >= 0 AND producer_id >= 0)
    WHERE base_offset < before""",
    "offset-regression": """
    -- A group's committed offset moved back, other than by being deleted.
    SELECT run, group, topic, partition, seq, offset, before
    FROM (SELECT *, lag(offset) OVER (
              PARTITION BY run, group, topic, partition ORDER BY seq) AS before
          FROM (SELECT run, group, topic, partition, seq, offset FROM OffsetCommitted
                UNION ALL
                SELECT run, group, topic, partition, seq, NULL FROM OffsetsDeleted))
    WHERE offset < before""",
    "one-leader-per-epoch": """
    -- Two brokers led a partition in one leader epoch.
    SELECT run, topic_id, partition, leader_epoch, collect_set(node) AS leaders
    FROM BecameLeader
    GROUP BY run, topic_id, partition, leader_epoch HAVING count(DISTINCT node) > 1""",
    "high-watermark-monotonic": """
    -- A leader's high watermark fell within its epoch.
    SELECT run, topic_id, partition, seq, node, high_watermark, before
    FROM (SELECT *, lag(high_watermark) OVER (
              PARTITION BY run, topic_id, partition, leader_epoch, node ORDER BY seq) AS before
          FROM HighWatermark)
    WHERE high_watermark < before""",
    "high-watermark-min-isr": """
    -- The high watermark rose although fewer replicas than min.insync.replicas had the records.
    SELECT run, topic_id, partition, seq, node, high_watermark, acknowledged, min_isr
    FROM HighWatermark WHERE size(acknowledged) < min_isr""",
    "clean-leader-holds-exposed": """
    -- A leader's log ends below a high watermark that was exposed since the last unclean election.
    SELECT run, topic_id, partition, seq, node, leader_epoch, start_offset, exposed
    FROM (SELECT *, max(high_watermark) OVER (
              PARTITION BY run, topic_id, partition, unclean ORDER BY seq) AS exposed
          FROM (SELECT *, count_if(what = 'unclean') OVER (
                    PARTITION BY run, topic_id, partition ORDER BY seq) AS unclean
                FROM (SELECT run, topic_id, partition, seq, node, leader_epoch, 'leads' AS what,
                             start_offset, NULL AS high_watermark FROM BecameLeader
                      UNION ALL
                      SELECT run, topic_id, partition, seq, node, leader_epoch, 'exposes',
                             NULL, high_watermark FROM HighWatermark
                      UNION ALL
                      SELECT run, topic_id, partition, seq, node, leader_epoch, 'unclean',
                             NULL, NULL FROM partition_changes WHERE unclean)))
    WHERE start_offset < exposed""",
    "isr-members-eligible": """
    -- A leader is outside the ISR, or a fenced or stopping broker joins it.
    SELECT run, topic_id, partition, partition_epoch, leader AS broker
    FROM partition_changes WHERE leader != -1 AND NOT array_contains(isr, leader)
    UNION ALL
    SELECT run, topic_id, partition, partition_epoch, broker
    FROM (SELECT *, last_value(eligible, true) OVER (
              PARTITION BY run, broker ORDER BY seq) AS known
          FROM (SELECT run, seq, topic_id, partition, partition_epoch, NULL AS eligible,
                       explode(array_except(isr, coalesce(before, array()))) AS broker
                FROM partition_changes WHERE reason != 'created'
                UNION ALL
                SELECT run, seq, NULL, NULL, NULL, NOT fenced AND NOT shutting_down, broker
                FROM BrokerRegistration))
    WHERE topic_id IS NOT NULL AND NOT known""",
    "logs-agree": """
    -- Final logs of two replicas have different batches at one offset and leader epoch. Cleaners
    -- cut batches of compacted partitions differently.
    SELECT run, topic_id, partition, base_offset, epoch, collect_set(node) AS replicas
    FROM (SELECT * FROM FinalReplica LEFT ANTI JOIN Cleaned USING (run, topic_id, partition))
    LATERAL VIEW inline(arrays_zip(
        base_offsets, next_offsets, batch_epochs, producer_ids, base_sequences))
        AS base_offset, next_offset, epoch, producer_id, sequence
    GROUP BY run, topic_id, partition, base_offset, epoch
    HAVING count(DISTINCT next_offset, producer_id, sequence) > 1""",
    "isr-changes": """
    -- How often members left or joined an ISR, and why.
    SELECT run, topic, reason, sum(size(array_except(before, isr))) AS have_left,
           sum(size(array_except(isr, before))) AS have_joined
    FROM partition_changes JOIN topics USING (run, topic_id)
    WHERE array_sort(before) != array_sort(isr)
    GROUP BY run, topic, reason""",
    "without-service": """
    -- How many partition seconds a topic was without a leader, or below min.insync.replicas.
    SELECT run, topic, sum(IF(leader = -1, lasted, 0)) AS leaderless_s,
           sum(IF(leader != -1 AND size(isr) < needed, lasted, 0)) AS under_min_isr_s
    FROM partition_spans GROUP BY run, topic""",
}
"""The queries, by name."""

FINDINGS = {
    "lost-write": "lost-write",
    "stored-twice": "duplicate",
    "redelivered": "duplicate",
    "inconsistent-offsets": "inconsistent-offsets",
    "nonmonotonic-poll": "nonmonotonic-poll",
    "nonmonotonic-send": "nonmonotonic-send",
    "offset-regression": "offset-regression",
    "one-leader-per-epoch": "ONELEADER",
    "high-watermark-monotonic": "HWMONO",
    "high-watermark-min-isr": "MINISR",
    "clean-leader-holds-exposed": "ACKED",
    "isr-members-eligible": "ISRELIG",
    "logs-agree": "MATCH",
}
"""The judges' findings about the same guarantee, by the name of the query."""
