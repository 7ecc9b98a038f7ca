"""EPOCHREASON: analysis/judging/harm/service/raised_epochs.py derives the cases.

The run's own judge forgets an end of a log that an election has cut; here it counts until the
producer's next batch, so that an election after it is a case, too.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

RAISED = """
    -- The idempotent producers that have raised their epoch; transactional ones do not.
    SELECT DISTINCT run, node, producer_id
    FROM (SELECT run, node, producer_id FROM Acked WHERE producer_epoch > 0
          UNION ALL
          SELECT run, node, producer_id FROM SequencesRewritten)
    LEFT ANTI JOIN (SELECT run, producer_id FROM TransactionBegun) USING (run, producer_id)"""

_OWN = """
    -- is_superseded: a later leader had begun, so that it lacks the batch.
    SELECT *, leader_epoch < newest AS is_superseded
    FROM (SELECT *, max(begun) OVER (PARTITION BY run, topic_id, partition ORDER BY seq) AS newest
          FROM (SELECT run, topic_id, partition, producer_id, seq, producer_epoch, base_sequence,
                       record_ids, next_offset, leader_epoch, 0 AS begun
                FROM Appended LEFT SEMI JOIN raised_producers USING (run, producer_id)
                WHERE base_sequence >= 0
                UNION ALL
                SELECT run, topic_id, partition, NULL, seq, NULL, NULL, NULL, NULL, NULL,
                       leader_epoch
                FROM BecameLeader))
    WHERE producer_id IS NOT NULL"""

_GAPS = """
    -- Where a leader took another sequence than the next, or than 0 in an epoch; where one went on
    -- when a later one had begun, once in each epoch; and elections of a leader without the end of
    -- what the one before had appended.
    SELECT run, topic_id, partition, producer_id, seq
    FROM (SELECT *, lag(producer_epoch) OVER one AS epoch_before,
                 lag(is_superseded) OVER one AS was_superseded,
                 lag(base_sequence + size(record_ids)) OVER one AS expected
          FROM own WINDOW one AS (PARTITION BY run, topic_id, partition, producer_id ORDER BY seq))
    WHERE IF(is_superseded, was_superseded IS NOT TRUE OR producer_epoch != epoch_before,
             base_sequence != IF(producer_epoch = epoch_before, expected % 2147483648, 0))
    UNION ALL
    SELECT run, topic_id, partition, producer_id, seq
    FROM (SELECT *, last(next_offset, true) OVER (
                     PARTITION BY run, topic_id, partition, producer_id ORDER BY seq) AS end_offset
          FROM (SELECT run, topic_id, partition, producer_id, seq, next_offset,
                       CAST(NULL AS BIGINT) AS start_offset FROM own WHERE NOT is_superseded
                UNION ALL
                SELECT run, topic_id, partition, producer_id, seq, NULL, start_offset
                FROM BecameLeader JOIN (SELECT DISTINCT run, topic_id, partition, producer_id
                                        FROM own) USING (run, topic_id, partition)))
    WHERE start_offset < end_offset
    UNION ALL
    SELECT run, topic_id, partition, producer_id, seq FROM unknown"""

_UNKNOWN = """
    -- Elections of a leader that has two batches without an answer, of a producer's last epoch, in
    -- what it has loaded, or has left of a log that was cut off: a snapshot has the last one only.
    SELECT run, topic_id, partition, producer_id, seq
    FROM (SELECT led.run, led.topic_id, led.partition, led.seq, own.producer_id,
                 max(own.producer_epoch) AS epoch,
                 collect_set(IF(answers.seq IS NULL AND own.next_offset <= reloaded,
                                struct(own.producer_epoch, own.base_sequence), NULL)) AS unanswered
          FROM (SELECT led.run, led.topic_id, led.partition, led.seq,
                       max_by(until, loads.seq) AS reloaded
                FROM BecameLeader AS led
                JOIN (SELECT run, topic_id, partition, node, seq, log_end_offset AS until
                      FROM LogLoaded
                      UNION ALL
                      SELECT run, topic_id, partition, node, seq, offset FROM Truncated) AS loads
                    ON led.run = loads.run AND led.topic_id = loads.topic_id
                       AND led.partition = loads.partition AND led.node = loads.node
                       AND loads.seq < led.seq
                GROUP BY led.run, led.topic_id, led.partition, led.seq) AS led
          JOIN own ON led.run = own.run AND led.topic_id = own.topic_id
                      AND led.partition = own.partition AND own.seq < led.seq
          LEFT JOIN Acked AS answers
              ON own.run = answers.run AND own.topic_id = answers.topic_id
                 AND own.partition = answers.partition AND own.producer_id = answers.producer_id
                 AND own.record_ids = answers.record_ids AND answers.seq < led.seq
          GROUP BY led.run, led.topic_id, led.partition, led.seq, own.producer_id)
    WHERE size(filter(unanswered, batch -> batch.producer_epoch = epoch)) > 1"""

_BARE = """
    -- The raises that no failure and no gap in the partition explains, since the raise before.
    SELECT told.*
    FROM (SELECT *, coalesce(lag(seq) OVER one, -1) AS since,
                 lag(record_ids) OVER one AS ids_before,
                 lag(producer_epoch) OVER one AS epoch_before
          FROM SequencesRewritten LEFT SEMI JOIN raised_producers USING (run, producer_id)
          WINDOW one AS (PARTITION BY run, topic_id, partition, producer_id ORDER BY seq)) AS told
    LEFT ANTI JOIN failures
        ON told.run = failures.run AND told.node = failures.node
           AND told.topic_id = failures.topic_id AND told.partition = failures.partition
           AND failures.seq > since AND failures.seq < told.seq
    LEFT ANTI JOIN gaps
        ON told.run = gaps.run AND told.producer_id = gaps.producer_id
           AND told.topic_id = gaps.topic_id AND told.partition = gaps.partition
           AND gaps.seq > since AND gaps.seq < told.seq"""

_APPENDED_BEFORE = """
    own.run = bare.run AND own.producer_id = bare.producer_id AND own.topic_id = bare.topic_id
    AND own.partition = bare.partition AND own.seq < bare.seq AND own.producer_epoch < epoch_before
    AND arrays_overlap(own.record_ids, ids_before)"""

_COUNTED = f"""
    -- The first use of each epoch, with how many cases there were: batches that the process of this
    -- host had given up, and gaps of its producer.
    SELECT used.run, used.topic_id, used.partition, used.seq, used.node, used.producer_id,
           producer_epoch, count(case_seq) AS cases
    FROM (SELECT run, node, producer_id, producer_epoch, min(seq) AS seq,
                 min_by(topic_id, seq) AS topic_id, min_by(partition, seq) AS partition
          FROM Acked LEFT SEMI JOIN raised_producers USING (run, producer_id)
          WHERE producer_epoch > 0 GROUP BY run, node, producer_id, producer_epoch) AS used
    LEFT JOIN (
        SELECT failures.run, raised.producer_id, failures.seq AS case_seq
        FROM raised_producers AS raised
        JOIN (SELECT run, producer_id, min(seq) AS first FROM Acked GROUP BY run, producer_id)
            AS began ON raised.run = began.run AND raised.producer_id = began.producer_id
        JOIN failures ON raised.run = failures.run AND raised.node = failures.node
        LEFT ANTI JOIN HostStarted AS starts
            ON raised.run = starts.run AND raised.node = starts.node
               AND starts.seq > failures.seq AND starts.seq < began.first
        UNION ALL
        SELECT run, producer_id, seq FROM gaps
        UNION ALL
        SELECT run, producer_id, seq FROM bare LEFT SEMI JOIN own ON {_APPENDED_BEFORE}) AS cases
        ON used.run = cases.run AND used.producer_id = cases.producer_id AND case_seq < used.seq
    GROUP BY used.run, used.topic_id, used.partition, used.seq, used.node, used.producer_id,
             producer_epoch"""

EPOCH_REASON = offending(
    # An idempotent producer raises its epoch for a gap in that partition, and once for each.
    f"""
    WITH own AS ({_OWN}), unknown AS ({_UNKNOWN}), gaps AS ({_GAPS}),
    failures AS (SELECT run, node, topic_id, partition, seq FROM SendFailed WHERE attempts > 0),
    bare AS ({_BARE})
    SELECT run, topic_id, partition, seq, node, producer_epoch, producer_id
    FROM bare LEFT ANTI JOIN own ON {_APPENDED_BEFORE}
    UNION ALL
    SELECT run, topic_id, partition, seq, node, producer_epoch, producer_id
    FROM ({_COUNTED}) WHERE producer_epoch > cases""",
    "'EPOCHREASON'",
    "'%s raises its epoch to %d (producer id %d) without a gap', node, producer_epoch, producer_id",
)

VIEWS = {"raised_producers": RAISED}
"""The view for this check, by name."""
