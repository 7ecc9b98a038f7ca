"""What groups commit, and what moves them past their records.

The checks offset-regression, skipped-by-commit, reordered-commit, vanished-offset, needless-reset
and lost-to-retention.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import RESETS_POSITION, about, offending

_KEPT = """
    -- Acknowledged commits, without those whose record stands before a tombstone in the
    -- coordinator's log: an operator deleted the offset while the commit waited for replicas.
    SELECT commits.* FROM {} AS commits
    LEFT ANTI JOIN OffsetsDeleted AS deleted
        ON commits.run = deleted.run AND commits.group = deleted.group
           AND commits.topic = deleted.topic AND commits.partition = deleted.partition
           AND deleted.seq < commits.seq AND commits.next_offset >= 0
           AND struct(commits.coordinator_epoch, commits.next_offset)
               <= struct(deleted.coordinator_epoch, deleted.next_offset)"""

_PROMISED = _KEPT.format("OffsetCommitted")

EXPIRABLE = """
    -- When a group had no members for offsets.retention.minutes: its offsets may have expired.
    SELECT run, group, t_us AS since, until, retention_us
    FROM (SELECT run, group, t_us, empty,
                 lead(t_us) OVER (PARTITION BY run, group ORDER BY seq) AS until
          FROM (SELECT *, lag(empty) OVER (PARTITION BY run, group ORDER BY seq) AS before
                FROM (SELECT run, group, seq, t_us, size(member_ids) = 0 AS empty FROM GroupState))
          WHERE before IS NULL OR before <> empty)
    JOIN broker_limits USING (run)
    WHERE empty AND coalesce(until, 1L << 62) - t_us >= retention_us"""

_NEWEST = """(SELECT run, topic, max_by(topic_id, seq) AS topic_id FROM TopicCreated
          GROUP BY run, topic)"""

OFFSET_REGRESSION = offending(
    # A committed offset went backwards (client-caused), or the current coordinator answered an
    # OffsetFetch with less than was acknowledged (server-caused). For a topic that was deleted no
    # offset is the right answer, since its offsets go with it; so it is for a group that had no
    # members for as long as offsets are retained. An operator who deletes an offset takes the
    # promise back. A commit does not go backwards from one in another topic of its name.
    f"""
    SELECT regressed.* FROM (SELECT * FROM (SELECT *, coalesce(of, newest) AS topic_id FROM (
        SELECT *, last(IF(fetched, NULL, offset), true) OVER earlier AS promised,
               last(IF(fetched, NULL, seq), true) OVER earlier AS promise,
               last(IF(fetched, NULL, t_us), true) OVER earlier AS promised_at,
               last(of, true) OVER earlier AS promised_of,
               max(coordinator_epoch) OVER earlier AS known_epoch
        FROM (
            SELECT run, seq, t_us, group, topic, partition, offset, coordinator_epoch,
                   false AS fetched, topic_id AS of
            FROM ({_KEPT.format("commits_of")})
            UNION ALL
            SELECT run, seq, t_us, group, topic, partition, offset, coordinator_epoch, true, NULL
            FROM OffsetFetched
            UNION ALL
            SELECT run, seq, t_us, group, topic, partition, -1, coordinator_epoch, false, NULL
            FROM OffsetsDeleted)
        WINDOW earlier AS (PARTITION BY run, group, topic, partition ORDER BY seq
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
    JOIN (SELECT run, topic, topic_id AS newest FROM {_NEWEST}) USING (run, topic))
    LEFT JOIN (SELECT DISTINCT run, topic, true AS gone FROM TopicDeleted) USING (run, topic)
    LEFT JOIN resets USING (run, topic_id, partition, group)
    WHERE offset < promised AND coordinator_epoch >= known_epoch
          AND (fetched OR (offset >= 0 AND of = promised_of AND of != ''))
          AND NOT (fetched AND offset < 0 AND coalesce(gone, false))) AS regressed
    LEFT ANTI JOIN ({EXPIRABLE}) AS expirable
        ON regressed.run = expirable.run AND regressed.group = expirable.group
           AND regressed.fetched AND regressed.offset < 0
           AND regressed.t_us - since >= retention_us
           AND regressed.promised_at <= coalesce(until, regressed.t_us)""",
    "'offset-regression'",
    "'group %s: %s %d after %d', group, IF(fetched, 'answered', 'was set to'), offset, promised",
    "array(group)",
    about(promise="promise", reset="IF(fetched, -1, coalesce(reset, -1))"),
)

SKIPPED_BY_COMMIT = offending(
    # A group's committed offset passed records that no member ever finished processing. A gap lies
    # between the highest offset reached so far and the next range; behind the last range comes the
    # rest, up to whatever was committed. Records below the log start were deleted, and a group that
    # lagged skips them. A gap without a record for the group is none, nor is one whose records were
    # appended later, after a truncation, or had been cleaned away. One that stands where a member
    # had found nothing when it passed over it was not skipped, nor one before the position at which
    # the group came from another topic of the name.
    """
    SELECT run, topic_id, partition, group, seq, reset, missed
    FROM (SELECT * FROM (
        SELECT run, topic_id, partition, group, seq, reset,
               greatest(coalesce(reached, start), start, log_start_offset) AS low,
               least(coalesce(base_offset, committed), committed) AS high
        FROM (SELECT run, group, topic_id, partition, max(offset) AS committed, max(seq) AS seq
              FROM commits_of GROUP BY run, group, topic_id, partition)
        JOIN first_positions USING (run, topic_id, partition, group)
        JOIN (SELECT run, topic_id, partition, log_start_offset FROM final_leaders)
            USING (run, topic_id, partition)
        LEFT JOIN (
            SELECT * FROM (
                SELECT run, topic_id, partition, group, base_offset,
                       max(offset) OVER (PARTITION BY run, topic_id, partition, group
                                         ORDER BY base_offset, offset
                                         ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                           AS reached
                FROM Processed)
            WHERE reached IS NULL OR base_offset > reached
            UNION ALL
            SELECT run, topic_id, partition, group, 1L << 62 AS base_offset, max(offset) AS reached
            FROM Processed GROUP BY run, topic_id, partition, group)
            USING (run, topic_id, partition, group)
        LEFT JOIN resets USING (run, topic_id, partition, group))
        LATERAL VIEW explode(sequence(low, greatest(low, high - 1))) AS missed WHERE low < high)
    LEFT JOIN (SELECT run, topic_id, partition, offset AS missed, marker, aborted FROM holes)
        USING (run, topic_id, partition, missed)
    LEFT JOIN committed_parts USING (run, topic_id, partition, group)
    LEFT JOIN (SELECT run, topic_id, partition, offset AS missed, max_by(appended, age) AS appended
               FROM contents GROUP BY run, topic_id, partition, offset)
        USING (run, topic_id, partition, missed)
    LEFT JOIN (SELECT run, topic_id, partition, offset AS missed, removed_at FROM cleaned_offsets)
        USING (run, topic_id, partition, missed)
    LEFT JOIN (SELECT run, topic_id, partition, group, missed, min(seq) AS over_at
               FROM (SELECT *, explode(sequence(expected, offset - 1)) AS missed FROM poll_gaps
                     WHERE expected < offset AND NOT skips)
               GROUP BY run, topic_id, partition, group, missed)
        USING (run, topic_id, partition, group, missed)
    LEFT JOIN (SELECT run, topic_id, partition, group, offset AS missed, gone_at FROM gone_over)
        USING (run, topic_id, partition, group, missed)
    JOIN (SELECT run, group, topic_id, partition, offset AS end, seq AS passed FROM commits_of)
        USING (run, group, topic_id, partition)
    WHERE NOT coalesce(marker OR (aborted AND coalesce(only, false)), false) AND end > missed
    GROUP BY run, topic_id, partition, group, seq, reset, missed, appended, removed_at, over_at,
             gone_at
    HAVING coalesce(appended, -1) <= max(passed) AND NOT coalesce(over_at < max(passed), false)
           AND NOT coalesce(removed_at < max(passed), false)
           AND NOT coalesce(gone_at < max(passed), false)""",
    "'skipped-by-commit'",
    "'group %s committed past offset %d unprocessed', group, missed",
    "array(group)",
    about("missed", reset="coalesce(reset, -1)"),
)

VANISHED_OFFSET = offending(
    # An acknowledged commit is with the coordinator when the run ends: with the broker that loaded
    # the group's partition last, in the highest leader epoch, and has neither stopped nor resigned
    # since. The bound is offsets.retention.minutes; an operator may have deleted the offset, or
    # the topic.
    f"""
    WITH ended AS (
        SELECT run, max(seq) AS seq, max_by(t_us, seq) AS t_us FROM Phase WHERE phase = 'end'
        GROUP BY run
    ), loaded AS (
        SELECT run, partition AS home, max(struct(leader_epoch, node, seq)) AS last
        FROM CoordinatorLoaded WHERE loaded GROUP BY run, partition
    ), coordinators AS (
        SELECT loaded.run, loaded.home, last.node
        FROM loaded LEFT JOIN (SELECT run, node, max(seq) AS stopped FROM HostStopped
                               GROUP BY run, node) AS hosts
            ON loaded.run = hosts.run AND last.node = hosts.node
        LEFT JOIN (SELECT run, partition AS home, node, max(seq) AS resigned
                   FROM CoordinatorLoaded WHERE NOT loaded GROUP BY run, partition, node) AS left_it
            ON loaded.run = left_it.run AND loaded.home = left_it.home
               AND last.node = left_it.node
        WHERE coalesce(stopped, -1) < last.seq AND coalesce(resigned, -1) < last.seq
    ), commits AS (
        SELECT run, group, topic, number, max_by(struct(seq, t_us, what), seq) AS last
        FROM (SELECT run, group, topic, partition AS number, seq, t_us, 'committed' AS what
              FROM ({_PROMISED}) WHERE coordinator_epoch >= 0
              UNION ALL
              SELECT run, group, topic, partition, seq, t_us, 'deleted' FROM OffsetsDeleted)
        GROUP BY run, group, topic, number)
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, ended.seq,
           group, topic, number, node, commits.last.seq AS promise
    FROM commits
    JOIN (SELECT run, group, partition AS home FROM homes) USING (run, group)
    JOIN coordinators USING (run, home)
    JOIN ended USING (run)
    JOIN broker_limits USING (run)
    LEFT ANTI JOIN (SELECT run, node, group, topic, partition AS number FROM FinalOffset)
        USING (run, node, group, topic, number)
    LEFT ANTI JOIN (SELECT run, topic FROM TopicDeleted) USING (run, topic)
    WHERE commits.last.what = 'committed' AND ended.t_us - commits.last.t_us < retention_us""",
    "'vanished-offset'",
    "'%s, the coordinator of group %s, has no offset of %s-%d, which was committed and neither"
    " expired nor deleted', node, group, topic, number",
    "array(group)",
    about(promise="promise"),
)

MOVED_MEMBERS = f"""
    -- Where auto.offset.reset, or a truncation, moved a member that had a position there. It has
    -- one position in all topics of a name: none in the others than it was in last.
    SELECT * FROM (
        SELECT *, lag(topic_id) OVER reader AS last_in,
               lag(IF(reason = 'none', CAST(NULL AS BIGINT), offset)) OVER reader AS before
        FROM (SELECT /*+ SHUFFLE_HASH(created_again) */
                     told.*, coalesce(first_id, topic_id) AS first_id
              FROM (SELECT run, topic_id, partition, group, member_id, seq, node, reason, offset
                    FROM Positioned
                    UNION ALL
                    SELECT run, topic_id, partition, group, member_id, seq, node, 'polled', position
                    FROM Polled) AS told
              LEFT JOIN created_again USING (run, topic_id))
        WINDOW reader AS (PARTITION BY run, group, member_id, first_id, partition ORDER BY seq))
    WHERE {RESETS_POSITION} AND before IS NOT NULL AND last_in = topic_id"""

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
    LEFT ANTI JOIN cleaned_offsets USING (run, topic_id, partition, offset)
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
    # and users' applications, which may seek to an end. A member that has left a replica takes its
    # answer for the leader's, and the replica may have come back with a shorter log.
    """
    WITH fetches AS (
        SELECT run, node, topic_id, partition, seq, replica,
               lead(seq) OVER (PARTITION BY run, node, topic_id, partition ORDER BY seq) AS until
        FROM ReadReplica
    ), shorter AS (
        SELECT named.run, named.node, named.topic_id, named.partition, follows.seq AS at,
               log_end_offset
        FROM (SELECT run, node, topic_id, partition, replica, min(seq) AS since
              FROM ReadReplica WHERE replica >= 0
              GROUP BY run, node, topic_id, partition, replica) AS named
        JOIN BecameFollower AS follows
            ON follows.run = named.run AND follows.topic_id = named.topic_id
               AND follows.partition = named.partition
               AND follows.node = concat('broker-', replica) AND since < follows.seq
    ), answered AS (
        SELECT moved.run, moved.topic_id, moved.partition, moved.seq
        FROM moved_members AS moved
        LEFT SEMI JOIN (SELECT * FROM fetches WHERE replica = -1) AS back
            ON back.run = moved.run AND back.node = moved.node AND back.topic_id = moved.topic_id
               AND back.partition = moved.partition AND back.seq < moved.seq
               AND coalesce(until > moved.seq, true)
        LEFT SEMI JOIN shorter
            ON shorter.run = moved.run AND shorter.node = moved.node
               AND shorter.topic_id = moved.topic_id AND shorter.partition = moved.partition
               AND at < moved.seq AND log_end_offset < before)
    SELECT run, topic_id, partition, group, seq, node, before, offset, reason
    FROM moved_members AS moved
    LEFT ANTI JOIN answered USING (run, topic_id, partition, seq)
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
    # had been given up, to arrive late. A position is that of a name, whichever topic has it.
    f"""
    SELECT run, topic_id, partition, group, seq, member_id, offset, higher
    FROM commits_back
    JOIN {_NEWEST} USING (run, topic)
    LEFT JOIN (SELECT run, topic, partition, group, member_id, min(offset) AS lowest
               FROM (SELECT *, max(offset) OVER (
                                PARTITION BY run, topic, partition, group, member_id
                                ORDER BY seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                                AS highest
                     FROM (SELECT run, topic_id, partition, group, member_id, seq, offset,
                                  true AS set
                           FROM Positioned WHERE reason != 'none'
                           UNION ALL
                           SELECT run, topic_id, partition, group, member_id, seq, position, false
                           FROM Polled)
                     JOIN (SELECT run, topic, topic_id FROM topics) USING (run, topic_id)
                     LEFT SEMI JOIN commits_back USING (run, topic, partition, group, member_id))
               WHERE set AND offset < highest
               GROUP BY run, topic, partition, group, member_id)
        USING (run, topic, partition, group, member_id)
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
