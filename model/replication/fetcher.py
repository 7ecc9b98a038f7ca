"""Replica fetchers: one thread per source broker, with truncate-on-fetch.

Models AbstractFetcherThread, ReplicaFetcherThread, RemoteLeaderEndPoint and the managers' map of
threads. A partition is *fetching* (in every request), *delayed* (after an error, for
replica.fetch.backoff.ms) or *failed* (dropped until new metadata). One request is in flight; the
thread does nothing else while it waits, so an OFFSET_OUT_OF_RANGE lookup holds up all partitions.

Requests are incremental (KIP-227, FetchSessionHandler): the first is full and opens a session, the
following name what changed since. A lost connection or a refused session starts with a full one.

Left out: lookup mode (OffsetsForLeaderEpoch from a follower), throttling, tiered storage, moves
between log directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from model.channel import Channel, Failed
from model.errors import Errors
from model.facts import ReplicaFailed
from model.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from model.records import RecordBatch, TopicPartition
from model.replication.sessions import INITIAL_EPOCH
from model.storage.files import DiskError

if TYPE_CHECKING:
    from model.replication.manager import ReplicaManager
    from model.replication.partition import Partition

NONE = Errors.NONE


class FetchState:
    """Where a partition is being fetched (PartitionFetchState)."""

    __slots__ = (
        "asked",
        "fetch_offset",
        "last_fetched_epoch",
        "leader_epoch",
        "max_bytes",
        "partition",
        "retry_at",
    )

    def __init__(self, partition: Partition, max_bytes: int) -> None:
        self.partition = partition
        self.max_bytes = max_bytes
        self.leader_epoch = partition.leader_epoch
        self.fetch_offset = partition.log.log_end_offset
        self.last_fetched_epoch = partition.log.epochs.latest_epoch
        self.retry_at = 0
        self.asked = self._ask()

    def move(self, fetch_offset: int, last_fetched_epoch: int) -> None:
        """Go on fetching elsewhere."""
        self.fetch_offset = fetch_offset
        self.last_fetched_epoch = last_fetched_epoch
        self.asked = self._ask()

    def _ask(self) -> FetchPartition:
        partition = self.partition
        return FetchPartition(
            partition.tp,
            partition.topic_id,
            self.fetch_offset,
            partition.log.log_start_offset,
            self.leader_epoch,
            self.last_fetched_epoch,
            self.max_bytes,
        )


class ReplicaFetcher:
    """A fetcher thread: everything this broker follows at one other broker."""

    def __init__(self, manager: ReplicaManager, leader: int, number: int, address: str) -> None:
        config = manager.config
        self.manager = manager
        self.leader = leader
        self.lane = f"fetcher-{leader}" if number == 0 else f"fetcher-{leader}-{number}"
        self.fetching: dict[TopicPartition, FetchState] = {}
        self.delayed: dict[TopicPartition, FetchState] = {}
        self.waiting = False  # for an answer
        self.stopped = False
        self.session_id = 0
        self.session_epoch = INITIAL_EPOCH
        self.session: dict[TopicPartition, FetchPartition] = {}  # as the leader knows it
        self.changed: dict[TopicPartition, None] = {}  # to be told to the leader, or forgotten
        self.max_bytes = config.replica_fetch_max_bytes
        self.backoff_us = config.replica_fetch_backoff_ms * 1000
        self.channel = Channel(
            manager.process,
            address,
            "replica-fetch",
            self.lane,
            config.replica_socket_timeout_ms,
            patient=True,
        )

    # ------------------------------------------------------------- called from the metadata lane

    def add(self, partition: Partition, now: int) -> None:
        """Start to fetch ``partition`` at its log end, under its present leader epoch."""
        self.delayed.pop(partition.tp, None)
        self.fetching[partition.tp] = FetchState(partition, self.max_bytes)
        self.changed[partition.tp] = None
        self._work(now)

    def remove(self, tp: TopicPartition) -> None:
        """Stop to fetch; a reply in flight will not be used."""
        self.fetching.pop(tp, None)
        self.delayed.pop(tp, None)
        self.changed[tp] = None

    def idle(self) -> bool:
        """Whether there is nothing to fetch from this broker."""
        return not self.fetching and not self.delayed

    def stop(self, now: int) -> None:
        """End the thread and its connection."""
        self.stopped = True
        self.manager.timers.cancel((self.lane, "delayed"))
        self.channel.close(now)

    # ------------------------------------------------------------------------------- the thread

    def _work(self, now: int) -> None:
        """Send the next fetch unless an answer is awaited (doWork)."""
        if self.waiting or self.stopped:
            return
        if self.delayed:
            self._end_delays(now)
        fetching = self.fetching
        if not fetching:
            return
        manager = self.manager
        config = manager.config
        self.waiting = True
        asked, forgotten = self._session_request()
        self.channel.send(
            FetchRequest(
                manager.broker_id,
                manager.process.broker_epoch,
                config.replica_fetch_wait_max_ms,
                config.replica_fetch_min_bytes,
                config.replica_fetch_response_max_bytes,
                0,
                asked,
                self.session_id,
                self.session_epoch,
                "",
                forgotten,
            ),
            now,
            self._on_fetch,
        )

    def _session_request(self) -> tuple[tuple[FetchPartition, ...], tuple[TopicPartition, ...]]:
        """Return what the request asks for and forgets, and remember it as the session's."""
        fetching = self.fetching
        session = self.session
        if self.session_epoch == INITIAL_EPOCH:
            self.session = {tp: state.asked for tp, state in fetching.items()}
            self.changed.clear()
            return tuple(self.session.values()), ()
        asked: list[FetchPartition] = []
        forgotten: list[TopicPartition] = []
        for tp in self.changed:
            state = fetching.get(tp)
            if state is not None:
                session[tp] = state.asked
                asked.append(state.asked)
            elif session.pop(tp, None) is not None:
                forgotten.append(tp)
        self.changed.clear()
        return tuple(asked), tuple(forgotten)

    def _end_delays(self, now: int) -> None:
        for tp, state in list(self.delayed.items()):
            if state.retry_at <= now:
                del self.delayed[tp]
                self.fetching[tp] = state
                self.changed[tp] = None
        if self.delayed:
            earliest = min([state.retry_at for state in self.delayed.values()])
            self.manager.timers.arm((self.lane, "delayed"), earliest, self.lane, self._work)

    def _delay(self, tp: TopicPartition, now: int) -> None:
        state = self.fetching.pop(tp, None)
        if state is not None:
            state.retry_at = now + self.backoff_us
            self.delayed[tp] = state
            self.changed[tp] = None

    def _fail(self, state: FetchState, reason: str) -> None:
        """Stop fetching a partition until metadata brings it back (failedPartitions)."""
        partition = state.partition
        del self.fetching[partition.tp]
        self.changed[partition.tp] = None
        self.manager.out.append(ReplicaFailed(partition.topic_id, partition.tp.partition, reason))

    def _on_fetch(self, response: FetchResponse | Failed, now: int) -> None:
        self.waiting = False
        if self.stopped:
            return
        session = self.session
        if isinstance(response, Failed):
            self.session_epoch = INITIAL_EPOCH  # the next request closes that session, if it lives
            for tp in session:
                self._delay(tp, now)
            self._work(now)
            return
        if response.error is not NONE:  # FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH
            if response.error is Errors.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = 0
            self.session_epoch = INITIAL_EPOCH
            self._work(now)
            return
        self.session_id = response.session_id
        self.session_epoch += 1
        fetching = self.fetching
        accepts = self.manager.rules.accepts_fetch_reply
        lookup: FetchState | None = None
        for answer in response.partitions:
            asked = session[answer.tp]
            state = fetching.get(answer.tp)
            if state is None:
                continue
            if state.asked is not asked and not accepts(asked, state):
                continue
            if answer.error is not NONE:
                if answer.error is Errors.OFFSET_OUT_OF_RANGE and lookup is None:
                    lookup = state
                elif answer.error is not Errors.OFFSET_OUT_OF_RANGE:
                    self._on_error(asked, state, answer.error, now)
            elif answer.diverging_epoch is not None or answer.batches:
                self._on_progress(state, answer, now)
            else:
                partition = state.partition
                log = partition.log
                if (
                    log.high_watermark != answer.high_watermark
                    or log.log_start_offset < answer.log_start_offset
                ):
                    self._follow(state, answer)
        if lookup is not None and lookup is fetching.get(lookup.partition.tp):
            self._look_up(lookup, LATEST_TIMESTAMP, now)
            return
        self._work(now)

    def _follow(self, state: FetchState, answer: FetchPartitionResponse) -> None:
        start = state.partition.log.log_start_offset
        state.partition.follow_offsets(answer.high_watermark, answer.log_start_offset)
        if state.partition.log.log_start_offset != start:
            self._move(state, state.fetch_offset, state.last_fetched_epoch)

    def _on_error(self, asked: FetchPartition, state: FetchState, error: Errors, now: int) -> None:
        if error is Errors.FENCED_LEADER_EPOCH:
            if asked.current_leader_epoch == state.leader_epoch:
                self._fail(state, error.name)
            return  # else the epoch moved on meanwhile: the next fetch carries it
        self._delay(asked.tp, now)

    def _on_progress(self, state: FetchState, answer: FetchPartitionResponse, now: int) -> None:
        """Truncate where we diverge, or append what came."""
        partition = state.partition
        try:
            if answer.diverging_epoch is not None:
                self._truncate(state, answer)
                return
            batches = answer.batches
            for batch in batches:
                if type(batch) is not RecordBatch:  # bit rot at the leader: retried for ever
                    self._delay(partition.tp, now)
                    return
            reason = partition.append_as_follower(batches, state.fetch_offset, state.leader_epoch)
        except DiskError as error:
            self._fail(state, error.reason)
            partition.mark_offline()
            self.manager.process.log_dir_failed(error, now)
            return
        if reason:
            self._fail(state, reason)
            return
        end = partition.log.log_end_offset
        if end == state.fetch_offset:  # all of it was of a newer epoch (0.1 b)
            return
        partition.follow_offsets(answer.high_watermark, answer.log_start_offset)
        self._move(state, end, partition.log.epochs.latest_epoch)

    def _move(self, state: FetchState, fetch_offset: int, last_fetched_epoch: int) -> None:
        state.move(fetch_offset, last_fetched_epoch)
        self.changed[state.partition.tp] = None

    def _truncate(self, state: FetchState, answer: FetchPartitionResponse) -> None:
        partition = state.partition
        rules = self.manager.rules
        assert answer.diverging_epoch is not None
        epoch, end = answer.diverging_epoch
        high_watermark = rules.follower_hw_from_diverging(answer)
        if high_watermark is not None:
            partition.log.update_high_watermark(high_watermark)
        log = partition.log
        partition.truncate_to(rules.truncation_offset(log, epoch, end, state.fetch_offset))
        self._move(state, log.log_end_offset, log.epochs.latest_epoch)

    # ------------------------------------------------------- OFFSET_OUT_OF_RANGE: ask the leader

    def _look_up(self, state: FetchState, timestamp: int, now: int) -> None:
        """Ask for the leader's end, then its start (fetchOffsetAndTruncate)."""
        asked = ListOffsetsPartition(state.partition.tp, state.leader_epoch, timestamp)
        self.waiting = True
        self.channel.send(
            ListOffsetsRequest(self.manager.broker_id, 0, (asked,)),
            now,
            lambda response, at: self._on_look_up(state, asked, response, at),
        )

    def _on_look_up(
        self,
        state: FetchState,
        asked: ListOffsetsPartition,
        response: ListOffsetsResponse | Failed,
        now: int,
    ) -> None:
        self.waiting = False
        if self.stopped:
            return
        tp = asked.tp
        if self.fetching.get(tp) is not state:
            self._work(now)
            return
        if isinstance(response, Failed) or response.partitions[0].error is not NONE:
            self._delay(tp, now)
            self._work(now)
            return
        partition = state.partition
        offset = response.partitions[0].offset
        log = partition.log
        try:
            if asked.timestamp == LATEST_TIMESTAMP:
                if offset >= log.log_end_offset:
                    self._look_up(state, EARLIEST_TIMESTAMP, now)
                    return
                partition.truncate_to(offset)
            elif offset > log.log_end_offset:
                partition.truncate_fully(offset)
        except DiskError as error:
            self._fail(state, error.reason)
            partition.mark_offline()
            self.manager.process.log_dir_failed(error, now)
            return
        self._move(state, log.log_end_offset, log.epochs.latest_epoch)
        self._work(now)
