"""Who owns partitions and commits: double-owner, old-owners, early-handover, stale-commit.

Who is in a generation: changed-generation.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import about, offending

_GROUPS_TOLD = """
    SELECT run, group, seq, node, api AS what, member_id,
           CAST(NULL AS ARRAY<STRING>) AS assignment,
           CAST(NULL AS ARRAY<STRING>) AS member_ids,
           api = 'ConsumerGroupHeartbeat' AS consumer,
           CAST(NULL AS STRUCT<leader_epoch: BIGINT, node: STRING>) AS elected,
           CAST(NULL AS BIGINT) AS generation
    FROM MemberRequest
    WHERE api IN ('JoinGroup', 'ConsumerGroupHeartbeat')
    UNION ALL
    SELECT run, group, seq, node, 'converted', NULL, NULL, NULL,
           protocol = 'consumer', NULL, NULL FROM GroupConverted
    UNION ALL
    SELECT run, group, seq, node, IF(reason = 'loaded', 'loaded', 'state'), NULL, NULL,
           member_ids,
           IF(reason = 'loaded' AND size(member_ids) > 0, group_leader = '', NULL), NULL,
           IF(state = 'Dead', 0, generation)
    FROM GroupState
    UNION ALL
    SELECT run, group, seq, node, 'assigned', member_id, assignment, NULL, NULL, NULL,
           generation
    FROM GroupAssigned
    UNION ALL
    SELECT loads.run, group, seq, node, 'elected', NULL, NULL,
           CAST(array() AS ARRAY<STRING>), NULL, struct(leader_epoch, node), NULL
    FROM (SELECT run, seq, node, partition, leader_epoch FROM CoordinatorLoaded
          WHERE loaded) AS loads
    JOIN homes ON homes.run = loads.run AND homes.partition = loads.partition"""

_CONSUMER_GROUPS = f"""
    -- What is told of groups, row by row, with what holds then: whether the group is of the
    -- consumer protocol (KIP-848), how often its coordinator converted it, its last generation as a
    -- classic group, and who coordinates it. An empty group is of the protocol by which it is
    -- joined, one with members of that to which it was converted. What a coordinator loads counts
    -- anew: a classic group with members has a leader. A deposed coordinator may have converted the
    -- group for itself alone, so each node has the group its own way.
    SELECT *, last(CASE WHEN what = 'elected' THEN 0L
                        WHEN what IN ('state', 'loaded') AND NOT coalesce(by_heartbeat, false)
                        THEN generation END, true) OVER there AS classic
    FROM (SELECT *, last(IF(what IN ('JoinGroup', 'ConsumerGroupHeartbeat')
                                AND coalesce(size(known), 0) > 0, NULL, consumer),
                         true) OVER there AS by_heartbeat,
                 sum(IF(what = 'converted' AND node = coordinator.node, 1, 0)) OVER (
                     PARTITION BY run, group ORDER BY seq) AS era,
                 last(IF(what IN ('state', 'loaded') AND node = coordinator.node, member_ids, NULL),
                      true) OVER (PARTITION BY run, group ORDER BY seq) AS present
          FROM (SELECT *, last(member_ids, true) OVER before AS known,
                       max(elected) OVER so_far AS coordinator
                FROM ({_GROUPS_TOLD})
                WINDOW so_far AS (PARTITION BY run, group ORDER BY seq),
                       before AS (PARTITION BY run, node, group ORDER BY seq
                                  ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
          WINDOW there AS (PARTITION BY run, node, group ORDER BY seq))
    WINDOW there AS (PARTITION BY run, node, group ORDER BY seq)"""

_LIVES = """
    SELECT *, sum(IF(assignment IS NULL, 1, 0)) OVER (PARTITION BY run, group ORDER BY seq) AS lives
    FROM (SELECT run, seq, group, generation, member_id, assignment FROM GroupAssigned
          UNION ALL
          SELECT run, seq, group, generation, '', CAST(NULL AS ARRAY<STRING>) FROM GroupState
          WHERE state = 'Dead'
          UNION ALL
          SELECT run, seq, group, generation, replaced, CAST(array() AS ARRAY<STRING>)
          FROM (SELECT run, seq, group, generation, member_ids, explode(member_ids) AS member_id
                FROM GroupState)
          JOIN group_statics USING (run, group, member_id)
          LEFT ANTI JOIN (SELECT run AS of, group AS name, member_id AS known, seq AS told
                          FROM GroupAssigned)
              ON run = of AND group = name AND member_id = known AND told < seq
          JOIN (SELECT run, group, static, member_id AS replaced FROM group_statics)
              USING (run, group, static)
          WHERE NOT array_contains(member_ids, replaced))"""
"""Assignments with the number of times that their group was deleted before: its generations begin
anew then. A coordinator may have a static member's new id of which nobody told whom it replaced
(KIP-345): its predecessor had stored it, or it could not store the one between them. The old ids
have nothing then. An id that was told before is not new."""

DOUBLE_OWNER = offending(
    # In the coordinator's view two members own one partition at a time: in one generation, or in a
    # consumer group at all, whose present coordinator's view counts. A static member of one that is
    # away has the epoch -2, which is no generation. A member owns what it was assigned last: a
    # static member's new id takes it from the old one (KIP-345). A coordinator that loads a
    # consumer group tells anew what each member owns. A member that the previous one told to be
    # gone owns nothing once the next one has loaded: its log may not have the group any more, and
    # then it tells of nobody. What was owned before the group was a classic one for a time may be
    # told afterwards, and says that the member has nothing now. Nobody owns a partition of a topic
    # that was deleted, or of a new one of its name; a coordinator may hear of it late.
    rf"""
    SELECT run, CAST(NULL AS STRING) AS topic_id,
           CAST(regexp_extract(tp, r'-(\d+)$', 1) AS BIGINT) AS partition,
           max(seq) AS seq, min(first) AS promise, tp, place, group
    FROM (SELECT *, min(seq) OVER (PARTITION BY run, group, place, tp) AS first,
                 max(least(until, array_min(filter(deletions, deleted -> deleted > seq)))) OVER (
                     PARTITION BY run, group, place, tp ORDER BY seq
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS taken
          FROM (SELECT run, group, place, seq, until, tp,
                       regexp_extract(tp, r'^(.*)-\d+$', 1) AS topic
                FROM (SELECT *, coalesce(lead(seq) OVER (
                                    PARTITION BY run, group, place, member_id ORDER BY seq),
                                9223372036854775807) AS until
                      FROM (SELECT run, group, concat(format_string('generation %d', generation),
                                       repeat(', deleted before', lives)) AS place,
                                   member_id, seq, assignment
                            FROM ({_LIVES}) WHERE assignment IS NOT NULL AND generation >= 0
                            UNION ALL
                            SELECT run, group, format_string('era %d', era), member_id, seq,
                                   IF(by_heartbeat AND generation >= coalesce(classic, 0),
                                      assignment, CAST(array() AS ARRAY<STRING>))
                            FROM ({_CONSUMER_GROUPS})
                            WHERE what = 'assigned' AND node = coordinator.node
                            UNION ALL
                            SELECT run, group, format_string('era %d', era), members.member_id,
                                   seq, CAST(array() AS ARRAY<STRING>)
                            FROM ({_CONSUMER_GROUPS}) AS told
                            JOIN (SELECT DISTINCT run, group, member_id FROM GroupAssigned)
                                AS members USING (run, group)
                            WHERE node = coordinator.node
                                AND (what = 'loaded' AND by_heartbeat
                                     OR what = 'elected'
                                        AND NOT array_contains(present, members.member_id))))
                LATERAL VIEW explode(assignment) AS tp)
          LEFT JOIN (SELECT run, topic, collect_list(seq) AS deletions
                     FROM (SELECT run, topic, seq FROM TopicDeleted
                           UNION ALL
                           SELECT run, topic, min(seq) FROM TopicCreated
                           GROUP BY run, topic_id, topic)
                     GROUP BY run, topic) USING (run, topic))
    WHERE taken > seq GROUP BY run, group, place, tp""",
    "'double-owner'",
    "'%s has two owners in group %s (%s)', tp, group, place",
    "array(group)",
    about(promise="promise"),
)

_SESSIONS = """
    -- What becomes of the sessions of old consumers' hosts, each row with the session that the host
    -- knows then. A row of the kind "claimed" is there for that session alone.
    SELECT *, last(IF(what IN ('connected', 'stopped'), struct(session_id AS id), NULL), true)
                  OVER earlier.id AS known
    FROM (SELECT run, node, seq, 'connected' AS what, session_id FROM ZooKeeperConnection
          WHERE state = 'CONNECTED'
          UNION ALL
          SELECT run, node, seq, 'stopped', CAST(NULL AS BIGINT) FROM HostStopped
          UNION ALL
          SELECT run, client, seq, event, session_id FROM ZooKeeperSession
          WHERE event IN ('expiring', 'expired', 'closed')
          UNION ALL
          SELECT run, node, seq, 'claimed', CAST(NULL AS BIGINT) FROM PartitionOwner
          WHERE event = 'claimed')
    LEFT SEMI JOIN (SELECT run, node FROM PartitionOwner) USING (run, node)
    WINDOW earlier AS (PARTITION BY run, node ORDER BY seq
                       ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"""

_LOST_SESSIONS = """
    -- When a consumer learned that the session had ended in which it held its partitions: its last
    -- rebalance was done in the row ``held``, and no other one was under way.
    SELECT run, node, group, member_id, seq, held
    FROM (SELECT *, lag(what) OVER told AS before, lag(seq) OVER told AS held
          FROM (SELECT run, node, group, member_id, seq, 'done' AS what FROM RebalanceAttempt
                WHERE outcome = 'done'
                UNION ALL
                SELECT run, node, group, member_id, seq, 'revoked' FROM ConsumerRevoked
                UNION ALL
                SELECT run, node, group, member_id, seq, what
                FROM drops JOIN (SELECT DISTINCT run, node, group, member_id FROM PartitionOwner)
                    USING (run, node)
                WHERE what IN ('connected', 'stopped'))
          WINDOW told AS (PARTITION BY run, group, member_id ORDER BY seq))
    WHERE what = 'connected' AND before = 'done'"""

_LATE_RELEASES = """
    -- Deletions that were a consumer's last act before it had another session: they wait for it.
    SELECT acts.run, group, topic, partition, drops.seq, acts.node, member_id, 'released' AS event
    FROM (SELECT *, coalesce(lead(seq) OVER (PARTITION BY run, group, member_id ORDER BY seq),
                             1L << 62) AS until
          FROM (SELECT run, node, group, member_id, seq, event, topic, partition
                FROM PartitionOwner
                UNION ALL
                SELECT run, node, group, member_id, seq, 'attempt', NULL, NULL
                FROM RebalanceAttempt)) AS acts
    JOIN drops ON acts.run = drops.run AND acts.node = drops.node AND what = 'connected'
        AND drops.seq > acts.seq AND drops.seq < until
    LEFT ANTI JOIN drops AS stops ON acts.run = stops.run AND acts.node = stops.node
        AND stops.what = 'stopped' AND stops.seq > acts.seq AND stops.seq < drops.seq
    WHERE event = 'released'"""

OWNERS = offending(
    # A group of old consumers, in ZooKeeper. A partition has one owner: the consumer whose claim
    # was confirmed last, until it sends the release, its session ends or its process does, or
    # another one's release, which has waited for a session, takes it. A claim that is told after
    # its session has ended is void. A consumer gets no record of what it has released, and does not
    # release what it held in a session that has ended (judging/invariants/groups/owners.py).
    f"""
    WITH sessions AS ({_SESSIONS}),
    drops AS (
        SELECT run, node, seq, what FROM sessions
        WHERE what = 'stopped' OR (what = 'connected' AND session_id != known)
            OR (what IN ('expired', 'closed') AND session_id = known)),
    claims AS (
        SELECT run, group, topic, partition, seq, node, member_id, event,
               format_string('%s-%d', topic, partition) AS tp
        FROM (SELECT run, group, topic, partition, seq, node, member_id, event FROM PartitionOwner
              WHERE event IN ('claimed', 'released')
              UNION ALL {_LATE_RELEASES})),
    standing AS (  -- without claims that were told after their session had ended
        SELECT *, lag(struct(seq, node, member_id, event)) OVER (
                      PARTITION BY run, group, topic, partition ORDER BY seq) AS other
        FROM claims
        LEFT ANTI JOIN (
            SELECT told.run, told.node, told.seq
            FROM (SELECT run, node, seq, known FROM sessions WHERE what = 'claimed') AS told
            JOIN (SELECT run, node, seq, session_id FROM sessions
                  WHERE what IN ('expired', 'closed')) AS ends
                ON told.run = ends.run AND told.node = ends.node
                   AND ends.session_id = told.known AND ends.seq < told.seq)
            USING (run, node, seq)),
    lost AS ({_LOST_SESSIONS}),
    found AS (
        SELECT claims.run, group, topic, partition, claims.seq,
               format_string('%s and %s both own %s', other.member_id, member_id, tp) AS story
        FROM standing AS claims
        LEFT JOIN (SELECT run, node, seq, known FROM sessions WHERE what = 'claimed') AS earlier
            ON earlier.run = claims.run AND earlier.node = other.node AND earlier.seq = other.seq
        LEFT ANTI JOIN drops ON drops.run = claims.run AND drops.node = other.node
            AND drops.seq > other.seq AND drops.seq < claims.seq
        LEFT ANTI JOIN sessions AS ending ON ending.run = claims.run AND ending.node = other.node
            AND ending.what = 'expiring' AND ending.session_id = earlier.known
            AND ending.seq < claims.seq
        WHERE event = 'claimed' AND other.event = 'claimed' AND other.member_id != member_id
        UNION ALL
        SELECT run, group, topic, partition, seq,
               format_string('%s gets offset %d of %s-%d, which it has released', member_id,
                             offset, topic, partition)
        FROM (SELECT *, last(IF(what = 'polled', NULL, struct(what, seq)), true) OVER (
                     PARTITION BY run, group, member_id, topic, partition ORDER BY seq) AS known
              FROM (SELECT run, group, member_id, topic, partition, seq, node, event AS what,
                           CAST(NULL AS BIGINT) AS offset FROM claims
                    UNION ALL
                    SELECT run, group, member_id, topic, partition, seq, node, 'polled',
                           get(offsets, 0)
                    FROM Polled LEFT SEMI JOIN (SELECT run, group FROM PartitionOwner)
                        USING (run, group)
                    JOIN (SELECT run, topic_id, topic FROM topics) USING (run, topic_id)
                    WHERE size(offsets) > 0)) AS polls
        LEFT ANTI JOIN (SELECT run AS of, node AS host, seq AS at FROM HostStopped)
            ON of = run AND host = node AND at > known.seq AND at < seq
        WHERE what = 'polled' AND known.what = 'released'
        UNION ALL
        SELECT given.run, given.group, given.topic, given.partition, given.seq,
               format_string('%s releases %s, which it held in a session that has ended',
                             given.member_id, given.tp)
        FROM (SELECT lost.run, lost.node, lost.group, lost.member_id, lost.seq, lost.held,
                     claims.topic, claims.partition,
                     max_by(struct(claims.event, claims.member_id), claims.seq) AS owner,
                     max(claims.seq) AS since
              FROM lost JOIN standing AS claims ON claims.run = lost.run
                  AND claims.group = lost.group AND claims.seq < lost.held
              GROUP BY lost.run, lost.node, lost.group, lost.member_id, lost.seq, lost.held,
                       claims.topic, claims.partition) AS holds
        LEFT ANTI JOIN drops ON drops.run = holds.run AND drops.node = holds.node
            AND drops.seq > since AND drops.seq < held
        JOIN claims AS given ON given.run = holds.run AND given.group = holds.group
            AND given.member_id = holds.member_id AND given.topic = holds.topic
            AND given.partition = holds.partition AND given.event = 'released'
            AND given.seq > holds.seq
        LEFT ANTI JOIN claims AS again ON again.run = given.run AND again.group = given.group
            AND again.member_id = given.member_id AND again.topic = given.topic
            AND again.partition = given.partition AND again.event = 'claimed'
            AND again.seq > holds.seq AND again.seq < given.seq
        LEFT ANTI JOIN (SELECT run, node, seq AS at FROM HostStopped) AS stops
            ON stops.run = holds.run AND stops.node = holds.node AND at > holds.seq
               AND at < given.seq
        WHERE owner.event = 'claimed' AND owner.member_id = holds.member_id)
    SELECT run, topic_id, partition, seq, group, story
    FROM found LEFT JOIN (SELECT run, topic, topic_id FROM topics) USING (run, topic)""",
    "'EXCL'",
    "'group %s: %s', group, story",
    "array(group)",
)

EARLY_HANDOVER = offending(
    # A generation gives a partition to a member while another one has told in its JoinGroup that
    # it owns it (KIP-429): that one has not revoked it yet. A claim counts if it is of the latest
    # generation that any claim is of, and the only one of its partition. A static member's new id
    # takes over what the old one had. What a coordinator heard before it loads the group counts no
    # more. (judging/readers/handover.py)
    r"""
    SELECT assigned.run, CAST(NULL AS STRING) AS topic_id,
           CAST(regexp_extract(assigned.tp, r'-(\d+)$', 1) AS BIGINT) AS partition,
           assigned.seq, assigned.tp, assigned.group, assigned.generation, claim.member_id AS owner,
           claim.seq AS promise
    FROM (SELECT run, node, group, generation, seq, member_id, tp FROM GroupAssigned
          LATERAL VIEW explode(assignment) AS tp) AS assigned
    JOIN (SELECT run, node, group, generation, tp, any_value(claim) AS claim, formed, next
          FROM (SELECT *, max(claim.generation) OVER (PARTITION BY run, node, group, formed)
                           AS newest
                FROM (SELECT run, node, group, formed, any_value(next) AS next,
                             any_value(generation) AS generation, max(claim) AS claim
                      FROM (SELECT rounds.*, struct(asked.seq, asked.generation, asked.owned,
                                                    asked.member_id, asked.instance_id) AS claim
                            FROM (SELECT run, node, group, generation, member_ids, seq AS formed,
                                         lag(seq, 1, -1) OVER by_group AS since,
                                         lead(seq, 1, 1L << 62) OVER by_group AS next
                                  FROM (SELECT run, node, group, generation, member_ids, seq
                                        FROM GroupState WHERE state = 'CompletingRebalance'
                                        UNION ALL
                                        SELECT loads.run, node, group, NULL, NULL, seq
                                        FROM CoordinatorLoaded AS loads
                                        JOIN homes ON homes.run = loads.run
                                            AND homes.partition = loads.partition
                                        UNION ALL
                                        SELECT run, node, group, NULL, NULL, seq FROM GroupState
                                        WHERE state = 'Dead'
                                        UNION ALL
                                        SELECT run, node, group, NULL, NULL, seq
                                        FROM GroupConverted)
                                  WINDOW by_group AS (PARTITION BY run, node, group ORDER BY seq))
                                AS rounds
                            JOIN (SELECT * FROM MemberRequest WHERE api = 'JoinGroup') AS asked
                                ON asked.run = rounds.run AND asked.node = rounds.node
                                   AND asked.group = rounds.group AND asked.seq > since
                                   AND asked.seq < formed
                                   AND array_contains(member_ids, asked.member_id))
                      GROUP BY run, node, group, formed, claim.member_id)
                WHERE size(claim.owned) > 0)
          LATERAL VIEW explode(claim.owned) AS tp
          WHERE claim.generation = newest
          GROUP BY run, node, group, generation, formed, next, tp HAVING count(1) = 1) AS owners
        ON owners.run = assigned.run AND owners.node = assigned.node
           AND owners.group = assigned.group AND owners.generation = assigned.generation
           AND owners.tp = assigned.tp AND assigned.seq > formed AND assigned.seq < next
    WHERE claim.member_id != assigned.member_id
        AND (coalesce(claim.instance_id, '') = ''
             OR regexp_extract(assigned.member_id, '^(.*)-', 1) != claim.instance_id)""",
    "'early-handover'",
    "'group %s gives %s away in generation %d, and %s has not revoked it', group, tp, generation,"
    " owner",
    "array(group)",
    about(promise="promise"),
)

_ENDS = """
    SELECT dead.run, dead.group, dead.seq, dead.node,
           min_by(log.next_offset, log.seq) AS batch_end
    FROM (SELECT run, group, seq, node, topic_id, partition
          FROM GroupState JOIN homes USING (run, group) WHERE state = 'Dead') AS dead
    LEFT JOIN Appended AS log ON log.run = dead.run AND log.node = dead.node
        AND log.topic_id = dead.topic_id AND log.partition = dead.partition AND log.seq > dead.seq
    GROUP BY dead.run, dead.group, dead.seq, dead.node"""
"""The ends of groups, with the next batch that the node appended to the group's partition."""

STALE_COMMIT = offending(
    # A coordinator stores a commit of an older generation of a classic group than one before it. A
    # transaction's offsets become commits when it ends, members of consumer groups have epochs of
    # their own, and the generations of a group that was deleted begin anew: behind the next batch
    # of the node that tells so. A commit that stands before the end of it may be acknowledged when
    # the group is gone. (judging/invariants/clients.py, readers/removed_offsets.py:GroupEnds)
    f"""
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq, group,
           member_id, generation, newest.generation AS newer, newest.seq AS promise
    FROM (SELECT *, max(struct(generation, seq)) OVER (
                     PARTITION BY run, group, life, coordinator_epoch ORDER BY seq
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS newest
          FROM (SELECT *, size(filter(ends, each -> each.node != node
                                      OR coalesce(each.batch_end < next_offset, false))) AS life
                FROM (SELECT *, collect_list(ended) OVER by_group AS ends,
                             count_if(unordered) OVER by_group AS reasons
                      FROM (SELECT run, group, seq, node, member_id, generation, coordinator_epoch,
                                   next_offset, NULL AS ended, false AS unordered
                            FROM OffsetCommitted
                            UNION ALL
                            SELECT run, group, seq, NULL, NULL, NULL, NULL, NULL,
                                   struct(node, batch_end), false
                            FROM ({_ENDS})
                            UNION ALL SELECT run, group, seq, NULL, NULL, NULL, NULL, NULL, NULL,
                                             true
                            FROM TransactionOffsets
                            UNION ALL SELECT run, group, seq, NULL, NULL, NULL, NULL, NULL, NULL,
                                             true
                            FROM MemberRequest WHERE api = 'ConsumerGroupHeartbeat')
                      WINDOW by_group AS (PARTITION BY run, group ORDER BY seq)))
          WHERE generation >= 0 AND reasons = 0)
    WHERE generation < newest.generation""",
    "'stale-commit'",
    "'group %s stored a commit of %s in generation %d after one of generation %d', group,"
    " member_id, generation, newer",
    "array(group)",
    about(promise="promise"),
)

CHANGED_GENERATION = offending(
    # A generation of a classic group becomes Stable with other members than it had when all had
    # joined. A state that a coordinator has loaded is of another coordinator's generation, and that
    # of a group which has changed its protocol meanwhile is of a consumer group.
    # (judging/invariants/groups/generations.py)
    """
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq, group,
           generation, member_ids, told.member_ids AS leader_knows
    FROM (SELECT *, lag(state) OVER by_group AS before, lag(generation) OVER by_group AS of,
                 last(IF(began, struct(member_ids), NULL), true) OVER (
                     PARTITION BY run, node, group ORDER BY seq
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS told
          FROM (SELECT run, node, group, seq, state, generation, member_ids, reason,
                       state = 'CompletingRebalance'
                       AND NOT coalesce(lag(state) OVER by_group = state
                                        AND lag(generation) OVER by_group = generation, false)
                           AS began
                FROM (SELECT run, node, group, seq, state, generation, member_ids, reason
                      FROM GroupState
                      UNION ALL
                      SELECT run, node, group, seq, 'converted', NULL, NULL, NULL
                      FROM GroupConverted)
                WINDOW by_group AS (PARTITION BY run, node, group ORDER BY seq))
          WINDOW by_group AS (PARTITION BY run, node, group ORDER BY seq))
    WHERE state = 'Stable' AND before = 'CompletingRebalance' AND of = generation
          AND reason != 'loaded' AND array_sort(member_ids) != array_sort(told.member_ids)""",
    "'changed-generation'",
    "'generation %d of group %s is Stable with %s; its leader was told of %s', generation, group,"
    " array_join(member_ids, ', '), array_join(leader_knows, ', ')",
    "array(group)",
)
