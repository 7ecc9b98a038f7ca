"""stale-coordinator: does a broker serve the groups of a partition that it follows?"""

from __future__ import annotations

from kafkasim.analysis.checks.base import about, offending

STALE_COORDINATOR = offending(
    # A broker gets a member's request more than a second after its own replica of the group's
    # partition became a follower; its pauses since then do not count. It may serve again once it
    # leads, has loaded the partition, or has started anew. (judging/groups.py)
    """
    WITH followed AS (
        SELECT run, node, seq, t_us, partition FROM BecameFollower
        LEFT SEMI JOIN (SELECT run, topic_id FROM TopicCreated WHERE topic = '__consumer_offsets')
            USING (run, topic_id)),
    told AS (
        SELECT run, node, partition, seq, t_us, 'follows' AS what, 0L AS paused_us,
               CAST(NULL AS STRING) AS group
        FROM followed
        UNION ALL
        SELECT run, node, partition, seq, t_us, 'serves again', 0L, NULL FROM BecameLeader
        LEFT SEMI JOIN (SELECT run, topic_id FROM TopicCreated WHERE topic = '__consumer_offsets')
            USING (run, topic_id)
        UNION ALL
        SELECT run, node, partition, seq, t_us, 'serves again', 0L, NULL FROM CoordinatorLoaded
        WHERE loaded
        UNION ALL
        SELECT run, node, partition, hosts.seq, hosts.t_us, what, duration_us, NULL
        FROM (SELECT run, node, seq, t_us, 'pause' AS what, duration_us FROM HostPaused
              UNION ALL
              SELECT run, node, seq, t_us, 'serves again', 0L FROM HostStarted) AS hosts
        JOIN (SELECT DISTINCT run, node, partition FROM followed) USING (run, node)
        UNION ALL
        SELECT run, node, partition, seq, t_us, 'request', 0L, group FROM MemberRequest
        JOIN homes USING (run, group))
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq, group,
           node, t_us - since AS later
    FROM (SELECT *, sum(IF(since IS NULL, 0L, paused_us)) OVER span AS waited
          FROM (SELECT *, min(IF(what = 'follows', t_us, NULL)) OVER span AS since
                FROM (SELECT *, sum(IF(what = 'serves again', 1, 0)) OVER (
                          PARTITION BY run, node, partition ORDER BY seq) AS times
                      FROM told)
                WINDOW span AS (PARTITION BY run, node, partition, times ORDER BY seq))
          WINDOW span AS (PARTITION BY run, node, partition, times ORDER BY seq))
    WHERE what = 'request' AND t_us > since + waited + 1000000""",
    "'stale-coordinator'",
    "'%s serves group %s %d us after it became a follower', node, group, later",
    "array(group)",
    about(),
)
