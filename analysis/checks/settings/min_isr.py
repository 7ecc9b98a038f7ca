"""MINISR: analysis/judging/invariants/settings/min_isr.py says which minimum is in force when."""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

SPREAD_US = 1_500_000

_LOW = """
    -- Advances with fewer replicas than the topic or the brokers have ever asked for; the factor is
    -- the fewest replicas that the partition has had in the leader's epoch.
    SELECT run, topic_id, partition, seq, t_us, node, leader_epoch, high_watermark, marks.replicas,
           topic, since, created_isr,
           least(created_factor, array_min(transform(
               filter(told, each -> each.seq < marks.seq), each -> each.replicas))) AS factor
    FROM (SELECT marks.run, topic_id, partition, seq, t_us, node, leader_epoch, high_watermark,
                 size(acknowledged) AS replicas, topic, since, created_isr, created_factor
          FROM HighWatermark AS marks
          JOIN (SELECT run, topic_id, any_value(topic) AS topic, min(offset) AS since,
                       any_value(min_isr) AS created_isr,
                       any_value(replication_factor) AS created_factor
                FROM TopicCreated GROUP BY run, topic_id) USING (run, topic_id)
          LEFT JOIN (SELECT run, max(value) AS most FROM minima GROUP BY run) USING (run)
          WHERE size(acknowledged)
              < least(greatest(created_isr, coalesce(most, 1)), created_factor)) AS marks
    LEFT JOIN (SELECT run, topic_id, partition, leader_epoch,
                      collect_list(struct(seq, size(replicas) AS replicas)) AS told
               FROM PartitionChanged GROUP BY run, topic_id, partition, leader_epoch)
        USING (run, topic_id, partition, leader_epoch)"""

_MINIMA = """
    -- The changes of the minimum, each once; a controller may tell again what one before told.
    SELECT run, resource, offset, min(seq) AS told, min(t_us) AS told_us,
           min_by(node, seq) AS writer, CAST(min_by(value, seq) AS BIGINT) AS value
    FROM ConfigChanged WHERE config = 'min.insync.replicas' GROUP BY run, resource, offset"""

_APPLIED = """
    -- Up to which offset the leader had begun to publish metadata, and up to which it had surely
    -- published its settings: those come after the roles of replicas, which may wait for a disk.
    SELECT run, seq, max_by(offset, told) AS applied,
           max_by(offset, told) FILTER (WHERE t_us < last_us) AS before
    FROM (SELECT low.run, low.seq, offset, told.seq AS told, told.t_us,
                 max(told.t_us) OVER (PARTITION BY low.run, low.seq) AS last_us
          FROM low JOIN MetadataCommitted AS told
              ON low.run = told.run AND low.node = told.node AND told.seq < low.seq)
    GROUP BY run, seq"""

_ASKED = f"""
    -- The changes of the topic, of this broker and of all brokers that may have counted, and
    -- whether each surely did.
    SELECT asked.run, asked.seq, kind, asked.offset, value,
           IF(zookeeper, asked.t_us - told_us > {SPREAD_US} AND struck.run IS NULL,
              asked.offset <= before) AS sure
    FROM (SELECT low.run, low.seq, low.t_us, low.node, told_us, writer, minima.offset, value,
                 before, zk.run IS NOT NULL AS zookeeper,
                 CASE resource WHEN concat('topic:', topic) THEN 'own'
                               WHEN 'broker:' THEN 'every' ELSE 'here' END AS kind
          FROM low
          LEFT JOIN applied ON low.run = applied.run AND low.seq = applied.seq
          LEFT JOIN (SELECT DISTINCT run FROM ZooKeeperRole) AS zk ON low.run = zk.run
          JOIN minima ON low.run = minima.run AND told < low.seq
              AND (resource = concat('topic:', topic) AND minima.offset > since
                   OR resource IN ('broker:', replace(low.node, 'broker-', 'broker:')))
              AND (zk.run IS NOT NULL OR minima.offset <= applied)) AS asked
    LEFT JOIN disturbances AS struck
        ON zookeeper AND asked.run = struck.run AND (
            (host = writer OR host LIKE 'zookeeper-%')
            AND begin_us <= told_us + {SPREAD_US} AND end_us >= told_us
            OR (host = asked.node OR host LIKE 'zookeeper-%')
            AND begin_us <= asked.t_us
            AND end_us + healing_us >= greatest(told_us, asked.t_us - {SPREAD_US}L))"""

_IN_FORCE = """
    -- The values of each kind since the last one that surely counted; never: there may be none.
    SELECT run, seq, kind, collect_list(struct(value)) AS found, any_value(surely IS NULL) AS never
    FROM (SELECT *, max(IF(sure, offset, NULL)) OVER (PARTITION BY run, seq, kind) AS surely
          FROM (SELECT DISTINCT * FROM asked))
    WHERE offset >= coalesce(surely, offset)
    GROUP BY run, seq, kind"""


def _least(kind: str, default: str) -> str:
    """Return the SQL of the lowest value of a kind; ``default`` where there may be none."""
    values = f"transform({kind}.found, each -> coalesce(each.value, {default}))"
    return f"""IF({kind}.seq IS NULL, {default}, least(
        array_min({values}), IF({kind}.never, {default}, NULL)))"""


def _of_brokers(default: str) -> str:
    return _least("here", _least("every", default))


_NEEDED = f"""
    SELECT low.*, least(factor, IF(own.seq IS NULL, {{never}}, least(
               array_min(transform(own.found, each -> coalesce(each.value, {_of_brokers("1L")}))),
               IF(own.never, {{never}}, NULL)))) AS needed
    FROM low
    LEFT JOIN (SELECT * FROM in_force WHERE kind = 'own') AS own USING (run, seq)
    LEFT JOIN (SELECT * FROM in_force WHERE kind = 'here') AS here USING (run, seq)
    LEFT JOIN (SELECT * FROM in_force WHERE kind = 'every') AS every USING (run, seq)
    LEFT JOIN (SELECT DISTINCT run, true AS zookeeper FROM ZooKeeperRole) USING (run)""".format(
    never=f"IF(zookeeper, least(created_isr, {_of_brokers('created_isr')}),"
    f" {_of_brokers('created_isr')})"
)

HIGH_WATERMARK_NEEDS_MIN_ISR = offending(
    # At each advance effective min.insync.replicas replicas had told the leader such a LEO. In
    # ZooKeeper mode a member of the leader's ISR that was no replica when the leader epoch began
    # counts for one (judging/invariants/zookeeper.py:Strangers).
    f"""
    WITH minima AS ({_MINIMA}), low AS ({_LOW}), applied AS ({_APPLIED}), asked AS ({_ASKED}),
    in_force AS ({_IN_FORCE}), needing AS ({_NEEDED}),
    strangers AS (
        SELECT low.run, low.topic_id, low.partition, low.seq,
               max_by(size(array_except(isr, assigned)), told.seq) AS strangers
        FROM low
        JOIN (SELECT run, topic_id, partition, node, leader_epoch, seq, isr FROM BecameLeader
              UNION ALL
              SELECT run, topic_id, partition, node, leader_epoch, seq, isr FROM IsrChanged) AS told
            ON told.run = low.run AND told.topic_id = low.topic_id
               AND told.partition = low.partition AND told.node = low.node
               AND told.leader_epoch = low.leader_epoch AND told.seq < low.seq
        JOIN (SELECT run, topic_id, partition, leader_epoch, min_by(replicas, seq) AS assigned
              FROM PartitionChanged GROUP BY run, topic_id, partition, leader_epoch) AS begun
            ON begun.run = low.run AND begun.topic_id = low.topic_id
               AND begun.partition = low.partition AND begun.leader_epoch = low.leader_epoch
        LEFT SEMI JOIN ZkControllerWrite ON ZkControllerWrite.run = low.run
        GROUP BY low.run, low.topic_id, low.partition, low.seq)
    SELECT * FROM needing LEFT JOIN strangers USING (run, topic_id, partition, seq)
    WHERE replicas < needed - coalesce(strangers, 0)""",
    "'MINISR'",
    "'%s: high watermark %d with %d of %d replicas', node, high_watermark, replicas, needed",
)
