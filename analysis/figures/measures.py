"""What each run amounts to in figures, from its facts: one row a run, by Spark SQL.

    with measuring(open_stored(spark, place)) as stored:
        figures = spark.sql(MEASURES).join(stored.runs_table(), "run")

Everything counts from the fact ``Phase(ready)`` to the end of the run. Each part groups by run and
is linear in the trace.

| column | what |
|---|---|
| minutes | simulated, from ready to the end |
| isr_changes, isr_changes_per_minute | changes of an ISR's members; user topics |
| isr_changes_by_reason | the changes a minute: reason to rate |
| under_replicated_s | partition seconds with fewer replicas in the ISR than assigned |
| under_min_isr_s, leaderless_s, unavailable_s | with fewer than min ISR; without leader; either |
| unclean_elections, controller_failovers | how many; failovers are elections after ready |
| latency_p50_ms, …p99, …p999, …max | of acknowledged records, from their batch's creation |
| acked_records, lost_records | acknowledged; of those, lost, as the judges have found |
| lost_per_million | of acknowledged records; null when none was acknowledged |
| duplicate_records | further copies in the final logs |
| redelivered_records | records that a group, or a share group, was given again |
| stranded_records | acknowledged records that no leader of any cluster has at the end |
| read_again_records | records that a group, in whichever cluster, was given once more |
| skipped_records | mirrored records that a group passed over when it failed over |
| processing_gap_s | the longest time in which a group processed nothing, in whichever cluster |
| failed_records | records whose callers got an error |
| controllerless_s | seconds without an active controller that lives and is not paused |
| rebalances, rebalance_downtime_s | generations; partition seconds of groups without owner |
| task_downtime_s | task seconds of Kafka Streams in which no instance ran the task |
| restored_bytes | of changelogs, read by active tasks of Kafka Streams before they ran |
| share_latency_p50_ms, …p99, …max | of records that share groups have accepted; null of none |

A partition of a group has no owner between two owners, and while its owner is dead or paused. The
share latency is the time from the append of a record until the member hears that its acceptance is
persisted; each share group that reads the record counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from kafkasim.analysis import queries
from kafkasim.analysis.load import views

if TYPE_CHECKING:
    from kafkasim.analysis.stored import Stored


def _tenures(events: str) -> str:
    """Return since when each thing is held by somebody who lives (``held``) or not, until when.

    ``events`` are a query with the columns run, seq, t_us, node, group, name and ``kind``: taken,
    given-up, and HostStopped, HostPaused and HostResumed of whoever took it at some time. Only what
    the last taker does counts. Of spans of one sort in a row the first begins.
    """
    return f"""
    SELECT run, group, name, t_us, held,
           lead(t_us) OVER (PARTITION BY run, group, name ORDER BY seq) AS until
    FROM (
        SELECT *, lag(held) OVER (PARTITION BY run, group, name ORDER BY seq) AS before
        FROM (
            SELECT *, kind IN ('taken', 'HostResumed') AS held,
                   last_value(IF(kind = 'taken', node, NULL), true) OVER
                       (PARTITION BY run, group, name ORDER BY seq) AS holder,
                   last_value(IF(kind IN ('taken', 'given-up', 'HostStopped'), kind, NULL), true)
                       OVER (PARTITION BY run, group, name, node ORDER BY seq) AS state
            FROM ({events}))
        WHERE node = holder
              AND (kind NOT IN ('HostPaused', 'HostResumed') OR state = 'taken'))
    WHERE before IS NULL OR before != held"""


HOSTS = """
    -- When processes ended, and when they stood still.
    SELECT run, seq, t_us, node, 'HostStopped' AS kind FROM HostStopped
    UNION ALL SELECT run, seq, t_us, node, 'HostPaused' FROM HostPaused
    UNION ALL SELECT run, seq, t_us, node, 'HostResumed' FROM HostResumed"""

OWNERSHIP = _tenures("""
    SELECT run, seq, t_us, node, group, name, 'taken' AS kind
    FROM ConsumerAssigned LATERAL VIEW explode(assignment) AS name
    UNION ALL
    SELECT run, seq, t_us, node, group, name, 'given-up'
    FROM ConsumerRevoked LATERAL VIEW explode(assignment) AS name
    UNION ALL
    SELECT run, seq, t_us, node, group, name, kind FROM hosts JOIN (
        SELECT DISTINCT run, node, group, name
        FROM ConsumerAssigned LATERAL VIEW explode(assignment) AS name) USING (run, node)""")

LEADERSHIP = _tenures("""
    SELECT run, seq, t_us, node, '' AS group, '' AS name, IF(active, 'taken', 'given-up') AS kind
    FROM ControllerActive
    UNION ALL
    SELECT run, seq, t_us, node, '', '', kind
    FROM hosts JOIN (SELECT DISTINCT run, node FROM ControllerActive) USING (run, node)""")

TASK_OWNERSHIP = _tenures("""
    SELECT run, seq, t_us, node, group, task AS name,
           IF(state = 'RUNNING', 'taken', 'given-up') AS kind
    FROM TaskState WHERE role = 'active'
    UNION ALL
    SELECT run, seq, t_us, node, group, name, kind FROM hosts JOIN (
        SELECT DISTINCT run, node, group, task AS name
        FROM TaskState WHERE role = 'active') USING (run, node)""")

SHARE_ACCEPTED = """
    -- When the member of a share group first heard that its acceptance of a record is persisted.
    SELECT run, group, topic_id, partition, told.offsets AS offset, min(t_us) AS accepted_us
    FROM ShareAcknowledged LATERAL VIEW explode(arrays_zip(offsets, types)) AS told
    WHERE error = 'NONE' AND told.types = 1
    GROUP BY run, group, topic_id, partition, told.offsets"""

VIEWS = {
    **queries.VIEWS,
    "hosts": HOSTS,
    "ownership": OWNERSHIP,
    "leadership": LEADERSHIP,
    "task_ownership": TASK_OWNERSHIP,
    "share_accepted": SHARE_ACCEPTED,
}

_DEGRADED = "size(isr) < size(replicas) - size(coalesce(adding_replicas, array()))"

_PARTITIONS = f"""
    SELECT run,
           sum(IF({_DEGRADED}, lasted, 0)) AS under_replicated_s,
           sum(IF(size(isr) < needed, lasted, 0)) AS under_min_isr_s,
           sum(IF(leader = -1, lasted, 0)) AS leaderless_s,
           sum(IF(leader = -1 OR size(isr) < needed, lasted, 0)) AS unavailable_s,
           count_if(unclean AND t_us >= ready_us) AS unclean_elections
    FROM partition_spans GROUP BY run"""

_ISR = """
    SELECT run, sum(changes) AS isr_changes,
           map_from_entries(sort_array(collect_list(struct(reason, changes)))) AS by_reason
    FROM (
        SELECT run, reason, count(1) AS changes FROM partition_spans
        WHERE t_us >= ready_us AND array_sort(before) != array_sort(isr)
              AND NOT startswith(topic, '__')
        GROUP BY run, reason)
    GROUP BY run"""

_CONTROLLERS = """
    SELECT run, count(1) AS controller_failovers
    FROM ControllerActive JOIN clock USING (run)
    WHERE active AND t_us >= ready_us GROUP BY run"""

_LATENCY = """
    SELECT run, max(latency_us) / 1e3 AS latency_max_ms, sum(size(record_ids)) AS acked_records,
           percentile(latency_us, array(0.5, 0.99, 0.999), size(record_ids)) AS ranks
    FROM Acked GROUP BY run"""

_LOST = """
    SELECT run, sum(count) AS lost_records FROM findings WHERE name = 'lost-write' GROUP BY run"""

_COPIES = """
    SELECT run, sum(size(record_ids) - size(array_distinct(record_ids))) AS duplicate_records
    FROM final_leaders GROUP BY run"""

_REDELIVERED = """
    SELECT run, sum(times - 1) AS redelivered_records FROM (
        SELECT run, count(1) AS times
        FROM (SELECT run, group, topic_id, partition, offsets FROM Polled
              UNION ALL
              SELECT run, group, topic_id, partition, offsets FROM SharePolled)
        LATERAL VIEW explode(offsets) AS offset
        GROUP BY run, group, topic_id, partition, offset HAVING count(1) > 1)
    GROUP BY run"""

_STRANDED = """
    SELECT run, count(DISTINCT record_id) AS stranded_records
    FROM (SELECT run, topic_id, partition, record_id,
                 IF(base_offset < 0, -1, base_offset + place) AS offset
          FROM Acked LATERAL VIEW posexplode(record_ids) AS place, record_id)
    LEFT SEMI JOIN (SELECT run, topic_id FROM topics
                    WHERE NOT startswith(topic, '__') AND NOT endswith(topic, '.internal'))
        USING (run, topic_id)
    LEFT JOIN (SELECT run, topic_id, partition, log_start_offset FROM final_leaders)
        USING (run, topic_id, partition)
    LEFT ANTI JOIN (SELECT run, explode(record_ids) AS record_id FROM final_leaders)
        USING (run, record_id)
    LEFT ANTI JOIN Cleaned USING (run, topic_id, partition)
    WHERE offset < 0 OR offset >= coalesce(log_start_offset, 0)
    GROUP BY run"""

_READ_AGAIN = """
    SELECT run, sum(times - 1) AS read_again_records FROM (
        SELECT run, count(1) AS times
        FROM Polled LATERAL VIEW explode(record_ids) AS record_id
        WHERE group != '' GROUP BY run, group, record_id HAVING count(1) > 1)
    GROUP BY run"""

_SKIPPED = """
    SELECT run, sum(count) AS skipped_records
    FROM findings WHERE name = 'skipped-at-failover' GROUP BY run"""

_PROCESSING = """
    SELECT run, max(t_us - before) / 1e6 AS processing_gap_s
    FROM (SELECT run, t_us, lag(t_us) OVER (PARTITION BY run, group ORDER BY seq) AS before
          FROM Processed)
    GROUP BY run"""

_SHARE_LATENCY = """
    SELECT run, max(waited_us) / 1e3 AS share_latency_max_ms,
           percentile(waited_us, array(0.5, 0.99)) AS share_ranks
    FROM (
        -- A record that was lost may have been appended before at the same offset.
        SELECT run, accepted_us - max(appended_us) AS waited_us
        FROM share_accepted JOIN (
            SELECT run, topic_id, partition, t_us AS appended_us,
                   explode(sequence(base_offset, next_offset - 1)) AS offset
            FROM Appended
            LEFT SEMI JOIN (SELECT DISTINCT run, topic_id FROM share_accepted)
                USING (run, topic_id)) USING (run, topic_id, partition, offset)
        WHERE appended_us <= accepted_us
        GROUP BY run, group, topic_id, partition, offset, accepted_us)
    GROUP BY run"""

_FAILED = "SELECT run, sum(size(record_ids)) AS failed_records FROM SendFailed GROUP BY run"

_REBALANCES = """
    SELECT run, count(DISTINCT group, generation) AS rebalances FROM Rebalanced GROUP BY run"""

_VACANT = "sum(greatest(0, coalesce(until, end_us) - greatest(t_us, ready_us))) / 1e6"

_DOWNTIME = f"""
    SELECT run, {_VACANT} AS rebalance_downtime_s
    FROM ownership JOIN clock USING (run) WHERE NOT held GROUP BY run"""

_CONTROLLERLESS = f"""
    SELECT run, {_VACANT} AS controllerless_s
    FROM leadership JOIN clock USING (run) WHERE NOT held GROUP BY run"""

_TASKS = f"""
    SELECT run, {_VACANT} AS task_downtime_s
    FROM task_ownership JOIN clock USING (run) WHERE NOT held GROUP BY run"""

_RESTORED = """
    SELECT run, sum(size_bytes) AS restored_bytes
    FROM Restored WHERE role = 'active' GROUP BY run"""

_PARTS = (
    _PARTITIONS, _ISR, _CONTROLLERS, _LATENCY, _LOST, _COPIES, _REDELIVERED, _FAILED, _REBALANCES,
    _DOWNTIME, _CONTROLLERLESS, _SHARE_LATENCY, _TASKS, _RESTORED, _STRANDED, _READ_AGAIN, _SKIPPED,
    _PROCESSING,
)  # fmt: skip

MEASURES = f"""
    SELECT run, (end_us - ready_us) / 60e6 AS minutes,
           coalesce(isr_changes, 0) AS isr_changes,
           coalesce(isr_changes, 0) * 60e6 / (end_us - ready_us) AS isr_changes_per_minute,
           transform_values(coalesce(by_reason, map()),
                            (reason, changes) -> changes * 60e6 / (end_us - ready_us))
               AS isr_changes_by_reason,
           coalesce(under_replicated_s, 0D) AS under_replicated_s,
           coalesce(under_min_isr_s, 0D) AS under_min_isr_s,
           coalesce(leaderless_s, 0D) AS leaderless_s,
           coalesce(unavailable_s, 0D) AS unavailable_s,
           coalesce(unclean_elections, 0) AS unclean_elections,
           coalesce(controller_failovers, 0) AS controller_failovers,
           coalesce(controllerless_s, 0D) AS controllerless_s,
           ranks[0] / 1e3 AS latency_p50_ms, ranks[1] / 1e3 AS latency_p99_ms,
           ranks[2] / 1e3 AS latency_p999_ms, latency_max_ms,
           coalesce(acked_records, 0) AS acked_records, coalesce(lost_records, 0) AS lost_records,
           coalesce(lost_records, 0) * 1e6 / nullif(acked_records, 0) AS lost_per_million,
           coalesce(duplicate_records, 0) AS duplicate_records,
           coalesce(redelivered_records, 0) AS redelivered_records,
           coalesce(stranded_records, 0) AS stranded_records,
           coalesce(read_again_records, 0) AS read_again_records,
           coalesce(skipped_records, 0) AS skipped_records, processing_gap_s,
           coalesce(failed_records, 0) AS failed_records,
           coalesce(rebalances, 0) AS rebalances,
           coalesce(rebalance_downtime_s, 0D) AS rebalance_downtime_s,
           coalesce(task_downtime_s, 0D) AS task_downtime_s,
           coalesce(restored_bytes, 0) AS restored_bytes,
           share_ranks[0] / 1e3 AS share_latency_p50_ms,
           share_ranks[1] / 1e3 AS share_latency_p99_ms, share_latency_max_ms
    FROM clock {" ".join(f"LEFT JOIN ({part}) USING (run)" for part in _PARTS)}
    WHERE ready_us IS NOT NULL"""
"""The measures of all runs that got ready, as a query inside :func:`measuring`."""


@contextmanager
def measuring(stored: Stored) -> Iterator[Stored]:
    """Provide the views that :data:`MEASURES` reads, for as long as the context lasts."""
    with views(stored, VIEWS, [MEASURES]):
        yield stored
