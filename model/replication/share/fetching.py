"""DelayedShareFetch: a share fetch that waits until there are records to acquire.

Models kafka.server.share.DelayedShareFetch and ShareFetchUtils.processFetchResponse. A share fetch
waits for the high watermark like a consumer's fetch, and for records that become available again.

Left out: the fetch lock of a share partition (a handler reads and acquires in one step), remote
storage, and the cached position of the next fetch: what could be read is looked up each time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, TypeAlias

from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchPartition, FetchRequest
from kafkasim.model.messages.share import SharePartitionResponse

if TYPE_CHECKING:
    from collections.abc import Callable

    from kafkasim.model.messages import FetchPartitionResponse
    from kafkasim.model.messages.share import AcquiredRecords, ShareFetchRequest
    from kafkasim.model.records import RecordBatch, TopicPartition
    from kafkasim.model.replication.partitions.hosted import HostedPartitions
    from kafkasim.model.replication.requests.fetch_reader import FetchReader, Wanted
    from kafkasim.model.replication.share.partition.share_partition import SharePartition

NONE = Errors.NONE

Key: TypeAlias = "tuple[str, TopicPartition]"
"""Topic id, and the partition by the topic's name."""


class ShareFetchPort(Protocol):
    """What a share fetch may cause."""

    def park(self, fetch: DelayedShareFetch, now: int) -> None:
        """Wait for the fetch's partitions, and for its time to be over."""
        ...

    def unpark(self, fetch: DelayedShareFetch) -> None:
        """Wait for nothing any more."""
        ...

    def failed(self, share: SharePartition, error: Errors, now: int) -> None:
        """Forget a share partition that answered with an error that fences it."""
        ...

    def log_start(self, tp: TopicPartition) -> int | Errors:
        """Return a partition's log start offset, or why it is not known here."""
        ...


class DelayedShareFetch:
    """A share fetch of one member from some share partitions, in the order of their turn."""

    def __init__(
        self,
        request: ShareFetchRequest,
        isolation_level: int,
        shares: dict[Key, SharePartition],
        errors: dict[Key, Errors],
        hosted: HostedPartitions,
        reader: FetchReader,
        port: ShareFetchPort,
        answer: Callable[[list[SharePartitionResponse], int], None],
    ) -> None:
        self.request = request
        self.shares = shares
        self.errors = errors  # of partitions that cannot be fetched
        self.deadline = 0
        self.done = False
        self._isolation_level = isolation_level
        self._hosted = hosted
        self._reader = reader
        self._port = port
        self._answer = answer

    def start(self, now: int) -> None:
        """Answer at once if there is enough, else wait (tryCompleteElseWatch)."""
        if not self.shares:
            self._finish([], now)
            return
        self.check(now)
        if not self.done:
            self._port.park(self, now)

    def check(self, now: int) -> None:
        """Answer if ``min_bytes`` can be acquired, or a partition has an error (tryComplete)."""
        offsets = {} if self.done else self._acquirable()
        if not offsets:
            return
        if self.request.max_bytes <= 0:
            self._read_and_answer(offsets, now)
            return
        fetch, wanted = self._fetch(offsets)
        if self._reader.available_bytes(fetch, wanted, now) >= fetch.min_bytes:
            self._read_and_answer(offsets, now)

    def try_complete(self, _: FetchPartition, now: int) -> None:
        """Look whether the high watermark of a partition is enough."""
        self.check(now)

    def complete(self, now: int) -> None:
        """Look whether the end of a leadership is enough: the share partition is fenced by it."""
        self.check(now)

    def expire(self, now: int) -> None:
        """Answer with what there is (onComplete)."""
        self._read_and_answer(self._acquirable(), now)

    # -------------------------------------------------------------------------------- reading

    def _acquirable(self) -> dict[Key, int]:
        """Return the offsets from which to fetch (acquirablePartitions)."""
        return {
            key: share.cache.next_fetch_offset()
            for key, share in self.shares.items()
            if share.active and share.can_acquire()
        }

    def _fetch(self, offsets: dict[Key, int]) -> tuple[FetchRequest, Wanted]:
        """Return the read: each partition may give an equal part of max_bytes (UNIFORM)."""
        request = self.request
        most = request.max_bytes // max(1, len(offsets))
        partitions = tuple(
            [
                FetchPartition(tp, topic_id, offset, -1, -1, -1, most)
                for (topic_id, tp), offset in offsets.items()
            ]
        )
        fetch = FetchRequest(
            -1,
            -1,
            request.max_wait_ms,
            min(request.min_bytes, request.max_bytes),
            request.max_bytes,
            self._isolation_level,
            partitions,
            rack_id=None,
        )
        find = self._hosted.online.get
        return fetch, [(asked, find(asked.tp)) for asked in partitions]

    def _read_and_answer(self, offsets: dict[Key, int], now: int) -> None:
        self.done = True
        self._port.unpark(self)
        found: list[SharePartitionResponse] = []
        if offsets and self.request.max_bytes <= 0:
            # PartitionMaxBytesStrategy.checkValidArguments throws IllegalArgumentException.
            self.errors.update(dict.fromkeys(offsets, Errors.UNKNOWN_SERVER_ERROR))
        elif offsets:
            fetch, wanted = self._fetch(offsets)
            left = self.request.max_records
            for asked, _, _, read in self._reader.read(fetch, wanted, now, first=False).reads:
                answer = self._acquire(asked, read, left, now)
                if answer is not None:
                    found.append(answer)
                    left -= sum([_length(each) for each in answer.acquired])
        self._finish(found, now)

    def _acquire(
        self, asked: FetchPartition, read: FetchPartitionResponse | None, left: int, now: int
    ) -> SharePartitionResponse | None:
        """Return the answer for one partition; None: its error stands in ``errors``."""
        key = (asked.topic_id, asked.tp)
        share = self.shares[key]
        if read is None:
            return SharePartitionResponse(asked.tp, asked.topic_id, NONE)
        if read.error is Errors.OFFSET_OUT_OF_RANGE:
            start = self._port.log_start(asked.tp)
            if isinstance(start, Errors):
                self.errors[key] = start
                self._port.failed(share, start, now)
                return None
            share.log_start_moved(start)
            return SharePartitionResponse(asked.tp, asked.topic_id, NONE)
        if read.error is not NONE:
            return SharePartitionResponse(
                asked.tp, asked.topic_id, read.error, current_leader=read.current_leader
            )
        request = self.request
        acquired = share.acquire(
            request.member_id, request.batch_size, left, asked.fetch_offset, read, now
        )
        batches = _slice(read.batches, acquired) if acquired else ()
        return SharePartitionResponse(
            asked.tp, asked.topic_id, NONE, batches=batches, acquired=tuple(acquired)
        )

    def _finish(self, found: list[SharePartitionResponse], now: int) -> None:
        self.done = True
        for (topic_id, tp), error in self.errors.items():
            leader = None
            if error in (Errors.NOT_LEADER_OR_FOLLOWER, Errors.FENCED_LEADER_EPOCH):
                leader = self._hosted.current_leader(tp)
            found.append(SharePartitionResponse(tp, topic_id, error, current_leader=leader))
        self._answer(found, now)


def _length(acquired: AcquiredRecords) -> int:
    return acquired.last_offset - acquired.first_offset + 1


def _slice(
    batches: tuple[RecordBatch, ...], acquired: list[AcquiredRecords]
) -> tuple[RecordBatch, ...]:
    """Return the batches that hold acquired records (maybeSliceFetchRecords).

    The last one that begins no later than they do is always there, though the cleaner may have
    removed them: a share session leaves a partition out that has no batch, and its member would not
    hear of the gaps that it holds.
    """
    first, last = acquired[0].first_offset, acquired[-1].last_offset
    begin = max([at for at, each in enumerate(batches) if each.base_offset <= first], default=0)
    following = [each for each in batches[begin + 1 :] if each.base_offset <= last]
    return (batches[begin], *following)
