"""Controlled shutdowns end: analysis/judging/harm/shutdown.py derives the bounds."""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

SPREAD_US = 1_500_000

WAITS = """
    -- Brokers that wait to be let go, and when somebody looked: as the broker stopped, asked once
    -- more, was unregistered, or the phase of the run ended. An unregistered broker does not wait.
    SELECT run, node, broker, begun, begun_us, seq, t_us
    FROM (
        SELECT run, node, CAST(substring(node, 8) AS BIGINT) AS broker, seq AS begun,
               t_us AS begun_us, what, coalesce(lead(seq) OVER host, 1L << 62) AS until,
               coalesce(lag(what) OVER host, '') AS before
        FROM (
            SELECT run, node, seq, t_us,
                   IF(state = 'SHUTTING_DOWN', 'stops', 'waits') AS what
            FROM BrokerState WHERE state IN ('PENDING_CONTROLLED_SHUTDOWN', 'SHUTTING_DOWN')
            UNION ALL
            SELECT run, node, seq, t_us, 'down' FROM HostStopped
            UNION ALL
            SELECT run, concat('broker-', broker), min(seq), min(t_us), change
            FROM BrokerRegistration LEFT SEMI JOIN
                 (SELECT run, broker FROM BrokerRegistration WHERE change = 'unregistered')
                 USING (run, broker)
            WHERE change IN ('registered', 'unregistered') GROUP BY run, broker, change, offset)
        WHERE node RLIKE '^broker-[0-9]+$'
        WINDOW host AS (PARTITION BY run, node ORDER BY seq)) AS waits
    JOIN (
        SELECT run AS at, seq, t_us, CAST(substring(node, 8) AS BIGINT) AS who FROM BrokerState
        WHERE state = 'SHUTTING_DOWN' AND node RLIKE '^broker-[0-9]+$'
        UNION ALL
        SELECT run, seq, t_us, broker FROM BrokerHeartbeat WHERE want_shut_down
        UNION ALL
        SELECT run, seq, t_us, broker FROM BrokerRegistration WHERE change = 'unregistered'
        UNION ALL
        SELECT run, seq, t_us, NULL FROM Phase WHERE phase IN ('liveness', 'end')) AS looks
        ON run = at AND broker = coalesce(who, broker) AND seq > begun AND seq <= until
    WHERE what = 'waits' AND before != 'unregistered'"""

_HELD = """
    -- Leaderships of those brokers, from row to row, with the others that could take them over.
    SELECT run, broker, begun, greatest(seq, begun) AS since, until, until_us, others
    FROM (SELECT DISTINCT run, broker, begun FROM shutdown_waits)
    JOIN (SELECT run AS at, leader, seq, array_remove(array_union(isr, elr), leader) AS others,
                 least(coalesce(next.seq, 1L << 62), coalesce(deleted.seq, 1L << 62)) AS until,
                 IF(coalesce(deleted.seq, 1L << 62) < coalesce(next.seq, 1L << 62), deleted.t_us,
                    next.t_us) AS until_us
          FROM (SELECT run, topic_id, leader, seq, isr, elr, lead(struct(seq, t_us)) OVER (
                    PARTITION BY run, topic_id, partition ORDER BY partition_epoch) AS next
                FROM partition_changes LEFT SEMI JOIN shutdown_waits USING (run))
          LEFT JOIN (SELECT run, topic_id, struct(seq, t_us) AS deleted FROM TopicDeleted)
              USING (run, topic_id))
        ON run = at AND leader = broker AND until > begun"""

ACTIVE = """
    -- The brokers that are neither fenced nor shutting down, from row to row, in runs with waits.
    SELECT run, seq AS since, coalesce(lead(seq) OVER told, 1L << 62) AS until,
           lead(t_us) OVER told AS until_us,
           aggregate(changes, CAST(array() AS ARRAY<BIGINT>), (brokers, change) ->
               IF(change.active, array_union(brokers, array(change.broker)),
                  array_remove(brokers, change.broker))) AS brokers
    FROM (SELECT run, seq, t_us, collect_list(struct(broker, active)) OVER (
              PARTITION BY run ORDER BY seq) AS changes
          FROM (SELECT run, seq, t_us, broker, NOT fenced AND NOT shutting_down AS active
                FROM BrokerRegistration LEFT SEMI JOIN shutdown_waits USING (run)))
    WINDOW told AS (PARTITION BY run ORDER BY seq)"""

_BLOCKED = """
    -- When such a leadership had nobody to go to.
    SELECT held.run, broker, begun, greatest(held.since, active.since) AS since,
           least(held.until, active.until) AS until,
           IF(held.until < active.until, held.until_us, active.until_us) AS until_us
    FROM held JOIN active_brokers AS active ON held.run = active.run AND held.since < active.until
        AND active.since < held.until
    WHERE NOT arrays_overlap(others, active.brokers)"""

_HELD_BACK = """
    -- Looks at which a struck broker is not fenced and has not told that it replayed the offset at
    -- which the controller moved the leaderships.
    SELECT DISTINCT run, begun, node, seq
    FROM (SELECT asked.*, explode(array_remove(brokers, broker)) AS other
          FROM (SELECT waits.run, waits.begun, waits.node, waits.broker, waits.seq, waits.t_us
                FROM shutdown_waits AS waits JOIN BrokerRegistration AS moved
                    ON waits.run = moved.run AND waits.broker = moved.broker AND shutting_down
                    AND moved.seq > waits.begun AND moved.seq < waits.seq
                GROUP BY waits.run, waits.begun, waits.node, waits.broker, waits.seq, waits.t_us)
              AS asked
          JOIN active_brokers AS active
              ON asked.run = active.run AND active.since < seq AND active.until > seq)
    JOIN (SELECT run, host, begin_us, end_us + healing_us AS until_us FROM disturbances)
        USING (run)
    LEFT JOIN (
        SELECT moved.run, moved.begun, heartbeat.broker AS other, min(heartbeat.seq) AS caught_up
        FROM (SELECT waits.run, waits.begun, min(offset) AS start
              FROM shutdown_waits AS waits JOIN BrokerRegistration AS told
                  ON waits.run = told.run AND waits.broker = told.broker AND shutting_down
                  AND told.seq > waits.begun
              GROUP BY waits.run, waits.begun) AS moved
        JOIN BrokerHeartbeat AS heartbeat ON moved.run = heartbeat.run
            AND heartbeat.seq > moved.begun AND heartbeat.offset >= start
        GROUP BY moved.run, moved.begun, heartbeat.broker) USING (run, begun, other)
    WHERE host = concat('broker-', other) AND begin_us <= t_us AND until_us >= t_us
        AND seq < coalesce(caught_up, 1L << 62)"""

_LOOKED = f"""
    -- Since when the broker waits with successors, and how long it may. In ZooKeeper mode the
    -- controller agrees to the first request after that.
    SELECT looks.*,
           CASE WHEN zookeeper THEN {SPREAD_US} + IF(since_us > begun_us, shutdown_backoff_us, 0)
                ELSE 2 * interval_us + {SPREAD_US} END AS bound_us,
           IF(zookeeper, 0L, session_us * 9 DIV 8 + interval_us) AS more_us
    FROM (SELECT waits.*, zk.run IS NOT NULL AS zookeeper,
                 shutdown_backoff_us,
                 shutdown_retries * {SPREAD_US}L
                 + greatest(shutdown_retries - 1, 0) * shutdown_backoff_us AS attempts_us,
                 greatest(begun_us, coalesce(freed_us, begun_us),
                          coalesce(max(IF(held_back, t_us, NULL)) OVER (
                              PARTITION BY waits.run, waits.node, begun ORDER BY seq), 0))
                     AS since_us
          FROM (SELECT any_value(late.run IS NOT NULL) AS held_back,
                       waits.run, waits.node, waits.broker, waits.begun, begun_us, waits.seq, t_us,
                       max(IF(until <= waits.seq, until_us, NULL)) AS freed_us,
                       coalesce(max(since < waits.seq AND until > waits.seq), false)
                           AS blocked
                FROM shutdown_waits AS waits LEFT JOIN blocked ON waits.run = blocked.run
                    AND waits.broker = blocked.broker AND waits.begun = blocked.begun
                    AND blocked.since < waits.seq
                LEFT JOIN held_back AS late ON waits.run = late.run AND waits.node = late.node
                    AND waits.begun = late.begun AND waits.seq = late.seq
                GROUP BY waits.run, waits.node, waits.broker, waits.begun, begun_us, waits.seq,
                         t_us)
              AS waits
          JOIN broker_limits ON waits.run = broker_limits.run
          LEFT JOIN (SELECT DISTINCT run FROM ZkControllerWrite) AS zk ON waits.run = zk.run)
        AS looks
    JOIN (SELECT run, node,
                 max(IF(config = 'broker.heartbeat.interval.ms', limit_us, NULL)) AS interval_us,
                 max(IF(config = 'broker.session.timeout.ms', limit_us, NULL)) AS session_us
          FROM TimeLimit GROUP BY run, node) AS limits
        ON looks.run = limits.run AND looks.node = limits.node
    WHERE zookeeper OR (interval_us IS NOT NULL AND session_us IS NOT NULL)"""

_STRUCK = """
    -- What struck those who have to act meanwhile, the core, and what struck the others at first.
    -- The core is the broker and the controllers, which in ZooKeeper mode may be any server.
    SELECT looked.run, node, begun, seq, any_value(zookeeper) AS zookeeper,
           any_value(blocked OR held_back) AS excused, any_value(t_us - since_us) AS waited,
           any_value(t_us - begun_us) AS waited_ever, any_value(bound_us) AS bound_us,
           any_value(more_us) AS more_us, any_value(attempts_us) AS attempts_us,
           coalesce(max((controls OR host = node) AND healed_us >= since_us), false) AS struck,
           coalesce(max(controls OR host = node), false) AS ever_struck,
           coalesce(max(NOT controls AND host != node AND begin_us <= since_us + bound_us
                        AND healed_us >= since_us), false) AS others_struck
    FROM looked LEFT JOIN (
        SELECT run, host, begin_us, end_us + healing_us AS healed_us, host LIKE 'controller-%'
               OR NOT max(host LIKE 'controller-%') OVER (PARTITION BY run) AS controls
        FROM servers LEFT JOIN disturbances USING (run, host)) AS spans
        ON looked.run = spans.run AND begin_us <= t_us AND healed_us >= begun_us
    GROUP BY looked.run, node, begun, seq"""

SHUTDOWN_ENDS = offending(
    f"""
    WITH held AS ({_HELD}), blocked AS ({_BLOCKED}), held_back AS ({_HELD_BACK}),
    looked AS ({_LOOKED}), judged AS ({_STRUCK})
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition,
           min(seq) AS seq, node, min_by(late.waited, seq) AS waited,
           min_by(late.allowed, seq) AS allowed
    FROM judged LATERAL VIEW explode(array(
        IF(NOT excused AND NOT struck,
           struct(waited, bound_us + IF(others_struck, more_us, 0L) AS allowed), NULL),
        IF(zookeeper AND NOT ever_struck,
           struct(waited_ever AS waited, attempts_us AS allowed), NULL))) AS late
    WHERE late.waited > late.allowed GROUP BY run, node, begun""",
    "'SHUTDOWNENDS'",
    "'%s waits %d us for the controller to let it stop; the others need %d us to take over', node,"
    " waited, allowed",
)

VIEWS = {"shutdown_waits": WAITS, "active_brokers": ACTIVE}
"""Views for this check, by name."""
