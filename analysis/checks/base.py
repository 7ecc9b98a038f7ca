"""The form of a check, and the views that checks read.

A check is one SQL query over temporary views, with Spark's built-in functions only. There is a
view for each kind of fact, named after it (``Acked``, ``Polled``, …; columns run, seq, t_us, node
and the fact's own), and there are the views of ``SHARED``. A check returns the offending rows of
all runs, each with the anomaly, the consumer groups concerned and a text; the verdict sums them up.
A check is linear in the trace and works per run and partition. (A frame that ends with UNBOUNDED
FOLLOWING is not: Spark computes it anew for each row. Sort the other way and look back.) Almost all
partitions are in order, so the expensive checks first compare whole partitions, an array of record
ids or of batches at a time, and look at single records only where the arrays differ.

Checks are SQL and not DataFrame calls because a text is parsed, analysed and planned once. Each
DataFrame call was analysed again through the gateway, which took most of the time of judging a
small fleet.
"""

from __future__ import annotations

from kafkasim.analysis.checks.cleaned.views import VIEWS as CLEANED_VIEWS
from kafkasim.analysis.checks.harm.disturbances import VIEWS as WAIT_VIEWS
from kafkasim.analysis.checks.harm.group_views import VIEWS as GROUP_VIEWS
from kafkasim.analysis.checks.harm.limits import BROKER_LIMITS
from kafkasim.analysis.checks.recreated.views import VIEWS as RECREATED_VIEWS

JUDGED_KINDS = (
    "Cleaned", "FinalCleaned", "KeysAppended",
    "Acked", "Appended", "ApplicationFailed", "AuditCounted", "AuditPublished", "BatchUnverified",
    "BecameFollower",
    "BecameLeader", "BrokerHeartbeat", "BrokerRegistration", "BrokerState", "ClockDrifted",
    "CommitResult", "ConfigChanged", "ConsumerAssigned", "ConsumerRevoked", "ControlRequest",
    "ControllerActive", "CoordinatorLoaded", "FaultEnded", "FaultStarted", "FinalOffset",
    "FinalReplica", "FinalResults", "GroupAssigned", "GroupConverted", "GroupState",
    "HangingSought", "HighWatermark", "HostPaused", "HostResumed", "HostStarted", "HostStopped",
    "IsrChanged",
    "IsrProposed", "KeySent", "LoadInProgress", "LogDeleted", "LogDirOffline", "LogLoaded",
    "LogPlaced", "LogStart", "MarkerSkipped", "MarkerWritten", "MemberIdReverted", "MemberRequest",
    "MetadataCommitted", "OffsetCommitted", "OffsetFetched", "OffsetsDeleted", "Operated",
    "PartitionChanged", "PartitionOwner", "Phase", "Polled", "Positioned", "PreferredReadReplica",
    "Processed", "ProcessorStarted", "ReadReplica", "ReadServed", "ReadsCommitted",
    "RebalanceAttempt", "Rebootstrapped",
    "ReplicaFailed", "Replicated", "SendFailed", "SequencesRewritten", "SessionEnded",
    "ShareAcknowledged", "ShareAcquired", "ShareGroupAssigned", "ShareGroupState", "ShareMoved",
    "SharePartitionLoaded", "ShareStartMoved", "ShareStateInitialized", "SubscribedByPattern",
    "Throttled", "TimeLimit", "TopicCreated", "TopicDeleted", "Truncated",
    "TransactionBegun", "TransactionEnded", "TransactionEnding", "TransactionOffsets",
    "TransactionSent", "TransactionState", "TransactionsLoaded", "VerificationSkipped",
    "ZkControllerWrite", "ZooKeeperConnection", "ZooKeeperRole", "ZooKeeperSession",
)  # fmt: skip
"""The kinds of fact that checks read; each is a view."""

NOBODY = "CAST(array() AS ARRAY<STRING>)"
"""The groups of a finding that concerns no consumer group."""


AT_END = "1L << 62"
"""The row of what only the final logs show."""


def about(
    offset: str = "-1",
    *,
    shown: str = "seq",
    promise: str = "-1",
    reset: str = "-1",
    batch_us: str = "CAST(NULL AS BIGINT)",
    weak: str = "false",
    excused: str = "''",
    spots: str | None = None,
) -> str:
    """Return the SQL of what decides whether a loss of records explains a row (verdict.py).

    Each argument is a SQL expression: the ``offset`` of the record concerned (−1 unknown or none),
    the row of the trace that has ``shown`` the anomaly, the row of the ``promise`` that is broken,
    the row of the last ``reset`` of the group's position, when the producer began the batch
    (``batch_us``, NULL where that decides nothing), and whether the record was acknowledged with
    acks=0 or 1 (``weak``). ``excused`` is why Kafka does so, as the rows themselves tell, '' for no
    reason. ``spots`` is an array of :func:`spot`.
    """
    values = {"offset": offset, "shown": shown, "promise": promise, "reset": reset,
              "batch_us": batch_us}  # fmt: skip
    fields = ", ".join(f"'{name}', CAST({value} AS BIGINT)" for name, value in values.items())
    told = f"'weak', {weak}, 'excused', {excused}"
    return f"named_struct({fields}, {told}, 'spots', {spots or NO_SPOTS})"


SPOT = (
    "STRUCT<topic_id: STRING, partition: BIGINT, first: BIGINT, end: BIGINT, after: BIGINT,"
    " before: BIGINT, part: STRING>"
)
NO_SPOTS = f"CAST(array() AS ARRAY<{SPOT}>)"
"""Nothing that a loss in another partition could explain."""


def spot(
    topic_id: str,
    partition: str,
    first: str = "0",
    end: str = AT_END,
    *,
    after: str = "-1",
    before: str = AT_END,
    part: str = "''",
) -> str:
    """Return the SQL of records on which something rests: a legal loss of them explains it.

    They are those of the offsets from ``first`` to before ``end``, if they were lost between the
    rows ``after`` and ``before`` (``analysis/judging/transactions/footing.py``). A finding may
    have several parts: then a loss explains it only if losses explain each ``part``.
    """
    values = (topic_id, partition, first, end, after, before, part)
    names = ("topic_id", "partition", "first", "end", "after", "before", "part")
    fields = ", ".join(f"'{name}', {value}" for name, value in zip(names, values))
    return f"CAST(named_struct({fields}) AS {SPOT})"


NO_SPOT = spot("CAST(NULL AS STRING)", "CAST(NULL AS BIGINT)", part="'none'")
"""A part of a finding that no loss explains."""


def rests_on(*spots: tuple[str, str]) -> str:
    """Return the SQL of an array of spots, each with the condition under which it counts."""
    given = ", ".join(f"IF({condition}, {one}, NULL)" for condition, one in spots)
    return f"filter(array({given}), one -> one IS NOT NULL)"


def offending(
    found: str, anomaly: str, detail: str, groups: str = NOBODY, place: str | None = None
) -> str:
    """Return the query of a check.

    ``found`` is a query with the columns run, topic_id, partition and seq; of several rows of one
    partition the verdict shows the text of the one with the lowest seq. ``anomaly``, ``detail``,
    ``groups`` and ``place`` (see :func:`about`) are SQL expressions over its columns.
    """
    return f"""
        SELECT run, topic_id, partition, seq, {anomaly} AS anomaly, {groups} AS groups,
               format_string({detail}) AS detail, {place or about()} AS place
        FROM ({found})"""


FINAL_LEADERS = """
    -- The FinalReplica of each partition's leader: the one of the highest leader epoch.
    -- Its log starts where DeleteRecords or retention has ended: a leader that crashes soon after
    -- has those records again, because the log start's checkpoint is written once a minute.
    SELECT * EXCEPT (own_start, trimmed), greatest(own_start, trimmed) AS log_start_offset FROM (
        SELECT * EXCEPT (log_start_offset), log_start_offset AS own_start, row_number() OVER (
            PARTITION BY run, topic_id, partition ORDER BY leader_epoch DESC) AS rank
        FROM FinalReplica WHERE leading)
    LEFT JOIN (
        SELECT run, topic_id, partition, max(offset) AS trimmed FROM LogStart
        WHERE reason IN ('delete-records', 'retention') GROUP BY run, topic_id, partition)
        USING (run, topic_id, partition)
    WHERE rank = 1"""

FINAL_RECORDS = """
    -- What the final leaders hold, as record_id and offset. record_counts cuts record_ids into
    -- batches, and a batch is dense from its base offset. Records below the log start only wait to
    -- be deleted with their segment.
    SELECT run, topic_id, partition, record_id, offset FROM (
        SELECT run, topic_id, partition, log_start_offset, record_ids,
               flatten(transform(arrays_zip(base_offsets, record_counts), batch ->
                   IF(batch.record_counts > 0,
                      sequence(batch.base_offsets, batch.base_offsets + batch.record_counts - 1),
                      CAST(array() AS ARRAY<BIGINT>)))) AS offsets
        FROM final_leaders)
    LATERAL VIEW inline(arrays_zip(record_ids, offsets)) AS record_id, offset
    WHERE offset >= log_start_offset"""

ACKED_RECORDS = """
    -- Acknowledged records, with offset −1 where it is unknown.
    SELECT run, topic_id, partition, seq, record_id, t_us - latency_us AS batch_us,
           acks != -1 AS weak, IF(base_offset >= 0, base_offset + place, -1) AS offset
    FROM Acked LATERAL VIEW posexplode(record_ids) AS place, record_id"""

POLLED_RECORDS = """
    SELECT run, topic_id, partition, seq, node, group, member_id, offset, record_id
    FROM Polled LATERAL VIEW inline(arrays_zip(offsets, record_ids)) AS offset, record_id"""

FIRST_POSITIONS = """
    -- Where each group began to read each partition; a reset to latest gives up what is below.
    SELECT run, topic_id, partition, group,
           greatest(min(offset), max(IF(reason = 'latest', offset, 0))) AS start
    FROM Positioned WHERE reason != 'none'
    GROUP BY run, topic_id, partition, group"""

RESETS_POSITION = "reason IN ('earliest', 'latest', 'truncation')"
"""The reasons of a position that is another than the one that the group has committed."""

RESETS = f"""
    -- What set a group's position in a partition otherwise than its commits do: the last row, and
    -- each one with the offset to which it moved the group.
    SELECT run, topic_id, partition, group, max(seq) AS reset,
           collect_list(struct(offset AS to, seq AS row)) AS moves
    FROM Positioned WHERE {RESETS_POSITION}
    GROUP BY run, topic_id, partition, group"""

PARTITION_CHANGES = """
    -- The committed changes, each metadata record once.
    SELECT * FROM (
        SELECT *, row_number() OVER (
            PARTITION BY run, topic_id, partition, partition_epoch ORDER BY seq) AS times
        FROM PartitionChanged)
    WHERE times = 1"""

ISR_CHANGES = """
    -- The changes, and whom each lets into the ISR. A ZooKeeper controller writes a partition at a
    -- time, so who was there before is not judged; nor is what a leader wrote without it.
    SELECT changes.*, zk.run IS NOT NULL AS zookeeper,
           CASE WHEN zk.run IS NULL THEN isr
                WHEN writes.run IS NULL THEN filter(isr, broker -> false)
                ELSE filter(isr, broker -> before IS NULL OR NOT array_contains(before, broker))
           END AS joined
    FROM (SELECT *, lag(isr) OVER earlier AS before, lag(leader) OVER earlier AS led_before
          FROM partition_changes
          WINDOW earlier AS (PARTITION BY run, topic_id, partition ORDER BY partition_epoch))
        AS changes
    LEFT JOIN (SELECT DISTINCT run FROM ZkControllerWrite) AS zk ON changes.run = zk.run
    LEFT JOIN (SELECT DISTINCT run, offset FROM ZkControllerWrite) AS writes
        ON changes.run = writes.run AND changes.offset = writes.offset"""

CONTESTED = """
    -- The offsets at which leaders appended more than once, in the partitions of which a check asks
    -- what stands: there a leader has truncated what another one wrote.
    SELECT DISTINCT run, topic_id, partition, offset
    FROM (SELECT run, topic_id, partition, base_offset, next_offset,
                 max(next_offset) OVER (
                     PARTITION BY run, topic_id, partition ORDER BY seq
                     ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached
          FROM Appended
          LEFT SEMI JOIN (SELECT run, topic_id, partition FROM MarkerWritten
                          UNION SELECT run, topic_id, partition FROM KeysAppended)
              USING (run, topic_id, partition))
    LATERAL VIEW explode(sequence(base_offset, least(next_offset, reached) - 1)) AS offset
    WHERE base_offset < reached"""

REWRITTEN = """
    -- What leaders appended and followers copied at those offsets.
    SELECT run, topic_id, partition, offset, seq, node, epoch, appended
    FROM (SELECT run, topic_id, partition, seq, node, epoch, appended,
                 explode(sequence(greatest(base_offset, low), least(next_offset - 1, high)))
                     AS offset
          FROM (SELECT run, topic_id, partition, seq, node, leader_epoch AS epoch,
                       base_offset, next_offset, true AS appended FROM Appended
                UNION ALL
                SELECT run, topic_id, partition, seq, node, batch_epoch, base_offset,
                       next_offset, false FROM Replicated)
          JOIN (SELECT run, topic_id, partition, min(offset) AS low, max(offset) AS high
                FROM contested GROUP BY run, topic_id, partition)
              USING (run, topic_id, partition)
          WHERE base_offset <= high AND next_offset > low)
    LEFT SEMI JOIN contested USING (run, topic_id, partition, offset)"""

KEPT_BATCHES = """
    -- Which of the batches at such an offset each later leader had: its log has what it wrote or
    -- copied there last. A replica that was deposed and is elected again before it has fetched has
    -- truncated nothing (judging/history/contents.py).
    SELECT run, topic_id, partition, offset, elected AS rank, seq AS since, had AS epoch
    FROM (SELECT *, last_value(epoch, true) OVER (
              PARTITION BY run, topic_id, partition, offset, node ORDER BY seq) AS had
          FROM (SELECT run, topic_id, partition, offset, seq, node, epoch,
                       CAST(NULL AS BIGINT) AS elected FROM rewritten
                UNION ALL
                SELECT run, topic_id, partition, offset, seq, node, NULL, leader_epoch
                FROM BecameLeader JOIN contested USING (run, topic_id, partition)
                WHERE offset < start_offset))
    WHERE elected IS NOT NULL"""

OUTDATED = """
    -- Where leaders of several epochs appended at one offset: the epochs of the batches that were
    -- truncated. The one of the highest epoch stands, unless a later leader had another one there.
    WITH batches AS (
        SELECT DISTINCT run, topic_id, partition, offset, epoch FROM rewritten WHERE appended
    ), standing AS (
        SELECT run, topic_id, partition, offset, max_by(epoch, rank) AS stands
        FROM (SELECT run, topic_id, partition, offset, epoch AS rank, epoch FROM batches
              UNION ALL
              SELECT run, topic_id, partition, offset, rank, epoch
              FROM kept_batches LEFT SEMI JOIN batches
                  USING (run, topic_id, partition, offset, epoch))
        GROUP BY run, topic_id, partition, offset)
    SELECT run, topic_id, partition, offset, epoch AS leader_epoch
    FROM batches JOIN standing USING (run, topic_id, partition, offset)
    WHERE epoch != stands"""

NO_OUTDATED = """
    SELECT CAST(NULL AS STRING) AS run, CAST(NULL AS STRING) AS topic_id,
           CAST(NULL AS BIGINT) AS partition, CAST(NULL AS BIGINT) AS offset,
           CAST(NULL AS BIGINT) AS leader_epoch
    WHERE false"""
"""The same where nobody asks what stands at an offset."""

CONTENTS = """
    -- What leaders appended at each offset of the partitions in which transactions ended: a marker,
    -- or a record and whether it was aborted. The next marker of its producer decides that; of what
    -- was truncated, the next one of its epoch before others. Of several rows about one offset
    -- the one of the highest age stands; before some row, that of those with since below it.
    SELECT run, topic_id, partition, offset,
           struct(known.rank AS rank, known.since AS since, appended) AS age, appended,
           committed IS NOT NULL AS marker,
           committed IS NULL AND NOT coalesce(IF(gone, coalesce(nearby, next), fate), true)
               AS aborted
    FROM (SELECT *, last_value(IF(gone, NULL, committed), true) OVER behind AS fate,
                 last_value(committed, true) OVER behind AS next,
                 last_value(committed, true) OVER (
                     PARTITION BY run, topic_id, partition, producer_id, leader_epoch
                     ORDER BY offset DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)
                     AS nearby
          FROM (SELECT run, topic_id, partition, seq AS appended, leader_epoch, producer_id, offset
                FROM Appended
                LEFT SEMI JOIN (SELECT DISTINCT run, topic_id, partition FROM MarkerWritten)
                    USING (run, topic_id, partition)
                LATERAL VIEW explode(sequence(base_offset, next_offset - 1)) AS offset)
          LEFT JOIN (SELECT *, true AS gone FROM outdated)
              USING (run, topic_id, partition, offset, leader_epoch)
          LEFT JOIN (SELECT run, topic_id, partition, offset, leader_epoch,
                            any_value(committed) AS committed
                     FROM MarkerWritten GROUP BY run, topic_id, partition, offset, leader_epoch)
              USING (run, topic_id, partition, offset, leader_epoch)
          WINDOW behind AS (
              PARTITION BY run, topic_id, partition, producer_id
              ORDER BY offset DESC, leader_epoch DESC
              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING))
    LEFT JOIN (SELECT run, topic_id, partition, offset, epoch AS leader_epoch,
                      collect_list(struct(rank, since)) AS later
               FROM kept_batches GROUP BY run, topic_id, partition, offset, epoch)
        USING (run, topic_id, partition, offset, leader_epoch)
    LATERAL VIEW explode(concat(
        array(struct(leader_epoch AS rank, appended AS since)),
        coalesce(filter(later, one -> one.since > appended), array()))) AS known"""

NO_CONTENTS = """
    -- The same where no transaction has ended: planned at once.
    SELECT CAST(NULL AS STRING) AS run, CAST(NULL AS STRING) AS topic_id,
           CAST(NULL AS BIGINT) AS partition, CAST(NULL AS BIGINT) AS offset,
           CAST(NULL AS STRUCT<rank: BIGINT, since: BIGINT, appended: BIGINT>) AS age,
           CAST(NULL AS BIGINT) AS appended, false AS marker, false AS aborted
    WHERE false"""

HOLES = """
    -- Offsets that hold nothing for readers: a marker; or an aborted record, for read_committed.
    SELECT run, topic_id, partition, offset, max_by(marker, age) AS marker,
           max_by(aborted, age) AS aborted
    FROM contents GROUP BY run, topic_id, partition, offset
    HAVING max_by(marker OR aborted, age)"""

COMMITTED_ONLY = """
    -- The members, by host and group, that read committed records only.
    SELECT DISTINCT run, node, group, true AS only FROM ReadsCommitted"""

COMMITTED_PARTS = """
    -- The partitions of each group that such a member had: what the group has missed there is
    -- judged as for a reader of committed records.
    SELECT DISTINCT run, topic_id, partition, group, true AS only
    FROM Positioned LEFT SEMI JOIN ReadsCommitted USING (run, node, group)
    WHERE reason != 'none'"""

TOPICS = """
    -- needed: the minimum of in-sync replicas with which the topic was created.
    SELECT DISTINCT run, topic, topic_id, least(min_isr, replication_factor) AS needed
    FROM TopicCreated"""


def partition_for(name: str) -> str:
    """Return the SQL of the partition of a coordinators' topic that holds a name.

    It is String.hashCode of the name, of which Utils.abs takes the absolute value
    (model/coordinator/hashing.py).
    """
    hash_code = (
        f"aggregate(split({name}, ''), 0L, (h, c) -> (31 * h + ascii(c)) % 4294967296, h ->"
        " IF(h >= 2147483648, 4294967296 - h, h) & 2147483647)"
    )
    return f"pmod({hash_code}, partitions)"


_COORDINATED = """
    SELECT run, topic, min(topic_id) AS topic_id, max(partitions) AS partitions FROM TopicCreated
    WHERE topic IN ('__consumer_offsets', '__transaction_state') GROUP BY run, topic"""

HOMES = f"""
    -- The partition of __consumer_offsets that holds each group.
    SELECT run, group, topic_id, {partition_for("group")} AS partition
    FROM (SELECT run, group FROM GroupState UNION SELECT run, group FROM MemberRequest
          UNION SELECT run, group FROM OffsetCommitted UNION SELECT run, group FROM ProcessorStarted
          UNION SELECT run, group FROM TransactionOffsets)
    JOIN ({_COORDINATED}) USING (run) WHERE topic = '__consumer_offsets'"""

HOME = """
    LEFT JOIN (SELECT run, group, topic_id AS home, partition AS home_partition FROM homes)
        USING (run, group)"""
"""Joins each group's partition of __consumer_offsets."""

DECIDERS = f"""
    -- The partition of __transaction_state that holds each transactional id.
    SELECT run, transactional_id, topic_id, {partition_for("transactional_id")} AS partition
    FROM (SELECT DISTINCT run, transactional_id FROM TransactionBegun)
    JOIN ({_COORDINATED}) USING (run) WHERE topic = '__transaction_state'"""

SHARED = {
    "broker_limits": BROKER_LIMITS,
    "final_leaders": FINAL_LEADERS,
    "final_records": FINAL_RECORDS,
    "acked_records": ACKED_RECORDS,
    "polled_records": POLLED_RECORDS,
    "first_positions": FIRST_POSITIONS,
    "resets": RESETS,
    "partition_changes": PARTITION_CHANGES,
    "isr_changes": ISR_CHANGES,
    "contested": CONTESTED,
    "rewritten": REWRITTEN,
    "kept_batches": KEPT_BATCHES,
    "outdated": OUTDATED,
    "contents": CONTENTS,
    "holes": HOLES,
    "committed_only": COMMITTED_ONLY,
    "committed_parts": COMMITTED_PARTS,
    "topics": TOPICS,
    **RECREATED_VIEWS,
    "homes": HOMES,
    "deciders": DECIDERS,
    **CLEANED_VIEWS,
    **WAIT_VIEWS,
    **GROUP_VIEWS,
}
"""Views that several checks read, by name, each after those it reads itself. ``runs`` is the table
of that name, as far as one of them asks for it."""
