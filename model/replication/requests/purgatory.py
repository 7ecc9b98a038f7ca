"""What waits in a broker: DelayedProduce and DelayedFetch, and the clock that expires them.

A waiting operation is kept by every partition it waits for (``Partition.waiting_*``, Kafka's
watcher lists), and leaves all of them when it completes. Its deadline stands in a FIFO per timeout
(a broker knows few distinct ones), with one timer for the head of each; completed operations fall
off the head. Expiry runs on lane ``purgatory``, Kafka's reaper thread.

DelayedDeleteRecords is in :mod:`kafkasim.model.replication.requests.deletion`. Not modelled: purge intervals,
delayed ElectLeaders.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, TypeAlias

from kafkasim.model.errors import Errors
from kafkasim.model.messages import FetchRequest, ProducePartitionResponse, ProduceResponse
from kafkasim.model.records import TopicPartition

if TYPE_CHECKING:
    from kafkasim.model.effects import Request
    from kafkasim.model.replication.partition.partition import Partition
    from kafkasim.model.replication.requests.deletion import DelayedDeleteRecords
    from kafkasim.model.replication.requests.serving import ReplicaServing
    from kafkasim.model.replication.requests.session_serving import SessionServing
    from kafkasim.model.replication.requests.sessions import FetchSession
    from kafkasim.model.timers import Timers

NONE = Errors.NONE
LANE = "purgatory"


class ProduceStatus:
    """The answer to one partition of a produce request, while it is being found."""

    __slots__ = ("base_offset", "current_leader", "error", "log_start_offset", "pending", "tp")

    def __init__(self, tp: TopicPartition, error: Errors) -> None:
        self.tp = tp
        self.error = error
        self.base_offset = -1
        self.log_start_offset = -1
        self.current_leader: tuple[int, int] | None = None
        self.pending = False


class DelayedProduce:
    """A produce request with acks=all that waits for high watermarks."""

    __slots__ = (
        "deadline",
        "done",
        "item",
        "manager",
        "partitions",
        "pending",
        "started",
        "status",
    )

    def __init__(
        self, manager: ReplicaServing, item: Request, status: list[ProduceStatus], now: int
    ) -> None:
        self.manager = manager
        self.item = item
        self.status = status
        self.started = now
        self.deadline = 0
        self.done = False
        self.pending = 0
        self.partitions: list[Partition] = []

    def satisfied(self, index: int, error: Errors, now: int) -> None:
        """One partition has its answer; the caller took this operation off its list."""
        status = self.status[index]
        status.error = error
        status.pending = False
        if error is not NONE:
            status.base_offset = -1
            if error is Errors.NOT_LEADER_OR_FOLLOWER:
                status.current_leader = self.manager.current_leader(status.tp)
        self.pending -= 1
        if not self.pending:
            self.done = True
            self.manager.answer_produce(self.item, self.status, self.started, now)

    def expire(self, now: int) -> None:
        """The request's timeout is over; what was appended may still be committed."""
        self.done = True
        for partition in self.partitions:
            partition.waiting_produces.pop(self, None)
        for status in self.status:
            if status.pending:
                status.error = Errors.REQUEST_TIMED_OUT
                status.base_offset = -1
        self.manager.answer_produce(self.item, self.status, self.started, now)


class DelayedFetch:
    """A fetch request that waits for ``min_bytes``."""

    __slots__ = ("deadline", "done", "item", "manager", "partitions", "request", "started")

    def __init__(
        self,
        manager: ReplicaServing,
        item: Request,
        request: FetchRequest,
        partitions: list[Partition],
        now: int,
    ) -> None:
        self.manager = manager
        self.item = item
        self.request = request
        self.partitions = partitions
        self.started = now
        self.deadline = 0
        self.done = False

    def park(self) -> None:
        """Wait on every partition: followers for appends, consumers for the high watermark."""
        if self.request.replica_id >= 0:
            for partition, asked in zip(self.partitions, self.request.partitions, strict=True):
                partition.waiting_followers[self] = asked
        else:
            for partition, asked in zip(self.partitions, self.request.partitions, strict=True):
                partition.waiting_consumers[self] = asked

    def complete(self, now: int) -> None:
        """Leave all partitions, read again and answer."""
        self.done = True
        if self.request.replica_id >= 0:
            for partition in self.partitions:
                partition.waiting_followers.pop(self, None)
        else:
            for partition in self.partitions:
                partition.waiting_consumers.pop(self, None)
        self.manager.answer_parked_fetch(self.item, self.request, self.started, now)

    expire = complete


class DelayedSessionFetch:
    """A follower's fetch in a session that waits for ``min_bytes``."""

    __slots__ = ("deadline", "done", "item", "manager", "session", "started")

    def __init__(
        self, manager: SessionServing, item: Request, session: FetchSession, now: int
    ) -> None:
        self.manager = manager
        self.item = item
        self.session = session
        self.started = now
        self.deadline = 0
        self.done = False

    def complete(self, now: int) -> None:
        """Read again and answer."""
        self.done = True
        self.manager.answer_parked_session(self.item, self.session, self.started, now)

    expire = complete


Operation: TypeAlias = "DelayedFetch | DelayedProduce | DelayedSessionFetch | DelayedDeleteRecords"


class ExpiryQueue:
    """Operations of one timeout in order of their deadlines."""

    __slots__ = ("armed", "queue", "timeout_us", "timers")

    def __init__(self, timers: Timers, timeout_us: int) -> None:
        self.timers = timers
        self.timeout_us = timeout_us
        self.queue: deque[Operation] = deque()
        self.armed = False

    def arm(self, deadline: int) -> None:
        """Look at the operations at ``deadline``."""
        self.armed = True
        self.timers.arm(self, deadline, LANE, self._expire)

    def _expire(self, now: int) -> None:
        self.armed = False
        queue = self.queue
        while queue:
            operation = queue[0]
            if not operation.done:
                if operation.deadline > now:
                    self.arm(operation.deadline)
                    return
                operation.expire(now)
            queue.popleft()


class Purgatory:
    """The expiry queues of a broker, by timeout."""

    __slots__ = ("queues", "timers")

    def __init__(self, timers: Timers) -> None:
        self.timers = timers
        self.queues: dict[int, ExpiryQueue] = {}

    def add(self, operation: Operation, timeout_ms: int, now: int) -> None:
        """Expire ``operation`` one timeout from now unless it is done by then."""
        expiry = self.queues.get(timeout_ms)
        if expiry is None:
            expiry = self.queues[timeout_ms] = ExpiryQueue(self.timers, timeout_ms * 1000)
        queue = expiry.queue
        while queue and queue[0].done:
            queue.popleft()
        operation.deadline = deadline = now + expiry.timeout_us
        queue.append(operation)
        if not expiry.armed:
            expiry.arm(deadline)


def produce_response(status: list[ProduceStatus]) -> ProduceResponse:
    """Build the wire answer."""
    return ProduceResponse(
        tuple(
            [
                ProducePartitionResponse(
                    s.tp, s.error, s.base_offset, -1, s.log_start_offset, s.current_leader
                )
                for s in status
            ]
        )
    )
