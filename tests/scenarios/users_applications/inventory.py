"""Inventory projection: per-partition state, manual commits, rebalance listener."""

import asyncio
import json
import logging
import os
import signal
from collections import Counter
from dataclasses import dataclass, field

from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener, OffsetAndMetadata
from aiokafka.errors import CommitFailedError, KafkaError

log = logging.getLogger("inventory")


@dataclass
class PartitionState:
    counts: Counter = field(default_factory=Counter)
    next_offset: int | None = None
    uncommitted: int = 0


class Listener(ConsumerRebalanceListener):
    def __init__(self, app):
        self.app = app

    async def on_partitions_revoked(self, revoked):
        log.info("revoked %s", revoked)
        try:
            await self.app.commit(revoked)
        except CommitFailedError:
            log.warning("too late to commit %s", revoked)
        for tp in revoked:
            self.app.states.pop(tp, None)

    async def on_partitions_assigned(self, assigned):
        log.info("assigned %s", assigned)
        for tp in assigned:
            position = await self.app.consumer.position(tp)
            committed = await self.app.consumer.committed(tp)
            log.info("%s starts at %s, committed %s", tp, position, committed)
            self.app.states[tp] = PartitionState(next_offset=position)


class Inventory:
    def __init__(self, brokers):
        self.states = {}
        self.stopping = asyncio.Event()
        self.consumer = AIOKafkaConsumer(
            bootstrap_servers=brokers,
            group_id="inventory",
            client_id="inventory-" + os.environ.get("HOSTNAME", "local"),
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            max_poll_records=50,
            value_deserializer=lambda v: json.loads(v.decode("utf-8")),
            key_deserializer=lambda k: k.decode("utf-8"),
            session_timeout_ms=10_000,
            heartbeat_interval_ms=3_000,
        )

    async def commit(self, partitions):
        offsets = {
            tp: OffsetAndMetadata(
                self.states[tp].next_offset, f"seen {sum(self.states[tp].counts.values())}"
            )
            for tp in partitions
            if tp in self.states and self.states[tp].uncommitted
        }
        if offsets:
            await self.consumer.commit(offsets)
            for tp in offsets:
                self.states[tp].uncommitted = 0

    async def run(self):
        self.consumer.subscribe(topics=["orders"], listener=Listener(self))
        await self.consumer.start()
        try:
            while not self.stopping.is_set():
                batches = await self.consumer.getmany(timeout_ms=500, max_records=20)
                for tp, records in batches.items():
                    state = self.states[tp]
                    for record in records:
                        state.counts[record.key] += 1
                        state.next_offset = record.offset + 1
                        state.uncommitted += 1
                    lag = (self.consumer.highwater(tp) or 0) - state.next_offset
                    if lag > 1000:
                        log.warning("%s lags %d", tp, lag)
                due = [tp for tp, state in self.states.items() if state.uncommitted >= 10]
                if due:
                    try:
                        await self.commit(due)
                    except KafkaError as error:
                        log.error("commit failed: %s (retriable=%s)", error, error.retriable)
        finally:
            await self.consumer.stop()


async def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(levelname)s %(message)s")
    app = Inventory(os.getenv("KAFKA_BROKERS", "localhost:9092"))
    loop = asyncio.get_running_loop()
    for sig in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(sig, app.stopping.set)
    await app.run()


if __name__ == "__main__":
    asyncio.run(main())
