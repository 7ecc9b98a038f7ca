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
)
