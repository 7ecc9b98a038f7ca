"""The heaviest checks as DuckDB says them, on the same Parquet files: a yardstick for Spark's.

The queries are those of ``checks/`` in DuckDB's words, so each must find as many rows.
"""

from __future__ import annotations

from pathlib import Path

import duckdb

from kafkasim.analysis.bench.clock import Clock
from kafkasim.analysis.stored import kind_columns

KINDS = (
    "Acked", "Appended", "BecameLeader", "Cleaned", "FinalReplica", "HighWatermark", "LogStart",
    "MarkerWritten", "PartitionOwner", "Polled", "Positioned", "ReadsCommitted", "Replicated",
    "TopicCreated",
)  # fmt: skip

VIEWS = {
    "final_leaders": """
        SELECT * REPLACE (greatest(log_start_offset, trimmed) AS log_start_offset) FROM (
            SELECT * FROM FinalReplica WHERE "leading"
            QUALIFY row_number() OVER (PARTITION BY run, topic_id, partition
                                       ORDER BY leader_epoch DESC) = 1)
        LEFT JOIN (
            SELECT run, topic_id, partition, max("offset") AS trimmed FROM LogStart
            WHERE reason IN ('delete-records', 'retention') GROUP BY run, topic_id, partition)
            USING (run, topic_id, partition)""",
    "final_records": """
        SELECT * FROM (
            SELECT run, topic_id, partition, log_start_offset, unnest(record_ids) AS record_id,
                   unnest(flatten(list_transform(
                       list_zip(base_offsets, record_counts),
                       lambda batch: range(batch[1], batch[1] + batch[2])))) AS "offset"
            FROM final_leaders)
        WHERE "offset" >= log_start_offset""",
    "acked_records": """
        SELECT run, topic_id, partition, seq, unnest(record_ids) AS record_id,
               CASE WHEN base_offset >= 0
                    THEN base_offset + generate_subscripts(record_ids, 1) - 1 ELSE -1
               END AS "offset"
        FROM Acked""",
    "polled_records": """
        SELECT run, topic_id, partition, seq, node, "group", member_id,
               unnest(offsets) AS "offset", unnest(record_ids) AS record_id
        FROM Polled""",
    "created_again": """
        SELECT run, topic_id, arg_min(topic_id, since) OVER (PARTITION BY run, topic) AS first_id
        FROM (SELECT run, topic, topic_id, min(seq) AS since FROM TopicCreated
              GROUP BY run, topic, topic_id)
        QUALIFY topic_id != first_id""",
    "first_positions": """
        SELECT run, topic_id, partition, "group",
               greatest(min("offset"), max(CASE WHEN reason = 'latest' THEN "offset" ELSE 0 END))
                   AS start
        FROM Positioned WHERE reason != 'none'
        GROUP BY run, topic_id, partition, "group" """,
    "written": """
        SELECT run, topic_id, partition, seq, node, epoch, appended,
               unnest(range(base_offset, next_offset)) AS "offset"
        FROM (SELECT run, topic_id, partition, seq, node, leader_epoch AS epoch, true AS appended,
                     base_offset, next_offset FROM Appended
              UNION ALL
              SELECT run, topic_id, partition, seq, node, batch_epoch, false, base_offset,
                     next_offset FROM Replicated)
        SEMI JOIN MarkerWritten USING (run, topic_id, partition)""",
    "batches": """
        SELECT DISTINCT run, topic_id, partition, "offset", epoch FROM written WHERE appended
        WINDOW place AS (PARTITION BY run, topic_id, partition, "offset")
        QUALIFY min(epoch) OVER place != max(epoch) OVER place""",
    "outdated": """
        SELECT run, topic_id, partition, "offset", epoch AS leader_epoch
        FROM batches JOIN (
            SELECT run, topic_id, partition, "offset", arg_max(epoch, rank) AS stands
            FROM (SELECT *, epoch AS rank FROM batches
                  UNION ALL
                  SELECT * FROM (
                      SELECT run, topic_id, partition, "offset", arg_max(epoch, written.seq)
                                 AS epoch, led.leader_epoch AS rank
                      FROM (SELECT run, topic_id, partition, node, seq, leader_epoch, start_offset
                            FROM BecameLeader) AS led
                      JOIN written USING (run, topic_id, partition, node)
                      SEMI JOIN batches USING (run, topic_id, partition, "offset")
                      WHERE written.seq < led.seq AND "offset" < start_offset
                      GROUP BY run, topic_id, partition, "offset", led.seq, led.leader_epoch)
                  SEMI JOIN batches USING (run, topic_id, partition, "offset", epoch))
            GROUP BY run, topic_id, partition, "offset")
            USING (run, topic_id, partition, "offset")
        WHERE epoch != stands""",
    "holes": """
        SELECT run, topic_id, partition, "offset", arg_max(marker, epoch) AS marker,
               arg_max(aborted, epoch) AS aborted
        FROM (SELECT run, topic_id, partition, "offset", leader_epoch AS epoch,
                     committed IS NOT NULL AS marker,
                     committed IS NULL AND NOT coalesce(fate, true) AS aborted
              FROM (SELECT *, first_value(committed IGNORE NULLS) OVER (
                        PARTITION BY run, topic_id, partition, producer_id
                        ORDER BY "offset", leader_epoch
                        ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING) AS fate
                    FROM (SELECT run, topic_id, partition, leader_epoch, producer_id,
                                 unnest(range(base_offset, next_offset)) AS "offset"
                          FROM Appended
                          SEMI JOIN MarkerWritten USING (run, topic_id, partition))
                    ANTI JOIN outdated
                        USING (run, topic_id, partition, "offset", leader_epoch)
                    LEFT JOIN (SELECT DISTINCT run, topic_id, partition, "offset", leader_epoch,
                                      committed FROM MarkerWritten)
                        USING (run, topic_id, partition, "offset", leader_epoch)))
        GROUP BY run, topic_id, partition, "offset"
        HAVING arg_max(marker OR aborted, epoch)""",
    "cleaned_offsets": """
        SELECT run, topic_id, partition, unnest(range(removed[i], removed[i + 1])) AS "offset", seq
        FROM (SELECT *, unnest(range(1, len(removed), 2)) AS i FROM Cleaned)""",
    "cleaned_records": """
        SELECT run, topic_id, partition, record_id
        FROM (SELECT run, topic_id, partition, unnest(record_ids) AS record_id,
                     base_offset + generate_subscripts(record_ids, 1) - 1 AS "offset"
              FROM Appended SEMI JOIN Cleaned USING (run, topic_id, partition))
        SEMI JOIN cleaned_offsets USING (run, topic_id, partition, "offset")""",
    "gaps": """
        SELECT run, topic_id, partition, "offset", marker, -1 AS since FROM holes
        UNION ALL
        SELECT run, topic_id, partition, "offset", true, seq FROM cleaned_offsets""",
    "committed_only": """
        SELECT DISTINCT run, node, "group", true AS only_committed FROM ReadsCommitted""",
    "committed_parts": """
        SELECT DISTINCT run, topic_id, partition, "group", true AS only_committed
        FROM Positioned SEMI JOIN ReadsCommitted USING (run, node, "group")
        WHERE reason != 'none'""",
}

QUERIES = {
    "lost-write": """
        SELECT run, topic_id, partition, record_id
        FROM acked_records AS acked
        JOIN (SELECT run, topic_id, partition, log_start_offset FROM final_leaders) AS leaders
            USING (run, topic_id, partition)
        ANTI JOIN (SELECT run, topic_id, partition, unnest(record_ids) AS record_id
                   FROM final_leaders) AS held USING (run, topic_id, partition, record_id)
        ANTI JOIN cleaned_records USING (run, topic_id, partition, record_id)
        WHERE acked."offset" < 0 OR acked."offset" >= log_start_offset""",
    "unseen": """
        SELECT DISTINCT run, topic_id, partition, acked.seq, record_id
        FROM acked_records AS acked
        ANTI JOIN polled_records USING (run, topic_id, partition, record_id)
        JOIN (SELECT run, topic_id, partition, record_id, "offset" AS held_at FROM final_records)
            USING (run, topic_id, partition, record_id)
        JOIN (SELECT run, topic_id, partition, last_stable_offset FROM final_leaders)
            USING (run, topic_id, partition)
        JOIN first_positions AS positions USING (run, topic_id, partition)
        LEFT JOIN committed_parts USING (run, topic_id, partition, "group")
        LEFT JOIN (SELECT run, topic_id, partition, "offset" AS held_at, aborted FROM holes)
            USING (run, topic_id, partition, held_at)
        WHERE start <= held_at
              AND (only_committed IS NULL
                   OR NOT coalesce(aborted, false) AND held_at < last_stable_offset)""",
    "poll-order": """
        SELECT * FROM (
            SELECT * FROM (
            SELECT *, last_value(CASE WHEN positioned THEN {'before': expected,
                                                            'after': "offset", 'reset': reset}
                                 END IGNORE NULLS) OVER reader AS went
            FROM (
                SELECT *, lag(CASE WHEN positioned THEN "offset" ELSE "offset" + 1 END)
                              OVER reader AS expected,
                          lag(positioned) OVER reader AS at_first
                FROM (SELECT told.*, coalesce(first_id, topic_id) AS first_id FROM (
                    SELECT run, topic_id, partition, seq, node, "group", member_id, "offset",
                           true AS positioned, -1 AS place,
                           reason IN ('earliest', 'latest') AS reset
                    FROM Positioned
                    UNION ALL
                    SELECT run, topic_id, partition, seq, node, "group", member_id, "offset",
                           false, "offset", false
                    FROM polled_records) AS told LEFT JOIN created_again USING (run, topic_id))
                WINDOW reader AS (PARTITION BY run, first_id, partition, "group", member_id
                                  ORDER BY seq, place))
            WINDOW reader AS (PARTITION BY run, first_id, partition, "group", member_id
                              ORDER BY seq, place))
            WHERE NOT positioned AND expected >= 0 AND "offset" != expected
                  AND NOT coalesce(
                      went.reset AND 0 <= went.before AND went.before < went.after
                      AND CASE WHEN at_first
                               THEN went.before <= "offset" AND "offset" < went.after
                               ELSE expected < went.after AND "offset" = went.after END
                      AND (run, "group", member_id) IN (
                          SELECT (run, "group", member_id) FROM PartitionOwner),
                      false)) AS jump
        WHERE "offset" < expected OR "offset" - expected > (
            SELECT count(DISTINCT gaps."offset") FROM gaps LEFT JOIN committed_only
                ON gaps.run = committed_only.run AND committed_only.node = jump.node
                   AND committed_only."group" = jump."group"
            WHERE gaps.run = jump.run AND gaps.topic_id = jump.topic_id
                  AND gaps.partition = jump.partition AND gaps."offset" >= jump.expected
                  AND gaps."offset" < jump."offset" AND gaps.since < jump.seq
                  AND (marker OR only_committed IS NOT NULL))""",
    "high-watermark-monotonic": """
        SELECT * FROM (
            SELECT run, high_watermark, lag(high_watermark) OVER (
                PARTITION BY run, topic_id, partition, leader_epoch, node ORDER BY seq) AS last
            FROM HighWatermark)
        WHERE high_watermark < last""",
}
"""The checks of these names, in DuckDB's words; of poll-order without what a consumer had fetched
before its log was cut off, and what it passes over behind the last record of a poll; of unseen
without what a group passes over when it comes from another topic of the name."""


def measure(place: Path, threads: int) -> dict[str, tuple[int, float, float]]:
    """Return the rows that each query finds in a stored fleet, its seconds and CPU seconds."""
    connection = duckdb.connect()
    connection.execute(f"SET threads = {threads}")
    for kind in KINDS:
        files = f"facts/batch=*/kind={kind}/*.parquet"
        source = f"read_parquet('{place}/{files}', hive_partitioning = false)"
        if not any(place.glob(files)):
            source = _nothing(kind)
        connection.execute(f"CREATE VIEW {kind} AS SELECT * FROM {source}")
    for name, text in VIEWS.items():
        connection.execute(f"CREATE VIEW {name} AS {text}")
    found = {}
    for name, text in QUERIES.items():
        clock = Clock()
        row = connection.execute(f"SELECT count(*) FROM ({text})").fetchone()
        assert row is not None
        found[name] = (int(row[0]), *clock.read())
    return found


def _nothing(kind: str) -> str:
    """Return an empty table with the columns of a kind of fact."""
    duck_types = {"int64": "BIGINT", "string": "VARCHAR", "bool": "BOOLEAN",
                  "list<int64>": "BIGINT[]", "list<string>": "VARCHAR[]"}  # fmt: skip
    columns = [
        f'CAST(NULL AS {duck_types[declared]}) AS "{name}"'
        for name, declared in kind_columns(kind).items()
    ]
    return f"(SELECT {', '.join(columns)} WHERE false)"
