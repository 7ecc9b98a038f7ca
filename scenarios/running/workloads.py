"""Applications: what producers send and how consumers process and commit.

They are ordinary asyncio code against a client port, as a user would write it; a paused host pauses
them, a crash discards them without running their ``finally``. :class:`Control` is what the runner
tells them and what outlives a crashed application: the next record number, so that every record
value of a run is unique.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

from kafkasim.model.facts import Processed
from kafkasim.scenarios.language.tables import ConsumerGroupTable, ProducerTable
from kafkasim.scenarios.running.keys import key_source

Poll = tuple[str, Any]


class Control:
    """What the runner tells the applications of a run, and what they tell it."""

    def __init__(self) -> None:
        self.producing = True
        self.stuck: dict[str, tuple[int, int]] = {}  # node -> (µs after its start, for µs)
        self.consuming = True
        self.topic_ids: dict[str, str] = {}
        self.next_record: dict[str, int] = {}
        self.flushed: dict[str, bool] = {}
        self.failures: dict[str, str] = {}


def producer_application(
    node: str, index: int, spec: ProducerTable, topic: str, control: Control, rng: random.Random
) -> Any:
    """Return an application that sends ``spec.rate`` records a second until told to stop."""

    def application(port: Any) -> Coroutine[Any, Any, None]:
        return _produce(port, node, index, spec, topic, control, rng)

    return application


async def _produce(
    port: Any, node: str, index: int, spec: ProducerTable, topic: str, control: Control,
    rng: random.Random,
) -> None:  # fmt: skip
    control.flushed[node] = False
    draw_key = key_source(spec.keys, rng)
    period = 1 / spec.rate
    begin = now = port.now_us / 1e6
    stop = None if spec.stop is None else begin + (spec.stop - spec.start) / 1e6
    # Producers of one rate do not tick in step.
    due = begin + period * rng.random()
    while control.producing and (stop is None or due < stop):
        if due > now:
            await asyncio.sleep(due - now)
            if not control.producing:
                break
        number = control.next_record.get(node, 0)
        control.next_record[node] = number + 1
        try:
            await port.call(
                "producer.send", topic, draw_key(), index << 32 | number, spec.value_size, None,
                False,
            )  # fmt: skip
        except Exception as error:  # send() itself failed: no metadata or no memory in max.block.ms
            control.failures[node] = str(error)
        # A constant rate: what a pause or a full buffer held back is not made up for.
        now = port.now_us / 1e6
        due = max(due + period, now)
    await port.call("producer.flush")
    control.flushed[node] = True


def consumer_application(
    node: str, spec: ConsumerGroupTable, topics: list[str], control: Control, rng: random.Random
) -> Any:
    """Return an application that polls, processes and commits until told to stop."""

    def application(port: Any) -> Coroutine[Any, Any, None]:
        return _Consumer(port, node, spec, topics, control, rng).run()

    return application


class _Consumer:
    """One member's poll loop."""

    def __init__(
        self, port: Any, node: str, spec: ConsumerGroupTable, topics: list[str], control: Control,
        rng: random.Random,
    ) -> None:  # fmt: skip
        self.port = port
        self.node = node
        self.spec = spec
        self.topics = topics
        self.control = control
        self.rng = rng
        self.begin_us = port.now_us
        self.worker: asyncio.Queue[tuple[Any, Any]] = asyncio.Queue()

    async def run(self) -> None:
        """Poll for ever; processing happens here, or in a worker for ``handover``."""
        if self.spec.handover:
            worker = asyncio.ensure_future(self._work())
            worker.set_name(f"{self.node}-worker")
        await self.port.call("consumer.subscribe", tuple(self.topics))
        while self.control.consuming:
            records = await self._poll()
            if records:
                await self._get_stuck()
                await self._handle(records)

    async def _get_stuck(self) -> None:
        """Stay away from poll() for a while, once, records in hand, where the workload says so."""
        at_us, for_us = self.control.stuck.get(self.node, (1 << 62, 0))
        if self.port.now_us >= self.begin_us + at_us:
            del self.control.stuck[self.node]
            await asyncio.sleep(for_us / 1e6)

    async def _poll(self) -> dict[Any, Any]:
        """poll() with a rebalance listener that commits what is processed."""
        kind, payload = await self.port.call("consumer.poll", 1000)
        while kind != "records":
            if kind == "revoked" and self.spec.commit in ("sync", "async"):
                await self._commit()
            kind, payload = await self.port.call("consumer.continue")
        assert isinstance(payload, dict), payload
        return payload

    async def _handle(self, records: dict[Any, Any]) -> None:
        if self.spec.commit == "first":
            await self._commit()
        for tp, batch in records.items():
            if self.spec.handover:
                self.worker.put_nowait((tp, batch))
            else:
                await self._process(tp, batch)
        if self.spec.commit == "sync":
            await self._commit()
        elif self.spec.commit == "async":
            self.port.post("consumer.commit_async", None)

    async def _process(self, tp: Any, batch: Any) -> None:
        if self.spec.processing.high:
            busy = sum(self.spec.processing.draw(self.rng) for _ in batch)
            await asyncio.sleep(busy / 1e6)
        topic_id = self.control.topic_ids[tp.topic]
        base, last = batch[0][0], batch[-1][0]
        self.port.record(
            Processed(self.spec.group, self.node, topic_id, tp.partition, base, last + 1)
        )

    async def _work(self) -> None:
        while True:
            tp, batch = await self.worker.get()
            await self._process(tp, batch)

    async def _commit(self) -> None:
        try:
            await self.port.call("consumer.commit_sync", None)
        except Exception as error:  # CommitFailed after a rebalance: processed again elsewhere
            self.control.failures[self.node] = str(error)
