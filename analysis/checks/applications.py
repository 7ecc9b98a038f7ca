"""Applications: did one fail, what have they stored outside of Kafka, what do they count?"""

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

_FAILURES = """
    -- The failures, with the group that the error names, and when the application's host started.
    SELECT run, seq, node, exception, reason, task, error, group,
           coalesce(max(begun), -1) AS started, coalesce(max(begun_us), 0) AS since_us
    FROM (SELECT *, regexp_extract(reason, '^([A-Z_]+): group ', 1) AS error,
                 regexp_extract(reason, '^[A-Z_]+: group (.*)$', 1) AS group
          FROM ApplicationFailed)
    LEFT JOIN (SELECT run AS of, node AS host, seq AS begun, t_us AS begun_us FROM HostStarted)
        ON run = of AND node = host AND begun < seq
    GROUP BY run, seq, node, exception, reason, task, error, group"""

_CLASSIC = """
    -- When groups became classic ones, or acted as such (KIP-848).
    SELECT run, group, seq AS at, t_us FROM GroupConverted WHERE protocol = 'classic'
    UNION ALL
    SELECT run, group, seq, t_us FROM GroupState
    WHERE state IN ('PreparingRebalance', 'CompletingRebalance')"""

_UNCHOSEN = """
    -- From when until when groups had members and no assignor.
    SELECT run, group, seq AS at, until, until_us
    FROM (SELECT run, group, seq, state = 'PreparingRebalance' AND size(member_ids) > 0
                     AND protocol = '' AS unchosen,
                 lead(seq) OVER told AS until, lead(t_us) OVER told AS until_us
          FROM GroupState WINDOW told AS (PARTITION BY run, group ORDER BY seq))
    WHERE unchosen"""

_FORGOTTEN = """
    -- Groups of which a coordinator loaded fewer members than another broker had last told, or of
    -- which another broker tells members that the last one to load it does not know.
    SELECT run, group, at
    FROM (SELECT loaded.run, loaded.group, loaded.seq AS at, loaded.member_ids,
                 max_by(told.member_ids, told.seq) AS known
          FROM GroupState AS loaded JOIN GroupState AS told
              ON told.run = loaded.run AND told.group = loaded.group AND told.seq < loaded.seq
                 AND told.node != loaded.node
          WHERE loaded.reason = 'loaded'
              AND (loaded.run, loaded.group) IN (SELECT run, group FROM fenced)
          GROUP BY loaded.run, loaded.group, loaded.seq, loaded.member_ids, told.node)
    WHERE size(array_except(known, member_ids)) > 0
    UNION ALL
    SELECT run, group, seq
    FROM (SELECT *, last(IF(node = loader, member_ids, NULL), true) OVER (
              PARTITION BY run, group ORDER BY seq) AS known
          FROM (SELECT run, node, group, seq, member_ids, last(IF(reason = 'loaded', node, NULL),
                    true) OVER (PARTITION BY run, group ORDER BY seq) AS loader
                FROM GroupState WHERE (run, group) IN (SELECT run, group FROM fenced)))
    WHERE node != loader AND size(array_except(member_ids, known)) > 0"""

_FENCED_MEMBERS = """
    -- Static members that failed, with the member id that their host was told since it started.
    SELECT failures.run, failures.seq, failures.group, max(started) AS started,
           max_by(told.member_id, told.at) AS member
    FROM failures LEFT JOIN (SELECT run, node, group, member_id, seq AS at
                             FROM ConsumerAssigned) AS told
        ON told.run = failures.run AND told.node = failures.node
           AND told.group = failures.group AND at > started AND at < failures.seq
    WHERE error = 'FENCED_INSTANCE_ID' GROUP BY failures.run, failures.seq, failures.group"""

_REVERTED = """
    -- Of those, the ones that gave way to the id that they had in another process, or whose host
    -- was told no id and has joined since it started.
    SELECT DISTINCT failed.run AS of, failed.seq AS failure
    FROM fenced_members AS failed
    JOIN (SELECT back.run, back.group, back.seq AS at, back.new_member_id,
                 max(joins.seq) AS joined
          FROM MemberIdReverted AS back JOIN MemberRequest AS joins
              ON joins.run = back.run AND joins.group = back.group
                 AND joins.instance_id = back.instance_id AND joins.api = 'JoinGroup'
                 AND joins.member_id = '' AND joins.seq < back.seq
          GROUP BY back.run, back.group, back.seq, back.new_member_id) AS reverted
        ON reverted.run = failed.run AND reverted.group = failed.group AND at < failed.seq
    WHERE IF(member IS NULL, joined > started, new_member_id = member)"""

_REPLACED = """
    -- Failures of static members after another process joined with their group.instance.id: the
    -- coordinator had placed the one that failed, or there were two joins since its host started.
    SELECT failed.run AS of, failed.seq AS failure
    FROM fenced_members AS failed
    JOIN (SELECT run, group, instance_id, seq AS at, lag(seq) OVER (
              PARTITION BY run, group, instance_id ORDER BY seq) AS before
          FROM MemberRequest
          WHERE api = 'JoinGroup' AND member_id = '' AND instance_id IS NOT NULL) AS joins
        ON joins.run = failed.run AND joins.group = failed.group AND joins.at < failed.seq
    LEFT JOIN (SELECT run, group, member_id, min(seq) AS placed
               FROM GroupAssigned GROUP BY run, group, member_id) AS places
        ON places.run = failed.run AND places.group = failed.group AND member_id = member
    WHERE CASE WHEN member IS NULL THEN before > started
               ELSE instance_id = regexp_extract(member, '^(.*)-[^-]*$', 1) AND at > placed END
    GROUP BY failed.run, failed.seq"""

_DELETED = """
    -- Failures of consumers whose group was deleted after a coordinator had last told of the member
    -- that they were, as their host has last been told since it started.
    SELECT run AS of, failure
    FROM (SELECT consumers.run, failure, group, max(at) AS listed
          FROM (SELECT failures.run, failures.seq AS failure, failures.group,
                       max_by(member_id, told.seq) AS member
                FROM failures JOIN ConsumerAssigned AS told
                    ON told.run = failures.run AND told.node = failures.node
                       AND told.group = failures.group AND told.seq > started
                       AND told.seq < failures.seq
                WHERE error = 'GROUP_ID_NOT_FOUND'
                GROUP BY failures.run, failures.seq, failures.group) AS consumers
          JOIN (SELECT run AS in_run, group AS name, seq AS at, member_ids FROM GroupState)
              ON in_run = run AND name = group AND at < failure
                 AND array_contains(member_ids, member)
          GROUP BY consumers.run, failure, group)
    JOIN (SELECT run AS in_run, group AS name, seq AS deleted FROM GroupState
          WHERE state = 'Dead' AND reason IN ('expired', 'deleted', 'empty'))
        ON in_run = run AND name = group AND deleted > listed AND deleted < failure
    GROUP BY run, failure"""

_RESIZED = """
    -- Since when some topic of a run has, or had, another number of partitions.
    SELECT run, min(seq) AS at
    FROM (SELECT run, seq
          FROM (SELECT *, lag(partitions) OVER (PARTITION BY run, topic ORDER BY seq) AS before
                FROM TopicCreated)
          WHERE before != partitions
          UNION ALL
          SELECT changed.run, changed.seq FROM PartitionChanged AS changed
          JOIN TopicCreated AS created
              ON created.run = changed.run AND created.topic_id = changed.topic_id
                 AND created.seq < changed.seq AND changed.partition >= created.partitions)
    GROUP BY run"""

FAILED = offending(
    # Eight errors are answers of Kafka although nobody has broken a promise
    # (judging/group_members.py:Excuses). A consumer of the new protocol was in a group that is a
    # classic one again, or asks a classic group without an assignor to convert. A removed member
    # commits, or sends its heartbeat, to a group that has been deleted meanwhile. A static member
    # is fenced by a coordinator that does not know the id that its predecessor gave it, by another
    # process that joins with its group.instance.id, and by its old id, if the new one could not be
    # stored. A sticky assignor fails when members
    # own partitions that the leader's metadata lacks, and one of the brokers when the coordinator's
    # does. A classic consumer does not expect the answer to a SyncGroup that meets a coordinator
    # which loads the group.
    f"""
    WITH failures AS ({_FAILURES}),
    fenced AS (SELECT run, group FROM failures WHERE error = 'FENCED_INSTANCE_ID'),
    fenced_members AS ({_FENCED_MEMBERS})
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq,
           node, exception, reason, task
    FROM failures
    LEFT ANTI JOIN (SELECT classic.run AS of, classic.group AS name, at, t_us, node AS host,
                           belongs
                    FROM ({_CLASSIC}) AS classic
                    JOIN (SELECT run, group, node, seq AS belongs FROM ConsumerAssigned) AS told
                        ON told.run = classic.run AND told.group = classic.group)
        ON error = 'GROUP_ID_NOT_FOUND' AND run = of AND group = name AND node = host
           AND belongs > started AND belongs < seq AND at < seq AND t_us >= since_us
    LEFT ANTI JOIN (SELECT run AS of, group AS name, at, until, until_us FROM ({_UNCHOSEN}))
        ON error = 'UNKNOWN_SERVER_ERROR' AND run = of AND group = name AND at < seq
           AND (until IS NULL OR until > seq OR until_us >= since_us)
    LEFT ANTI JOIN (SELECT run AS of, group AS name, seq AS at, t_us FROM LoadInProgress
                    WHERE request = 'SyncGroup')
        ON error = 'COORDINATOR_LOAD_IN_PROGRESS' AND run = of AND group = name AND at < seq
           AND t_us >= since_us
    LEFT ANTI JOIN (SELECT run AS of, group AS name, at FROM ({_FORGOTTEN}))
        ON error = 'FENCED_INSTANCE_ID' AND run = of AND group = name AND at < seq
    LEFT ANTI JOIN ({_REPLACED}) ON run = of AND seq = failure
    LEFT ANTI JOIN ({_REVERTED}) ON run = of AND seq = failure
    LEFT ANTI JOIN ({_DELETED}) ON run = of AND seq = failure
    LEFT ANTI JOIN (SELECT run AS of, at FROM ({_RESIZED}))
        ON (exception = 'AssignorError' OR error = 'UNKNOWN_SERVER_ERROR') AND run = of
           AND at < seq""",
    "'application-failed'",
    "'%s: %s: %s in %s', node, exception, reason, task",
    # A consumer group (KIP-848) that its coordinator has lost ends its consumers.
    r"filter(array(regexp_extract(reason, '^GROUP_ID_NOT_FOUND: group (.*)$', 1)), g -> g <> '')",
)

_MOVES = """
    LEFT JOIN (SELECT run, topic_id, partition, group, moves FROM resets)
        USING (run, topic_id, partition, group)"""


def _reset(missing: str, after: str, shown: str) -> str:
    """Return the SQL of the last row in which a group's reset explains what became of an offset.

    Of a ``missing`` record it passed over the offset; otherwise it led back to it. It lies between
    the rows ``after`` and ``shown``.
    """
    return (
        f"array_max(transform(filter(moves, m -> {after} < m.row AND m.row < {shown} AND"
        f" (m.to > offset) = ({missing})), m -> m.row))"
    )


def _on_reset(part: str = "''") -> tuple[tuple[str, str], ...]:
    """Return what a group's position rests on before the row ``reset``, by condition."""
    return (
        ("reset IS NOT NULL", spot("topic_id", "partition", before="reset", part=part)),
        (
            "reset IS NOT NULL AND home IS NOT NULL",
            spot("home", "home_partition", before="reset", part=part),
        ),
    )


RESULTS = offending(
    # A database that has two results of a record, or none although the group is past it: a later
    # record of the partition has one, or the group has committed a later offset.
    f"""
    SELECT run, topic_id, partition, group, offset, times, seq, {
        rests_on(
            *_on_reset(),
            (
                "times > 1 AND got < again",
                spot("topic_id", "partition", "offset", "offset + 1", after="got", before="again"),
            ),
            (
                "times > 1 AND got < again AND home IS NOT NULL",
                spot("home", "home_partition", before="again"),
            ),
            ("times = 0 AND coalesce(only, false)", spot("topic_id", "partition", "offset")),
        )
    } AS spots
    FROM (SELECT *, {
        _reset("times = 0", "IF(times = 0, -1, got)", f"IF(times = 0, {AT_END}, again)")
    } AS reset
    FROM (SELECT run, topic_id, partition, group, offset, times, 0 AS seq FROM (
        SELECT run, topic_id, partition, group, offset, count(stored) AS times FROM (
            SELECT run, topic_id, partition, group, offset, 1 AS stored
            FROM FinalResults LATERAL VIEW explode(offsets) AS offset
            UNION ALL
            SELECT run, topic_id, partition, group, offset, CAST(NULL AS INT) AS stored
            FROM (SELECT run, topic_id, partition, group,
                         greatest(start, log_start_offset) AS low,
                         greatest(reached, coalesce(committed, 0)) AS high
                  FROM (SELECT run, topic_id, partition, group,
                               max(coalesce(array_max(offsets) + 1, 0)) AS reached
                        FROM FinalResults GROUP BY run, topic_id, partition, group)
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
    {_MOVES} {HOME}
    WHERE times > 1 OR times = 0 AND removed_at IS NULL
          AND NOT coalesce(marker OR (aborted AND coalesce(only, false)), false))""",
    "IF(times > 1, 'duplicate-result', 'lost-result')",
    "'group %s stored %d results of offset %d', group, times, offset",
    "array(group)",
    about("offset", shown=AT_END, spots="spots"),
)

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
            *_on_reset("part"),
        )
    })) AS places
        FROM (SELECT *, {_reset("missing", "after", "shown")} AS reset,
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
              {_MOVES} {HOME}
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
