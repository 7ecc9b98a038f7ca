"""A processor: it consumes, transforms and produces, with one of three guarantees."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from typing import Any

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.facts import ProcessorStarted
from kafkasim.scenarios.language.tables import ProcessorTable
from kafkasim.scenarios.running.transactional.handling import Fenced, Transactions
from kafkasim.scenarios.running.workloads import Control, poll, processed, take_time
from kafkasim.sim.apps.client_port import ClientPort


@dataclass(frozen=True, kw_only=True)
class ProcessorApplication:
    """Consumes, transforms and produces: each record of its input becomes one of its output.

    The output record has the value of the input record, so that a judge can tell which is which.
    """

    node: str
    table: ProcessorTable
    topics: tuple[str, ...]
    control: Control
    rng: random.Random

    def __call__(self, port: ClientPort) -> Coroutine[Any, Any, None]:
        """Return the loop of one incarnation."""
        return _ProcessLoop(port, self).run()


class _ProcessLoop:
    """The loop of one incarnation of a processor."""

    def __init__(self, port: ClientPort, application: ProcessorApplication) -> None:
        self._port = port
        self._node = application.node
        self._table = table = application.table
        self._topics = application.topics
        self._control = application.control
        self._rng = application.rng
        self._transactions = Transactions(
            port, application.node, application.control, exits=table.when_fenced == "exit"
        )
        self._handle: Callable[[dict[Any, Any]], Awaitable[None]] = {
            "exactly-once": self._exactly_once,
            "at-least-once": self._at_least_once,
            "at-most-once": self._at_most_once,
        }[table.guarantee]

    async def run(self) -> None:
        """Poll and process for ever."""
        table, busy = self._table, self._control.busy
        started = ProcessorStarted(table.group, table.guarantee, self._topics, table.output)
        self._port.record(started)
        busy[self._node] = 0
        try:
            if table.guarantee == "exactly-once":
                await self._transactions.initialize()
            await self._port.call("consumer.subscribe", self._topics)
            while True:
                records = await poll(self._port)
                if records:
                    busy[self._node] += 1
                    await self._handle(records)
                    busy[self._node] -= 1
        except Fenced as error:
            busy[self._node] = 0
            self._control.caught[self._node] = str(error)

    async def _exactly_once(self, records: dict[Any, Any]) -> None:
        """Process one poll's records in one transaction with their offsets (KIP-447)."""
        transactions, port = self._transactions, self._port
        try:
            await transactions.begin()
            await self._process(records)
            for send in self._outputs(records):
                await port.call("producer.send", *send, False)
            offsets = {tp: await port.call("consumer.next_offset", tp) for tp in records}
            group = await port.call("consumer.group_metadata")
            if None in offsets.values():
                raise KafkaError("REVOKED", "a partition was lost while its records were processed")
            if not self._table.offset_epochs:
                offsets = {tp: (offset, -1) for tp, (offset, _) in offsets.items()}
            await port.call("producer.send_offsets_to_transaction", offsets, group)
            commit = self._rng.random() >= self._table.abort_share
            await transactions.end(commit)
            if not commit:
                await self._rewind(records)
        except KafkaError as error:
            await transactions.recover(error)
            await self._rewind(records)

    async def _at_least_once(self, records: dict[Any, Any]) -> None:
        """Commit the offsets once every output is acknowledged."""
        await self._process(records)
        try:
            acks = [
                self._port.call_acked("producer.send", *send, True)[1]
                for send in self._outputs(records)
            ]
            for ack in acks:
                await ack
            await self._port.call("consumer.commit_sync", None)
        except KafkaError as error:
            self._control.caught[self._node] = str(error)
            await self._rewind(records)

    async def _at_most_once(self, records: dict[Any, Any]) -> None:
        """Commit the offsets before anything else; what fails afterwards is lost."""
        try:
            await self._port.call("consumer.commit_sync", None)
        except KafkaError as error:
            self._control.caught[self._node] = str(error)
            await self._rewind(records)
            return
        await self._process(records)
        for send in self._outputs(records):
            taken, done = self._port.call_acked("producer.send", *send, True)
            self._control.busy[self._node] += 1
            done.add_done_callback(self._on_answer)
            try:
                await taken
            except KafkaError as error:
                self._control.caught[self._node] = str(error)

    def _on_answer(self, answer: asyncio.Future[Any]) -> None:
        """Count an output as answered; the application does not care what the answer was."""
        self._control.busy[self._node] -= 1
        answer.exception()

    def _outputs(self, records: dict[Any, Any]) -> list[tuple[Any, ...]]:
        """Return (topic, key, value, size, partition) of each output."""
        table = self._table
        return [
            (table.output, key, value, table.value_size, None)
            for batch in records.values()
            for _offset, value, key, _timestamp in batch
        ]

    async def _process(self, records: dict[Any, Any]) -> None:
        for tp, batch in records.items():
            await take_time(self._table.processing, self._rng, batch)
            self._port.record(processed(self._table.group, self._node, self._control, tp, batch))

    async def _rewind(self, records: dict[Any, Any]) -> None:
        """Move the positions of the partitions that were polled back to what is committed."""
        while True:
            try:
                committed = await self._port.call("consumer.committed", tuple(records))
                break
            except KafkaError as error:
                self._control.caught[self._node] = str(error)
        for tp, batch in records.items():
            offset = committed[tp]
            try:
                at = batch[0][0] if offset is None else offset
                await self._port.call("consumer.seek", tp, at)
            except KafkaError as error:  # another member has it by now
                self._control.caught[self._node] = str(error)
