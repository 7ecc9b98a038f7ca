"""Incremental fetch sessions of followers (KIP-227: FetchSession, FetchSessionCache, FetchManager).

A session remembers what a follower fetches; a request names only what changed, an answer only
partitions with records, an error, a divergence, or another high watermark or log start than the
follower was last told.

Kafka's session walks all its partitions at every fetch. Here a partition without news is *clean*
and is not walked: its follower is at the log's end and in the ISR, so all a fetch would do is to
say once more that it is caught up. ``FetchSession.last_fetch_us`` keeps that, and an entry that
becomes dirty (the log grew, an offset moved, the leadership changed) takes it over first. Nothing
that Kafka's rules can observe differs.

Left out: sessions of consumers (their fetches are full), priority between sessions at eviction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchPartition, FetchRequest
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.replication.partition.partition import Partition
    from kafkasim.model.replication.requests.purgatory import DelayedSessionFetch
    from kafkasim.model.replication.rules import ReplicationRules

NONE = Errors.NONE
INITIAL_EPOCH = 0
FINAL_EPOCH = -1
SLOTS = 1000  # max.incremental.fetch.session.cache.slots
EVICTION_US = 120_000_000  # min.incremental.fetch.session.eviction.ms


class CachedPartition:
    """One partition of a session: what was asked, and what the follower was last told."""

    __slots__ = ("asked", "clean", "partition", "sent_high_watermark", "sent_log_start", "session")

    def __init__(self, session: FetchSession, asked: FetchPartition) -> None:
        self.session = session
        self.asked = asked
        self.partition: Partition | None = None
        self.sent_high_watermark = -1
        self.sent_log_start = -1
        self.clean = False

    def attach(self, partition: Partition) -> None:
        """Watch a hosted partition."""
        self.partition = partition
        partition.watchers[self] = None

    def detach(self) -> None:
        """Watch nothing: the partition is gone, or the session is."""
        if self.partition is not None:
            self.partition.watchers.pop(self, None)
            self.partition = None
        self.soil()

    def soil(self) -> None:
        """There may be news: take over what the fetches meant since the entry was clean."""
        if not self.clean:
            return
        self.clean = False
        session = self.session
        session.dirty[self] = None
        partition = self.partition
        remote = None if partition is None else partition.remotes.get(session.replica_id)
        if remote is not None and remote.leo == self.asked.fetch_offset:
            at = session.last_fetch_us
            if at > remote.last_fetch_us:
                remote.last_fetch_us = at
                if at > remote.last_caught_up_us:
                    remote.last_caught_up_us = at

    def tidy(self) -> None:
        """Leave the dirty entries if a fetch could bring nothing new."""
        partition = self.partition
        if partition is None:
            return
        log = partition.log
        if (
            partition.leading
            and self.asked.fetch_offset == log.log_end_offset
            and self.sent_high_watermark == log.high_watermark
            and self.sent_log_start == log.log_start_offset
            and self.asked.current_leader_epoch == partition.leader_epoch
            and self.session.replica_id in partition.maximal_isr
        ):
            self.clean = True
            del self.session.dirty[self]


class FetchSession:
    """One follower's session. ``epoch`` is what its next request must carry."""

    __slots__ = ("dirty", "entries", "epoch", "id", "last_fetch_us", "parked", "replica_id")

    def __init__(self, session_id: int, replica_id: int, now: int) -> None:
        self.id = session_id
        self.replica_id = replica_id
        self.epoch = INITIAL_EPOCH + 1
        self.entries: dict[TopicPartition, CachedPartition] = {}
        self.dirty: dict[CachedPartition, None] = {}
        self.parked: DelayedSessionFetch | None = None
        self.last_fetch_us = now

    def update(self, request: FetchRequest) -> None:
        """Take over what the request changes."""
        entries = self.entries
        for asked in request.partitions:
            entry = entries.get(asked.tp)
            if entry is None:
                entry = entries[asked.tp] = CachedPartition(self, asked)
                self.dirty[entry] = None
            else:
                if entry.clean:
                    entry.soil()
                entry.asked = asked
        for tp in request.forgotten:
            entry = entries.pop(tp, None)
            if entry is not None:
                entry.detach()
                del self.dirty[entry]

    def forget_epochs(self) -> None:
        """Serve from now on whatever the leader epoch: what an incremental fetch meant in B13."""
        for entry in self.entries.values():
            if entry.asked.current_leader_epoch != -1:
                entry.soil()
                entry.asked = replace(entry.asked, current_leader_epoch=-1)

    def close(self) -> None:
        """Watch nothing any more."""
        for entry in self.entries.values():
            entry.detach()
        self.entries.clear()
        self.dirty.clear()  # a fetch still parked has nothing to read, and attaches nothing


class FetchSessionCache:
    """The sessions of one broker. Ids count up (Kafka draws them)."""

    __slots__ = ("_keeps_epoch", "_last_id", "sessions")

    def __init__(self, rules: ReplicationRules) -> None:
        self.sessions: dict[int, FetchSession] = {}
        self._last_id = 0
        self._keeps_epoch = rules.session_keeps_epoch()

    def open(self, request: FetchRequest, now: int) -> tuple[FetchSession | None, Errors]:
        """Return the session of a request, updated by it, or the error that refuses it."""
        if request.session_epoch == INITIAL_EPOCH:
            known = self.sessions.get(request.session_id)
            if known is not None and known.replica_id == request.replica_id:
                # Ids start anew with the broker: an old one may by now be another follower's.
                self._remove(request.session_id)
            session = self._create(request, now)
        else:
            found = self.sessions.get(request.session_id)
            if found is None:
                return None, Errors.FETCH_SESSION_ID_NOT_FOUND
            if found.epoch != request.session_epoch:
                return None, Errors.INVALID_FETCH_SESSION_EPOCH
            session = found
            session.epoch += 1
            if not self._keeps_epoch:
                session.update(request)
                session.forget_epochs()
                return session, NONE
        session.update(request)
        return session, NONE

    def _create(self, request: FetchRequest, now: int) -> FetchSession:
        sessions = self.sessions
        for session in list(sessions.values()):
            if now - session.last_fetch_us > EVICTION_US or len(sessions) >= SLOTS:
                self._remove(session.id)
        self._last_id += 1
        session = sessions[self._last_id] = FetchSession(self._last_id, request.replica_id, now)
        return session

    def _remove(self, session_id: int) -> None:
        session = self.sessions.pop(session_id, None)
        if session is not None:
            session.close()
