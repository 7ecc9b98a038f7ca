"""Groups as their coordinators have them, step by step: the views of the checks of groups.

A *tenure* is a group in the hands of one coordinator, from loading to resignation. A *step* is a
state of the group there (``GroupState``) and lasts to the next one, or to the end of the run.
"""

from __future__ import annotations

GROUP_ROWS = """
    -- What a coordinator did with a group and heard of it, with its tenure and step. The group is
    -- of the consumer protocol (KIP-848) from a heartbeat of it or a conversion on, and a JoinGroup
    -- makes an empty one classic. Each coordinator has it its own way: a deposed one may have
    -- converted it for itself alone. If an upgrade could not be appended, the tenure before it
    -- goes on (what: resumed), and what was between them is a tenure by itself.
    WITH places AS (SELECT DISTINCT run, node, group FROM GroupState),
    told AS (
        SELECT run, node, group, seq, t_us, 'state' AS what, generation, state, member_ids, reason,
               group_leader, CAST(NULL AS STRING) AS api, CAST(NULL AS STRING) AS member_id,
               CAST(NULL AS STRING) AS instance_id, CAST(NULL AS BIGINT) AS rebalance_us,
               IF(reason = 'loaded' AND size(member_ids) > 0, group_leader = '', NULL) AS turns,
               0L AS paused_us
        FROM GroupState
        UNION ALL
        SELECT run, node, group, seq, t_us, 'request', generation, NULL, NULL, NULL, NULL, api,
               member_id, instance_id, rebalance_timeout_ms * 1000, NULL, 0L
        FROM MemberRequest
        UNION ALL
        SELECT run, node, group, seq, t_us, what, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,
               NULL, turns, paused_us
        FROM (
            SELECT run, node, group, seq, t_us, CASE WHEN taken_back THEN 'resumed'
                       WHEN turns AND coalesce(next_taken_back, false) THEN 'tried'
                       ELSE 'gone' END AS what, turns, 0L AS paused_us
            FROM (SELECT *, lead(taken_back) OVER (PARTITION BY run, node, group ORDER BY seq)
                             AS next_taken_back
                  FROM (SELECT *, protocol = 'consumer' AS turns,
                               protocol = 'classic' AND reason = 'reverted' AS taken_back
                        FROM GroupConverted))
            UNION ALL
            SELECT run, node, group, loads.seq, loads.t_us, 'gone', NULL, 0L
            FROM places JOIN homes USING (run, group)
            JOIN (SELECT run, node, partition, seq, t_us FROM CoordinatorLoaded WHERE NOT loaded)
                AS loads USING (run, node, partition)
            UNION ALL
            SELECT run, node, group, hosts.seq, hosts.t_us, what, NULL, paused_us
            FROM places
            JOIN (SELECT run, node, seq, t_us, 'gone' AS what, 0L AS paused_us FROM HostStopped
                  UNION ALL
                  SELECT run, node, seq, t_us, 'pause', duration_us FROM standstills) AS hosts
                USING (run, node)
            UNION ALL
            SELECT run, places.node, group, phases.seq, phases.t_us, 'end', NULL, 0L
            FROM places JOIN Phase AS phases USING (run) WHERE phase = 'end'))
    SELECT *, coalesce(last(CASE WHEN turns IS NOT NULL THEN turns
                                 WHEN coalesce(members, 0) > 0 THEN NULL
                                 WHEN api = 'JoinGroup' THEN false
                                 WHEN api = 'ConsumerGroupHeartbeat' THEN true END,
                            true) OVER (PARTITION BY run, node, group ORDER BY seq), false)
               AS consumer
    FROM (SELECT *, sum(IF(what IN ('state', 'end'), 1, 0)) OVER tenure AS step,
                 last(size(member_ids), true) OVER tenure AS members,
                 sum(paused_us) OVER tenure AS paused
          FROM (SELECT * EXCEPT (member_ids), IF(what = 'state', member_ids, NULL) AS member_ids,
                       IF(tried, -tries, gones) AS tenure
                FROM (SELECT *, sum(IF(what = 'gone', 1, 0)) OVER earlier AS gones,
                             sum(IF(what = 'tried', 1, 0)) OVER earlier AS tries,
                             coalesce(last(CASE WHEN what = 'tried' THEN true
                                                WHEN what IN ('gone', 'resumed') THEN false END,
                                           true) OVER earlier, false) AS tried
                      FROM told
                      WINDOW earlier AS (PARTITION BY run, node, group ORDER BY seq)))
          WINDOW tenure AS (PARTITION BY run, node, group, tenure ORDER BY seq))"""

STEP_ROWS = """
    -- The steps, and the ends of runs, with what the coordinator was asked for in each step.
    SELECT run, node, group, tenure, step, min(seq) AS seq, min(t_us) AS t_us,
           min_by(what, seq) AS what, min_by(consumer, seq) AS consumer,
           min_by(generation, seq) AS generation, min_by(paused, seq) AS paused,
           any_value(state, true) AS state, any_value(member_ids, true) AS member_ids,
           any_value(reason, true) AS reason, any_value(group_leader, true) AS group_leader,
           collect_set(IF(api = 'LeaveGroup'
                          OR (api = 'ConsumerGroupHeartbeat' AND generation = -1),
                          member_id, NULL)) AS left_ids,
           collect_set(IF(instance_id IS NOT NULL AND (api = 'JoinGroup'
                          OR (api = 'ConsumerGroupHeartbeat' AND generation = 0)),
                          struct(member_id, instance_id), NULL)) AS joins,
           collect_set(IF(api = 'SyncGroup', generation, NULL)) AS synced,
           max_by(struct(seq, t_us, api, member_id), IF(what = 'request', seq, NULL)) AS latest,
           max(IF(api = 'JoinGroup', rebalance_us, NULL)) AS joined_us,
           bool_or(what = 'resumed') AS resumes
    FROM group_rows WHERE step > 0 AND what IN ('state', 'end', 'request', 'resumed')
    GROUP BY run, node, group, tenure, step"""

GROUP_STEPS = """
    -- The steps, each with the one before and the one after; next_what is state or end, and NULL
    -- where the tenure ends before. begun_us is when the phase of the rebalance began, unrest_us
    -- since when a consumer group has had members that are not at their target. A step is fresh
    -- where sessions begin anew: with a generation, or as the group is loaded. What a step goes
    -- over to is judged, unless the coordinator loaded it or took back what it had not stored:
    -- then it goes on as if that had never been: the epoch_from that it came to then is resumed.
    -- resumed: an upgrade of this generation could not be appended (judging/groups.py:Groups).
    -- has_synced: a SyncGroup of this generation has come, in this step or one before.
    SELECT *, next_t_us - begun_us - (next_paused - begun_paused) AS lasted,
           coalesce(next_reason, '') NOT IN ('loaded', 'reverted') AS judged,
           max(array_contains(synced, generation)) OVER (
               PARTITION BY run, node, group, tenure, generation ORDER BY seq) AS has_synced,
           min(IF(settled, NULL, t_us)) OVER stretch AS unrest_us
    FROM (
        SELECT *, last(IF(begins, t_us, NULL), true) OVER tenure AS begun_us,
               last(IF(begins, paused, NULL), true) OVER tenure AS begun_paused,
               last(IF(fresh, reason = 'loaded', NULL), true) OVER tenure AS loaded,
               last(IF(fresh OR had, struct(t_us, had AS resumed), NULL), true) OVER tenure
                   AS epoch_from,
               last(latest, true) OVER tenure AS asked,
               coalesce(last(IF(fresh OR resumes, resumes, NULL), true) OVER tenure, false)
                   AS resumed,
               sum(IF(settled OR anew, 1, 0)) OVER tenure AS stretch
        FROM (
            SELECT *, fresh OR state != before_state AS begins,
                   state IN ('Stable', 'Empty')
                       AND coalesce(next_reason, '') != 'reverted' AS settled,
                   before_state IS NULL OR reason = 'loaded' AS anew,
                   reason IN ('loaded', 'reverted') AS had
            FROM (
                SELECT *, lag(state) OVER tenure AS before_state,
                       lag(member_ids) OVER tenure AS before_ids,
                       lag(seq) OVER tenure IS NULL OR reason = 'loaded'
                           OR generation > lag(generation) OVER tenure AS fresh,
                       lead(what) OVER tenure AS next_what, lead(seq) OVER tenure AS next_seq,
                       lead(t_us) OVER tenure AS next_t_us, lead(state) OVER tenure AS next_state,
                       lead(generation) OVER tenure AS next_generation,
                       lead(member_ids) OVER tenure AS next_ids,
                       lead(reason) OVER tenure AS next_reason,
                       lead(paused) OVER tenure AS next_paused
                FROM step_rows
                WINDOW tenure AS (PARTITION BY run, node, group, tenure ORDER BY seq)))
        WHERE what = 'state'
        WINDOW tenure AS (PARTITION BY run, node, group, tenure ORDER BY seq))
    WINDOW stretch AS (PARTITION BY run, node, group, tenure, stretch ORDER BY seq)"""

MEMBERS_TOLD = """
    -- What members told of themselves. A static member joins without an id.
    SELECT * FROM MemberRequest
    WHERE api = 'JoinGroup' OR (api = 'ConsumerGroupHeartbeat' AND generation >= 0)"""

MEMBERS_BY_ID = """
    -- The same by member id (key). The JoinGroup of a static member without an id is that of the
    -- new ids that are seen until the next such JoinGroup with its group.instance.id
    -- (judging/group_members.py:GroupMembers).
    SELECT told.*, coalesce(sights.member_id, told.member_id) AS key
    FROM (SELECT *, coalesce(min(IF(member_id = '', seq, NULL)) OVER (
                        PARTITION BY run, group, instance_id ORDER BY seq
                        ROWS BETWEEN 1 FOLLOWING AND UNBOUNDED FOLLOWING), 1L << 62) AS next_seq
          FROM members_told) AS told
    LEFT JOIN (SELECT run, group, static, member_id, min(seq) AS seen_seq
               FROM (SELECT run, group, seq, explode(member_ids) AS member_id FROM GroupState
                     UNION ALL
                     SELECT run, group, seq, member_id FROM MemberRequest
                     UNION ALL
                     SELECT run, group, seq, member_id FROM MemberIdReverted)
               JOIN group_statics USING (run, group, member_id)
               GROUP BY run, group, static, member_id) AS sights
        ON told.run = sights.run AND told.group = sights.group AND told.member_id = ''
        AND instance_id = static AND seen_seq > seq AND seen_seq < next_seq"""

GIVEN_IDS = """
    -- The JoinGroups of static members without an id, with the random id that the coordinator of a
    -- consumer group gives: the only new one of the state that it tells next, at the same instant
    -- (judging/harm/truth/given_ids.py). The state in which an old id is back is no such answer.
    SELECT run, node, group, asked.seq, get(new_ids, 0) AS member_id, asked.instance_id
    FROM (SELECT run, node, group, what, t_us, reason, asked,
                 array_except(member_ids, coalesce(before_ids, array())) AS new_ids
          FROM (SELECT *, lag(struct(seq, t_us, api, member_id, instance_id)) OVER told AS asked,
                       last(IF(what = 'state', member_ids, NULL), true) OVER (
                           PARTITION BY run, node, group ORDER BY seq
                           ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS before_ids
                FROM group_rows WHERE what IN ('state', 'request')
                WINDOW told AS (PARTITION BY run, node, group ORDER BY seq)))
    LEFT ANTI JOIN MemberIdReverted USING (run, node, group, t_us)
    WHERE what = 'state' AND reason != 'loaded' AND size(new_ids) = 1 AND asked.t_us = t_us
        AND asked.api = 'JoinGroup' AND asked.member_id = '' AND asked.instance_id IS NOT NULL
        AND NOT startswith(get(new_ids, 0), concat(asked.instance_id, '-'))"""

GROUP_STATICS = """
    -- The static members of classic groups. The id that a coordinator gives one begins with its
    -- group.instance.id; one that joins a consumer group gets a random id. A dynamic member's id
    -- begins with its client.id, which may be the same: it has joined under its id and named none.
    SELECT run, group, member_id, any_value(instance_id) AS static
    FROM (SELECT run, group, member_id, instance_id FROM MemberRequest
          WHERE instance_id IS NOT NULL AND member_id != '' AND api != 'ConsumerGroupHeartbeat'
          UNION ALL
          SELECT run, group, member_id, instance_id FROM given_ids
          UNION ALL
          SELECT run, group, member_id, prefix
          FROM (SELECT DISTINCT run, group, member_id,
                       regexp_replace(member_id, '-?[^-]*$', '') AS prefix
                FROM (SELECT run, group, member_id FROM MemberRequest
                      UNION ALL
                      SELECT run, group, explode(member_ids) FROM GroupState))
          LEFT SEMI JOIN (SELECT run, group, instance_id AS prefix FROM MemberRequest
                          WHERE api = 'JoinGroup' AND instance_id IS NOT NULL)
              USING (run, group, prefix)
          LEFT ANTI JOIN (SELECT run, group, member_id FROM MemberRequest
                          WHERE api = 'JoinGroup' AND member_id != '' AND instance_id IS NULL)
              USING (run, group, member_id))
    GROUP BY run, group, member_id"""

STEP_MEMBERS = """
    -- The members of steps that lasted for more than a second in a rebalance, or after which some
    -- member is gone, with what they had told when the step began. longest_us is how long the step
    -- may wait for members: the longest rebalance timeout of its members and of whoever joined
    -- then. A timer is set for begun_longest_us, which later ones do not change (DelayedJoin).
    WITH asked AS (
        SELECT *, explode(member_ids) AS member_id FROM group_steps
        WHERE judged AND (next_what = 'state' AND size(array_except(member_ids, next_ids)) > 0
            OR state IN ('PreparingRebalance', 'CompletingRebalance')
                AND NOT consumer AND NOT resumed AND lasted > 1000000))
    SELECT * EXCEPT (own), greatest(coalesce(max(rebalance_us) OVER step, 0),
                                    coalesce(own.joined_us, 0)) AS longest_us,
           coalesce(max(rebalance_us) OVER step, 0) AS begun_longest_us,
           max(instance_id IS NOT NULL) OVER step AS any_static,
           max(classic_session_us) OVER step AS longest_session_us, own.*
    FROM (
        SELECT run, group, own,
               last(instance_id, true) OVER told AS instance_id,
               coalesce(last(own_session_us, true) OVER told, 300000000) AS classic_session_us,
               last(session_us, true) OVER told AS session_us,
               last(rebalance_us, true) OVER told AS rebalance_us
        FROM (
            SELECT run, group, member_id AS key, seq, CAST(NULL AS STRING) AS instance_id,
                   CAST(NULL AS BIGINT) AS own_session_us, CAST(NULL AS BIGINT) AS session_us,
                   CAST(NULL AS BIGINT) AS rebalance_us,
                   struct(node, tenure, step, member_id, seq, t_us, state, generation, consumer,
                          next_what, next_seq, next_t_us, next_ids, next_reason, left_ids, joins,
                          joined_us, begun_us, lasted,
                          next_t_us - unrest_us AS unrest) AS own
            FROM asked
            UNION ALL
            SELECT run, group, key, seq, instance_id,
                   IF(api = 'JoinGroup', session_timeout_ms * 1000, NULL),
                   IF(api = 'JoinGroup', nullif(session_timeout_ms, 0) * 1000, -1),
                   IF(api = 'JoinGroup', rebalance_timeout_ms, nullif(rebalance_timeout_ms, 0))
                   * 1000, NULL
            FROM members_by_id)
        WINDOW told AS (PARTITION BY run, group, key ORDER BY seq))
    WHERE own IS NOT NULL
    WINDOW step AS (PARTITION BY run, group, own.node, own.tenure, own.step)"""

VIEWS = {
    "group_rows": GROUP_ROWS,
    "step_rows": STEP_ROWS,
    "group_steps": GROUP_STEPS,
    "given_ids": GIVEN_IDS,
    "group_statics": GROUP_STATICS,
    "members_told": MEMBERS_TOLD,
    "members_by_id": MEMBERS_BY_ID,
    "step_members": STEP_MEMBERS,
}
"""Views for the checks of groups, by name, each after those it reads itself."""
