"""Transactions: does a read_committed reader get whole, committed transactions and nothing else?"""

from __future__ import annotations

from kafkasim.analysis.checks.base import AT_END, HOME, NO_SPOTS, about, offending, spot
from kafkasim.analysis.checks.transactions.carried import CARRIED, CARRIED_INPUTS
from kafkasim.analysis.checks.transactions.given_back import GIVEN_BACK
from kafkasim.analysis.checks.transactions.led_back import LED_BACK, WHY_AGAIN
from kafkasim.analysis.checks.transactions.unverified import UNVERIFIED_OUTPUTS

DECIDER = """
    LEFT JOIN (SELECT run, transactional_id, topic_id AS decider, partition AS decider_partition
               FROM deciders) USING (run, transactional_id)"""

GIVEN = """
    LEFT JOIN (SELECT run, transactional_id, producer_id, producer_epoch, min(seq) AS given
               FROM TransactionState
               GROUP BY run, transactional_id, producer_id, producer_epoch)
        USING (run, transactional_id, producer_id, producer_epoch)"""

_EPOCH = spot("decider", "decider_partition", after="coalesce(given, -1)", before="ended")
"""What the coordinator knew of the epoch: one that it forgets is given again, and a broker may take
the records of the second producer for those of the first."""

_DECIDED = spot("decider", "decider_partition", after="begun")
"""What the coordinator has decided since the transaction began."""

_MARKED = (
    f"array({spot('topic_id', 'partition', 'offset', after='begun', before='seq')},"
    f" {spot('decider', 'decider_partition', after='begun', before='seq')})"
)
"""What decides the fate of a record that was read: the markers behind it, and the coordinator."""

READS = offending(
    # A read_committed group got a record of a transaction that did not commit, or not yet. (A
    # record whose marker is lost falls to the next marker of its producer.)
    f"""
    SELECT run, topic_id, partition, seq, offset, record_id, group, {_MARKED} AS spots,
           IF(outcome = 'aborted' OR commit_asked IS NULL, 'aborted-read', 'precommitted-read')
               AS name, story, late, joined, unverified, missed
    FROM (SELECT run, topic_id, partition, seq, offset, record_id, group,
                 max_by(begun, appended) AS begun
          FROM polled_records
          JOIN committed_only USING (run, node, group)
          JOIN (SELECT run, topic_id, partition, offset, record_id, appended, begun
                FROM placed_records) USING (run, topic_id, partition, offset, record_id)
          WHERE appended < seq
          GROUP BY run, topic_id, partition, seq, offset, record_id, group)
    JOIN transactions USING (run, begun) {DECIDER} LEFT JOIN late_ends USING (run, begun)
    LEFT JOIN late_batches USING (run, begun, topic_id, partition, offset)
    LEFT JOIN (SELECT run, begun, topic_id, partition, offset, min(appended) AS unverified
               FROM unverified_batches GROUP BY run, begun, topic_id, partition, offset)
        USING (run, begun, topic_id, partition, offset)
    LEFT JOIN missed_markers USING (run, topic_id, partition, offset)
    WHERE outcome = 'aborted' OR commit_asked IS NULL OR coalesce(decided, 1L << 62) >= seq""",
    "name",
    "'group %s got record %d at offset %d of %s', group, record_id, offset, story",
    place=about(
        "offset",
        spots="spots",
        excused="CASE WHEN late < seq THEN 'late-end' WHEN joined < seq THEN 'late-batch'"
        " WHEN unverified < seq THEN 'unverified-batch'"
        " WHEN missed < seq THEN 'missed-marker' ELSE '' END",
    ),
)

HANGING = offending(
    # A record of a transaction stands in a final log without a marker behind it.
    f"""
    SELECT run, topic_id, partition, begun AS seq, offset, record_id, story,
           array({spot("topic_id", "partition", "offset", after="begun")}, {_DECIDED}) AS spots,
           skipped, unverified
    FROM final_fates JOIN transactions USING (run, begun) {DECIDER}
    LEFT JOIN (SELECT *, true AS skipped FROM skipped_markers)
        USING (run, begun, topic_id, partition)
    LEFT JOIN (SELECT DISTINCT run, begun, topic_id, partition, offset, true AS unverified
               FROM unverified_batches) USING (run, begun, topic_id, partition, offset)
    WHERE state = 'open'""",
    "'hanging-transaction'",
    "'%s is open at offset %d', story, offset",
    place=about(
        offset="offset",
        shown=AT_END,
        spots="spots",
        excused="IF(skipped, 'skipped-marker', IF(unverified, 'unverified-batch', ''))",
    ),
)

_FATES = ("committed", "aborted", "open", "later", "unverified", "counted")
"""What the final logs say of a record; later: it was committed with a later transaction;
unverified: it was, and came before that one; counted: the leader has missed the marker that aborted
it."""

TORN = offending(
    # Some records or offsets of a transaction are readable and others are not.
    f"""
    SELECT torn.*, late FROM (
    SELECT run, topic_id, partition, seq, story, spots, false AS back,
           coalesce(exists(unlisted, one -> one.low < offset AND offset < one.high), false)
               AND aborts AS unlisted, known
    FROM (SELECT * FROM (
        SELECT run, transactions.begun AS seq, outcome, producer_id, aborted IS NOT NULL AS aborts,
               CASE WHEN outcome != 'aborted' OR committed IS NOT NULL THEN ''
                    WHEN later IS NOT NULL THEN 'late-batch'
                    WHEN unverified IS NOT NULL THEN 'unverified-batch'
                    WHEN counted IS NOT NULL THEN 'missed-marker' ELSE '' END AS known,
               IF(outcome = 'aborted' AND (aborted IS NULL OR committed IS NULL),
                  coalesce(committed, later, unverified, counted), aborted) AS first,
               format_string('%s (%s) is aborted in part', transactions.story, outcome) AS story,
               concat(transform(filter(array({", ".join(_FATES)}),
                                       one -> one IS NOT NULL), one -> {
        spot("one.topic_id", "one.partition", "one.offset", after="begun")
    }),
                      array({_DECIDED})) AS spots
        FROM (SELECT run, begun, {
        ", ".join(
            f"min(IF(state = '{each}', struct(topic_id, partition, offset), NULL)) AS {each}"
            for each in _FATES
        )
    }
              FROM (SELECT *, CASE WHEN fate != 'committed' THEN fate
                                   WHEN joined IS NOT NULL THEN 'later'
                                   WHEN came IS NOT NULL THEN 'unverified'
                                   WHEN missed IS NOT NULL THEN 'counted' ELSE fate END AS state
                    FROM (SELECT run, begun, topic_id, partition, offset, state AS fate
                          FROM final_fates)
                    LEFT JOIN late_batches USING (run, begun, topic_id, partition, offset)
                    LEFT JOIN (SELECT run, begun, topic_id, partition, offset,
                                      min(appended) AS came FROM unverified_batches
                               GROUP BY run, begun, topic_id, partition, offset)
                        USING (run, begun, topic_id, partition, offset)
                    LEFT JOIN missed_markers USING (run, topic_id, partition, offset))
              GROUP BY run, begun)
        JOIN transactions USING (run, begun) {DECIDER}
        WHERE (aborted IS NOT NULL AND (outcome = 'committed' OR committed IS NOT NULL))
           OR (outcome = 'aborted'
               AND coalesce(committed, later, unverified, counted) IS NOT NULL))
    LATERAL VIEW inline(array(first)) AS topic_id, partition, offset)
    LEFT JOIN unlisted_ids USING (run, topic_id, partition, producer_id)
    UNION ALL
    SELECT run, topic_id, partition, begun,
           format_string('%s committed without record %d', story, record_id),
           concat(coalesce(places, {NO_SPOTS}), array({_EPOCH})), coalesce(back, false),
           false, ''
    FROM (SELECT run, begun, topic_id, partition, record_id FROM transaction_rows
          WHERE what = 'sent')
    JOIN transactions USING (run, begun)
    JOIN (SELECT run, topic_id, partition FROM final_leaders WHERE log_start_offset = 0)
        USING (run, topic_id, partition)
    LEFT JOIN (SELECT run, begun, topic_id, partition, record_id, collect_list({
        spot("topic_id", "partition", "offset", "offset + 1", after="appended")
    }) AS places
               FROM placed_records GROUP BY run, begun, topic_id, partition, record_id)
        USING (run, begun, topic_id, partition, record_id) {GIVEN} {DECIDER}
    LEFT JOIN (SELECT *, true AS back FROM given_back_records)
        USING (run, topic_id, partition, record_id, begun)
    LEFT ANTI JOIN final_fates USING (run, topic_id, partition, record_id, begun)
    LEFT ANTI JOIN (SELECT run, topic_id, partition, record_id, begun FROM placed_records
                    LEFT SEMI JOIN cleaned_offsets USING (run, topic_id, partition, offset))
        USING (run, topic_id, partition, record_id, begun)
    WHERE outcome = 'committed'
    UNION ALL
    SELECT run, CAST(NULL AS STRING), CAST(NULL AS BIGINT), begun,
           format_string('%s committed without offset %d', story, wanted),
           array({spot("home", "home_partition", after="begun")}, {_DECIDED}), false, false, ''
    FROM (SELECT run, begun, group, topic, partition, max_by(offset, seq) AS wanted
          FROM transaction_rows WHERE what = 'offset' GROUP BY run, begun, group, topic, partition)
    JOIN transactions USING (run, begun)
    -- A coordinator that takes over finds commits in its log, and does not tell them again.
    LEFT JOIN (SELECT run, group, topic, partition, max(offset) AS highest
               FROM (SELECT run, group, topic, partition, offset FROM OffsetCommitted
                     UNION ALL SELECT run, group, topic, partition, offset FROM FinalOffset)
               GROUP BY run, group, topic, partition) USING (run, group, topic, partition)
    -- While the markers of its last transaction are under way, its offsets are not demanded.
    LEFT JOIN (SELECT run, transactional_id, sort_array(collect_list(struct(seq, state))) AS told
               FROM TransactionState GROUP BY run, transactional_id)
        USING (run, transactional_id) {DECIDER} {HOME}
    WHERE outcome = 'committed' AND coalesce(highest, -1) < wanted
        AND NOT coalesce(filter(told, one -> one.seq > commit_asked).state
                         = array('PrepareCommit'), false)) AS torn
    LEFT JOIN late_ends ON torn.run = late_ends.run AND torn.seq = begun""",
    "'torn-transaction'",
    "'%s', story",
    place=about(
        shown=AT_END,
        spots="spots",
        excused=f"IF(late IS NOT NULL AND NOT coalesce(back, false), 'late-end',"
        f" IF(known != '', known, IF(unlisted, 'unlisted-id', {GIVEN_BACK})))",
    ),
)

ZOMBIE = offending(
    # Two producers have one producer id and epoch, or one commits after the other has begun.
    f"""
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, begun AS seq,
           story, array({_EPOCH}) AS spots
    FROM (SELECT *, struct(node, owner) AS mine, first_value(struct(node, owner)) OVER (
                     PARTITION BY run, producer_id, producer_epoch ORDER BY begun) AS theirs
          FROM transactions {GIVEN} {DECIDER})
    WHERE mine != theirs
    UNION ALL
    SELECT run, NULL, NULL, begun, story, array({_EPOCH})
    FROM (SELECT run, begun, story, outcome, commit_asked, ended, decider, decider_partition,
                 struct(node, owner) AS mine, lead(struct(node, owner)) OVER by_id AS theirs,
                 lead(begun) OVER by_id AS next,
                 least(coalesce(given, -1), coalesce(lead(given) OVER by_id, -1)) AS given
          FROM transactions {GIVEN} {DECIDER}
          WINDOW by_id AS (PARTITION BY run, transactional_id ORDER BY begun))
    WHERE mine != theirs AND outcome = 'committed' AND next < commit_asked""",
    "'zombie-producer'",
    "'%s', story",
    place=about(shown=AT_END, spots="spots"),
)

NEEDLESS_EPOCH = offending(
    # What a coordinator has told of an id since it loaded it. Its epoch rises by one with
    # InitProducerId, with the end of a transaction under transaction.version 2, and once with a
    # fence, however often the record of the fence failed (KAFKA-9666).
    """
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq, node,
           transactional_id, known, producer_epoch, reason
    FROM (
        SELECT *, lag(producer_epoch) OVER (
                   PARTITION BY run, node, loads, transactional_id, coordinator_epoch, producer_id
                   ORDER BY seq) AS known
        FROM (
            SELECT *, count_if(transactional_id IS NULL) OVER (
                       PARTITION BY run, node ORDER BY seq) AS loads
            FROM (SELECT run, node, seq, transactional_id, coordinator_epoch, producer_id,
                         producer_epoch, reason FROM TransactionState
                  UNION ALL
                  SELECT run, node, seq, NULL, NULL, NULL, NULL, NULL FROM TransactionsLoaded))
        WHERE transactional_id IS NOT NULL)
    WHERE producer_epoch - known > CASE WHEN reason IN ('init', 'end') THEN 1
                                        WHEN reason IN ('fence', 'timeout') THEN 2 ELSE 0 END""",
    "'needless-epoch'",
    "'%s raised the epoch of %s from %d to %d (%s)', node, transactional_id, known,"
    " producer_epoch, reason",
)

_RESTS_ON = f"""
    written_at AS (
        SELECT run, group, record_id, topic_id, partition, seq, base_offset + place AS offset
        FROM (SELECT run, topic_id, partition, seq, base_offset, record_ids, group FROM Appended
              JOIN (SELECT DISTINCT run, topic_id, topic AS output FROM TopicCreated)
                  USING (run, topic_id)
              JOIN processors USING (run, output))
        LATERAL VIEW posexplode(record_ids) AS place, record_id),
    sent AS (
        SELECT DISTINCT run, topic_id, partition, record_id, begun FROM transaction_rows
        WHERE what = 'sent'),
    places AS (
        SELECT run, group, record_id, min(seq) AS first_row, max(seq) AS last_row,
               collect_list({
    spot("topic_id", "partition", "offset", f"IF(transactional, {AT_END}, offset + 1)", after="seq")
})
                   AS places
        FROM written_at
        LEFT JOIN (SELECT DISTINCT run, topic_id, partition, record_id, true AS transactional
                   FROM sent) USING (run, topic_id, partition, record_id)
        GROUP BY run, group, record_id),
    decisions AS (
        SELECT run, group, record_id, collect_list({_DECIDED}) AS decisions
        FROM (SELECT DISTINCT run, group, record_id, topic_id, partition FROM written_at)
        JOIN sent USING (run, topic_id, partition, record_id)
        JOIN transactions USING (run, begun) {DECIDER}
        GROUP BY run, group, record_id),
    reset AS (
        SELECT run, group, flatten(collect_list(array(
                   {spot("topic_id", "partition", before="reset")},
                   {spot("home", "home_partition", before="reset")}))) AS resets
        FROM resets JOIN (SELECT DISTINCT run, topic_id, topic FROM TopicCreated)
            USING (run, topic_id)
        JOIN processors USING (run, group) {HOME}
        WHERE array_contains(topics, topic) GROUP BY run, group)"""
"""What each output rests on: where it was written, with the markers behind it; who decided on it;
and, where the group was reset, its positions and commits (judging/transactions/outputs.py)."""

OUTPUTS = offending(
    # A committed input of a processor has no readable output, or a record has more of them than
    # there were inputs with it.
    f"""
    WITH processors AS (SELECT DISTINCT run, group, topics, topic AS output FROM ProcessorStarted),
    written AS (
        SELECT run, group, record_id, count(1) AS times,
               max(struct(topic_id, partition, offset)) AS place
        FROM final_states
        JOIN (SELECT DISTINCT run, topic_id, topic AS output FROM TopicCreated)
            USING (run, topic_id)
        JOIN processors USING (run, output)
        WHERE state = 'committed' GROUP BY run, group, record_id),
    given AS (
        -- A record that its producer wrote twice is two inputs.
        SELECT run, group, record_id, count(DISTINCT topic_id, partition, offset) AS inputs
        FROM polled_records LEFT SEMI JOIN processors USING (run, group)
        GROUP BY run, group, record_id),
    {_RESTS_ON},
    {LED_BACK},
    {UNVERIFIED_OUTPUTS},
    {CARRIED_INPUTS},
    found AS (
        SELECT run, place.topic_id AS topic_id, place.partition AS partition, record_id, group,
               'duplicate-output' AS name,
               format_string('record %d was written %d times by %s', record_id, times, group)
                   AS story,
               CAST(NULL AS BIGINT) AS input,
               {WHY_AGAIN} AS excused
        FROM written LEFT JOIN given USING (run, group, record_id)
        LEFT JOIN told USING (run, group, record_id)
        LEFT JOIN forgotten USING (run, group, record_id)
        LEFT JOIN started_again USING (run, group, record_id)
        LEFT JOIN unverified USING (run, group, record_id)
        WHERE times > coalesce(inputs, 1)
        UNION ALL
        SELECT run, topic_id, partition, record_id, group, 'lost-output',
               format_string('%s committed past record %d at offset %d without an output', group,
                             record_id, offset), offset,
               coalesce(nullif({GIVEN_BACK}, ''), {CARRIED})
        FROM (SELECT run, topic_id, partition, record_id, offset FROM final_states
              WHERE state = 'committed')
        JOIN (SELECT DISTINCT run, topic_id, topic FROM TopicCreated) USING (run, topic_id)
        JOIN processors USING (run)
        JOIN (SELECT run, group, topic_id, partition, max_by(offset, seq) AS end FROM commits_of
              GROUP BY run, group, topic_id, partition) USING (run, group, topic_id, partition)
        JOIN (SELECT run, topic_id, partition, group, min(offset) AS first FROM Positioned
              WHERE reason != 'none' GROUP BY run, topic_id, partition, group)
            USING (run, topic_id, partition, group)
        LEFT ANTI JOIN written USING (run, group, record_id)
        LEFT ANTI JOIN gone_over USING (run, topic_id, partition, group, offset)
        LEFT JOIN (SELECT DISTINCT run, topic AS output, record_id, true AS back
                   FROM given_back_records
                   JOIN (SELECT DISTINCT run, topic_id, topic FROM TopicCreated)
                       USING (run, topic_id)) USING (run, output, record_id)
        LEFT JOIN carried_inputs USING (run, group, topic, partition, record_id)
        WHERE array_contains(topics, topic) AND offset >= first AND offset < end)
    SELECT run, topic_id, partition, record_id AS seq, name, array(group) AS groups, story, excused,
           concat(coalesce(places, {NO_SPOTS}), coalesce(decisions, {NO_SPOTS}),
                  coalesce(resets, {NO_SPOTS}),
                  array(IF(name = 'lost-output',
                           {spot("topic_id", "partition", "input", "input + 1")},
                           {
        spot("home", "home_partition", after="first_row", before="last_row")
    }))) AS spots
    FROM found
    LEFT JOIN places USING (run, group, record_id)
    LEFT JOIN decisions USING (run, group, record_id)
    LEFT JOIN reset USING (run, group) {HOME}""",
    "name",
    "'%s', story",
    "groups",
    about(shown=AT_END, excused="excused", spots="spots"),
)
