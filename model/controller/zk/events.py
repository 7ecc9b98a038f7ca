"""The queue of one thread that handles events and blocks on ZooKeeper (ControllerEventManager).

Kafka's controller is a queue and one thread, whose calls to ZooKeeper block. Here an event is a
generator. It yields a tuple of ZooKeeper operations and is resumed with their results; until then
nothing else of its queue runs. So the order of Kafka's code is kept line by line. A crash of the
process drops the generator. An event that yields a :class:`Pause` sleeps.

Two queues use this class: that of the controller on lane ``zk-controller``, and that of the
operators' requests on lane ``zk-admin``, which block a request handler in Kafka.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import Post
from kafkasim.model.values import value
from kafkasim.model.zookeeper.ops import Op, ZkError

if TYPE_CHECKING:
    from kafkasim.model.controller.zk.store.client import KafkaZkClient, Results
    from kafkasim.model.effects import Process


@value
class Pause:
    """Let the thread sleep for ``us`` microseconds."""

    us: int


Steps = Generator["tuple[Op, ...] | Pause", Any, Any]
"""What an event does, step by step; ``yield from`` composes."""


class ControllerMoved(Exception):
    """Another controller was elected: /controller_epoch no longer has the version we wrote."""


class SessionExpired(Exception):
    """The ZooKeeper session expired while an event waited for ZooKeeper."""


class ZkFailed(Exception):
    """ZooKeeper returned an unexpected error; the event ends."""


class StateChangeFailed(ZkFailed):
    """A partition is not in a state from which the change can be made."""


@value
class Event:
    """``make()`` returns the steps; ``preempt(now)`` runs instead if the event is dropped."""

    name: str
    make: Callable[[], Steps]
    preempt: Callable[[int], None] | None = None


class EventQueue:
    """The queue and its thread.

    ``now`` is the time of the thread's last step and ``began`` that of the current event's first
    one, in microseconds.
    ``on_moved`` returns the steps that follow a :class:`ControllerMoved`.
    """

    def __init__(
        self,
        process: Process,
        zk: KafkaZkClient,
        lane: str,
        on_moved: Callable[[], Steps] | None = None,
    ) -> None:
        self.process = process
        self.zk = zk
        self.lane = lane
        self.on_moved = on_moved
        self.queue: deque[Event] = deque()
        self.now = 0
        self.began = 0
        self.current: Event | None = None
        self._steps: Steps | None = None
        self._woken = False
        self._closed = False
        self._timer = ("events", lane)

    def put(
        self, name: str, make: Callable[[], Steps], preempt: Callable[[int], None] | None = None
    ) -> None:
        """Queue an event. Callable on any lane."""
        self.queue.append(Event(name, make, preempt))
        self._wake()

    def clear_and_put(self, name: str, make: Callable[[], Steps], now: int) -> None:
        """Drop the events that wait, run their ``preempt``, and queue an event (clearAndPut)."""
        dropped, self.queue = self.queue, deque([Event(name, make)])
        for each in dropped:
            if each.preempt is not None:
                each.preempt(now)
        self._wake()

    def close(self) -> None:
        """Drop the events that wait and stop the one that runs: the process stops."""
        self._closed = True
        self.queue.clear()
        steps, self._steps = self._steps, None
        if steps is not None:
            steps.close()

    def _wake(self) -> None:
        if self._steps is None and not self._woken and not self._closed:
            self._woken = True
            self.process.out.append(Post(self.lane, self._run, None))

    def _run(self, _: Any, now: int) -> None:
        self._woken = False
        self.now = now
        while self._steps is None and self.queue:
            self.current = self.queue.popleft()
            self.began = self.now
            self._steps = self.current.make()
            self._advance(None)

    def _resume(self, results: Results, now: int) -> None:
        if self._closed:
            return
        self.now = now
        if any(result.error is ZkError.SESSIONEXPIRED for result in results):
            self._advance(None, SessionExpired())
        else:
            self._advance(results)
        if self._steps is None:
            self._run(None, now)

    def _slept(self, now: int) -> None:
        self._resume((), now)

    def _advance(self, results: Results | None, failure: Exception | None = None) -> None:
        """Run the current event up to its next request, or to its end."""
        steps = self._steps
        assert steps is not None
        try:
            asked = steps.send(results) if failure is None else steps.throw(failure)
        except ControllerMoved:
            self._steps = None
            if self.on_moved is not None:
                self.began = self.now
                self._steps = self.on_moved()
                self._advance(None)
            return
        except (StopIteration, SessionExpired, ZkFailed):
            self._steps = None
            return
        if isinstance(asked, Pause):
            timers = self.process.timers
            timers.arm(self._timer, self.now + asked.us, self.lane, self._slept)
        else:
            self.zk.ask(asked, self.lane, self._resume)
