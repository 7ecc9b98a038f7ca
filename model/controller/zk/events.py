"""One thread that works off events and blocks on ZooKeeper (ControllerEventManager).

Kafka's controller is a queue and one thread, whose calls to ZooKeeper block. An event is here a
generator: it yields requests, a tuple of operations, and is resumed with their results, and between
the two nothing else of its queue runs. So the order of Kafka's code is kept line by line; what a
crash drops is the generator, with the process. A :class:`Pause` yielded instead is a sleep.

Two queues run on this: the controller's, on lane ``zk-controller``, and that of the admin requests,
on lane ``zk-admin``, which in Kafka block the request handlers.
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
    """Let the thread sleep."""

    us: int


Steps = Generator["tuple[Op, ...] | Pause", Any, Any]
"""What an event does; ``yield from`` composes."""


class ControllerMoved(Exception):
    """Another controller has been elected: /controller_epoch is not ours any more."""


class SessionExpired(Exception):
    """The ZooKeeper session expired while an event was waiting."""


class ZkFailed(Exception):
    """ZooKeeper answered what nobody expected; the event ends."""


class StateChangeFailed(ZkFailed):
    """A partition is not in a state from which the change can be made."""


@value
class Event:
    """``run(now)`` makes the generator; ``preempt`` answers in its place when the queue goes."""

    name: str
    run: Callable[[int], Steps]
    preempt: Callable[[int], None] | None = None


class EventQueue:
    """The queue and its thread. ``on_moved`` makes what follows a :class:`ControllerMoved`."""

    def __init__(
        self,
        process: Process,
        zk: KafkaZkClient,
        lane: str,
        on_moved: Callable[[int], Steps] | None = None,
    ) -> None:
        self.process = process
        self.zk = zk
        self.lane = lane
        self.on_moved = on_moved
        self.queue: deque[Event] = deque()
        self.now = 0
        self.current: Event | None = None
        self._steps: Steps | None = None
        self._woken = False
        self._closed = False
        self._timer = ("events", lane)

    def put(self, event: Event) -> None:
        """Queue an event. Callable on any lane."""
        self.queue.append(event)
        self._wake()

    def clear_and_put(self, event: Event, now: int) -> None:
        """Drop what waits, answering it, and queue an event (clearAndPut)."""
        dropped, self.queue = self.queue, deque([event])
        for each in dropped:
            if each.preempt is not None:
                each.preempt(now)
        self._wake()

    def close(self) -> None:
        """The process stops: what waits is dropped, and what runs goes no further."""
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
            self._steps = self.current.run(now)
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
                self._steps = self.on_moved(self.now)
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
