"""A shop's ledger: it books each order in a SQLite database of its own."""

import aiosqlite
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener

from kafkasim import processed

TABLES = (
    'CREATE TABLE IF NOT EXISTS results (topic, "partition", "offset", booked)',
    'CREATE TABLE IF NOT EXISTS offsets (topic, "partition", next, UNIQUE (topic, "partition"))',
)
BOOK = "INSERT INTO results VALUES (?, ?, ?, CURRENT_TIMESTAMP)"


class FromDatabase(ConsumerRebalanceListener):
    """Has the consumer read on where the database says."""

    def __init__(self, orders, ledger) -> None:
        self.orders, self.ledger = orders, ledger

    async def on_partitions_assigned(self, assigned) -> None:
        for tp in sorted(assigned):
            asked = 'SELECT next FROM offsets WHERE topic = ? AND "partition" = ?'
            async with self.ledger.execute(asked, tuple(tp)) as rows:
                async for (offset,) in rows:
                    self.orders.seek(tp, offset)

    async def on_partitions_revoked(self, revoked) -> None:
        pass


def consumer() -> AIOKafkaConsumer:
    return AIOKafkaConsumer(auto_offset_reset="earliest", enable_auto_commit=False)


async def main() -> None:
    """Book orders and offsets in one transaction: exactly once."""
    async with aiosqlite.connect("ledger.db") as ledger, consumer() as orders:
        await prepare(ledger)
        orders.subscribe(["orders"], listener=FromDatabase(orders, ledger))
        while True:
            for tp, batch in (await orders.getmany(timeout_ms=1000)).items():
                await book(ledger, batch)
                after = (*tp, batch[-1].offset + 1)
                await ledger.execute("INSERT OR REPLACE INTO offsets VALUES (?, ?, ?)", after)
                await ledger.commit()
                processed(*batch)


async def commit_to_kafka() -> None:
    """Book, then commit to Kafka: a crash in between books orders again."""
    async with aiosqlite.connect("ledger.db") as ledger, consumer() as orders:
        await prepare(ledger)
        orders.subscribe(["orders"])
        while True:
            for batch in (await orders.getmany(timeout_ms=1000)).values():
                await book(ledger, batch)
                await ledger.commit()
                processed(*batch)
            await orders.commit()


async def prepare(ledger) -> None:
    for table in TABLES:
        await ledger.execute(table)


async def book(ledger, batch) -> None:
    rows = [(order.topic, order.partition, order.offset) for order in batch]
    await ledger.executemany(BOOK, rows)
