"""Applications: did one fail?"""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

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
    -- Groups of which a coordinator loaded fewer members than another broker had last told, or it
    -- itself if nobody else has loaded the group since; or of which another broker tells members
    -- that the last one to load it does not know.
    SELECT run, group, at
    FROM (SELECT loaded.run, loaded.group, loaded.seq AS at, loaded.member_ids,
                 max_by(told.member_ids, told.seq) AS known
          FROM (SELECT *, coalesce(lag(node) OVER (PARTITION BY run, group ORDER BY seq), node)
                       AS loader
                FROM GroupState
                WHERE reason = 'loaded' AND (run, group) IN (SELECT run, group FROM fenced)
               ) AS loaded
          JOIN GroupState AS told
              ON told.run = loaded.run AND told.group = loaded.group AND told.seq < loaded.seq
                 AND (told.node != loaded.node OR loader = loaded.node)
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

_SIZES = """
    -- The sizes that topics have had, and the one before.
    SELECT run, topic, at, size, lag(size) OVER (PARTITION BY run, topic ORDER BY at) AS before
    FROM (SELECT run, topic, min(seq) AS at, partitions AS size FROM TopicCreated
          GROUP BY run, topic_id, topic, partitions
          UNION ALL
          SELECT changed.run, topic, min(changed.seq), changed.partition + 1
          FROM PartitionChanged AS changed
          JOIN TopicCreated AS created
              ON created.run = changed.run AND created.topic_id = changed.topic_id
                 AND created.seq < changed.seq AND changed.partition >= created.partitions
          GROUP BY changed.run, topic, changed.topic_id, changed.partition)"""

_GIVEN = """
    -- The partitions that groups have had, and which of these were share groups.
    SELECT run, group, seq AS given, shared, regexp_extract(one, '^(.*)-[0-9]+$', 1) AS topic,
           CAST(regexp_extract(one, '-([0-9]+)$', 1) AS BIGINT) AS number
    FROM (SELECT run, group, seq, assignment, false AS shared FROM ConsumerAssigned
          UNION ALL SELECT run, group, seq, assignment, false FROM GroupAssigned
          UNION ALL SELECT run, group, seq, assignment, true FROM ShareGroupAssigned)
    LATERAL VIEW explode(assignment) AS one"""

_RESIZED = f"""
    -- Failures of assignors that may lack partitions of a topic whose size has changed
    -- (harm/truth/resized.py). A leader that has not been told its group may have any.
    WITH sizes AS ({_SIZES}),
    given AS ({_GIVEN}),
    resized AS (
        SELECT failures.run, failures.seq AS failure, node, exception, error, group, started,
               topic, min(at) FILTER (WHERE before != size) AS since, min(size) AS fewest
        FROM failures JOIN sizes ON sizes.run = failures.run AND at < failures.seq
        WHERE exception = 'AssignorError' OR error = 'UNKNOWN_SERVER_ERROR'
        GROUP BY failures.run, failures.seq, node, exception, error, group, started, topic
        HAVING since IS NOT NULL),
    own AS (
        SELECT resized.run AS in_run, failure AS of_failure, collect_set(told.group) AS groups
        FROM resized JOIN ConsumerAssigned AS told
            ON told.run = resized.run AND told.node = resized.node
               AND told.seq > started AND told.seq < failure
        GROUP BY resized.run, failure),
    subscribed AS (
        SELECT run AS in_run, group AS of_group, seq AS asked, explode(topics) AS wanted
        FROM MemberRequest
        UNION ALL
        SELECT run, group, given, topic FROM given WHERE NOT shared),
    loads AS (
        SELECT homes.run AS on_run, homes.group AS on_group, seq AS load
        FROM homes JOIN CoordinatorLoaded AS loaded
            ON loaded.run = homes.run AND loaded.partition = homes.partition
        WHERE loaded)
    SELECT resized.run AS of, failure
    FROM resized LEFT JOIN own ON run = in_run AND failure = of_failure
    JOIN given ON given.run = resized.run AND given.topic = resized.topic
    WHERE exception = 'AssignorError' AND NOT shared AND given < failure AND number >= fewest
          AND (groups IS NULL OR array_contains(groups, given.group))
    UNION
    SELECT resized.run, failure
    FROM resized JOIN given
        ON given.run = resized.run AND given.topic = resized.topic AND given.group = resized.group
    LEFT JOIN (SELECT run AS in_run, group AS of_group, seq AS classic FROM GroupState
               WHERE state = 'CompletingRebalance')
        ON resized.run = in_run AND resized.group = of_group AND classic < failure
    WHERE error = 'UNKNOWN_SERVER_ERROR' AND given < failure
          AND (shared OR (number >= fewest AND since < classic))
    UNION
    SELECT run, failure
    FROM resized JOIN subscribed ON run = in_run AND group = of_group
    JOIN loads ON run = on_run AND group = on_group
    WHERE error = 'UNKNOWN_SERVER_ERROR' AND asked < failure AND since < load AND load < failure
          AND (wanted = topic OR (wanted LIKE '/%/' AND topic RLIKE concat(
              '^(', substring(wanted, 2, length(wanted) - 2), ')$')))"""

FAILED = offending(
    # Eight errors are answers of Kafka although nobody has broken a promise
    # (judging/group_members.py:Excuses). A consumer of the new protocol was in a group that is a
    # classic one again, or asks a classic group without an assignor to convert. A removed member
    # commits, or sends its heartbeat, to a group that has been deleted meanwhile. A static member
    # is fenced by a coordinator that does not know the id that its predecessor gave it, by another
    # process that joins with its group.instance.id, and by its old id, if the new one could not be
    # stored. An assignor may fail where a topic's size has changed. A classic consumer does not
    # expect the answer to a SyncGroup that meets a coordinator which loads the group.
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
    LEFT ANTI JOIN ({_RESIZED}) ON run = of AND seq = failure""",
    "'application-failed'",
    "'%s: %s: %s in %s', node, exception, reason, task",
    # A consumer group (KIP-848) that its coordinator has lost ends its consumers.
    r"filter(array(regexp_extract(reason, '^GROUP_ID_NOT_FOUND: group (.*)$', 1)), g -> g <> '')",
)
