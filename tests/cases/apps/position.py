"""position() after a seek waits for the reset that the seek has asked for."""

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition


async def main():
    tp = TopicPartition("receipts", 0)
    async with AIOKafkaProducer() as producer:
        for _ in range(5):
            await producer.send_and_wait("receipts", b"x", partition=0)
    settings = {"group_id": "billing", "auto_offset_reset": "earliest"}
    async with AIOKafkaConsumer("receipts", **settings) as consumer:
        for _ in range(5):
            await consumer.getone()
        found = [await consumer.position(tp)]
        await consumer.seek_to_beginning(tp)
        found.append(await consumer.position(tp))
        await consumer.seek_to_end(tp)
        found.append(await consumer.position(tp))
        assert found == [5, 0, 5], found
