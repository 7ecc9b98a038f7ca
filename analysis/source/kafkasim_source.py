"""The Spark data source ``kafkasim``: simulated runs as a table that no file holds.

    from kafkasim.analysis.source import KafkaSim

    spark.dataSource.register(KafkaSim)
    facts = (
        spark.read.format("kafkasim")
        .option("scenario", "split-brain")
        .option("seeds", "0-999")
        .option("set.cluster.config.replica.lag.time.max.ms", "3000")
        .option("table", "facts")
        .load()
    )

| option | meaning |
|---|---|
| ``scenario`` | a built-in name, or a .toml file that the driver reads |
| ``seeds`` | numbers and ranges: ``0-999``, ``1,5,7-9``; by default 0 |
| ``table`` | ``facts`` (default), ``runs`` or ``findings`` |
| ``set.KEY`` | a setting, as ``--set KEY=VALUE``; keys with capitals need ``configurations`` |
| ``twin``, ``variants`` | ``true`` runs the twin; variants separated by commas |
| ``label`` | the configuration's name in the column ``label`` |
| ``configurations`` | instead of these: a JSON list of objects with ``name``, ``settings``, … |
| ``chunk`` | runs of one Spark partition; by default one, more from a thousand runs on |

A partition is a chunk of seeds. Its runs are simulated each time Spark computes the partition, with
the same rows each time: cache or write what is read twice. The scenario is read where the driver
is; an executor needs the package kafkasim, and no file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from kafkasim.analysis.source import seeds as seed_texts
from kafkasim.analysis.source.jobs import FleetJob, from_options, prepare
from kafkasim.analysis.source.schema import TABLES, ddl
from kafkasim.analysis.source.work import SeedRun

MOST_PARTITIONS = 1_000
"""From so many runs on a partition has several."""


class KafkaSim(DataSource):
    """Runs of scenarios, simulated as they are read; see the module for its options."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "kafkasim"

    def schema(self) -> str:
        """Return the columns of the table that was asked for.

        Raises:
            ValueError: there is no such table.
        """
        return ddl(TABLES[_table(self.options)])

    def reader(self, schema: StructType) -> KafkaSimReader:
        """Return the reader, with all scenarios read and checked.

        Raises:
            ValueError: an option is wrong.
            ScenarioError: a scenario is wrong.
        """
        return KafkaSimReader(self.options)


@dataclass
class SeedChunk(InputPartition):
    """Some seeds of the job with an index."""

    job: int
    seeds: list[int]


class KafkaSimReader(DataSourceReader):
    """Cuts seeds × configurations into chunks, and runs one."""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.table = _table(options)
        self.jobs: list[FleetJob] = prepare(from_options(options))
        every = options.get("seeds", "0")
        self.seeds = [seed_texts.parse(job.configuration.seeds or every) for job in self.jobs]
        count = sum(map(len, self.seeds))
        self.chunk = int(options.get("chunk", "0")) or -(-count // MOST_PARTITIONS)

    def partitions(self) -> list[InputPartition]:
        """Return the chunks: those of one configuration after the other."""
        return [
            SeedChunk(job, mine[start : start + self.chunk])
            for job, mine in enumerate(self.seeds)
            for start in range(0, len(mine), self.chunk)
        ]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Run the seeds of a chunk, one after the other."""
        assert isinstance(partition, SeedChunk), partition
        for seed in partition.seeds:
            with SeedRun(self.jobs[partition.job], seed) as run:
                yield from getattr(run, self.table)()


def _table(options: Mapping[str, str]) -> str:
    table = options.get("table", "facts")
    if table not in TABLES:
        raise ValueError(f"option table: {table!r:.40}; allowed: {', '.join(TABLES)}")
    return table
