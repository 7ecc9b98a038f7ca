"""STALESERVE: analysis/judging/harm/service derives the rules and the bounds.

The run's own judge looks once a second whether a control request is overdue. Here a wait is judged
when it has ended, so a fault that begins as it ends explains it. A wait also ends with what makes
the run's judge count anew: another controller, another change, a new registration.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending
from kafkasim.analysis.checks.harm.disturbances import REQUEST_TIMEOUT_US

SPREAD_US = 1_500_000
ZK_SPREAD_US = 1_100_000

_DEPOSED = """
    SELECT run, topic_id, partition, seq, offset, leader_epoch, before AS broker,
           concat('broker-', before) AS node
    FROM (SELECT *, lag(leader) OVER (
              PARTITION BY run, topic_id, partition ORDER BY partition_epoch) AS before
          FROM partition_changes)
    WHERE before >= 0 AND before != leader"""

_HEARTBEATS = """
    SELECT run AS at, broker AS sender, seq AS told, t_us AS told_us, offset AS published
    FROM BrokerHeartbeat"""

_KNOWN = f"""
    -- Since which row a broker knows of a leader epoch: a heartbeat has told that it has published
    -- the change that took the leadership from it, or the broker that it follows.
    SELECT run, topic_id, partition, node, leader_epoch AS newer, min(told) AS known
    FROM ({_DEPOSED}) JOIN ({_HEARTBEATS})
        ON run = at AND broker = sender AND published >= offset AND told > seq
    GROUP BY run, topic_id, partition, node, leader_epoch
    UNION ALL
    SELECT run, topic_id, partition, node, leader_epoch, seq FROM BecameFollower"""

STALE_SERVICE = offending(
    # A broker appends nothing and serves no group in an old leader epoch once it knows a newer one.
    f"""
    WITH known AS ({_KNOWN})
    SELECT run, topic_id, partition, seq, node, leader_epoch, newer, 'appends' AS does
    FROM Appended JOIN known USING (run, topic_id, partition, node)
    WHERE leader_epoch < newer AND seq > known
    UNION ALL
    SELECT run, topic_id, partition, seq, node, coordinator_epoch, newer,
           concat('serves group ', group)
    FROM (SELECT run, seq, node, group, coordinator_epoch FROM OffsetFetched
          UNION ALL
          SELECT run, seq, node, group, coordinator_epoch FROM OffsetCommitted)
    JOIN homes USING (run, group) JOIN known USING (run, topic_id, partition, node)
    WHERE coordinator_epoch < newer AND seq > known""",
    "'STALESERVE'",
    "'%s %s in leader epoch %d, though it knows of %d', node, does, leader_epoch, newer",
)

STALE_READS = offending(
    # A broker that has applied a loss answers no read as the leader, nor one that only the leader
    # of that epoch may answer, nor one in an older epoch than it knows.
    f"""
    SELECT run, topic_id, partition, seq, node, request, leader_epoch,
           'as the leader, though it has applied a later epoch' AS why
    FROM ReadServed JOIN (
        SELECT run, topic_id, partition, leader_epoch AS newer, min(seq) AS since
        FROM partition_changes GROUP BY run, topic_id, partition, leader_epoch)
        USING (run, topic_id, partition)
    WHERE leading AND leader_epoch < newer AND seq > since
    UNION ALL
    SELECT run, topic_id, partition, seq, node, request, leader_epoch,
           'that only the leader may answer'
    FROM ReadServed JOIN (
        SELECT DISTINCT run, topic_id, partition, leader_epoch, leader FROM partition_changes)
        USING (run, topic_id, partition, leader_epoch)
    WHERE only_leader AND node != concat('broker-', leader) AND node RLIKE '^broker-[0-9]+$'
    UNION ALL
    SELECT run, topic_id, partition, seq, node, request, leader_epoch,
           concat('though it knows of ', newer)
    FROM ReadServed JOIN ({_KNOWN}) USING (run, topic_id, partition, node)
    WHERE leader_epoch < newer AND seq > known""",
    "'STALESERVE'",
    "'%s answers a %s in leader epoch %d %s', node, request, leader_epoch, why",
)

_NAMED = """
    -- Each written state and assignment once, in the order of metadata offsets or zxids.
    SELECT *, lag(replicas) OVER told AS before, lag(leader) OVER told AS led,
           lag(leader_epoch) OVER told AS led_epoch
    FROM (SELECT run, topic_id, partition, offset, min(seq) AS seq, min(t_us) AS t_us,
                 min_by(node, seq) AS controller, min_by(leader, seq) AS leader,
                 min_by(leader_epoch, seq) AS leader_epoch, min_by(replicas, seq) AS replicas,
                 min_by(reason, seq) AS reason
          FROM PartitionChanged GROUP BY run, topic_id, partition, offset)
    WINDOW told AS (PARTITION BY run, topic_id, partition ORDER BY offset)"""

LOST_REPLICAS = offending(
    # A broker neither appends what it fetched of a partition nor answers reads of it, once it knows
    # that it is no replica: a heartbeat covers the change, or the broker has deleted the log.
    f"""
    WITH named AS ({_NAMED}), removed AS (
        SELECT run, topic_id, partition, broker, lost.offset, lost.seq,
               min(IF(back.seq > lost.seq, back.seq, NULL)) AS until
        FROM (SELECT *, explode(array_except(before, replicas)) AS broker FROM named) AS lost
        LEFT JOIN (SELECT run, topic_id, partition, seq,
                          explode(array_except(replicas, before)) AS broker FROM named) AS back
            USING (run, topic_id, partition, broker)
        GROUP BY run, topic_id, partition, broker, lost.offset, lost.seq
    ), known AS (
        SELECT run, topic_id, partition, concat('broker-', broker) AS node, until,
               min(told) AS since
        FROM removed JOIN ({_HEARTBEATS})
            ON run = at AND broker = sender AND published >= offset AND told > seq
        GROUP BY run, topic_id, partition, broker, until
        UNION ALL
        SELECT run, topic_id, partition, node, until, min(deleted)
        FROM (SELECT *, concat('broker-', broker) AS node FROM removed)
        JOIN (SELECT run, topic_id, partition, node, seq AS deleted FROM LogDeleted)
            USING (run, topic_id, partition, node)
        WHERE deleted > seq AND deleted < coalesce(until, 1L << 62)
        GROUP BY run, topic_id, partition, node, until)
    SELECT run, topic_id, partition, seq, node, does
    FROM (SELECT run, topic_id, partition, seq, node, 'appends what it fetched' AS does
          FROM Replicated
          UNION ALL
          SELECT run, topic_id, partition, seq, node, concat('answers a ', request)
          FROM ReadServed)
    JOIN known USING (run, topic_id, partition, node)
    WHERE seq > since AND seq < coalesce(until, 1L << 62)""",
    "'STALESERVE'",
    "'%s %s, though it knows that it is no longer a replica', node, does",
)


def _struck(since: str, now: str, bound_us: int) -> str:
    """Return the SQL whether a disturbance explains a wait, now or in the last ``bound_us``."""
    return f"begin_us <= {now} AND end_us + healing_us >= greatest({since}, {now} - {bound_us}L)"


LATE_METADATA = offending(
    # A KRaft broker that heartbeats has published what took a role from it.
    f"""
    WITH lost AS (
        SELECT run, topic_id, partition, seq, t_us, offset, broker,
               concat('broker-', broker) AS node
        FROM (SELECT *, explode(array_distinct(concat(
                     IF(led >= 0 AND led != leader, array(led), CAST(array() AS ARRAY<BIGINT>)),
                     array_except(before, replicas)))) AS broker
              FROM ({_NAMED}) WHERE before IS NOT NULL)
    ), late AS (
        SELECT run, topic_id, partition, seq, t_us, offset, node, told, told_us
        FROM lost JOIN ({_HEARTBEATS})
            ON run = at AND broker = sender AND published < offset AND told > seq
               AND told_us - t_us > {SPREAD_US})
    SELECT run, topic_id, partition, told AS seq, node, offset, told_us - t_us AS later
    FROM late
    LEFT ANTI JOIN (SELECT run AS at, node AS host, seq AS started FROM HostStarted) AS starts
        ON late.run = starts.at AND node = starts.host AND started > seq AND started < told
    LEFT ANTI JOIN disturbances AS own
        ON late.run = own.run AND node = own.host AND {_struck("t_us", "told_us", SPREAD_US)}
    LEFT ANTI JOIN (
        SELECT disturbances.* FROM disturbances JOIN servers USING (run, host)
        LEFT JOIN (SELECT DISTINCT run, true AS apart FROM servers
                   WHERE host LIKE 'controller-%') USING (run)
        WHERE apart IS NULL OR host LIKE 'controller-%') AS controllers
        ON late.run = controllers.run AND {_struck("t_us", "told_us", SPREAD_US)}""",
    "'STALESERVE'",
    "'%s has not heard of metadata offset %d that takes a role from it, %d us after it',"
    " node, offset, later",
)

_WAITS = f"""
    -- Who has to hear of a loss of a ZooKeeper controller: a leader of its successor, a replica
    -- that it is one no more.
    SELECT run, topic_id, partition, seq, t_us, controller, leader, leader_epoch AS epoch, broker,
           concat('broker-', broker) AS node, broker = led AND deposed AS deposed
    FROM (SELECT *, explode(array_distinct(concat(
                 IF(deposed, array(led), CAST(array() AS ARRAY<BIGINT>)),
                 array_except(before, replicas)))) AS broker
          FROM (SELECT *, led >= 0 AND leader >= 0 AND led != leader
                          AND leader_epoch > led_epoch AS deposed
                FROM ({_NAMED}) WHERE before IS NOT NULL AND reason != 'deletion'))
    LEFT SEMI JOIN ZkControllerWrite USING (run)"""

_NOBODY = "CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition"
_NOTHING = "CAST(NULL AS BIGINT) AS epoch, CAST(NULL AS ARRAY<BIGINT>) AS replicas"

_EVENTS = f"""
    -- What ends such a wait, or tells what the broker was before; a partition or a broker that is
    -- NULL stands for all.
    SELECT run AS at, seq AS then, t_us AS then_us, topic_id AS topic, partition AS number,
           node AS who, mark, epoch AS newer, replicas AS names
    FROM (
        SELECT run, seq, t_us, topic_id, partition, node, 'leads' AS mark, {_NOTHING}
        FROM BecameLeader
        UNION ALL
        SELECT run, seq, t_us, topic_id, partition, node, 'follows', NULL, NULL FROM BecameFollower
        UNION ALL
        SELECT run, seq, t_us, topic_id, partition, node, 'gone', NULL, NULL FROM LogDeleted
        UNION ALL
        SELECT run, seq, t_us, topic_id, partition, node, 'gone', NULL, NULL FROM ReplicaFailed
        UNION ALL
        SELECT run, seq, t_us, NULL, NULL, node, 'gone', NULL, NULL FROM HostStopped
        UNION ALL
        SELECT run, seq, t_us, NULL, NULL, node, 'gone', NULL, NULL FROM HostStarted
        UNION ALL
        SELECT run, seq, t_us, NULL, NULL, concat('broker-', broker), IF(fenced, 'down', 'up'),
               NULL, NULL
        FROM BrokerRegistration
        UNION ALL
        SELECT run, seq, t_us, NULL, NULL, client, 'down', NULL, NULL FROM ZooKeeperSession
        WHERE event IN ('closed', 'expired')
        UNION ALL
        SELECT run, seq, t_us, NULL, NULL, NULL, 'end', NULL, NULL FROM ControllerActive
        UNION ALL
        SELECT run, seq, t_us, NULL, NULL, NULL, 'end', NULL, NULL FROM Phase WHERE phase = 'end'
        UNION ALL
        SELECT run, seq, t_us, topic_id, NULL, NULL, 'end', NULL, NULL FROM TopicDeleted
        UNION ALL
        SELECT run, seq, t_us, topic_id, partition, NULL, IF(reason = 'deletion', 'end', 'changed'),
               leader_epoch, replicas
        FROM PartitionChanged)"""

_JUDGED = f"""
    SELECT run, topic_id, partition, seq, t_us, controller, leader, node, deposed,
           max_by(mark, then) FILTER (WHERE then < seq AND mark IN ('leads', 'follows', 'gone'))
               AS was,
           max_by(mark, then) FILTER (WHERE then < seq AND mark IN ('up', 'down')) AS session,
           min_by(struct(then, then_us), then) FILTER (WHERE then > seq AND (
               mark IN ('gone', 'up', 'down', 'end')
               OR (deposed AND mark IN ('leads', 'follows'))
               OR (deposed AND mark = 'changed' AND newer > epoch)
               OR (NOT deposed AND mark = 'changed' AND array_contains(names, broker)))) AS ended
    FROM ({_WAITS}) JOIN ({_EVENTS})
        ON run = at AND coalesce(topic, topic_id) = topic_id
           AND coalesce(number, partition) = partition AND coalesce(who, node) = node
    GROUP BY run, topic_id, partition, seq, t_us, controller, leader, node, deposed"""

LATE_REQUESTS = offending(
    # A ZooKeeper controller's LeaderAndIsr or StopReplica comes while its broker has a session. The
    # second join: a fault has killed the connection since the broker last got a request on it, and
    # the first request on a dead connection fails after 30 s.
    f"""
    WITH overdue AS (
        SELECT run, topic_id, partition, seq, t_us, controller, leader, node, deposed,
               ended.then AS then, ended.then_us AS then_us
        FROM ({_JUDGED})
        WHERE ended.then_us - t_us > {ZK_SPREAD_US} AND coalesce(session, 'up') = 'up'
              AND (was = 'leads' OR (was = 'follows' AND NOT deposed)))
    SELECT run, topic_id, partition, then AS seq, node, then_us - t_us AS later,
           IF(deposed, 'LeaderAndIsr that names another leader',
              'StopReplica that deletes its replica') AS what
    FROM overdue
    LEFT ANTI JOIN disturbances AS struck
        ON overdue.run = struck.run
           AND (host IN (node, controller, concat('broker-', leader)) OR host LIKE 'zookeeper-%')
           AND {_struck("t_us", "then_us", ZK_SPREAD_US)}
    LEFT ANTI JOIN (
        SELECT silent.run AS at, silent.node AS silent_node, silent.then AS silent_then
        FROM (SELECT overdue.run, overdue.node, overdue.controller, then, overdue.t_us, then_us,
                     coalesce(max(asked.t_us), 0L) AS heard_us
              FROM overdue LEFT JOIN ControlRequest AS asked
                  ON overdue.run = asked.run AND overdue.node = asked.node AND asked.seq < then
                     AND overdue.controller = concat('broker-', asked.controller)
              GROUP BY overdue.run, overdue.node, overdue.controller, then, overdue.t_us, then_us)
              AS silent
        JOIN disturbances AS dead
            ON silent.run = dead.run AND dead.host IN (silent.node, silent.controller)
               AND healing_us = {REQUEST_TIMEOUT_US} AND begin_us <= silent.t_us
               AND end_us >= heard_us
        WHERE then_us - silent.t_us <= {REQUEST_TIMEOUT_US + ZK_SPREAD_US})
        ON overdue.run = at AND node = silent_node AND then = silent_then""",
    "'STALESERVE'",
    "'%s has not obeyed a %s for %d us', node, what, later",
)
