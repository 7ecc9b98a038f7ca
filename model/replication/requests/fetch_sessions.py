"""Incremental fetch sessions of followers (KIP-227: FetchSession, FetchSessionCache, FetchManager).

A session remembers which partitions a follower fetches. A request names only those that changed. A
response names only partitions with records, with an error, with a divergence, or with another high
watermark or log start than the last one sent.

Kafka reads all partitions of a session at every fetch. Here an entry without news is *clean* and is
not read: its follower is at the log end and in the ISR, so a fetch would only confirm that it is
caught up. ``FetchSession.last_fetch_us`` has the time of that confirmation, and an entry takes it
over when it becomes *dirty* (the log grew, an offset moved, the leadership changed). Kafka's rules
see no difference; test_fetch_sessions.py compares sessions with full fetches.

Consumers have sessions, too, and their parked fetches wait for the high watermark. A consumer's
entry is clean if the consumer is at the log end and the partition's leader serves it. It is read in
the session's order when it has news.

A full fetch gets its session with its response. The cache is limited: a follower's session may push
out a consumer's, and a fetch that finds no room is answered without a session.
"""

from __future__ import annotations

from dataclasses import replace
from operator import attrgetter
from typing import TYPE_CHECKING

from kafkasim.model.errors import Errors
from kafkasim.model.fetch_session import FINAL_EPOCH, INITIAL_EPOCH
from kafkasim.model.messages import FetchPartition, FetchRequest
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkasim.model.replication.partitions.delayed_operations import FetchWaiter, SessionEntry
    from kafkasim.model.replication.partitions.partition import Partition
    from kafkasim.model.replication.rules import ReplicationRules

NONE = Errors.NONE
_ORDER = attrgetter("order")
EVICTION_US = 120_000_000  # min.incremental.fetch.session.eviction.ms, a constant of Kafka's


class CachedPartition:
    """One partition of a session: what the follower asks for and what it was last sent."""

    __slots__ = (
        "asked",
        "clean",
        "order",
        "partition",
        "sent_high_watermark",
        "sent_log_start",
        "session",
    )

    def __init__(self, session: FetchSession, asked: FetchPartition) -> None:
        self.session = session
        self.asked = asked
        self.order = session.next_order()  # among the session's entries
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
        """Leave the dirty entries if a fetch could bring the follower or consumer nothing new."""
        partition = self.partition
        if partition is None:
            return
        log, asked = partition.log, self.asked
        if (
            asked.fetch_offset != log.local.log_end_offset
            or self.sent_high_watermark != log.high_watermark
            or self.sent_log_start != log.log_start_offset
        ):
            return
        leader, replica = partition.leadership, self.session.replica_id
        if (
            leader is not None
            and asked.current_leader_epoch == leader.leader_epoch
            and (replica < 0 or replica in leader.maximal_isr)
        ):
            self.clean = True
            del self.session.dirty[self]


class FetchSession:
    """The session of a follower or a consumer."""

    __slots__ = (
        "_orders",
        "created_us",
        "dirty",
        "entries",
        "epoch",
        "evicted",
        "id",
        "last_fetch_us",
        "last_used_us",
        "parked",
        "replica_id",
        "shard",
        "uses_topic_ids",
    )

    def __init__(self, replica_id: int, uses_topic_ids: bool, now: int) -> None:
        self.id = 0  # until it is in the cache
        self.shard = 0  # of the cache
        self.evicted = False  # from the cache; a fetch that waits is answered all the same
        self.replica_id = replica_id
        self.uses_topic_ids = uses_topic_ids
        self.epoch = INITIAL_EPOCH + 1  # what the next request must carry
        self.entries: dict[TopicPartition, CachedPartition] = {}
        self.dirty: dict[CachedPartition, None] = {}  # all entries that are not clean
        self._orders = 0
        self.parked: FetchWaiter | None = None
        self.last_fetch_us = now
        self.created_us = self.last_used_us = now  # created and touched in the cache

    @property
    def privileged(self) -> bool:
        """Whether it is a follower's."""
        return self.replica_id >= 0

    def next_order(self) -> int:
        """Return the place of an entry that comes behind all others."""
        self._orders += 1
        return self._orders

    def to_read(self) -> list[CachedPartition]:
        """Return the dirty entries; a consumer's are in the order of the session."""
        dirty = list(self.dirty)
        if self.replica_id < 0 and len(dirty) > 1:
            dirty.sort(key=_ORDER)
        return dirty

    def move_to_tail(self, entry: CachedPartition) -> None:
        """Read an entry behind all others: its partition has been served."""
        entry.order = self.next_order()
        if len(self.dirty) > 1:
            del self.dirty[entry]
            self.dirty[entry] = None

    def update(self, request: FetchRequest) -> None:
        """Take over what the request changes.

        A partition has one entry. Under another topic id it is another partition, as Kafka's
        session has it.
        """
        entries = self.entries
        for asked in request.partitions:
            entry = entries.get(asked.tp)
            if entry is not None and entry.asked.topic_id == asked.topic_id:
                if entry.clean:
                    entry.mark_dirty()
                entry.asked = asked
                continue
            if entry is not None:
                self._drop(entry)
            entry = entries[asked.tp] = CachedPartition(self, asked)
            self.dirty[entry] = None
        for topic_id, tp in request.forgotten:
            entry = entries.get(tp)
            if entry is not None and entry.asked.topic_id == topic_id:
                del entries[tp]
                self._drop(entry)

    def _drop(self, entry: CachedPartition) -> None:
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
    """The sessions of one broker, in shards that are filled in turn (KAFKA-9401).

    Ids count up from ``first_id``, which no earlier process of the broker has given out. (Kafka
    draws them.)
    """

    __slots__ = ("_keeps_epoch", "_last_id", "_offers", "_shards", "_slots", "sessions")

    def __init__(self, slots: int, rules: ReplicationRules, first_id: int) -> None:
        """``slots`` is max.incremental.fetch.session.cache.slots."""
        shards = rules.fetch_session_shards()
        self.sessions: dict[int, FetchSession] = {}
        self._slots = slots // shards  # of one shard
        self._shards: list[dict[int, FetchSession]] = [{} for _ in range(shards)]
        self._offers = 0  # sessions that wanted to be in the cache
        self._last_id = first_id
        self._keeps_epoch = rules.session_keeps_epoch()

    def partitions_of(self, session_id: int) -> Iterable[TopicPartition]:
        """Return what a session fetches without naming it; nothing for an unknown session."""
        session = self.sessions.get(session_id)
        return () if session is None else session.entries

    def open(self, request: FetchRequest, now: int) -> tuple[FetchSession | None, Errors]:
        """Return the session of a request, updated by it, or the error that refuses it.

        The session of a full fetch is a new one, not yet in the cache. No session and no error: the
        request names all its partitions (FetchManager.newContext).
        """
        if request.session_epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            known = self.sessions.get(request.session_id)
            if known is not None:
                self._remove(known)
            if request.session_epoch == FINAL_EPOCH:
                return None, NONE
            session = FetchSession(request.replica_id, _uses_topic_ids(request), now)
            session.update(request)
            return session, NONE
        found = self.sessions.get(request.session_id)
        if found is None:
            return None, Errors.FETCH_SESSION_ID_NOT_FOUND
        if found.epoch != request.session_epoch:
            return None, Errors.INVALID_FETCH_SESSION_EPOCH
        if request.partitions and found.uses_topic_ids is not _uses_topic_ids(request):
            return None, Errors.FETCH_SESSION_TOPIC_ID_ERROR
        found.update(request)
        if not found.entries:
            self._remove(found)
            return None, NONE
        found.last_used_us = now
        found.epoch += 1
        if not self._keeps_epoch:
            found.forget_epochs()
        return found, NONE

    def offer(self, session: FetchSession, now: int) -> None:
        """Give a new session an id, or close it if there is no room (maybeCreateSession)."""
        number = self._offers % len(self._shards)
        self._offers += 1
        shard = self._shards[number]
        if len(shard) >= self._slots and not self._evict(shard, session, now):
            session.close()
            return
        self._last_id += 1
        session.id, session.shard = self._last_id, number
        session.created_us = session.last_used_us = now
        shard[session.id] = self.sessions[session.id] = session

    def _evict(self, shard: dict[int, FetchSession], new: FetchSession, now: int) -> bool:
        """Make room for ``new`` if a session is stale, or less valuable (tryEvict).

        A consumer's session is less valuable than a follower's, and a small one less than a large
        one. Neither pushes out a follower's that was young when it was last used.
        """
        if not shard:
            return False
        oldest = min(shard.values(), key=lambda each: (each.last_used_us // 1000, each.id))
        if now - oldest.last_used_us > EVICTION_US:
            self._push_out(oldest)
            return True
        evictable = [
            ((each.privileged, len(each.entries), each.id), each)
            for each in shard.values()
            if each.last_used_us - each.created_us > EVICTION_US
            or (new.privileged and not each.privileged)
        ]
        if not evictable:
            return False
        value, least = min(evictable, key=lambda each: each[0])
        if (new.privileged, len(new.entries), 0) < value:
            return False
        self._push_out(least)
        return True

    def _push_out(self, session: FetchSession) -> None:
        self._forget(session)
        session.evicted = True
        if session.parked is None:
            session.close()

    def _remove(self, session: FetchSession) -> None:
        self._forget(session)
        session.close()

    def _forget(self, session: FetchSession) -> None:
        del self.sessions[session.id]
        del self._shards[session.shard][session.id]


def _uses_topic_ids(request: FetchRequest) -> bool:
    """Return whether a request names topics by their ids, as it does from version 13 on."""
    for asked in request.partitions:  # noqa: SIM110  # a generator costs three times as much
        if not asked.topic_id:
            return False
    return True
