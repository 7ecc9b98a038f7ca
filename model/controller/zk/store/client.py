"""A broker's requests to ZooKeeper, in batches that are retried until connected (KafkaZkClient).

Kafka's threads block here (retryRequestsUntilConnected); in the model the results are posted to the
caller's lane. A request whose connection was lost may have been executed. It is sent again all the
same, so a caller must recognise its own earlier write; see ``KafkaController._register`` and
``ControllerElection._take_epoch``. When the session expires, all waiting requests fail with
SESSIONEXPIRED.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from kafkasim.model.effects import Post
from kafkasim.model.zookeeper.client import SessionState, ZooKeeperClient
from kafkasim.model.zookeeper.ops import Op, WatchEvent, ZkError, ZkResult

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.rules import ZkControllerRules
    from kafkasim.model.effects import Process

LANE = "zookeeper"
Results = tuple[ZkResult, ...]


class ZkOwner(Protocol):
    """What the broker is told about its session, on lane ``zookeeper``."""

    def on_session(self, now: int) -> None:
        """A session began."""
        ...

    def on_expired(self, now: int) -> None:
        """The session expired; :meth:`KafkaZkClient.reinitialise` begins a new one."""
        ...

    def on_watch(self, event: WatchEvent, now: int) -> None:
        """A watch fired."""
        ...


class PendingRequests:
    """Requests whose results one caller gets together."""

    __slots__ = ("done", "lane", "missing", "ops", "results")

    def __init__(self, ops: tuple[Op, ...], lane: str, done: Callable[[Any, int], None]) -> None:
        self.ops = ops
        self.lane = lane
        self.done = done
        self.results: list[ZkResult | None] = [None] * len(ops)
        self.missing = 0


class KafkaZkClient:
    """The one ZooKeeper client of a broker.

    ``last_zxid`` is the newest transaction that a reply has named, −1 before the first.
    """

    def __init__(
        self,
        process: Process,
        addresses: tuple[str, ...],
        session_timeout_ms: int,
        rules: ZkControllerRules,
        owner: ZkOwner,
    ) -> None:
        self.process = process
        self.rules = rules
        self.owner = owner
        self.client = ZooKeeperClient(process, addresses, session_timeout_ms, self)
        self.last_zxid = -1
        self.closed = False
        self._session = 0  # the last session that began
        self._waiting: list[PendingRequests] = []

    @property
    def session_id(self) -> int:
        """The id of the session, 0 if there is none."""
        return self.client.session_id

    def start(self, now: int) -> None:
        """Open a session. On lane ``zookeeper``, like :meth:`close` and :meth:`reinitialise`."""
        self.client.start(now)

    def reinitialise(self, _: Any, now: int) -> None:
        """Begin a new session after the last one expired."""
        if not self.closed and self.client.state is SessionState.EXPIRED:
            self.client.reinitialise(now)

    def close(self, done: Callable[[int], None], now: int) -> None:
        """End the session and its ephemeral znodes; call ``done(now)`` when it has ended."""
        self.closed = True
        self.client.close(now, done)

    def ask(self, ops: tuple[Op, ...], lane: str, done: Callable[[Any, int], None]) -> None:
        """Send requests; call ``done(results, now)`` on ``lane``. Callable on any lane."""
        self.process.out.append(Post(LANE, self._begin, PendingRequests(ops, lane, done)))

    # ---------------------------------------------------------------------------- lane zookeeper

    def _begin(self, batch: PendingRequests, now: int) -> None:
        if not batch.ops:
            self.process.out.append(Post(batch.lane, batch.done, ()))
            return
        state = self.client.state
        if state is SessionState.CONNECTED:
            self._send(batch, now)
        elif state is SessionState.EXPIRED and not self.rules.requests_outlive_session():
            self._fail(batch)
        elif not self.closed:
            self._waiting.append(batch)

    def _send(self, batch: PendingRequests, now: int) -> None:
        wanted = [index for index, result in enumerate(batch.results) if result is None]
        batch.missing = len(wanted)
        for index in wanted:

            def answered(result: ZkResult, at: int, index: int = index) -> None:
                self._on_result(batch, index, result, at)

            self.client.request(batch.ops[index], answered, now)

    def _on_result(self, batch: PendingRequests, index: int, result: ZkResult, now: int) -> None:
        batch.missing -= 1
        error = result.error
        again = error is ZkError.CONNECTIONLOSS or (
            error is ZkError.SESSIONEXPIRED and self.rules.requests_outlive_session()
        )
        if not again:
            batch.results[index] = result
            self._note(result)
        if batch.missing:
            return
        if None in batch.results:
            self._begin(batch, now)
        else:
            self.process.out.append(Post(batch.lane, batch.done, tuple(batch.results)))

    def _note(self, result: ZkResult) -> None:
        zxid = result.zxid
        if result.stat is not None and result.stat.mzxid > zxid:
            zxid = result.stat.mzxid
        if zxid > self.last_zxid:
            self.last_zxid = zxid

    def _fail(self, batch: PendingRequests) -> None:
        expired = ZkResult(ZkError.SESSIONEXPIRED)
        results = tuple([expired if result is None else result for result in batch.results])
        self.process.out.append(Post(batch.lane, batch.done, results))

    def on_state(self, state: SessionState, now: int) -> None:
        """React to a new state of the session, which the client library reports."""
        if self.closed:
            return
        if state is SessionState.CONNECTED:
            if self.client.session_id != self._session:
                self._session = self.client.session_id
                self.owner.on_session(now)
            waiting, self._waiting = self._waiting, []
            for batch in waiting:
                self._begin(batch, now)
        elif state is SessionState.EXPIRED:
            if self.rules.requests_outlive_session():
                self.owner.on_expired(now)
                self.process.out.append(Post(LANE, self.reinitialise, None))
                return
            waiting, self._waiting = self._waiting, []
            for batch in waiting:
                self._fail(batch)
            self.owner.on_expired(now)

    def on_watch(self, event: WatchEvent, now: int) -> None:
        """Pass a watch event on to the broker."""
        if not self.closed:
            self.owner.on_watch(event, now)
