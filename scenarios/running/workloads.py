"""Applications: what producers send, and how consumers process and commit.

They are ordinary asyncio code against a client port, as a user would write it. A paused host pauses
them; a crash discards them without running their ``finally``. A restarted host calls the
application again with a new port. :class:`Control` outlives that: the next record number of each
producer is in it, so every record of a run has a value of its own.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine, Sized
from dataclasses import dataclass
from functools import partial
from typing import Any

from kafkasim.model.client.exceptions import KafkaError, RetriableCommitFailedError
from kafkasim.model.facts import Polled, Processed
from kafkasim.scenarios.applications.records.source import NextRecord, RecordSource
from kafkasim.scenarios.applications.session import Payloads
from kafkasim.scenarios.language.tables import ConsumerGroupTable, ProducerTable
from kafkasim.scenarios.language.units import Span
from kafkasim.scenarios.running.remote_offsets import commit_remote_offsets
from kafkasim.sim.apps.client_port import ClientPort

POISON_BACKOFF_S = 1.0
"""How long an application waits after a record that it cannot process."""

COMMITTING_LISTENER = ("sync", "async", "async-retry", "async-ordered-retry")
"""The ways to commit whose rebalance listener commits synchronously what is processed."""

POISON_SIZE = 100
"""Bytes of a record in a dead-letter topic."""


class Control:
    """What the runner tells the applications of a run, and what they tell it."""

    def __init__(self) -> None:
        self.producing = True
        self.stuck: dict[str, tuple[int, int]] = {}  # node -> (µs after its start, for µs)
        self.topic_ids: dict[str, str] = {}  # topic -> its newest id
        # Of names that several topics have had: the names by id, the oldest ids, and by node, topic
        # and partition the id that was polled last.
        self._named: dict[str, str] = {}
        self._oldest: dict[str, str] = {}
        self._polled: dict[tuple[str, str, int], str] = {}
        self.next_record: dict[str, int] = {}  # producer -> number of its next record
        self.flushed: dict[str, bool] = {}  # producer -> whether it has sent all its records
        self.stumbling: dict[str, str] = {}  # node -> the record at which its application fails
        self.busy: dict[str, int] = {}  # processor -> polls it is handling, and unanswered outputs
        # What records carry for the audit: by record id the source and window, or an event.
        self.generated: dict[int, tuple[str, int]] = {}
        self.events: dict[int, Any] = {}
        self.mirrored: dict[int, Any] = {}  # what records of mirrors' internal topics say, by id
        self.caught: dict[str, str] = {}  # node -> the last error that its application was given
        self.returned: dict[str, None] = {}  # nodes whose user's function has returned
        self.handling: dict[str, None] = {}  # nodes whose user's function has records in hand
        self.assumed: dict[str, None] = {}  # groups whose user does not say what is processed
        self.ignored: dict[str, None] = {}  # arguments of user's clients that have no effect here
        self.created: dict[str, None] = {}  # topics that user's applications have created
        self.ended: dict[str, None] = {}  # nodes whose application raised: it ended its process
        self.restarting: dict[str, None] = {}  # nodes that wait for their restart policy

    def learn_topic(self, topic: str, topic_id: str) -> bool:
        """Take the id of a topic; return whether another topic had its name before."""
        before = self.topic_ids.get(topic, topic_id)
        self.topic_ids[topic] = topic_id
        if before == topic_id:
            return False
        self._oldest.setdefault(topic, before)
        self._named |= {before: topic, topic_id: topic}
        return True

    def on_polled(self, _seq: int, _t: int, node: str, fact: Polled) -> None:
        """Take the topic of which a node has got records, where its name does not tell."""
        topic = self._named.get(fact.topic_id)
        if topic is not None:
            self._polled[node, topic, fact.partition] = fact.topic_id

    def topic_id_of(self, node: str, tp: Any) -> str:
        """Return the id of the topic of which a node has got the last records of a partition."""
        newest = self.topic_ids[tp.topic]
        oldest = self._oldest.get(tp.topic, newest)
        return self._polled.get((node, *tp), oldest)

    def number_record(self, node: str) -> int:
        """Return the number of a producer's next record; no other record of it has this number."""
        number = self.next_record.get(node, 0)
        self.next_record[node] = number + 1
        return number


class Pace:
    """When a producer's next record is due: ``table.rate`` records a second, at a constant rate.

    Sends that a pause or a full buffer delayed are not made up for. Times are seconds.
    """

    def __init__(
        self, table: ProducerTable, control: Control, port: ClientPort, rng: random.Random,
        begin: float | None = None,
    ) -> None:  # fmt: skip
        """``begin``: when the application started, if that was before the pace begins."""
        self._control = control
        self._port = port
        self._period = 1 / table.rate
        now = port.now_us / 1e6
        begin = now if begin is None else begin
        self._stop = None if table.stop is None else begin + (table.stop - table.start) / 1e6
        self.due = now + self._period * rng.random()  # producers of one rate do not send in step

    def runs(self) -> bool:
        """Return whether more records are to be sent."""
        return self._control.producing and (self._stop is None or self.due < self._stop)

    async def next_due(self) -> bool:
        """Wait until a record is due; return whether it is still to be sent."""
        if not self.runs():
            return False
        wait = self.due - self._port.now_us / 1e6
        if wait > 0:
            await asyncio.sleep(wait)
        return self._control.producing

    def sent(self) -> None:
        """Set when the next record is due, now that one was sent."""
        self.due = max(self.due + self._period, self._port.now_us / 1e6)


def next_record(records: RecordSource, control: Control, node: str, port: ClientPort) -> NextRecord:
    """Return a producer's next record, and tell the trace of its key where it has a real one."""
    record = records.next(control.number_record(node), port.wall_us)
    if record.key is not None:
        key_sent = records.fact(record)
        if key_sent is not None:
            port.record(key_sent)
    return record


async def poll(port: ClientPort) -> dict[Any, Any]:
    """Poll for a second, without a rebalance listener; return the records by partition."""
    kind, payload = await port.call("consumer.poll", 1000)
    while kind != "records":
        kind, payload = await port.call("consumer.continue")
    assert isinstance(payload, dict), payload
    return payload


def processed(group: str, node: str, control: Control, tp: Any, batch: Any) -> Processed:
    """Return the fact that a member has processed a batch of records as polled."""
    topic_id = control.topic_id_of(node, tp)
    return Processed(group, node, topic_id, tp.partition, batch[0][0], batch[-1][0] + 1)


async def take_time(processing: Span, rng: random.Random, batch: Sized) -> None:
    """Sleep as long as the processing of a batch takes: each record its own draw."""
    if processing.high:
        await asyncio.sleep(sum(processing.draw(rng) for _ in range(len(batch))) / 1e6)


@dataclass(frozen=True, kw_only=True)
class ProducerApplication:
    """Sends ``table.rate`` records a second to ``topic`` until the runner ends it."""

    node: str
    number: int  # makes its record values unique
    table: ProducerTable
    topic: str
    control: Control
    rng: random.Random
    payloads: Payloads

    async def __call__(self, port: ClientPort) -> None:
        """Send, then flush."""
        table, control, node = self.table, self.control, self.node
        control.flushed[node] = False
        records = RecordSource(table, node, self.number, self.rng, self.payloads)
        pace = Pace(table, control, port, self.rng)
        while await pace.next_due():
            record = next_record(records, control, node, port)
            try:
                await port.call("producer.send", self.topic, *record.arguments)
            except Exception as error:  # no metadata or no memory within max.block.ms
                control.caught[node] = str(error)
            pace.sent()
        await port.call("producer.flush")
        control.flushed[node] = True


@dataclass(frozen=True, kw_only=True)
class ConsumerApplication:
    """One member of a group: polls, processes and commits for ever."""

    node: str
    table: ConsumerGroupTable
    topics: tuple[str, ...]
    control: Control
    rng: random.Random

    def __call__(self, port: ClientPort) -> Coroutine[Any, Any, None]:
        """Return the poll loop of one incarnation."""
        return _PollLoop(port, self).run()


class _PollLoop:
    """The poll loop of one incarnation of a member."""

    def __init__(self, port: ClientPort, member: ConsumerApplication) -> None:
        self.port = port
        self.node = member.node
        self.table = member.table
        self.topics = member.topics
        self.control = member.control
        self.rng = member.rng
        self.begin_us = port.now_us
        self.last_commit = 0  # the number of the last async commit that is no retry
        self.control.stumbling.pop(self.node, None)
        self.handed_over: asyncio.Queue[tuple[Any, Any]] = asyncio.Queue()

    async def run(self) -> None:
        """Poll for ever; processing happens here, or in a worker for ``handover``."""
        if self.table.handover:
            worker = asyncio.ensure_future(self._work())
            worker.set_name(f"{self.node}-worker")
        if (source := self.table.remote_offsets) is not None:
            said = self.control.mirrored
            await commit_remote_offsets(self.port, self.table.group, source, said)
        await self._subscribe()
        while True:
            records = await self._poll()
            if records:
                if self.node in self.control.stuck:
                    await self._get_stuck()
                await self._handle(records)

    async def _subscribe(self) -> None:
        """Subscribe; with both expressions, by the one that the group's protocol takes."""
        pattern, subscription_pattern = self.table.pattern, self.table.subscription_pattern
        if subscription_pattern is not None:
            method = "consumer.subscribe_subscription_pattern"
            try:
                await self.port.call(method, subscription_pattern)
                return
            except KafkaError as error:
                if pattern is None or error.error != "UNSUPPORTED_VERSION":
                    raise
        if pattern is not None:
            await self.port.call("consumer.subscribe_pattern", pattern)
        else:
            await self.port.call("consumer.subscribe", self.topics)

    async def _get_stuck(self) -> None:
        """Stay away from poll() for a while, once, records in hand, where the workload says so."""
        at_us, for_us = self.control.stuck[self.node]
        if self.port.now_us >= self.begin_us + at_us:
            del self.control.stuck[self.node]
            await asyncio.sleep(for_us / 1e6)

    async def _poll(self) -> dict[Any, Any]:
        """poll() with a rebalance listener that commits what is processed."""
        kind, payload = await self.port.call("consumer.poll", 1000)
        while kind != "records":
            self.control.stumbling.pop(self.node, None)
            if kind == "revoked" and self.table.commit in COMMITTING_LISTENER:
                self.last_commit += 1
                await self._commit()
            kind, payload = await self.port.call("consumer.continue")
        assert isinstance(payload, dict), payload
        return payload

    async def _handle(self, records: dict[Any, Any]) -> None:
        if self.table.commit == "first":
            await self._commit()
        for tp, batch in records.items():
            if self.table.handover:
                self.handed_over.put_nowait((tp, batch))
            else:
                await self._process(tp, batch)
        if self.table.commit == "sync":
            await self._commit()
        elif self.table.commit == "async":
            self.port.post("consumer.commit_async", None)
        elif self.table.commit in ("async-retry", "async-ordered-retry"):
            self.last_commit += 1
            offsets = {tp: batch[-1][0] + 1 for tp, batch in records.items()}
            self._commit_async(self.last_commit, offsets)

    def _commit_async(self, number: int, offsets: dict[Any, int]) -> None:
        """Commit without waiting; the callback is told the number of the commit."""
        _, done = self.port.call_acked("consumer.commit_async", offsets, True)
        done.add_done_callback(partial(self._on_commit, number, offsets))

    def _on_commit(self, number: int, offsets: dict[Any, int], answer: asyncio.Future[Any]) -> None:
        """Retry a commit that failed for now: at once, or only as long as it is the last one.

        The latter is the pattern of a number that each commit raises. Without it a retry may
        arrive after a later commit, and move the group's offset back.
        """
        if answer.cancelled() or not isinstance(answer.exception(), RetriableCommitFailedError):
            return
        if self.table.commit == "async-retry" or number == self.last_commit:
            self._commit_async(number, offsets)

    async def _process(self, tp: Any, batch: Any) -> None:
        if self.table.poison_record is not None:
            batch = await self._without_poison(tp, batch)
            if not batch:
                return
        await take_time(self.table.processing, self.rng, batch)
        self.port.record(processed(self.table.group, self.node, self.control, tp, batch))

    async def _without_poison(self, tp: Any, batch: Any) -> Any:
        """Return what of a batch can be processed, once the poison record is dealt with.

        An application that tries it again goes back to it: it gets the record once more, and what
        is behind it in the partition.
        """
        poison = 1 << 32 | (self.table.poison_record or 0)
        index = next((i for i, record in enumerate(batch) if record[1] == poison), None)
        if index is None:
            return batch
        offset, _, key, _ = batch[index]
        if self.table.on_poison == "retry":
            where = f"{self.node} fails at offset {offset} of {tp} again and again"
            self.control.stumbling[self.node] = where
            await self.port.call("consumer.seek", tp, offset)
            await asyncio.sleep(POISON_BACKOFF_S)
            return batch[:index]
        if self.table.on_poison == "dead-letter":
            topic, size = self.table.dead_letter, POISON_SIZE
            send = ("producer.send", topic, key, poison, size, None, True)
            await self.port.call_acked(*send)[1]
        return batch

    async def _work(self) -> None:
        while True:
            tp, batch = await self.handed_over.get()
            await self._process(tp, batch)

    async def _commit(self) -> None:
        try:
            await self.port.call("consumer.commit_sync", None)
        except Exception as error:  # CommitFailed after a rebalance: processed again elsewhere
            self.control.caught[self.node] = str(error)
