"""Incremental fetch sessions of followers (KIP-227: FetchSession, FetchSessionCache, FetchManager).

A session remembers which partitions a follower fetches. A request names only those that changed. A
response names only partitions with records, with an error, with a divergence, or with another high
watermark or log start than the last one sent.

Kafka reads all partitions of a session at every fetch. Here an entry without news is *clean* and is
not read: its follower is at the log end and in the ISR, so a fetch would only confirm that it is
caught up. ``FetchSession.last_fetch_us`` has the time of that confirmation, and an entry takes it
over when it becomes *dirty* (the log grew, an offset moved, the leadership changed). Kafka's rules
see no difference; test_fetch_sessions.py compares sessions with full fetches.

A consumer may have a session, too. Its entries are never clean, as no leader knows of a replica −1,
and its parked fetches wait for the high watermark.

Left out: priority between sessions at eviction.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchPartition, FetchRequest
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkasim.model.replication.partitions.delayed_operations import FetchWaiter, SessionEntry
    from kafkasim.model.replication.partitions.partition import Partition
    from kafkasim.model.replication.rules import ReplicationRules

NONE = Errors.NONE
INITIAL_EPOCH = 0
"""The session epoch of a full fetch that opens a session."""
FINAL_EPOCH = -1
"""The session epoch of a full fetch without a session."""
SLOTS = 1000  # max.incremental.fetch.session.cache.slots
EVICTION_US = 120_000_000  # min.incremental.fetch.session.eviction.ms


class CachedPartition:
    """One partition of a session: what the follower asks for and what it was last sent."""

    __slots__ = ("asked", "clean", "partition", "sent_high_watermark", "sent_log_start", "session")

    def __init__(self, session: FetchSession, asked: FetchPartition) -> None:
        self.session = session
        self.asked = asked
        self.partition: Partition | None = None  # None until the broker hosts it
        self.sent_high_watermark = -1  # −1: nothing was sent, or an error
        self.sent_log_start = -1
        self.clean = False

    @property
    def parked(self) -> FetchWaiter | None:
        """The fetch of this session that waits for more."""
        return self.session.parked

    def attach(self, partition: Partition) -> None:
        """Join the operations that wait for a hosted partition."""
        self.partition = partition
        self._listed(partition)[self] = None

    def _listed(self, partition: Partition) -> dict[SessionEntry, None]:
        delayed = partition.delayed
        follower = self.session.replica_id >= 0
        return delayed.session_entries if follower else delayed.consumer_entries

    def detach(self) -> None:
        """Leave the partition: it is not hosted any more, or the session has ended."""
        if self.partition is not None:
            self._listed(self.partition).pop(self, None)
            self.partition = None
        self.mark_dirty()

    def mark_dirty(self) -> None:
        """Look at the partition again in the next fetch.

        The follower's fetches since the entry became clean found it caught up: its replica on the
        leader takes over the time of the last one.
        """
        if not self.clean:
            return
        self.clean = False
        session = self.session
        session.dirty[self] = None
        remote = None if self.partition is None else self.partition.remote(session.replica_id)
        if remote is not None and remote.leo == self.asked.fetch_offset:
            at = session.last_fetch_us
            if at > remote.last_fetch_us:
                remote.last_fetch_us = at
                if at > remote.last_caught_up_us:
                    remote.last_caught_up_us = at

    def mark_clean_if_idle(self) -> None:
        """Leave the dirty entries if a fetch could bring the follower nothing new."""
        partition = self.partition
        if partition is None:
            return
        log, asked = partition.log, self.asked
        leader = partition.leadership
        if (
            leader is not None
            and asked.fetch_offset == log.log_end_offset
            and self.sent_high_watermark == log.high_watermark
            and self.sent_log_start == log.log_start_offset
            and asked.current_leader_epoch == leader.leader_epoch
            and self.session.replica_id in leader.maximal_isr
        ):
            self.clean = True
            del self.session.dirty[self]


class FetchSession:
    """One follower's session."""

    __slots__ = ("dirty", "entries", "epoch", "id", "last_fetch_us", "parked", "replica_id")

    def __init__(self, session_id: int, replica_id: int, now: int) -> None:
        self.id = session_id
        self.replica_id = replica_id
        self.epoch = INITIAL_EPOCH + 1  # what the next request must carry
        self.entries: dict[TopicPartition, CachedPartition] = {}
        self.dirty: dict[CachedPartition, None] = {}  # all entries that are not clean
        self.parked: FetchWaiter | None = None
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
                    entry.mark_dirty()
                entry.asked = asked
        for tp in request.forgotten:
            entry = entries.pop(tp, None)
            if entry is not None:
                entry.detach()
                del self.dirty[entry]

    def mark_all_dirty(self) -> None:
        """Look at every partition in the next fetch."""
        for entry in self.entries.values():
            entry.mark_dirty()

    def forget_epochs(self) -> None:
        """Check the leader epoch of no partition any more (B13)."""
        for entry in self.entries.values():
            if entry.asked.current_leader_epoch != -1:
                entry.mark_dirty()
                entry.asked = replace(entry.asked, current_leader_epoch=-1)

    def close(self) -> None:
        """End the session; a fetch of it that still waits will find nothing to read."""
        for entry in self.entries.values():
            entry.detach()
        self.entries.clear()
        self.dirty.clear()


class FetchSessionCache:
    """The sessions of one broker. Ids count up (Kafka draws them)."""

    __slots__ = ("_keeps_epoch", "_last_id", "sessions")

    def __init__(self, rules: ReplicationRules) -> None:
        self.sessions: dict[int, FetchSession] = {}
        self._last_id = 0
        self._keeps_epoch = rules.session_keeps_epoch()

    def partitions_of(self, session_id: int) -> Iterable[TopicPartition]:
        """Return what a session fetches without naming it; nothing for an unknown session."""
        session = self.sessions.get(session_id)
        return () if session is None else session.entries

    def open(self, request: FetchRequest, now: int) -> tuple[FetchSession | None, Errors]:
        """Return the session of a request, updated by it, or the error that refuses it.

        No session and no error: the request names all its partitions (FetchManager.newContext).
        """
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            known = self.sessions.get(request.session_id)
            if known is not None and known.replica_id == request.replica_id:
                # Ids restart with the broker, so an old id may belong to another follower now.
                self._remove(request.session_id)
            if request.session_epoch == FINAL_EPOCH:
                return None, NONE
            session = self._create(request, now)
        else:
            found = self.sessions.get(request.session_id)
            if found is None:
                return None, Errors.FETCH_SESSION_ID_NOT_FOUND
            if found.epoch != request.session_epoch:
                return None, Errors.INVALID_FETCH_SESSION_EPOCH
            session = found
            session.epoch += 1
        session.update(request)
        if request.session_epoch != INITIAL_EPOCH:
            if not session.entries:
                self._remove(session.id)
                return None, NONE
            if not self._keeps_epoch:
                session.forget_epochs()
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
