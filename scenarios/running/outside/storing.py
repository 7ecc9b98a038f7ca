"""A consumer that keeps its results in a SQLite database on its host's disk.

What is exactly once there depends on how results and offsets are kept
(``ConsumerGroupTable.store``):

- ``append``: a row for each record that is read; offsets are committed to Kafka afterwards. A
  crash in between makes the next incarnation store the same results again.
- ``unique-keys``: the same, but the record's id is the primary key, and a row that is there already
  is left alone.
- ``offsets``: the offsets are in the database, in one transaction with the results. A member that
  gets a partition continues at the database's offset; Kafka's committed offsets are not used.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.facts import FinalResults
from kafkasim.model.storage.files import Files
from kafkasim.scenarios.applications.database.database import Database, image, rows, wal
from kafkasim.scenarios.language.tables import ConsumerGroupTable
from kafkasim.scenarios.running.workloads import Control, processed, take_time
from kafkasim.sim.apps.client_port import ClientPort

DATABASE = "results.db"

RESULTS = 'CREATE TABLE IF NOT EXISTS results (topic, "partition", "offset", record {key})'
OFFSETS = (
    'CREATE TABLE IF NOT EXISTS offsets (topic, "partition", next, '
    'PRIMARY KEY (topic, "partition"))'
)


@dataclass(frozen=True, kw_only=True)
class StoringApplication:
    """One member of a group, with a database of its own."""

    node: str
    table: ConsumerGroupTable
    topics: tuple[str, ...]
    control: Control
    rng: random.Random

    async def __call__(self, port: ClientPort) -> None:
        """Open the database, then poll and store for ever."""
        database = await Database.open(port, DATABASE, self.rng)
        await _StoreLoop(port, self, database).run()


class _StoreLoop:
    """The loop of one incarnation."""

    def __init__(self, port: ClientPort, member: StoringApplication, database: Database) -> None:
        self._port = port
        self._node = member.node
        self._table = member.table
        self._topics = member.topics
        self._control = member.control
        self._rng = member.rng
        self._database = database
        self._own_offsets = member.table.store == "offsets"

    async def run(self) -> None:
        """Make the tables, then poll for ever."""
        key = "PRIMARY KEY" if self._table.store == "unique-keys" else ""
        run = self._database.execute
        await run(f"PRAGMA synchronous = {self._table.synchronous}")
        await run(RESULTS.format(key=key))
        await run(OFFSETS)
        await self._port.call("consumer.subscribe", self._topics)
        while True:
            records = await self._poll()
            if records:
                await self._handle(records)

    async def _poll(self) -> dict[Any, Any]:
        kind, payload = await self._port.call("consumer.poll", 1000)
        while kind != "records":
            if kind == "assigned" and self._own_offsets:
                await self._seek(payload)
            kind, payload = await self._port.call("consumer.continue")
        assert isinstance(payload, dict), payload
        return payload

    async def _seek(self, assigned: tuple[Any, ...]) -> None:
        """Go on where the database says, in the partitions that it knows."""
        for tp in assigned:
            cursor = await self._database.execute(
                'SELECT next FROM offsets WHERE topic = ? AND "partition" = ?', tuple(tp)
            )
            for (offset,) in cursor:
                await self._port.call("consumer.seek", tp, offset)

    async def _handle(self, records: dict[Any, Any]) -> None:
        """Store the results of a poll in one transaction, and commit the offsets."""
        for tp, batch in records.items():
            await take_time(self._table.processing, self._rng, batch)
            await self._insert(tp, batch)
        await self._database.commit()
        for tp, batch in records.items():
            self._port.record(processed(self._table.group, self._node, self._control, tp, batch))
        if not self._own_offsets:
            try:
                await self._port.call("consumer.commit_sync", None)
            except KafkaError as error:
                self._control.caught[self._node] = str(error)

    async def _insert(self, tp: Any, batch: Any) -> None:
        insert = "INSERT OR IGNORE" if self._table.store == "unique-keys" else "INSERT"
        for offset, record_id, _key, _timestamp in batch:
            row = (*tp, offset, record_id)
            await self._database.execute(f"{insert} INTO results VALUES (?, ?, ?, ?)", row)
        if self._own_offsets:
            row = (*tp, batch[-1][0] + 1)
            await self._database.execute("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", row)


def final_results(
    files: Files, group: str, partitions: list[tuple[str, str, int]]
) -> Iterator[FinalResults]:
    """Yield what the databases on a disk have in their tables ``results``.

    ``partitions`` are those of the group's topics, as topic, topic id and number. A table of
    results has the columns topic, partition and offset; a host without any yields nothing.
    """
    stored: dict[tuple[str, int], list[int]] = {}
    found = False
    for path in files.paths(""):
        if path.endswith(wal("")):
            results = rows(image(files.read(path)), 'topic, "partition", "offset"', "results")
            found = found or results is not None
            for topic, number, offset in results or ():
                stored.setdefault((topic, number), []).append(offset)
    if found:
        for topic, topic_id, number in partitions:
            offsets = tuple(sorted(stored.get((topic, number), [])))
            yield FinalResults(group, topic_id, number, offsets)
