"""The audit over tiers: how many records of each window of event time came to each of them.

Audits such as LinkedIn's and Chaperone have every tier publish a count for each topic and window of
event time, and compare the counts once all tiers are past the window. Here a stored run is
compared, and the ids of records stand beside the counts, so that a loss and a double in one window
do not cancel:

    producer ──▶ cluster a ──▶ mirror a->b ──▶ cluster b ──▶ mirror b->c ──▶ cluster c ──▶ group

A record belongs to the topic and cluster that its producer sent it to, and to the window in which
its batch was created, also where it comes late or under another name (a.orders). A cluster of which
no leader is left at the end is no tier. A group is one tier, in whichever clusters it reads, and so
are all workers of a mirror. Left out: a cluster that a record reaches in two ways has it twice.
"""

from __future__ import annotations

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from kafkasim.analysis import queries
from kafkasim.analysis.load import views

if TYPE_CHECKING:
    from kafkasim.analysis.stored import Stored

PRODUCER = "producer"

CLUSTER = "IF(contains(node, '.'), substring_index(node, '.', 1), '')"
"""The cluster of a host, "" where a run has one without a name."""

SENT = f"""
    -- What producers were told is written, by the time of its batch.
    SELECT run, record_id, min(cluster) AS home, min(topic) AS topic, min(event_us) AS event_us
    FROM (SELECT run, topic_id, {CLUSTER} AS cluster, t_us - latency_us AS event_us,
                 explode(record_ids) AS record_id
          FROM Acked WHERE NOT startswith(node, 'mirror-'))
    JOIN (SELECT run, topic_id, topic FROM topics
          WHERE NOT startswith(topic, '__') AND NOT endswith(topic, '.internal'))
        USING (run, topic_id)
    GROUP BY run, record_id"""

STORED = f"""
    -- What leaders have at the end, and what has been deleted in front of that.
    SELECT run, record_id, {CLUSTER} AS cluster
    FROM final_leaders LATERAL VIEW explode(record_ids) AS record_id
    UNION ALL
    SELECT run, record_id, cluster
    FROM (SELECT run, topic_id, partition, record_id, base_offset + place AS offset
          FROM Acked LATERAL VIEW posexplode(record_ids) AS place, record_id
          WHERE base_offset >= 0)
    JOIN (SELECT run, topic_id, partition, {CLUSTER} AS cluster, log_start_offset
          FROM final_leaders) USING (run, topic_id, partition)
    LEFT ANTI JOIN (SELECT run, topic_id, partition, explode(record_ids) AS record_id
                    FROM final_leaders) USING (run, topic_id, partition, record_id)
    WHERE offset < log_start_offset"""

PLACES = f"""
    -- The clusters of users' topics.
    SELECT DISTINCT run, topic_id, {CLUSTER} AS cluster FROM TopicCreated
    WHERE NOT startswith(topic, '__') AND NOT endswith(topic, '.internal')
        AND NOT endswith(topic, 'heartbeats')"""

FLOWS = """
    -- What each worker of a mirror reads and writes.
    SELECT run, node, source, concat('mirror ', source, '->', coalesce(target, '?')) AS tier, target
    FROM (SELECT DISTINCT run, node, cluster AS source
          FROM Polled JOIN audit_places USING (run, topic_id) WHERE startswith(node, 'mirror-'))
    LEFT JOIN (SELECT DISTINCT run, node, cluster AS target
               FROM Acked JOIN audit_places USING (run, topic_id)
               WHERE startswith(node, 'mirror-')) USING (run, node)"""

READ = """
    SELECT run, record_id, IF(group = '', tier, concat('group ', group)) AS tier
    FROM Polled LEFT JOIN audit_flows USING (run, node)
    LATERAL VIEW explode(record_ids) AS record_id
    WHERE group != '' OR tier IS NOT NULL"""

AUDIT = """
    -- Records by window, and by how often each tier has them.
    SELECT run, home, topic, window, copies, count(1) AS records FROM (
        SELECT run, home, topic, window, record_id,
               array_sort(collect_list(struct(tier, times))) AS copies
        FROM (
            SELECT run, home, topic, record_id, tier, count(1) AS times,
                   CAST(floor((event_us - ready_us) / {window_us}) AS INT) AS window
            FROM (SELECT run, record_id, 'producer' AS tier FROM audit_sent
                  UNION ALL
                  SELECT run, record_id, trim(concat('cluster ', cluster)) FROM audit_stored
                  UNION ALL SELECT run, record_id, tier FROM audit_read)
            JOIN audit_sent USING (run, record_id) JOIN clock USING (run)
            GROUP BY run, home, topic, record_id, tier, event_us, ready_us)
        GROUP BY run, home, topic, window, record_id)
    GROUP BY run, home, topic, window, copies"""

VIEWS = {
    **queries.VIEWS, "audit_sent": SENT, "audit_stored": STORED, "audit_places": PLACES,
    "audit_flows": FLOWS, "audit_read": READ,
}  # fmt: skip

ARROWS = f"""
    SELECT DISTINCT run, concat('group ', group) AS tier,
           trim(concat('cluster ', {CLUSTER})) AS source
    FROM Polled WHERE group != ''
    UNION SELECT run, tier, concat('cluster ', source) FROM audit_flows
    UNION SELECT run, concat('cluster ', target), tier FROM audit_flows WHERE target IS NOT NULL
    ORDER BY run, tier, source"""

Tier = tuple[int, str]  # how many tiers are before it, name
Sources = Mapping[tuple[str, str], Sequence[str]]
"""The tiers that a group, a mirror or a mirror's target gets records from, by run and tier."""


@dataclass
class Count:
    """What one tier has of a window."""

    records: int = 0
    lost: int = 0  # a tier before it has them, and it has not
    doubled: int = 0  # copies beyond those of the tiers before it


@dataclass
class Window:
    """One window of a topic of a run: the counts of the tiers, in their order.

    ``number`` counts windows from ready. ``home`` is the cluster of the topic's producers.
    """

    run: str
    home: str
    topic: str
    number: int
    counts: dict[Tier, Count] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """The topic, with its cluster if that has a name."""
        return f"{self.home}:{self.topic}" if self.home else self.topic

    def by_tier(self) -> dict[str, dict[str, int]]:
        """Return the counts by the name of the tier, in the order of the tiers."""
        return {name: asdict(count) for (_, name), count in self.counts.items()}

    def lines(self, seconds: float) -> Iterator[str]:
        """Yield a line for each tier that lost or doubled records of the window."""
        begin = self.number * seconds
        window = f"of {self.place}, {begin:g} s to {begin + seconds:g} s"
        for (_, tier), count in self.counts.items():
            for number, what in ((count.lost, "lost"), (count.doubled, "doubled")):
                if number:
                    yield f"{tier} {what} {number} records {window}"


def audit(stored: Stored, window_us: int) -> list[Window]:
    """Return all windows of the stored runs, by run, topic and time; ``window_us`` is the width."""
    text = AUDIT.format(window_us=window_us)
    with views(stored, VIEWS, [text, ARROWS]):
        rows = [row.asDict(recursive=True) for row in stored.spark.sql(text).collect()]
        arrows: dict[tuple[str, str], list[str]] = {}
        for row in stored.spark.sql(ARROWS).collect():
            arrows.setdefault((row["run"], row["tier"]), []).append(row["source"])
    return windows(rows, arrows)


def windows(rows: list[dict[str, Any]], arrows: Sources) -> list[Window]:
    """Return the windows that rows of :data:`AUDIT` amount to."""
    names: dict[tuple[str, str, str], dict[str, None]] = {}
    for row in rows:
        known = names.setdefault((row["run"], row["home"], row["topic"]), {})
        known.update({each["tier"]: None for each in row["copies"]})
    tiers = {
        topic: _Tiers(found, topic[0], f"cluster {topic[1]}".strip(), arrows)
        for topic, found in names.items()
    }
    found: dict[tuple[str, str, str, int], Window] = {}
    for row in rows:
        topic = (row["run"], row["home"], row["topic"])
        place = (*topic, row["window"])
        if place not in found:
            found[place] = Window(*place, {tier: Count() for tier in tiers[topic].in_order()})
        times = {each["tier"]: each["times"] for each in row["copies"]}
        for (_, tier), count in found[place].counts.items():
            had = [times.get(each, 0) for each in tiers[topic].sources(tier)]
            has, most = times.get(tier, 0), max(had, default=1)
            count.records += row["records"] * (has > 0)
            count.lost += row["records"] * (most > 0 and has == 0)
            count.doubled += row["records"] * max(0, has - max(most, 1))
    return [found[place] for place in sorted(found)]


class _Tiers:
    """The tiers of one topic that have a count, and where each gets its records from."""

    def __init__(self, names: Container[str], run: str, home: str, arrows: Sources) -> None:
        self._names = names
        self._before = {tier: each for (of, tier), each in arrows.items() if of == run}
        self._before |= {PRODUCER: (), home: (PRODUCER,)}

    def sources(self, tier: str) -> list[str]:
        """Return the tiers before one; where they have no counts, the next ones that have."""
        before, seen = self._before.get(tier, ()), dict[str, None]()
        while before:
            found = [each for each in before if each in self._names]
            if found:
                return found
            seen.update(dict.fromkeys(before))
            deeper = [each for tier in before for each in self._before.get(tier, ())]
            before = [each for each in dict.fromkeys(deeper) if each not in seen]
        return []

    def in_order(self) -> list[Tier]:
        """Return the tiers by how many are before them, groups last."""
        depths, added = {PRODUCER: 0}, True
        while added:
            new = {
                tier: 1 + min(depths[each] for each in before if each in depths)
                for tier, before in self._before.items()
                if tier not in depths and any(each in depths for each in before)
            }
            depths |= new
            added = bool(new)
        last = len(self._before)
        every = [(last if t.startswith("group ") else depth, t) for t, depth in depths.items()]
        return sorted([each for each in every if each[1] in self._names])
