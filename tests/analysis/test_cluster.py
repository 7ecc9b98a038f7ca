"""A Spark standalone cluster that loses workers: its fleet has the rows of a local fleet.

Of three workers one is killed while the fleet runs, and one while ``kafkasim check --master``
judges it. The verdicts are those of the command that wrote the fleet. A worker that is to be
killed is held first, with the task that it has begun, so that no machine is too fast for it: the
command cannot end before the worker is dead. That takes minutes, so it runs in ``make soak``.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkasim.analysis.source.jobs import Configuration
from tests.analysis.standalone import Worker, bare_python, cluster, package, quick, wait_until
from tests.analysis.test_source import TINY

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = [pytest.mark.spark, pytest.mark.slow, pytest.mark.soak, pytest.mark.timeout(3_600)]

RUNS = 12
WORKERS = 3

CONF = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.sql.shuffle.partitions": "2",
    # Tasks are given out when every worker has its executor, so that each worker has some.
    "spark.cores.max": str(WORKERS),
    "spark.scheduler.minRegisteredResourcesRatio": "1.0",
    "spark.scheduler.maxRegisteredResourcesWaitingTime": "600s",
}


@contextmanager
def command(name: str, *arguments: str, conf: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """Run a command of kafkasim; kill it if the test fails meanwhile."""
    settings = [part for key, value in conf.items() for part in ("--conf", f"{key}={value}")]
    process = subprocess.Popen(
        [sys.executable, "-m", "kafkasim.scenarios.cli", name, *arguments, *settings],
        stdout=subprocess.PIPE, text=True, env=os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"},
    )  # fmt: skip
    try:
        yield process
    finally:
        process.kill()
        process.wait()


def hold_at_work(worker: Worker, process: subprocess.Popen[str]) -> None:
    """Stop a worker as soon as it has begun a task of a command."""
    before = worker.started_tasks()
    wait_until(lambda: worker.started_tasks() > before or process.poll() is not None)
    worker.hold()


def rows(spark: SparkSession, place: Path) -> tuple[list[Any], dict[str, list[Any]]]:
    from kafkasim.analysis.stored import open_stored

    stored = open_stored(spark, str(place))
    runs = stored.runs_table().drop("batch").orderBy("run").collect()
    kinds = ("Acked", "FinalReplica", "HighWatermark", "Phase")
    return runs, {kind: stored.facts(kind).orderBy("run", "seq").collect() for kind in kinds}


def test_a_fleet_survives_a_killed_worker(spark: SparkSession, tmp_path: Path) -> None:
    from kafkasim.analysis.fleet import run_fleet

    scenario = tmp_path / "tiny.toml"
    scenario.write_text(TINY)
    conf = CONF | {
        "spark.driver.extraJavaOptions": quick(),
        "spark.executor.extraJavaOptions": quick(),
        "spark.pyspark.python": bare_python(tmp_path / "libraries"),
        "spark.submit.pyFiles": str(package(tmp_path / "kafkasim.zip")),
    }
    left = conf | {"spark.cores.max": str(WORKERS - 1)}
    out = tmp_path / "out"
    with cluster(tmp_path / "cluster", workers=WORKERS) as (master, workers):
        asked = ("fleet", str(scenario), "--runs", str(RUNS), "--out", out.as_uri())
        with command(*asked, "--master", master, "--json", conf=conf) as fleet:
            hold_at_work(workers[1], fleet)
            wait_until(lambda: sum(worker.finished_tasks() for worker in workers) >= 1)
            assert fleet.poll() is None, "the fleet did not wait for the task of a held worker"
            workers[1].kill()
            told = json.loads(fleet.communicate()[0])
        assert (fleet.returncode, told["ran"], told["verdicts"]) == (0, RUNS, {"pass": RUNS})
        done = [worker.finished_tasks() for worker in workers]
        with command("check", out.as_uri(), "--master", master, "--json", conf=left) as check:
            judged = json.loads(check.communicate()[0])
        assert (check.returncode, judged) == (0, told["verdict"])
        assert workers[0].finished_tasks() > done[0], "the cluster has read nothing"
    assert [run["verdict"] for run in told["verdict"]["runs"]] == ["pass"] * RUNS
    run_fleet(spark, [Configuration(str(scenario))], range(RUNS), str(tmp_path / "local"))
    assert rows(spark, out) == rows(spark, tmp_path / "local")
