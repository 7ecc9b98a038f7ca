"""Fetch requests: read, record a follower's progress, then answer or wait for ``min_bytes``.

Models ReplicaManager.fetchMessages, DelayedFetch and the contexts of KIP-227 (FetchContext). A
fetch without a session names all its partitions; a fetch in a session names only what changed.
A follower serves consumers, too, up to its own high watermark (KIP-392).

A consumer above its quota gets an empty answer, and is told how long to wait (KIP-219).
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkasim.model.effects import Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
)
from kafkasim.model.messages.base import HEADER, PER_PARTITION
from kafkasim.model.replication.ports import NoQuota, NoRequestQuota
from kafkasim.model.replication.requests.fetch_sessions import (
    CachedPartition,
    FetchSession,
    FetchSessionCache,
)

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.partitions.delayed_operations import FetchWaiter
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.partitions.partition import Partition
    from kafkasim.model.replication.partitions.role_locks import RoleLocks
    from kafkasim.model.replication.ports import BrokerProcess, ClientQuota, RequestQuota
    from kafkasim.model.replication.requests.fetch_reader import FetchReader, FetchResult, Wanted
    from kafkasim.model.replication.requests.purgatory import Purgatory
    from kafkasim.model.replication.rules import ReplicationRules

NONE = Errors.NONE
SEND = "network"  # the lane of stalled answers: a network thread


class FetchContext(Protocol):
    """What a fetch is about, whether or not it has a session."""

    @property
    def session_id(self) -> int:
        """The session's id, 0 without one."""
        ...

    def is_empty(self) -> bool:
        """Return whether no partition is fetched at all."""
        ...

    def wanted(self) -> Wanted:
        """Return the partitions to read."""
        ...

    def park(self, operation: DelayedFetch, result: FetchResult) -> None:
        """Wait for the partitions that were read."""
        ...

    def unpark(self, operation: DelayedFetch) -> None:
        """Wait for no partition any more."""
        ...

    def answers(self, result: FetchResult, now: int) -> list[FetchPartitionResponse]:
        """Return the partitions of the response."""
        ...


class SessionlessFetch:
    """A fetch that names all its partitions (SessionlessFetchContext)."""

    session_id = 0

    def __init__(self, request: FetchRequest, hosted: HostedPartitions) -> None:
        self._request = request
        self._hosted = hosted
        self._parked_in: list[dict[FetchWaiter, FetchPartition]] = []

    def is_empty(self) -> bool:
        """Return whether the request names no partition."""
        return not self._request.partitions

    def wanted(self) -> Wanted:
        """Return all partitions of the request."""
        find = self._hosted.online.get
        return [(asked, find(asked.tp)) for asked in self._request.partitions]

    def park(self, operation: DelayedFetch, result: FetchResult) -> None:
        """Wait for every partition: followers for appends, consumers for the high watermark."""
        follower = self._request.replica_id >= 0
        for asked, partition, _, _ in result.reads:
            assert partition is not None, asked  # else there is an answer at once
            delayed = partition.delayed
            waiters = delayed.follower_fetches if follower else delayed.consumer_fetches
            waiters[operation] = asked
            self._parked_in.append(waiters)

    def unpark(self, operation: DelayedFetch) -> None:
        """Wait for no partition any more."""
        for waiters in self._parked_in:
            waiters.pop(operation, None)

    def answers(self, result: FetchResult, _now: int) -> list[FetchPartitionResponse]:
        """Return an answer for every partition."""
        found: list[FetchPartitionResponse] = []
        for _, partition, high_watermark, answer in result.reads:
            if answer is None:
                assert partition is not None
                answer = partition.nothing_new(high_watermark)
            found.append(answer)
        return found


class SessionFetch:
    """A fetch in a session (FullFetchContext, IncrementalFetchContext)."""

    def __init__(
        self,
        session: FetchSession,
        hosted: HostedPartitions,
        cache: FetchSessionCache,
        skips_idle: bool,
    ) -> None:
        """``skips_idle``: only what happens to a partition decides what a fetch of it brings."""
        self.session_id = session.id  # 0 for a new session
        self._session = session
        self._hosted = hosted
        self._cache = cache
        self._skips_idle = skips_idle

    def is_empty(self) -> bool:
        """Return whether the session has no partition."""
        return not self._session.entries

    def wanted(self) -> Wanted:
        """Return the dirty partitions of the session; the others have no news."""
        return [
            (entry.asked, entry.partition or self._attach(entry))
            for entry in self._session.to_read()
        ]

    def _attach(self, entry: CachedPartition) -> Partition | None:
        partition = self._hosted.online.get(entry.asked.tp)
        if partition is not None:
            entry.attach(partition)
        return partition

    def park(self, operation: DelayedFetch, result: FetchResult) -> None:
        """Wait for every partition of the session, clean ones too."""
        self._session.parked = operation
        self._skip_idle()

    def _skip_idle(self) -> None:
        """Do not read entries again before they have news."""
        if self._skips_idle:
            for entry in list(self._session.dirty):
                entry.mark_clean_if_idle()

    def unpark(self, operation: DelayedFetch) -> None:
        """Wait for no partition any more."""
        self._session.parked = None

    def answers(self, result: FetchResult, now: int) -> list[FetchPartitionResponse]:
        """Return the partitions with news, and record what is sent.

        All are new to a full fetch, and the session comes with its answer.
        """
        session = self._session
        found: list[FetchPartitionResponse] = []
        for asked, partition, high_watermark, answer in result.reads:
            entry = session.entries[asked.tp]
            if answer is None:
                assert partition is not None, asked
                log_start = partition.log.log_start_offset
                same_high_watermark = entry.sent_high_watermark == high_watermark
                if same_high_watermark and entry.sent_log_start == log_start:
                    continue
                answer = partition.nothing_new(high_watermark)
            found.append(answer)
            if answer.error is not NONE:
                entry.sent_high_watermark = -1  # to be sent again when the error is gone
            elif answer.diverging_epoch is None:
                entry.sent_high_watermark = answer.high_watermark
                entry.sent_log_start = answer.log_start_offset
                if answer.batches:
                    session.move_to_tail(entry)
        self._skip_idle()
        if session.evicted:
            session.close()
        elif not self.session_id:
            self._cache.offer(session, now)
            self.session_id = session.id
        return found


class PartlyRefusedFetch:
    """A fetch of which the sender may not have some topics; they join the answer with an error."""

    def __init__(
        self,
        inner: FetchContext,
        refuses: Callable[[str], Errors],
        knows_topic_id: Callable[[str], bool],
    ) -> None:
        self._inner = inner
        self._errors: dict[TopicPartition, Errors] = {}
        self._some_allowed = False
        for asked, _ in inner.wanted():
            if asked.topic_id and not knows_topic_id(asked.topic_id):
                continue  # UNKNOWN_TOPIC_ID, whoever asks
            error = refuses(asked.tp.topic)
            if error is NONE:
                self._some_allowed = True
            else:
                self._errors[asked.tp] = error

    @property
    def session_id(self) -> int:
        """The session's id, 0 without one."""
        return self._inner.session_id

    def is_empty(self) -> bool:
        """Return whether there is nothing to wait for."""
        return self._inner.is_empty() or bool(self._errors and not self._some_allowed)

    def wanted(self) -> Wanted:
        """Return the partitions to read."""
        return [each for each in self._inner.wanted() if each[0].tp not in self._errors]

    def park(self, operation: DelayedFetch, result: FetchResult) -> None:
        """Wait for the partitions that were read."""
        self._inner.park(operation, result)

    def unpark(self, operation: DelayedFetch) -> None:
        """Wait for no partition any more."""
        self._inner.unpark(operation)

    def answers(self, result: FetchResult, now: int) -> list[FetchPartitionResponse]:
        """Return the partitions of the response."""
        refused = [
            FetchPartitionResponse(tp, error, -1, -1, -1, ()) for tp, error in self._errors.items()
        ]
        return [*self._inner.answers(result, now), *refused]


Answer: TypeAlias = "Callable[[Request, FetchContext, FetchResult, int], None]"
"""Answers a fetch with what was read; the last is now."""


class DelayedFetch:
    """A fetch that waits for ``min_bytes``."""

    __slots__ = ("_answer", "_reader", "context", "deadline", "done", "item")

    def __init__(
        self, item: Request, context: FetchContext, reader: FetchReader, answer: Answer, now: int
    ) -> None:
        self.item = item
        self.context = context
        self.deadline = 0
        self.done = False
        self._reader = reader
        self._answer = answer

    def try_complete(self, asked: FetchPartition, now: int) -> None:
        """Answer if what happened to a partition is enough (DelayedFetch.tryComplete)."""
        if self._reader.ends_wait(self.item.message, self.context.wanted, asked, now):
            self.complete(now)

    def complete(self, now: int) -> None:
        """Read again and answer; the follower's progress is not recorded a second time."""
        self.done = True
        self.context.unpark(self)
        result = self._reader.read(self.item.message, self.context.wanted(), now, first=False)
        self._answer(self.item, self.context, result, now)

    expire = complete


class FetchHandler:
    """Serves Fetch."""

    def __init__(
        self,
        process: BrokerProcess,
        rules: ReplicationRules,
        hosted: HostedPartitions,
        locks: RoleLocks,
        purgatory: Purgatory,
        reader: FetchReader,
        sessions: FetchSessionCache,
    ) -> None:
        self._process = process
        self._hosted = hosted
        self._locks = locks
        self._purgatory = purgatory
        self._reader = reader
        self._sessions = sessions
        self._send_delay_us = rules.fetch_send_delay_us(process.broker_id)
        self.quota: ClientQuota = NoQuota()
        self.request_quota: RequestQuota = NoRequestQuota()
        # What is wrong with the fetch of a topic, for the sender of a request; None: nothing ever.
        self.refuses: Callable[[Request], Callable[[str], Errors]] | None = None

    def serve(self, item: Request, now: int) -> None:
        """Read, then answer or wait."""
        request: FetchRequest = item.message
        if self._locks.held:
            in_session = self._sessions.partitions_of(request.session_id)
            if self._locks.put_aside(item, in_session):
                return
        if request.replica_id < 0 and self.quota.enabled:
            item = self._within_quota(item)
            request = item.message
        stale = self._reader.is_stale(request)
        context: FetchContext
        session, error = self._sessions.open(request, now)
        if error is not NONE:
            self._respond(item, FetchResponse(error, ()), now)
            return
        if session is None:
            context = SessionlessFetch(request, self._hosted)
        else:
            if stale:
                session.mark_all_dirty()
            context = SessionFetch(session, self._hosted, self._sessions, self._skips_idle(request))
        if self.refuses is not None:
            context = PartlyRefusedFetch(
                context, self.refuses(item), self._hosted.cache.knows_topic_id
            )
        wanted = context.wanted()
        if self._hosted.unnamed:
            wanted = self._named(wanted)
        result = self._reader.read(request, wanted, now, first=True, stale=stale)
        if session is not None:
            session.last_fetch_us = now
        if (
            (not wanted and context.is_empty())
            or request.max_wait_ms <= 0
            or self._is_enough(request, wanted, result, now)
        ):
            self._answer(item, context, result, now)
            return
        waiting = DelayedFetch(item, context, self._reader, self._answer, now)
        context.park(waiting, result)
        self._purgatory.add(waiting, request.max_wait_ms, now)

    def _skips_idle(self, request: FetchRequest) -> bool:
        """Return whether a fetch need not read partitions without news.

        Authorization and replica selection (KIP-392) look at all that a consumer fetches.
        """
        return request.replica_id >= 0 or (
            self.refuses is None and not self._reader.selects_replicas
        )

    def _named(self, wanted: Wanted) -> Wanted:
        """Take the partitions that the metadata cache lacks for unknown ones, for consumers and
        followers (KafkaApis.handleFetchRequest)."""
        unnamed = self._hosted.unnamed
        return [(asked, None if asked.tp in unnamed else found) for asked, found in wanted]

    def _is_enough(
        self, request: FetchRequest, wanted: Wanted, result: FetchResult, now: int
    ) -> bool:
        """Return whether a fetch is answered at once.

        A read ends with its segment, so less may have been read than there is.
        """
        if result.urgent or result.bytes >= request.min_bytes:
            return True
        if not result.bytes:
            return False
        return self._reader.available_bytes(request, wanted, now) >= request.min_bytes

    def _within_quota(self, item: Request) -> Request:
        """Return a consumer's fetch, of at most the bytes that its quota's windows allow."""
        request: FetchRequest = item.message
        user = self._process.peer_of(item.connection).user
        most = self.quota.most_bytes(request.client_id, user)
        if most is None or most >= request.max_bytes:
            return item
        limited = replace(request, max_bytes=most, min_bytes=min(request.min_bytes, most))
        return Request(item.connection, item.correlation, limited, item.received_us)

    def _throttled(
        self, item: Request, context: FetchContext, result: FetchResult, now: int
    ) -> FetchResponse | None:
        """Return the answer to a consumer above its quota: it is empty, and names the time.

        What was read is not counted, because it is not sent (KafkaApis.handleFetchRequest).
        """
        size = HEADER + PER_PARTITION * len(result.reads) + result.bytes
        client_id = item.message.client_id
        user = self._process.peer_of(item.connection).user
        throttle_ms = max(
            self.quota.record(client_id, size, now, user), self.request_quota.record(item, now)
        )
        if not throttle_ms:
            return None
        self.quota.unrecord(client_id, size, now, user)
        return FetchResponse(NONE, (), context.session_id, throttle_ms)

    def _answer(self, item: Request, context: FetchContext, result: FetchResult, now: int) -> None:
        if item.message.replica_id < 0 and self.quota.enabled:
            throttled = self._throttled(item, context, result, now)
            if throttled is not None:
                self._respond(item, throttled, now)
                return
        response = FetchResponse(NONE, tuple(context.answers(result, now)), context.session_id)
        self._respond(item, response, now)

    def _respond(self, item: Request, response: FetchResponse, now: int) -> None:
        follower = item.message.replica_id >= 0
        process = self._process
        if follower and self._send_delay_us and response.error is NONE:
            self._send_later(item, response, now)
        else:
            throttle_ms = response.throttle_time_ms
            process.out.append(Respond(item.connection, item.correlation, response, throttle_ms))

    def _send_later(self, item: Request, response: FetchResponse, now: int) -> None:
        """Send what is in the files when the socket takes it, not what was read (B83)."""
        process = self._process

        def send(_at: int) -> None:
            sent = tuple([self._read_again(answer) for answer in response.partitions])
            stalled = FetchResponse(response.error, sent, response.session_id)
            process.out.append(Respond(item.connection, item.correlation, stalled))

        process.timers.arm(("send", item.connection), now + self._send_delay_us, SEND, send)

    def _read_again(self, answer: FetchPartitionResponse) -> FetchPartitionResponse:
        partition = self._hosted.online.get(answer.tp)
        if partition is None or not answer.batches:
            return answer
        size = sum([batch.size for batch in answer.batches])
        log = partition.log
        batches = log.read(answer.batches[0].base_offset, size, log.log_end_offset, False)
        return replace(answer, batches=batches)
