"""no-progress: did the run converge within its limit after the faults had ended?"""

from __future__ import annotations

import re

from kafkasim.analysis.checks.base import offending

NO_PROGRESS = offending(
    # The run's last phase says what was missing at the limit of its liveness phase.
    """
    SELECT run, CAST(NULL AS STRING) AS topic_id, CAST(NULL AS BIGINT) AS partition, seq, reason
    FROM Phase WHERE phase = 'end' AND reason != 'converged'""",
    "'no-progress'",
    "'%s', reason",
)

_READS = re.compile(r"group (\S+) is at (\d+) of \d+ in (\S+) ")
"""The group, position and partition of a reader that is not at the end."""

_OPEN = re.compile(r"(\S+) has an open transaction of producer id \d+ from offset (\d+) on")
"""The partition and first offset of a transaction that has not ended."""


def waited(missing: str, group: str, partition: str, offset: int) -> bool:
    """Return whether a group waited before a record when the run ended."""
    lines = _READS.finditer(missing)
    return any(
        (line[1], line[3]) == (group, partition) and int(line[2]) <= offset for line in lines
    )


def left_open(missing: str, partition: str, offset: int) -> bool:
    """Return whether the run missed the end of a partition's transaction at an offset."""
    lines = _OPEN.finditer(missing)
    return any(line[1] == partition and int(line[2]) <= offset for line in lines)
