"""Producers are answered: analysis/judging/harm/answers.py derives the bounds."""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

BOUND_US = 1_000_000
RETRY_US = 3_000_000

LATE = f"""
    -- Answers that took long, each with the batch of the newest leader that it tells of.
    SELECT run, topic_id, partition, seq, any_value(node) AS node, any_value(t_us) AS t_us,
           any_value(latency_us) AS latency_us, any_value(retried) AS retried,
           any_value(waits) AS waits, any_value(attempts) AS attempts,
           min_by(batch, batch.seq) AS batch
    FROM (
        SELECT answers.run, answers.topic_id, answers.partition, answers.seq,
               any_value(answers.node) AS node, any_value(answers.t_us) AS t_us,
               any_value(latency_us) AS latency_us, any_value(retried) AS retried,
               any_value(waits) AS waits, any_value(attempts) AS attempts,
               any_value(struct(batch.seq, batch.t_us, batch.node AS leader, batch.leader_epoch,
                                batch.next_offset, batch.producer_id)) AS batch,
               max(struct(led.leader_epoch, led.seq, led.node)) AS newest
        FROM (
            SELECT run, topic_id, partition, seq, t_us, node, get(record_ids, 0) AS first_id,
                   base_offset + size(record_ids) AS end, acks = -1 AS waits,
                   attempts > 1 AS retried, attempts, latency_us
            FROM Acked WHERE latency_us > {BOUND_US} AND base_offset >= 0
            UNION ALL
            SELECT run, topic_id, partition, seq, t_us, node, get(record_ids, 0), NULL, true, true,
                   attempts, latency_us
            FROM SendFailed WHERE indeterminate) AS answers
        JOIN Appended AS batch
            ON answers.run = batch.run AND answers.topic_id = batch.topic_id
            AND answers.partition = batch.partition AND first_id = get(batch.record_ids, 0)
            AND batch.seq < answers.seq AND next_offset = coalesce(end, next_offset)
        JOIN BecameLeader AS led
            ON answers.run = led.run AND answers.topic_id = led.topic_id
            AND answers.partition = led.partition AND led.seq < answers.seq
        GROUP BY answers.run, answers.topic_id, answers.partition, answers.seq, batch.seq)
    WHERE newest.node = batch.leader AND newest.leader_epoch = batch.leader_epoch
        AND newest.seq < batch.seq
    GROUP BY run, topic_id, partition, seq"""

PASSED = """
    -- The clients' batches of leaders that late producers waited for, each with the row and the
    -- time at which the high watermark of that leader had passed it. What a leader has of earlier
    -- ones above its high watermark waits there since it leads.
    SELECT run, node, producer_id, seq, t_us, passed
    FROM (
        SELECT *, last(mark, true) OVER (
                   PARTITION BY run, topic_id, partition, node, leader_epoch
                   ORDER BY offset DESC, mark IS NULL, seq DESC
                   ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS passed
        FROM (
            SELECT run, topic_id, partition, node, leader_epoch, seq, t_us, producer_id,
                   next_offset AS offset, NULL AS mark
            FROM Appended WHERE size(record_ids) > 0
            UNION ALL
            SELECT led.run, led.topic_id, led.partition, led.node, led.leader_epoch, led.seq,
                   led.t_us, producer_id, next_offset, NULL
            FROM BecameLeader AS led LEFT SEMI JOIN late_answers ON led.run = late_answers.run
                AND waits AND led.node = batch.leader
            JOIN Appended AS earlier
                ON led.run = earlier.run AND led.topic_id = earlier.topic_id
                AND led.partition = earlier.partition AND earlier.seq < led.seq
                AND earlier.leader_epoch < led.leader_epoch AND size(record_ids) > 0
                AND next_offset > high_watermark AND next_offset <= start_offset
            UNION ALL
            SELECT run, topic_id, partition, node, leader_epoch, seq, t_us, NULL, high_watermark,
                   struct(seq, t_us)
            FROM HighWatermark)
        LEFT SEMI JOIN (SELECT run, batch.leader AS node FROM late_answers WHERE waits)
            USING (run, node))
    WHERE mark IS NULL"""

_REQUESTS = """
    -- Those whose batches, all that one request appended, had been passed by then, and when.
    SELECT run, seq, max(passed.t_us) AS passed_us
    FROM (SELECT late.run, late.seq, passed.passed AS passed FROM late_answers AS late
          JOIN passed_batches AS passed ON late.run = passed.run AND batch.leader = passed.node
              AND batch.producer_id = passed.producer_id AND batch.t_us = passed.t_us
              AND passed.seq < late.seq)
    GROUP BY run, seq HAVING coalesce(bool_and(passed.seq < seq), false)"""

_DUE = f"""
    -- When each answer was due. A retry may be refused once the partition has changed.
    SELECT late.run, topic_id, partition, late.seq, late.node, late.t_us, latency_us, waits,
           attempts, batch, IF(retried, late.t_us, batch.t_us) AS until_us,
           coalesce(passed_us, batch.t_us) AS committed_us,
           {BOUND_US} + IF(retried AND coalesce(
               coalesce(passed_us, batch.t_us) + {BOUND_US} - batch.t_us
                   >= patience_us - {BOUND_US}, true), {RETRY_US}, 0) AS bound_us
    FROM late_answers AS late LEFT JOIN requests USING (run, seq)
    LEFT JOIN (SELECT run, node, max(limit_us) AS patience_us FROM TimeLimit
               WHERE config = 'request.timeout.ms' GROUP BY run, node) AS limits
        ON late.run = limits.run AND late.node = limits.node
    WHERE (passed_us IS NOT NULL OR NOT waits)
        AND NOT (retried AND EXISTS (
            SELECT 1 FROM PartitionChanged AS changed
            WHERE changed.run = late.run AND changed.topic_id = late.topic_id
                AND changed.partition = late.partition AND changed.seq < late.seq
                AND changed.t_us >= late.batch.t_us))"""

LATE_ANSWERS = offending(
    # The answer comes within a second after the high watermark has passed all batches of the
    # request, or after that of an earlier request of the producer that waited for long.
    f"""
    WITH requests AS ({_REQUESTS}), due AS ({_DUE})
    SELECT run, topic_id, partition, seq, node, batch.leader AS leader, batch.next_offset AS end,
           t_us - committed_us - bound_us AS late_us, attempts
    FROM due
    LEFT ANTI JOIN disturbances ON due.run = disturbances.run
        AND (host = due.node OR host = batch.leader)
        AND begin_us <= committed_us + bound_us AND end_us >= due.t_us - latency_us
    LEFT ANTI JOIN Throttled AS throttled ON due.run = throttled.run
        AND throttled.client_id = due.node AND throttled.node = batch.leader
        AND throttled.t_us <= committed_us + bound_us
        AND throttled.t_us + throttled.throttle_ms * 1000 >= due.t_us - latency_us
    LEFT ANTI JOIN passed_batches AS other ON due.waits AND due.run = other.run
        AND batch.leader = other.node AND batch.producer_id = other.producer_id
        AND other.seq < due.seq AND other.t_us <= until_us
        AND CASE WHEN coalesce(other.passed.seq < due.seq, false)
                 THEN other.passed.t_us > batch.t_us
                     AND other.passed.t_us - other.t_us > {BOUND_US}
                     AND due.t_us <= bound_us + other.passed.t_us
                 ELSE due.t_us - other.t_us > {BOUND_US} END
    WHERE t_us > committed_us + bound_us""",
    "'ACKLATE'",
    "'%s is answered %d us too late that %s has committed its records below offset %d"
    " (%d attempts)', node, late_us, leader, end, attempts",
)

VIEWS = {"late_answers": LATE, "passed_batches": PASSED}
"""Views for this check, by name."""
