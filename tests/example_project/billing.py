"""A shop's billing service, written for aiokafka: it charges each order once or more."""

import asyncio
import json
import random

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import CommitFailedError

from kafkasim import processed


def consumer() -> AIOKafkaConsumer:
    return AIOKafkaConsumer("orders", auto_offset_reset="earliest", enable_auto_commit=False)


async def charge(order) -> None:
    await asyncio.sleep(random.uniform(0.08, 0.12))
    processed(order)


async def main() -> None:
    """Charge, then commit: a crash in between charges an order again."""
    async with consumer() as orders:
        while True:
            for batch in (await orders.getmany(timeout_ms=1000)).values():
                for order in batch:
                    await charge(order)
            try:
                await orders.commit()
            except CommitFailedError:
                pass  # others have the partitions now, and charge these orders again


async def commit_first() -> None:
    """Commit, then charge: a crash in between forgets the orders of the batch."""
    async with consumer() as orders:
        while True:
            batches = await orders.getmany(timeout_ms=1000)
            try:
                await orders.commit()
            except CommitFailedError:
                continue
            for batch in batches.values():
                for order in batch:
                    await charge(order)


async def with_receipts() -> None:
    """Write a receipt for each order, then commit."""
    async with consumer() as orders, AIOKafkaProducer(linger_ms=5) as receipts:
        async for order in orders:
            receipt = json.dumps({"order": order.offset, "partition": order.partition}).encode()
            await receipts.send_and_wait(
                "receipts", receipt, key=order.key, headers=[("kind", b"receipt")]
            )
            processed(order)
            try:
                await orders.commit()
            except CommitFailedError:
                pass
