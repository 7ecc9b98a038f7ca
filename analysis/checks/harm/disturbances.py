"""When a host could not work or be reached as usual, and when it stood still, as views.

The faults and times are those of ``analysis/judging/harm/truth/disturbances.py``, which says why.
"""

from __future__ import annotations

ELECTION_US = 5_000_000
REQUEST_TIMEOUT_US = 30_000_000
SLOW_OPERATION_US = 5_000_000
CLOSED = (
    "bit-rot", "clock-drift", "clock-step", "crash", "disk-failure", "disk-full", "disk-read-error",
    "disk-stall", "flush-error", "gc-pause", "slow-disk",
)  # fmt: skip
"""Causes after which no connection is dead unseen."""

DISTURBANCES = f"""
    -- The times in which each host was struck: paused, down, or the target of a fault. What strikes
    -- a host twice at a time ends with the last of the ends. A span explains waits for healing_us
    -- after its end.
    WITH marks AS (
        SELECT run, node AS host, seq, t_us, 'pause' AS what, 1 AS opens,
               {ELECTION_US}L AS healing_us
        FROM HostPaused
        UNION ALL
        SELECT run, node, seq, t_us, 'pause', -1, 0L FROM HostResumed
        UNION ALL
        SELECT run, node, seq, t_us, 'pause', -1, 0L FROM HostStopped
        UNION ALL
        SELECT run, node, seq, t_us, 'down', 1,
               IF(reason = 'power-loss', {REQUEST_TIMEOUT_US}L, {ELECTION_US}L)
        FROM HostStopped
        UNION ALL
        SELECT run, node, seq, t_us, 'down', -1, 0L FROM HostStarted
        UNION ALL
        SELECT run, explode(split(target, '[+|]')), seq, t_us, fault, 1,
               IF(fault IN {CLOSED}, {ELECTION_US}L, {REQUEST_TIMEOUT_US}L)
        FROM FaultStarted WHERE fault NOT IN ('restart', 'stop')
        UNION ALL
        SELECT run, explode(split(target, '[+|]')), seq,
               t_us + IF(fault = 'slow-disk', {SLOW_OPERATION_US}L, 0L), fault, -1, 0L
        FROM FaultEnded WHERE fault NOT IN ('restart', 'stop'))
    SELECT run, host, begin_us, coalesce(end_us, 1L << 61) AS end_us, healing_us
    FROM (SELECT *, t_us AS begin_us, min(IF(depth = 0, t_us, NULL)) OVER (
                      PARTITION BY run, host, what ORDER BY seq DESC
                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS end_us
          FROM (SELECT *, total - least(min(total) OVER one, 0) AS depth
                FROM (SELECT *, sum(opens) OVER one AS total
                      FROM (SELECT *, lag(opens) OVER one AS before FROM marks
                            WINDOW one AS (PARTITION BY run, host, what ORDER BY seq))
                      WHERE NOT (what IN ('pause', 'down') AND opens = 1
                                 AND coalesce(before, -1) = 1)
                      WINDOW one AS (PARTITION BY run, host, what ORDER BY seq))
                WINDOW one AS (PARTITION BY run, host, what ORDER BY seq)))
    WHERE opens = 1 AND depth = 1"""

STANDSTILLS = """
    -- The times for which a host did nothing, paused or with a stalled disk, each at the row that
    -- tells of its length (analysis/judging/harm/truth/standstills.py).
    SELECT run, node, seq, t_us, duration_us FROM HostPaused
    UNION ALL
    SELECT run, host, seq, t_us, t_us - begun_us
    FROM (SELECT *, last(IF(opens = 1 AND depth = 1, t_us, NULL), true) OVER one AS begun_us
          FROM (SELECT *, sum(opens) OVER one AS depth
                FROM (SELECT run, explode(split(target, '[+|]')) AS host, seq, t_us, 1 AS opens
                      FROM FaultStarted WHERE fault = 'disk-stall'
                      UNION ALL
                      SELECT run, explode(split(target, '[+|]')), seq, t_us, -1
                      FROM FaultEnded WHERE fault = 'disk-stall')
                WINDOW one AS (PARTITION BY run, host ORDER BY seq))
          WINDOW one AS (PARTITION BY run, host ORDER BY seq))
    WHERE opens = -1 AND depth = 0"""

SERVERS = """
    -- The hosts that are no client's.
    SELECT DISTINCT run, node AS host FROM HostStarted
    WHERE NOT node RLIKE '^(producer|consumer|processor|admin)-'"""

VIEWS = {"disturbances": DISTURBANCES, "standstills": STANDSTILLS, "servers": SERVERS}
"""Views for the checks of waits and of groups, by name."""
