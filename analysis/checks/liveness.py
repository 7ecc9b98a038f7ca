"""no-progress: did the run converge within its limit after the faults had ended?"""

from __future__ import annotations

from kafkasim.analysis.checks.base import offending

NO_PROGRESS = offending(
    # The run's last phase says what was missing at the limit of its liveness phase.
    """
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq, reason
    FROM Phase WHERE phase = 'end' AND reason != 'converged'""",
    "'no-progress'",
    "'%s', reason",
)
