"""No batch overtakes one that waits for its verification.

``analysis/judging/transactions/verified.py`` says why.
"""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

VERIFIED_IN_ORDER = offending(
    # What a leader appends of a producer, with the lowest sequence of the newest epoch that it has
    # refused since it began to lead, or since its last append of that producer.
    """
    WITH refused AS (
        SELECT DISTINCT run, topic_id, partition, node, producer_id FROM BatchUnverified
    ), told AS (
        SELECT run, topic_id, partition, node, producer_id, seq, t_us, producer_epoch,
               base_sequence, 'refused' AS what FROM BatchUnverified
        UNION ALL
        SELECT run, topic_id, partition, node, producer_id, seq, t_us, producer_epoch,
               base_sequence, 'appended'
        FROM Appended LEFT SEMI JOIN refused USING (run, topic_id, partition, node, producer_id)
        UNION ALL
        SELECT run, topic_id, partition, node, producer_id, seq, t_us, NULL, NULL, 'led'
        FROM BecameLeader JOIN refused USING (run, topic_id, partition, node)
    ), waits AS (
        SELECT *, count_if(what != 'refused') OVER (
                   PARTITION BY run, topic_id, partition, node, producer_id ORDER BY seq
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS ended,
               max(IF(what = 'led', t_us, NULL)) OVER (
                   PARTITION BY run, topic_id, partition, node, producer_id ORDER BY seq) AS led_us
        FROM told
    ), compared AS (
        SELECT *, min(IF(what = 'refused', struct(-producer_epoch AS older, base_sequence), NULL))
                      OVER (PARTITION BY run, topic_id, partition, node, producer_id, ended)
                   AS lowest
        FROM waits)
    SELECT run, topic_id, partition, seq, node, producer_id, base_sequence,
           lowest.base_sequence AS low
    FROM compared JOIN broker_limits USING (run)
    WHERE what = 'appended' AND lowest.older = -producer_epoch
        AND base_sequence > lowest.base_sequence AND t_us - coalesce(led_us, 0) < producer_us""",
    "'VERIFYORDER'",
    "'%s appends sequence %d of producer %d, and has refused sequence %d for want of a"
    " verification', node, base_sequence, producer_id, low",
)
