"""The process that Spark forks its Python workers from, with the simulator loaded beforehand.

Spark runs ``python -m kafkasim.analysis.spark.daemon pyspark.worker`` (spark.python.daemon.module). Its own daemon
takes pyspark out of a zip, compiled anew at every start, and lets each worker load all that a run
needs: together more than ten runs' time. Here pyspark comes from where it is installed, and what is
loaded once is there in every worker.
"""

from __future__ import annotations

import sys


def main() -> None:
    """Load what runs need, then serve Spark's requests for workers until it ends."""
    sys.path[:] = [path for path in sys.path if not path.endswith("pyspark.zip")]
    from pyspark import daemon

    import kafkasim.analysis.fleet  # noqa: F401  # for the workers

    daemon.manager()


if __name__ == "__main__":
    main()
