"""Threads that block, as generators: the old consumer is written with locks and blocking calls.

The old consumer has a watcher thread, ZkClient's event thread, an auto-commit thread, a leader
finder and a fetcher thread for each broker. Each is a generator here. It yields what it waits for
and is resumed with the outcome, so the order of Kafka's code is kept line by line:

- a ZooKeeper operation: resumed with its ZkResult, however often it had to be sent again;
- :class:`Ask`: resumed with the response of a broker, or with a Failed;
- :class:`Sleep`;
- :class:`Condition`: resumed after its next ``notify``; whoever waits checks again.

``yield from`` composes. All threads run on lane ``main``, since none of them keeps a processor.
A crash of the process drops them where they stand.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.values import value
from kafkasim.model.zookeeper.client import Callback
from kafkasim.model.zookeeper.ops import Op

if TYPE_CHECKING:
    from kafkasim.model.channel import Channel
    from kafkasim.model.effects import Process

LANE = "main"


@value
class Sleep:
    """Let the thread sleep for ``us`` microseconds."""

    us: int


@value
class Ask:
    """Send a request to a broker and wait for its response."""

    channel: Channel
    message: Any


Steps = Generator["Op | Ask | Sleep | Condition", Any, Any]
"""What a thread does, step by step."""

Ended = Callable[[Any, "KafkaError | None", int], None]
"""Called with (what the steps return, the exception that ended them or None, now)."""


class Threads:
    """The threads of one consumer; ``now`` is the time of the last step of any, in microseconds.

    ``request(op, callback, now)`` sends an operation to ZooKeeper until it is answered.
    """

    def __init__(
        self, process: Process, name: str, request: Callable[[Op, Callback, int], None]
    ) -> None:
        self.process = process
        self.name = name
        self.request = request
        self.now = 0
        self._started = 0

    def start(self, steps: Steps, now: int, ended: Ended | None = None) -> Thread:
        """Start a thread and run it up to its first wait.

        ``ended`` gets the outcome; without it an exception is dropped, as Kafka logs it.
        """
        self._started += 1
        thread = Thread(self, ("thread", self.name, self._started), steps, ended)
        thread.resume(now)
        return thread


class Thread:
    """One thread: runs its steps from wait to wait."""

    def __init__(
        self, threads: Threads, key: tuple[str, str, int], steps: Steps, ended: Ended | None
    ) -> None:
        self.key = key
        self._threads = threads
        self._steps: Steps | None = steps
        self._ended = ended

    def stop(self) -> None:
        """End the thread where it waits (interrupt): it is not resumed, ``ended`` is not called."""
        self._steps = None
        self._threads.process.timers.cancel(self.key)

    def resume(self, now: int) -> None:
        """Go on after a sleep or a condition."""
        self._advance(None, now)

    def _advance(self, outcome: Any, now: int) -> None:
        steps, threads = self._steps, self._threads
        if steps is None:
            return
        threads.now = now
        try:
            wanted = steps.send(outcome)
        except StopIteration as stop:
            self._end(stop.value, None, now)
            return
        except KafkaError as error:
            self._end(None, error, now)
            return
        if isinstance(wanted, Sleep):
            threads.process.timers.arm(self.key, now + wanted.us, LANE, self.resume)
        elif isinstance(wanted, Condition):
            wanted.wait(self)
        elif isinstance(wanted, Ask):
            wanted.channel.send(wanted.message, now, self._advance)
        else:
            threads.request(wanted, self._advance, now)

    def _end(self, result: Any, error: KafkaError | None, now: int) -> None:
        self._steps = None
        if self._ended is not None:
            self._ended(result, error, now)


class Condition:
    """Wakes the threads that wait for it (java.util.concurrent.locks.Condition)."""

    def __init__(self, process: Process) -> None:
        self._process = process
        self._waiting: list[Thread] = []

    def wait(self, thread: Thread) -> None:
        """Have a thread resumed at the next :meth:`notify`."""
        self._waiting.append(thread)

    def notify(self, now: int) -> None:
        """Resume all that wait, in the order in which they began to, after this handler."""
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            self._process.timers.arm(thread.key, now, LANE, thread.resume)


class Lock(Condition):
    """A lock that one thread holds at a time; the first that waits is the next to hold it."""

    def __init__(self, process: Process) -> None:
        super().__init__(process)
        self._held = False

    def acquire(self) -> Steps:
        """Wait until nobody holds the lock, and take it."""
        while self._held:
            yield self
        self._held = True

    def release(self, now: int) -> None:
        """Let the next one take the lock."""
        self._held = False
        self.notify(now)
