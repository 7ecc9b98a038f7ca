"""The audit: do the windows of producers add up, as scenarios/judging/readers/outside states?"""

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

_ODD_WINDOWS = """
    SELECT run, group, topic, source, window, seq, published, coalesce(counted, 0) AS counted,
           first_record, last_record, published > coalesce(counted, 0) AS missing,
           IF(published > coalesce(counted, 0), -1, first_count) AS after,
           IF(published > coalesce(counted, 0), 1L << 62, last_count) AS shown
    FROM (SELECT run, group, topic, source, window, min(seq) AS seq,
                 max_by(records, seq) AS published, max(first_record) AS first_record,
                 max(last_record) AS last_record
          FROM AuditPublished GROUP BY run, group, topic, source, window)
    LEFT JOIN (SELECT run, group, topic, source, window, sum(records) AS counted,
                      min(seq) AS first_count, max(seq) AS last_count
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
    got AS (
        -- What groups have counted: a window does not lack it.
        SELECT DISTINCT run, group, record_id
        FROM (SELECT run, group, node, topic_id, partition, seq, one.record_ids AS record_id,
                     one.offsets AS at
              FROM Polled LEFT SEMI JOIN odd USING (run, group)
              LATERAL VIEW explode(arrays_zip(offsets, record_ids)) AS one)
        JOIN (SELECT run, group, node, topic_id, partition, seq AS done, base_offset, offset
              FROM Processed) USING (run, group, node, topic_id, partition)
        WHERE seq < done AND base_offset <= at AND at < offset),
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
                    before="least(shown, until)",
                    part="part",
                ),
            ),
            *on_reset("part"),
        )
    })) AS places
        FROM (SELECT *, {reset("missing", "after", "shown")} AS reset,
                     CASE WHEN NOT missing THEN ''
                          WHEN stands THEN concat(appended, ' ', offset)
                          ELSE concat('record ', record_id) END AS part
              FROM (SELECT *, coalesce(until = {AT_END}, false) AS stands,
                           max(coalesce(until = {AT_END}, false)) OVER (
                               PARTITION BY run, group, topic, source, window, record_id) AS kept
                    FROM (SELECT * FROM lacking
                          UNION ALL
                          SELECT DISTINCT odd.*, record_id
                          FROM odd JOIN own ON odd.run = own.run AND odd.topic = own.topic
                          WHERE NOT missing AND record_id BETWEEN first_record AND last_record)
                    LEFT JOIN stays USING (run, topic, record_id))
              {MOVES} {HOME}
              WHERE NOT missing OR stands = kept)
        GROUP BY run, group, topic, source, window)
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq, group,
           topic, source, window, published, counted,
           concat(coalesce(places, {NO_SPOTS}), {
        rests_on(
            ("NOT missing AND home IS NOT NULL", spot("home", "home_partition", before="shown")),
            ("missing AND coalesce(lacks, 0) < published - counted", NO_SPOT),
        )
    }) AS spots
    FROM odd LEFT JOIN rests_on USING (run, group, topic, source, window) {HOME}""",
    "IF(counted < published, 'audit-missing', 'audit-surplus')",
    "'group %s counted %d records of window %d of %s in %s, which says %d',"
    " group, counted, window, source, topic, published",
    "array(group)",
    about(shown=AT_END, spots="spots"),
)
