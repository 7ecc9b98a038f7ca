"""Inputs that a group committed by offsets that a failed transaction left to a later one."""

from __future__ import annotations

CARRIED_INPUTS = """
    given_offsets AS (
        -- What applications gave each transaction by sendOffsetsToTransaction, and since when.
        SELECT run, begun, group, topic, partition, max_by(offset, seq) AS offset, min(seq) AS since
        FROM transaction_rows WHERE what = 'offset'
        GROUP BY run, begun, group, topic, partition),
    offset_batches AS (
        -- The batches of transactions in __consumer_offsets, without markers, and whose they are.
        SELECT run, home, home_partition, producer_id, seq, size, max(begun) AS begun
        FROM (SELECT run, topic_id AS home, partition AS home_partition, producer_id, seq,
                     next_offset - base_offset AS size
              FROM Appended
              LEFT SEMI JOIN (SELECT run, topic_id FROM TopicCreated
                              WHERE topic = '__consumer_offsets') USING (run, topic_id)
              LEFT ANTI JOIN (SELECT run, topic_id, partition, producer_id, leader_epoch,
                                     offset AS base_offset FROM MarkerWritten)
                  USING (run, topic_id, partition, producer_id, leader_epoch, base_offset)
              WHERE producer_id >= 0)
        JOIN (SELECT run, producer_id, begun FROM transactions) USING (run, producer_id)
        WHERE begun < seq
        GROUP BY run, home, home_partition, producer_id, seq, size),
    unanswered AS (
        -- The transactions with offsets, and the last one before whose offsets had an answer: all
        -- behind it were aborted while the request waited, so their offsets stayed in the client.
        SELECT run, node, transactional_id, owner, begun, waited,
               max(IF(waited, NULL, begun)) OVER (
                   PARTITION BY run, node, transactional_id, owner ORDER BY begun
                   ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS answered
        FROM (SELECT run, node, transactional_id, owner, begun,
                     outcome = 'aborted' AND coalesce(asked = 'abort', false)
                     AND (batches IS NULL OR failed IS NOT NULL) AS waited
              FROM transactions
              LEFT SEMI JOIN given_offsets USING (run, begun)
              LEFT JOIN (SELECT run, begun, min_by(what, seq) AS asked FROM transaction_rows
                         WHERE what IN ('commit', 'abort') GROUP BY run, begun) USING (run, begun)
              LEFT JOIN (SELECT run, begun, count(1) AS batches FROM offset_batches
                         GROUP BY run, begun) USING (run, begun)
              LEFT JOIN (SELECT run, begun, min(failed) AS failed
                         FROM (SELECT run, node, begun,
                                      min(IF(what = 'offset', seq, NULL)) AS since,
                                      min(IF(what IN ('commit', 'abort'), seq, NULL)) AS until
                               FROM transaction_rows GROUP BY run, node, begun)
                         JOIN (SELECT run, node, seq AS failed FROM SendFailed) USING (run, node)
                         WHERE since < failed AND failed < until
                         GROUP BY run, begun) USING (run, begun))),
    carried_commits AS (
        -- The commits that followed from the marker of a transaction which had sent more offsets
        -- than it was given, and not been given this partition.
        SELECT run, group, topic, partition, low, offset, begun
        FROM (SELECT run, group, topic, partition, commits.seq AS seq, low,
                     commits.offset AS offset, home, home_partition,
                     max_by(begun, offset_batches.seq) AS begun
              FROM (SELECT run, group, topic, partition, seq, offset, next_offset,
                           lag(offset, 1, -1L) OVER (
                               PARTITION BY run, group, topic, partition ORDER BY seq) AS low
                    FROM OffsetCommitted LEFT SEMI JOIN processors USING (run, group)) AS commits
              JOIN (SELECT run, group, topic_id AS home, partition AS home_partition FROM homes)
                  USING (run, group)
              JOIN (SELECT run, topic_id AS home, partition AS home_partition, producer_id, seq,
                           committed, offset + 1 AS next_offset,
                           lag(seq, 1, -1L) OVER (
                               PARTITION BY run, topic_id, partition, producer_id ORDER BY seq)
                               AS before
                    FROM MarkerWritten) AS markers
                  USING (run, home, home_partition, next_offset)
              JOIN offset_batches USING (run, home, home_partition, producer_id)
              WHERE committed AND markers.seq < commits.seq
                  AND before < offset_batches.seq AND offset_batches.seq < markers.seq
              GROUP BY run, group, topic, partition, commits.seq, low, commits.offset, home,
                       home_partition)
        JOIN (SELECT run, begun, home, home_partition, max(size) AS size FROM offset_batches
              GROUP BY run, begun, home, home_partition) USING (run, begun, home, home_partition)
        JOIN (SELECT run, begun, count(1) AS own FROM given_offsets GROUP BY run, begun)
            USING (run, begun)
        LEFT ANTI JOIN given_offsets USING (run, begun, group, topic, partition)
        WHERE size > own),
    carried_inputs AS (
        -- The records whose outputs the failed transaction had sent, with the offsets, from the
        -- group's commit before, that the carried commit has passed; none that were sent in a
        -- transaction that committed.
        -- (analysis/judging/transactions/known/outputs/carried_offsets.py; model/KAFKA.md, 4.4)
        SELECT run, group, topic, partition, record_id,
               collect_list(struct(low, offset AS high)) AS carried
        FROM carried_commits
        JOIN unanswered USING (run, begun)
        JOIN (SELECT run, begun AS failed, group, topic, partition, offset FROM given_offsets)
            USING (run, group, topic, partition, offset)
        JOIN (SELECT run, begun AS failed, node, transactional_id, owner FROM unanswered)
            USING (run, failed, node, transactional_id, owner)
        JOIN (SELECT DISTINCT run, begun AS failed, record_id FROM transaction_rows
              WHERE what = 'sent') USING (run, failed)
        LEFT ANTI JOIN (SELECT run, record_id FROM transaction_rows
                        JOIN (SELECT run, begun FROM transactions WHERE outcome = 'committed')
                            USING (run, begun)
                        WHERE what = 'sent') USING (run, record_id)
        WHERE coalesce(answered, -1) < failed AND failed < begun
        GROUP BY run, group, topic, partition, record_id)"""
"""Subqueries, the last of which has the inputs; ``processors`` stands before them."""

CARRIED = (
    "IF(exists(coalesce(carried, array()), each -> each.low <= offset AND offset < each.high),"
    " 'carried-offsets', '')"
)
"""The excuse of an input at ``offset``."""
