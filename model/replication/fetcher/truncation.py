"""What a fetcher asks its leader besides records: where epochs ended, where the log begins.

*Lookup mode* (before KIP-595, inter.broker.protocol.version < 2.7): a new follower is TRUNCATING.
It asks OffsetsForLeaderEpoch for the last epoch it knows, cuts its log, and asks again with a lower
epoch until both agree on one (KIP-279); only then it fetches, without its last epoch. A log whose
epoch cache is empty has nothing to ask for, in either mode, and is cut to its high watermark
(AbstractFetcherThread.maybeTruncate).

OFFSET_OUT_OF_RANGE: the leader's end, then its start (fetchOffsetAndTruncate).

Both are synchronous in Kafka: the fetcher's thread does nothing else until the answer is here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkasim.model.channel import Failed
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    EpochEndOffset,
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsResponse,
    OffsetForLeaderEpochPartition,
    OffsetsForLeaderEpochRequest,
    OffsetsForLeaderEpochResponse,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from kafkasim.model.replication.fetcher.fetch_state import FetchState
    from kafkasim.model.replication.fetcher.fetcher import ReplicaFetcher

NONE = Errors.NONE


class Truncation:
    """The lookups of one fetcher."""

    def __init__(self, fetcher: ReplicaFetcher) -> None:
        self.fetcher = fetcher
        self.manager = fetcher.manager
        self.rules = fetcher.manager.rules

    # ------------------------------------------------------------------------------- lookup mode

    def step(self, now: int) -> bool:
        """Cut what can be cut, ask for the rest; return whether an answer is awaited."""
        fetcher = self.fetcher
        asked: dict[TopicPartition, OffsetForLeaderEpochPartition] = {}
        for tp, state in list(fetcher.truncating.items()):
            log = state.partition.log
            if self.rules.looks_up_epochs(log):
                epoch = log.epochs.latest_epoch
                asked[tp] = OffsetForLeaderEpochPartition(tp, state.leader_epoch, epoch)
            else:
                self._cut(state, state.fetch_offset, True, now)
        if not asked:
            return False
        fetcher.waiting = True
        fetcher.channel.send(
            OffsetsForLeaderEpochRequest(self.manager.broker_id, tuple(asked.values())),
            now,
            lambda response, at: self._on_epochs(asked, response, at),
        )
        return True

    def _on_epochs(
        self,
        asked: dict[TopicPartition, OffsetForLeaderEpochPartition],
        response: OffsetsForLeaderEpochResponse | Failed,
        now: int,
    ) -> None:
        fetcher = self.fetcher
        fetcher.waiting = False
        if fetcher.stopped:
            return
        if isinstance(response, Failed):
            for tp in asked:
                if tp in fetcher.truncating:
                    fetcher.delay(tp, now)
        else:
            for answer in response.partitions:
                state = fetcher.truncating.get(answer.tp)
                sent = asked[answer.tp]
                if state is not None and self.rules.accepts_lookup_reply(sent, state):
                    self._on_epoch(sent, state, answer, now)
        fetcher.work(now)

    def _on_epoch(
        self,
        sent: OffsetForLeaderEpochPartition,
        state: FetchState,
        answer: EpochEndOffset,
        now: int,
    ) -> None:
        if answer.error is Errors.FENCED_LEADER_EPOCH:
            if sent.current_leader_epoch == state.leader_epoch:
                self.fetcher.fail(state, answer.error.name)
        elif answer.error is not NONE:
            self.fetcher.delay(answer.tp, now)
        else:
            log = state.partition.log
            epoch, end = answer.leader_epoch, answer.end_offset
            offset = self.rules.truncation_offset(log, epoch, end, state.fetch_offset)
            complete = self.rules.truncation_is_complete(log, epoch, end)
            self._cut(state, offset, complete, now)

    def _cut(self, state: FetchState, offset: int, complete: bool, now: int) -> None:
        partition = state.partition
        try:
            partition.truncate_to(offset)
        except DiskError as error:
            self.fetcher.fail_disk(state, error, now)
            return
        log = partition.log
        state.move(min(offset, log.log_end_offset), log.epochs.latest_epoch)
        if complete:
            fetcher = self.fetcher
            del fetcher.truncating[partition.tp]
            state.truncating = False
            fetcher.fetching[partition.tp] = state
            fetcher.changed[partition.tp] = None

    # ------------------------------------------------------- OFFSET_OUT_OF_RANGE: ask the leader

    def look_up(self, state: FetchState, timestamp: int, now: int) -> None:
        """Ask for the leader's end, then its start (fetchOffsetAndTruncate)."""
        asked = ListOffsetsPartition(state.partition.tp, state.leader_epoch, timestamp)
        self.fetcher.waiting = True
        self.fetcher.channel.send(
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
        fetcher = self.fetcher
        fetcher.waiting = False
        if fetcher.stopped:
            return
        tp = asked.tp
        if fetcher.fetching.get(tp) is not state:
            fetcher.work(now)
            return
        if isinstance(response, Failed) or response.partitions[0].error is not NONE:
            fetcher.delay(tp, now)
            fetcher.work(now)
            return
        partition = state.partition
        offset = response.partitions[0].offset
        log = partition.log
        try:
            if asked.timestamp == LATEST_TIMESTAMP:
                if offset >= log.log_end_offset:
                    self.look_up(state, EARLIEST_TIMESTAMP, now)
                    return
                partition.truncate_to(offset)
            elif offset > log.log_end_offset:
                partition.truncate_fully(offset)
        except DiskError as error:
            fetcher.fail_disk(state, error, now)
        else:
            fetcher.move(state, log.log_end_offset, log.epochs.latest_epoch)
        fetcher.work(now)
