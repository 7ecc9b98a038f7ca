"""lost-write, unseen, duplicate, inconsistent-offsets: is each record delivered once, as sent?"""

from __future__ import annotations

from kafkasim.analysis.checks.base import AT_END, NO_SPOTS, about, offending
from kafkasim.analysis.checks.transactions.given_back import GIVEN_BACK

ACKED_IDS = """
    -- All record ids of a partition that were acknowledged.
    SELECT run, topic_id, partition, flatten(collect_list(record_ids)) AS acked
    FROM Acked GROUP BY run, topic_id, partition"""

LOST_IDS = """
    -- Those that are not in the final log of the partition's leader, where there is one.
    SELECT run, topic_id, partition, log_start_offset, array_except(acked, record_ids) AS lost
    FROM acked_ids LEFT JOIN final_leaders USING (run, topic_id, partition)
    WHERE size(array_except(acked, record_ids)) > 0"""

UNREAD_IDS = """
    -- Those that nobody has got, in partitions that groups read.
    SELECT run, topic_id, partition,
           array_except(acked, coalesce(polled, CAST(array() AS ARRAY<BIGINT>))) AS unread
    FROM acked_ids
    LEFT JOIN (SELECT run, topic_id, partition, flatten(collect_list(record_ids)) AS polled
               FROM Polled GROUP BY run, topic_id, partition)
        USING (run, topic_id, partition)
    LEFT SEMI JOIN first_positions USING (run, topic_id, partition)
    WHERE size(array_except(acked, coalesce(polled, CAST(array() AS ARRAY<BIGINT>)))) > 0"""

VIEWS = {"acked_ids": ACKED_IDS, "lost_ids": LOST_IDS, "unread_ids": UNREAD_IDS}
"""Views for these checks, by name: whole partitions at a time."""

LOST_WRITE = offending(
    # An acknowledged record is absent from the final log of its partition's leader. Records below
    # the leader's log start are excused, those that a cleaner has removed, and partitions without
    # a leader. Few records are lost, so Spark is told to hash them instead of sorting all that were
    # acknowledged.
    """
    SELECT /*+ SHUFFLE_HASH(lost) */ run, topic_id, partition, seq, record_id, offset, batch_us,
           weak, spots, back
    FROM acked_records
    JOIN (SELECT run, topic_id, partition, log_start_offset, explode(lost) AS record_id
          FROM lost_ids) AS lost
        USING (run, topic_id, partition, record_id)
    LEFT ANTI JOIN cleaned_records USING (run, topic_id, partition, record_id)
    LEFT JOIN taken_records USING (run, topic_id, partition, seq, record_id)
    LEFT JOIN (SELECT DISTINCT run, topic_id, partition, record_id, true AS back
               FROM given_back_records) USING (run, topic_id, partition, record_id)
    WHERE offset < 0 OR offset >= log_start_offset""",
    "'lost-write'",
    "'record %d acknowledged at offset %d', record_id, offset",
    place=about(
        "offset",
        shown=AT_END,
        batch_us="batch_us",
        weak="weak",
        spots=f"coalesce(spots, {NO_SPOTS})",
        excused=GIVEN_BACK,
    ),
)

_ENDED = """
    -- Groups whose consumers have all ended, each with an application that failed or returned, with
    -- the last offset that they got of each partition (judging/readers/passed.py:EndedGroups).
    SELECT run, topic_id, partition,
           collect_list(struct(group AS name, coalesce(upto, -1) AS upto)) AS ended
    FROM first_positions
    LEFT SEMI JOIN (
        SELECT run AS of, group AS name
        FROM (SELECT DISTINCT run, group, node FROM ConsumerAssigned)
        LEFT JOIN (SELECT run, node, max(seq) AS last_end
                   FROM (SELECT run, node, seq FROM ApplicationFailed WHERE ended
                         UNION ALL SELECT run, node, seq FROM HostStopped
                         WHERE reason = 'application-returned')
                   GROUP BY run, node) USING (run, node)
        LEFT JOIN (SELECT run, node, max(seq) AS started FROM HostStarted GROUP BY run, node)
            USING (run, node)
        GROUP BY run, group
        HAVING bool_and(coalesce(last_end, -1) > coalesce(started, -1)))
        ON run = of AND group = name
    LEFT JOIN (SELECT run, topic_id, partition, group, max(array_max(offsets)) AS upto
               FROM Polled GROUP BY run, topic_id, partition, group)
        USING (run, topic_id, partition, group)
    GROUP BY run, topic_id, partition"""

_HAVE_ENDED = (
    "IF(coalesce(forall(groups, g -> exists(ended, e -> e.name = g AND e.upto < held_at)), false),"
    " 'ended-applications', '')"
)

_GETS = """(NOT one.only OR NOT coalesce(hidden, false) AND held_at < last_stable_offset)
                       AND NOT coalesce(array_contains(gone, one.group), false)"""

UNSEEN = offending(
    # An acknowledged record that is in the final log, inside what a group covered, read by nobody.
    # A read_committed group gets no aborted record, and none above the last stable offset. Groups
    # that have ended read no further, and why they ended is judged elsewhere. One that came from
    # another topic of the name has passed over what was before its position there.
    f"""
    SELECT * EXCEPT (covering), transform(
               filter(covering, one -> {_GETS}),
               one -> one.group) AS groups
    FROM (
        SELECT /*+ SHUFFLE_HASH(missed) */ run, topic_id, partition, missed.seq, record_id,
               held.offset AS held_at, weak,
               filter(starts, one -> one.start <= held.offset) AS covering
        FROM final_records AS held
        JOIN (SELECT /*+ SHUFFLE_HASH(unread) */ run, topic_id, partition, record_id, seq, weak
              FROM acked_records
              JOIN (SELECT run, topic_id, partition, explode(unread) AS record_id
                    FROM unread_ids) AS unread
                  USING (run, topic_id, partition, record_id)) AS missed
            USING (run, topic_id, partition, record_id)
        JOIN (SELECT run, topic_id, partition,
                     sort_array(collect_list(struct(group, start, coalesce(only, false) AS only)))
                         AS starts
              FROM first_positions
              LEFT JOIN committed_parts USING (run, topic_id, partition, group)
              GROUP BY run, topic_id, partition)
            USING (run, topic_id, partition))
    LEFT JOIN (SELECT run, topic_id, partition, offset AS held_at, aborted AS hidden FROM holes)
        USING (run, topic_id, partition, held_at)
    LEFT JOIN (SELECT run, topic_id, partition, last_stable_offset FROM final_leaders)
        USING (run, topic_id, partition)
    LEFT JOIN (SELECT run, topic_id, partition, offset AS held_at, collect_list(group) AS gone
               FROM gone_over GROUP BY run, topic_id, partition, offset)
        USING (run, topic_id, partition, held_at)
    LEFT JOIN ({_ENDED}) USING (run, topic_id, partition)
    WHERE exists(covering, one -> {_GETS})""",
    "'unseen'",
    "'record %d at offset %d was read by nobody', record_id, held_at",
    "groups",
    about("held_at", shown=AT_END, weak="weak", excused=_HAVE_ENDED),
)

DUPLICATE = offending(
    # One value at two offsets (producer-caused), or one offset delivered twice to a group. A record
    # may be sent again after its transaction was aborted.
    """
    SELECT run, topic_id, partition, record_id AS seq, CAST(array() AS ARRAY<STRING>) AS groups,
           format_string('record %d is stored %d times (producer-caused)', record_id, times)
               AS story, 1L << 62 AS shown, -1 AS reset
    FROM (SELECT run, topic_id, partition, record_id,
                 times - coalesce(aborted_times, 0) AS times
          FROM (SELECT run, topic_id, partition, record_id, count(1) AS times
                FROM final_leaders LATERAL VIEW explode(record_ids) AS record_id
                WHERE size(array_distinct(record_ids)) < size(record_ids)
                GROUP BY run, topic_id, partition, record_id HAVING count(1) > 1)
          LEFT JOIN (SELECT run, topic_id, partition, record_id, count(1) AS aborted_times
                     FROM final_records
                     JOIN (SELECT run, topic_id, partition, offset FROM holes WHERE aborted)
                         USING (run, topic_id, partition, offset)
                     GROUP BY run, topic_id, partition, record_id)
              USING (run, topic_id, partition, record_id))
    WHERE times > 1
    UNION ALL
    SELECT run, topic_id, partition, seq, array(group) AS groups, story, shown, reset
    FROM (SELECT run, topic_id, partition, group, min(seq) AS seq, max(seq) AS shown,
                 format_string('group %s got offset %d %d times', group, offset, count(1)) AS story
          FROM polled_records GROUP BY run, topic_id, partition, group, offset
          HAVING count(1) > 1)
    LEFT JOIN resets USING (run, topic_id, partition, group)""",
    "'duplicate'",
    "'%s', story",
    "groups",
    about(shown="shown", reset="coalesce(reset, -1)"),
)

INCONSISTENT_OFFSETS = offending(
    # One offset of a partition was read with two values.
    """
    SELECT run, topic_id, partition, max(seq) AS seq, offset,
           min(record_id) AS one, max(record_id) AS other
    FROM polled_records GROUP BY run, topic_id, partition, offset
    HAVING min(record_id) != max(record_id)""",
    "'inconsistent-offsets'",
    "'offset %d was read as record %d and as %d', offset, one, other",
    place=about("offset"),
)
