"""The poll() of one consumer: how it is shared by tasks, and when the rebalance listener is called.

The Java consumer serves one call at a time. Calls of several tasks therefore wait for each other,
and a task that is cancelled inside a poll() leaves it to the next task that calls.
"""

from __future__ import annotations

import asyncio
import inspect
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from kafkasim.model.client import exceptions
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.applications.consuming.reading import Buffer
from kafkasim.scenarios.applications.handle import Handle
from kafkasim.scenarios.applications.session import Session
from kafkasim.scenarios.applications.types.errors import ConsumerStoppedError
from kafkasim.scenarios.applications.types.structs import ConsumerRebalanceListener, InOrder


@dataclass(frozen=True)
class Subscription:
    """The topics that a consumer subscribes to, or a pattern of them; it is false without any."""

    topics: tuple[str, ...] = ()
    pattern: str | None = None

    @classmethod
    def checked(cls, topics: Iterable[str], pattern: str | None) -> Subscription:
        """Return a subscription.

        Raises:
            TypeError: there are not either topics, in a list, or a pattern.
            ValueError: the pattern is no regular expression.
        """
        if isinstance(topics, str) or bool(topics) == (pattern is not None):
            raise TypeError("subscribe: either topics, in a list, or a pattern")
        if pattern is not None:
            try:
                re.compile(pattern)
            except re.error as error:
                raise ValueError(f"subscribe: the pattern {pattern!r}: {error}") from None
        return cls(tuple(topics), pattern)

    def __bool__(self) -> bool:
        return bool(self.topics) or self.pattern is not None

    def tell(self, polling: Polling) -> None:
        """Have the consumer subscribe."""
        if self.pattern is not None:
            polling.post("subscribe_pattern", self.pattern)
        else:
            polling.post("subscribe", self.topics)


class Polling:
    """Polls for one consumer, and keeps the partitions that it has."""

    def __init__(self, place: Session, client: Handle, buffer: Buffer) -> None:
        self.listener: ConsumerRebalanceListener | None = None
        self.owned: dict[TopicPartition, None] = {}
        self.stopped = False
        self.assigned = False  # whether the group has assigned anything, or nothing, to it
        self._place = place
        self._port = place.port
        self._client = client
        self._buffer = buffer
        self._outstanding: asyncio.Future[Any] | None = None  # the poll() that is under way
        self._telling: asyncio.Task[Any] | None = None  # the task whose listener runs
        self._void = False  # the event of a rebalance came before an unsubscribe()
        self._lock = asyncio.Lock()

    def post(self, method: str, *arguments: Any) -> None:
        """Call a method of the consumer and drop its reply."""
        self._port.post(self._client.method(method), *arguments)

    async def call(self, method: str, *arguments: Any) -> Any:
        """Call a method of the consumer between two polls, or inside one from its listener."""
        if self._telling is not None and self._telling is asyncio.current_task():
            return await self._client.ask(method, *arguments)
        async with self._lock:
            await self._finish()
            return await self._client.ask(method, *arguments)

    async def call_acked(
        self, method: str, *arguments: Any
    ) -> tuple[asyncio.Future[Any], asyncio.Future[Any]]:
        """Call a method that replies twice (ClientPort.call_acked)."""
        async with self._lock:
            await self._finish()
            return self._port.call_acked(self._client.method(method), *arguments)

    async def fill(self, timeout_ms: int, wanted: dict[TopicPartition, None]) -> None:
        """Poll once, with the listener's methods where the Java consumer calls them."""
        async with self._lock:
            if self.stopped:
                raise ConsumerStoppedError
            others: list[TopicPartition] = []
            if self._outstanding is None:
                if self._buffer.ready(wanted):
                    return  # another task has polled meanwhile
                self.push_back()
                paused = self._buffer.paused
                others = [tp for tp in self.owned if wanted and not (tp in wanted or tp in paused)]
                self.post("pause", others)
                self._outstanding = self._port.call(self._client.method("poll"), timeout_ms)
            try:
                await self._finish()
            finally:
                for tp in others:
                    if tp not in self._buffer.paused and self._client.name:
                        self.post("resume", (tp,))

    def push_back(self) -> None:
        """Have the consumer return again what the application has not got of the last poll().

        So neither auto-commit nor a rebalance passes over records of paused partitions.
        """
        self._place.handling.pop(self._place.node, None)
        for tp, offset in self._buffer.firsts().items():
            self.post("seek", tp, offset)
        self._buffer.drop()

    async def tell_of_close(self) -> None:
        """Tell the listener what the consumer gives up by its close (ConsumerCoordinator.close)."""
        if self.listener is not None and self.owned:
            async with self._lock:
                await self._finish()
            await self._tell("revoked", tuple(self.owned))

    def unsubscribe(self) -> None:
        """Give up all partitions and leave the group; the listener is not told."""
        self.listener = None
        self._buffer.forget(self.owned)
        for tp in self.owned:
            self._buffer.lose(tp)
        self.owned.clear()
        answered = self._outstanding is not None and self._outstanding.done()
        self._void = self._telling is not None or answered
        if self._client.name:
            self.post("unsubscribe")

    async def _finish(self) -> None:
        """Wait for the outstanding poll(); if the task is cancelled, the poll goes on."""
        while self._outstanding is not None:
            poll = self._outstanding
            try:
                kind, found = await asyncio.shield(poll)
            except exceptions.KafkaError as error:
                self._outstanding = None
                raise self._client.raised(error) from None
            self._outstanding = None
            if kind == "records":
                for tp, records in found.items():
                    if tp in self.owned:
                        self._buffer.add(tp, records)
                return
            try:
                if not self._void:
                    await self._tell(kind, found)
            finally:
                if self._void:
                    self.owned.clear()
                    self._void = False
                self._outstanding = self._port.call(self._client.method("continue"))

    async def _tell(self, kind: str, partitions: tuple[TopicPartition, ...]) -> None:
        listener = self.listener
        self._telling = asyncio.current_task()  # the listener may commit inside the poll
        if kind == "assigned":
            self.assigned = True
            self.owned.update(dict.fromkeys(partitions))
            told = listener.on_partitions_assigned(InOrder(partitions)) if listener else None
        else:
            told = listener.on_partitions_revoked(InOrder(partitions)) if listener else None
        try:
            if inspect.isawaitable(told):
                await told
        finally:
            self._telling = None
        if kind != "assigned":
            for tp in partitions:
                self.owned.pop(tp, None)
                self._buffer.lose(tp)
