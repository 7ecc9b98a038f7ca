"""A Spark standalone cluster of real processes: a master and workers with directories of their own.

The processes come from the installed pyspark. A worker and its executors are one process group, so
that killing it loses them at once, with the shuffle files that they served. Executors run a Python
without kafkasim.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sysconfig
import time
import venv
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyspark

import kafkasim
from kafkasim.analysis.spark import archive
from kafkasim.analysis.spark.java import java_home

PATIENCE_S = 1_200


def quick() -> str:
    """Return options of short-lived Java processes.

    They compile what is hot, and no better than quickly, and map Spark's classes from the archive.
    """
    return f"-XX:+UseSerialGC -XX:TieredStopAtLevel=1 {archive.options(java_home())}"


class Worker:
    """A worker process with one core."""

    def __init__(self, directory: Path, master: str, environment: dict[str, str]) -> None:
        self.directory = directory
        where = ["--work-dir", str(directory), "--host", "127.0.0.1", "--webui-port", "0"]
        self.process = _start("worker.Worker", [*where, "-c", "1", "-m", "1g", master],
                              directory, environment)  # fmt: skip

    def finished_tasks(self) -> int:
        """Return how many tasks the executors of this worker say they have finished."""
        return self._said("Finished task")

    def started_tasks(self) -> int:
        """Return how many tasks the executors of this worker say they have begun."""
        return self._said("Running task")

    def hold(self) -> None:
        """Stop the worker and its executors: a task that they have cannot end before they die."""
        os.killpg(self.process.pid, signal.SIGSTOP)

    def kill(self) -> None:
        """Kill the worker and its executors."""
        os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()

    def _said(self, words: str) -> int:
        logs = self.directory.glob("app-*/*/stderr")
        return sum(log.read_text(errors="replace").count(words) for log in logs)


@contextmanager
def cluster(directory: Path, workers: int) -> Iterator[tuple[str, list[Worker]]]:
    """Run a master and workers; yield the master's URL and the workers."""
    environment = {
        **_environment(), "JAVA_HOME": str(java_home()), "SPARK_LOCAL_IP": "127.0.0.1",
        "SPARK_DAEMON_JAVA_OPTS": quick(),
    }  # fmt: skip
    port = _free_port()
    url = f"spark://127.0.0.1:{port}"
    where = ["--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    directory.mkdir()
    master = _start("master.Master", where, directory, environment)
    started: list[Worker] = []
    try:
        for number in range(workers):
            place = directory / f"worker-{number}"
            place.mkdir()
            started.append(Worker(place, url, environment))
        log = directory / "log"
        wait_until(lambda: log.read_text().count("Registering worker") == workers)
        yield url, started
    finally:
        for process in [*(worker.process for worker in started), master]:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def bare_python(directory: Path) -> str:
    """Make a Python with the libraries of this one and without kafkasim; return its executable.

    Executors that run it have kafkasim from what the driver ships, or not at all.
    """
    venv.create(directory, symlinks=True, with_pip=False)
    python = directory / "bin" / "python"
    theirs = Path(sysconfig.get_path("purelib", vars={"base": str(directory)}))
    for place in dict.fromkeys((sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))):
        for library in Path(place).iterdir():
            if "kafkasim" not in library.name and library.suffix != ".pth":
                (theirs / library.name).symlink_to(library)
    tried = subprocess.run(
        [python, "-c", "import pyarrow, pyspark; import kafkasim"],
        cwd=directory, env=_environment(), capture_output=True, text=True,
    )  # fmt: skip
    assert "No module named 'kafkasim'" in tried.stderr, tried
    return str(python)


def package(target: Path) -> Path:
    """Write what a wheel of kafkasim holds as an archive for ``spark.submit.pyFiles``."""
    root = Path(kafkasim.__file__).parent
    with zipfile.ZipFile(target, "w") as archive:
        for part in ("", "model", "sim", "scenarios", "analysis"):
            found = (root / part).rglob("*") if part else root.glob("*.py")
            for path in found:
                if path.suffix in (".py", ".toml", ".properties"):
                    archive.write(path, Path("kafkasim") / path.relative_to(root))
    return target


def wait_until(condition) -> None:  # type: ignore[no-untyped-def]
    """Wait for something that other processes do."""
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "nothing happened"
        time.sleep(0.05)


def _environment() -> dict[str, str]:
    """Return the environment of a host that knows nothing of this checkout."""
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def _start(
    name: str, arguments: list[str], directory: Path, environment: dict[str, str]
) -> subprocess.Popen[bytes]:
    command = [Path(pyspark.__file__).parent / "bin" / "spark-class",
               f"org.apache.spark.deploy.{name}", *arguments]  # fmt: skip
    with (directory / "log").open("w") as log:
        return subprocess.Popen(
            command, env=environment, stdout=log, stderr=log, start_new_session=True
        )


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
