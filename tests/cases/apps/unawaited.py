"""A bug: sends are not awaited, and a crash loses them although their inputs are committed."""

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kafkasim import processed


async def main():
    orders = AIOKafkaConsumer("orders", group_id="billing", enable_auto_commit=False)
    async with orders, AIOKafkaProducer(linger_ms=5000) as receipts:
        async for order in orders:
            await receipts.send("receipts", order.value, key=order.key)
            processed(order)
            await orders.commit()


async def batches():
    """Send what one getmany() returned, and commit it."""
    orders = AIOKafkaConsumer("orders", group_id="billing", enable_auto_commit=False)
    async with orders, AIOKafkaProducer(linger_ms=5000) as receipts:
        while True:
            for found in (await orders.getmany(timeout_ms=1000)).values():
                for order in found:
                    await receipts.send("receipts", b"paid " + order.value)
                    processed(order)
            await orders.commit()


async def awaited():
    """Commit once the output is acknowledged."""
    orders = AIOKafkaConsumer("orders", group_id="billing", enable_auto_commit=False)
    async with orders, AIOKafkaProducer(linger_ms=5) as receipts:
        async for order in orders:
            await receipts.send_and_wait("receipts", order.value, key=order.key)
            processed(order)
            await orders.commit()


async def every_other():
    """Send something for half of the inputs only."""
    orders = AIOKafkaConsumer("orders", group_id="billing", enable_auto_commit=False)
    async with orders, AIOKafkaProducer(linger_ms=5) as receipts:
        async for order in orders:
            if order.offset % 2:
                await receipts.send_and_wait("receipts", order.value, key=order.key)
            processed(order)
            await orders.commit()
