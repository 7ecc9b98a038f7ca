"""Are records read and appended in order? poll-skip, nonmonotonic-poll and -send, reordered-key."""

from __future__ import annotations

from kafkasim.analysis.checks.base import AT_END, about, offending

POLL_JUMPS = """
    -- The members that were given something else than the offset after the last one, within a poll
    -- or between two, or passed over some at its end: the others are in order, and their records
    -- need not be looked at. Rows lie in the order of seq already: to collect them costs less than
    -- to sort them for a window. A position is that of a topic's name, whatever topic has it.
    SELECT run, first_id, partition, group, member_id
    FROM (SELECT /*+ SHUFFLE_HASH(created_again) */
                 run, coalesce(first_id, topic_id) AS first_id, partition, group, member_id,
                 min(dense) AS dense, collect_list(seq) AS seqs, collect_list(first) AS firsts,
                 collect_list(next) AS nexts
          FROM (SELECT run, topic_id, partition, seq, group, member_id, -1L AS first,
                       offset AS next, true AS dense
                FROM Positioned
                UNION ALL
                SELECT run, topic_id, partition, seq, group, member_id,
                       coalesce(get(offsets, 0), -1), position,
                       coalesce(offsets = sequence(
                           get(offsets, 0), greatest(get(offsets, 0), position - 1)), false)
                FROM Polled)
          LEFT JOIN created_again USING (run, topic_id)
          GROUP BY run, coalesce(first_id, topic_id), partition, group, member_id)
    WHERE NOT dense OR seqs != array_sort(seqs)
          OR exists(zip_with(firsts, concat(array(-1L), slice(nexts, 1, size(nexts) - 1)),
                             (first, expected) -> first >= 0 AND expected >= 0
                                                  AND first != expected), jumps -> jumps)"""

JUMPS = """
    -- Where what one member was given does not go on: a record, or the position at the end of a
    -- poll, is not at the offset after the last one. A Positioned row starts a new covered range
    -- (reason none ends one, at −1). After a reset to a higher offset an old consumer is given
    -- first what it had fetched before, but for the rest of a chunk: its first record may lie
    -- between the two, and a later one at the new offset (ConsumerIterator.makeNext). ``read`` is a
    -- record of the log that the poll has read: this one, or the last one before. ``own``: it is of
    -- this poll. A topic that was created again goes on where the member left the one before it.
    SELECT run, topic_id, partition, seq, node, group, member_id, offset, expected,
           IF(last_read.topic_id = topic_id, last_read.place, NULL) AS read,
           coalesce(read_in = seq, false) AS own
    FROM (SELECT *, last(IF(what = 'set', struct(expected AS before, offset AS after, reset),
                            NULL), true) OVER reader AS went
          FROM (SELECT /*+ SHUFFLE_HASH(poll_jumps) */ *,
                       lag(IF(what = 'record', offset + 1, offset)) OVER reader AS expected,
                       lag(what = 'set') OVER reader AS first,
                       last(IF(what = 'end', NULL,
                               struct(topic_id, struct(offset, record_id) AS place)), true)
                           OVER reader AS last_read,
                       last(IF(what = 'record', seq, NULL), true) OVER reader AS read_in
                FROM (SELECT /*+ SHUFFLE_HASH(created_again) */
                             told.*, coalesce(first_id, topic_id) AS first_id
                      FROM (SELECT run, topic_id, partition, seq, node, group, member_id,
                                   IF(reason = 'none', -1, offset) AS offset,
                                   CAST(NULL AS BIGINT) AS record_id, 'set' AS what, -1 AS place,
                                   reason IN ('earliest', 'latest') AS reset
                            FROM Positioned
                            UNION ALL
                            SELECT run, topic_id, partition, seq, node, group, member_id, offset,
                                   record_id, 'record', offset, false
                            FROM polled_records
                            UNION ALL
                            SELECT run, topic_id, partition, seq, node, group, member_id, position,
                                   NULL, 'end', 1L << 62, false
                            FROM Polled) AS told
                      LEFT JOIN created_again USING (run, topic_id))
                LEFT SEMI JOIN poll_jumps USING (run, first_id, partition, group, member_id)
                WINDOW reader AS (PARTITION BY run, first_id, partition, group, member_id
                                  ORDER BY seq, place))
          WINDOW reader AS (PARTITION BY run, first_id, partition, group, member_id
                            ORDER BY seq, place))
    LEFT JOIN (SELECT DISTINCT run, group, member_id, true AS old FROM PartitionOwner)
        USING (run, group, member_id)
    WHERE what != 'set' AND expected >= 0 AND (offset > expected OR what = 'record')
          AND offset != expected
          AND NOT coalesce(old AND went.reset AND 0 <= went.before AND went.before < went.after
                           AND IF(first, went.before <= offset AND offset < went.after,
                                  expected < went.after AND offset = went.after),
                           false)"""

POLL_GAPS = """
    -- The same with what lies between: whether an offset held a record for the reader, by what
    -- leaders had appended there, and cleaners had removed, until then. A consumer hands out what
    -- it fetched before: if a leader had cut off by then what the poll has read, and no later one
    -- has it, what stood before the cut counts; of a poll without records also what stands now
    -- (judging/readers/order.py).
    WITH cuts AS (
        SELECT run, topic_id, partition, seq AS cut, base_offset AS cut_at, leader_epoch AS cut_by
        FROM (SELECT *, lag(next_offset) OVER (
                  PARTITION BY run, topic_id, partition ORDER BY seq) AS before
              FROM Appended
              LEFT SEMI JOIN (SELECT DISTINCT run, topic_id, partition FROM MarkerWritten)
                  USING (run, topic_id, partition))
        WHERE base_offset < before
    ), fetched AS (
        SELECT run, topic_id, partition, seq, member_id, offset, expected, read.offset AS read_at,
               max(wrote) AS wrote, max_by(leader_epoch, wrote) AS epoch
        FROM jumps
        JOIN (SELECT run, topic_id, partition, seq AS wrote, leader_epoch,
                     struct(base_offset + place AS offset, record_id) AS read
              FROM Appended LEFT SEMI JOIN cuts USING (run, topic_id, partition)
              LATERAL VIEW posexplode(record_ids) AS place, record_id)
            USING (run, topic_id, partition, read)
        WHERE wrote < seq
        GROUP BY run, topic_id, partition, seq, member_id, offset, expected, read.offset
    ), copies AS (
        SELECT run, topic_id, partition, node, seq AS at, leader_epoch AS has, base_offset AS low,
               next_offset AS high
        FROM Appended LEFT SEMI JOIN cuts USING (run, topic_id, partition)
        UNION ALL
        SELECT run, topic_id, partition, node, seq, batch_epoch, base_offset, next_offset
        FROM Replicated LEFT SEMI JOIN cuts USING (run, topic_id, partition)
    ), kept AS (
        SELECT run, topic_id, partition, seq, member_id, offset, expected, max(by) AS kept_by
        FROM (SELECT run, topic_id, partition, seq, member_id, offset, expected, by
              FROM fetched
              JOIN (SELECT run, topic_id, partition, node, seq AS led, leader_epoch AS by,
                           start_offset FROM BecameLeader) USING (run, topic_id, partition)
              JOIN copies USING (run, topic_id, partition, node)
              WHERE read_at < start_offset AND led < seq
                AND low <= read_at AND read_at < high AND at < led
              GROUP BY run, topic_id, partition, seq, member_id, offset, expected, epoch, by
              HAVING max_by(has, at) = epoch)
        GROUP BY run, topic_id, partition, seq, member_id, offset, expected
    ), cut_off AS (
        SELECT run, topic_id, partition, seq, member_id, offset, expected, min(cut) AS until
        FROM fetched
        JOIN cuts USING (run, topic_id, partition)
        LEFT JOIN kept USING (run, topic_id, partition, seq, member_id, offset, expected)
        LEFT ANTI JOIN (
            SELECT run, topic_id, partition, seq, member_id, offset, expected
            FROM fetched
            JOIN (SELECT run, topic_id, partition, offset AS read_at, age FROM contents)
                USING (run, topic_id, partition, read_at)
            WHERE age.since < seq
            GROUP BY run, topic_id, partition, seq, member_id, offset, expected, wrote
            HAVING max(age).appended = wrote AND count(DISTINCT age.appended) > 1)
            USING (run, topic_id, partition, seq, member_id, offset, expected)
        WHERE wrote < cut AND cut < seq AND cut_at <= read_at AND epoch <= cut_by
          AND coalesce(kept_by < cut_by, true)
        GROUP BY run, topic_id, partition, seq, member_id, offset, expected)
    SELECT run, topic_id, partition, seq, group, member_id, offset, expected,
           bool_or(NOT coalesce(hole, false))
               AND (own OR bool_or(NOT coalesce(now, false))) AS skips
    FROM (SELECT run, topic_id, partition, seq, group, member_id, offset, expected, own, missed,
                 coalesce(max_by(marker OR (aborted AND coalesce(only, false)),
                                 IF(age.since < coalesce(until, seq), age, NULL)), false)
                     OR coalesce(min(removed_at) < seq, false) AS hole,
                 coalesce(max_by(marker OR (aborted AND coalesce(only, false)),
                                 IF(age.since < seq, age, NULL)), false)
                     OR coalesce(min(removed_at) < seq, false) AS now
          FROM (SELECT * FROM jumps
                LATERAL VIEW OUTER explode(
                    IF(offset > expected, sequence(expected, offset - 1), NULL)) AS missed)
          LEFT JOIN committed_only USING (run, node, group)
          LEFT JOIN cut_off
              USING (run, topic_id, partition, seq, member_id, offset, expected)
          LEFT JOIN (SELECT run, topic_id, partition, offset AS missed, marker, aborted, age
                     FROM contents)
              USING (run, topic_id, partition, missed)
          LEFT JOIN (SELECT run, topic_id, partition, offset AS missed, removed_at
                     FROM cleaned_offsets)
              USING (run, topic_id, partition, missed)
          GROUP BY run, topic_id, partition, seq, group, member_id, offset, expected, own, missed)
    GROUP BY run, topic_id, partition, seq, group, member_id, offset, expected, own"""

POLL_ORDER = offending(
    # Within what one member covered, each poll goes on where the last one ended, and what it has
    # passed over held no record for it.
    """
    SELECT run, topic_id, partition, seq, member_id, offset, expected FROM poll_gaps
    WHERE offset < expected OR skips""",
    "IF(offset > expected, 'poll-skip', 'nonmonotonic-poll')",
    "'%s got offset %d, not %d', member_id, offset, expected",
)

OVERTAKEN = """
    -- Batches that a later one has overtaken: the lowest sequence of their producer so far, taken
    -- by a leader whose log began anew behind all that the producer had there. It does not know the
    -- producer, and so takes any sequence (ProducerAppendInfo.checkSequence).
    SELECT DISTINCT run, topic_id, partition, producer_id, producer_epoch, base_offset
    FROM (SELECT *, min(base_sequence) OVER earlier AS lowest, max(next_offset) OVER earlier AS past
          FROM Appended
          LEFT SEMI JOIN (SELECT * FROM LogStart WHERE reason = 'reset')
              USING (run, topic_id, partition)
          WHERE producer_id >= 0 AND base_sequence >= 0
          WINDOW earlier AS (PARTITION BY run, topic_id, partition, producer_id ORDER BY seq
                             ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
    JOIN (SELECT run, topic_id, partition, node, seq AS since, offset AS start
          FROM LogStart WHERE reason = 'reset') USING (run, topic_id, partition, node)
    WHERE base_sequence < lowest AND past <= start AND since < seq"""

NONMONOTONIC_SEND = offending(
    # An idempotent producer's acknowledged sends to a partition landed out of order, within one
    # epoch: it is raised after a batch has failed, and what was in flight is sent again (KIP-360).
    # The records of a processor have the ids of its inputs, which it may process again.
    # What is acknowledged after the topic's deletion is in a log that is gone.
    # What a leader took for a duplicate has the offset of other records.
    f"""
    SELECT * FROM (
        SELECT run, topic_id, partition, seq, node, first, base_offset, acks,
               lag(first) OVER sender AS last_record, lag(base_offset) OVER sender AS last_offset
        FROM (SELECT *, try_element_at(record_ids, 1) AS first FROM Acked
              LEFT JOIN (SELECT run, topic_id, min(seq) AS gone FROM TopicDeleted
                         GROUP BY run, topic_id) USING (run, topic_id)
              LEFT ANTI JOIN taken_records USING (run, topic_id, partition, seq)
              LEFT ANTI JOIN ({OVERTAKEN})
                  USING (run, topic_id, partition, producer_id, producer_epoch, base_offset)
              WHERE producer_id >= 0 AND base_offset >= 0 AND (gone IS NULL OR seq < gone)
                AND (run, node) NOT IN (SELECT run, node FROM ProcessorStarted))
        WINDOW sender AS (PARTITION BY run, topic_id, partition, node, producer_id,
                          producer_epoch ORDER BY seq))
    WHERE (first > last_record) != (base_offset > last_offset)""",
    "'nonmonotonic-send'",
    "'%s: record %d at offset %d', node, first, base_offset",
    place=about("least(base_offset, last_offset)", weak="acks != -1"),
)

KEY_ORDER = offending(
    # A record is behind a later one of its key, of one incarnation of a producer. Of several copies
    # the first counts; the records of aborted transactions do not.
    """
    SELECT run, topic_id, partition, offset AS seq, offset, record_id, key, before FROM (
        SELECT *, max(record_id) OVER (
            PARTITION BY run, topic_id, partition, since, key ORDER BY offset
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before
        FROM (SELECT run, topic_id, partition, record_id, min(offset) AS offset
              FROM final_records
              LEFT ANTI JOIN (SELECT run, topic_id, partition, offset FROM holes WHERE aborted)
                  USING (run, topic_id, partition, offset)
              GROUP BY run, topic_id, partition, record_id)
        JOIN (SELECT run, record_id, key, since FROM KeySent) USING (run, record_id))
    WHERE record_id < before""",
    "'reordered-key'",
    "'record %d of %s at offset %d is behind record %d', record_id, key, offset, before",
    place=about("offset", shown=AT_END),
)

VIEWS = {"poll_jumps": POLL_JUMPS, "jumps": JUMPS, "poll_gaps": POLL_GAPS}
"""Views for these checks, by name."""
