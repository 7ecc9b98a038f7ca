"""Do commits and assignments hold?

The checks offset-regression, skipped-by-commit, vanished-offset, double-owner and early-handover.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import about, offending

OFFSET_REGRESSION = offending(
    # A committed offset went backwards (client-caused), or the current coordinator answered an
    # OffsetFetch with less than was acknowledged (server-caused). For a topic that was deleted no
    # offset is the right answer, since its offsets go with it. An operator who deletes an offset
    # takes the promise back.
    """
    SELECT * FROM (
        SELECT *, last(IF(fetched, NULL, offset), true) OVER earlier AS promised,
               last(IF(fetched, NULL, seq), true) OVER earlier AS promise,
               max(coordinator_epoch) OVER earlier AS known_epoch
        FROM (
            SELECT run, seq, group, topic, partition, offset, coordinator_epoch, false AS fetched
            FROM OffsetCommitted
            UNION ALL
            SELECT run, seq, group, topic, partition, offset, coordinator_epoch, true
            FROM OffsetFetched
            UNION ALL
            SELECT run, seq, group, topic, partition, -1, coordinator_epoch, false
            FROM OffsetsDeleted)
        WINDOW earlier AS (PARTITION BY run, group, topic, partition ORDER BY seq
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
    JOIN topics USING (run, topic)
    LEFT JOIN (SELECT DISTINCT run, topic, true AS gone FROM TopicDeleted) USING (run, topic)
    LEFT JOIN resets USING (run, topic_id, partition, group)
    WHERE offset < promised AND coordinator_epoch >= known_epoch AND (fetched OR offset >= 0)
          AND NOT (fetched AND offset < 0 AND coalesce(gone, false))""",
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
    # appended later, after a truncation.
    """
    SELECT run, topic_id, partition, group, seq, reset, missed
    FROM (SELECT * FROM (
        SELECT run, topic_id, topic, partition, group, seq, reset,
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
            USING (run, topic_id, partition, group)
        LEFT JOIN resets USING (run, topic_id, partition, group))
        LATERAL VIEW explode(sequence(low, greatest(low, high - 1))) AS missed WHERE low < high)
    LEFT JOIN (SELECT run, topic_id, partition, offset AS missed, marker, aborted FROM holes)
        USING (run, topic_id, partition, missed)
    LEFT JOIN committed_parts USING (run, topic_id, partition, group)
    LEFT JOIN (SELECT run, topic_id, partition, offset AS missed, max_by(appended, age) AS appended
               FROM contents GROUP BY run, topic_id, partition, offset)
        USING (run, topic_id, partition, missed)
    JOIN (SELECT run, group, topic, partition, offset AS end, seq AS passed FROM OffsetCommitted)
        USING (run, group, topic, partition)
    WHERE NOT coalesce(marker OR (aborted AND coalesce(only, false)), false) AND end > missed
    GROUP BY run, topic_id, partition, group, seq, reset, missed, appended
    HAVING coalesce(appended, -1) <= max(passed)""",
    "'skipped-by-commit'",
    "'group %s committed past offset %d unprocessed', group, missed",
    "array(group)",
    about("missed", reset="coalesce(reset, -1)"),
)

VANISHED_OFFSET = offending(
    # An acknowledged commit is with the coordinator when the run ends: with the broker that loaded
    # the group's partition last, in the highest leader epoch, and has not stopped since. The bound
    # is offsets.retention.minutes; an operator may have deleted the offset, or the topic.
    """
    WITH ended AS (
        SELECT run, max(seq) AS seq, max_by(t_us, seq) AS t_us FROM Phase WHERE phase = 'end'
        GROUP BY run
    ), loaded AS (
        SELECT run, partition AS home, max(struct(leader_epoch, node, seq)) AS last
        FROM CoordinatorLoaded WHERE loaded GROUP BY run, partition
    ), coordinators AS (
        SELECT loaded.run, home, last.node
        FROM loaded LEFT JOIN (SELECT run, node, max(seq) AS stopped FROM HostStopped
                               GROUP BY run, node) AS hosts
            ON loaded.run = hosts.run AND last.node = hosts.node
        WHERE coalesce(stopped, -1) < last.seq
    ), commits AS (
        SELECT run, group, topic, number, max_by(struct(seq, t_us, what), seq) AS last
        FROM (SELECT run, group, topic, partition AS number, seq, t_us, 'committed' AS what
              FROM OffsetCommitted WHERE coordinator_epoch >= 0
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

_GROUPS_TOLD = """
    SELECT run, group, seq, node, api AS what, member_id,
           CAST(NULL AS ARRAY<STRING>) AS assignment,
           CAST(NULL AS ARRAY<STRING>) AS member_ids,
           api = 'ConsumerGroupHeartbeat' AS consumer,
           CAST(NULL AS STRUCT<leader_epoch: BIGINT, node: STRING>) AS elected,
           CAST(NULL AS BIGINT) AS generation
    FROM MemberRequest
    WHERE api IN ('JoinGroup', 'ConsumerGroupHeartbeat')
    UNION ALL
    SELECT run, group, seq, node, 'converted', NULL, NULL, NULL,
           protocol = 'consumer', NULL, NULL FROM GroupConverted
    UNION ALL
    SELECT run, group, seq, node, IF(reason = 'loaded', 'loaded', 'state'), NULL, NULL,
           member_ids,
           IF(reason = 'loaded' AND size(member_ids) > 0, group_leader = '', NULL), NULL,
           IF(state = 'Dead', 0, generation)
    FROM GroupState
    UNION ALL
    SELECT run, group, seq, node, 'assigned', member_id, assignment, NULL, NULL, NULL,
           generation
    FROM GroupAssigned
    UNION ALL
    SELECT loads.run, group, seq, node, 'elected', NULL, NULL,
           CAST(array() AS ARRAY<STRING>), NULL, struct(leader_epoch, node), NULL
    FROM (SELECT run, seq, node, partition, leader_epoch FROM CoordinatorLoaded
          WHERE loaded) AS loads
    JOIN homes ON homes.run = loads.run AND homes.partition = loads.partition"""

_CONSUMER_GROUPS = f"""
    -- What is told of groups, row by row, with what holds then: whether the group is of the
    -- consumer protocol (KIP-848), how often it was converted, its last generation as a classic
    -- group, and who coordinates it. An empty group is of the protocol by which it is joined, one
    -- with members of that to which it was converted. What a coordinator loads counts anew: a
    -- classic group with members has a leader.
    SELECT *, last(CASE WHEN what = 'elected' THEN 0L
                        WHEN what IN ('state', 'loaded') AND NOT coalesce(by_heartbeat, false)
                        THEN generation END, true) OVER so_far AS classic
    FROM (SELECT *, last(IF(what IN ('JoinGroup', 'ConsumerGroupHeartbeat')
                                AND coalesce(size(known), 0) > 0, NULL, consumer),
                         true) OVER so_far AS by_heartbeat
          FROM (SELECT *, last(member_ids, true) OVER before AS known,
                       sum(IF(what = 'converted', 1, 0)) OVER so_far AS era,
                       max(elected) OVER so_far AS coordinator
                FROM ({_GROUPS_TOLD})
                WINDOW so_far AS (PARTITION BY run, group ORDER BY seq),
                       before AS (PARTITION BY run, group ORDER BY seq
                                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
          WINDOW so_far AS (PARTITION BY run, group ORDER BY seq))
    WINDOW so_far AS (PARTITION BY run, group ORDER BY seq)"""

_LIVES = """
    SELECT *, sum(IF(assignment IS NULL, 1, 0)) OVER (PARTITION BY run, group ORDER BY seq) AS lives
    FROM (SELECT run, seq, group, generation, member_id, assignment FROM GroupAssigned
          UNION ALL
          SELECT run, seq, group, generation, '', CAST(NULL AS ARRAY<STRING>) FROM GroupState
          WHERE state = 'Dead')"""
"""Assignments with the number of times that their group was deleted before: its generations begin
anew then."""

DOUBLE_OWNER = offending(
    # In the coordinator's view two members own one partition at a time: in one generation, or in a
    # consumer group at all, whose present coordinator's view counts. A member owns what it was
    # assigned last: a static member's new id takes it from the old one (KIP-345). A coordinator
    # that loads a consumer group tells anew what each member owns. What was owned before the group
    # was a classic one for a time may be told afterwards, and says that the member has nothing now.
    rf"""
    SELECT run, CAST(NULL AS STRING) AS topic_id,
           CAST(regexp_extract(tp, r'-(\d+)$', 1) AS BIGINT) AS partition,
           max(seq) AS seq, min(first) AS promise, tp, place, group
    FROM (SELECT *, min(seq) OVER (PARTITION BY run, group, place, tp) AS first,
                 max(least(until, array_min(filter(deletions, deleted -> deleted > seq)))) OVER (
                     PARTITION BY run, group, place, tp ORDER BY seq
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS taken
          FROM (SELECT run, group, place, seq, until, tp,
                       regexp_extract(tp, r'^(.*)-\d+$', 1) AS topic
                FROM (SELECT *, coalesce(lead(seq) OVER (
                                    PARTITION BY run, group, place, member_id ORDER BY seq),
                                9223372036854775807) AS until
                      FROM (SELECT run, group, concat(format_string('generation %d', generation),
                                       repeat(', deleted before', lives)) AS place,
                                   member_id, seq, assignment
                            FROM ({_LIVES}) WHERE assignment IS NOT NULL
                            UNION ALL
                            SELECT run, group, format_string('era %d', era), member_id, seq,
                                   IF(by_heartbeat AND generation >= coalesce(classic, 0),
                                      assignment, CAST(array() AS ARRAY<STRING>))
                            FROM ({_CONSUMER_GROUPS})
                            WHERE what = 'assigned' AND node = coordinator.node
                            UNION ALL
                            SELECT run, group, format_string('era %d', era), members.member_id,
                                   seq, CAST(array() AS ARRAY<STRING>)
                            FROM ({_CONSUMER_GROUPS}) AS told
                            JOIN (SELECT DISTINCT run, group, member_id FROM GroupAssigned)
                                AS members USING (run, group)
                            WHERE what = 'loaded' AND by_heartbeat AND node = coordinator.node))
                LATERAL VIEW explode(assignment) AS tp)
          LEFT JOIN (SELECT run, topic, collect_list(seq) AS deletions FROM TopicDeleted
                     GROUP BY run, topic) USING (run, topic))
    WHERE taken > seq GROUP BY run, group, place, tp""",
    "'double-owner'",
    "'%s has two owners in group %s (%s)', tp, group, place",
    "array(group)",
    about(promise="promise"),
)

EARLY_HANDOVER = offending(
    # A generation gives a partition to a member while another one has told in its JoinGroup that
    # it owns it (KIP-429): that one has not revoked it yet. A claim counts if it is of the latest
    # generation that any claim is of, and the only one of its partition. A static member's new id
    # takes over what the old one had. What a coordinator heard before it loads the group counts no
    # more. (judging/readers/handover.py)
    r"""
    SELECT assigned.run, CAST(NULL AS STRING) AS topic_id,
           CAST(regexp_extract(assigned.tp, r'-(\d+)$', 1) AS BIGINT) AS partition,
           assigned.seq, assigned.tp, assigned.group, assigned.generation, claim.member_id AS owner,
           claim.seq AS promise
    FROM (SELECT run, node, group, generation, seq, member_id, tp FROM GroupAssigned
          LATERAL VIEW explode(assignment) AS tp) AS assigned
    JOIN (SELECT run, node, group, generation, tp, any_value(claim) AS claim, formed, next
          FROM (SELECT *, max(claim.generation) OVER (PARTITION BY run, node, group, formed)
                           AS newest
                FROM (SELECT run, node, group, formed, any_value(next) AS next,
                             any_value(generation) AS generation, max(claim) AS claim
                      FROM (SELECT rounds.*, struct(asked.seq, asked.generation, asked.owned,
                                                    asked.member_id, asked.instance_id) AS claim
                            FROM (SELECT run, node, group, generation, member_ids, seq AS formed,
                                         lag(seq, 1, -1) OVER by_group AS since,
                                         lead(seq, 1, 1L << 62) OVER by_group AS next
                                  FROM (SELECT run, node, group, generation, member_ids, seq
                                        FROM GroupState WHERE state = 'CompletingRebalance'
                                        UNION ALL
                                        SELECT loads.run, node, group, NULL, NULL, seq
                                        FROM CoordinatorLoaded AS loads
                                        JOIN homes ON homes.run = loads.run
                                            AND homes.partition = loads.partition
                                        UNION ALL
                                        SELECT run, node, group, NULL, NULL, seq FROM GroupState
                                        WHERE state = 'Dead'
                                        UNION ALL
                                        SELECT run, node, group, NULL, NULL, seq
                                        FROM GroupConverted)
                                  WINDOW by_group AS (PARTITION BY run, node, group ORDER BY seq))
                                AS rounds
                            JOIN (SELECT * FROM MemberRequest WHERE api = 'JoinGroup') AS asked
                                ON asked.run = rounds.run AND asked.node = rounds.node
                                   AND asked.group = rounds.group AND asked.seq > since
                                   AND asked.seq < formed
                                   AND array_contains(member_ids, asked.member_id))
                      GROUP BY run, node, group, formed, claim.member_id)
                WHERE size(claim.owned) > 0)
          LATERAL VIEW explode(claim.owned) AS tp
          WHERE claim.generation = newest
          GROUP BY run, node, group, generation, formed, next, tp HAVING count(1) = 1) AS owners
        ON owners.run = assigned.run AND owners.node = assigned.node
           AND owners.group = assigned.group AND owners.generation = assigned.generation
           AND owners.tp = assigned.tp AND assigned.seq > formed AND assigned.seq < next
    WHERE claim.member_id != assigned.member_id
        AND NOT startswith(assigned.member_id, coalesce(claim.instance_id || '-', '/'))""",
    "'early-handover'",
    "'group %s gives %s away in generation %d, and %s has not revoked it', group, tp, generation,"
    " owner",
    "array(group)",
    about(promise="promise"),
)
