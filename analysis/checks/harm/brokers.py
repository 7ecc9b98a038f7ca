"""Needless harm: changes that cost availability have a reason (analysis/judging/harm).

These checks judge what rows of one or two kinds prove; the run's own judges see more. A node whose
clock a fault let drift is not judged here, since its limits are not the trace's seconds.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import about, offending

_LIMITS = """
    -- The shortest value that each time limit of a node had.
    SELECT run, node, config, min(limit_us) AS limit_us FROM TimeLimit
    WHERE (run, node) NOT IN (SELECT run, node FROM ClockDrifted)
    GROUP BY run, node, config"""

_LEADERS = """
    -- Of the leaders that remove followers: their log ends and high watermarks, and at each row
    -- what is known of both.
    SELECT /*+ SHUFFLE_HASH(shrinking) */ *, last(log_end, true) OVER leader AS known_end,
           last(IF(log_end IS NULL, NULL, t_us), true) OVER leader AS grown_us,
           last(high_watermark, true) OVER leader AS known_mark,
           last(acknowledged, true) OVER leader AS holders,
           last(IF(high_watermark IS NULL, NULL, leader_epoch), true) OVER leader AS mark_epoch
    FROM (
        SELECT run, topic_id, partition, node, seq, t_us, leader_epoch,
               next_offset AS log_end, NULL AS high_watermark, NULL AS acknowledged,
               CAST(NULL AS BIGINT) AS shrunk
        FROM Appended
        UNION ALL
        SELECT run, topic_id, partition, node, seq, t_us, leader_epoch, start_offset, NULL, NULL,
               NULL
        FROM BecameLeader
        UNION ALL
        SELECT run, topic_id, partition, node, seq, t_us, leader_epoch, NULL, high_watermark,
               acknowledged, NULL
        FROM HighWatermark
        UNION ALL
        SELECT run, topic_id, partition, node, seq, t_us, leader_epoch, NULL, NULL, NULL, broker
        FROM shrinks)
    JOIN (SELECT run, topic_id, partition, node, collect_set(broker) AS removed,
                 max(seq) AS last_shrink
          FROM shrinks GROUP BY run, topic_id, partition, node) AS shrinking
        USING (run, topic_id, partition, node)
    WHERE seq <= last_shrink
    WINDOW leader AS (PARTITION BY run, topic_id, partition, node ORDER BY seq)"""

_CAUGHT_UP = """
    -- Followers that had the leader's whole log, and when that had reached its end: the high
    -- watermark is the log end, and the follower has acknowledged it.
    SELECT run, topic_id, partition, node, seq, leader_epoch, broker, grown_us
    FROM leaders LATERAL VIEW explode(array_intersect(acknowledged, removed)) AS broker
    WHERE high_watermark = known_end"""

_NEVER_LESS = """
    -- Removals of followers that had the leader's whole log, to which nothing was appended since.
    -- A broker that started again, truncated, or lost a log may have less, so it is left out.
    SELECT run, topic_id, partition, seq, format_string(
               '%s removes broker %d for lag, though both logs end at %d', node, shrunk, known_end
           ) AS story
    FROM leaders
    LEFT ANTI JOIN (
        SELECT run, CAST(substring_index(node, '-', -1) AS BIGINT) AS broker
        FROM (SELECT run, node FROM HostStarted WHERE incarnation > 0
              UNION SELECT run, node FROM Truncated
              UNION SELECT run, node FROM LogDeleted
              UNION SELECT run, node FROM LogDirOffline)
        WHERE node LIKE 'broker-%') AS other
        ON leaders.run = other.run AND shrunk = other.broker
    WHERE shrunk IS NOT NULL AND known_mark = known_end AND mark_epoch = leader_epoch
        AND array_contains(holders, shrunk)"""

LAG_REASON = offending(
    # A replica that a leader removes for lag was last caught up replica.lag.time.max.ms ago or
    # earlier, and its log is shorter. Partitions whose replicas change are left to the run:
    # progress may start anew there.
    f"""
    WITH shrinks AS (
        SELECT run, topic_id, partition, node, seq, t_us, leader_epoch, broker
        FROM IsrProposed LATERAL VIEW explode(replica_ids) AS broker
        WHERE change = 'shrink' AND (run, topic_id, partition) NOT IN (
            SELECT run, topic_id, partition FROM PartitionChanged
            GROUP BY run, topic_id, partition
            HAVING min(array_sort(replicas)) != max(array_sort(replicas)))
    ), leaders AS ({_LEADERS}), caught_up AS ({_CAUGHT_UP}), never_less AS ({_NEVER_LESS})
    SELECT * FROM never_less
    UNION ALL
    SELECT told.run, topic_id, partition, seq, format_string(
               '%s removes broker %d for lag, %d us after it was caught up; the limit is %d us',
               told.node, broker, t_us - since, limit_us)
    FROM (
        SELECT *, last(grown_us, true) OVER (
            PARTITION BY run, topic_id, partition, node, leader_epoch, broker
            ORDER BY seq) AS since
        FROM (
            SELECT run, topic_id, partition, node, leader_epoch, broker, seq, t_us,
                   CAST(NULL AS BIGINT) AS grown_us FROM shrinks
            UNION ALL
            SELECT run, topic_id, partition, node, leader_epoch, broker, seq, NULL, grown_us
            FROM caught_up)) AS told
    JOIN ({_LIMITS}) AS limits ON told.run = limits.run AND told.node = limits.node
        AND config = 'replica.lag.time.max.ms'
    LEFT ANTI JOIN never_less
        ON told.run = never_less.run AND told.topic_id = never_less.topic_id
            AND told.partition = never_less.partition AND told.seq = never_less.seq
    WHERE t_us IS NOT NULL AND t_us - since < limit_us - 1000""",
    "'LAGREASON'",
    "'%s', story",
)

_SILENCES = f"""
    -- Sessions that a KRaft controller ended, and since when it had heard nothing: of this broker
    -- epoch, or at all because it was elected then.
    SELECT told.run, seq, told.node, format_string('broker %d', broker) AS who,
           t_us - since AS silent, limit_us
    FROM (
        SELECT *, greatest(coalesce(heard, 0), coalesce(elected, 0)) AS since
        FROM (
            SELECT *, max(IF(kind = 'elected', t_us, NULL)) OVER (
                       PARTITION BY run, node ORDER BY seq) AS elected,
                   max(IF(kind = 'heard', t_us, NULL)) OVER (
                       PARTITION BY run, node, broker, broker_epoch ORDER BY seq) AS heard
            FROM (
                SELECT run, node, seq, t_us, broker, broker_epoch, 'ended' AS kind FROM SessionEnded
                UNION ALL
                SELECT run, node, seq, t_us, broker, broker_epoch, 'heard' FROM BrokerHeartbeat
                UNION ALL
                SELECT run, node, seq, t_us, NULL, NULL, 'elected' FROM ControllerActive
                WHERE active))
        WHERE kind = 'ended') AS told
    JOIN ({_LIMITS}) AS limits ON told.run = limits.run AND told.node = limits.node
        AND config = 'broker.session.timeout.ms'
    WHERE t_us - since < limit_us - 1000"""

_ZK_SILENCES = f"""
    -- Sessions that the ensemble's leader ended, and since when nobody had told it of the client.
    SELECT told.run, seq, told.node, client AS who, t_us - since AS silent,
           least(greatest(wanted.limit_us, low.limit_us), high.limit_us) AS limit_us
    FROM (
        SELECT *, greatest(coalesce(touched, 0), coalesce(elected, 0)) AS since
        FROM (
            SELECT *, max(IF(event = 'elected', t_us, NULL)) OVER (
                       PARTITION BY run, node ORDER BY seq) AS elected,
                   max(IF(event IN ('created', 'touched', 'moved'), t_us, NULL)) OVER (
                       PARTITION BY run, node, session_id ORDER BY seq) AS touched
            FROM (
                SELECT run, node, seq, t_us, session_id, client, event FROM ZooKeeperSession
                UNION ALL
                SELECT run, node, seq, t_us, NULL, NULL, 'elected' FROM ZooKeeperRole
                WHERE role = 'leading'))
        WHERE event = 'expiring' AND client LIKE 'broker-%') AS told
    JOIN ({_LIMITS}) AS wanted ON told.run = wanted.run AND told.client = wanted.node
        AND wanted.config = 'zookeeper.session.timeout.ms'
    JOIN ({_LIMITS}) AS low ON told.run = low.run AND told.node = low.node
        AND low.config = 'minSessionTimeout'
    JOIN ({_LIMITS}) AS high ON told.run = high.run AND told.node = high.node
        AND high.config = 'maxSessionTimeout'
    WHERE t_us - since < least(greatest(wanted.limit_us, low.limit_us), high.limit_us) - 1000"""

_CAUSES = """
    -- What a broker epoch was fenced and unfenced for, in KRaft: the rows of the ends of sessions
    -- and of the broker's wishes, and those of its other heartbeats.
    SELECT run, broker, broker_epoch, collect_list(IF(fences, seq, NULL)) AS reasons,
           collect_list(IF(fences, NULL, seq)) AS ready
    FROM (
        SELECT run, broker, broker_epoch, seq, true AS fences FROM SessionEnded
        UNION ALL
        SELECT run, broker, broker_epoch, seq, want_fence OR want_shut_down FROM BrokerHeartbeat)
    GROUP BY run, broker, broker_epoch"""

_TOLD_ENDS = """
    -- The sessions of brokers that came after one of which the ensemble had told the broker that it
    -- expired: its end was proposed, and may never have been committed. A new leader of the
    -- ensemble tells older sessions again, which count once.
    SELECT run, seq, broker, zxid FROM (
        SELECT *, lag(zxid) OVER (PARTITION BY run, broker ORDER BY seq) AS before,
               row_number() OVER (PARTITION BY run, broker ORDER BY seq) AS place
        FROM (SELECT run, CAST(substring_index(client, '-', -1) AS BIGINT) AS broker, zxid,
                     min(seq) AS seq
              FROM ZooKeeperSession WHERE event = 'created' AND client RLIKE '^broker-[0-9]+$'
              GROUP BY run, client, zxid
              UNION ALL
              SELECT DISTINCT told.run, CAST(substring_index(told.node, '-', -1) AS BIGINT), NULL,
                     told.seq
              FROM ZooKeeperConnection AS told
              JOIN (SELECT run, session_id, min(seq) AS seq FROM ZooKeeperSession
                    WHERE event = 'expiring' AND client LIKE 'broker-%'
                    GROUP BY run, session_id) AS expiring
                  ON told.run = expiring.run AND told.session_id = expiring.session_id
                     AND expiring.seq < told.seq
              WHERE state = 'EXPIRED' AND told.node RLIKE '^broker-[0-9]+$'))
    WHERE zxid IS NOT NULL AND before IS NULL AND place > 1"""

_CHANGES = f"""
    -- The records that fence and unfence a broker epoch, in order; ``gone``: a session of ZooKeeper
    -- had ended later than the broker's znode was created. A new controller tells older
    -- registrations again, which count once.
    SELECT run, broker, broker_epoch,
           array_sort(collect_list(struct(seq, change = 'fenced' AS fences,
                                          coalesce(ended > broker_epoch, false) AS gone))) AS told
    FROM (
        SELECT *, max(ended_by) OVER told AS ended,
               max(offset) OVER (PARTITION BY run, broker ORDER BY seq
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS newest
        FROM (
            SELECT run, seq, broker, broker_epoch, offset, change, NULL AS ended_by
            FROM BrokerRegistration
            UNION ALL
            SELECT run, seq, CAST(substring_index(client, '-', -1) AS BIGINT), NULL, NULL, NULL,
                   zxid
            FROM ZooKeeperSession
            WHERE event IN ('closed', 'expired') AND client RLIKE '^broker-[0-9]+$'
            UNION ALL
            SELECT run, seq, broker, NULL, NULL, NULL, zxid FROM ({_TOLD_ENDS}))
        WINDOW told AS (PARTITION BY run, broker ORDER BY seq))
    WHERE change IN ('fenced', 'unfenced') AND offset > coalesce(newest, -1)
        AND run IN (SELECT run FROM BrokerHeartbeat UNION SELECT run FROM ZooKeeperSession)
    GROUP BY run, broker, broker_epoch"""

_FENCES = f"""
    -- Fences without a reason. A controller's records are in the order of what caused them, so each
    -- is matched with the earliest cause of its kind since ``applied``, that of the one before.
    SELECT run, broker, explode(aggregate(
        told, struct(-1L AS applied, CAST(array() AS ARRAY<BIGINT>) AS bare),
        (matched, record) -> struct(
            coalesce(array_min(filter(IF(record.fences, reasons, ready),
                                      cause -> cause > matched.applied AND cause < record.seq)),
                     matched.applied) AS applied,
            IF(record.fences AND NOT record.gone
               AND NOT exists(coalesce(reasons, array()),
                              cause -> cause > matched.applied AND cause < record.seq),
               concat(matched.bare, array(record.seq)), matched.bare) AS bare),
        matched -> matched.bare)) AS seq
    FROM ({_CHANGES}) LEFT JOIN ({_CAUSES}) USING (run, broker, broker_epoch)"""

FENCE_REASON = offending(
    # A broker is fenced after the silence of a whole session, or because it asked for it.
    f"""
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq,
           format_string('%s ends the session of %s after %d us of %d us', node, who, silent,
                         limit_us) AS story
    FROM (SELECT * FROM ({_SILENCES}) UNION ALL SELECT * FROM ({_ZK_SILENCES}))
    UNION ALL
    SELECT run, NULL, NULL, seq, format_string('broker %d is fenced without a reason', broker)
    FROM ({_FENCES})""",
    "'FENCEREASON'",
    "'%s', story",
)

LOG_ORDER = offending(
    # Log start ≤ last stable offset ≤ high watermark ≤ log end, wherever a fact tells them.
    """
    SELECT * FROM (
        SELECT run, topic_id, partition, seq, node, offset AS low, high_watermark AS stable,
               high_watermark, log_end_offset AS high FROM LogStart
        UNION ALL
        SELECT run, topic_id, partition, seq, node, log_start_offset, high_watermark,
               high_watermark, log_end_offset FROM LogLoaded
        UNION ALL
        SELECT run, topic_id, partition, seq, node, 0, high_watermark, high_watermark, start_offset
        FROM BecameLeader
        UNION ALL
        SELECT run, topic_id, partition, seq, node, log_start_offset, last_stable_offset,
               high_watermark, log_end_offset FROM FinalReplica)
    WHERE low > stable OR stable > high_watermark OR high_watermark > high""",
    "'LOGORDER'",
    "'%s: log start %d, high watermark %d, log end %d', node, low, high_watermark, high",
)

STALE_COORDINATOR = offending(
    # A broker gets a member's request more than a second after its own replica of the group's
    # partition became a follower; standstills since then do not count. It may serve again once it
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
        FROM (SELECT run, node, seq, t_us, 'pause' AS what, duration_us FROM standstills
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
