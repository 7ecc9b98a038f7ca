"""FetchReader: the one place that reads partitions for fetches (ReplicaManager.readFromLog).

Full fetches, session fetches and the answers of parked fetches are all read here, with the same
bound, the same byte budget and the same minimum of one batch. As in Kafka, only the first read of a
fetch records the follower's progress, and its answer carries the high watermark from before that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchPartition, FetchPartitionResponse, FetchRequest
from kafkasim.model.replication.partitions.partition import EMPTY, FETCHES, Partition
from kafkasim.model.replication.requests.read_replica import NO_PREFERENCE, preferred_read_replica
from kafkasim.model.storage.files import DiskError

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.config import BrokerConfig
    from kafkasim.model.controller.common.image import BrokerImage
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.ports import BrokerProcess
    from kafkasim.model.replication.quotas.replication_quota import ReplicationQuotas
    from kafkasim.model.replication.rules import ReplicationRules

NONE = Errors.NONE

Wanted: TypeAlias = "list[tuple[FetchPartition, Partition | None]]"
"""What a fetch is about; None for a partition that is not hosted."""

Read: TypeAlias = "tuple[FetchPartition, Partition | None, int, FetchPartitionResponse | None]"
"""What was asked, the partition, its high watermark before the read (−1 for an unknown partition),
and the answer; None: there was nothing to read."""


class FetchResult:
    """What one pass over the partitions of a fetch found, in their order."""

    __slots__ = ("budget", "bytes", "reads", "urgent")

    def __init__(self, budget: int) -> None:
        self.reads: list[Read] = []
        self.budget = budget  # bytes that may still be read
        self.bytes = 0  # that were read, in all partitions
        self.urgent = False  # a partition has an answer that must not wait for more bytes


class FetchReader:
    """Reads hosted partitions for followers and consumers."""

    def __init__(
        self,
        process: BrokerProcess,
        config: BrokerConfig,
        rules: ReplicationRules,
        brokers: dict[int, BrokerImage],
        hosted: HostedPartitions,
        quotas: ReplicationQuotas,
    ) -> None:
        self._process = process
        self._rules = rules
        self._brokers = brokers
        self._hosted = hosted
        self._quotas = quotas
        self._max_bytes = config.fetch_max_bytes
        self.selects_replicas = config.replica_selector_class != ""

    def bound(self, partition: Partition, request: FetchRequest) -> int:
        """Return the offset up to which a fetch may read a partition.

        A follower reads up to the log end, a consumer up to what ReplicationRules.consumer_bound
        allows: the high watermark or the last stable offset.
        """
        if request.replica_id >= 0:
            return partition.log.local.log_end_offset
        return self._rules.consumer_bound(partition.log, request.isolation_level)

    def is_stale(self, request: FetchRequest) -> bool:
        """Return whether an older incarnation of a follower sent the fetch (KIP-903)."""
        replica = request.replica_id
        return replica >= 0 and self._rules.is_stale_replica_epoch(
            self._brokers, replica, request.replica_epoch
        )

    # ----------------------------------------------------------------------------------- reading

    def read(
        self, request: FetchRequest, wanted: Wanted, now: int, first: bool, stale: bool = False
    ) -> FetchResult:
        """Read what a fetch is about; the ``first`` read also records the follower's progress.

        ``stale``: an older incarnation of the follower sent the fetch; it may read nothing.
        """
        replica, only_leader = request.replica_id, request.rack_id is None
        result = FetchResult(min(request.max_bytes, self._max_bytes))
        reads = result.reads
        for asked, partition in wanted:
            if partition is None:
                result.urgent = True
                reads.append((asked, None, -1, self._missing(asked)))
                continue
            high_watermark = partition.log.high_watermark
            answer = partition.check_fetch(asked, replica, only_leader)
            if answer is None and first and (stale or self.selects_replicas):
                answer = self._turn_away(partition, asked, request, stale)
            if answer is not None:
                result.urgent = True
                answer = self._unresolved(asked) or answer
                reads.append((asked, partition, high_watermark, answer))
                if answer.diverging_epoch is not None and first:
                    self._diverged(partition, asked, request, now)
                continue
            leader_end = partition.log.local.log_end_offset
            bound = leader_end if replica >= 0 else self.bound(partition, request)
            if asked.fetch_offset < bound:
                answer = self._read_partition(partition, asked, request, bound, result, now)
            reads.append((asked, partition, high_watermark, answer))
            if partition.untold and (answer is None or answer.error is NONE):
                partition.tell_read(FETCHES[replica >= 0], replica, only_leader or replica >= 0)
            leader = partition.role.leadership if first and replica >= 0 else None
            if answer is not None and answer.error is not NONE:
                result.urgent = True
                if leader is not None:
                    leader.read_failed(replica)
            elif leader is not None:
                leader.update_follower(asked, replica, request.replica_epoch, leader_end, now)
        return result

    def _diverged(
        self, partition: Partition, asked: FetchPartition, request: FetchRequest, now: int
    ) -> None:
        """Leave the progress of a follower as it is whose log is not the leader's up to there."""
        leader, replica = partition.role.leadership, request.replica_id
        if leader is not None and replica >= 0 and not self._rules.skips_diverged_followers():
            end = partition.log.local.log_end_offset
            leader.update_follower(asked, replica, request.replica_epoch, end, now)

    def _unresolved(self, asked: FetchPartition) -> FetchPartitionResponse | None:
        """Return the answer if the metadata cache has no name for the topic id, else None.

        KafkaApis.handleFetchRequest looks before it lets the ReplicaManager read.
        """
        if not asked.topic_id or self._hosted.cache.knows_topic_id(asked.topic_id):
            return None
        return FetchPartitionResponse(asked.tp, Errors.UNKNOWN_TOPIC_ID, -1, -1, -1, EMPTY)

    def _missing(self, asked: FetchPartition) -> FetchPartitionResponse:
        unresolved = self._unresolved(asked)
        if unresolved is not None:
            return unresolved
        error = self._hosted.error_of_missing(asked.tp)
        unknown = error is Errors.UNKNOWN_TOPIC_OR_PARTITION
        leader = None if unknown else self._hosted.current_leader(asked.tp)
        return FetchPartitionResponse(asked.tp, error, -1, -1, -1, EMPTY, None, leader)

    def _turn_away(
        self, partition: Partition, asked: FetchPartition, request: FetchRequest, stale: bool
    ) -> FetchPartitionResponse | None:
        """Return the response of a fetch that is allowed but not served here, None to serve it.

        An older incarnation of a follower is refused (KIP-903). A consumer is sent to a replica in
        its own rack, if there is one (KIP-392).
        """
        if stale:
            return partition.fetch_error(Errors.NOT_LEADER_OR_FOLLOWER)
        leader = partition.leadership
        if leader is None or request.replica_id >= 0 or not request.rack_id:
            return None
        preferred = preferred_read_replica(leader, request.rack_id, asked.fetch_offset)
        if preferred == NO_PREFERENCE:
            return None
        leader.tell_read_replica(preferred)
        log = partition.log
        return FetchPartitionResponse(
            asked.tp,
            NONE,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            EMPTY,
            preferred_read_replica=preferred,
        )

    def _read_partition(
        self,
        partition: Partition,
        asked: FetchPartition,
        request: FetchRequest,
        bound: int,
        result: FetchResult,
        now: int,
    ) -> FetchPartitionResponse | None:
        """Read one partition up to ``bound`` within the budget of ``result``.

        Return None if no batch is read: a throttle holds it back, or the budget is used up.
        """
        log = partition.log
        quota = self._quotas.leader if request.replica_id >= 0 else None
        if quota is not None and not quota.sends(partition, request.replica_id, now):
            return None
        limit = min(asked.partition_max_bytes, result.budget)
        try:
            batches = log.read(asked.fetch_offset, limit, bound, result.bytes == 0)
        except DiskError as error:
            self._process.log_dir_failed(error, now)
            return partition.fetch_error(Errors.KAFKA_STORAGE_ERROR)
        size = 0
        for batch in batches:
            size += batch.size
        result.bytes += size
        result.budget = max(0, result.budget - size)
        if quota is not None:
            quota.sent(partition, size, now)
        if not batches:
            return None
        aborted: tuple[tuple[int, int], ...] = ()
        if request.isolation_level and request.replica_id < 0:
            found = log.local.aborted_transactions(asked.fetch_offset, batches[-1].last_offset + 1)
            aborted = tuple([(each.producer_id, each.first_offset) for each in found])
        return FetchPartitionResponse(
            asked.tp,
            NONE,
            log.high_watermark,
            log.last_stable_offset,
            log.log_start_offset,
            batches,
            aborted_transactions=aborted,
        )

    # ----------------------------------------------------------------------------------- waiting

    def ends_wait(
        self,
        request: FetchRequest,
        wanted: Callable[[], Wanted],
        asked: FetchPartition,
        now: int,
    ) -> bool:
        """Return whether what happened to ``asked`` ends the wait of a fetch (DelayedFetch).

        New records end it if they make ``min_bytes``. A new leader epoch ends a consumer's wait at
        once. A follower's fetch waits on and is fenced when it is answered (Kafka: at once, too).
        """
        partition = self._hosted.online.get(asked.tp)
        if partition is None:
            return True
        follower = request.replica_id >= 0
        if not follower and asked.current_leader_epoch not in (partition.leader_epoch, -1):
            return True
        if asked.fetch_offset >= self.bound(partition, request):
            return False
        if request.min_bytes <= 1 and not (follower and self._quotas.leader is not None):
            return True
        return self.available_bytes(request, wanted(), now) >= request.min_bytes

    def available_bytes(self, request: FetchRequest, wanted: Wanted, now: int) -> int:
        """Return what a fetch could read now, up to its ``min_bytes``.

        An error counts as enough. So does an offset on an older segment: a read ends with its
        segment, so there is nothing to wait for. What a throttle holds back does not count.
        """
        replica = request.replica_id
        quota = self._quotas.leader if replica >= 0 else None
        only_leader = request.rack_id is None
        total = 0
        for asked, partition in wanted:
            if partition is None or partition.check_fetch(asked, replica, only_leader) is not None:
                return request.min_bytes
            if quota is not None and not quota.sends(partition, replica, now):
                continue
            log = partition.log
            bound = self.bound(partition, request)
            if asked.fetch_offset >= bound:
                continue
            if log.local.segment_index(asked.fetch_offset) < log.local.segment_index(bound):
                return request.min_bytes
            missing = min(asked.partition_max_bytes, request.min_bytes - total)
            for batch in log.read(asked.fetch_offset, missing, bound):
                total += batch.size
            if total >= request.min_bytes:
                break
        return total
