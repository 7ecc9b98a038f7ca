"""The audit: producers publish how much they have sent, and consumers compare.

As LinkedIn built it for the original Kafka (Kreps, Narkhede and Rao, 2011, section 5): each record
carries when and by whom it was generated. A producer publishes a monitoring event for each window
of time, with the number of its records that were acknowledged, to a topic of their own. An auditing
group counts what it gets of each producer and window. The check is the judge's
(judging/results.py). A producer that restarts is another source, because its counts
are gone.
"""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass
from typing import Any

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.facts import AuditCounted, AuditPublished
from kafkasim.scenarios.applications.records.source import RecordSource
from kafkasim.scenarios.applications.session import Payloads
from kafkasim.scenarios.language.tables import ConsumerGroupTable, ProducerTable
from kafkasim.scenarios.running.workloads import Control, Pace, next_record, poll, processed
from kafkasim.sim.apps.client_port import ClientPort

EVENT_SIZE = 60
"""Bytes of a monitoring event."""


@dataclass(frozen=True, slots=True)
class Event:
    """What a monitoring event says: how many records of a window were acknowledged.

    The ids of the window's first and last record are for the judges.
    """

    source: str  # the producer and when it started
    topic: str
    window: int
    records: int
    first_record: int
    last_record: int


@dataclass(frozen=True, kw_only=True)
class AuditedProducerApplication:
    """Sends ``table.rate`` records a second, and an event for each window that is complete."""

    node: str
    number: int  # makes its record values unique
    table: ProducerTable
    topic: str
    control: Control
    rng: random.Random
    payloads: Payloads

    async def __call__(self, port: ClientPort) -> None:
        """Send until the runner ends it, then publish what is left."""
        await _Sender(port, self).run()


class _Sender:
    """One incarnation of an audited producer."""

    def __init__(self, port: ClientPort, producer: AuditedProducerApplication) -> None:
        self._port = port
        self._of = producer
        self._begin_us = port.now_us
        self._source = f"{producer.node}@{port.now_us}"
        # By window: the records' ids, and whether each was acknowledged.
        self._sent: dict[int, list[tuple[int, asyncio.Task[bool]]]] = {}
        self._records = RecordSource(
            producer.table, producer.node, producer.number, producer.rng, producer.payloads
        )

    async def run(self) -> None:
        """Send at the table's rate, and publish each window that is complete."""
        of, port = self._of, self._port
        of.control.flushed[of.node] = False
        pace = Pace(of.table, of.control, port, of.rng)
        while await pace.next_due():
            window = self._window()
            self._sent.setdefault(window, []).append(self._send(window))
            for complete in [each for each in self._sent if each < window]:
                await self._publish(complete)
            pace.sent()
        await port.call("producer.flush")
        for window in list(self._sent):
            await self._publish(window)
        await port.call("producer.flush")
        of.control.flushed[of.node] = True

    def _window(self) -> int:
        return (self._port.now_us - self._begin_us) // self._of.table.audit_window

    def _send(self, window: int) -> tuple[int, asyncio.Task[bool]]:
        """Send a record of a window; the task with its id says whether it was acknowledged."""
        of = self._of
        record = next_record(self._records, of.control, of.node, self._port)
        value = record.record_id
        of.control.generated[value] = (self._source, window)
        sizes = (record.value_size, None, True, record.headers_size)
        send = (of.topic, record.key, value, *sizes, record.timestamp_ms)

        async def acknowledged() -> bool:
            try:
                await self._port.call_acked("producer.send", *send)[1]
            except KafkaError as error:
                of.control.caught[of.node] = str(error)
                return False
            return True

        return value, asyncio.ensure_future(acknowledged())

    async def _publish(self, window: int) -> None:
        """Publish a window's event once each of its records is acknowledged or has failed."""
        of = self._of
        sent = self._sent.pop(window)
        acknowledged = sum([await each for _, each in sent])
        ids = [record_id for record_id, _ in sent]
        event = Event(self._source, of.topic, window, acknowledged, min(ids), max(ids))
        while True:
            value = of.number << 32 | of.control.number_record(of.node)
            of.control.events[value] = event
            send = (of.table.audit, None, value, EVENT_SIZE, None, True)
            try:
                await self._port.call_acked("producer.send", *send)[1]
                return
            except KafkaError as error:
                of.control.caught[of.node] = str(error)


@dataclass(frozen=True, kw_only=True)
class AuditingApplication:
    """A member of a group that counts the records of each source and window."""

    node: str
    table: ConsumerGroupTable
    topics: tuple[str, ...]
    control: Control
    rng: random.Random

    async def __call__(self, port: ClientPort) -> None:
        """Poll, count and commit for ever."""
        assert self.table.audit is not None, self.table
        await port.call("consumer.subscribe", (*self.topics, self.table.audit))
        while True:
            for tp, batch in (await poll(port)).items():
                self._count(port, tp, batch)
            try:
                await port.call("consumer.commit_sync", None)
            except KafkaError as error:
                self.control.caught[self.node] = str(error)

    def _count(self, port: ClientPort, tp: Any, batch: Any) -> None:
        group, control = self.table.group, self.control
        counted: dict[tuple[str, int], int] = {}
        for _offset, value, _key, _timestamp in batch:
            event = control.events.get(value)
            if event is not None:
                port.record(AuditPublished(
                    group, event.source, event.topic, event.window, event.records,
                    event.first_record, event.last_record,
                ))  # fmt: skip
            elif value in control.generated:
                place = control.generated[value]
                counted[place] = counted.get(place, 0) + 1
        for (source, window), records in counted.items():
            port.record(AuditCounted(group, source, tp.topic, window, records))
        port.record(processed(group, self.node, control, tp, batch))
