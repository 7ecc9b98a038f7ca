"""Needless harm to groups: what a coordinator takes from a group has a reason (judging/groups.py).

Bounds count from facts of the coordinator's own host. A host whose clock a fault let drift is not
judged by times.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import about, offending

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
