"""A service of several tasks: a reader, workers, a committer and statistics."""

import asyncio
import contextlib
import functools
import heapq
import itertools
import json
import logging
import random
import statistics
import time
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, ConsumerRebalanceListener
from aiokafka.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError
from aiokafka.structs import TopicPartition

log = logging.getLogger("pipeline")
STOP = object()


async def retry(call, *, attempts=5, base=0.1):
    for attempt in itertools.count(1):
        try:
            return await call()
        except (TimeoutError, KafkaTimeoutError, KafkaConnectionError) as error:
            if attempt == attempts:
                raise
            pause = base * 2**attempt * random.uniform(0.5, 1.5)
            log.warning("attempt %d: %s, again in %.2f s", attempt, error, pause)
            await asyncio.sleep(pause)
    return None


class Forgetting(ConsumerRebalanceListener):
    def __init__(self, service):
        self.service = service

    def on_partitions_revoked(self, revoked):
        self.service.forget(revoked)

    def on_partitions_assigned(self, assigned):
        self.service.forget(assigned)


class Service:
    def __init__(self, workers=3):
        self.queue = asyncio.Queue(maxsize=20)
        self.done = asyncio.Queue()
        self.workers = workers
        self.shutdown = asyncio.Event()
        self.latencies = []
        self.started = time.monotonic()
        self.next = {}
        self.heaps = {}

    def forget(self, partitions):
        for tp in partitions:
            self.next.pop(tp, None)
            self.heaps.pop(tp, None)

    async def reader(self, consumer):
        while not self.shutdown.is_set():
            try:
                record = await asyncio.wait_for(consumer.getone(), timeout=0.5)
            except TimeoutError:
                continue
            await self.queue.put(record)
        for _ in range(self.workers):
            await self.queue.put(STOP)

    async def work(self, name, producer):
        while (record := await self.queue.get()) is not STOP:
            begun = time.perf_counter()
            await asyncio.sleep(random.expovariate(200))
            payload = {
                "order": record.value.decode(),
                "by": name,
                "at": datetime.now(UTC).isoformat(),
            }
            await retry(functools.partial(self.send, producer, json.dumps(payload), record.key))
            self.latencies.append(time.perf_counter() - begun)
            await self.done.put(record)
            self.queue.task_done()

    async def send(self, producer, text, key):
        sending = producer.send_and_wait("receipts", text.encode(), key=key)
        return await asyncio.wait_for(sending, timeout=5)

    async def committer(self, consumer):
        heaps = self.heaps
        while True:
            try:
                async with asyncio.timeout(1.0):
                    record = await self.done.get()
            except TimeoutError:
                record = None
            if record is not None:
                tp = TopicPartition(record.topic, record.partition)
                if tp not in consumer.assignment():
                    continue
                heapq.heappush(heaps.setdefault(tp, []), record.offset)
            offsets = {}
            for tp, heap in list(heaps.items()):
                at = self.next.get(tp)
                if at is None:
                    at = await consumer.committed(tp)
                    at = heap[0] if at is None and heap else at
                start = at
                while heap and heap[0] <= at:
                    at = max(at, heapq.heappop(heap) + 1)
                if at != start:
                    offsets[tp] = at
                self.next[tp] = at
            if offsets:
                with contextlib.suppress(KafkaError):
                    await consumer.commit(offsets)

    async def stats(self):
        while True:
            await asyncio.sleep(2)
            if self.latencies:
                p50_ms = statistics.median(self.latencies) * 1e3
                log.info("p50 %.1f ms of %d", p50_ms, len(self.latencies))


async def main():
    service = Service()
    async with AsyncExitStack() as stack:
        producer = await stack.enter_async_context(
            AIOKafkaProducer(
                bootstrap_servers="kafka:9092",
                acks=1,
                request_timeout_ms=5000,
                max_batch_size=32768,
            )
        )
        consumer = AIOKafkaConsumer(
            bootstrap_servers="kafka:9092",
            group_id="group",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
        )
        consumer.subscribe(["orders"], listener=Forgetting(service))
        await stack.enter_async_context(consumer)
        stats = asyncio.create_task(service.stats(), name="stats")
        committer = asyncio.create_task(service.committer(consumer))
        loop = asyncio.get_running_loop()
        loop.call_later(60, service.shutdown.set)
        try:
            async with asyncio.TaskGroup() as group:
                group.create_task(service.reader(consumer))
                for number in range(service.workers):
                    group.create_task(service.work(f"worker-{number}", producer))
        finally:
            for task in (stats, committer):
                task.cancel()
            await asyncio.gather(stats, committer, return_exceptions=True)
    took = timedelta(seconds=time.monotonic() - service.started)
    log.info("served %d in %s", len(service.latencies), took)
