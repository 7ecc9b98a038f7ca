"""One Spark session for all tests: one shuffle partition, no UI, no generated code to compile."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SETTINGS = {
    "spark.sql.shuffle.partitions": "1",
    "spark.default.parallelism": "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.driver.memory": "1g",
}


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    from kafkasim.analysis.spark.session import session

    running = session("local[2]", "kafkasim tests", tmp_path_factory.mktemp("spark"), SETTINGS)
    yield running
    running.stop()
