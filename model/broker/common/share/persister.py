"""The persister: how a broker reads and writes the state of share partitions (KIP-932).

Kafka: DefaultStatePersister and PersisterStateManager. Each share partition is a handler of its
own: it finds its share coordinator, is sent to it, and tries again while that is not available.

    read_state ──▶ queue ──▶ coordinator known from the metadata cache, or FindCoordinator
                     ▲                    │
                     │ backoff            ▼
    NOT_COORDINATOR…─┘      by broker, kind of request and group ──▶ one request for all of them

While a request of a kind is in flight to a broker, those of that kind for it gather. Everything
runs on lane ``persister-state-manager``, one thread.

Left out: the check of the parameters; the callers are parts of the same broker.
"""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from kafkasim.model.broker.common.share.state_handlers import RETRIABLE, StateHandler, coalesced
from kafkasim.model.broker.common.transactions.inter_broker_send_thread import (
    InterBrokerSendThread,
    RequestAndCompletionHandler,
)
from kafkasim.model.channel import Failed
from kafkasim.model.errors import Errors
from kafkasim.model.messages import FindCoordinatorRequest
from kafkasim.model.messages.share import (
    DeleteShareGroupStateRequest,
    InitializeShareGroupStateRequest,
    InitializeStatePartition,
    ReadShareGroupStateRequest,
    ReadShareGroupStateSummaryRequest,
    ReadStatePartition,
    StateBatch,
    WriteShareGroupStateRequest,
    WriteStatePartition,
)
from kafkasim.model.records import SHARE_GROUP_STATE_TOPIC
from kafkasim.model.share.records import SharePartitionKey

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import BrokerImage, MetadataImage
    from kafkasim.model.effects import Process

LANE = "persister-state-manager"
SHARE = 2
"""The key type of FindCoordinator (CoordinatorType.SHARE)."""
REQUEST_BACKOFF_MS = 1000
REQUEST_BACKOFF_MAX_MS = 30000
JITTER = 0.2
MAX_ATTEMPTS = 5
"""Of finding the coordinator, and of the request (MAX_FIND_COORD_ATTEMPTS)."""
REQUEST_TIMEOUT_MS = 30000
"""CommonClientConfigs.DEFAULT_SOCKET_CONNECTION_SETUP_TIMEOUT_MAX_MS, as in Kafka."""

Done = Callable[[Any, int], None]
"""(result, now): the share partition's part of the response, which has the error. On :data:`LANE`.

NETWORK_EXCEPTION means that the answer was lost; nobody has tried again."""


class DefaultStatePersister:
    """Reads and writes the state of share partitions for the leaders and the group coordinator."""

    def __init__(
        self, process: Process, image: MetadataImage, partition_for: Callable[[str], int]
    ) -> None:
        """``partition_for`` gives the state partition that holds a share partition's key."""
        self._process = process
        self._image = image
        self._partition_for = partition_for
        self._rng: random.Random | None = None  # from the first use on
        self._queue: deque[StateHandler] = deque()
        # broker's address -> kind of request -> group -> what waits to be sent
        self._waiting: dict[str, dict[type, dict[str, list[StateHandler]]]] = {}
        self._in_flight: dict[type, dict[str, None]] = {}  # the brokers that a kind was sent to
        self._armed = 0  # backoffs so far
        self.thread = InterBrokerSendThread(process, LANE, REQUEST_TIMEOUT_MS, self)

    # ---------------------------------------------------------------------------- operations

    def initialize_state(
        self,
        group_id: str,
        topic_id: str,
        partition: int,
        state_epoch: int,
        start_offset: int,
        done: Done,
    ) -> None:
        """Have a share partition begin; ``done`` gets a StatePartitionResult."""
        asked = InitializeStatePartition(partition, state_epoch, start_offset)
        self._enqueue(InitializeShareGroupStateRequest, group_id, topic_id, partition, asked, done)

    def read_state(
        self, group_id: str, topic_id: str, partition: int, leader_epoch: int, done: Done
    ) -> None:
        """Read a share partition's state as its leader; ``done`` gets a ReadStateResult."""
        asked = ReadStatePartition(partition, leader_epoch)
        self._enqueue(ReadShareGroupStateRequest, group_id, topic_id, partition, asked, done)

    def write_state(
        self,
        group_id: str,
        topic_id: str,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        batches: tuple[StateBatch, ...],
        done: Done,
    ) -> None:
        """Write what became of records, as their leader; ``done`` gets a StatePartitionResult."""
        asked = WriteStatePartition(partition, state_epoch, leader_epoch, start_offset, batches)
        self._enqueue(WriteShareGroupStateRequest, group_id, topic_id, partition, asked, done)

    def delete_state(self, group_id: str, topic_id: str, partition: int, done: Done) -> None:
        """Have a share partition forgotten; ``done`` gets a StatePartitionResult."""
        kind = DeleteShareGroupStateRequest
        self._enqueue(kind, group_id, topic_id, partition, partition, done)

    def read_summary(
        self, group_id: str, topic_id: str, partition: int, leader_epoch: int, done: Done
    ) -> None:
        """Read where a share partition starts; ``done`` gets a ReadStateSummaryResult."""
        asked = ReadStatePartition(partition, leader_epoch)
        kind = ReadShareGroupStateSummaryRequest
        self._enqueue(kind, group_id, topic_id, partition, asked, done)

    def _enqueue(
        self, kind: type, group_id: str, topic_id: str, partition: int, asked: Any, done: Done
    ) -> None:
        key = SharePartitionKey(group_id, topic_id, partition)
        self._queue.append(StateHandler(kind, key, asked, done))
        self.thread.wakeup()

    # ------------------------------------------------------------------------------ requests

    def generate_requests(self, now: int) -> list[RequestAndCompletionHandler]:
        """Return a FindCoordinator for the next in the queue, else the requests that may go."""
        if self._queue:
            handler = self._queue.popleft()
            if self._lookup_needed(handler):
                return self._find_coordinator(handler, now)
        requests: list[RequestAndCompletionHandler] = []
        sending: list[tuple[type, str]] = []
        for address, kinds in self._waiting.items():
            for kind in list(kinds):
                if address in self._in_flight.get(kind, {}):
                    continue
                sending.append((kind, address))
                for group_id, handlers in kinds.pop(kind).items():
                    request = coalesced(kind, group_id, handlers)
                    done = partial(self._completed, kind, address, handlers)
                    requests.append(RequestAndCompletionHandler(address, request, done))
        for kind, address in sending:
            self._in_flight.setdefault(kind, {})[address] = None
        return requests

    def _lookup_needed(self, handler: StateHandler) -> bool:
        """Return whether the metadata cache does not tell the handler's coordinator."""
        coordinator = self._cached_coordinator(handler.key)
        if coordinator is None:
            return True
        self._add_to_node_map(coordinator.address, handler)
        return False

    def _cached_coordinator(self, key: SharePartitionKey) -> BrokerImage | None:
        """Return the live leader of the key's state partition, as this broker knows it
        (ShareCoordinatorMetadataCacheHelperImpl.getShareCoordinator)."""
        topic = self._image.topic_by_name(SHARE_GROUP_STATE_TOPIC)
        if topic is None:
            return None
        entry = topic.partitions.get(self._partition_for(key.as_coordinator_key()))
        broker = None if entry is None else self._image.brokers.get(entry.leader)
        return None if broker is None or broker.fenced else broker

    def _add_to_node_map(self, address: str, handler: StateHandler) -> None:
        kinds = self._waiting.setdefault(address, {})
        groups = kinds.setdefault(handler.kind, {})
        groups.setdefault(handler.key.group_id, []).append(handler)
        self.thread.wakeup()

    def _find_coordinator(
        self, handler: StateHandler, now: int
    ) -> list[RequestAndCompletionHandler]:
        """Ask any live broker, which creates the topic of the share coordinator if need be."""
        nodes = [broker.address for broker in self._image.brokers.values() if not broker.fenced]
        if not nodes:
            handler.fail(Errors.COORDINATOR_NOT_AVAILABLE, now)
            if self._queue:
                self.thread.wakeup()
            return []
        address = nodes[self._random().randrange(len(nodes))]
        request = FindCoordinatorRequest(handler.key.as_coordinator_key(), SHARE)
        done = partial(self._found, handler)
        return [RequestAndCompletionHandler(address, request, done)]

    def _found(self, handler: StateHandler, answer: Any, now: int) -> None:
        """Send the handler's request, look again later, or give up
        (handleFindCoordinatorResponse)."""
        if isinstance(answer, Failed):
            handler.fail(Errors.NETWORK_EXCEPTION, now)
        elif answer.error is Errors.NONE:
            handler.lookups = 0
            self._add_to_node_map(answer.address, handler)
        else:
            handler.lookups += 1
            if answer.error not in RETRIABLE or handler.lookups >= MAX_ATTEMPTS:
                handler.fail(answer.error, now)
            else:
                self._again(handler, handler.lookups, now)
        self.thread.wakeup()

    def _completed(
        self, kind: type, address: str, handlers: list[StateHandler], answer: Any, now: int
    ) -> None:
        """Give each handler its part of a response.

        A response opens the way for the next of its kind, though another group's may be in flight.
        """
        self._in_flight[kind].pop(address, None)
        for handler in handlers:
            if isinstance(answer, Failed):
                handler.fail(Errors.NETWORK_EXCEPTION, now)
            else:
                self._handle(handler, answer, now)
        self.thread.wakeup()

    def _handle(self, handler: StateHandler, answer: Any, now: int) -> None:
        handler.attempts += 1
        result = handler.result_in(answer)
        if result is None:
            handler.fail(Errors.UNKNOWN_SERVER_ERROR, now)
        elif result.error not in RETRIABLE:
            handler.done(result, now)
        elif handler.attempts < MAX_ATTEMPTS:
            self._again(handler, handler.attempts, now)
        else:
            handler.fail(result.error, now)

    def _again(self, handler: StateHandler, attempts: int, now: int) -> None:
        """Queue the handler again after a backoff that grows and varies (ExponentialBackoff)."""

        def enqueue(_at: int) -> None:
            self._queue.append(handler)
            self.thread.wakeup()

        factor = self._random().uniform(1 - JITTER, 1 + JITTER)
        backoff_ms = min(int(REQUEST_BACKOFF_MS * 2**attempts * factor), REQUEST_BACKOFF_MAX_MS)
        self._armed += 1
        key = ("persister-backoff", self._armed)
        self._process.timers.arm(key, now + backoff_ms * 1000, LANE, enqueue)

    def _random(self) -> random.Random:
        """Return the persister's own stream, which a broker without share groups never draws."""
        if self._rng is None:
            self._rng = random.Random(self._process.rng.getrandbits(64))
        return self._rng
