"""What groups carry from a topic to another one of its name: the views that several checks read.

They say what ``analysis/judging/readers/recreated/carried.py`` says. A fleet in which no topic is
deleted gets the empty ones (``NOTHING``), which cost no plan.
"""

from __future__ import annotations

CREATED_AGAIN = """
    -- Topics that have the name of an earlier one, with the id of the first of that name: clients
    -- keep positions, and coordinators offsets, by name.
    SELECT run, topic_id, first_id
    FROM (SELECT run, topic_id,
                 first_value(topic_id) OVER (PARTITION BY run, topic ORDER BY since) AS first_id
          FROM (SELECT run, topic, topic_id, min(seq) AS since FROM TopicCreated
                GROUP BY run, topic, topic_id))
    WHERE topic_id != first_id"""

NAMED_MOVES = """
    -- Where members went in topics that share a name, and what was committed there. ``at`` is the
    -- first offset that a row is about, ``position`` that behind it. Members are in the first topic
    -- of the name until a row says otherwise, and so is the commit before the first one.
    SELECT *, coalesce(last(topic_id, true) OVER member, first_id) AS lies_in
    FROM (SELECT run, first_id, topic_id, partition, group, member_id, seq,
                 IF(reason = 'committed', 'committed', 'set') AS what, offset AS at,
                 offset AS position
          FROM Positioned JOIN namesakes USING (run, topic_id)
          WHERE reason != 'none'
          UNION ALL
          SELECT run, first_id, topic_id, partition, group, member_id, seq, 'polled',
                 coalesce(get(offsets, 0), position), position
          FROM Polled JOIN namesakes USING (run, topic_id)
          UNION ALL
          SELECT run, first_id, NULL, partition, group, member_id, seq, 'commit', offset, NULL
          FROM OffsetCommitted
          JOIN (SELECT DISTINCT run, topic, first_id FROM namesakes) USING (run, topic))
    WINDOW member AS (PARTITION BY run, first_id, partition, group, member_id ORDER BY seq
                      ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)"""

NAMESAKES = """
    -- All topics whose name several have had.
    SELECT run, topic, topic_id, coalesce(created_again.first_id, topic_id) AS first_id
    FROM (SELECT run, topic, topic_id FROM topics)
    LEFT JOIN created_again USING (run, topic_id)
    LEFT SEMI JOIN (
        SELECT run, topic FROM created_again
        JOIN (SELECT run, topic, topic_id FROM topics) USING (run, topic_id)) USING (run, topic)"""

CARRIED = """
    -- The same, with the topic that each commit is of: that of its member, if the group has come so
    -- far there; else '', none. ``behind`` is how far the group had come in a row's topic.
    SELECT *, IF(what = 'commit' AND lies_in != first_id AND at > coalesce(behind, -1), '', own)
               AS of
    FROM (SELECT *, max(position) OVER (
                        PARTITION BY run, group, partition, own ORDER BY seq
                        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS behind
          FROM (SELECT *, coalesce(topic_id, lies_in) AS own FROM named_moves))"""

COMMITS_OF = """
    -- Commits with the topic that they are of; '': of none that the group is in.
    SELECT committed.*, coalesce(carried.of, topics.topic_id) AS topic_id
    FROM OffsetCommitted AS committed
    LEFT JOIN (SELECT run, seq, of FROM carried WHERE what = 'commit') AS carried
        ON committed.run = carried.run AND committed.seq = carried.seq
    JOIN (SELECT run, topic, min(topic_id) AS topic_id FROM topics GROUP BY run, topic) AS topics
        ON committed.run = topics.run AND committed.topic = topics.topic"""

GONE_OVER = """
    -- Offsets that a group passed over when it came from another topic of the name, by a position
    -- or by a commit, with the first row.
    SELECT run, topic_id, partition, group, offset, min(seq) AS gone_at
    FROM (SELECT run, topic_id, partition, group, seq,
                 explode(sequence(greatest(coalesce(behind, 0), 0), at - 1)) AS offset
          FROM (SELECT *, coalesce(last(IF(what = 'commit', of, NULL), true) OVER (
                              PARTITION BY run, first_id, partition, group ORDER BY seq
                              ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING), first_id)
                              AS committed_in
                FROM carried)
          WHERE (what = 'polled' AND lies_in != topic_id
                 OR what = 'committed' AND committed_in != topic_id)
                AND greatest(coalesce(behind, 0), 0) < at)
    GROUP BY run, topic_id, partition, group, offset"""

VIEWS = {
    "created_again": CREATED_AGAIN,
    "namesakes": NAMESAKES,
    "named_moves": NAMED_MOVES,
    "carried": CARRIED,
    "commits_of": COMMITS_OF,
    "gone_over": GONE_OVER,
}
"""The views, by name, each after those it reads itself."""

NOTHING = {
    "created_again": """
        SELECT CAST(NULL AS STRING) AS run, CAST(NULL AS STRING) AS topic_id,
               CAST(NULL AS STRING) AS first_id WHERE false""",
    "commits_of": """
        SELECT committed.*, topic_id
        FROM OffsetCommitted AS committed
        JOIN (SELECT run, topic, topic_id FROM topics) USING (run, topic)""",
    "gone_over": """
        SELECT CAST(NULL AS STRING) AS run, CAST(NULL AS STRING) AS topic_id,
               CAST(NULL AS BIGINT) AS partition, CAST(NULL AS STRING) AS group,
               CAST(NULL AS BIGINT) AS offset, CAST(NULL AS BIGINT) AS gone_at WHERE false""",
}
"""The same where no topic is deleted; the others are not read then."""
