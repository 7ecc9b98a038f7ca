"""Records that a broker took for a duplicate, because their producer's epoch was given twice."""

from __future__ import annotations

from kafkasim.analysis.checks.base import SPOT, spot
from kafkasim.analysis.checks.transactions.queries import DECIDER, GIVEN

_EPOCH = spot("decider", "decider_partition", after="coalesce(given, -1)", before="seq")
"""What the coordinator knew of the epoch until the answer."""

TAKEN_RECORDS = f"""
    -- The last batch that was appended under the producer id, epoch and first sequence of an
    -- acknowledged one has other records. (analysis/judging/transactions/known/given_again.py)
    SELECT run, topic_id, partition, seq, array({_EPOCH}) AS spots, explode(record_ids) AS record_id
    FROM (SELECT run, topic_id, partition, acked.seq AS seq, producer_id, producer_epoch,
                 acked.record_ids AS record_ids, max_by(held.record_ids, held.seq) AS held_ids
          FROM (SELECT * FROM Acked
                LEFT SEMI JOIN (SELECT run, producer_id FROM TransactionBegun)
                    USING (run, producer_id)) AS acked
          JOIN Appended AS held
              USING (run, topic_id, partition, producer_id, producer_epoch, base_sequence)
          WHERE held.seq < acked.seq AND size(held.record_ids) > 0
          GROUP BY run, topic_id, partition, acked.seq, producer_id, producer_epoch,
                   acked.record_ids)
    JOIN (SELECT run, producer_id, max(transactional_id) AS transactional_id
          FROM TransactionBegun GROUP BY run, producer_id) USING (run, producer_id)
    {GIVEN} {DECIDER}
    WHERE held_ids != record_ids"""

NO_TAKEN = f"""
    -- Without transactions no epoch is given.
    SELECT '' AS run, '' AS topic_id, 0L AS partition, 0L AS seq, 0L AS record_id,
           CAST(array() AS ARRAY<{SPOT}>) AS spots
    WHERE false"""
