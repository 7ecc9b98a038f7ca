"""A producer that commits now and then, by the number of its records or by time."""

from __future__ import annotations

import asyncio
import random
from dataclasses import dataclass

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.scenarios.applications.records.source import RecordSource
from kafkasim.scenarios.applications.session import Payloads
from kafkasim.scenarios.language.tables import ProducerTable
from kafkasim.scenarios.running.transactional.handling import Fenced, Transactions
from kafkasim.scenarios.running.workloads import Control, Pace, next_record
from kafkasim.sim.apps.client_port import ClientPort

MICROSECOND = 1e-6


@dataclass(frozen=True, kw_only=True)
class TransactionalProducerApplication:
    """Sends ``table.rate`` records a second to ``topic``, in transactions."""

    node: str
    number: int  # makes its record values unique
    table: ProducerTable
    topic: str
    control: Control
    rng: random.Random
    payloads: Payloads

    async def __call__(self, port: ClientPort) -> None:
        """Send until the runner ends it, then end the last transaction."""
        control, node = self.control, self.node
        control.flushed[node] = False
        begin = port.now_us / 1e6
        transactions = Transactions(port, node, control, exits=self.table.when_fenced == "exit")
        try:
            await transactions.initialize()
            await self._send(port, transactions, begin)
        except Fenced as error:
            control.caught[node] = str(error)
        control.flushed[node] = True

    async def _send(self, port: ClientPort, transactions: Transactions, begin: float) -> None:
        table, control = self.table, self.control
        records = RecordSource(table, self.node, self.number, self.rng, self.payloads)
        now = port.now_us / 1e6
        pace = Pace(table, control, port, self.rng, begin)
        sent = 0  # records of the open transaction
        until = 0.0  # when it is ended at the latest
        while pace.runs():
            wake = min(pace.due, until) if sent else pace.due
            if wake > now:
                await asyncio.sleep(max(wake - now, MICROSECOND))  # less is rounded to nothing
            now = port.now_us / 1e6
            try:
                if now >= pace.due and control.producing:
                    if not sent:
                        await transactions.begin()
                        until = now + table.transaction_time / 1e6
                    sent += 1
                    await self._send_one(port, records)
                    pace.sent()
                if sent >= table.transaction_records or (sent and now >= until):
                    sent = 0
                    await transactions.end(self.rng.random() >= table.abort_share)
            except KafkaError as error:
                sent = 0
                await transactions.recover(error)
            now = port.now_us / 1e6
        if sent:
            try:
                await transactions.end(True)
            except KafkaError as error:
                await transactions.recover(error)

    async def _send_one(self, port: ClientPort, records: RecordSource) -> None:
        record = next_record(records, self.control, self.node, port)
        await port.call("producer.send", self.topic, *record.arguments)
