"""Orders become receipts, in transactions: consume, transform, produce."""

import asyncio
import json
import logging
import os
import time
import uuid  # noqa: TID251 (an application's own)

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import (
    KafkaError,
    ProducerFenced,
)

IN_TOPIC, OUT_TOPIC = "orders", "receipts"
GROUP = "enrich"
BOOT = ["localhost:9092"]

logger = logging.getLogger(__name__)


def enrich(raw: bytes) -> bytes:
    order = json.loads(raw)
    order["id"] = str(uuid.uuid4())
    order["at"] = time.time()  # noqa: TID251
    return json.dumps(order).encode()


async def process_batch(producer, batches):
    async with producer.transaction():
        offsets = {}
        sends = []
        for tp, messages in batches.items():
            for msg in messages:
                sends.append(
                    await producer.send(
                        OUT_TOPIC,
                        value=enrich(msg.value),
                        key=msg.key,
                        headers=[("source", f"{tp.topic}-{tp.partition}".encode())],
                    )
                )
            offsets[tp] = messages[-1].offset + 1
        await asyncio.gather(*sends)
        await producer.send_offsets_to_transaction(offsets, GROUP)


async def transactional_process():
    consumer = AIOKafkaConsumer(
        IN_TOPIC,
        bootstrap_servers=BOOT,
        enable_auto_commit=False,
        group_id=GROUP,
        isolation_level="read_committed",
        auto_offset_reset="earliest",
    )
    await consumer.start()
    producer = AIOKafkaProducer(
        bootstrap_servers=BOOT,
        transactional_id="enrich-" + os.environ["HOSTNAME"],
        compression_type="gzip",
        acks="all",
        enable_idempotence=True,
        transaction_timeout_ms=20_000,
        linger_ms=5,
    )
    await producer.start()
    print("partitions of", OUT_TOPIC, await producer.partitions_for(OUT_TOPIC))
    try:
        while True:
            batches = await consumer.getmany(timeout_ms=200, max_records=40)
            batches = {tp: m for tp, m in batches.items() if m}
            if not batches:
                continue
            try:
                await process_batch(producer, batches)
            except ProducerFenced:
                raise
            except KafkaError as error:
                logger.warning("aborted: %r", error)
                await consumer.seek_to_committed()
    finally:
        await producer.stop()
        await consumer.stop()


async def main():
    while True:
        try:
            await transactional_process()
        except ProducerFenced:
            logger.error("fenced; starting over")
