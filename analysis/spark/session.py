"""The Spark session of a command: any master; settings of ours for local masters only.

With a local master Spark gets settings that suit a laptop. Whatever the user configured goes before
them: ``--conf``, spark-submit's options and ``spark-defaults.conf``. With any other master nothing
is set but the master, what ``--conf`` says, and the name of the application.
"""

from __future__ import annotations

import atexit
import os
import shutil
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from py4j.protocol import Py4JError, Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from kafkasim.analysis.spark import archive
from kafkasim.analysis.spark.java import java_home

LOGGING = Path(__file__).with_name("log4j2.properties")
LOCAL = "local[*]"

LARGE_BYTES = 250_000_000
"""From so much on, about 20 million facts, Java's optimising compiler (C2) is let loose. There all
checks take as long with it as without (410 and 421 CPU s), and the heaviest four queries less (18
and 25); 5.9 million facts take 160 CPU s with it and 142 without."""


INTERPRETED = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""Settings for queries over so few rows that compiling them takes longer than it saves."""


class SparkRefused(RuntimeError):
    """Spark did not start; the message is one line with the master and Spark's reason."""


def session(
    master: str = "",
    app: str = "kafkasim",
    scratch: Path | None = None,
    extra: Mapping[str, str] | None = None,
    stored: int = 0,
) -> SparkSession:
    """Return the running session, or start one.

    ``master`` is any Spark master; without one it is what spark-submit or ``spark-defaults.conf``
    name, else all cores of this machine. ``extra`` is what the user configures. ``scratch`` is
    where a local Spark may write, by default a temporary directory. ``stored`` is how many bytes
    will be read, as far as that is known.

    Raises:
        JavaMissing: there is no Java to run Spark on.
        SparkRefused: no master answers, or Spark cannot use what is configured.
    """
    running = SparkSession.getActiveSession()
    if running is not None:
        return running
    home = java_home()
    os.environ["JAVA_HOME"] = str(home)
    configured = _defaults() | dict(extra or {})
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # spark-submit has configured a JVM already
    master = master or configured.get("spark.master", "" if submitted else LOCAL)
    settings = {**dict(extra or {})}
    if is_local(master):
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
        os.environ.setdefault("PYTHONWARNINGS", "ignore")
        ours = local_settings(scratch or _scratch(), archive.options(home), stored)
        settings |= {key: value for key, value in ours.items() if key not in configured}
    python = configured.get("spark.pyspark.python") or (is_local(master) and sys.executable)
    if python:
        os.environ.setdefault("PYSPARK_PYTHON", python)
    builder = SparkSession.builder.appName(app)
    if master:
        builder = builder.master(master)
    for key, setting in settings.items():
        builder = builder.config(key, setting)
    try:
        spark = builder.getOrCreate()
    except (PySparkException, Py4JError) as error:
        raise SparkRefused(_refusal(master, error)) from None
    if is_local(master):
        spark.sparkContext.setLogLevel("ERROR")
        spark.sparkContext._jsc.setCallSite("kafkasim")  # else Spark walks the stack for each RDD
    return spark


def is_local(master: str) -> bool:
    """Return whether a master runs all of Spark in one process of this machine."""
    return master == "local" or master.startswith("local[")


def _refusal(master: str, error: Exception) -> str:
    reason = str(error)
    if isinstance(error, Py4JJavaError):
        reason = str(error.java_exception.getMessage() or error.java_exception)
    first = reason.strip().partition("\n")[0]
    if "stopped SparkContext" in first:
        first = "it stopped at once, as if no master answers there"
    return f"Spark did not start with master {master!r}: {first} (its own log is above)"


@contextmanager
def tuned(spark: SparkSession, settings: Mapping[str, str]) -> Iterator[None]:
    """Change settings of running queries for a while, except those that somebody configured."""
    conf = spark.sparkContext.getConf()
    mine = {key: value for key, value in settings.items() if not conf.contains(key)}
    before = {key: spark.conf.get(key) for key in mine}
    for key, value in mine.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, setting in before.items():
            spark.conf.set(key, str(setting))


def local_settings(where: Path, java_options: str, stored: int) -> dict[str, str]:
    """Return what suits a laptop: Spark writes below ``where`` and will read ``stored`` bytes."""
    compiler = "" if stored >= LARGE_BYTES else "-XX:TieredStopAtLevel=1"
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.speculation": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": str(min(8, os.cpu_count() or 2)),
        "spark.sql.sources.parallelPartitionDiscovery.threshold": "4096",
        "spark.sql.catalogImplementation": "in-memory",
        "spark.sql.warehouse.dir": str(where / "warehouse"),
        "spark.local.dir": str(where / "local"),
        "spark.broadcast.compress": "false",  # a broadcast does not leave the process
        "spark.broadcast.checksum": "false",
        "spark.driver.memory": "3g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={LOGGING.as_uri()}"
        f" -XX:+UseSerialGC {compiler} -XX:ReservedCodeCacheSize=192m {java_options}",
        "spark.sql.execution.arrow.pyspark.enabled": "false",
        "spark.python.sql.dataFrameDebugging.enabled": "false",  # walks the stack a column
        "spark.python.daemon.module": "kafkasim.analysis.spark.daemon",
        "spark.sql.parquet.mergeSchema": "false",
        "spark.sql.files.ignoreCorruptFiles": "false",
    }


def _defaults() -> dict[str, str]:
    """Return what ``spark-defaults.conf`` of the user or the cluster sets."""
    place = os.environ.get("SPARK_CONF_DIR") or os.path.join(
        os.environ.get("SPARK_HOME", ""), "conf"
    )
    try:
        lines = (Path(place) / "spark-defaults.conf").read_text().splitlines()
    except OSError:
        return {}
    pairs = [line.replace("=", " ", 1).split(None, 1) for line in lines]
    return {pair[0]: pair[1].strip() for pair in pairs if len(pair) == 2 and pair[0][0] != "#"}


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
