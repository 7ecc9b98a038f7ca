"""SharePartitionManager: the share partitions that this broker leads, and their share fetches.

Models kafka.server.share.SharePartitionManager. A share partition exists from the first share fetch
of its group until this broker no longer leads the partition, the group has no session here, or the
persister fences it. The next leader reads the persisted state.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from kafkasim.model.errors import Errors
from kafkasim.model.facts import SharePartitionClosed
from kafkasim.model.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    FetchPartition,
    ListOffsetsPartition,
    ListOffsetsRequest,
)
from kafkasim.model.replication.share.fetching import DelayedShareFetch
from kafkasim.model.replication.share.partition.share_partition import SharePartition
from kafkasim.model.replication.share.sessions import (
    SessionKey,
    ShareSessionCache,
    TopicIdPartition,
)

if TYPE_CHECKING:
    from kafkasim.model.config import ShareGroupSettings
    from kafkasim.model.facts import FinalSharePartition
    from kafkasim.model.messages.share import (
        AcknowledgementBatch,
        ShareFetchRequest,
        SharePartitionResponse,
    )
    from kafkasim.model.records import TopicPartition
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.requests.fetch_reader import FetchReader
    from kafkasim.model.replication.requests.offsets import OffsetQueries
    from kafkasim.model.replication.requests.purgatory import Purgatory
    from kafkasim.model.replication.share.persister import Persister
    from kafkasim.model.replication.share.rules import ShareRules
    from kafkasim.model.timers import Timers

NONE = Errors.NONE

FENCING = (
    Errors.NOT_LEADER_OR_FOLLOWER,
    Errors.FENCED_STATE_EPOCH,
    Errors.GROUP_ID_NOT_FOUND,
    Errors.UNKNOWN_TOPIC_OR_PARTITION,
)
"""Errors after which a share partition is forgotten (fencedSharePartitionHandler)."""

Results: TypeAlias = dict[TopicIdPartition, Errors]
GroupKey: TypeAlias = "tuple[str, str, TopicPartition]"
"""Group id, topic id, partition."""


class ShareSettings(Protocol):
    """The settings of share groups at this broker."""

    @property
    def most_deliveries(self) -> int:
        """group.share.delivery.count.limit."""
        ...

    @property
    def most_in_flight(self) -> int:
        """group.share.partition.max.record.locks."""
        ...

    @property
    def max_sessions(self) -> int:
        """group.share.max.share.sessions."""
        ...

    def lock_duration_ms(self, group_id: str) -> int:
        """Return how long a member of the group may hold a record."""
        ...

    def group(self, group_id: str) -> ShareGroupSettings:
        """Return the settings of one group."""
        ...


class ShareProcess(Protocol):
    """What the manager needs of the broker's process."""

    out: list[Any]
    timers: Timers


class _Led:
    """Hears that this broker leads a partition no more (SharePartitionListener)."""

    __slots__ = ("_ended",)

    def __init__(self, ended: Callable[[int], None]) -> None:
        self._ended = ended

    def leadership_ended(self, now: int) -> None:
        """Forget the share partition."""
        self._ended(now)


class SharePartitionManager:
    """Owns the share partitions of one broker."""

    def __init__(
        self,
        process: ShareProcess,
        settings: ShareSettings,
        rules: ShareRules,
        persister: Persister,
        hosted: HostedPartitions,
        reader: FetchReader,
        offsets: OffsetQueries,
        purgatory: Purgatory,
    ) -> None:
        self.out, self.timers = process.out, process.timers
        self.rules = rules
        self.persister = persister
        self._settings = settings
        self._hosted = hosted
        self._reader = reader
        self._offsets = offsets
        self._purgatory = purgatory
        self.sessions = ShareSessionCache(settings.max_sessions)
        self.shares: dict[GroupKey, SharePartition] = {}
        self._listeners: dict[GroupKey, _Led] = {}
        self._parked: dict[GroupKey, dict[DelayedShareFetch, None]] = {}

    # ------------------------------------------------------------- what share partitions need

    @property
    def most_deliveries(self) -> int:
        """group.share.delivery.count.limit."""
        return self.rules.delivery_limit(self._settings.most_deliveries)

    @property
    def most_in_flight(self) -> int:
        """group.share.partition.max.record.locks."""
        return self._settings.most_in_flight

    def lock_duration_ms(self, group_id: str) -> int:
        """Return the group's share.record.lock.duration.ms."""
        return self._settings.lock_duration_ms(group_id)

    def reset_offset(self, group_id: str, tp: TopicPartition, leader_epoch: int) -> int | Errors:
        """Return where the group begins, by its share.auto.offset.reset, or an error."""
        reset = self._settings.group(group_id).share_auto_offset_reset
        timestamp = EARLIEST_TIMESTAMP if reset == "earliest" else LATEST_TIMESTAMP
        return self._offset_for(tp, timestamp, leader_epoch)

    def complete_fetches(self, group_id: str, tp: TopicPartition, now: int) -> None:
        """Look at the share fetches of the group that wait for the partition."""
        for (group, _, parked_for), fetches in list(self._parked.items()):
            if group == group_id and parked_for == tp:
                for fetch in list(fetches):
                    fetch.check(now)

    def _offset_for(self, tp: TopicPartition, timestamp: int, leader_epoch: int) -> int | Errors:
        asked = ListOffsetsPartition(tp, leader_epoch, timestamp)
        answer = self._offsets.list_offset(ListOffsetsRequest(-1, 0, (asked,)), asked)
        if answer.error is NONE and answer.offset == -1:
            return Errors.OFFSET_NOT_AVAILABLE
        return answer.offset if answer.error is NONE else answer.error

    # ----------------------------------------------------------------------------- fetching

    def fetch(
        self,
        request: ShareFetchRequest,
        partitions: list[TopicIdPartition],
        answer: Callable[[list[SharePartitionResponse], int], None],
        now: int,
    ) -> None:
        """Fetch for a member; the partition that comes first changes with the session's epoch."""
        turn = request.session_epoch % len(partitions) if partitions else 0
        shares: dict[TopicIdPartition, SharePartition] = {}
        errors: Results = {}
        for topic_id, tp in partitions[turn:] + partitions[:turn]:
            share = self._get_or_create(request.group_id, topic_id, tp)
            if isinstance(share, Errors):
                errors[topic_id, tp] = share
                continue
            shares[topic_id, tp] = share
        level = self._settings.group(request.group_id).share_isolation_level
        fetch = DelayedShareFetch(
            request,
            int(level == "read_committed"),
            shares,
            errors,
            self._hosted,
            self._reader,
            self,
            answer,
        )
        for share in list(shares.values()):
            self._initialize(share, fetch, now)
        fetch.start(now)

    def _get_or_create(
        self, group_id: str, topic_id: str, tp: TopicPartition
    ) -> SharePartition | Errors:
        key = (group_id, topic_id, tp)
        share = self.shares.get(key)
        if share is not None:
            return share
        partition = self._hosted.online.get(tp)
        if partition is None:
            return self._hosted.error_of_missing(tp)
        error = partition.check_leader(-1)
        if error is not NONE:
            return error
        epoch = partition.leader_epoch
        share = self.shares[key] = SharePartition(self, group_id, topic_id, tp, epoch)
        listener = _Led(lambda _: self._forget(key, "leadership"))
        self._listeners[key] = listener
        partition.delayed.listeners[listener] = None
        return share

    def _initialize(self, share: SharePartition, fetch: DelayedShareFetch, now: int) -> None:
        """Have a share partition read its state, unless it has.

        A fetch that waits already is told of a failure when its wait is over
        (handleInitializationException): that is all that slows its member down.
        """
        key = (share.topic_id, share.tp)
        started = False

        def done(error: Errors, at: int) -> None:
            if error is not NONE and error is not Errors.LEADER_NOT_AVAILABLE:
                self._forget((share.group_id, *key), error.name)
                fetch.errors[key] = error
                fetch.shares.pop(key, None)
            if started:
                self.complete_fetches(share.group_id, share.tp, at)

        share.initialize(done, now)
        started = True

    def park(self, fetch: DelayedShareFetch, now: int) -> None:
        """Wait for the fetch's partitions, and for its time to be over."""
        request = fetch.request
        for topic_id, tp in fetch.shares:
            key = (request.group_id, topic_id, tp)
            self._parked.setdefault(key, {})[fetch] = None
            partition = self._hosted.online.get(tp)
            if partition is not None:
                asked = FetchPartition(tp, topic_id, 0, -1, -1, -1, 0)
                partition.delayed.consumer_fetches[fetch] = asked
        self._purgatory.add(fetch, request.max_wait_ms, now)

    def unpark(self, fetch: DelayedShareFetch) -> None:
        """Wait for nothing any more."""
        for key, fetches in list(self._parked.items()):
            if fetches.pop(fetch, 0) is None:
                if not fetches:
                    del self._parked[key]
                partition = self._hosted.online.get(key[2])
                if partition is not None:
                    partition.delayed.consumer_fetches.pop(fetch, None)

    # ---------------------------------------------------------------------- acknowledgements

    def acknowledge(
        self,
        group_id: str,
        member_id: str,
        batches: dict[TopicIdPartition, tuple[AcknowledgementBatch, ...]],
        done: Callable[[Results, int], None],
        now: int,
    ) -> None:
        """Acknowledge records of several partitions; ``done`` is called with all results."""

        def begin(share: SharePartition, told: Callable[[Errors, int], None]) -> None:
            share.acknowledge(member_id, batches[share.topic_id, share.tp], told, now)

        self._for_each(group_id, list(batches), begin, done, now)

    def release_session(self, key: SessionKey, now: int) -> None:
        """End a session, and release all that its member holds here (releaseSession)."""
        session = self.sessions.remove(key)
        if session is None:
            return
        group_id, member_id = key

        def begin(share: SharePartition, told: Callable[[Errors, int], None]) -> None:
            share.release(member_id, told, now)

        self._for_each(group_id, list(session.partitions), begin, lambda _, __: None, now)

    def _for_each(
        self,
        group_id: str,
        partitions: list[TopicIdPartition],
        begin: Callable[[SharePartition, Callable[[Errors, int], None]], None],
        done: Callable[[Results, int], None],
        now: int,
    ) -> None:
        """Begin something at each share partition; call ``done`` once all have answered."""
        results: Results = {}

        def told(key: TopicIdPartition, error: Errors, at: int) -> None:
            results[key] = error
            if error in FENCING:
                self._forget((group_id, *key), error.name)
            if len(results) == len(partitions):
                done(results, at)

        if not partitions:
            done(results, now)
        for key in partitions:
            share = self.shares.get((group_id, *key))
            if share is None:
                told(key, Errors.UNKNOWN_TOPIC_OR_PARTITION, now)
                continue
            begin(share, lambda error, at, key=key: told(key, error, at))  # type: ignore[misc]
            self.complete_fetches(group_id, key[1], now)

    # --------------------------------------------------------------------------------- the end

    def failed(self, share: SharePartition, error: Errors, now: int) -> None:
        """Forget a share partition that answered with an error that fences it."""
        if error in FENCING:
            self._forget((share.group_id, share.topic_id, share.tp), error.name)

    def log_start(self, tp: TopicPartition) -> int | Errors:
        """Return a partition's log start offset, or why it is not known here."""
        return self._offset_for(tp, EARLIEST_TIMESTAMP, -1)

    def disconnected(self, connection: int, now: int) -> None:
        """End the session that a connection opened; forget its group if it was the last."""
        key = self.sessions.disconnected(connection)
        if key is None:
            return
        self.release_session(key, now)
        if not self.sessions.members(key[0]):
            for each in [each for each in self.shares if each[0] == key[0]]:
                self._forget(each, "empty")

    def _forget(self, key: GroupKey, reason: str) -> None:
        share = self.shares.pop(key, None)
        if share is None:
            return
        share.fence()
        partition = self._hosted.online.get(share.tp)
        listener = self._listeners.pop(key)
        if partition is not None:
            partition.delayed.listeners.pop(listener, None)
        fact = SharePartitionClosed(
            share.group_id, share.topic_id, share.tp.partition, share.leader_epoch, reason
        )
        self.out.append(fact)

    def ground_truth(self) -> list[FinalSharePartition]:
        """Return the final state of every share partition, as facts."""
        return [share.ground_truth() for share in self.shares.values() if share.active]
