"""The application reads records again on purpose, by a seek or by a commit below its position."""

from aiokafka import AIOKafkaConsumer, TopicPartition


async def seeks():
    async with AIOKafkaConsumer("orders", auto_offset_reset="earliest") as orders:
        for _ in range(20):
            order = await orders.getone()
        orders.seek(TopicPartition(order.topic, order.partition), 0)
        async for _ in orders:
            pass


async def seeks_and_commits():
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with AIOKafkaConsumer("orders", **settings) as orders:
        for _ in range(20):
            order = await orders.getone()
        await orders.commit()
        orders.seek(TopicPartition(order.topic, order.partition), 0)
        async for _ in orders:
            await orders.commit()


async def commits():
    settings = {"auto_offset_reset": "earliest", "enable_auto_commit": False}
    async with AIOKafkaConsumer("orders", **settings) as orders:
        for _ in range(20):
            order = await orders.getone()
        await orders.commit()
        tp = TopicPartition(order.topic, order.partition)
        await orders.commit({tp: 1})
    async with AIOKafkaConsumer("orders", **settings) as orders:
        async for _ in orders:
            await orders.commit()
