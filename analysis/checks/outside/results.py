"""Results that groups keep outside of Kafka, as analysis/judging/readers/outside states."""

from __future__ import annotations

from kafkasim.analysis.checks.base import AT_END, HOME, NO_SPOTS, about, offending, rests_on, spot
from kafkasim.analysis.checks.outside.resets import MOVES, on_reset, reset

_ODD_RESULTS = f"""
    -- A database knows a topic by its name: one that was created again is not judged.
    WITH results AS (SELECT * FROM FinalResults LEFT ANTI JOIN created_again USING (run, topic_id))
    SELECT *
    FROM (SELECT *, {
    reset("times = 0", "IF(times = 0, -1, got)", f"IF(times = 0, {AT_END}, again)")
} AS reset
    FROM (SELECT run, topic_id, partition, group, offset, times, 0 AS seq FROM (
        SELECT run, topic_id, partition, group, offset, count(stored) AS times FROM (
            SELECT run, topic_id, partition, group, offset, 1 AS stored
            FROM results LATERAL VIEW explode(offsets) AS offset
            UNION ALL
            SELECT run, topic_id, partition, group, offset, CAST(NULL AS INT) AS stored
            FROM (SELECT run, topic_id, partition, group,
                         greatest(start, log_start_offset) AS low,
                         greatest(reached, coalesce(committed, 0)) AS high
                  FROM (SELECT run, topic_id, partition, group,
                               max(coalesce(array_max(offsets) + 1, 0)) AS reached
                        FROM results GROUP BY run, topic_id, partition, group)
                  JOIN (SELECT run, topic_id, partition, group, min(offset) AS start
                        FROM Positioned WHERE reason != 'none'
                        GROUP BY run, topic_id, partition, group)
                      USING (run, topic_id, partition, group)
                  JOIN (SELECT run, topic_id, partition, max(log_start_offset) AS log_start_offset
                        FROM FinalReplica WHERE leading GROUP BY run, topic_id, partition)
                      USING (run, topic_id, partition)
                  JOIN topics USING (run, topic_id)
                  LEFT JOIN (SELECT run, group, topic, partition, max(offset) AS committed
                             FROM OffsetCommitted GROUP BY run, group, topic, partition)
                      USING (run, group, topic, partition))
            LATERAL VIEW explode(sequence(low, greatest(low, high - 1))) AS offset
            WHERE low < high)
        GROUP BY run, topic_id, partition, group, offset))
    LEFT JOIN (SELECT run, topic_id, partition, offset, removed_at FROM cleaned_offsets)
        USING (run, topic_id, partition, offset)
    LEFT JOIN (SELECT run, topic_id, partition, offset, marker, aborted FROM holes)
        USING (run, topic_id, partition, offset)
    LEFT JOIN committed_parts USING (run, topic_id, partition, group)
    LEFT JOIN (SELECT run, topic_id, partition, group, offset, min(seq) AS got, max(seq) AS again
               FROM polled_records LEFT SEMI JOIN FinalResults USING (run, group)
               GROUP BY run, topic_id, partition, group, offset)
        USING (run, topic_id, partition, group, offset)
    {MOVES} {HOME}
    WHERE times > 1 OR times = 0 AND removed_at IS NULL
          AND NOT coalesce(marker OR (aborted AND coalesce(only, false)), false))"""

_HIDES = f"""
    -- What hid the offsets of missing results from readers of committed records, in any leader's
    -- log: a marker at the offset, or an aborted record and the markers that said so.
    WITH marks AS (
        SELECT run, topic_id, partition, offset AS at, leader_epoch AS decided, producer AS pid,
               committed, marked
        FROM (SELECT run, topic_id, partition, offset, leader_epoch,
                     any_value(committed) AS committed
              FROM MarkerWritten GROUP BY run, topic_id, partition, offset, leader_epoch)
        JOIN (SELECT run, topic_id, partition, base_offset AS offset, leader_epoch,
                     max_by(producer_id, seq) AS producer, max(seq) AS marked
              FROM Appended GROUP BY run, topic_id, partition, base_offset, leader_epoch)
            USING (run, topic_id, partition, offset, leader_epoch)
    ), batches AS (
        SELECT run, topic_id, partition, offset, seq AS appended, leader_epoch, producer_id
        FROM (SELECT DISTINCT run, topic_id, partition, offset
              FROM odd WHERE times = 0 AND coalesce(only, false))
        JOIN (SELECT run, topic_id, partition, seq, leader_epoch, producer_id, base_offset,
                     next_offset FROM Appended) USING (run, topic_id, partition)
        WHERE base_offset <= offset AND offset < next_offset
    )
    SELECT run, topic_id, partition, offset, flatten(collect_list(array({
    spot("topic_id", "partition", "offset", "offset + 1", after="appended")
}, {spot("topic_id", "partition", "at", "at + 1", after="marked")}))) AS hidden
    FROM (SELECT *, max(at = offset AND decided = leader_epoch) OVER (
              PARTITION BY run, topic_id, partition, offset, appended) AS marker
          FROM batches JOIN marks USING (run, topic_id, partition))
    WHERE IF(marker, at = offset AND decided = leader_epoch,
             at > offset AND decided >= leader_epoch AND pid = producer_id AND NOT committed)
    GROUP BY run, topic_id, partition, offset"""

RESULTS = offending(
    # A database that has two results of a record, or none although the group is past it: a later
    # record of the partition has one, or the group has committed a later offset.
    f"""
    WITH odd AS ({_ODD_RESULTS}),
    hides AS ({_HIDES})
    SELECT run, topic_id, partition, group, offset, times, seq, concat(coalesce(IF(
        times = 0 AND coalesce(only, false), hidden, NULL), {NO_SPOTS}), {
        rests_on(
            *on_reset(),
            (
                "times > 1 AND got < again",
                spot("topic_id", "partition", "offset", "offset + 1", after="got", before="again"),
            ),
            (
                "times > 1 AND got < again AND home IS NOT NULL",
                spot("home", "home_partition", before="again"),
            ),
        )
    }) AS spots
    FROM odd LEFT JOIN hides USING (run, topic_id, partition, offset)""",
    "IF(times > 1, 'duplicate-result', 'lost-result')",
    "'group %s stored %d results of offset %d', group, times, offset",
    "array(group)",
    about("offset", shown=AT_END, spots="spots"),
)
