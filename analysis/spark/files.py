"""Places on any Hadoop file system, named by URI, as Spark itself reaches them."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from kafkasim.analysis.spark.session import is_local


def located(spark: SparkSession, place: str | Path) -> str:
    """Return a place as URI: for a local master a path without scheme is one of this machine.

    On a cluster it is left as it is, and so belongs to Hadoop's default file system.
    """
    text = str(place).rstrip("/")
    if ":" in text.partition("/")[0] or not is_local(str(spark.sparkContext.master)):
        return text
    return f"file://{Path(text).resolve()}"


def local_path(place: str | Path) -> Path | None:
    """Return the path of a place on this machine, None if it has the scheme of another system."""
    text = str(place)
    if text.startswith("file:"):
        return Path("/" + text.removeprefix("file:").lstrip("/"))
    return None if ":" in text.partition("/")[0] else Path(text)


def stored_bytes(place: str | Path) -> int:
    """Return how many bytes lie below a place, 0 if it is not on this machine."""
    path = local_path(place)
    return (
        0
        if path is None
        else sum(each.stat().st_size for each in path.rglob("*.parquet") if each.is_file())
    )


def delete(spark: SparkSession, place: str) -> None:
    """Delete a directory with all that it holds; one that is not there is no error."""
    files, path = _reached(spark, place)
    files.delete(path, True)


def rename(spark: SparkSession, old: str, new: str) -> None:
    """Rename a file or directory; the directory that it goes to is made if need be.

    Raises:
        OSError: the file system refuses.
    """
    files, source = _reached(spark, old)
    target = _reached(spark, new)[1]
    files.mkdirs(target.getParent())
    if not files.rename(source, target):
        raise OSError(f"{old}: cannot be renamed to {new}")


def read_bytes(spark: SparkSession, place: str) -> bytes:
    """Return the content of a file."""
    files, path = _reached(spark, place)
    stream = files.open(path)
    try:
        jvm: Any = spark.sparkContext._jvm
        return bytes(jvm.org.apache.commons.io.IOUtils.toByteArray(stream))
    finally:
        stream.close()


def write_bytes(spark: SparkSession, place: str, content: bytes) -> None:
    """Write a file that has its name once it is whole."""
    files, path = _reached(spark, place)
    hidden = _reached(spark, f"{path.getParent()}/_{path.getName()}.part")[1]
    stream = files.create(hidden, True)
    try:
        stream.write(bytearray(content))
    finally:
        stream.close()
    rename(spark, str(hidden.toString()), place)


def matching(spark: SparkSession, pattern: str) -> list[str]:
    """Return the sorted places that match a glob pattern."""
    files, path = _reached(spark, pattern)
    found = files.globStatus(path) or []
    return sorted(str(one.getPath().toString()) for one in found)


def empty(spark: SparkSession, pattern: str) -> list[str]:
    """Return the sorted files that match a glob pattern and have no bytes; Spark skips such."""
    files, path = _reached(spark, pattern)
    found = files.globStatus(path) or []
    return sorted(
        str(one.getPath().toString()) for one in found if one.isFile() and not one.getLen()
    )


def folders(spark: SparkSession, pattern: str) -> list[str]:
    """Return the sorted directories that match a glob pattern."""
    files, path = _reached(spark, pattern)
    found = files.globStatus(path) or []
    return sorted(str(one.getPath().toString()) for one in found if one.isDirectory())


def damaged(error: BaseException) -> str | None:
    """Return which file Spark could not read and why, None if the error is about something else."""
    found = re.search(
        r"\[(FAILED_READ_FILE[.A-Z_]*|UNABLE_TO_INFER_SCHEMA)\][^\n]*?file (\S+?)\.?\s", str(error)
    )
    if found is None:
        return None
    reason = (
        "its columns have other types" if "MISMATCH" in found[1] else "not a whole Parquet file"
    )
    return f"{found[2]}: {reason}"


def _reached(spark: SparkSession, place: str) -> tuple[Any, Any]:
    jvm: Any = spark.sparkContext._jvm
    path = jvm.org.apache.hadoop.fs.Path(place)
    return path.getFileSystem(spark.sparkContext._jsc.hadoopConfiguration()), path
