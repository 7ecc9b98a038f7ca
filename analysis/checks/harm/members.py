"""Members of groups leave with a reason, and rebalances end (judging/groups.py).

A host whose clock a fault let drift is not judged: it measures sessions and timeouts itself.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import about, offending

LONG_REBALANCE = offending(
    # A phase of a classic group's rebalance ends: PreparingRebalance after the longest rebalance
    # timeout and group.initial.rebalance.delay.ms; with static members a session and a rebalance
    # timeout later, counted from when the last of them joined, or was heard if it does not join;
    # CompletingRebalance after the rebalance timeout and offsets.commit.timeout.ms. A second and
    # the coordinator's pauses come on top.
    """
    WITH long AS (
        SELECT DISTINCT run, node, group, state, begun_us, next_seq, lasted, any_static, allowed
        FROM (SELECT *, longest_us + IF(state = 'PreparingRebalance',
                            initial_delay_us + IF(any_static, longest_session_us + longest_us, 0L),
                            commit_timeout_us) AS allowed
              FROM step_members JOIN broker_limits USING (run)
              WHERE NOT consumer AND state IN ('PreparingRebalance', 'CompletingRebalance'))
        WHERE lasted > allowed + 1000000
            AND (run, node) NOT IN (SELECT run, node FROM ClockDrifted))
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition,
           next_seq AS seq, group, state, lasted, allowed + coalesce(awaited_us, 0) AS allowed
    FROM long LEFT JOIN (
        SELECT run, node, group, next_seq, max(at_us - begun_us) AS awaited_us
        FROM (SELECT long.run, long.node, long.group, next_seq, begun_us, instance_id,
                     coalesce(max(IF(api = 'JoinGroup', t_us, NULL)), max(t_us)) AS at_us
              FROM long JOIN MemberRequest AS asked ON long.run = asked.run
                  AND long.node = asked.node AND long.group = asked.group
                  AND t_us >= begun_us AND seq < next_seq
              WHERE state = 'PreparingRebalance' AND any_static AND instance_id IS NOT NULL
              GROUP BY long.run, long.node, long.group, next_seq, begun_us, instance_id)
        GROUP BY run, node, group, next_seq) USING (run, node, group, next_seq)
    WHERE lasted > allowed + coalesce(awaited_us, 0) + 1000000""",
    "'long-rebalance'",
    "'group %s was in %s for %d us; its members\\' timeouts allow %d', group, state, lasted,"
    " allowed",
    "array(group)",
    about(),
)

GONE = """
    -- Members that are gone without LeaveGroup, and whose instance id did not come back, nor their
    -- old id (NEEDLESS_REVERSAL judges that). They have not missed a join phase of a classic group
    -- that has lasted for the rebalance timeout; a member of a consumer group may be late to revoke
    -- what it has to.
    SELECT run, node, group, tenure, generation, member_id, next_seq, next_t_us, next_reason,
           consumer, rebalance_us,
           CASE WHEN NOT consumer THEN classic_session_us
                WHEN coalesce(session_us, -1) < 0 THEN consumer_session_us
                ELSE session_us END AS session_us, consumer_session_us
    FROM step_members JOIN broker_limits USING (run)
    LEFT ANTI JOIN (SELECT run AS of, node AS host, group AS name, t_us AS at_us,
                           new_member_id, member_id AS old_id FROM MemberIdReverted)
        ON run = of AND node = host AND group = name AND next_t_us = at_us
            AND member_id = new_member_id AND array_contains(next_ids, old_id)
    WHERE next_what = 'state' AND NOT array_contains(next_ids, member_id)
        AND NOT array_contains(left_ids, member_id)
        AND NOT exists(joins, each ->
            each.instance_id <=> step_members.instance_id AND each.member_id != member_id)
        AND CASE WHEN consumer THEN unrest IS NULL OR unrest < coalesce(rebalance_us, 0)
                 ELSE state != 'PreparingRebalance'
                     OR next_t_us - begun_us < begun_longest_us END"""

_AWAITED = """
    -- Of those, the members of classic groups from which the coordinator has awaited SyncGroup for
    -- the longest rebalance timeout of all, in vain, since the join phase of their generation ended
    -- (judging/harm/truth/tenures.py:AwaitedSyncs).
    SELECT waiting.run, waiting.group, waiting.member_id, next_seq
    FROM (SELECT gone.run, gone.node, gone.group, gone.generation, gone.member_id, next_seq,
                 next_t_us, formed_seq, formed_us, explode(formed_ids) AS each
          FROM (SELECT run, node, group, tenure, generation, member_id, next_seq, next_t_us
                FROM members_gone WHERE NOT consumer) AS gone
          JOIN (SELECT run, node, group, tenure, generation, seq AS formed_seq, t_us AS formed_us,
                       member_ids AS formed_ids
                FROM group_steps WHERE begins AND state = 'CompletingRebalance') AS formed
              ON gone.run = formed.run AND gone.node = formed.node AND gone.group = formed.group
              AND gone.tenure = formed.tenure AND gone.generation = formed.generation
              AND formed_seq < next_seq AND array_contains(formed_ids, gone.member_id)
          LEFT ANTI JOIN (SELECT run, node, group, member_id, generation, seq FROM MemberRequest
                          WHERE api = 'SyncGroup') AS sync
              ON gone.run = sync.run AND gone.node = sync.node AND gone.group = sync.group
              AND gone.member_id = sync.member_id AND gone.generation = sync.generation
              AND sync.seq > formed_seq AND sync.seq < next_seq) AS waiting
    JOIN (SELECT run, group, key, seq, lead(seq) OVER (PARTITION BY run, group, key ORDER BY seq)
                     AS until, rebalance_timeout_ms
          FROM members_by_id WHERE api = 'JoinGroup') AS told
        ON waiting.run = told.run AND waiting.group = told.group AND told.seq < formed_seq
        AND coalesce(until, next_seq) > formed_seq AND told.key = each
    GROUP BY waiting.run, waiting.node, waiting.group, waiting.member_id, next_seq, next_t_us,
             formed_us
    HAVING next_t_us - formed_us >= max(rebalance_timeout_ms) * 1000"""

_HEARD = """
    -- When the sessions of those members began, and when the coordinator heard them: by a heartbeat
    -- of their generation, or by any request if the group is of the consumer protocol, but by none
    -- that names an earlier epoch than the member's. A JoinGroup without an id is that of the
    -- static member which got one.
    SELECT gone.*, begins, loads, anew, former_us, api, calls, heard.seq AS heard_seq,
           heard.t_us AS heard_us
    FROM members_gone AS gone JOIN (
        SELECT run, node, group, tenure, seq, coalesce(since_us, t_us) AS t_us, member_id, consumer,
               true AS begins, consumer AND reason = 'loaded' AS loads, consumer AND anew AS anew,
               former_us, '' AS api, false AS calls
        FROM (SELECT *, explode(IF(IF(consumer, anew, fresh) OR before_ids IS NULL, member_ids,
                                array_except(member_ids, before_ids))) AS member_id
              FROM group_steps WHERE before_ids IS NULL OR reason != 'reverted')
        LEFT JOIN replacing USING (run, node, group, seq, member_id)
        UNION ALL
        SELECT run, node, group, tenure, seq, t_us, coalesce(given, member_id), consumer, false,
               NULL, NULL, NULL, api, api = 'Heartbeat' AND generation < current
        FROM (SELECT *, last(IF(what = 'state', generation, NULL), true) OVER (
                  PARTITION BY run, node, group, tenure ORDER BY seq) AS current,
                  last(IF(what = 'state' AND NOT consumer, IF(state = 'Dead', 0, generation), NULL),
                       true) OVER (PARTITION BY run, node, group ORDER BY seq) AS former
              FROM (SELECT group_rows.*, epoch, given FROM group_rows
                    LEFT JOIN epochs USING (run, seq)
                    LEFT JOIN (SELECT run, seq, member_id AS given FROM given_ids)
                        USING (run, seq)))
        WHERE what = 'request' AND NOT (consumer AND api IN ('SyncGroup', 'Heartbeat')
                                        AND generation < greatest(epoch, former, 0))
            AND IF(consumer, api IN ('JoinGroup', 'SyncGroup', 'Heartbeat')
            OR (api = 'ConsumerGroupHeartbeat' AND generation >= 0),
            api = 'Heartbeat' AND generation = current)) AS heard
        ON gone.run = heard.run AND gone.node = heard.node AND gone.group = heard.group
        AND gone.tenure = heard.tenure AND gone.member_id = heard.member_id
        AND gone.consumer = heard.consumer AND heard.seq < next_seq"""

_EPOCHS = """
    -- The last epoch that a group's coordinator had told of a member when its request came. (The
    -- members of a classic group that becomes a consumer group have its generation for theirs.)
    SELECT run, seq, epoch
    FROM (SELECT run, seq, asks, last(epoch, true) OVER (
              PARTITION BY run, group, member_id ORDER BY seq) AS epoch
          FROM (SELECT run, seq, group, member_id, false AS asks, generation AS epoch
                FROM GroupAssigned
                UNION ALL
                SELECT run, seq, group, member_id, true, NULL FROM MemberRequest
                WHERE api IN ('SyncGroup', 'Heartbeat')))
    WHERE asks AND epoch IS NOT NULL"""

_REPLACING = """
    -- Static members that take the place of another one, or get it back, within a generation: their
    -- session begins with the JoinGroup, or as the old id is back, before the group tells of it. A
    -- new id begins with the session of the old one (former_us; judging/group_members.py:
    -- GroupMember.allowed_us).
    SELECT new.run, new.node, new.group, new.seq, new.member_id, max(asked.t_us) AS since_us,
           max_by(IF(joins, former_us, NULL), asked.seq) AS former_us
    FROM (SELECT run, node, group, seq, explode(array_except(member_ids, before_ids)) AS member_id
          FROM group_steps WHERE NOT consumer AND NOT fresh) AS new
    JOIN (SELECT run, node, group, instance_id, seq, t_us, true AS joins FROM MemberRequest
          WHERE api = 'JoinGroup' AND instance_id IS NOT NULL
          UNION ALL
          SELECT run, node, group, instance_id, seq, t_us, false FROM MemberIdReverted) AS asked
        ON new.run = asked.run AND new.node = asked.node AND new.group = asked.group
        AND regexp_replace(new.member_id, '-[^-]*$', '') = instance_id AND asked.seq < new.seq
    LEFT JOIN formers ON new.run = formers.run AND new.node = formers.node
        AND new.group = formers.group AND new.seq = formers.seq AND instance_id = formers.static
    GROUP BY new.run, new.node, new.group, new.seq, new.member_id"""

_FORMERS = """
    -- The sessions of static members that are gone within a generation.
    SELECT gone.run, gone.node, gone.group, gone.seq, static,
           max_by(session_timeout_ms, told.seq) * 1000 AS former_us
    FROM (SELECT run, node, group, seq, explode(array_except(before_ids, member_ids)) AS member_id
          FROM group_steps WHERE NOT consumer AND NOT fresh) AS gone
    JOIN group_statics AS statics ON gone.run = statics.run AND gone.group = statics.group
        AND gone.member_id = statics.member_id
    JOIN (SELECT run, group, key, seq, session_timeout_ms FROM members_by_id
          WHERE api = 'JoinGroup') AS told
        ON gone.run = told.run AND gone.group = told.group AND told.key = gone.member_id
        AND told.seq < gone.seq
    GROUP BY gone.run, gone.node, gone.group, gone.seq, static"""

_UNANSWERED = """
    -- Of these, the JoinGroups and SyncGroups of classic members of consumer groups that were not
    -- answered before the member was gone: what the partition held then, or its open batch did, was
    -- not committed within offsets.commit.timeout.ms (harm/truth/consumer_groups/syncs.py). The
    -- next append is that of the open batch if it comes within group.coordinator.append.linger.ms.
    SELECT late.run, late.node, late.group, late.tenure, late.member_id, late.next_seq,
           late.heard_seq
    FROM (SELECT asked.*, IF(batch_us - heard_us <= append_linger_us + coalesce(paused_us, 0),
                             batch_end, known_end) AS end, heard_us + commit_timeout_us AS until_us
          FROM (SELECT logs.*, sum(duration_us) AS paused_us
                FROM (SELECT heard.run, heard.node, heard.group, tenure, member_id, next_seq,
                             heard_seq, heard_us, homes.topic_id, homes.partition,
                             max_by(end, IF(log.seq < heard_seq, log.seq, NULL)) AS known_end,
                             min_by(end, IF(log.seq > heard_seq, log.seq, NULL)) AS batch_end,
                             min(IF(log.seq > heard_seq, log.seq, NULL)) AS batch_seq,
                             min(IF(log.seq > heard_seq, log.t_us, NULL)) AS batch_us
                      FROM heard JOIN homes ON heard.run = homes.run AND heard.group = homes.group
                      JOIN (SELECT run, node, topic_id, partition, seq, t_us, next_offset AS end
                            FROM Appended
                            UNION ALL
                            SELECT run, node, topic_id, partition, seq, t_us, start_offset
                            FROM BecameLeader) AS log
                          ON heard.run = log.run AND heard.node = log.node
                          AND homes.topic_id = log.topic_id AND homes.partition = log.partition
                          AND log.seq < next_seq
                      WHERE consumer AND api IN ('JoinGroup', 'SyncGroup')
                      GROUP BY heard.run, heard.node, heard.group, tenure, member_id, next_seq,
                               heard_seq, heard_us, homes.topic_id, homes.partition) AS logs
                LEFT JOIN standstills AS pauses ON logs.run = pauses.run
                    AND logs.node = pauses.node AND pauses.seq > heard_seq
                    AND pauses.seq < batch_seq
                GROUP BY ALL) AS asked
          JOIN broker_limits ON asked.run = broker_limits.run) AS late
    LEFT ANTI JOIN (SELECT *, lead(seq) OVER (PARTITION BY run, node, topic_id, partition
                                              ORDER BY seq) AS until
                    FROM (SELECT run, node, topic_id, partition, seq, t_us, high_watermark
                          FROM HighWatermark
                          UNION ALL
                          SELECT run, node, topic_id, partition, seq, t_us, high_watermark
                          FROM BecameLeader)) AS passed
        ON late.run = passed.run AND late.node = passed.node AND late.topic_id = passed.topic_id
        AND late.partition = passed.partition AND passed.seq < late.next_seq
        AND coalesce(until, late.next_seq) > late.heard_seq AND passed.t_us < until_us
        AND passed.high_watermark >= late.end
    WHERE late.end IS NOT NULL"""

_SESSIONS = """
    -- The same since the session began last, with when it began anew (at_us), and how long it is
    -- until the next request. With a JoinGroup or SyncGroup of a classic member it begins anew when
    -- that is answered, as the member's next SyncGroup shows. A load begins a session of the
    -- brokers, which lasts until the member is heard (judging/consumer_groups.py). joined_us tells
    -- of the JoinGroup since which SyncGroup is awaited, which may come before all these rows: the
    -- last one that was answered, or the first one since a SyncGroup was. called_us is its first
    -- Heartbeat since its last SyncGroup that was told that the group has another epoch.
    SELECT *, IF(coalesce(loaded AND max(at_us) OVER earlier IS NULL, false), consumer_session_us,
                 session_us) AS allowed_us
    FROM (
        SELECT *, lag(heard_us) OVER life AS before_us, first(loads) OVER life AS loaded,
               min(IF(calls AND heard_seq > synced, heard_us, NULL)) OVER (
                   PARTITION BY run, node, group, tenure, member_id, next_seq) AS called_us,
               CASE WHEN begins THEN NULL
                    WHEN api NOT IN ('JoinGroup', 'SyncGroup') THEN heard_us
                    WHEN api = 'SyncGroup' AND lag(api) OVER life IN ('JoinGroup', 'SyncGroup')
                    THEN lag(heard_us) OVER life END AS at_us
        FROM (SELECT *, min(IF(api = 'JoinGroup' AND heard_seq > ended_seq
                               AND heard_seq >= answered_seq, heard_us, NULL))
                            OVER gone AS joined_us
              FROM (SELECT heard.*, max(IF(begins, heard_seq, NULL)) OVER gone AS life,
                           max(IF(api = 'SyncGroup', heard_seq, -1)) OVER gone AS synced,
                           max(IF((api = 'SyncGroup' AND waits IS NULL) OR anew, heard_seq, -1))
                               OVER gone AS ended_seq,
                           max(IF(api = 'JoinGroup' AND waits IS NULL, heard_seq, -1))
                               OVER gone AS answered_seq
                    FROM heard LEFT JOIN (SELECT *, true AS waits FROM unanswered)
                        USING (run, node, group, tenure, member_id, next_seq, heard_seq)
                    WINDOW gone AS (PARTITION BY run, node, group, tenure, member_id, next_seq))
              WINDOW gone AS (PARTITION BY run, node, group, tenure, member_id, next_seq))
        WHERE heard_seq >= life
        WINDOW life AS (PARTITION BY run, node, group, tenure, member_id, next_seq
                        ORDER BY heard_seq))
    WINDOW earlier AS (PARTITION BY run, node, group, tenure, member_id, next_seq
                       ORDER BY heard_seq ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"""

_REMOVED = """
    -- Members of consumer groups that are gone, each with the earlier times at which it was gone
    -- without having left. end is the offset after the batch of that removal: it was appended at
    -- once, or is the next one (group.coordinator.append.linger.ms). NULL: it was not appended.
    SELECT pairs.run, pairs.node, pairs.topic_id, pairs.partition, pairs.group, member_id, next_seq,
           next_t_us, at_seq, at_us, coalesce(max(IF(batch.seq < at_seq, next_offset, NULL)),
               min(IF(batch.seq > at_seq, next_offset, NULL))) AS end
    FROM (SELECT gone.run, gone.node, topic_id, partition, gone.group, gone.member_id, next_seq,
                 next_t_us, before.seq AS at_seq, before.t_us AS at_us
          FROM members_gone AS gone
          JOIN (SELECT run, node, group, seq, t_us,
                       explode(array_except(before_ids, member_ids)) AS member_id
                FROM (SELECT *, lag(member_ids) OVER (
                          PARTITION BY run, node, group ORDER BY seq) AS before_ids
                      FROM GroupState)
                WHERE reason NOT IN ('loaded', 'reverted')) AS before
              ON gone.run = before.run AND gone.node = before.node AND gone.group = before.group
              AND gone.member_id = before.member_id AND before.seq < next_seq
          JOIN homes ON gone.run = homes.run AND gone.group = homes.group
          LEFT ANTI JOIN MemberRequest AS leave ON gone.run = leave.run AND gone.node = leave.node
              AND gone.group = leave.group AND gone.member_id = leave.member_id
              AND before.t_us = leave.t_us AND (leave.api = 'LeaveGroup'
                  OR (leave.api = 'ConsumerGroupHeartbeat' AND leave.generation = -1))
          LEFT ANTI JOIN HostStopped AS stop ON gone.run = stop.run AND gone.node = stop.node
              AND stop.seq > before.seq AND stop.seq < next_seq
          WHERE consumer) AS pairs
    LEFT JOIN Appended AS batch ON pairs.run = batch.run AND pairs.node = batch.node
        AND pairs.topic_id = batch.topic_id AND pairs.partition = batch.partition
        AND (batch.seq > at_seq OR batch.t_us = at_us)
    GROUP BY pairs.run, pairs.node, pairs.topic_id, pairs.partition, pairs.group, member_id,
             next_seq, next_t_us, at_seq, at_us"""

_REPEATED = """
    -- Of these, what a timer of the coordinator repeats: the earlier removal was not committed
    -- within offsets.commit.timeout.ms, and it runs half a second later
    -- (harm/truth/consumer_groups/removals.py).
    SELECT late.run, group, member_id, next_seq
    FROM (SELECT removed.*, at_us + commit_timeout_us AS timed_out_us
          FROM removed JOIN broker_limits ON removed.run = broker_limits.run) AS late
    LEFT ANTI JOIN HighWatermark AS passed ON late.run = passed.run AND late.node = passed.node
        AND late.topic_id = passed.topic_id AND late.partition = passed.partition
        AND passed.seq > at_seq AND passed.t_us < timed_out_us AND passed.high_watermark >= end
    LEFT JOIN standstills AS pauses ON late.run = pauses.run AND late.node = pauses.node
        AND pauses.seq > at_seq AND pauses.seq < next_seq
    GROUP BY late.run, group, member_id, next_seq, next_t_us, at_seq, timed_out_us
    HAVING next_t_us - timed_out_us BETWEEN 500000
        AND 1500000 + coalesce(sum(pauses.duration_us), 0)"""

_RETURNED = """
    -- Static members that came back to a Stable group and had to give way to their old id, each
    -- with the returns of the instance before. end is the offset after the batch with its record.
    SELECT back.run, back.node, back.seq, back.t_us, error, offsets_id, home, at_seq, at_us,
           min_by(next_offset, batch.seq) AS end
    FROM (SELECT back.run, back.node, back.seq, back.t_us, back.error,
                 homes.topic_id AS offsets_id, homes.partition AS home, joins.seq AS at_seq,
                 joins.t_us AS at_us
          FROM (SELECT run, node, group, seq, t_us, instance_id, error FROM MemberIdReverted)
              AS back
          JOIN homes ON back.run = homes.run AND back.group = homes.group
          JOIN (SELECT run, node, group, instance_id, seq, t_us
                FROM (SELECT *, last(state, true) OVER (
                          PARTITION BY run, node, group, tenure ORDER BY seq) AS phase
                      FROM group_rows)
                WHERE api = 'JoinGroup' AND member_id = '' AND phase = 'Stable') AS joins
              ON back.run = joins.run AND back.node = joins.node AND back.group = joins.group
              AND back.instance_id = joins.instance_id AND joins.seq < back.seq) AS back
    LEFT JOIN Appended AS batch ON back.run = batch.run AND back.node = batch.node
        AND offsets_id = batch.topic_id AND home = batch.partition
        AND batch.seq > at_seq AND batch.seq < back.seq
    GROUP BY back.run, back.node, back.seq, back.t_us, error, offsets_id, home, at_seq, at_us"""

_EXPLAINED = """
    -- Of these, the ones whose record could not be appended, or was not committed within
    -- offsets.commit.timeout.ms and is given up then (harm/truth/reverts.py).
    SELECT run, seq FROM returned WHERE error != 'REQUEST_TIMED_OUT' AND end IS NULL
    UNION ALL
    SELECT late.run, late.seq
    FROM (SELECT returned.*, at_us + commit_timeout_us AS timed_out_us
          FROM returned JOIN broker_limits ON returned.run = broker_limits.run
          WHERE returned.error = 'REQUEST_TIMED_OUT') AS late
    LEFT ANTI JOIN HighWatermark AS passed ON late.run = passed.run AND late.node = passed.node
        AND late.offsets_id = passed.topic_id AND late.home = passed.partition
        AND passed.seq > at_seq AND passed.t_us < timed_out_us AND passed.high_watermark >= late.end
    LEFT JOIN standstills AS pauses ON late.run = pauses.run AND late.node = pauses.node
        AND pauses.seq > at_seq AND pauses.seq < late.seq
    GROUP BY late.run, late.seq, late.t_us, at_seq, timed_out_us
    HAVING late.t_us - timed_out_us BETWEEN 0 AND 1000000 + coalesce(sum(pauses.duration_us), 0)"""

NEEDLESS_EVICTION = offending(
    # A member is gone because it sent LeaveGroup, its instance id came back, it missed a whole
    # join phase, it sent no SyncGroup in time, or it was silent for its session. A classic member
    # of a consumer group is gone, too, if its JoinGroup is not answered, or no SyncGroup follows,
    # within its rebalance timeout; that JoinGroup may be the one that brought it in, and Heartbeats
    # may follow. Without an answer the time counts from the Heartbeat that called it. What comes
    # after the session counts no more, nor what comes later. A removal that was not committed in
    # time is repeated.
    f"""
    WITH formers AS ({_FORMERS}), replacing AS ({_REPLACING}), epochs AS ({_EPOCHS}),
    heard AS ({_HEARD}), unanswered AS ({_UNANSWERED}), sessions AS ({_SESSIONS}),
    removed AS ({_REMOVED}), repeated AS ({_REPEATED}), awaited AS ({_AWAITED})
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition,
           next_seq AS seq, group, member_id, min(next_t_us) - max(since_us) AS silent,
           any_value(next_reason) AS reason
    FROM (SELECT *, IF(begins, heard_us, at_us) AS since_us,
                 max(coalesce(heard_us - before_us >= allowed_us, false)) OVER (
                     PARTITION BY run, node, group, tenure, member_id, next_seq
                     ORDER BY heard_seq) AS ended
          FROM sessions)
    LEFT ANTI JOIN repeated USING (run, group, member_id, next_seq)
    LEFT ANTI JOIN awaited USING (run, group, member_id, next_seq)
    WHERE NOT ended AND (run, node) NOT IN (SELECT run, node FROM ClockDrifted)
    GROUP BY run, node, group, tenure, member_id, next_seq
    HAVING min(next_t_us) - max(since_us)
        < IF(coalesce(any_value(loaded), false) AND max(at_us) IS NULL,
             any_value(consumer_session_us),
             least(any_value(session_us), IF(max(at_us) IS NULL, max(former_us), NULL)))
       AND NOT coalesce(any_value(consumer)
           AND any_value(joined_us) IS NOT NULL
           AND min(next_t_us) - least(max(since_us), any_value(joined_us), any_value(called_us))
               >= any_value(rebalance_us), false)""",
    "'needless-eviction'",
    "'%s is no member of group %s any more, %d us after the coordinator heard it (%s)', member_id,"
    " group, silent, reason",
    "array(group)",
    about(),
)

NEEDLESS_REVERSAL = offending(
    # A static member's new id gives way to the old one only if its record was not committed in
    # time.
    f"""
    WITH returned AS ({_RETURNED}), explained AS ({_EXPLAINED})
    SELECT back.run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, back.seq,
           group, new_member_id, member_id, error
    FROM MemberIdReverted AS back
    LEFT ANTI JOIN explained ON back.run = explained.run AND back.seq = explained.seq
    WHERE (back.run, node) NOT IN (SELECT run, node FROM ClockDrifted)""",
    "'needless-eviction'",
    "'%s of group %s gives way to %s, though its record could be committed (%s)', new_member_id,"
    " group, member_id, error",
    "array(group)",
    about(),
)

VIEWS = {"members_gone": GONE}
"""Views for these checks, by name."""
