"""The Spark session that everything in analysis/ shares: local by default, UTC, UI off."""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from kafkasim.analysis.spark import archive
from kafkasim.analysis.spark.java import java_home

LOGGING = Path(__file__).with_name("log4j2.properties")


def session(
    master: str = "local[*]",
    app: str = "kafkasim",
    scratch: Path | None = None,
    extra: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the running session, or start one.

    ``master`` is any Spark master; ``scratch`` is where Spark may write (a temporary directory by
    default); ``extra`` goes before our settings. Workers run the interpreter that runs this, and
    speculation is off: one run of a simulation is one work item, never two.

    Raises:
        JavaMissing: there is no Java to run Spark on.
    """
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ.setdefault("PYTHONWARNINGS", "ignore")
    settings = _settings(scratch or _scratch(), archive.options(home)) | dict(extra or {})
    builder = SparkSession.builder.appName(app).master(master)
    for key, setting in settings.items():
        builder = builder.config(key, setting)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _settings(where: Path, java_options: str) -> dict[str, str]:
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(min(8, os.cpu_count() or 2)),
        "spark.sql.adaptive.enabled": "false",  # checks do not shuffle: there is nothing to adapt
        "spark.sql.autoBroadcastJoinThreshold": "-1",  # both sides lie together by run already
        "spark.sql.objectHashAggregate.sortBased.fallbackThreshold": "100000",  # default 128
        "spark.sql.requireAllClusterKeysForCoPartition": "false",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(where / "warehouse"),
        "spark.local.dir": str(where / "local"),
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
        f" -XX:+UseSerialGC -XX:TieredStopAtLevel=1 {java_options}",
        "spark.sql.execution.arrow.pyspark.enabled": "false",
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # walks the stack a column
        "spark.python.daemon.module": "kafkasim.analysis.spark.daemon",
        "spark.sql.parquet.mergeSchema": "false",
        "spark.sql.files.ignoreCorruptFiles": "false",
    }


def _scratch() -> Path:
    """Return a directory for Spark's own files that goes when this process ends."""
    path = Path(tempfile.mkdtemp(prefix="kafkasim-spark-"))
    atexit.register(_leave, path)
    return path


def _leave(path: Path) -> None:
    running = SparkSession.getActiveSession()
    if running is not None:
        running.stop()
    shutil.rmtree(path, ignore_errors=True)
