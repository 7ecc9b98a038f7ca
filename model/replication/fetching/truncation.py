"""Truncation: what a fetcher asks its leader besides records: ends of epochs, the log's bounds.

*Lookup mode* (before KIP-595, inter.broker.protocol.version < 2.7): a new follower is truncating.
It asks OffsetsForLeaderEpoch for the last epoch it knows, truncates its log, and asks again with a
lower epoch until both agree on one (KIP-279). Only then does it fetch, without its last epoch. A
log with an empty epoch cache has nothing to ask for, in either mode: it is truncated to its high
watermark (AbstractFetcherThread.maybeTruncate).

After OFFSET_OUT_OF_RANGE it asks for the leader's end, then for its start (fetchOffsetAndTruncate).

Both are synchronous in Kafka: the fetcher's thread does nothing else until the answer is here, so a
lookup holds up all partitions of the fetcher.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

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
    from kafkasim.model.replication.fetching.fetch_state import FetchState, FetchStates
    from kafkasim.model.replication.fetching.leader_endpoint import LeaderEndpoint
    from kafkasim.model.replication.rules import ReplicationRules

NONE = Errors.NONE


class FetcherThread(Protocol):
    """What a truncation may cause in its fetcher."""

    def work(self, now: int) -> None:
        """Go on: truncate what is left, then fetch."""
        ...

    def fail(self, state: FetchState, reason: str) -> None:
        """Stop fetching a partition until metadata brings it back."""
        ...

    def fail_disk(self, state: FetchState, error: DiskError, now: int) -> None:
        """Take a partition offline: its log directory failed."""
        ...


class Truncation:
    """The lookups of one fetcher."""

    def __init__(
        self,
        broker_id: int,
        rules: ReplicationRules,
        states: FetchStates,
        leader: LeaderEndpoint,
        thread: FetcherThread,
    ) -> None:
        self._broker_id = broker_id
        self._rules = rules
        self._states = states
        self._leader = leader
        self._thread = thread

    # ------------------------------------------------------------------------------- lookup mode

    def step(self, now: int) -> bool:
        """Truncate what can be truncated, ask about the rest; return whether a request was sent."""
        asked: dict[TopicPartition, OffsetForLeaderEpochPartition] = {}
        for tp, state in list(self._states.truncating.items()):
            log = state.partition.log
            if self._rules.looks_up_epochs(log):
                epoch = log.epochs.latest_epoch
                asked[tp] = OffsetForLeaderEpochPartition(tp, state.leader_epoch, epoch)
            else:
                self._cut(state, state.fetch_offset, True, now)
        if not asked:
            return False
        self._leader.ask(
            OffsetsForLeaderEpochRequest(self._broker_id, tuple(asked.values())),
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
        states = self._states
        if isinstance(response, Failed):
            for tp in asked:
                if tp in states.truncating:
                    states.delay(tp, now)
        else:
            for answer in response.partitions:
                state = states.truncating.get(answer.tp)
                sent = asked[answer.tp]
                if state is not None and self._rules.accepts_lookup_reply(sent, state.leader_epoch):
                    self._on_epoch(sent, state, answer, now)
        self._thread.work(now)

    def _on_epoch(
        self,
        sent: OffsetForLeaderEpochPartition,
        state: FetchState,
        answer: EpochEndOffset,
        now: int,
    ) -> None:
        if answer.error is Errors.FENCED_LEADER_EPOCH:
            if sent.current_leader_epoch == state.leader_epoch:
                self._thread.fail(state, answer.error.name)
        elif answer.error is not NONE:
            self._states.delay(answer.tp, now)
        else:
            log = state.partition.log
            epoch, end = answer.leader_epoch, answer.end_offset
            offset = self._rules.truncation_offset(log, epoch, end, state.fetch_offset)
            complete = self._rules.truncation_is_complete(log, epoch, end)
            self._cut(state, offset, complete, now)

    def _cut(self, state: FetchState, offset: int, complete: bool, now: int) -> None:
        partition = state.partition
        try:
            partition.truncate_to(offset, now)
        except DiskError as error:
            self._thread.fail_disk(state, error, now)
            return
        log = partition.log
        state.move(min(offset, log.log_end_offset), log.epochs.latest_epoch)
        if complete:
            self._states.truncated(state)

    # ------------------------------------------------------- OFFSET_OUT_OF_RANGE: ask the leader

    def look_up(self, state: FetchState, now: int, timestamp: int = LATEST_TIMESTAMP) -> None:
        """Ask for the leader's end, then for its start (fetchOffsetAndTruncate)."""
        asked = ListOffsetsPartition(state.partition.tp, state.leader_epoch, timestamp)
        self._leader.ask(
            ListOffsetsRequest(self._broker_id, 0, (asked,)),
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
        thread, states = self._thread, self._states
        if states.fetching.get(asked.tp) is not state:  # other metadata came meanwhile
            thread.work(now)
            return
        if isinstance(response, Failed) or response.partitions[0].error is not NONE:
            states.delay(asked.tp, now)
            thread.work(now)
            return
        partition = state.partition
        offset = response.partitions[0].offset
        log = partition.log
        try:
            if asked.timestamp == LATEST_TIMESTAMP:
                if offset >= log.log_end_offset:
                    self.look_up(state, now, EARLIEST_TIMESTAMP)
                    return
                partition.truncate_to(offset, now)
            elif offset > log.log_end_offset and self._rules.empties_short_log():
                partition.truncate_fully(offset)
        except DiskError as error:
            thread.fail_disk(state, error, now)
        else:
            states.move(state, max(offset, log.log_end_offset), log.epochs.latest_epoch)
        thread.work(now)
