"""offset-regression, skipped-by-commit, double-owner: do commits and assignments hold?"""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

OFFSET_REGRESSION = offending(
    # A committed offset went backwards (client-caused), or the current coordinator answered an
    # OffsetFetch with less than was acknowledged (server-caused). For a topic that was deleted no
    # offset is the right answer, since its offsets go with it.
    """
    SELECT * FROM (
        SELECT *, last(IF(fetched, NULL, offset), true) OVER earlier AS promised,
               max(coordinator_epoch) OVER earlier AS known_epoch
        FROM (
            SELECT run, seq, group, topic, partition, offset, coordinator_epoch, false AS fetched
            FROM OffsetCommitted
            UNION ALL
            SELECT run, seq, group, topic, partition, offset, coordinator_epoch, true
            FROM OffsetFetched)
        WINDOW earlier AS (PARTITION BY run, group, topic, partition ORDER BY seq
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
    JOIN topics USING (run, topic)
    LEFT JOIN (SELECT DISTINCT run, topic, true AS gone FROM TopicDeleted) USING (run, topic)
    WHERE offset < promised AND coordinator_epoch >= known_epoch
          AND NOT (fetched AND offset < 0 AND coalesce(gone, false))""",
    "'offset-regression'",
    "'group %s: %s %d after %d', group, IF(fetched, 'answered', 'was set to'), offset, promised",
    "array(group)",
)

SKIPPED_BY_COMMIT = offending(
    # A group's committed offset passed records that no member ever finished processing. A gap lies
    # between the highest offset reached so far and the next range; behind the last range comes the
    # rest, up to whatever was committed. Records below the log start were deleted, and a group that
    # lagged skips them.
    """
    SELECT * FROM (
        SELECT run, topic_id, partition, group, seq,
               greatest(coalesce(reached, start), start, log_start_offset) AS low,
               least(coalesce(base_offset, committed), committed) AS high
        FROM (SELECT run, group, topic, partition, max(offset) AS committed, max(seq) AS seq
              FROM OffsetCommitted GROUP BY run, group, topic, partition)
        JOIN topics USING (run, topic)
        JOIN first_positions USING (run, topic_id, partition, group)
        JOIN (SELECT run, topic_id, partition, log_start_offset FROM final_leaders)
            USING (run, topic_id, partition)
        LEFT JOIN (
            SELECT run, topic_id, partition, group, base_offset,
                   max(offset) OVER (PARTITION BY run, topic_id, partition, group
                                     ORDER BY base_offset, offset
                                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
            FROM Processed
            UNION ALL
            SELECT run, topic_id, partition, group, 1L << 62 AS base_offset, max(offset) AS reached
            FROM Processed GROUP BY run, topic_id, partition, group)
            USING (run, topic_id, partition, group))
    WHERE low < high""",
    "'skipped-by-commit'",
    "'group %s committed past offsets %d to %d unprocessed', group, low, high - 1",
    "array(group)",
)

DOUBLE_OWNER = offending(
    # In the coordinator's view two members own one partition in one generation.
    r"""
    SELECT run, CAST(NULL AS STRING) AS topic_id,
           CAST(regexp_extract(tp, r'-(\d+)$', 1) AS BIGINT) AS partition,
           max(seq) AS seq, tp, count(DISTINCT member_id) AS owners, generation, group
    FROM GroupAssigned LATERAL VIEW explode(assignment) AS tp
    GROUP BY run, group, generation, tp HAVING count(DISTINCT member_id) > 1""",
    "'double-owner'",
    "'%s has %d owners in generation %d of group %s', tp, owners, generation, group",
    "array(group)",
)
