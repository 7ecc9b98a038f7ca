"""The process that Spark forks its Python workers from, with the simulator already imported.

Spark starts it as ``python -m kafkasim.analysis.spark.daemon pyspark.worker``
(spark.python.daemon.module). Spark's own daemon imports pyspark from a zip, which is compiled at
every start, and lets each worker import the simulator: together as long as ten runs. This daemon
imports the installed pyspark and the simulator once, before the workers are forked, and exempts
what it has imported from their garbage collection.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Import the simulator, then serve Spark's requests for workers until Spark ends."""
    sys.path[:] = [path for path in sys.path if not path.endswith("pyspark.zip")]
    from pyspark import daemon

    from kafkasim.analysis.source import task

    task.before_fork()
    daemon.manager()


if __name__ == "__main__":
    main()
