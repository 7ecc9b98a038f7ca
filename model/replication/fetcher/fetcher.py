"""Replica fetchers: one thread per source broker.

Models AbstractFetcherThread, ReplicaFetcherThread, RemoteLeaderEndPoint and the managers' map of
threads. A partition is *truncating* (lookup mode, :mod:`kafkasim.model.replication.fetcher.truncation`), *fetching*
(in every request), *delayed* (after an error, for replica.fetch.backoff.ms) or *failed* (dropped
until new metadata). One request is in flight; the thread does nothing else while it waits, so a
lookup holds up all partitions.

Requests are incremental (KIP-227, FetchSessionHandler): the first is full and opens a session, the
following name what changed since. A lost connection or a refused session starts with a full one.

Left out: tiered storage, moves between log directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Channel, Failed
from kafkasim.model.effects import Post
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ReplicaFailed
from kafkasim.model.messages import (
    LATEST_TIMESTAMP,
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.replication.fetcher.fetch_state import FetchState
from kafkasim.model.replication.fetcher.truncation import Truncation
from kafkasim.model.replication.requests.sessions import INITIAL_EPOCH
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.replication.fetcher.quota import ReplicationQuota
    from kafkasim.model.replication.manager import ReplicaManager
    from kafkasim.model.replication.partition.partition import Partition

NONE = Errors.NONE


class ReplicaFetcher:
    """A fetcher thread: everything this broker follows at one other broker."""

    def __init__(self, manager: ReplicaManager, leader: int, number: int, address: str) -> None:
        config = manager.config
        self.manager = manager
        self.leader = leader
        self.lane = f"fetcher-{leader}" if number == 0 else f"fetcher-{leader}-{number}"
        self.truncating: dict[TopicPartition, FetchState] = {}
        self.fetching: dict[TopicPartition, FetchState] = {}
        self.delayed: dict[TopicPartition, FetchState] = {}
        self.removed: dict[TopicPartition, FetchState] = {}  # since the fetch in flight was sent
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
        self.truncation = Truncation(self)

    # ------------------------------------------------------------- called from the metadata lane

    def add(self, partition: Partition, now: int) -> None:
        """Start to fetch ``partition`` under its present leader epoch: at its log end, or, where it
        is to be truncated first, at its high watermark."""
        manager, tp = self.manager, partition.tp
        on_fetch = manager.truncation_on_fetch and manager.rules.truncates_on_fetch(partition.log)
        state = FetchState(partition, self.max_bytes, on_fetch)
        self.delayed.pop(tp, None)
        self.truncating.pop(tp, None)
        self.changed[tp] = None
        if state.truncating:
            self.truncating[tp] = state
            if partition.log.log_end_offset > state.fetch_offset:
                manager.out.append(Post(self.lane, self._begin, None))  # it may wait for the disk
                return
        else:
            self.fetching[tp] = state
        self.work(now)

    def remove(self, tp: TopicPartition) -> None:
        """Stop to fetch; a reply in flight will not be used."""
        state = self.fetching.pop(tp, None)
        if state is not None and self.waiting:
            self.removed[tp] = state
        self.truncating.pop(tp, None)
        self.delayed.pop(tp, None)
        self.changed[tp] = None

    def idle(self) -> bool:
        """Whether there is nothing to fetch from this broker."""
        return not self.fetching and not self.delayed and not self.truncating

    def stop(self, now: int) -> None:
        """End the thread and its connection."""
        self.stopped = True
        self.manager.timers.cancel((self.lane, "delayed"))
        self.channel.close(now)

    # ------------------------------------------------------------------------------- the thread

    def _begin(self, _: Any, now: int) -> None:
        self.work(now)

    def work(self, now: int) -> None:
        """Truncate, then send the next fetch, unless an answer is awaited (doWork)."""
        if self.waiting or self.stopped:
            return
        if self.delayed:
            self._end_delays(now)
        if self.truncating and self.truncation.step(now):
            return
        if self.manager.follower_quota is not None:
            self._throttle(self.manager.follower_quota, now)
        fetching = self.fetching
        if not fetching:
            return
        manager = self.manager
        config = manager.config
        self.waiting = True
        self.removed.clear()
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

    def _throttle(self, quota: ReplicationQuota, now: int) -> None:
        """Leave out what is over its rate, and look again after the backoff."""
        for tp, state in list(self.fetching.items()):
            if not quota.fetches(state, now):
                self.delay(tp, now)
        if self.delayed:
            self._end_delays(now)

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
                (self.truncating if state.truncating else self.fetching)[tp] = state
                self.changed[tp] = None
        if self.delayed:
            earliest = min([state.retry_at for state in self.delayed.values()])
            self.manager.timers.arm((self.lane, "delayed"), earliest, self.lane, self.work)

    def delay(self, tp: TopicPartition, now: int) -> None:
        """Leave a partition alone for replica.fetch.backoff.ms."""
        state = self.fetching.pop(tp, None) or self.truncating.pop(tp, None)
        if state is not None:
            state.retry_at = now + self.backoff_us
            self.delayed[tp] = state
            self.changed[tp] = None

    def fail(self, state: FetchState, reason: str) -> None:
        """Stop fetching a partition until metadata brings it back (failedPartitions)."""
        partition = state.partition
        self.fetching.pop(partition.tp, None)
        self.truncating.pop(partition.tp, None)
        self.changed[partition.tp] = None
        self.manager.out.append(ReplicaFailed(partition.topic_id, partition.tp.partition, reason))

    def fail_disk(self, state: FetchState, error: DiskError, now: int) -> None:
        """The disk refused: the partition is offline."""
        self.fail(state, error.reason)
        state.partition.mark_offline()
        self.manager.process.log_dir_failed(error, now)

    def _on_fetch(self, response: FetchResponse | Failed, now: int) -> None:
        self.waiting = False
        if self.stopped:
            return
        session = self.session
        if isinstance(response, Failed):
            self.session_epoch = INITIAL_EPOCH  # the next request closes that session, if it lives
            for tp in session:
                self.delay(tp, now)
            self.work(now)
            return
        if response.error is not NONE:  # FETCH_SESSION_ID_NOT_FOUND, INVALID_FETCH_SESSION_EPOCH
            if response.error is Errors.FETCH_SESSION_ID_NOT_FOUND:
                self.session_id = 0
            self.session_epoch = INITIAL_EPOCH
            self.work(now)
            return
        self.session_id = response.session_id
        self.session_epoch += 1
        fetching, rules = self.fetching, self.manager.rules
        lookup: FetchState | None = None
        for answer in response.partitions:
            asked = session[answer.tp]
            state = fetching.get(answer.tp)
            if state is None:
                if answer.tp in self.removed:
                    self._on_removed(self.removed[answer.tp], answer, now)
                continue
            if state.asked is not asked and not rules.accepts_fetch_reply(asked, state):
                continue
            if answer.error is not NONE:
                if answer.error is Errors.OFFSET_OUT_OF_RANGE and lookup is None:
                    lookup = state
                elif answer.error is not Errors.OFFSET_OUT_OF_RANGE:
                    self._on_error(asked, state, answer.error, now)
            elif answer.diverging_epoch is not None or answer.batches:
                self._on_progress(state, answer, now)
            else:
                log = state.partition.log
                state.lag = state.lag and max(0, answer.high_watermark - state.fetch_offset)
                if (
                    log.high_watermark != answer.high_watermark
                    or log.log_start_offset < answer.log_start_offset
                ):
                    self._follow(state, answer, now)
        if lookup is not None and lookup is fetching.get(lookup.partition.tp):
            self.truncation.look_up(lookup, LATEST_TIMESTAMP, now)
            return
        self.work(now)

    def _on_removed(self, state: FetchState, answer: FetchPartitionResponse, now: int) -> None:
        """The partition left this fetcher while its fetch was on its way."""
        if self.manager.rules.uses_reply_of_removed(state) and answer.error is NONE:
            if answer.diverging_epoch is not None or answer.batches:
                self._on_progress(state, answer, now)

    def _follow(self, state: FetchState, answer: FetchPartitionResponse, now: int) -> None:
        start = state.partition.log.log_start_offset
        state.partition.follow_offsets(answer.high_watermark, answer.log_start_offset, now)
        if state.partition.log.log_start_offset != start:
            self.move(state, state.fetch_offset, state.last_fetched_epoch)

    def _on_error(self, asked: FetchPartition, state: FetchState, error: Errors, now: int) -> None:
        if error is Errors.FENCED_LEADER_EPOCH:
            if asked.current_leader_epoch == state.leader_epoch:
                self.fail(state, error.name)
            return  # else the epoch moved on meanwhile: the next fetch carries it
        self.delay(asked.tp, now)

    def _on_progress(self, state: FetchState, answer: FetchPartitionResponse, now: int) -> None:
        """Truncate where we diverge, or append what came."""
        partition = state.partition
        try:
            if answer.diverging_epoch is not None:
                self._truncate(state, answer, now)
                return
            end = partition.log.log_end_offset
            if state.fetch_offset != end:
                self.fail(state, f"fetched at {state.fetch_offset}, log end is {end}")
                return
            result = partition.append_as_follower(answer.batches, state.leader_epoch)
        except DiskError as error:
            self.fail_disk(state, error, now)
            return
        if result.error is Errors.CORRUPT_MESSAGE:  # bit rot at the leader: retried for ever
            self.delay(partition.tp, now)
            return
        if result.error is not NONE:
            base = answer.batches[0].base_offset
            self.fail(state, f"batch at {base} is below the log end {end}")
            return
        end = partition.log.log_end_offset
        quota = self.manager.follower_quota
        if quota is not None:
            state.lag = answer.high_watermark - end
            quota.fetched(state, sum([batch.size for batch in answer.batches]), now)
        if result.batch is None:  # every batch was of a newer leader epoch (KAFKA-18723)
            return
        partition.follow_offsets(answer.high_watermark, answer.log_start_offset, now)
        state.move(end, partition.log.epochs.latest_epoch)
        self.changed[partition.tp] = None

    def move(self, state: FetchState, fetch_offset: int, last_fetched_epoch: int) -> None:
        state.move(fetch_offset, last_fetched_epoch)
        self.changed[state.partition.tp] = None

    def _truncate(self, state: FetchState, answer: FetchPartitionResponse, now: int) -> None:
        partition = state.partition
        rules = self.manager.rules
        assert answer.diverging_epoch is not None
        epoch, end = answer.diverging_epoch
        high_watermark = rules.follower_hw_from_diverging(answer)
        if high_watermark is not None:
            partition.follow_offsets(high_watermark, answer.log_start_offset, now)
        log = partition.log
        partition.truncate_to(rules.truncation_offset(log, epoch, end, state.fetch_offset))
        self.move(state, log.log_end_offset, log.epochs.latest_epoch)
