"""no-progress: did the run converge once everything was healed?"""

from __future__ import annotations

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from analysis.checks.base import rows, text, violations

CONVERGED = "converged"


def no_progress(trace: DataFrame) -> DataFrame:
    """The run's last phase says what was missing at the limit of its liveness phase."""
    ended = rows(trace, "Phase", "phase", "reason").where(
        (F.col("phase") == "end") & (F.col("reason") != CONVERGED)
    )
    stuck = ended.select(
        "run",
        "seq",
        "reason",
        F.lit(None).cast("string").alias("topic_id"),
        F.lit(None).cast("long").alias("partition"),
    )
    return violations(stuck, "no-progress", "no-progress", text("%s", "reason"))
