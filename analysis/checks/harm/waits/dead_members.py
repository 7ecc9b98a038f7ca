"""DEADINISR: analysis/judging/harm/service/dead_members.py derives the rule and the bounds.

The run's own judge looks whenever something changes and once in half a second. Here a stay is
judged when it has ended, so a fault that begins as it ends explains it.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

SPREAD_US = 1_500_000

_LIMITS = """
    -- The limits of sessions that each node was started with; a drifting clock is not judged.
    SELECT run, node, max(IF(config = 'broker.session.timeout.ms', limit_us, NULL)) AS session_us,
           max(IF(config = 'zookeeper.session.timeout.ms', limit_us, NULL)) AS wanted_us,
           max(IF(config = 'minSessionTimeout', limit_us, NULL)) AS low_us,
           max(IF(config = 'maxSessionTimeout', limit_us, NULL)) AS high_us
    FROM TimeLimit WHERE (run, node) NOT IN (SELECT run, node FROM ClockDrifted)
    GROUP BY run, node"""

_CONTROLLERS = """
    -- Who was the active controller, and when.
    SELECT run, node AS controller, t_us AS since_us, coalesce(until_us, end_us) AS until_us
    FROM (SELECT *, lead(t_us) OVER (PARTITION BY run ORDER BY seq) AS until_us
          FROM (SELECT *, last(IF(active, node, NULL), true) OVER (
                    PARTITION BY run ORDER BY seq) AS newest
                FROM (SELECT run, seq, t_us, node, active FROM ControllerActive
                      UNION ALL
                      SELECT run, seq, t_us, node, false FROM HostStopped))
          WHERE node = newest)
    JOIN ends USING (run)
    WHERE active"""

_SILENT = f"""
    -- KRaft: brokers of which the active controller hears nothing for a session and an eighth.
    SELECT run, broker, node AS controller, dead_us, coalesce(back_us, 1L << 62) AS back_us
    FROM (SELECT told.*, t_us + session_us + session_us DIV 8 AS dead_us,
                 lead(t_us) OVER (PARTITION BY told.run, told.node, broker ORDER BY seq) AS back_us
          FROM (SELECT run, node, seq, t_us, broker FROM BrokerHeartbeat
                UNION ALL
                SELECT run, node, seq, t_us, broker FROM ControllerActive JOIN known USING (run)
                WHERE active) AS told
          JOIN limits ON told.run = limits.run AND told.node = limits.node
          WHERE session_us IS NOT NULL)
    WHERE coalesce(back_us, 1L << 62) > dead_us + {SPREAD_US}"""

_OPEN_SESSIONS = """
    -- How many sessions of ZooKeeper a broker has; a new leader tells older ones again.
    SELECT run, broker, t_us AS dead_us,
           coalesce(lead(t_us) OVER own, 1L << 62) AS back_us,
           sum(IF(event = 'created', 1, -1)) OVER own AS sessions
    FROM (SELECT run, CAST(substring(client, 8) AS BIGINT) AS broker, zxid,
                 min_by(event, seq) AS event, min(t_us) AS t_us
          FROM ZooKeeperSession
          WHERE client RLIKE '^broker-[0-9]+$' AND event IN ('created', 'closed', 'expired')
          GROUP BY run, client, zxid)
    WINDOW own AS (PARTITION BY run, broker ORDER BY zxid)"""

_UNTOUCHED = f"""
    -- Brokers with sessions that nobody has touched for their timeout and two ticks, which by
    -- default are minSessionTimeout and a tenth of maxSessionTimeout. Where one has ended, that
    -- counts instead.
    SELECT run, broker, dead_us, coalesce(back_us, 1L << 62) AS back_us
    FROM (SELECT told.run, broker, event,
                 t_us + least(greatest(wanted.wanted_us, server.low_us), server.high_us)
                 + greatest(server.low_us, server.high_us DIV 10) + {SPREAD_US} AS dead_us,
                 lead(t_us) OVER (PARTITION BY told.run, broker ORDER BY seq) AS back_us
          FROM (SELECT run, node, seq, t_us, CAST(substring(client, 8) AS BIGINT) AS broker, event
                FROM ZooKeeperSession
                WHERE client RLIKE '^broker-[0-9]+$' AND event != 'expiring'
                UNION ALL
                SELECT run, node, seq, t_us, broker, role
                FROM ZooKeeperRole JOIN known USING (run)
                WHERE role = 'leading') AS told
          JOIN limits AS server ON told.run = server.run AND told.node = server.node
          JOIN limits AS wanted ON told.run = wanted.run
              AND wanted.node = concat('broker-', broker)
          WHERE server.low_us IS NOT NULL AND wanted.wanted_us IS NOT NULL)
    WHERE event NOT IN ('closed', 'expired')
        AND coalesce(back_us, 1L << 62) > dead_us + {SPREAD_US}"""

_DEAD = f"""
    -- Since when the active controller should take a broker for dead, and until when.
    SELECT silent.run, broker, silent.controller, false AS zookeeper,
           greatest(dead_us, since_us) AS from_us, least(back_us, until_us) AS until_us
    FROM ({_SILENT}) AS silent JOIN controllers
        ON silent.run = controllers.run AND silent.controller = controllers.controller
           AND dead_us < until_us AND back_us > since_us
    WHERE silent.run NOT IN (SELECT run FROM ZooKeeperRole)
    UNION ALL
    SELECT gone.run, broker, controller, true, greatest(dead_us, since_us),
           least(back_us, until_us)
    FROM (SELECT run, broker, dead_us, back_us FROM ({_OPEN_SESSIONS}) WHERE sessions = 0
          UNION ALL
          SELECT * FROM ({_UNTOUCHED})) AS gone
    JOIN controllers ON gone.run = controllers.run AND dead_us < until_us AND back_us > since_us"""

_MEMBERS = """
    -- The members that the controller would take out, from change to change.
    SELECT run, topic_id, partition, seq, broker, isr, leader, begun_us, joined_us,
           least(next_us, coalesce(deleted_us, next_us)) AS ended_us
    FROM (SELECT *, t_us AS begun_us,
                 max(IF(coalesce(array_contains(before, broker), false), NULL, t_us)) OVER (
                     PARTITION BY run, topic_id, partition, broker ORDER BY partition_epoch)
                     AS joined_us
          FROM (SELECT *, explode(isr) AS broker
                FROM (SELECT *, lag(isr) OVER changes AS before,
                             coalesce(lead(t_us) OVER changes, end_us) AS next_us
                      FROM partition_changes JOIN ends USING (run)
                      WINDOW changes AS (
                          PARTITION BY run, topic_id, partition ORDER BY partition_epoch))))
    LEFT JOIN (SELECT run, topic_id, min(t_us) AS deleted_us
               FROM (SELECT run, topic_id, t_us FROM TopicDeleted
                     UNION ALL
                     SELECT run, topic_id, t_us FROM PartitionChanged WHERE reason = 'deletion')
               GROUP BY run, topic_id) USING (run, topic_id)
    WHERE size(isr) > 1 OR leader = broker"""

DEAD_MEMBERS = offending(
    # A broker that the controller should take for dead leaves the ISRs, and what it leads.
    f"""
    WITH ends AS (SELECT run, max(t_us) AS end_us FROM Phase WHERE phase = 'end' GROUP BY run),
    limits AS ({_LIMITS}), controllers AS ({_CONTROLLERS}),
    known AS (SELECT DISTINCT run, broker FROM BrokerRegistration),
    stays AS (
        SELECT members.run, topic_id, partition, seq, dead.broker, isr, leader, controller,
               zookeeper, from_us, least(until_us, ended_us) AS left_us
        FROM ({_DEAD}) AS dead JOIN ({_MEMBERS}) AS members
            ON dead.run = members.run AND dead.broker = members.broker
        WHERE begun_us < until_us AND least(until_us, ended_us) - from_us > {SPREAD_US}
              AND NOT (zookeeper AND joined_us > from_us))
    SELECT stays.run, topic_id, partition, seq, broker, leader, left_us - from_us AS later
    FROM stays
    LEFT ANTI JOIN (
        SELECT run, host, begin_us, end_us + healing_us AS healed_us,
               host LIKE 'controller-%' OR NOT max(host LIKE 'controller-%') OVER (
                   PARTITION BY run) AS controls
        FROM servers LEFT JOIN disturbances USING (run, host)) AS struck
        ON stays.run = struck.run
           AND IF(zookeeper, host = controller OR host LIKE 'zookeeper-%', controls)
           AND begin_us <= left_us AND healed_us >= greatest(from_us, left_us - {SPREAD_US}L)""",
    "'DEADINISR'",
    "'broker %d is not alive but in the ISR, of leader %d, for %d us', broker, leader, later",
)
