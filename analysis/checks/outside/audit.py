"""The audit: do the windows of producers add up, as analysis/judging/readers/outside states?"""

from __future__ import annotations

from kafkasim.analysis.checks.base import (
    AT_END,
    HOME,
    NO_SPOT,
    NO_SPOTS,
    about,
    offending,
    rests_on,
    spot,
)
from kafkasim.analysis.checks.outside.resets import MOVES, on_reset, reset

_NOWHERE = spot("CAST(NULL AS STRING)", "CAST(NULL AS BIGINT)", part="part")
"""A part of a finding that other spots may explain."""

_ODD_WINDOWS = """
    SELECT run, group, topic, source, window, seq, published, coalesce(counted, 0) AS counted,
           first_record, last_record, published > coalesce(counted, 0) AS missing
    FROM (SELECT run, group, topic, source, window, min(seq) AS seq,
                 max_by(records, seq) AS published, max(first_record) AS first_record,
                 max(last_record) AS last_record
          FROM AuditPublished GROUP BY run, group, topic, source, window)
    LEFT JOIN (SELECT run, group, topic, source, window, sum(records) AS counted
               FROM AuditCounted GROUP BY run, group, topic, source, window)
        USING (run, group, topic, source, window)
    WHERE published != coalesce(counted, 0)"""

_STAYS = f"""
    -- How long records of odd windows stayed in the log (readers/outside/stays.py).
    WITH written AS (
        SELECT run, topic_id, partition, node, seq, leader_epoch AS had, base_offset, next_offset
        FROM Appended
        UNION ALL
        SELECT run, topic_id, partition, node, seq, batch_epoch, base_offset, next_offset
        FROM Replicated
    ), back AS (
        -- When a replica that had the record was elected last.
        SELECT run, topic_id, partition, offset, appended, max(led) AS back
        FROM (SELECT run, topic_id, partition, offset, appended, epoch, led,
                     max_by(had, seq) AS had
              FROM own JOIN (SELECT run, topic_id, partition, node, seq AS led, start_offset
                             FROM BecameLeader) USING (run, topic_id, partition)
              JOIN written USING (run, topic_id, partition, node)
              WHERE led > appended AND offset < start_offset AND seq < led
                    AND base_offset <= offset AND offset < next_offset
              GROUP BY run, topic_id, partition, offset, appended, epoch, led)
        WHERE had = epoch GROUP BY run, topic_id, partition, offset, appended
    ), again AS (
        -- When a leader of a later epoch appended there, or below.
        SELECT run, topic_id, partition, offset, appended, epoch, min(seq) AS again
        FROM own LEFT JOIN back USING (run, topic_id, partition, offset, appended)
        JOIN (SELECT run, topic_id, partition, seq, leader_epoch, base_offset FROM Appended)
            USING (run, topic_id, partition)
        WHERE seq > appended AND seq > coalesce(back, -1)
              AND leader_epoch > epoch AND base_offset <= offset
        GROUP BY run, topic_id, partition, offset, appended, epoch)
    SELECT run, topic_id, topic, partition, appended, epoch, offset, record_id,
           IF(again IS NULL, {AT_END}, greatest(again, exposed + 1)) AS until
    FROM own LEFT JOIN again USING (run, topic_id, partition, offset, appended, epoch)
    LEFT JOIN (SELECT run, topic_id, partition, leader_epoch AS epoch, max(seq) AS exposed
               FROM HighWatermark GROUP BY run, topic_id, partition, leader_epoch)
        USING (run, topic_id, partition, epoch)"""

AUDIT = offending(
    # A window of a producer in which an auditing group has not got as many records as the
    # producer's monitoring event says. A window without an event is not judged.
    f"""
    WITH odd AS ({_ODD_WINDOWS}),
    own AS (
        SELECT DISTINCT run, topic_id, topic, partition, appended, epoch, offset, record_id
        FROM (SELECT run, topic_id, topic, partition, seq AS appended, leader_epoch AS epoch,
                     base_offset + place AS offset, record_id
              FROM Appended JOIN (SELECT run, topic_id, topic FROM topics) USING (run, topic_id)
              LEFT SEMI JOIN odd USING (run, topic)
              LATERAL VIEW posexplode(record_ids) AS place, record_id)
        JOIN odd USING (run, topic)
        WHERE record_id BETWEEN first_record AND last_record),
    stays AS ({_STAYS}),
    counted AS (
        -- What groups have counted, and when they got it.
        SELECT run, group, node, topic_id, partition, record_id, offset, done.seq AS done,
               max(seq) AS polled
        FROM (SELECT run, group, node, topic_id, partition, seq, done, records,
                     one.record_ids AS record_id, one.offsets AS offset
              FROM (SELECT *, first_value(processed, true) OVER (
                              PARTITION BY run, group, node, topic_id, partition ORDER BY seq
                              ROWS BETWEEN CURRENT ROW AND UNBOUNDED FOLLOWING) AS done
                    FROM (SELECT run, group, node, topic_id, partition, seq,
                                 arrays_zip(offsets, record_ids) AS records, NULL AS processed
                          FROM Polled
                          UNION ALL
                          SELECT run, group, node, topic_id, partition, seq, NULL,
                                 struct(seq, base_offset AS low, offset AS high) FROM Processed)
                    LEFT SEMI JOIN odd USING (run, group))
              LATERAL VIEW explode(records) AS one)
        WHERE done.low <= offset AND offset < done.high
        GROUP BY run, group, node, topic_id, partition, record_id, offset, done.seq),
    got AS (SELECT DISTINCT run, group, record_id FROM counted),
    deliveries AS (
        -- What they have counted of windows with too many records, with the copy that it was.
        SELECT run, group, source, window, topic, topic_id, partition, record_id, offset, polled,
               max(appended) AS appended, max_by(until, appended) AS until
        FROM (SELECT odd.run, odd.group, odd.source, odd.window, odd.topic, topic_id, partition,
                     record_id, offset, polled
              FROM odd JOIN counted USING (run, group)
              WHERE NOT missing AND record_id BETWEEN first_record AND last_record)
        LEFT JOIN (SELECT run, topic_id, topic, partition, offset, record_id, appended, until
                   FROM stays) USING (run, topic_id, topic, partition, offset, record_id)
        WHERE appended IS NULL OR appended < polled
        GROUP BY run, group, source, window, topic, topic_id, partition, record_id, offset, polled),
    again AS (
        -- Each time that a group has got a record again, with what it had got before.
        SELECT *, concat('again ', record_id, ' ', polled) AS part,
               coalesce(was.appended IS NOT NULL AND NOT (was <=> came), false) AS other
        FROM (SELECT *, struct(topic_id, partition, offset, appended, until) AS came,
                     lag(struct(topic_id, partition, offset, appended, until)) OVER got AS was,
                     lag(polled) OVER got AS before
              FROM deliveries
              WINDOW got AS (PARTITION BY run, group, source, window, topic, record_id
                             ORDER BY polled))
        WHERE before IS NOT NULL),
    lacking AS (
        -- The acknowledged records that windows lack.
        SELECT DISTINCT odd.*, record_id
        FROM odd JOIN (SELECT run AS of, topic AS name, record_id
                       FROM (SELECT run, topic_id, topic FROM topics)
                       JOIN (SELECT run, topic_id, explode(record_ids) AS record_id FROM Acked)
                           USING (run, topic_id))
            ON run = of AND topic = name
        LEFT ANTI JOIN got USING (run, group, record_id)
        WHERE missing AND record_id BETWEEN first_record AND last_record),
    rests_on AS (
        SELECT run, group, topic, source, window, count(DISTINCT record_id) AS lacks,
               flatten(collect_list({
        rests_on(
            (
                "true",
                spot(
                    "topic_id",
                    "partition",
                    "offset",
                    "offset + 1",
                    after="appended",
                    before="until",
                    part="part",
                ),
            ),
            *on_reset("part"),
        )
    })) AS places
        FROM (SELECT *, {reset("true", "-1", AT_END)} AS reset,
                     IF(stands, concat(appended, ' ', offset), concat('record ', record_id))
                         AS part
              FROM (SELECT *, coalesce(until = {AT_END}, false) AS stands,
                           max(coalesce(until = {AT_END}, false)) OVER (
                               PARTITION BY run, group, topic, source, window, record_id) AS kept
                    FROM lacking LEFT JOIN stays USING (run, topic, record_id))
              {MOVES} {HOME}
              WHERE stands = kept)
        GROUP BY run, group, topic, source, window),
    repeated AS (
        SELECT run, group, topic, source, window, count(*) AS times, flatten(collect_list({
        rests_on(
            ("true", _NOWHERE),
            (
                "other",
                spot(
                    "was.topic_id",
                    "was.partition",
                    "was.offset",
                    "was.offset + 1",
                    after="was.appended",
                    before="least(polled, was.until)",
                    part="part",
                ),
            ),
            (
                "NOT other AND home IS NOT NULL",
                spot("home", "home_partition", after="before", before="polled", part="part"),
            ),
            *on_reset("part"),
        )
    })) AS repeats
        FROM (SELECT *, IF(other, NULL, {reset("false", "before", "polled")}) AS reset
              FROM again {MOVES} {HOME})
        GROUP BY run, group, topic, source, window)
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq, group,
           topic, source, window, published, counted,
           concat(coalesce(places, {NO_SPOTS}), coalesce(repeats, {NO_SPOTS}), {
        rests_on(
            ("missing AND coalesce(lacks, 0) < published - counted", NO_SPOT),
            ("NOT missing AND coalesce(times, 0) < counted - published", NO_SPOT),
        )
    }) AS spots
    FROM odd LEFT JOIN rests_on USING (run, group, topic, source, window)
    LEFT JOIN repeated USING (run, group, topic, source, window)""",
    "IF(counted < published, 'audit-missing', 'audit-surplus')",
    "'group %s counted %d records of window %d of %s in %s, which says %d',"
    " group, counted, window, source, topic, published",
    "array(group)",
    about(shown=AT_END, spots="spots"),
)
