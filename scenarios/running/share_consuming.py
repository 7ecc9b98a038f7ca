"""The members of share groups: applications that acknowledge each record (KIP-932).

The loop is that of a KafkaShareConsumer's user: poll, process, acknowledge. A poll() that fails
is tried again after a moment, as an application with a handler around its loop would do. A consumer
whose membership has failed joins no more, and its poll() raises only once: it is for the
application to end.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from dataclasses import dataclass
from typing import Any

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.messages.share import ACCEPT, REJECT, RELEASE
from kafkasim.scenarios.language.tables import ShareGroupTable
from kafkasim.scenarios.running.workloads import Control
from kafkasim.sim.apps.client_port import ClientPort

RETRY_S = 0.1
"""How long an application waits after a poll() that failed."""


@dataclass(frozen=True, kw_only=True)
class ShareConsumerApplication:
    """One member of a share group: polls, processes and acknowledges for ever."""

    node: str
    table: ShareGroupTable
    topics: tuple[str, ...]
    control: Control
    rng: random.Random

    def __call__(self, port: ClientPort) -> Coroutine[Any, Any, None]:
        """Return the poll loop of one incarnation."""
        return _ShareLoop(port, self).run()


class _ShareLoop:
    """The poll loop of one incarnation of a member."""

    def __init__(self, port: ClientPort, member: ShareConsumerApplication) -> None:
        self._port = port
        self._node = member.node
        self._table = member.table
        self._membership = f"group {member.table.group}"  # the detail of an error that ends it
        self._topics = member.topics
        self._control = member.control
        self._rng = member.rng
        self._begin_us = port.now_us
        number = member.table.poison_record
        self._poison = None if number is None else 1 << 32 | number

    async def run(self) -> None:
        """Poll for ever, or until the coordinator has ended the membership.

        Raises:
            KafkaError: what a heartbeat of the member got (AbstractMembershipManager
                .transitionToFatal).
        """
        await self._port.call("consumer.subscribe", self._topics)
        while True:
            try:
                _, records = await self._port.call("consumer.poll", 1000)
            except KafkaError as error:
                self._control.caught[self._node] = str(error)
                if error.detail == self._membership:
                    raise
                await asyncio.sleep(RETRY_S)
                continue
            if records:
                if self._node in self._control.stuck:
                    await self._get_stuck()
                await self._handle(records)

    async def _get_stuck(self) -> None:
        """Stay away from poll() for a while, once, records in hand."""
        at_us, for_us = self._control.stuck[self._node]
        if self._port.now_us >= self._begin_us + at_us:
            del self._control.stuck[self._node]
            await asyncio.sleep(for_us / 1e6)

    async def _handle(self, records: dict[Any, Any]) -> None:
        processing = self._table.processing
        for tp, batch in records.items():
            for record in batch:
                if processing.high:
                    await asyncio.sleep(processing.draw(self._rng) / 1e6)
                if self._table.acknowledge == "explicit":
                    kind = self._kind(record[1])
                    await self._port.call("consumer.acknowledge", tp, record[0], kind)
        if self._table.commit == "sync":
            await self._port.call("consumer.commit_sync")
        elif self._table.commit == "async":
            self._port.post("consumer.commit_async")

    def _kind(self, record_id: Any) -> int:
        """Return how the application acknowledges a record."""
        table = self._table
        if record_id == self._poison:
            return REJECT if table.on_poison == "reject" else RELEASE
        if table.release_share or table.reject_share:
            drawn = self._rng.random()
            if drawn < table.release_share:
                return RELEASE
            if drawn < table.release_share + table.reject_share:
                return REJECT
        return ACCEPT
