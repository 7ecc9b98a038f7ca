"""Rebalances have a reason (judging/groups.py, judging/consumer_groups.py).

Of topics it counts here what any member of the group has subscribed to by then.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import about, offending

_CHANGED_TOPICS = """
    -- Topics that were created, grew or were deleted.
    SELECT run, topic, seq, t_us, true AS new FROM TopicCreated
    UNION ALL
    SELECT run, topic, seq, t_us, false FROM TopicDeleted
    UNION ALL
    SELECT grown.run, topic, grown.seq, grown.t_us, false FROM PartitionChanged AS grown
    JOIN TopicCreated AS created ON grown.run = created.run AND grown.topic_id = created.topic_id
        AND grown.partition >= created.partitions"""

_RACKS = """
    -- The rack of each broker that has one, from each change of it on: none while it is not
    -- registered.
    SELECT run, broker, seq, t_us, now AS rack
    FROM (SELECT *, lag(now) OVER (PARTITION BY run, broker ORDER BY seq) AS before
          FROM (SELECT *, IF(change = 'unregistered', NULL, rack) AS now FROM BrokerRegistration))
    WHERE NOT (now <=> before)"""

_MOVED = """
    -- Partitions whose replicas have changed, and the rack that each broker of theirs had then.
    SELECT moved.*, racks.broker, max_by(racks.rack, racks.seq) AS rack
    FROM (SELECT run, topic_id, seq, t_us, replicas, lag(replicas) OVER (
              PARTITION BY run, topic_id, partition ORDER BY seq) AS before
          FROM PartitionChanged) AS moved
    JOIN racks ON moved.run = racks.run AND racks.seq < moved.seq
        AND array_contains(array_union(replicas, before), racks.broker)
    WHERE replicas != before
    GROUP BY ALL"""

_IN_OTHER_RACKS = """
    -- Topics whose replicas are in other racks than before: they have moved, or a broker that had
    -- one of them has come, gone, or come back in another rack.
    SELECT changed.run, created.topic, changed.seq, changed.t_us
    FROM (SELECT run, topic_id, seq, t_us
          FROM (SELECT run, topic_id, seq, t_us, replicas, before,
                       map_from_entries(collect_list(struct(broker, rack))) AS places
                FROM moved GROUP BY run, topic_id, seq, t_us, replicas, before)
          WHERE array_sort(array_compact(transform(replicas, each -> places[each])))
              != array_sort(array_compact(transform(before, each -> places[each])))
          UNION ALL
          SELECT DISTINCT racks.run, topic_id, racks.seq, racks.t_us
          FROM racks JOIN PartitionChanged AS held ON racks.run = held.run
              AND held.seq < racks.seq AND array_contains(replicas, racks.broker)) AS changed
    JOIN TopicCreated AS created
        ON changed.run = created.run AND changed.topic_id = created.topic_id"""

_BEGUN = """
    -- Rebalances of classic groups that were stable, or completing one, in which no member is new,
    -- gone, or has come back, and the assignment that failed had not been asked for. rejoined is
    -- the row of the JoinGroup that began it; leads tells whether the leader of a stable group sent
    -- it.
    SELECT steps.*, IF(asked.api = 'JoinGroup' AND asked.t_us = next_t_us, asked.seq, -1)
               AS rejoined, asked.member_id = group_leader AND state = 'Stable' AS leads
    FROM group_steps AS steps
    LEFT JOIN (SELECT run, group, collect_set(concat(static, ' ', member_id)) AS ids
               FROM group_statics GROUP BY run, group) AS statics USING (run, group)
    LEFT ANTI JOIN GroupConverted AS turned ON steps.run = turned.run
        AND steps.group = turned.group AND turned.t_us = next_t_us AND turned.seq < next_seq
    WHERE judged AND NOT consumer AND NOT resumed AND next_what = 'state' AND state IN ('Stable',
        'CompletingRebalance') AND next_state = 'PreparingRebalance' AND member_ids = next_ids
        AND size(left_ids) = 0
        AND NOT exists(joins, each -> exists(member_ids, known -> known != each.member_id
            AND coalesce(array_contains(ids, concat(each.instance_id, ' ', known)), false)))
        AND NOT (state = 'CompletingRebalance' AND has_synced)"""

_JOINED = """
    -- What each JoinGroup tells, and how it differs from the last one of its member. A sticky
    -- assignor tells of the last assignment, too.
    SELECT *, exists(protocols, name -> endswith(name, 'sticky')) AS sticky,
           lag(seq) OVER one AS before, coalesce(lag(topics) OVER one, array()) = topics
              AND coalesce(lag(protocols) OVER one, array()) = protocols AS same,
           coalesce(lag(generation) OVER one, -1) = generation
              AND coalesce(lag(owned) OVER one, array()) = owned AS same_assignment
    FROM members_by_id WHERE api = 'JoinGroup'
    WINDOW one AS (PARTITION BY run, group, key ORDER BY seq)"""

_REJOINED = """
    -- Those that nobody asked for, or a JoinGroup of a member that asked for what it had before.
    SELECT begun.*, asked.member_id AS who, joined.rack, rejoined >= 0 AS asked_for,
           NOT same_assignment OR leads AS curious, coalesce(sticky, false) AS sticky, before
    FROM begun LEFT JOIN joined ON begun.run = joined.run AND begun.group = joined.group
        AND rejoined = joined.seq
    WHERE rejoined < 0 OR (same AND array_contains(member_ids, asked.member_id)
                           AND NOT (loaded AND size(joined.protocols) > 1))"""

_TOLD = """
    -- The rows that tell what a group had been through: its states, the assignments that
    -- applications have taken, and those that lack something that the member owned.
    SELECT run, group, seq, t_us, node, state AS what, CAST(NULL AS STRING) AS member_id,
           generation, member_ids
    FROM GroupState
    UNION ALL
    SELECT run, group, seq, t_us, node, 'taken', member_id, generation, NULL FROM ConsumerAssigned
    UNION ALL
    SELECT run, group, seq, t_us, node, 'revokes', member_id, generation, NULL
    FROM (SELECT *, last(owned, true) OVER (PARTITION BY run, group, member_id ORDER BY seq) AS had
          FROM (SELECT run, group, seq, t_us, node, member_id, generation, assignment,
                       CAST(NULL AS ARRAY<STRING>) AS owned FROM GroupAssigned
                UNION ALL
                SELECT run, group, seq, t_us, node, member_id, generation, NULL, owned
                FROM MemberRequest WHERE api = 'JoinGroup'))
    WHERE size(array_except(had, assignment)) > 0"""

_CURIOUS = """(any_value(curious) OR any_value(sticky)
        AND max(IF(told.what = 'taken', told.seq, -1)) > any_value(before))"""

_STORIES = f"""
    -- Without those in which another coordinator had begun a rebalance with the member, and had not
    -- stored its end, or had converted the group, which is forgotten; the member had not taken its
    -- assignment, or it gave up what the assignment lacks.
    SELECT rejoins.run, rejoins.group, next_seq, any_value(rejoins.node) AS node,
           any_value(rejoins.state) AS state, any_value(rejoins.generation) AS generation,
           any_value(next_reason) AS next_reason, any_value(asked_for AND leads) AS leads,
           any_value(asked_for) AND {_CURIOUS} AS curious,
           any_value(rack) AS rack,
           max_by(told.node, IF(told.what = 'taken', told.seq, NULL)) AS host,
           coalesce(min(IF(told.generation = rejoins.generation AND told.member_id IS NULL,
                           told.t_us, NULL)), 0) AS formed_us
    FROM rejoins LEFT JOIN told ON rejoins.run = told.run AND rejoins.group = told.group
        AND told.seq < next_seq AND coalesce(told.member_id, who) <=> who
    GROUP BY rejoins.run, rejoins.group, next_seq
    HAVING NOT any_value(asked_for) OR NOT (
        (any_value(loaded)
         AND max(coalesce(((told.what = 'PreparingRebalance'
                            AND told.generation >= rejoins.generation)
                           OR (told.what IN ('Assigning', 'Reconciling')
                               AND told.generation > rejoins.generation))
                          AND array_contains(told.member_ids, who), false)))
        OR ({_CURIOUS}
            AND (coalesce(max_by(told.generation, IF(told.what = 'taken', told.seq, NULL)), -1)
                 != any_value(rejoins.generation)
                 OR max(coalesce(told.what = 'revokes' AND told.generation = rejoins.generation,
                                 false)))))"""

_BLANK_BROKERS = """
    -- Brokers in ZooKeeper mode without metadata, from their start to the first UpdateMetadata.
    SELECT run, seq, coalesce(until_us, 1L << 61) AS until_us
    FROM (SELECT *, lead(t_us) OVER (PARTITION BY run, node ORDER BY seq) AS until_us
          FROM (SELECT run, node, seq, t_us, true AS starts FROM HostStarted
                WHERE node LIKE 'broker-%'
                UNION ALL
                SELECT run, node, seq, t_us, false FROM HostStopped
                UNION ALL
                SELECT run, node, seq, t_us, false FROM ControlRequest
                WHERE api = 'UpdateMetadata' AND error = 'NONE'))
    WHERE starts AND run IN (SELECT run FROM ZkControllerWrite)"""

_NEEDLESS = """
    -- Those that no change of topics, racks or metadata explains to the leader, or to a member that
    -- finds its topics by a pattern, where only a deletion changes its topics. Its client may have
    -- rebootstrapped, or asked a ZooKeeper broker that had no metadata in the last ten seconds
    -- before the generation began, or since.
    SELECT stories.*
    FROM (SELECT stories.*, curious AND patterns.node IS NOT NULL AS matches
          FROM stories LEFT JOIN (SELECT DISTINCT run, node, group FROM SubscribedByPattern)
              AS patterns
              ON stories.run = patterns.run AND stories.group = patterns.group
              AND host = patterns.node) AS stories
    LEFT ANTI JOIN (SELECT wanted.run, group, min(greatest(wanted.seq, changed.seq)) AS since
                    FROM (SELECT run, group, seq, explode(topics) AS topic FROM members_told)
                        AS wanted
                    JOIN changed_topics AS changed ON wanted.run = changed.run
                        AND wanted.topic = changed.topic AND NOT new
                    GROUP BY wanted.run, group) AS topics
        ON stories.run = topics.run AND stories.group = topics.group AND leads
        AND topics.since < next_seq
    LEFT ANTI JOIN (SELECT wanted.run, group, min(greatest(wanted.seq, gone.seq)) AS since
                    FROM (SELECT run, group, seq, explode(topics) AS topic FROM members_told)
                        AS wanted
                    JOIN TopicDeleted AS gone ON wanted.run = gone.run AND wanted.topic = gone.topic
                    GROUP BY wanted.run, group) AS absent
        ON stories.run = absent.run AND stories.group = absent.group AND matches
        AND absent.since < next_seq
    LEFT ANTI JOIN (
        SELECT changes.run, min(seq) AS since
        FROM (SELECT run, seq FROM BrokerRegistration
              UNION ALL
              SELECT run, seq
              FROM (SELECT run, seq, replicas, lag(replicas) OVER (
                        PARTITION BY run, topic_id, partition ORDER BY seq) AS before
                    FROM PartitionChanged)
              WHERE replicas != before) AS changes
        LEFT JOIN (SELECT run, max(seq) AS ready FROM Phase WHERE phase = 'ready' GROUP BY run)
            AS phases ON changes.run = phases.run
        WHERE seq > coalesce(ready, -1) GROUP BY changes.run) AS racks
        ON stories.run = racks.run AND leads AND rack != '' AND racks.since < next_seq
    LEFT ANTI JOIN Rebootstrapped AS client ON stories.run = client.run AND host = client.node
        AND (leads OR matches) AND client.seq < next_seq AND client.t_us >= formed_us - 10000000
    LEFT ANTI JOIN blank_brokers AS blank ON stories.run = blank.run
        AND (leads OR matches) AND blank.seq < next_seq AND until_us >= formed_us - 10000000"""

_TAKEN = """
    -- The steps of consumer groups, with the time at which the group took its epoch. What is loaded
    -- or taken back, it had before: since its coordinator of the time took it.
    -- next_coordinates: whether the present coordinator goes on to the next step.
    SELECT step.*, lead(coordinates) OVER (PARTITION BY run, step.node, group ORDER BY seq)
               AS next_coordinates,
           IF(step.epoch_from.resumed,
              coalesce(last(IF(takes, step.t_us, NULL), true) OVER epoch, step.epoch_from.t_us),
              step.epoch_from.t_us) AS epoch_us
    FROM (SELECT *, step.fresh AND NOT step.epoch_from.resumed AND coordinates AS takes FROM (
          SELECT *, step.node = (max(elected) OVER so_far).node AS coordinates
          FROM (SELECT run, group, seq, struct(group_steps.*) AS step,
                       CAST(NULL AS STRUCT<leader_epoch: BIGINT, node: STRING>) AS elected
                FROM group_steps WHERE consumer
                UNION ALL
                SELECT run, group, seq, NULL, struct(leader_epoch, node)
                FROM CoordinatorLoaded JOIN homes USING (run, partition) WHERE loaded)
          WINDOW so_far AS (PARTITION BY run, group ORDER BY seq)))
    WHERE step IS NOT NULL
    WINDOW epoch AS (PARTITION BY run, group, step.generation ORDER BY seq)"""

_RESUBSCRIBED = """
    -- What members of consumer groups tell that they had not told before. A heartbeat that joins,
    -- or follows one that failed, has a rebalance timeout and all topics: a client that looks for
    -- its pattern's has none at first (ConsumerHeartbeatRequestManager.HeartbeatState.reset).
    SELECT run, node, group, seq, t_us, exists(topics, topic -> topic LIKE '/%') AS expression
    FROM (SELECT *, lag(topics) OVER (PARTITION BY run, group, member_id ORDER BY seq) AS before
          FROM members_told
          WHERE size(topics) > 0 OR (api = 'ConsumerGroupHeartbeat'
                                     AND (generation = 0 OR rebalance_timeout_ms > 0)))
    WHERE before IS NULL OR before != topics"""

_EXPRESSIONS = """
    -- Expressions that are resolved later: those that are told, and those of members that join
    -- again, because the last member of an expression takes what it matched with it. Had it been
    -- known then, the epoch would have risen at once.
    SELECT run, group, seq, t_us FROM resubscribed WHERE expression
    UNION ALL
    SELECT joins.run, joins.group, joins.next_seq, joins.next_t_us
    FROM (SELECT *, explode(array_except(next_ids, member_ids)) AS member_id FROM group_steps
          WHERE consumer AND next_what = 'state' AND next_generation = generation) AS joins
    JOIN (SELECT run, group, member_id, seq, topics FROM members_told WHERE size(topics) > 0)
        AS asked USING (run, group, member_id)
    WHERE asked.seq < joins.next_seq
    GROUP BY joins.run, joins.node, joins.group, joins.next_seq, joins.next_t_us, member_id
    HAVING exists(max_by(asked.topics, asked.seq), topic -> topic LIKE '/%')"""

_UNEXPLAINED = """
    -- Group epochs that rose in consumer groups with the same members, none of which told of other
    -- topics then, and no topic had changed; the coordinator's metadata may be 30 s old.
    -- resolved_seq: the last one before it, at the coordinator of that time.
    SELECT steps.*, max(IF(next_coordinates, next_seq, NULL)) OVER (
               PARTITION BY run, group ORDER BY next_seq
               ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS resolved_seq
    FROM (SELECT * FROM taken WHERE judged AND next_what = 'state'
              AND next_generation > generation AND member_ids = next_ids) AS steps
    LEFT ANTI JOIN resubscribed AS told
        ON steps.run = told.run AND steps.group = told.group AND told.seq < next_seq
        AND told.t_us = next_t_us AND steps.node = told.node
    LEFT ANTI JOIN (
        SELECT changed.run, wanted.group, changed.seq, changed.t_us
        FROM (SELECT DISTINCT run, group, explode(topics) AS topic FROM members_told) AS wanted
        JOIN (SELECT run, topic, seq, t_us FROM changed_topics
              UNION ALL SELECT * FROM in_other_racks) AS changed ON wanted.run = changed.run
            AND (wanted.topic = changed.topic OR (wanted.topic LIKE '/%' AND changed.topic RLIKE
                 concat('^(?:', substring(wanted.topic, 2, length(wanted.topic) - 2), ')$'))))
        AS changes ON steps.run = changes.run AND steps.group = changes.group
        AND changes.seq < next_seq AND changes.t_us >= epoch_us - 30000000
    WHERE (steps.run, steps.node) NOT IN (SELECT run, node FROM ClockDrifted)"""

_RISEN = """
    -- Those that no expression explains: one that was told in the epoch before, or for which none
    -- of them has risen yet.
    SELECT * FROM unexplained AS risen
    LEFT ANTI JOIN expressions AS told
        ON risen.run = told.run AND risen.group = told.group AND told.seq < next_seq
        AND (told.t_us >= epoch_us OR told.seq > coalesce(resolved_seq, -1))"""

NEEDLESS_REBALANCE = offending(
    # A rebalance has a member that is new, gone or changed its subscription, has missed an answer,
    # or a leader whose topics have changed.
    f"""
    WITH begun AS ({_BEGUN}), joined AS ({_JOINED}), rejoins AS ({_REJOINED}), told AS ({_TOLD}),
    stories AS ({_STORIES}), blank_brokers AS ({_BLANK_BROKERS}),
    changed_topics AS ({_CHANGED_TOPICS}), racks AS ({_RACKS}), moved AS ({_MOVED}),
    in_other_racks AS ({_IN_OTHER_RACKS}), taken AS ({_TAKEN}),
    resubscribed AS ({_RESUBSCRIBED}), expressions AS ({_EXPRESSIONS}),
    unexplained AS ({_UNEXPLAINED})
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition,
           next_seq AS seq, group,
           format_string('group %s leaves %s of generation %d at %s, and no member, subscription or'
               ' partition has changed (%s)', group, state, generation, node, next_reason) AS story
    FROM ({_NEEDLESS})
    UNION ALL
    SELECT run, NULL, NULL, next_seq, group,
           format_string('group %s goes from epoch %d to %d at %s, and no member, subscription or'
               ' topic has changed (%s)', group, generation, next_generation, node, next_reason)
    FROM ({_RISEN})""",
    "'needless-rebalance'",
    "'%s', story",
    "array(group)",
    about(),
)
