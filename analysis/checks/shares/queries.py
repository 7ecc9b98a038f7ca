"""accepted-again, held-twice, over-delivered and share-skipped, as analysis/judging/shares states.

Each is about single offsets of one share partition: group, topic id, partition. A leader's facts
name ranges of offsets; what was acquired is small beside what was appended, so ranges are exploded.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import (
    AT_END,
    about,
    offending,
    partition_for,
    rests_on,
    spot,
)

_PLACE = "run, group, topic_id, partition"
_TENURE = f"{_PLACE}, node, leader_epoch"

SHARE_EVENTS = f"""
    -- What leaders gave to members, and how its state moved, by offset. A tenure of a leader begins
    -- with each row in which it has read the persisted state: this row, -1 before the first one.
    -- What it archived as aborted it never gave to anybody.
    SELECT {_TENURE}, tenure, seq, t_us, member_id, until_us, delivery_count, state, reason, offset
    FROM (SELECT *, coalesce(max(IF(state = 'loaded', seq, NULL)) OVER (
              PARTITION BY {_TENURE} ORDER BY seq
              ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), -1) AS tenure
          FROM (SELECT {_TENURE}, seq, t_us, member_id, first_offset, last_offset,
                       t_us + lock_us AS until_us, delivery_count, 'given' AS state,
                       'given' AS reason
                FROM ShareAcquired
                UNION ALL
                SELECT {_TENURE}, seq, t_us, member_id, first_offset, last_offset,
                       CAST(NULL AS BIGINT), delivery_count, state, reason
                FROM ShareMoved WHERE reason != 'aborted'
                UNION ALL
                SELECT {_TENURE}, seq, t_us, '', 0, 0, CAST(NULL AS BIGINT), 0, 'loaded', 'loaded'
                FROM SharePartitionLoaded))
    LATERAL VIEW explode(sequence(first_offset, last_offset)) AS offset
    WHERE state != 'loaded'"""

_EARLIER = (
    f"PARTITION BY {_TENURE}, tenure, offset ORDER BY seq"
    " ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING"
)

SHARE_DELIVERIES = f"""
    -- Each delivery of a record: who was given it before in this tenure, whether that member still
    -- held it, until when, and the number of this delivery. A release that is rolled back gives
    -- a record back to its holder; the end of a session takes a delivery back.
    SELECT {_TENURE}, tenure, offset, seq, t_us, holder, held_until_us, held, delivery_count,
           1 + coalesce(deliveries, 0) AS deliveries
    FROM (SELECT *, last_value(holds, true) OVER earlier AS held,
                 last_value(until_us, true) OVER earlier AS held_until_us,
                 sum(step) OVER earlier AS deliveries
          FROM (SELECT *,
                       CASE WHEN state = 'given' THEN true
                            WHEN member_id = holder THEN state = 'ACQUIRED' END AS holds,
                       CASE WHEN state = 'given' THEN 1
                            WHEN member_id = holder AND reason = 'session-ended' THEN -1
                            ELSE 0 END AS step
                FROM (SELECT *, last_value(IF(state = 'given', member_id, NULL), true)
                                    OVER ({_EARLIER}) AS holder
                      FROM share_events))
          WINDOW earlier AS ({_EARLIER}))
    WHERE state = 'given'"""

SHARE_HOMES = f"""
    -- The partition of __consumer_offsets that holds each share group.
    SELECT run, group, home, {partition_for("group")} AS home_partition
    FROM (SELECT DISTINCT run, group FROM SharePartitionLoaded)
    JOIN (SELECT run, min(topic_id) AS home, max(partitions) AS partitions FROM TopicCreated
          WHERE topic = '__consumer_offsets' GROUP BY run) USING (run)"""

SHARE_STATES = f"""
    -- The partition of __share_group_state that holds each share partition, the one that holds its
    -- group, and the rows in which a leader has read the state.
    SELECT {_PLACE}, loads, state_id, home, home_partition,
           {partition_for("concat(group, ':', topic_id, ':', partition)")} AS state_partition
    FROM (SELECT {_PLACE}, collect_list(seq) AS loads FROM SharePartitionLoaded GROUP BY {_PLACE})
    JOIN (SELECT run, min(topic_id) AS state_id, max(partitions) AS partitions FROM TopicCreated
          WHERE topic = '__share_group_state' GROUP BY run) USING (run)
    LEFT JOIN share_homes USING (run, group)"""

SHARE_HEARD = f"""
    -- What members heard of as accepted (1) or rejected (3): since which row it was at its end, by
    -- which leader, and whether an answer waits for the write of such an end.
    SELECT {_PLACE}, offset, heard, ended.seq AS since, ended.node AS node,
           ended.leader_epoch AS leader_epoch, ended.tenure AS tenure,
           coalesce(ended.reason IN ('lock-expired', 'rolled-back'), false) AS unawaited
    FROM (SELECT {_PLACE}, offset, heard,
                 last_value(ended, true) OVER (
                     PARTITION BY {_PLACE}, offset ORDER BY seq
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS ended
          FROM (SELECT {_PLACE}, offset, seq, CAST(NULL AS BIGINT) AS heard,
                       struct(seq, node, leader_epoch, tenure, reason) AS ended
                FROM share_events WHERE state IN ('ACKNOWLEDGED', 'ARCHIVED')
                UNION ALL
                SELECT {_PLACE}, offset, seq, seq, NULL
                FROM ShareAcknowledged
                LATERAL VIEW inline(arrays_zip(offsets, types)) AS offset, type
                WHERE error = 'NONE' AND type IN (1, 3)))
    WHERE heard IS NOT NULL"""

SHARE_LIVES = """
    -- Where the last life of each share group begins that was deleted.
    SELECT run, group, max(seq) AS died FROM ShareGroupState WHERE state = 'Dead'
    GROUP BY run, group"""

SHARE_TOLD = """
    -- Since when the coordinators had the log of __consumer_offsets loaded that told members of
    -- share groups of a partition, and when they did (analysis/judging/shares/assigned.py).
    SELECT run, group, topic_id, told.partition, at, generation, coalesce(max(load), -1) AS loaded
    FROM (SELECT run, group, node, seq AS at, generation,
                 regexp_extract(one, '^(.*)-[0-9]+$', 1) AS topic,
                 CAST(regexp_extract(one, '-([0-9]+)$', 1) AS BIGINT) AS partition
          FROM ShareGroupAssigned LATERAL VIEW explode(assignment) AS one) AS told
    JOIN (SELECT DISTINCT run, topic_id, topic FROM TopicCreated) USING (run, topic)
    LEFT JOIN share_homes USING (run, group)
    LEFT JOIN (SELECT run AS of, node AS by, partition AS home_partition, seq AS load
               FROM CoordinatorLoaded WHERE loaded) AS loads
        ON run = of AND node = by AND share_homes.home_partition = loads.home_partition
           AND load < at
    GROUP BY run, group, topic_id, told.partition, at, generation"""

SHARE_LATE = f"""
    -- Initializations that were begun before the share partition was assigned, and came after that:
    -- the row, who appended the record, and its offset (analysis/judging/shares/late.py).
    SELECT {_PLACE}, late, any_value(coordinator) AS coordinator, any_value(record) AS record
    FROM (SELECT {_PLACE}, seq AS late, any_value(node) AS coordinator, any_value(offset) AS record,
                 any_value(state_epoch) AS begun, coalesce(max(died), -1) AS died
          FROM ShareStateInitialized LEFT JOIN (
              SELECT run, group, seq AS died FROM ShareGroupState WHERE state = 'Dead') AS ends
              USING (run, group)
          WHERE start_offset = -1 AND coalesce(died, -1) < seq
          GROUP BY {_PLACE}, seq)
    JOIN share_told USING ({_PLACE})
    LEFT JOIN (SELECT {_PLACE}, seq AS read, state_epoch FROM SharePartitionLoaded) USING ({_PLACE})
    WHERE died < at AND at < late
    GROUP BY {_PLACE}, late
    HAVING any_value(begun) < min_by(generation, at)
       AND coalesce(max(state_epoch) FILTER (WHERE died < read AND read < late), -1)
           <= any_value(begun)"""

VIEWS = {
    "share_events": SHARE_EVENTS,
    "share_deliveries": SHARE_DELIVERIES,
    "share_homes": SHARE_HOMES,
    "share_states": SHARE_STATES,
    "share_heard": SHARE_HEARD,
    "share_lives": SHARE_LIVES,
    "share_told": SHARE_TOLD,
    "share_late": SHARE_LATE,
}
"""What the checks read; none of it where no leader acquired records for a share group."""

_LOST = "(SELECT run, inline(losses) FROM runs)"


_STARTS = f"""
    SELECT {_PLACE}, collect_list(struct(seq, node, leader_epoch, start_offset, loaded)) AS starts
    FROM (SELECT {_TENURE}, seq, start_offset, true AS loaded FROM SharePartitionLoaded
          UNION ALL
          SELECT {_TENURE}, seq, start_offset, false FROM ShareStartMoved)
    GROUP BY {_PLACE}"""
"""The start offsets of each share partition's leaders."""


def _reset(above: str) -> str:
    """Return the SQL of findings whose state an initialization has reset that came late.

    No state was written after it with a start offset above ``above``, of which a member heard
    (analysis/judging/shares/late.py).
    """
    return f"""
        SELECT DISTINCT {_PLACE}, offset, true AS reset
        FROM (SELECT * FROM found JOIN writes USING ({_PLACE}, offset)
              JOIN share_late USING ({_PLACE})
              WHERE since < late AND late < load_row AND state_first < record) AS found
        LEFT ANTI JOIN states
            ON states.run = found.run AND states.state_id = found.state_id
               AND states.state_partition = found.state_partition AND base_offset <= record
               AND late < wrote AND wrote < load_row AND wrote_by != coordinator
        LEFT ANTI JOIN SharePartitionLoaded AS reads
            ON reads.run = found.run AND reads.group = found.group
               AND reads.topic_id = found.topic_id AND reads.partition = found.partition
               AND late < reads.seq AND reads.seq < load_row AND reads.start_offset > found.offset
        LEFT ANTI JOIN (SELECT * FROM share_heard LEFT SEMI JOIN share_late USING ({_PLACE})
                        JOIN ({_STARTS}) USING ({_PLACE})
                        WHERE NOT unawaited) AS again
            ON again.run = found.run AND again.group = found.group
               AND again.topic_id = found.topic_id AND again.partition = found.partition
               AND found.late < again.since AND again.heard < load_row
               AND array_max(filter(again.starts, one -> one.seq < again.since
                                        AND one.node = again.node
                                        AND one.leader_epoch = again.leader_epoch)
                            ).start_offset > {above}"""


def _written(found: str, above: str) -> str:
    """Return the SQL of findings with the records of __share_group_state that they rest on.

    They were appended between the rows ``since`` and ``promise`` of a finding; if the log starts
    behind them, all later ones stand for them (analysis/judging/shares/states.py). Of ``above``
    see :func:`_reset`.
    """
    return f"""
    WITH found AS ({found}),
    states AS (
        SELECT run, topic_id AS state_id, partition AS state_partition, seq AS wrote,
               node AS wrote_by, base_offset, next_offset
        FROM Appended
        LEFT SEMI JOIN share_states
            ON share_states.run = Appended.run AND state_id = Appended.topic_id
    ), writes AS (
        SELECT {_PLACE}, offset, min(base_offset) AS state_first, max(next_offset) AS last,
               min(wrote) AS state_row
        FROM found JOIN states USING (run, state_id, state_partition)
        WHERE since < wrote AND wrote < promise
        GROUP BY {_PLACE}, offset
    ), resets AS ({_reset(above)})
    SELECT *, IF(coalesce(log_start, 0) >= last, {AT_END}, last) AS state_end
    FROM found LEFT JOIN writes USING ({_PLACE}, offset)
    LEFT JOIN resets USING ({_PLACE}, offset)
    LEFT JOIN (SELECT {_PLACE}, offset, max(loaded) AS known
               FROM found JOIN share_told USING ({_PLACE}) WHERE at < since
               GROUP BY {_PLACE}, offset) USING ({_PLACE}, offset)
    LEFT JOIN (SELECT run, topic_id AS state_id, partition AS state_partition,
                      max(offset) AS log_start
               FROM LogStart GROUP BY run, topic_id, partition)
        USING (run, state_id, state_partition)"""


_STATE = rests_on(
    (
        "state_first IS NOT NULL",
        spot(
            "state_id",
            "state_partition",
            "state_first",
            "state_end",
            after="state_row",
            before="seq",
        ),
    ),
    (
        "load_row IS NOT NULL AND home IS NOT NULL",
        spot("home", "home_partition", after="coalesce(known, -1)", before="load_row"),
    ),
)
"""What the state rests on that a leader has read. A coordinator that has lost that a share
partition was initialized initializes it again, which resets its state: ``load_row`` is the row in
which a leader found that, or NULL, and ``known`` the load of the last coordinator that had told of
the partition before, or NULL."""

_UNWRITTEN = """
    unawaited AND (giver.node, giver.leader_epoch, giver.tenure) != (node, leader_epoch, tenure)
    AND array_max(filter(starts, one -> one.seq < promise AND one.node = node
                                        AND one.leader_epoch = leader_epoch)
                 ).start_offset > offset
    AND NOT exists(starts, one -> one.loaded AND since < one.seq AND one.seq < seq
                                  AND one.start_offset > offset)
    AND NOT coalesce(
        exists(moves, one -> promise < one.since AND one.heard < giver.tenure), false)"""
"""Whether the member was answered because the record was below the start offset, before its end was
written: no answer waits for that, no leader has read a start offset behind it, and no member had
heard of a later move of that leader when the state was read that forgets the end
(analysis/judging/shares/unwritten.py)."""

_LATE = "IF(coalesce(reset, false), 'late-initialization', '')"
"""Whether an initialization that came late has reset the state
(analysis/judging/shares/late.py)."""

ACCEPTED_AGAIN = offending(
    # A record was handed out after a member had heard that it is accepted (1) or rejected (3). At
    # an offset that the partition has lost meanwhile stands another record. A leader that another
    # one has replaced goes on from its own memory until it hears of that.
    _written(
        f"""
    SELECT {_PLACE}, offset, seq, promise, state_id, state_partition, home, home_partition,
           array_max(filter(loads, one -> coalesce(since, -1) < one AND one < seq)) AS load_row,
           coalesce(since, -1) AS since, coalesce({_UNWRITTEN}, false) AS unwritten
    FROM (SELECT {_PLACE}, offset, min(seq) AS seq, min_by(promise, seq) AS promise,
                 min_by(struct(node, leader_epoch, tenure), seq) AS giver,
                 any_value(state_id) AS state_id, any_value(state_partition) AS state_partition,
                 any_value(home) AS home, any_value(home_partition) AS home_partition,
                 any_value(loads) AS loads
    FROM (SELECT *, max(done) OVER (PARTITION BY {_PLACE}, offset ORDER BY seq
                                    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS promise
          FROM (SELECT {_TENURE}, tenure, offset, seq, CAST(NULL AS BIGINT) AS done
                FROM share_deliveries
                UNION ALL
                SELECT {_PLACE}, NULL, NULL, NULL, offset, heard, heard FROM share_heard)) AS given
    LEFT JOIN share_states USING ({_PLACE})
    LEFT ANTI JOIN SharePartitionLoaded AS later
        ON later.run = given.run AND later.group = given.group
           AND later.topic_id = given.topic_id AND later.partition = given.partition
           AND later.leader_epoch > given.leader_epoch AND later.seq < given.seq
    LEFT ANTI JOIN (SELECT * FROM ShareGroupState WHERE state = 'Dead') AS died
        ON died.run = given.run AND died.group = given.group
           AND promise < died.seq AND died.seq < given.seq
    LEFT ANTI JOIN {_LOST} AS lost
        ON lost.run = given.run AND lost.topic_id = given.topic_id
           AND lost.partition = given.partition AND lost.first <= offset AND offset < lost.end
           AND promise < lost.seq AND lost.seq < given.seq
    WHERE done IS NULL AND promise IS NOT NULL
    GROUP BY {_PLACE}, offset) AS found
    LEFT JOIN (SELECT *, heard AS promise FROM share_heard) USING ({_PLACE}, offset, promise)
    LEFT JOIN ({_STARTS}) USING ({_PLACE})
    LEFT JOIN (SELECT {_TENURE}, tenure, collect_list(struct(since, heard)) AS moves
               FROM share_heard WHERE NOT unawaited GROUP BY {_TENURE}, tenure)
        USING ({_TENURE}, tenure)""",
        above="found.offset",
    ),
    "'accepted-again'",
    "'group %s: offset %d was handed out again', group, offset",
    "array(group)",
    about(
        "offset",
        promise="promise",
        spots=_STATE,
        excused=f"IF(unwritten, 'unwritten-end', {_LATE})",
    ),
)

HELD_TWICE = offending(
    # A leader gave a record to a member while another one held it.
    f"""
    SELECT {_PLACE}, offset, min(seq) AS seq, min_by(holder, seq) AS holder
    FROM share_deliveries WHERE held AND t_us < held_until_us
    GROUP BY {_PLACE}, offset""",
    "'held-twice'",
    "'group %s: offset %d was held by %s', group, offset, holder",
    "array(group)",
    about("offset"),
)

OVER_DELIVERED = offending(
    # A leader gave a record out more often than group.share.delivery.count.limit allows, by its own
    # count or by ours.
    f"""
    SELECT {_PLACE}, offset, min(seq) AS seq, min_by(times, seq) AS times
    FROM (SELECT *, greatest(deliveries, delivery_count) AS times FROM share_deliveries)
    JOIN broker_limits USING (run)
    WHERE times > most_deliveries
    GROUP BY {_PLACE}, offset""",
    "'over-delivered'",
    "'group %s: offset %d was delivered %d times', group, offset, times",
    "array(group)",
    about("offset"),
)

SHARE_SKIPPED = offending(
    # A start offset is past a record of the final log that no leader had accepted, rejected or
    # archived since the group was deleted last; a record that it archived as aborted was aborted.
    # What a cleaner has removed from any replica before that is no record.
    # Until a member has heard of a state that was written, each leader begins anew.
    _written(
        f"""
    WITH starts AS (
        SELECT * FROM (
            SELECT {_PLACE}, seq, start_offset, true AS loaded, '' AS reason
            FROM SharePartitionLoaded
            UNION ALL
            SELECT {_PLACE}, seq, start_offset, false, reason FROM ShareStartMoved)
        LEFT JOIN share_lives USING (run, group)
        LEFT JOIN (
            SELECT {_PLACE}, min(seq) AS written
            FROM ShareAcknowledged LEFT JOIN share_lives USING (run, group)
            WHERE error = 'NONE' AND seq > coalesce(died, -1)
            GROUP BY {_PLACE}) USING ({_PLACE})
        WHERE seq > coalesce(died, -1)
    ), bounds AS (
        SELECT {_PLACE}, max(start_offset) AS high,
               max(start_offset) FILTER (WHERE loaded AND seq < coalesce(written, {AT_END}))
                   AS begin,
               coalesce(max(start_offset) FILTER (WHERE reason = 'log-start'), 0) AS deleted,
               coalesce(min(seq) FILTER (WHERE loaded), -1) AS since,
               coalesce(max(written), {AT_END}) AS promise
        FROM starts GROUP BY {_PLACE}
    ), data AS (
        SELECT run, topic_id, partition, explode(sequence(base, next - 1)) AS offset
        FROM (SELECT run, topic_id, partition,
                     inline(arrays_zip(base_offsets, next_offsets, record_counts))
                         AS (base, next, count)
              FROM final_leaders)
        WHERE count = next - base
    ), moved AS (
        SELECT {_PLACE}, reason, explode(sequence(first_offset, last_offset)) AS offset
        FROM ShareMoved LEFT JOIN share_lives USING (run, group)
        WHERE state IN ('ACKNOWLEDGED', 'ARCHIVED') AND seq > coalesce(died, -1)
    ), skipped AS (
        SELECT {_PLACE}, offset
        FROM data JOIN bounds USING (run, topic_id, partition)
        LEFT ANTI JOIN (SELECT {_PLACE}, offset FROM moved WHERE reason != 'aborted')
            USING ({_PLACE}, offset)
        LEFT ANTI JOIN (
            SELECT {_PLACE}, offset
            FROM (SELECT * FROM moved WHERE reason = 'aborted')
            LEFT SEMI JOIN (SELECT * FROM holes WHERE aborted)
                USING (run, topic_id, partition, offset)) USING ({_PLACE}, offset)
        WHERE begin <= offset AND deleted <= offset AND offset < high
    ), passed AS (
        SELECT {_PLACE}, offset, min(seq) AS seq
        FROM skipped JOIN starts USING ({_PLACE})
        WHERE start_offset > offset
        GROUP BY {_PLACE}, offset
    )
    SELECT *, IF(array_contains(loads, seq), seq, NULL) AS load_row
    FROM passed JOIN (SELECT {_PLACE}, since, promise FROM bounds) USING ({_PLACE})
    LEFT JOIN share_states USING ({_PLACE})
    LEFT ANTI JOIN {_LOST} AS lost
        ON lost.run = passed.run AND lost.topic_id = passed.topic_id
           AND lost.partition = passed.partition AND lost.first <= offset AND offset < lost.end
           AND lost.seq < passed.seq
    LEFT ANTI JOIN cleaned_offsets AS cleaned
        ON cleaned.run = passed.run AND cleaned.topic_id = passed.topic_id
           AND cleaned.partition = passed.partition AND cleaned.offset = passed.offset
           AND cleaned.removed_at < passed.seq""",
        above="-1",
    ),
    "'share-skipped'",
    "'group %s: offset %d was skipped', group, offset",
    "array(group)",
    about("offset", spots=_STATE, excused=_LATE),
)
