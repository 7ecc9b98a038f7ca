"""ReplicaFetcher: one thread that copies partitions from one leader.

Models AbstractFetcherThread and ReplicaFetcherThread. The states of a partition are in
`fetch_state.py`. Requests are incremental (KIP-227), and one is in flight at a time.

Left out: tiered storage, moves between log directories.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from kafkasim.model.channel import Failed
from kafkasim.model.effects import Post
from kafkasim.model.errors import Errors
from kafkasim.model.facts import HoleEntered, ReplicaFailed, StaleReplyUsed
from kafkasim.model.fetch_session import FetchSessionHandler
from kafkasim.model.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.replication.fetching.fetch_state import FetchState, FetchStates
from kafkasim.model.replication.fetching.leader_endpoint import LeaderEndpoint
from kafkasim.model.replication.fetching.truncation import Truncation
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.replication.dynamic_config import DynamicBrokerConfig
    from kafkasim.model.replication.partitions.partition import Partition
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.replication.quotas.replication_quota import ReplicationQuota
    from kafkasim.model.replication.rules import ReplicationRules

NONE = Errors.NONE


class ReplicaFetcher:
    """A fetcher thread: everything this broker follows at one other broker."""

    def __init__(
        self,
        process: BrokerProcess,
        settings: DynamicBrokerConfig,
        rules: ReplicationRules,
        leader_id: int,
        number: int,
        address: str,
    ) -> None:
        config = settings.current
        self._process = process
        self._settings = settings
        self._rules = rules
        self._on_fetch_mode = config.truncation_on_fetch
        self._max_bytes = config.replica_fetch_max_bytes
        self.lane = f"fetcher-{leader_id}" if number == 0 else f"fetcher-{leader_id}-{number}"
        self.states = FetchStates(config.replica_fetch_backoff_ms * 1000)
        self.session = FetchSessionHandler()
        self._removed: dict[TopicPartition, FetchState] = {}  # since the fetch in flight was sent
        timeout_ms = config.replica_socket_timeout_ms
        self.leader = LeaderEndpoint(process, address, self.lane, timeout_ms)
        self._truncation = Truncation(process.broker_id, rules, self.states, self.leader, self)

    # ------------------------------------------------------------- called from the metadata lane

    def add(self, partition: Partition, now: int) -> None:
        """Fetch ``partition`` under its present leader epoch from now on.

        It begins at its log end or, where it has to be truncated first, at its high watermark.
        """
        on_fetch = self._on_fetch_mode and self._rules.truncates_on_fetch(partition.log)
        state = FetchState(partition, self._max_bytes, on_fetch)
        self.states.add(state)
        if state.truncating and partition.log.log_end_offset > state.fetch_offset:
            self._process.out.append(Post(self.lane, self._begin, None))  # it may wait for the disk
        else:
            self.work(now)

    def remove(self, tp: TopicPartition) -> None:
        """Fetch a partition no longer; a reply in flight will not be used."""
        state = self.states.remove(tp)
        if state is not None and self.leader.waiting:
            self._removed[tp] = state

    def stop(self, now: int) -> None:
        """End the thread and its connection."""
        self._process.timers.cancel((self.lane, "delayed"))
        self.leader.stop(now)

    # ------------------------------------------------------------------------------- the thread

    def _begin(self, _: Any, now: int) -> None:
        self.work(now)

    def work(self, now: int) -> None:
        """Truncate, then send the next fetch, unless an answer is awaited (doWork)."""
        states = self.states
        if self.leader.waiting or self.leader.stopped:
            return
        if states.delayed:
            self._end_delays(now)
        if states.truncating and self._truncation.step(now):
            return
        quota = self._settings.quotas.follower
        if quota is not None:
            self._throttle(quota, now)
        if not states.fetching:
            return
        process, config = self._process, self._settings.current
        self._removed.clear()
        states.tell_log_starts()
        asked, forgotten = self.session.next_request_of(states.fetching, states.changed)
        states.changed.clear()
        self.leader.ask(
            FetchRequest(
                process.broker_id,
                process.broker_epoch,
                config.replica_fetch_wait_max_ms,
                config.replica_fetch_min_bytes,
                config.replica_fetch_response_max_bytes,
                0,
                asked,
                self.session.id,
                self.session.epoch,
                "",
                forgotten,
            ),
            now,
            self._on_fetch,
        )

    def _throttle(self, quota: ReplicationQuota, now: int) -> None:
        """Delay the partitions that exceed the throttle."""
        for tp, state in list(self.states.fetching.items()):
            if not quota.fetches(state, now):
                self.states.delay(tp, now)
        if self.states.delayed:
            self._end_delays(now)

    def _end_delays(self, now: int) -> None:
        next_end = self.states.end_delays(now)
        if next_end is not None:
            self._process.timers.arm((self.lane, "delayed"), next_end, self.lane, self.work)

    def fail(self, state: FetchState, reason: str) -> None:
        """Stop fetching a partition until metadata brings it back (failedPartitions)."""
        partition = state.partition
        self.states.remove(partition.tp)
        failed = ReplicaFailed(partition.topic_id, partition.tp.partition, reason)
        self._process.out.append(failed)

    def _tell(self, hole: str, partition: Partition) -> None:
        place = partition.topic_id, partition.tp.partition
        self._process.out.append(HoleEntered(hole, *place))

    def _tell_untaken(self, state: FetchState, answer: FetchPartitionResponse) -> None:
        """Tell of a high watermark that is not taken: the session does not send it again."""
        if answer.high_watermark > state.partition.log.high_watermark:
            self._tell("high-watermark-not-taken", state.partition)

    def fail_disk(self, state: FetchState, error: DiskError, now: int) -> None:
        """Take a partition offline: its log directory failed."""
        self.fail(state, error.reason)
        state.partition.mark_offline()
        self._process.log_dir_failed(error, now)

    # ------------------------------------------------------------------------------- the replies

    def _on_fetch(self, response: FetchResponse | Failed, now: int) -> None:
        """Take a reply (processFetchRequest): truncate, append or delay each of its partitions."""
        session, states = self.session, self.states
        if isinstance(response, Failed):
            session.connection_lost()
            for tp in session.partitions:
                states.delay(tp, now)
            self.work(now)
            return
        if not session.accept(response):
            self.work(now)
            return
        out_of_range: FetchState | None = None
        for answer in response.partitions:
            asked = session.partitions[answer.tp]
            state = states.fetching.get(answer.tp)
            if state is None:
                if answer.tp in self._removed:
                    self._on_removed(self._removed[answer.tp], answer, now)
                continue
            if state.asked is not asked and not self._rules.accepts_fetch_reply(
                asked, state.fetch_offset, state.leader_epoch
            ):
                self._tell_untaken(state, answer)
                continue
            if answer.error is Errors.OFFSET_OUT_OF_RANGE:
                out_of_range = out_of_range or state
            elif answer.error is not NONE:
                self._on_error(asked, state, answer.error, now)
            elif answer.diverging_epoch is not None or answer.batches:
                if state.asked is not asked:
                    self._tell_stale(asked, state, answer)
                self._on_progress(state, answer, now)
            else:
                self._on_nothing_new(state, answer, now)
        if out_of_range is not None:
            if out_of_range is states.fetching.get(out_of_range.partition.tp):
                self._truncation.look_up(out_of_range, now)
                return
        self.work(now)

    def _tell_stale(
        self, asked: FetchPartition, state: FetchState, answer: FetchPartitionResponse
    ) -> None:
        """Tell of batches that were asked for in another leader epoch."""
        if answer.diverging_epoch is None and asked.current_leader_epoch != state.leader_epoch:
            partition, first = state.partition, answer.batches[0]
            self._process.out.append(
                StaleReplyUsed(
                    partition.topic_id,
                    partition.tp.partition,
                    state.leader_epoch,
                    first.base_offset,
                    first.leader_epoch,
                )
            )

    def _on_removed(self, state: FetchState, answer: FetchPartitionResponse, now: int) -> None:
        """Take a reply for a partition that has left this fetcher; the rules drop it."""
        if self._rules.uses_reply_of_removed() and answer.error is NONE:
            if answer.diverging_epoch is not None or answer.batches:
                self._on_progress(state, answer, now)

    def _on_nothing_new(self, state: FetchState, answer: FetchPartitionResponse, now: int) -> None:
        """Take the leader's offsets from a reply without records."""
        partition = state.partition
        log = partition.log
        state.lag = state.lag and max(0, answer.high_watermark - state.fetch_offset)
        behind = log.log_start_offset < answer.log_start_offset
        if behind or log.high_watermark != answer.high_watermark:
            self._follow_offsets(state, answer, now)

    def _follow_offsets(self, state: FetchState, answer: FetchPartitionResponse, now: int) -> bool:
        """Take the leader's offsets; return whether the partition is still online.

        A new log start writes the epochs' checkpoint: its log directory may fail, and the rest of
        the reply goes on (AbstractFetcherThread.processFetchRequest, KafkaStorageException).
        """
        try:
            state.partition.follow_offsets(answer.high_watermark, answer.log_start_offset, now)
        except DiskError as error:
            self.fail_disk(state, error, now)
            return False
        return True

    def _on_error(self, asked: FetchPartition, state: FetchState, error: Errors, now: int) -> None:
        """Delay a partition after an error; one that the leader fences in its own epoch fails."""
        fenced = error is Errors.FENCED_LEADER_EPOCH
        if fenced and asked.current_leader_epoch == state.leader_epoch:  # onPartitionFenced
            self.fail(state, error.name)
        else:
            self.states.delay(asked.tp, now)

    def _on_progress(self, state: FetchState, answer: FetchPartitionResponse, now: int) -> None:
        """Truncate a log that diverged, or append what came (processPartitionData)."""
        partition = state.partition
        batches = answer.batches
        end = partition.log.local.log_end_offset
        try:
            if answer.diverging_epoch is not None:
                self._truncate(state, answer, answer.diverging_epoch, now)
                return
            if state.fetch_offset != end:
                self.fail(state, f"fetched at {state.fetch_offset}, log end is {end}")
                return
            result = partition.append_as_follower(batches, state.leader_epoch)
        except DiskError as error:
            self.fail_disk(state, error, now)
            return
        if result.error is Errors.CORRUPT_MESSAGE:  # bit rot at the leader: retried for ever
            self.states.delay(partition.tp, now)
            return
        if result.error is not NONE:
            base = batches[0].base_offset
            self._tell("append-below-the-log-end", partition)
            self.fail(state, f"batch at {base} is below the log end {end}")
            return
        end = partition.log.local.log_end_offset
        quota = self._settings.quotas.follower
        if quota is not None:
            state.lag = answer.high_watermark - end
            quota.fetched(state, sum([batch.size for batch in batches]), now)
        if result.batch is None:  # all batches were of a newer leader epoch (KAFKA-18723)
            return
        if self._follow_offsets(state, answer, now):
            self.states.move(state, end, partition.log.epochs.latest_epoch)

    def _truncate(
        self,
        state: FetchState,
        answer: FetchPartitionResponse,
        diverging_epoch: tuple[int, int],
        now: int,
    ) -> None:
        partition, rules = state.partition, self._rules
        high_watermark = rules.follower_hw_from_diverging(answer)
        if high_watermark is not None:
            partition.follow_offsets(high_watermark, answer.log_start_offset, now)
        log = partition.log
        self._tell_untaken(state, answer)
        end = rules.truncation_offset(log, *diverging_epoch, state.fetch_offset)
        partition.truncate_to(end, now)
        self.states.move(state, log.log_end_offset, log.epochs.latest_epoch)
