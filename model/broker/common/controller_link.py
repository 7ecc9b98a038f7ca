"""A queue of requests to the active controller (NodeToControllerChannelManager).

A broker has one link per purpose (heartbeat, alter-partition, forwarding …), and a link has one
request in flight. The link asks its :class:`ControllerNodes` who the active controller is and
keeps asking that node until the node answers NOT_CONTROLLER or the connection is lost. The head of
the queue is then sent again after ``RETRY_US`` to the controller that is known by then; the same
wait applies while no controller is known. A link that has nothing to send looks for the controller
too, once it has started (NodeToControllerRequestThread.doWork), so it knows the endpoint of one
that leaves the voters later, and asks it first after a new election. A request of a link with
``retry_timeout_ms`` fails at the first retry after that time; on other links requests are retried
without limit.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafkasim.model.channel import SERVER_BACKOFF_MS, Channel, Done, Failed
from kafkasim.model.errors import Errors
from kafkasim.model.facts import HoleEntered
from kafkasim.model.messages import DescribeQuorumResponse, errors_in

if TYPE_CHECKING:
    from kafkasim.model.effects import Process

RETRY_US = 50_000
LOOKUP_US = 100_000


class ControllerChannel(Protocol):
    """Anything that carries requests to the active controller."""

    def send(self, message: Any, now: int, done: Done) -> None:
        """Send a request; ``done`` gets the controller's response, or Failed on a retry timeout."""
        ...


class ControllerAccess(NamedTuple):
    """Where a broker takes what it cannot do by itself.

    In KRaft mode every channel is the same link to the active controller.
    """

    requests: ControllerChannel  # what operators ask for
    topics: ControllerChannel  # CreateTopics for topics that clients need
    producer_ids: ControllerChannel  # AllocateProducerIds
    named: Callable[[], int]  # returns the controller that Metadata responses name, −1 for none
    kraft_version: Callable[[], int]  # returns the quorum's; 0 without a quorum


class ControllerNodes(Protocol):
    """Knows the active controller (ControllerNodeProvider)."""

    def active(self) -> int:
        """Return the node id of the active controller, −1 while none is known."""
        ...

    def address(self, node_id: int) -> str | None:
        """Return a node's endpoint, None if the node is not known."""
        ...


class QuorumLeader(Protocol):
    """A Raft client, of which only the leader is asked for."""

    @property
    def leader_id(self) -> int: ...


class RaftControllerNodes:
    """The leader that the broker's own observer of the metadata log knows.

    ``voters`` maps node id to endpoint and changes with the metadata log (KIP-853).
    """

    def __init__(self, raft: QuorumLeader, voters: Mapping[int, str]) -> None:
        self.raft = raft
        self.voters = voters

    def active(self) -> int:
        """Return the leader of the quorum as the observer knows it, −1 for none."""
        return self.raft.leader_id

    def address(self, node_id: int) -> str | None:
        """Return a voter's endpoint."""
        return self.voters.get(node_id)


class ControllerLink:
    """Sends one request after the other to the active controller."""

    def __init__(
        self,
        process: Process,
        nodes: ControllerNodes,
        purpose: str,
        request_timeout_ms: int,
        retry_timeout_ms: int | None = None,
    ) -> None:
        self.process = process
        self.nodes = nodes
        self.lane = purpose
        self.retry_timeout_us = None if retry_timeout_ms is None else retry_timeout_ms * 1000
        self.queue: deque[tuple[Any, int, Done]] = deque()  # (request, when queued, done)
        self.in_flight = False
        self._timer = ("controller-link", purpose)
        self._lookup = ("controller-lookup", purpose)
        self._active = -1  # the node that this link takes for the active controller
        self._request_timeout_ms = request_timeout_ms
        self._channels: dict[int, Channel] = {}
        self._unlisted = False  # whether it has told of a leader without an endpoint

    def start(self, now: int) -> None:
        """Look for the active controller until one is known."""
        if not self._finds():
            self.process.timers.arm(self._lookup, now + LOOKUP_US, self.lane, self.start)

    def send(self, message: Any, now: int, done: Done) -> None:
        """Queue a request; ``done`` gets the response, or Failed on a retry timeout."""
        self.queue.append((message, now, done))
        self._pump(now)

    def _pump(self, now: int) -> None:
        timers = self.process.timers
        if self.in_flight or not self.queue or timers.armed(self._timer):
            return
        if not self._finds():
            timers.arm(self._timer, now + RETRY_US, self.lane, self._retry)
            return
        self.in_flight = True
        self._channels[self._active].send(self.queue[0][0], now, self._on_response)

    def _finds(self) -> bool:
        """Return whether a controller is known: the one before, or one that has an endpoint now."""
        if self._active == -1:
            node_id = self.nodes.active()
            address = self.nodes.address(node_id)
            if address is None:
                self._tell_unlisted(node_id)
                return False
            self._active = node_id
            if node_id not in self._channels:
                self._channels[node_id] = self._channel(address)
        return True

    def _tell_unlisted(self, node_id: int) -> None:
        """Tell of a leader of the quorum that is no voter any more, so it has no endpoint."""
        if node_id != -1 and not self._unlisted:
            self._unlisted = True
            self.process.out.append(HoleEntered("unlisted-leader"))

    def _channel(self, address: str) -> Channel:
        """Return a new channel to a controller."""
        return Channel(
            self.process,
            address,
            self.lane,
            self.lane,
            self._request_timeout_ms,
            patient=True,
            queued=True,
            reconnect_backoff_ms=SERVER_BACKOFF_MS,
        )

    def _on_response(self, response: Any, now: int) -> None:
        self.in_flight = False
        if isinstance(response, Failed) or _is_not_controller(response):
            self._active = -1
            self.process.timers.arm(self._timer, now + RETRY_US, self.lane, self._retry)
            return
        _, _, done = self.queue.popleft()
        done(response, now)
        self._pump(now)

    def _retry(self, now: int) -> None:
        timeout_us = self.retry_timeout_us
        while timeout_us is not None and self.queue and now - self.queue[0][1] >= timeout_us:
            _, _, done = self.queue.popleft()
            done(Failed("timeout"), now)
        self._pump(now)


def _is_not_controller(response: Any) -> bool:
    """Return whether a response says that another node is the controller.

    The Raft client says it in its own words. Of its responses only that to DescribeQuorum counts
    (RequestChannel.shouldReturnNotController); changes of voters go to the old leader again.
    """
    if isinstance(response, DescribeQuorumResponse):
        return response.error is Errors.NOT_LEADER_OR_FOLLOWER
    return Errors.NOT_CONTROLLER in errors_in(response)
