"""Members of groups leave with a reason, and rebalances end (judging/groups.py).

A host whose clock a fault let drift is not judged: it measures sessions and timeouts itself.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import about, offending

LONG_REBALANCE = offending(
    # A phase of a classic group's rebalance ends: PreparingRebalance after the longest rebalance
    # timeout and group.initial.rebalance.delay.ms, with static members a session and a rebalance
    # timeout later; CompletingRebalance after the rebalance timeout and offsets.commit.timeout.ms.
    # A second and the coordinator's pauses come on top.
    """
    SELECT DISTINCT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition,
           next_seq AS seq, group, state, lasted, allowed
    FROM (SELECT *, longest_us + IF(state = 'PreparingRebalance',
                        initial_delay_us + IF(any_static, longest_session_us + longest_us, 0L),
                        commit_timeout_us) AS allowed
          FROM step_members JOIN broker_limits USING (run)
          WHERE NOT consumer AND state IN ('PreparingRebalance', 'CompletingRebalance'))
    WHERE lasted > allowed + 1000000
        AND (run, node) NOT IN (SELECT run, node FROM ClockDrifted)""",
    "'long-rebalance'",
    "'group %s was in %s for %d us; its members\\' timeouts allow %d', group, state, lasted,"
    " allowed",
    "array(group)",
    about(),
)

GONE = """
    -- Members that are gone without LeaveGroup, and whose instance id did not come back. They have
    -- missed a phase of a classic rebalance that has lasted for the rebalance timeout; a member of
    -- a consumer group may be late to revoke what it has to.
    SELECT run, node, group, tenure, member_id, next_seq, next_t_us, next_reason, consumer,
           CASE WHEN NOT consumer THEN classic_session_us
                WHEN coalesce(session_us, -1) < 0 THEN consumer_session_us
                ELSE session_us END AS session_us
    FROM step_members JOIN broker_limits USING (run)
    WHERE next_what = 'state' AND NOT array_contains(next_ids, member_id)
        AND NOT array_contains(left_ids, member_id)
        AND NOT exists(joins, each ->
            each.instance_id = step_members.instance_id AND each.member_id != member_id)
        AND CASE WHEN consumer THEN unrest IS NULL OR unrest < coalesce(rebalance_us, 0)
                 ELSE state NOT IN ('PreparingRebalance', 'CompletingRebalance')
                     OR next_t_us - begun_us < longest_us END"""

_HEARD = """
    -- When the sessions of those members began, and when the coordinator heard them: by a heartbeat
    -- of their generation, or by any request if the group is of the consumer protocol.
    SELECT gone.*, begins, heard.seq AS heard_seq, heard.t_us AS heard_us
    FROM members_gone AS gone JOIN (
        SELECT run, node, group, tenure, seq, t_us, member_id, consumer, true AS begins
        FROM (SELECT *, explode(IF(IF(consumer, anew, fresh) OR before_ids IS NULL, member_ids,
                                array_except(member_ids, before_ids))) AS member_id
              FROM group_steps)
        UNION ALL
        SELECT run, node, group, tenure, seq, t_us, member_id, consumer, false
        FROM (SELECT *, last(IF(what = 'state', generation, NULL), true) OVER (
                  PARTITION BY run, node, group, tenure ORDER BY seq) AS current
              FROM group_rows)
        WHERE what = 'request' AND IF(consumer, api IN ('JoinGroup', 'SyncGroup', 'Heartbeat')
            OR (api = 'ConsumerGroupHeartbeat' AND generation >= 0),
            api = 'Heartbeat' AND generation = current)) AS heard
        ON gone.run = heard.run AND gone.node = heard.node AND gone.group = heard.group
        AND gone.tenure = heard.tenure AND gone.member_id = heard.member_id
        AND gone.consumer = heard.consumer AND heard.seq < next_seq"""

NEEDLESS_EVICTION = offending(
    # A member is gone because it sent LeaveGroup, its instance id came back, it missed a whole
    # phase, or it was silent for its session. A heartbeat that comes after the session counts no
    # more, nor do those behind it.
    f"""
    WITH heard AS ({_HEARD})
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition,
           next_seq AS seq, group, member_id, min(next_t_us) - max(heard_us) AS silent,
           any_value(next_reason) AS reason
    FROM (SELECT *, max(coalesce(late, false)) OVER life AS ended
          FROM (SELECT *, heard_us - lag(heard_us) OVER life >= session_us AS late
                FROM (SELECT *, max(IF(begins, heard_seq, NULL)) OVER (
                          PARTITION BY run, node, group, tenure, member_id, next_seq) AS life
                      FROM heard)
                WHERE heard_seq >= life
                WINDOW life AS (PARTITION BY run, node, group, tenure, member_id, next_seq
                                ORDER BY heard_seq))
          WINDOW life AS (PARTITION BY run, node, group, tenure, member_id, next_seq
                          ORDER BY heard_seq))
    WHERE NOT ended AND (run, node) NOT IN (SELECT run, node FROM ClockDrifted)
    GROUP BY run, node, group, tenure, member_id, next_seq
    HAVING min(next_t_us) - max(heard_us) < any_value(session_us)""",
    "'needless-eviction'",
    "'%s is no member of group %s any more, %d us after the coordinator heard it (%s)', member_id,"
    " group, silent, reason",
    "array(group)",
    about(),
)

VIEWS = {"members_gone": GONE}
"""Views for these checks, by name."""
