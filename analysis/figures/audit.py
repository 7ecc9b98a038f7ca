"""The audit over tiers: how many records of each window of event time came to each of them.

Audits such as LinkedIn's and Chaperone have every tier publish a count for each topic and window of
event time, and compare the counts once all tiers are past the window. Here a stored run is
compared, and the ids of records stand beside the counts, so that a loss and a double in one window
do not cancel:

    producer ──▶ cluster a ──▶ mirror-1 ──▶ cluster b ──▶ group

A record belongs to the topic and cluster that its producer sent it to, and to the window in which
its batch was created, also where it comes late or under another name (a.orders). A cluster of which
no leader is left at the end is no tier. A group is one tier, in whichever clusters it reads.
Left out: chains of mirrors.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from kafkasim.analysis import queries
from kafkasim.analysis.load import views

if TYPE_CHECKING:
    from kafkasim.analysis.stored import Stored

PRODUCER, GROUP = 0, 4
"""The ranks of tiers: 1 is the home cluster, 2 a mirror, 3 another cluster."""

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

READ = """
    SELECT run, record_id, IF(group = '', node, concat('group ', group)) AS tier,
           IF(group = '', 2, 4) AS rank
    FROM Polled LATERAL VIEW explode(record_ids) AS record_id
    WHERE group != '' OR startswith(node, 'mirror-')"""

AUDIT = """
    -- Records by window, and by how often each tier has them.
    SELECT run, home, topic, window, copies, count(1) AS records FROM (
        SELECT run, home, topic, window, record_id,
               array_sort(collect_list(struct(rank, tier, times))) AS copies
        FROM (
            SELECT run, home, topic, record_id, rank, tier, count(1) AS times,
                   CAST(floor((event_us - ready_us) / {window_us}) AS INT) AS window
            FROM (SELECT run, record_id, 'producer' AS tier, 0 AS rank FROM audit_sent
                  UNION ALL
                  SELECT run, record_id, trim(concat('cluster ', cluster)),
                         IF(cluster = home, 1, 3)
                  FROM audit_stored JOIN (SELECT run, record_id, home FROM audit_sent)
                      USING (run, record_id)
                  UNION ALL SELECT run, record_id, tier, rank FROM audit_read)
            JOIN audit_sent USING (run, record_id) JOIN clock USING (run)
            GROUP BY run, home, topic, record_id, rank, tier, event_us, ready_us)
        GROUP BY run, home, topic, window, record_id)
    GROUP BY run, home, topic, window, copies"""

VIEWS = {**queries.VIEWS, "audit_sent": SENT, "audit_stored": STORED, "audit_read": READ}

READERS = f"""
    SELECT DISTINCT run, concat('group ', group) AS tier,
           trim(concat('cluster ', {CLUSTER})) AS source
    FROM Polled WHERE group != ''"""

Tier = tuple[int, str]  # rank, name
Sources = Mapping[tuple[str, str], Container[str]]
"""The clusters in which a group reads, by run and tier."""


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
    with views(stored, VIEWS, [text, READERS]):
        rows = [row.asDict(recursive=True) for row in stored.spark.sql(text).collect()]
        read: dict[tuple[str, str], list[str]] = {}
        for row in stored.spark.sql(READERS).collect():
            read.setdefault((row["run"], row["tier"]), []).append(row["source"])
    return windows(rows, read)


def windows(rows: list[dict[str, Any]], read: Sources) -> list[Window]:
    """Return the windows that rows of :data:`AUDIT` amount to."""
    tiers: dict[tuple[str, str, str], dict[Tier, None]] = {}
    for row in rows:
        known = tiers.setdefault((row["run"], row["home"], row["topic"]), {})
        known.update({(each["rank"], each["tier"]): None for each in row["copies"]})
    found: dict[tuple[str, str, str, int], Window] = {}
    for row in rows:
        topic = (row["run"], row["home"], row["topic"])
        place = (*topic, row["window"])
        if place not in found:
            found[place] = Window(*place, {tier: Count() for tier in sorted(tiers[topic])})
        times = {(each["rank"], each["tier"]): each["times"] for each in row["copies"]}
        for tier, count in found[place].counts.items():
            had = [times.get(each, 0) for each in _sources(row["run"], tier, tiers[topic], read)]
            has, most = times.get(tier, 0), max(had, default=1)
            count.records += row["records"] * (has > 0)
            count.lost += row["records"] * (most > 0 and has == 0)
            count.doubled += row["records"] * max(0, has - max(most, 1))
    return [found[place] for place in sorted(found)]


def _sources(run: str, tier: Tier, tiers: Iterable[Tier], read: Sources) -> list[Tier]:
    """Return the tiers that another one gets its records from."""
    below = [each for each in tiers if each[0] < tier[0]]
    if tier[0] == GROUP:
        clusters = read[run, tier[1]]
        return [each for each in below if each[1] in clusters] or below
    nearest = max([rank for rank, _ in below], default=PRODUCER)
    return [each for each in below if each[0] == nearest]
