"""application-failed: did an application raise an exception that nothing in it handled?"""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

FAILED = offending(
    """
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq,
           node, exception, reason, task
    FROM ApplicationFailed""",
    "'application-failed'",
    "'%s: %s: %s in %s', node, exception, reason, task",
    # A consumer group (KIP-848) that its coordinator has lost ends its consumers.
    r"filter(array(regexp_extract(reason, '^GROUP_ID_NOT_FOUND: group (.*)$', 1)), g -> g <> '')",
)
