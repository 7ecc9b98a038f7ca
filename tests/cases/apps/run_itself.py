"""Ends as most programs do."""

import asyncio

from aiokafka import AIOKafkaConsumer


async def main(*topics):
    async with AIOKafkaConsumer(*topics, auto_offset_reset="earliest") as orders:
        async for _ in orders:
            pass


asyncio.run(main("orders"))
raise AssertionError("asyncio.run() does not return before the process ends")
