"""A work queue: workers archive jobs in batches, and a janitor deletes what is done.

The janitor of ``main`` deletes what the group has committed. That of ``eager`` deletes what its
consumer has heard of: a job that waits behind a slow one is gone before anybody has done it.
"""

import asyncio
import json
import logging
import os

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.errors import KafkaError, TopicAlreadyExistsError, for_code

from kafkasim import processed

BROKERS = os.environ.get("KAFKA_BROKERS", "localhost:9092")
JOBS, ARCHIVE, GROUP = "jobs", "archive", "workers"

log = logging.getLogger("workqueue")


async def set_up(admin):
    """Create the archive once, with as many partitions as there are jobs' partitions."""
    (jobs,) = await admin.describe_topics([JOBS])
    wanted = len(jobs["partitions"])
    made = await admin.create_topics(
        [NewTopic(ARCHIVE, 1, 3, topic_configs={"retention.ms": "-1"})]
    )
    for topic, code, message in made.topic_errors:
        if code and for_code(code) is not TopicAlreadyExistsError:
            raise for_code(code)(f"{topic}: {message}")
        if not code:
            await admin.create_partitions({ARCHIVE: NewPartitions(wanted)})
    while len((await admin.describe_topics([ARCHIVE]))[0]["partitions"]) < wanted:
        await asyncio.sleep(0.2)


class FromTheBeginning(ConsumerRebalanceListener):
    """Without auto_offset_reset a group that is new begins where the log begins."""

    def __init__(self, consumer):
        self.consumer = consumer

    async def on_partitions_revoked(self, revoked):
        pass

    async def on_partitions_assigned(self, assigned):
        for tp in assigned:
            if await self.consumer.committed(tp) is None:
                await self.consumer.seek_to_beginning(tp)


class WorkQueue:
    def __init__(self, limits):
        self.admin = AIOKafkaAdminClient(bootstrap_servers=BROKERS, client_id="janitor")
        self.producer = AIOKafkaProducer(bootstrap_servers=BROKERS, acks="all")
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=BROKERS,
            group_id=GROUP,
            enable_auto_commit=False,
            auto_offset_reset="none",
            max_poll_records=20,
            max_partition_fetch_bytes=2000,
        )
        self.limits = limits

    async def run(self):
        await self.admin.start()
        await set_up(self.admin)
        self.consumer.subscribe([JOBS], listener=FromTheBeginning(self.consumer))
        async with self.producer, self.consumer:
            janitor = asyncio.create_task(self.clean())
            work = asyncio.create_task(self.work())
            done, _ = await asyncio.wait({janitor, work}, return_when=asyncio.FIRST_COMPLETED)
            janitor.cancel()
            for task in done:
                task.result()

    async def work(self):
        while True:
            for tp, jobs in (await self.consumer.getmany(timeout_ms=500, max_records=20)).items():
                await self.archive(tp.partition, jobs)
                processed(*jobs)
                await self.consumer.commit({tp: jobs[-1].offset + 1})

    async def archive(self, partition, jobs):
        batch, sent = self.producer.create_batch(), []
        for job in jobs:
            await asyncio.sleep(0.02)  # the work itself
            done = json.dumps({"job": job.value.decode(), "offset": job.offset}).encode()
            while batch.append(timestamp=None, key=job.key, value=done) is None:
                sent.append(await self.producer.send_batch(batch, ARCHIVE, partition=partition))
                batch = self.producer.create_batch()
        batch.close()
        sent.append(await self.producer.send_batch(batch, ARCHIVE, partition=partition))
        await asyncio.gather(*sent)

    async def clean(self):
        while True:
            await asyncio.sleep(1.5)
            below = await self.limits(self)
            try:
                if below:
                    begins = await self.admin.delete_records(below)
                    log.info("the queue begins at %s", begins)
            except KafkaError as error:
                log.warning("nothing deleted: %r", error)


async def committed(queue):
    """Return what the group has done of its partitions."""
    found = await queue.admin.list_consumer_group_offsets(GROUP)
    mine = queue.consumer.assignment()
    return {tp: RecordsToDelete(at.offset) for tp, at in found.items() if tp in mine}


async def heard_of(queue):
    """Return the ends of the logs, as the last fetches told them."""
    mine = [TopicPartition(*tp) for tp in queue.consumer.assignment()]
    ends = {tp: queue.consumer.highwater(tp) for tp in mine}
    return {tp: RecordsToDelete(end) for tp, end in ends.items() if end}


async def main():
    await WorkQueue(committed).run()


async def eager():
    await WorkQueue(heard_of).run()
