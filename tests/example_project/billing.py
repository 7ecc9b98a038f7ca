"""A shop's billing service, written for aiokafka: it charges each order once or more."""

import asyncio
import json
import os
import random
from itertools import chain

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import CommitFailedError, KafkaError

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


async def exactly_once() -> None:
    """Write a receipt for each order in one transaction with the offsets."""
    orders = AIOKafkaConsumer(
        "orders", auto_offset_reset="earliest", enable_auto_commit=False,
        isolation_level="read_committed",
    )  # fmt: skip
    receipts = AIOKafkaProducer(transactional_id=f"billing-{os.environ['HOSTNAME']}")
    async with orders, receipts:
        while True:
            batches = await orders.getmany(timeout_ms=1000)
            if batches:
                try:
                    await write_receipts(batches, receipts)
                except KafkaError:
                    await rewind(orders, batches)


async def write_receipts(batches, receipts) -> None:
    async with receipts.transaction():
        for order in chain.from_iterable(batches.values()):
            receipt = json.dumps({"partition": order.partition, "offset": order.offset})
            await receipts.send("receipts", receipt.encode(), key=order.key)
        offsets = {tp: batch[-1].offset + 1 for tp, batch in batches.items()}
        await receipts.send_offsets_to_transaction(offsets, "billing")
    processed(*chain.from_iterable(batches.values()))


async def rewind(orders, batches) -> None:
    """Read again what an aborted transaction had read."""
    for tp, batch in batches.items():
        committed = await orders.committed(tp)
        orders.seek(tp, batch[0].offset if committed is None else committed)
