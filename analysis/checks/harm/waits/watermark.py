"""High watermarks move: analysis/judging/harm/watermark.py derives the bound.

Here the leader of the highest leader epoch is judged, and no deposed one.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

SLACK_US = 1_000_000

_MARKS = """
    -- What moves a partition's high watermark, or explains that it stands still.
    SELECT run, topic_id, partition, seq, t_us, node, 'leads' AS what, leader_epoch,
           high_watermark, 0L AS min_isr, NULL AS state
    FROM BecameLeader
    UNION ALL
    SELECT run, topic_id, partition, seq, t_us, node, 'moves', leader_epoch, high_watermark,
           min_isr, NULL
    FROM HighWatermark
    UNION ALL
    SELECT run, topic_id, partition, seq, t_us, node, 'changed', leader_epoch, NULL, NULL,
           struct(seq, offset, leader_epoch AS epoch, partition_epoch, isr, replicas)
    FROM partition_changes
    UNION ALL
    SELECT run, topic_id, partition, seq, t_us, node, 'answered', leader_epoch, NULL, NULL, NULL
    FROM IsrChanged
    UNION ALL
    SELECT run, topic_id, partition, seq, t_us, node, 'proposed', leader_epoch, NULL, NULL, NULL
    FROM IsrProposed
    UNION ALL
    SELECT run, topic_id, partition, seq, t_us, node, 'failed', NULL, NULL, NULL, NULL
    FROM ReplicaFailed
    UNION ALL
    SELECT run, topic_id, partition, seq, t_us, node, 'deleted', NULL, NULL, NULL, NULL
    FROM LogDeleted
    UNION ALL
    SELECT run, topic_id, partition, ends.seq, ends.t_us, ends.node, what, NULL, NULL, NULL, NULL
    FROM (SELECT DISTINCT run, topic_id, partition FROM BecameLeader)
    JOIN (SELECT run, seq, t_us, node, 'end' AS what FROM Phase WHERE phase IN ('liveness', 'end')
          UNION ALL
          SELECT run, seq, t_us, node, IF(config LIKE '%throttled%', 'throttled', 'configured')
          FROM ConfigChanged) AS ends USING (run)"""

_LED = """
    SELECT *, last(IF(what = 'leads', struct(node, leader_epoch AS epoch, t_us), NULL), true) OVER (
                  PARTITION BY run, topic_id, partition ORDER BY seq) AS leader
    FROM (SELECT *, max(IF(what = 'leads', leader_epoch, NULL)) OVER (
                        PARTITION BY run, topic_id, partition ORDER BY seq) AS newest
          FROM marks)
    WHERE what != 'leads' OR leader_epoch = newest"""

_TIMED = f"""
    -- The same with the last mark before each row. Of the moves there are only those that come a
    -- second after it: the others are most of the trace, and nothing stood still before them.
    SELECT * FROM (
        SELECT *, last(IF(what IN ('leads', 'moves'),
                          struct(seq, t_us, high_watermark AS hw, min_isr), NULL), true) OVER (
                      PARTITION BY run, topic_id, partition ORDER BY seq
                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS mark
        FROM led
        WHERE what NOT IN ('moves', 'proposed')
            OR (node = leader.node AND leader_epoch = leader.epoch))
    WHERE what != 'moves' OR t_us - mark.t_us > {SLACK_US}"""

_MINIMA = """
    -- What min.insync.replicas was set to, and until when.
    SELECT run, resource, t_us AS set_us, coalesce(int(value), 1) AS minimum,
           coalesce(lead(t_us) OVER (PARTITION BY run, resource ORDER BY seq), 1L << 62) AS until_us
    FROM ConfigChanged WHERE config = 'min.insync.replicas'"""

STOOD = f"""
    -- High watermarks that stood still for the wait of a fetch and a second, by the next row that
    -- says anything of them, where Kafka has no reason to hold them.
    WITH marks AS ({_MARKS}), led AS ({_LED}), timed AS ({_TIMED}), minima AS ({_MINIMA})
    SELECT looks.*, wait_us, created.min_isr AS created_isr
    FROM (SELECT run, topic_id, partition, seq, t_us, led.node AS node, led.epoch AS epoch,
                 led.t_us AS led_us, mark.seq AS marked, mark.t_us AS hw_us, mark.hw AS hw,
                 mark.min_isr AS min_isr, state,
                 greatest(changed_us, configured_us) AS settled_us
          FROM (SELECT * EXCEPT (state),
                       last(IF(what = 'leads', leader, NULL), true) OVER before AS led,
                       last(state, true) OVER before AS state,
                       last(IF(what IN ('changed', 'answered'), t_us, NULL), true) OVER before
                           AS changed_us,
                       last(IF(what = 'configured', t_us, NULL), true) OVER before
                           AS configured_us,
                       max(IF(what = 'throttled', true, NULL)) OVER before AS throttled,
                       last(IF(what = 'proposed', struct(seq, leader_epoch AS epoch), NULL), true)
                           OVER before AS proposed,
                       last(IF(what = 'answered', seq, NULL), true) OVER before AS answered,
                       last(IF(what = 'failed', seq, NULL), true) OVER before AS failed,
                       last(CASE WHEN what = 'leads' THEN true
                                 WHEN what = 'deleted' AND node = leader.node THEN false END,
                            true) OVER before AS has_log
                FROM timed
                WINDOW before AS (PARTITION BY run, topic_id, partition ORDER BY seq
                                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
          WHERE what IN ('leads', 'moves', 'changed', 'proposed', 'deleted', 'end')
              AND has_log AND throttled IS NULL
              AND t_us - mark.t_us > {SLACK_US}
              AND state.epoch = led.epoch
              AND coalesce(failed, -1) <= coalesce(answered, -1)
              AND (proposed IS NULL OR proposed.epoch != led.epoch
                   OR proposed.seq < coalesce(answered, -1))) AS looks
    JOIN (SELECT run, node, max(limit_us) AS wait_us FROM TimeLimit
          WHERE config = 'replica.fetch.wait.max.ms' GROUP BY run, node) AS limits
        ON looks.run = limits.run AND looks.node = limits.node
    LEFT JOIN (SELECT run, topic_id, any_value(topic) AS topic, min(min_isr) AS min_isr
               FROM TopicCreated GROUP BY run, topic_id) AS created
        ON looks.run = created.run AND looks.topic_id = created.topic_id
    LEFT ANTI JOIN minima ON looks.run = minima.run
        AND resource IN (concat('topic:', topic), 'broker:', replace(looks.node, '-', ':'))
        AND set_us <= t_us AND until_us >= hw_us
        AND size(state.isr) < least(minimum, size(state.replicas))
    WHERE t_us - hw_us >= wait_us + {SLACK_US}
        AND size(state.isr)
            >= coalesce(nullif(looks.min_isr, 0), created.min_isr, size(state.replicas))"""

_AHEAD = """
    -- Since when each member of the ISR has more: the leader alone since its last append. Members
    -- without more have no row. Few marks stand and replicas grow all the time, so the marks are
    -- broadcast.
    SELECT /*+ BROADCAST(stood) */ stood.run, stood.topic_id, stood.partition, stood.seq, host,
           any_value(wanted) AS wanted, any_value(stood.node) AS node,
           any_value(stood.t_us) AS t_us, any_value(led_us) AS led_us,
           any_value(hw_us) AS hw_us, any_value(hw) AS hw, any_value(state) AS state,
           any_value(settled_us) AS settled_us, any_value(wait_us) AS wait_us,
           IF(host = any_value(stood.node), max(grown.t_us),
              min(IF(grown.seq > marked, grown.t_us, NULL))) AS ahead_us
    FROM (
        SELECT run, topic_id, partition, node, seq, t_us, leader_epoch, next_offset FROM Appended
        UNION ALL
        SELECT run, topic_id, partition, node, seq, t_us, leader_epoch, start_offset
        FROM BecameLeader
        UNION ALL
        SELECT run, topic_id, partition, node, seq, t_us, leader_epoch, next_offset
        FROM Replicated) AS grown
    JOIN (SELECT *, size(hosts) AS wanted, explode(hosts) AS host
          FROM (SELECT *, filter(array_distinct(transform(state.isr,
                                                          each -> concat('broker-', each))),
                                 each -> each != node OR size(state.isr) = 1) AS hosts
                FROM standing_marks)) AS stood
        ON stood.run = grown.run AND stood.topic_id = grown.topic_id
        AND stood.partition = grown.partition AND host = grown.node
        AND epoch = grown.leader_epoch AND grown.seq < stood.seq AND next_offset > hw
    GROUP BY stood.run, stood.topic_id, stood.partition, stood.seq, host"""

_WAITING = f"""
    -- Stands in which all members have more, counted from when the last of them had, and from a
    -- second after the last change of the ISR or of a setting.
    SELECT run, topic_id, partition, seq, any_value(node) AS node, any_value(t_us) AS t_us,
           any_value(hw) AS hw, any_value(state) AS state,
           any_value(wait_us) + {SLACK_US} AS bound_us, min(ahead_us) AS first_us,
           greatest(any_value(settled_us) + {SLACK_US}, any_value(hw_us), any_value(led_us),
                    max(ahead_us)) AS since_us
    FROM ahead GROUP BY run, topic_id, partition, seq
    HAVING count(ahead_us) = any_value(wanted)"""

_KNOWN = """
    -- The same where the leader knows the state of its partition, counted from then on at the
    -- earliest: from the metadata log, from a ZooKeeper controller, or from the answer to its own
    -- proposal.
    SELECT stand.* EXCEPT (since_us), greatest(stand.since_us, known_us) AS since_us, known_us
    FROM (SELECT /*+ BROADCAST(waiting) */ any_value(struct(waiting.*)) AS stand,
                 min(learnt.t_us) AS known_us
          FROM (SELECT run, node, seq, t_us, offset AS up_to, NULL AS change
                FROM MetadataCommitted
                UNION ALL
                SELECT run, node, seq, t_us, NULL, NULL FROM ControlRequest
                WHERE api = 'LeaderAndIsr' AND error = 'NONE'
                UNION ALL
                SELECT run, node, seq, t_us, NULL, struct(topic_id, partition, partition_epoch)
                FROM IsrChanged) AS learnt
          JOIN waiting ON waiting.run = learnt.run AND waiting.node = learnt.node
              AND learnt.seq < waiting.seq
              AND CASE WHEN up_to IS NOT NULL THEN up_to >= state.offset
                       WHEN change IS NULL THEN learnt.seq > state.seq
                       ELSE change.topic_id = waiting.topic_id
                           AND change.partition = waiting.partition
                           AND change.partition_epoch >= state.partition_epoch END
          GROUP BY waiting.run, waiting.topic_id, waiting.partition, waiting.seq)"""

_STRETCHES = """
    -- The times in which brokers are fenced.
    SELECT run, broker, min(IF(fenced, struct(seq, t_us, offset), NULL)) AS first,
           max(until) AS until
    FROM (SELECT *, coalesce(lead(seq) OVER one, 1L << 62) AS until,
                 sum(IF(fenced, 0, 1)) OVER one AS stretch
          FROM BrokerRegistration WINDOW one AS (PARTITION BY run, broker ORDER BY seq))
    GROUP BY run, broker, stretch"""

_FENCES = """
    -- When the leader learned that a replica outside the ISR is fenced, which it is to the end of
    -- the stand: from the metadata log, or from a ZooKeeper controller.
    SELECT others.run, others.topic_id, others.partition, others.seq, other,
           min(news.t_us) AS heard_us
    FROM others
    JOIN stretches ON others.run = stretches.run AND other = broker
        AND first.seq < others.seq AND until > others.seq
    JOIN (SELECT run, node, seq, t_us, offset AS up_to FROM MetadataCommitted
          UNION ALL
          SELECT run, node, seq, t_us, NULL FROM ControlRequest
          WHERE api = 'UpdateMetadata' AND error = 'NONE') AS news
        ON others.run = news.run AND others.node = news.node AND news.seq < others.seq
        AND IF(up_to IS NULL, news.t_us >= first.t_us, up_to >= first.offset)
    GROUP BY others.run, others.topic_id, others.partition, others.seq, other"""

WATERMARK_STALLS = offending(
    # The high watermark moves within the wait of a fetch and a second after all members of the ISR
    # have more. The leader may wait for a replica outside that is not fenced, as far as it knows;
    # when it learns that it is, it looks again at the next append, or fetch that tells of more.
    f"""
    WITH ahead AS ({_AHEAD}), waiting AS ({_WAITING}), known AS ({_KNOWN}),
    stretches AS ({_STRETCHES}),
    others AS (SELECT *, explode_outer(array_except(state.replicas, state.isr)) AS other
               FROM known WHERE t_us - since_us >= bound_us),
    fences AS ({_FENCES})
    SELECT run, topic_id, partition, seq, node, hw, stood_us
    FROM (SELECT run, topic_id, partition, seq, any_value(node) AS node,
                 any_value(hw) AS hw, any_value(state.isr) AS isr, any_value(first_us) AS first_us,
                 any_value(known_us) AS known_us, any_value(since_us) AS since_us,
                 any_value(t_us - since_us) AS stood_us, any_value(bound_us) AS bound_us,
                 max(IF(other IS NULL, 0, coalesce(heard_us, t_us))) AS fenced_us
          FROM others LEFT JOIN fences USING (run, topic_id, partition, seq, other)
          GROUP BY run, topic_id, partition, seq) AS stalls
    LEFT ANTI JOIN disturbances ON stalls.run = disturbances.run
        AND (host = node OR array_contains(transform(isr, each -> concat('broker-', each)), host))
        AND begin_us <= since_us + bound_us AND end_us >= first_us - {SLACK_US}
    WHERE NOT (fenced_us > known_us AND fenced_us >= first_us)""",
    "'HWSTALL'",
    "'%s: the high watermark stands at %d for %d us after all of the ISR had more', node, hw,"
    " stood_us",
)

VIEWS = {"standing_marks": STOOD}
"""Views for this check, by name."""
