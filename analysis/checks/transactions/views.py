"""Views over transactions, which the checks of transactions read.

They rebuild what ``analysis/judging/transactions`` keeps in memory: the transactions of
applications, named by the row in which they began (``begun``); which offset holds whose record; and
what the markers in the final logs say of each record.
"""

from __future__ import annotations

from kafkasim.analysis.checks.transactions.unverified import UNVERIFIED_BATCHES

TRANSACTION_ROWS = """
    -- All that producers tell of their transactions, each row with the begin of its transaction.
    -- (A row of another producer object lies behind that object's own begin.)
    SELECT *, last_value(IF(what = 'begun', seq, NULL), true) OVER (
        PARTITION BY run, node, transactional_id ORDER BY seq) AS begun
    FROM (
        SELECT run, node, transactional_id, seq, 'begun' AS what, number, producer_id,
               producer_epoch, NULL AS topic_id, NULL AS partition, NULL AS record_id,
               NULL AS group, NULL AS topic, NULL AS offset, NULL AS outcome
        FROM TransactionBegun
        UNION ALL
        SELECT run, node, transactional_id, seq, 'sent', number, NULL, NULL, topic_id, partition,
               record_id, NULL, NULL, NULL, NULL FROM TransactionSent
        UNION ALL
        SELECT run, node, transactional_id, seq, 'offset', number, NULL, NULL, NULL, partition,
               NULL, group, topic, offset, NULL FROM TransactionOffsets
        UNION ALL
        SELECT run, node, transactional_id, seq, IF(committing, 'commit', 'abort'), number, NULL,
               NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL FROM TransactionEnding
        UNION ALL
        SELECT run, node, transactional_id, seq, 'ended', number, NULL, NULL, NULL, NULL, NULL,
               NULL, NULL, NULL, outcome FROM TransactionEnded)"""

TRANSACTIONS = """
    -- One row for each transaction of an application. commit_asked is the row in which it asked for
    -- the commit, decided the first row after it in which a coordinator had decided for commit.
    SELECT run, node, transactional_id, begun, number, producer_id, producer_epoch, commit_asked,
           outcome, owner, decided, ended,
           format_string('transaction %d of %s on %s', number, transactional_id, node) AS story
    FROM (SELECT *, sum(IF(number = 0, 1, 0)) OVER (
              PARTITION BY run, node, transactional_id ORDER BY begun) AS owner
          FROM (SELECT run, node, transactional_id, begun, max(number) AS number,
                       max(producer_id) AS producer_id, max(producer_epoch) AS producer_epoch,
                       max(IF(what = 'commit', seq, NULL)) AS commit_asked,
                       coalesce(max(outcome), '') AS outcome,
                       coalesce(max(IF(what = 'ended', seq, NULL)), 1L << 62) AS ended
                FROM transaction_rows GROUP BY run, node, transactional_id, begun))
    LEFT JOIN (
        SELECT run, transactional_id, asked AS commit_asked, min(decided) AS decided
        FROM (SELECT run, transactional_id, IF(what = 'commit', seq, NULL) AS asked,
                     last_value(IF(what = 'decided', seq, NULL), true) OVER (
                         PARTITION BY run, transactional_id ORDER BY seq DESC
                         ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS decided
              FROM (SELECT run, transactional_id, seq, 'commit' AS what FROM TransactionEnding
                    WHERE committing
                    UNION ALL
                    SELECT run, transactional_id, seq, 'decided' FROM TransactionState
                    WHERE state IN ('PrepareCommit', 'CompleteCommit')
                    UNION ALL
                    -- A coordinator that takes over finds decisions, and does not tell them again.
                    SELECT run, transactional_id, seq, 'decided' FROM TransactionsLoaded
                    JOIN (SELECT DISTINCT run, transactional_id FROM TransactionBegun) USING (run)
                    WHERE loaded))
        WHERE asked IS NOT NULL GROUP BY run, transactional_id, asked)
        USING (run, transactional_id, commit_asked)"""

PLACED_RECORDS = """
    -- The offsets at which leaders appended records of transactions, and whose they are: the last
    -- transaction that had sent the record under the producer id and epoch of the batch.
    SELECT run, topic_id, partition, offset, appended, record_id, max(begun) AS begun
    FROM (SELECT run, topic_id, partition, seq AS appended, base_offset + place AS offset,
                 record_id, producer_id, producer_epoch
          FROM Appended LATERAL VIEW posexplode(record_ids) AS place, record_id
          WHERE producer_id >= 0)
    JOIN (SELECT run, topic_id, partition, record_id, seq AS sent, begun FROM transaction_rows
          WHERE what = 'sent') USING (run, topic_id, partition, record_id)
    JOIN (SELECT run, begun, producer_id, producer_epoch FROM transactions)
        USING (run, begun, producer_id, producer_epoch)
    WHERE sent < appended
    GROUP BY run, topic_id, partition, offset, appended, record_id"""

FINAL_STATES = """
    -- The records of the final leaders' logs, in runs with transactions or processors, each with
    -- its state: committed, aborted or open. The next marker of its producer behind it decides.
    -- FinalCleaned tells the offsets of those batches that have lost records.
    SELECT run, topic_id, partition, record_id,
           coalesce(offsets[place], base_offset + place) AS offset, state
    FROM (SELECT run, topic_id, partition, base_offset, log_start_offset, ids, offsets,
                 IF(owned.run IS NULL, 'committed', coalesce(last_value(decision, true) OVER (
                     PARTITION BY run, topic_id, partition, producer_id ORDER BY base_offset DESC
                     ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW), 'open')) AS state
          FROM (SELECT run, topic_id, partition, log_start_offset, producer_id, base_offset, ids,
                       offsets,
                       IF(marker.committed, 'committed',
                          IF(marker.committed IS NULL, NULL, 'aborted')) AS decision
                FROM (SELECT run, topic_id, partition, log_start_offset,
                             batch.producer_ids AS producer_id, batch.base_offsets AS base_offset,
                             batch.batch_epochs AS leader_epoch,
                             slice(record_ids, batch.ends - batch.record_counts + 1,
                                   batch.record_counts) AS ids,
                             slice(record_offsets, batch.ends - batch.record_counts + 1,
                                   batch.record_counts) AS offsets
                      FROM (SELECT *, transform(sequence(1, size(record_counts)), i -> aggregate(
                                slice(record_counts, 1, i), 0L, (sum, n) -> sum + n)) AS ends
                            FROM final_leaders
                            LEFT JOIN (SELECT run, topic_id, partition, node, record_offsets
                                       FROM FinalCleaned) USING (run, topic_id, partition, node)
                            LEFT SEMI JOIN (SELECT run FROM TransactionBegun
                                            UNION SELECT run FROM ProcessorStarted) USING (run)
                            WHERE size(record_counts) > 0)
                      LATERAL VIEW explode(arrays_zip(producer_ids, base_offsets, batch_epochs,
                                                      record_counts, ends)) AS batch)
                LEFT JOIN (SELECT run, topic_id, partition, offset AS base_offset, leader_epoch,
                                  any_value(committed) AS committed
                           FROM MarkerWritten
                           GROUP BY run, topic_id, partition, offset, leader_epoch) AS marker
                    USING (run, topic_id, partition, base_offset, leader_epoch))
          LEFT JOIN (SELECT DISTINCT run, producer_id FROM TransactionBegun) AS owned
              USING (run, producer_id))
    LATERAL VIEW posexplode(ids) AS place, record_id
    WHERE coalesce(offsets[place], base_offset + place) >= log_start_offset"""

FINAL_FATES = """
    -- The same with the transactions to which the records belong.
    SELECT run, topic_id, partition, record_id, offset, state, begun
    FROM final_states
    JOIN (SELECT run, topic_id, partition, offset, record_id, max_by(begun, appended) AS begun
          FROM placed_records GROUP BY run, topic_id, partition, offset, record_id)
        USING (run, topic_id, partition, offset, record_id)"""

LATE_ENDS = """
    -- Transactions that an earlier request of their producer ended, and the row: nobody had asked
    -- for that decision in this one, but in an earlier one of the same producer id and epoch, and
    -- its answer took longer than a request may, so it was asked for again.
    -- (analysis/judging/transactions/known/late_ends.py)
    WITH asked AS (
        SELECT run, node, begun, max(producer_id) AS producer_id,
               max(producer_epoch) AS producer_epoch, max(IF(what = 'ended', seq, NULL)) AS ended,
               max(IF(what = 'ended', t_us, NULL)) AS ended_us,
               map('PrepareCommit', min(IF(what = 'commit', struct(seq, t_us), NULL)),
                   'PrepareAbort', min(IF(what = 'abort', struct(seq, t_us), NULL))) AS for
        FROM (SELECT *, last_value(IF(what = 'begun', seq, NULL), true) OVER (
                  PARTITION BY run, node, transactional_id ORDER BY seq) AS begun
              FROM (SELECT run, node, transactional_id, seq, t_us, 'begun' AS what, producer_id,
                           producer_epoch FROM TransactionBegun
                    UNION ALL
                    SELECT run, node, transactional_id, seq, t_us,
                           IF(committing, 'commit', 'abort'), NULL, NULL FROM TransactionEnding
                    UNION ALL
                    SELECT run, node, transactional_id, seq, t_us, 'ended', NULL, NULL
                    FROM TransactionEnded))
        GROUP BY run, node, begun),
    repeated AS (
        SELECT run, producer_id, producer_epoch, state, min(ended) AS since
        FROM (SELECT *, explode(for) AS (state, first) FROM asked)
        JOIN (SELECT run, node, min(limit_us) AS timeout_us FROM TimeLimit
              WHERE config = 'request.timeout.ms' GROUP BY run, node) USING (run, node)
        WHERE ended_us - first.t_us >= timeout_us
        GROUP BY run, producer_id, producer_epoch, state)
    SELECT run, open.begun AS begun, min(seq) AS late
    FROM (SELECT run, producer_id, decided.producer_epoch AS producer_epoch, decided.seq AS seq,
                 state, max_by(struct(begun, asked.producer_epoch AS epoch, for), begun) AS open
          FROM (SELECT run, producer_id, producer_epoch, seq, state FROM TransactionState
                WHERE reason = 'end' AND before = 'Ongoing') AS decided
          JOIN asked USING (run, producer_id)
          WHERE begun < decided.seq
          GROUP BY run, producer_id, decided.producer_epoch, decided.seq, state)
    JOIN repeated USING (run, producer_id, producer_epoch, state)
    WHERE since < seq AND open.epoch = producer_epoch
        AND coalesce(open.for[state].seq, 1L << 62) > seq
    GROUP BY run, open.begun"""

LATE_BATCHES = """
    -- Records of aborted transactions that a leader appended in a later one of the same producer id
    -- and epoch, and the row. They had failed with an unknown outcome while their own transaction
    -- was ending, and the later one had added the partition and had no marker there yet.
    -- (analysis/judging/transactions/known/late_batches.py)
    WITH failed AS (
        SELECT DISTINCT run, begun, producer_id, producer_epoch, topic_id, partition, record_id
        FROM (SELECT run, node, topic_id, partition, record_id, begun FROM transaction_rows
              WHERE what = 'sent')
        JOIN (SELECT run, node, topic_id, partition, record_id, seq AS failed
              FROM SendFailed LATERAL VIEW explode(record_ids) AS record_id WHERE indeterminate)
            USING (run, node, topic_id, partition, record_id)
        JOIN (SELECT run, begun, min(seq) AS asked FROM transaction_rows
              WHERE what IN ('commit', 'abort') GROUP BY run, begun) USING (run, begun)
        JOIN (SELECT run, begun, producer_id, producer_epoch, ended FROM transactions
              WHERE outcome = 'aborted') USING (run, begun)
        WHERE asked < failed AND failed < ended),
    told AS (
        SELECT run, producer_id, producer_epoch, begun AS seq, 'begun' AS what, NULL AS place
        FROM transactions
        UNION ALL
        SELECT run, producer_id, producer_epoch, seq, 'added', place
        FROM TransactionState LATERAL VIEW explode(assignment) AS place WHERE state = 'Ongoing'
        UNION ALL
        SELECT run, producer_id, producer_epoch, seq, 'marked', concat(topic, '-', partition)
        FROM MarkerWritten JOIN (SELECT DISTINCT run, topic_id, topic FROM TopicCreated)
            USING (run, topic_id))
    SELECT run, begun, topic_id, partition, offset, max(appended) AS joined
    FROM (SELECT run, begun, topic_id, partition, offset, appended, producer_epoch,
                 max(now.seq) FILTER (WHERE what = 'begun') AS open,
                 max_by(now.epoch, now.seq) FILTER (WHERE what = 'begun') AS open_epoch,
                 max_by(now.epoch, now.seq) FILTER (WHERE what = 'added') AS added_epoch,
                 max_by(what, now.seq) FILTER (WHERE what != 'begun') AS last
          FROM placed_records
          JOIN failed USING (run, begun, topic_id, partition, record_id)
          JOIN (SELECT DISTINCT run, topic_id, topic FROM TopicCreated) USING (run, topic_id)
          JOIN (SELECT run, producer_id, struct(seq, producer_epoch AS epoch) AS now, what, place
                FROM told) USING (run, producer_id)
          WHERE now.seq < appended AND coalesce(place = concat(topic, '-', partition), true)
          GROUP BY run, begun, topic_id, partition, offset, appended, producer_epoch)
    WHERE open != begun AND open_epoch = producer_epoch AND added_epoch = producer_epoch
        AND last = 'added'
    GROUP BY run, begun, topic_id, partition, offset"""

SKIPPED_MARKERS = """
    -- Transactions and partitions whose coordinator sent no marker there, because its process had
    -- not been told of the partition: it has had one ZooKeeper controller, elected after it
    -- started. That one has not changed the partition, and no replica of it was live; or it has
    -- sent one UpdateMetadata so far, the empty one of its election.
    -- (analysis/judging/transactions/known/skipped_markers.py)
    SELECT DISTINCT run, begun, topic_id, partition
    FROM (SELECT run, node, skipped.seq AS seq, topic_id, partition, max(started) AS started,
                 max(begun) AS begun, max_by(replicas, told) AS replicas,
                 max(IF(reason != 'loaded', told, NULL)) AS changed
          FROM MarkerSkipped AS skipped
          JOIN (SELECT run, topic, topic_id FROM TopicCreated) USING (run, topic)
          JOIN (SELECT run, node, seq AS started FROM HostStarted) USING (run, node)
          JOIN (SELECT run, transactional_id, producer_id, seq AS begun FROM TransactionBegun)
              USING (run, transactional_id, producer_id)
          JOIN (SELECT run, topic_id, partition, seq AS told, replicas, reason
                FROM PartitionChanged) USING (run, topic_id, partition)
          WHERE started < skipped.seq AND begun < skipped.seq AND told < skipped.seq
          GROUP BY run, node, skipped.seq, topic_id, partition)
    JOIN (SELECT run, seq AS elected, offset AS election FROM ZkControllerWrite
          WHERE path = '/controller_epoch') USING (run)
    LEFT JOIN (SELECT run, broker, seq AS registered, offset AS registration
               FROM BrokerRegistration WHERE change = 'registered') USING (run)
    LEFT JOIN (SELECT run, node, seq AS updated FROM ControlRequest
               WHERE api = 'UpdateMetadata' AND error = 'NONE') USING (run, node)
    WHERE elected < seq
    GROUP BY run, begun, topic_id, partition, node, seq, started, changed, replicas
    HAVING max(elected) > started
        AND count(DISTINCT IF(elected > started, elected, NULL)) = 1
        AND (max(elected) > coalesce(changed, -1)
             AND max(IF(registered < seq AND array_contains(replicas, broker), registered, -1))
                 < max(elected)
             OR count(DISTINCT IF(updated > started AND updated < seq, updated, NULL)) = 1
             AND max(IF(registered < seq AND concat('broker-', broker) = node, registration, NULL))
                 < max_by(election, elected))"""

UNLISTED_IDS = """
    -- What operators' abort markers have ended, between the offset of the producer's marker before
    -- and their own: no coordinator had the transactional id at some time since the last search of
    -- an operator began, or when the marker was written.
    -- (analysis/judging/transactions/known/unlisted.py)
    WITH told AS (
        SELECT run, node, partition AS home, seq, loaded FROM TransactionsLoaded
        UNION ALL
        SELECT run, node, home, seq, false FROM HostStopped
        JOIN (SELECT DISTINCT run, node, partition AS home FROM TransactionsLoaded)
            USING (run, node)),
    changes AS (
        SELECT run, home, seq,
               IF(loaded, 1, 0) - lag(IF(loaded, 1, 0), 1, 0) OVER (
                   PARTITION BY run, node, home ORDER BY seq) AS change
        FROM told
        UNION ALL
        SELECT DISTINCT run, partition, -1L, 0 FROM deciders),
    gaps AS (
        SELECT run, home, seq AS since, until
        FROM (SELECT *, sum(change) OVER one AS holders,
                     lead(seq, 1, 1L << 62) OVER one AS until
              FROM changes WINDOW one AS (PARTITION BY run, home ORDER BY seq))
        WHERE holders = 0),
    aborted AS (
        SELECT run, topic_id, partition, producer_id, seq, low, high, home,
               array_max(filter(searches, search -> search < seq)) AS began
        FROM (SELECT run, topic_id, partition, producer_id, seq, committed, offset AS high,
                     lag(offset, 1, -1L) OVER (
                         PARTITION BY run, topic_id, partition, producer_id ORDER BY seq) AS low
              FROM MarkerWritten)
        JOIN (SELECT DISTINCT run, producer_id, transactional_id FROM TransactionBegun)
            USING (run, producer_id)
        JOIN (SELECT run, transactional_id, partition AS home FROM deciders)
            USING (run, transactional_id)
        JOIN (SELECT run, max(seq) AS operated FROM Operated WHERE operation = 'abort-hanging'
              GROUP BY run) USING (run)
        LEFT JOIN (SELECT run, collect_list(seq) AS searches FROM HangingSought GROUP BY run)
            USING (run)
        WHERE NOT committed AND seq < operated)
    SELECT run, topic_id, partition, producer_id, collect_list(struct(low, high)) AS unlisted
    FROM aborted LEFT SEMI JOIN gaps
        ON aborted.run = gaps.run AND aborted.home = gaps.home
           AND since < seq AND until > coalesce(began, seq)
    GROUP BY run, topic_id, partition, producer_id"""

VIEWS = {
    "transaction_rows": TRANSACTION_ROWS,
    "transactions": TRANSACTIONS,
    "late_ends": LATE_ENDS,
    "skipped_markers": SKIPPED_MARKERS,
    "unlisted_ids": UNLISTED_IDS,
    "placed_records": PLACED_RECORDS,
    "late_batches": LATE_BATCHES,
    "unverified_batches": UNVERIFIED_BATCHES,
    "final_states": FINAL_STATES,
    "final_fates": FINAL_FATES,
}
"""Views over transactions, by name, each after those it reads itself."""
