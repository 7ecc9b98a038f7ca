"""ZkClient, the library through which the old consumer uses ZooKeeper (org.I0Itec.zkclient).

A call blocks until it is answered (retryUntilConnected). An operation that fails with
CONNECTIONLOSS or SESSIONEXPIRED waits for the next connection and is sent again there, although
ZooKeeper may have executed it, and although the session may be another one by then. Callers
recognise their own earlier writes. So a write that a consumer began before its session expired
takes effect afterwards: nothing fences it.

A listener of a path outlives the events and the sessions. Reads of a path with a listener leave a
watch. One thread, the event thread, runs the listeners, one after the other. When the session has
expired, a new one is opened at once; the listener of sessions is told, and then all the others,
because the watches went with the session (fireNewSessionEvents, fireAllEvents).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.client.legacy.threads import LANE, Condition, Steps, Threads
from kafkasim.model.zookeeper.client import Callback, SessionState, ZooKeeperClient
from kafkasim.model.zookeeper.ops import (
    NODE_CHILDREN_CHANGED,
    NODE_CREATED,
    NODE_DATA_CHANGED,
    NODE_DELETED,
    Exists,
    GetChildren,
    GetData,
    Op,
    WatchEvent,
    ZkError,
    ZkResult,
)

if TYPE_CHECKING:
    from kafkasim.model.effects import Process

AGAIN = (ZkError.CONNECTIONLOSS, ZkError.SESSIONEXPIRED)
OF_CHILDREN = (NODE_CHILDREN_CHANGED, NODE_CREATED, NODE_DELETED)
OF_DATA = (NODE_DATA_CHANGED, NODE_CREATED, NODE_DELETED)

Listener = Callable[[], Steps]
"""What the event thread does at an event."""


class ZkClient:
    """One session after another, for the threads of one consumer.

    ``on_new_session`` are the steps that the event thread takes when a session has replaced an
    expired one (IZkStateListener.handleNewSession).
    """

    def __init__(
        self,
        process: Process,
        name: str,
        servers: tuple[str, ...],
        session_timeout_ms: int,
        on_new_session: Listener,
    ) -> None:
        self.threads = Threads(process, name, self.request)
        self._on_new_session = on_new_session
        self._client = ZooKeeperClient(process, servers, session_timeout_ms, self, LANE)
        self._waiting: deque[tuple[Op, Callback]] = deque()  # until there is a connection
        self._children: dict[str, Listener] = {}
        self._data: dict[str, Listener] = {}
        self._events: deque[Steps] = deque()
        self._event = Condition(process)
        self.connection = Condition(process)  # notified whenever there is a connection
        self._closed = False

    @property
    def connected(self) -> bool:
        """Whether the session has a connection now."""
        return self._client.state is SessionState.CONNECTED

    @property
    def session_id(self) -> int:
        """The id of the session, 0 before there is one."""
        return self._client.session_id

    def start(self, now: int) -> None:
        """Open the first session and start the event thread."""
        self._client.start(now)
        self.threads.start(self._run_events(), now)

    def close(self, now: int, done: Callable[[int], None]) -> None:
        """End the session, its ephemeral znodes and all calls that wait."""
        self._closed = True
        self._waiting.clear()
        self._client.close(now, done)

    def request(self, op: Op, callback: Callback, now: int) -> None:
        """Send an operation until it is answered (retryUntilConnected)."""
        if self._closed:
            return
        if not self.connected:
            self._waiting.append((op, callback))
            return

        def answered(result: ZkResult, at: int) -> None:
            if result.error in AGAIN:
                self.request(op, callback, at)
            elif not self._closed:
                callback(result, at)

        self._client.request(op, answered, now)

    # Reads and listeners.

    def children(self, path: str) -> Steps:
        """Return the ZkResult of a znode's children; watch them if the path has a listener."""
        return (yield GetChildren(path, path in self._children))

    def data(self, path: str) -> Steps:
        """Return the ZkResult of a znode's data; watch it if the path has a listener."""
        return (yield GetData(path, path in self._data))

    def subscribe_children(self, path: str, listener: Listener) -> Steps:
        """Run a listener whenever a znode comes, goes, or has other children."""
        if path not in self._children:
            self._children[path] = listener
            yield from self._watch_children(path)

    def subscribe_data(self, path: str, listener: Listener) -> Steps:
        """Run a listener whenever the data of a znode change."""
        if path not in self._data:
            self._data[path] = listener
            yield Exists(path, watch=True)

    def _watch_children(self, path: str) -> Steps:
        yield Exists(path, watch=True)
        yield from self.children(path)

    # The event thread.

    def on_watch(self, event: WatchEvent, now: int) -> None:
        """Queue the listeners of an event (processDataOrChildChange)."""
        if event.type in OF_CHILDREN and event.path in self._children:
            self._queue(self._children_changed(event.path), now)
        if event.type in OF_DATA and event.path in self._data:
            self._queue(self._data_changed(event.path), now)

    def on_state(self, state: SessionState, now: int) -> None:
        """Send what has waited; or open a new session, and queue all listeners."""
        if state is SessionState.CONNECTED:
            self.connection.notify(now)
            waiting, self._waiting = self._waiting, deque()
            for op, callback in waiting:
                self.request(op, callback, now)
        elif state is SessionState.EXPIRED:
            self._client.reinitialise(now)
            self._queue(self._on_new_session(), now)
            for path in self._children:
                self._queue(self._children_changed(path), now)
            for path in self._data:
                self._queue(self._data_changed(path), now)

    def _queue(self, steps: Steps, now: int) -> None:
        self._events.append(steps)
        self._event.notify(now)

    def _children_changed(self, path: str) -> Steps:
        """Watch again before the listener runs, so that no change goes unseen."""
        yield from self._watch_children(path)
        yield from self._children[path]()

    def _data_changed(self, path: str) -> Steps:
        yield Exists(path, watch=True)
        found = yield from self.data(path)
        if found.error is ZkError.OK:  # else handleDataDeleted, which only logs
            yield from self._data[path]()

    def _run_events(self) -> Steps:
        """Take the events one by one (ZkEventThread)."""
        while True:
            while not self._events:
                yield self._event
            steps = self._events.popleft()
            yield from logged(steps)


def logged(steps: Steps) -> Steps:
    """Run steps; an exception of theirs ends them and nothing else, as Kafka logs it."""
    try:
        yield from steps
    except KafkaError:
        return
