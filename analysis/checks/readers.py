"""What moves a group past its records: retention, resets without a reason, commits out of order.

The checks lost-to-retention, needless-reset and reordered-commit (scenarios/judging/readers).
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import RESETS_POSITION, about, offending

MOVED_MEMBERS = f"""
    -- Where auto.offset.reset, or a truncation, moved a member that had a position.
    SELECT * FROM (
        SELECT *, lag(IF(reason = 'none', CAST(NULL AS BIGINT), offset)) OVER (
                      PARTITION BY run, group, member_id, topic_id, partition ORDER BY seq)
                  AS before
        FROM (SELECT run, topic_id, partition, group, member_id, seq, node, reason, offset
              FROM Positioned
              UNION ALL
              SELECT run, topic_id, partition, group, member_id, seq, node, 'polled', position
              FROM Polled))
    WHERE {RESETS_POSITION} AND before IS NOT NULL"""

LOST_TO_RETENTION = offending(
    # auto.offset.reset moved a member forward from a position that retention had deleted, and
    # nobody of the group got the records between. Such resets are few, so their offsets are listed.
    """
    SELECT run, topic_id, partition, group, offset, min(seq) AS seq
    FROM (SELECT run, topic_id, partition, group, seq,
                 explode(sequence(before, offset - 1)) AS offset
          FROM moved_members AS moved
          LEFT SEMI JOIN (SELECT run, topic_id, partition, seq AS at, offset AS deleted
                          FROM LogStart WHERE reason = 'retention') AS starts
              ON moved.run = starts.run AND moved.topic_id = starts.topic_id
                 AND moved.partition = starts.partition AND at < moved.seq AND before < deleted
          WHERE reason IN ('earliest', 'latest') AND before < offset)
    LEFT ANTI JOIN (SELECT run, topic_id, partition, group, offset FROM polled_records)
        USING (run, topic_id, partition, group, offset)
    LEFT JOIN holes USING (run, topic_id, partition, offset)
    LEFT JOIN committed_parts USING (run, topic_id, partition, group)
    WHERE NOT coalesce(marker OR (aborted AND coalesce(only, false)), false)
    GROUP BY run, topic_id, partition, group, offset""",
    "'lost-to-retention'",
    "'group %s did not get offset %d before retention deleted it', group, offset",
    "array(group)",
)

NEEDLESS_RESET = offending(
    # A member was moved from an offset up to which its group had read, although no records below
    # it were lost and the log start was not above it. Not judged are deleted topics, old consumers
    # and users' applications, which may seek to an end.
    """
    SELECT run, topic_id, partition, group, seq, node, before, offset, reason
    FROM moved_members AS moved
    LEFT SEMI JOIN (SELECT run, topic_id, partition, group, seq AS at, position FROM Polled) AS got
        ON got.run = moved.run AND got.topic_id = moved.topic_id
           AND got.partition = moved.partition AND got.group = moved.group AND at < moved.seq
           AND position >= before
    LEFT ANTI JOIN (SELECT run, topic_id, partition, seq AS at, offset AS start
                    FROM LogStart) AS starts
        ON starts.run = moved.run AND starts.topic_id = moved.topic_id
           AND starts.partition = moved.partition AND at < moved.seq AND start > before
    LEFT ANTI JOIN (SELECT run, inline(losses) FROM runs) AS lost
        ON lost.run = moved.run AND lost.topic_id = moved.topic_id
           AND lost.partition = moved.partition AND lost.seq < moved.seq AND first < before
    LEFT ANTI JOIN (SELECT run, topic_id, seq AS at FROM TopicDeleted) AS deleted
        ON deleted.run = moved.run AND deleted.topic_id = moved.topic_id AND at < moved.seq
    LEFT ANTI JOIN (SELECT run, group FROM PartitionOwner) USING (run, group)
    LEFT ANTI JOIN (
        SELECT run, workload.group
        FROM (SELECT run, explode(from_json(get_json_object(spec, '$.workload'),
                                            'ARRAY<STRUCT<`group`: STRING, app: STRING>>'))
                              AS workload FROM runs)
        WHERE workload.app IS NOT NULL) USING (run, group)""",
    "'needless-reset'",
    "'%s was moved from offset %d to %d (%s)', node, before, offset, reason",
    "array(group)",
    about("before"),
)

COMMITS_BACK = """
    -- Commits that a coordinator stored after a higher one of the same member and generation.
    SELECT * FROM (
        SELECT run, group, topic, partition, seq, member_id, generation, offset,
               lag(offset) OVER place AS higher, lag(member_id) OVER place AS other,
               lag(generation) OVER place AS older
        FROM OffsetCommitted WHERE generation >= 0
        WINDOW place AS (PARTITION BY run, group, topic, partition ORDER BY seq))
    WHERE offset < higher AND member_id = other AND generation = older"""

REORDERED_COMMIT = offending(
    # A member's commit was stored behind its own higher one, although its position had not gone
    # back, and its application was told that each commit of this offset succeeded: no such request
    # had been given up, to arrive late.
    """
    SELECT run, topic_id, partition, group, seq, member_id, offset, higher
    FROM commits_back
    JOIN (SELECT run, topic, max_by(topic_id, seq) AS topic_id FROM TopicCreated
          GROUP BY run, topic) USING (run, topic)
    LEFT JOIN (SELECT run, topic_id, partition, group, member_id, min(offset) AS lowest
               FROM (SELECT *, max(offset) OVER (
                                PARTITION BY run, topic_id, partition, group, member_id
                                ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                                AS highest
                     FROM (SELECT run, topic_id, partition, group, member_id, seq, offset,
                                  true AS set
                           FROM Positioned WHERE reason != 'none'
                           UNION ALL
                           SELECT run, topic_id, partition, group, member_id, seq, position, false
                           FROM Polled)
                     LEFT SEMI JOIN commits_back USING (run, partition, group, member_id))
               WHERE set AND offset < highest
               GROUP BY run, topic_id, partition, group, member_id)
        USING (run, topic_id, partition, group, member_id)
    JOIN (SELECT run, group, topic, partition, member_id, generation, offset, count(1) AS times
          FROM OffsetCommitted
          GROUP BY run, group, topic, partition, member_id, generation, offset)
        USING (run, group, topic, partition, member_id, generation, offset)
    JOIN (SELECT run, group, topic, partition, member_id, generation, offset, count(1) AS successes
          FROM CommitResult JOIN (SELECT run, topic, topic_id FROM topics) USING (run, topic_id)
          WHERE error = 'NONE'
          GROUP BY run, group, topic, partition, member_id, generation, offset)
        USING (run, group, topic, partition, member_id, generation, offset)
    WHERE offset < coalesce(lowest, 1L << 62) AND successes >= times""",
    "'reordered-commit'",
    "'%s of group %s committed %d after %d, and was told so', member_id, group, offset, higher",
    "array(group)",
    about("offset"),
)

VIEWS = {"moved_members": MOVED_MEMBERS, "commits_back": COMMITS_BACK}
"""Views for these checks, by name."""
