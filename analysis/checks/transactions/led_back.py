"""How often a processor was led back to an input between its outputs, and what Kafka excuses."""

from __future__ import annotations

from itertools import accumulate

from kafkasim.analysis.checks.readers import EXPIRABLE


def _led_back(name: str, what: str, events: str, covers: str) -> str:
    """Return a subquery ``name``: how often (``what``) a group was led back to an output's input.

    ``events`` led it back, each in a partition to what ``covers`` says. Those count that came
    between the first and the last row of the output.
    """
    return f"""{name} AS (
        SELECT run, group, record_id, count(1) AS {what}
        FROM (SELECT DISTINCT run, group, topic_id, partition, record_id, offset
              FROM polled_records LEFT SEMI JOIN processors USING (run, group))
        JOIN {events} USING (run, group, topic_id, partition)
        JOIN (SELECT run, group, record_id, first_row, last_row FROM places)
            USING (run, group, record_id)
        WHERE {covers} AND first_row < {events}.seq AND {events}.seq < last_row
        GROUP BY run, group, record_id)"""


_DEPOSED = f"""
    outdated AS (
        SELECT run, group, topic_id, partition, seq, offset AS low, known.offset AS high
        FROM (SELECT *, max(IF(what = 'committed', struct(epoch, seq, offset), NULL)) OVER (
                  PARTITION BY run, group, topic, partition ORDER BY seq) AS known
              FROM (SELECT run, group, topic, partition, seq, offset, 'told' AS what,
                           coordinator_epoch AS epoch FROM OffsetFetched
                    UNION ALL
                    SELECT run, group, topic, partition, seq, offset, 'committed',
                           coordinator_epoch FROM OffsetCommitted)
              LEFT SEMI JOIN processors USING (run, group))
        JOIN (SELECT DISTINCT run, topic, topic_id FROM TopicCreated) USING (run, topic)
        WHERE what = 'told' AND epoch < known.epoch),
    {_led_back("told", "answers", "outdated", "low <= offset AND offset < high")}"""
"""How often a coordinator that another one has followed led a group back to an input between its
outputs (judging/transactions/outputs.py)."""

_EXPIRED = f"""
    expiries AS (
        SELECT run, group, topic_id, partition, seq, known.offset AS high
        FROM (SELECT *, lag(struct(what, offset, t_us)) OVER (
                  PARTITION BY run, group, topic, partition ORDER BY seq) AS known
              FROM (SELECT run, group, topic, partition, seq, t_us, offset, 'gone' AS what
                    FROM OffsetFetched WHERE offset < 0
                    UNION ALL
                    SELECT run, group, topic, partition, seq, t_us, offset, 'committed'
                    FROM OffsetCommitted)
              LEFT SEMI JOIN processors USING (run, group)) AS answers
        JOIN (SELECT DISTINCT run, topic, topic_id FROM TopicCreated) USING (run, topic)
        LEFT SEMI JOIN ({EXPIRABLE}) AS expirable
            ON answers.run = expirable.run AND answers.group = expirable.group
               AND answers.t_us - since >= retention_us
               AND known.t_us <= coalesce(until, answers.t_us)
        WHERE what = 'gone' AND known.what = 'committed'),
    {_led_back("forgotten", "expiries", "expiries", "offset < high")}"""
"""How often a group was told that it has no offset, when its last commit above an input between its
outputs may have expired (judging/transactions/known/outputs/expired_offsets.py)."""

_DELETED_INPUTS = f"""
    starts AS (
        -- What a broker loaded below a log start that was told before.
        SELECT run, topic_id, partition, loaded.node, loaded.seq AS loaded,
               log_start_offset AS start, max(told.offset) AS told
        FROM LogLoaded AS loaded JOIN LogStart AS told USING (run, topic_id, partition)
        WHERE told.reason IN ('delete-records', 'retention') AND told.seq < loaded.seq
              AND told.offset > log_start_offset
        GROUP BY run, topic_id, partition, loaded.node, loaded.seq, log_start_offset),
    resets_below AS (
        -- Resets of a position that was deleted, each with a broker that may have forgotten that.
        SELECT run, group, topic_id, partition, seq, offset, node, loaded, told
        FROM (SELECT *, lag(struct(what, offset)) OVER (
                  PARTITION BY run, group, topic_id, partition ORDER BY seq) AS known
              FROM (SELECT run, group, topic_id, partition, seq, position AS offset, '' AS what
                    FROM Polled
                    UNION ALL
                    SELECT run, group, topic_id, partition, seq, offset, reason FROM Positioned
                    WHERE reason != 'none'
                    UNION ALL
                    SELECT run, group, topic_id, partition, seq, offset, 'gone' FROM OffsetFetched
                    JOIN (SELECT DISTINCT run, topic, topic_id FROM TopicCreated)
                        USING (run, topic)
                    WHERE offset < 0)
              LEFT SEMI JOIN processors USING (run, group))
        JOIN starts USING (run, topic_id, partition)
        WHERE what = 'earliest' AND known.what != 'gone' AND loaded < seq
              AND start <= offset AND offset <= known.offset AND known.offset < told),
    led_back AS (
        SELECT run, group, topic_id, partition, seq, offset AS low, max(told) AS high
        FROM resets_below AS back
        LEFT ANTI JOIN (SELECT run, topic_id, partition, node, seq, offset FROM LogStart
                        UNION ALL
                        SELECT run, topic_id, partition, node, seq, log_start_offset
                        FROM LogLoaded) AS raised
            ON back.run = raised.run AND back.topic_id = raised.topic_id
               AND back.partition = raised.partition AND back.node = raised.node
               AND back.loaded < raised.seq AND raised.seq < back.seq
               AND raised.offset > back.offset
        GROUP BY run, group, topic_id, partition, seq, offset),
    {_led_back("started_again", "starts_again", "led_back", "low <= offset AND offset < high")}"""
"""How often a forgotten log start led a group back to an input between its outputs
(judging/transactions/known/outputs/deleted_inputs.py)."""

LED_BACK = f"{_DEPOSED},{_EXPIRED},{_DELETED_INPUTS}"
"""Subqueries ``told``, ``forgotten`` and ``started_again``; they read ``processors`` and
``places``."""

_EXCUSES = {
    "answers": "deposed-coordinator",
    "expiries": "expired-offsets",
    "starts_again": "deleted-inputs",
    "unverified": "unverified-batch",
}
"""How often something explains an output too many, and the excuse: they count one after another."""

_EXPLAINED = list(
    accumulate(_EXCUSES, "{} + coalesce({}, 0)".format, initial="coalesce(inputs, 1)")
)

WHY_AGAIN = (
    "CASE "
    + " ".join(
        f"WHEN times <= {explained} THEN '{why}'"
        for explained, why in zip(_EXPLAINED[1:], _EXCUSES.values(), strict=True)
    )
    + " ELSE '' END"
)
"""Why an output has too many copies, by its ``times`` and ``inputs``, or ''."""
