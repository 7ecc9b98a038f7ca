"""How long a tombstone stays: HORIZON and lost-deletion.

The same as ``analysis/judging/invariants/cleaned``: ``horizon.py`` and ``missed.py`` derive the
bounds.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending
from kafkasim.analysis.checks.cleaned.latest import RECORDS, REMOVED

_TOMBSTONES = f"""
    SELECT run, topic_id, partition, offset, key, later, appended
    FROM ({RECORDS}) WHERE tombstone"""

_AGAIN = """
    -- Where a replica appended at or below what its cleaner had replaced, or loaded its log.
    SELECT run, topic_id, partition, node, collect_list(struct(seq, low)) AS again
    FROM (SELECT run, topic_id, partition, node, seq, base_offset AS low FROM Appended
          UNION ALL SELECT run, topic_id, partition, node, seq, base_offset FROM Replicated
          UNION ALL SELECT run, topic_id, partition, node, seq, 0 FROM LogLoaded)
    JOIN (SELECT run, topic_id, partition, node, max(next_offset) AS high, min(seq) AS first
          FROM Cleaned GROUP BY run, topic_id, partition, node)
        USING (run, topic_id, partition, node)
    WHERE low < high AND first < seq
    GROUP BY run, topic_id, partition, node"""

_CLEANINGS = """
    -- The cleanings of each partition, on all its replicas.
    SELECT run, topic_id, partition, collect_list(
               struct(seq, node, base_offset, next_offset,
                      began_ms + delete_retention_ms AS horizon_ms)) AS cleanings
    FROM Cleaned GROUP BY run, topic_id, partition"""

HORIZON = offending(
    # A cleaning met a tombstone that an earlier one of this replica had met delete.retention.ms
    # before it began, and left it in the log. In between the replica has neither appended there nor
    # loaded its log, and no cleaner has removed the tombstone. No cleaning before that one, on
    # another replica, could have set a horizon that is not over.
    f"""
    SELECT run, topic_id, partition, seq, node, offset, key FROM (
        SELECT * FROM Cleaned
        JOIN ({_TOMBSTONES}) USING (run, topic_id, partition)
        WHERE offset >= base_offset AND offset < least(next_offset, mapped_offset))
    LEFT JOIN cleaned_offsets USING (run, topic_id, partition, offset)
    JOIN ({_CLEANINGS}) USING (run, topic_id, partition)
    LEFT JOIN ({_AGAIN}) USING (run, topic_id, partition, node)
    WHERE coalesce(removed_at > seq, true)
      AND exists(cleanings, one ->
              one.node = node AND appended < one.seq AND one.seq < seq
              AND one.base_offset <= offset AND offset < one.next_offset
              AND NOT exists(cleanings, other ->
                      other.seq <= one.seq AND other.base_offset <= offset
                      AND offset < other.next_offset AND other.horizon_ms > began_ms)
              AND NOT exists(coalesce(again, array()), each ->
                      one.seq < each.seq AND each.seq < seq AND each.low <= offset))""",
    "'HORIZON'",
    "'the cleaner of %s kept the deletion of %s at offset %d', node, key, offset",
)

_EARLY = f"""
    -- The last tombstones of keys that were removed before their delete horizons, each with the
    -- time until which it should have stayed.
    SELECT run, topic_id, partition, offset, key, removed_at, until_us FROM (
        SELECT run, topic_id, partition, offset, key, min(seq) AS removed_at,
               min(t_us) AS removed_us,
               min_by(t_us + 1000 * (array_min(transform(
                   filter(cleanings, one ->
                       appended < one.seq AND one.seq <= seq AND one.base_offset <= offset
                       AND offset < one.next_offset),
                   one -> one.horizon_ms)) - began_ms), seq) AS until_us
        FROM ({REMOVED})
        JOIN ({_TOMBSTONES}) USING (run, topic_id, partition, offset)
        WHERE appended < seq AND NOT coalesce(later < mapped_offset, false)
        GROUP BY run, topic_id, partition, offset, key)
    WHERE removed_us < until_us"""

_PASSES = """
    -- From which offset a member went on with each poll, and where it got. Without a position, it
    -- went on from the first record that it got.
    SELECT run, topic_id, partition, group, seq, t_us, offsets, after,
           coalesce(before, try_element_at(offsets, 1)) AS since FROM (
        SELECT *, lag(after) OVER (
                   PARTITION BY run, topic_id, partition, group, member_id ORDER BY seq) AS before
        FROM (SELECT run, topic_id, partition, group, member_id, seq, t_us, offsets,
                     try_element_at(offsets, -1) + 1 AS after
              FROM Polled WHERE size(offsets) > 0
              UNION ALL
              SELECT run, topic_id, partition, group, member_id, seq, t_us, NULL,
                     IF(reason = 'none', NULL, offset) FROM Positioned))
    WHERE offsets IS NOT NULL"""

LOST_DELETION = offending(
    # What a group got last of a key was a value. It passed the place of the key's tombstone and did
    # not get that, which had been removed before its delete horizon; nor was the horizon past by
    # then.
    f"""
    SELECT run, topic_id, partition, group, offset, key, seq
    FROM (SELECT passes.*, early.offset, key
          FROM ({_EARLY}) AS early JOIN ({_PASSES}) AS passes
              ON early.run = passes.run AND early.topic_id = passes.topic_id
                 AND early.partition = passes.partition AND removed_at < seq AND t_us < until_us
                 AND since <= offset AND offset < after AND NOT array_contains(offsets, offset))
    JOIN (SELECT run, topic_id, partition, group, key, tombstone, offset AS got, seq AS read
          FROM polled_records JOIN ({RECORDS}) USING (run, topic_id, partition, offset))
        USING (run, topic_id, partition, group, key)
    WHERE read < seq OR read = seq AND got < offset
    GROUP BY run, topic_id, partition, group, offset, key, seq
    HAVING NOT max_by(tombstone, struct(read, got))""",
    "'lost-deletion'",
    "'group %s keeps the value of %s: its deletion at offset %d was removed before its delete"
    " horizon', group, key, offset",
    "array(group)",
)
