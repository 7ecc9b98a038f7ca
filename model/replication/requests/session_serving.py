"""A follower's fetch in a session: read what is dirty, take note of its progress, answer or wait."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import Request, Respond
from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchPartitionResponse, FetchRequest, FetchResponse
from kafkasim.model.replication.partition.leader import session_bytes
from kafkasim.model.replication.requests.purgatory import DelayedSessionFetch, Purgatory
from kafkasim.model.replication.requests.sessions import (
    CachedPartition,
    FetchSession,
    FetchSessionCache,
)

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import BrokerImage
    from kafkasim.model.messages import FetchPartition
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.fetcher.quota import ReplicationQuota
    from kafkasim.model.replication.partition.partition import Partition
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.replication.rules import ReplicationRules

NONE = Errors.NONE
SEND = "network"  # the lane of late answers: a network thread
News = list[tuple[CachedPartition, FetchPartitionResponse]]


class SessionServing:
    """The part of ReplicaServing for fetches with a session."""

    process: BrokerProcess
    rules: ReplicationRules
    brokers: dict[int, BrokerImage]
    out: list[Any]
    purgatory: Purgatory
    partitions: dict[TopicPartition, Partition]
    sessions: FetchSessionCache
    leader_quota: ReplicationQuota | None
    send_delay_us: int  # ReplicationRules.fetch_send_delay_us

    def fetch_in_session(self, item: Request, now: int) -> None:
        """Serve a fetch of a follower that keeps a session."""
        request: FetchRequest = item.message
        session, error = self.sessions.open(request, now)
        if session is None:
            response = FetchResponse(error, ())
            self.out.append(Respond(item.connection, item.correlation, response))
            self.process.count_request("FetchFollower", True, item.received_us, now, now)
            return
        replica = request.replica_id
        stale = self.rules.is_stale_replica_epoch(self.brokers, replica, request.replica_epoch)
        if stale:
            for entry in session.entries.values():
                entry.soil()
        urgent, total, news = self._read_session(session, request, stale, now)
        session.last_fetch_us = now
        if (
            urgent
            or total >= request.min_bytes
            or request.max_wait_ms <= 0
            or (
                total
                and session_bytes(session, request, self.leader_quota, now) >= request.min_bytes
            )
        ):
            self._answer_session(item, session, news, now, now)
            return
        for entry in list(session.dirty):
            entry.tidy()
        session.parked = DelayedSessionFetch(self, item, session, now)
        self.purgatory.add(session.parked, request.max_wait_ms, now)

    def _read_session(
        self, session: FetchSession, request: FetchRequest, stale: bool, now: int
    ) -> tuple[bool, int, News]:
        """First read: return whether to answer at once, the bytes read, and what is new.

        A follower is told the high watermark from before its own progress is taken in.
        """
        replica = request.replica_id
        budget = request.max_bytes
        urgent, total = not session.entries, 0
        news: News = []
        quota = self.leader_quota
        for entry in list(session.dirty):
            partition = entry.partition or self._partition_of(entry)
            if partition is None:
                urgent = True
                news.append((entry, self._unknown(entry.asked)))
                continue
            asked = entry.asked
            log = partition.log
            mark = log.high_watermark
            answer = partition.check_fetch(asked, replica)
            if answer is None and stale:
                answer = partition.fetch_error(Errors.NOT_LEADER_OR_FOLLOWER)
            if answer is not None:
                urgent = True
                news.append((entry, answer))
                continue
            leader_end = log.log_end_offset
            if asked.fetch_offset < leader_end and (
                quota is None or quota.sends(partition, replica, now)
            ):
                answer, size = self._read(
                    partition, asked, mark, leader_end, budget, total == 0, now
                )
                if answer is not None and answer.error is not NONE:
                    urgent = True
                    news.append((entry, answer))
                    partition.read_failed(replica)
                    continue
                total += size
                budget = max(0, budget - size)
                if quota is not None:
                    quota.sent(partition, size, now)
            partition.update_follower(asked, replica, request.replica_epoch, leader_end, now)
            if answer is not None:
                news.append((entry, answer))
            elif mark != entry.sent_high_watermark or log.log_start_offset != entry.sent_log_start:
                news.append((entry, partition.nothing_new(mark)))
        return urgent, total, news

    def answer_parked_session(
        self, item: Request, session: FetchSession, started: int, now: int
    ) -> None:
        """Read again for a completed fetch and answer; the follower's state stays as it is."""
        session.parked = None
        request: FetchRequest = item.message
        replica = request.replica_id
        budget = request.max_bytes
        total = 0
        news: News = []
        quota = self.leader_quota
        for entry in session.dirty:
            partition = entry.partition or self._partition_of(entry)
            if partition is None:
                news.append((entry, self._unknown(entry.asked)))
                continue
            asked = entry.asked
            log = partition.log
            mark = log.high_watermark
            answer = partition.check_fetch(asked, replica)
            if (
                answer is None
                and asked.fetch_offset < log.log_end_offset
                and (quota is None or quota.sends(partition, replica, now))
            ):
                answer, size = self._read(
                    partition, asked, mark, log.log_end_offset, budget, total == 0, now
                )
                total += size
                budget = max(0, budget - size)
                if quota is not None:
                    quota.sent(partition, size, now)
            if answer is not None:
                news.append((entry, answer))
            elif mark != entry.sent_high_watermark or log.log_start_offset != entry.sent_log_start:
                news.append((entry, partition.nothing_new(mark)))
        self._answer_session(item, session, news, started, now)

    def _partition_of(self, entry: CachedPartition) -> Partition | None:
        partition = entry.partition
        if partition is None:
            partition = self.partitions.get(entry.asked.tp)
            if partition is not None:
                entry.attach(partition)
        return partition

    def _answer_session(
        self, item: Request, session: FetchSession, news: News, started: int, now: int
    ) -> None:
        failed = False
        answers = []
        dirty = session.dirty
        for entry, answer in news:
            answers.append(answer)
            if answer.error is not NONE:
                failed = True
                entry.sent_high_watermark = -1  # told anew when the error goes away
            elif answer.diverging_epoch is None:
                entry.sent_high_watermark = answer.high_watermark
                entry.sent_log_start = answer.log_start_offset
                if answer.batches and len(dirty) > 1:
                    del dirty[entry]  # served partitions go to the tail
                    dirty[entry] = None
        for entry in list(dirty):
            partition = entry.partition
            if partition is not None and entry.asked.fetch_offset == partition.log.log_end_offset:
                entry.tidy()
        response = FetchResponse(NONE, tuple(answers), session.id)
        if self.send_delay_us:
            self._send_later(item, response, now)
        else:
            self.out.append(Respond(item.connection, item.correlation, response))
        self.process.count_request("FetchFollower", failed, item.received_us, started, now)

    def _send_later(self, item: Request, response: FetchResponse, now: int) -> None:
        """Send what stands in the files when the socket takes it, not what was read (B83)."""

        def send(_at: int) -> None:
            sent = tuple([self._read_again(answer) for answer in response.partitions])
            late = FetchResponse(NONE, sent, response.session_id)
            self.out.append(Respond(item.connection, item.correlation, late))

        self.process.timers.arm(("send", item.connection), now + self.send_delay_us, SEND, send)

    def _read_again(self, answer: FetchPartitionResponse) -> FetchPartitionResponse:
        partition = self.partitions.get(answer.tp)
        if partition is None or not answer.batches:
            return answer
        size = sum([batch.size for batch in answer.batches])
        log = partition.log
        batches = log.read(answer.batches[0].base_offset, size, log.log_end_offset, False)
        return replace(answer, batches=batches)

    def _read(
        self, partition: Partition, asked: FetchPartition, mark: int, bound: int, budget: int,
        min_one: bool, now: int,
    ) -> tuple[FetchPartitionResponse | None, int]:  # fmt: skip
        raise NotImplementedError

    def _unknown(self, asked: FetchPartition) -> FetchPartitionResponse:
        raise NotImplementedError
