"""Records that a broker took for a duplicate, because their sequence had been given back."""

from __future__ import annotations

GIVEN_BACK_RECORDS = """
    -- Records of a transaction whose batch has the sequences that an aborted transaction's batch
    -- gave back: that one is in the log, or came there later, and failed late, while its
    -- transaction was ending. The last batch of their sequence has as many records, and is of that
    -- aborted transaction; or it is of the same transaction, which then does not commit.
    -- (analysis/judging/transactions/known/given_again.py:GivenBack; model/KAFKA.md, 4.4)
    SELECT DISTINCT run, topic_id, partition, begun, explode(record_ids) AS record_id
    FROM (SELECT run, topic_id, partition, now.begun AS begun, acked.seq AS acked_at,
                 acked.record_ids,
                 producer_id, producer_epoch, base_sequence,
                 max_by(struct(held.seq AS seq, size(held.record_ids) AS count,
                               held.record_ids AS ids), held.seq) AS held
          FROM Acked AS acked
          JOIN (SELECT run, node, producer_id, producer_epoch, begun, ended
                FROM transactions) AS now
              USING (run, node, producer_id, producer_epoch)
          JOIN Appended AS held
              USING (run, topic_id, partition, producer_id, producer_epoch, base_sequence)
          WHERE now.begun < acked.seq AND acked.seq < now.ended
              AND held.seq < acked.seq AND size(held.record_ids) > 0
          GROUP BY run, topic_id, partition, now.begun, acked.seq, acked.record_ids, producer_id,
                   producer_epoch, base_sequence)
    JOIN (SELECT run, topic_id, partition, producer_id, producer_epoch, began, ended, outcome,
                 min(IF(appended < ended, base_sequence, NULL)) AS lowest, min(failed) AS failed,
                 max(IF(appended > ended, appended, NULL)) AS late
          FROM (SELECT run, node, begun AS began, ended, outcome, producer_id, producer_epoch
                FROM transactions WHERE outcome != 'committed')
          JOIN (SELECT run, begun AS began, min(seq) AS ending FROM transaction_rows
                WHERE what IN ('commit', 'abort') GROUP BY run, begun) USING (run, began)
          JOIN (SELECT run, node, seq AS failed, topic_id, partition, record_ids FROM SendFailed
                WHERE indeterminate AND error != 'TIMED_OUT') USING (run, node)
          JOIN (SELECT run, topic_id, partition, producer_id, producer_epoch, record_ids,
                       base_sequence, seq AS appended FROM Appended)
              USING (run, topic_id, partition, producer_id, producer_epoch, record_ids)
          WHERE ending < failed AND failed < ended AND began < appended
          GROUP BY run, topic_id, partition, producer_id, producer_epoch, began, ended, outcome)
        AS back
        USING (run, topic_id, partition, producer_id, producer_epoch)
    WHERE (lowest <= base_sequence AND began < held.seq AND held.seq < back.ended
           OR held.seq = back.late)
        AND held.count = size(record_ids)
        AND (back.outcome = 'aborted' AND back.ended < acked_at
             OR began = begun AND back.failed < acked_at AND held.ids != record_ids)"""

NO_GIVEN_BACK = """
    -- Without transactions, or if no batch failed, no sequence is given back.
    SELECT '' AS run, '' AS topic_id, 0L AS partition, 0L AS begun, 0L AS record_id WHERE false"""

GIVEN_BACK = "IF(coalesce(back, false), 'given-back-sequence', '')"
"""The excuse of a record, of which ``back`` tells whether it is among them."""
