"""A lane: the threads of a process that do one kind of work, as the host sees them.

A lane has a number of threads and a queue of inputs that wait for a thread. An input that takes no
time runs at once while a thread is free. A request takes a thread for its service time. A barrier
or a slow disk holds its thread. While a thread is free the queue is empty.

Page-cache writes that are too short for an event of their own are a debt. The next item is delayed
by it, if it comes before ``busy_until_us`` and no other thread is free.

The lanes of a pool, such as ``group/0`` and ``group/1``, share its threads. Each is served by one
thread at a time. A thread that is done takes the first item of a lane that is drawn from those that
wait, which may be the lane that it has just served (Kafka: EventAccumulator). A request for such a
lane is handed on by a thread of the lane in ``front``, the request handlers: while all of them are
busy it waits in their queue.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any


class Lane:
    """One lane of one incarnation of a process."""

    __slots__ = (
        "blocked", "busy_until_us", "debt_us", "free", "front", "name", "others", "put",
        "put_first", "queue", "threads",
    )  # fmt: skip

    def __init__(self, name: str, threads: int) -> None:
        assert threads > 0, (name, threads)
        self.name = name
        self.threads = threads
        self.free = threads  # 0 <= free <= threads
        self.queue: deque[Any] = deque()
        self.put: Callable[[Any], None] = self.queue.append  # an item that finds no free thread
        self.put_first: Callable[[Any], None] = self.queue.appendleft
        self.others: list[Lane] = NO_OTHERS  # what else waits for the thread that serves this lane
        self.front: Lane = self  # the lane whose queue takes its requests, by whose threads
        self.blocked: deque[Any] = deque()  # processors that wait because the queue is full
        self.busy_until_us = 0
        self.debt_us = 0

    def next_lane(self) -> Lane | None:
        """Return the lane that a thread of this one serves next, None if nothing waits for it."""
        return self if self.queue else None

    def discard(self) -> None:
        """Drop all that waits."""
        self.queue.clear()
        self.blocked.clear()

    def add_debt(self, cost_us: int, now_us: int) -> int:
        """Take time of a thread from now on; return how long after now it is done."""
        if self.busy_until_us < now_us:
            self.busy_until_us = now_us
            self.debt_us = 0
        self.debt_us += cost_us
        if self.threads == 1:
            self.busy_until_us += cost_us
            return self.busy_until_us - now_us
        self.busy_until_us = max(self.busy_until_us, now_us + cost_us)
        return cost_us

    def take_debt(self, now_us: int) -> int:
        """Return how much longer the item that begins now takes."""
        debt = self.busy_until_us - now_us if self.threads == 1 else self.debt_us
        self.debt_us = 0
        self.busy_until_us = 0
        return debt


NO_OTHERS: list[Lane] = []
"""The others of every lane that has threads of its own."""


class Pool:
    """Threads that several lanes share.

    ``draw`` returns 0 <= x < 1; it chooses among several lanes that wait.
    """

    __slots__ = ("draw", "free", "waiting")

    def __init__(self, threads: int, draw: Callable[[], float]) -> None:
        assert threads > 0, threads
        self.draw = draw
        self.free = threads
        # Idle lanes whose queue is not empty (EventAccumulator.availableKeys). While a thread is
        # free there are none.
        self.waiting: list[Lane] = []

    def take(self) -> Lane | None:
        """Remove a lane from those that wait and return it (EventAccumulator.randomKey)."""
        waiting = self.waiting
        if len(waiting) > 1:
            index = int(self.draw() * len(waiting))
            waiting[index], waiting[-1] = waiting[-1], waiting[index]
        return waiting.pop() if waiting else None


class PooledLane(Lane):
    """A lane of a pool: it has a thread while it is served, and none of its own."""

    __slots__ = ("_busy", "_pool")

    def __init__(self, name: str, pool: Pool, front: Lane) -> None:
        self._pool = pool
        # How many threads serve it. That is one at most, but while the effects of an input that
        # took no time are performed: a connection that is read then may bring the next one.
        self._busy = 1
        pool.free -= 1
        super().__init__(name, 1)  # which frees the thread
        self.front = front
        self.put = self._put
        self.put_first = self._put_first
        self.others = pool.waiting

    @property
    def free(self) -> int:
        """How many threads can serve this lane now: one, or none."""
        return 0 if self._busy or self._pool.free <= 0 else 1

    @free.setter
    def free(self, free: int) -> None:
        more = 1 if free > self.free else -1  # a thread is given back or taken
        self._busy -= more
        self._pool.free += more

    def next_lane(self) -> Lane | None:
        """Return a lane of the pool that waits; this one, which is no longer served, may be it."""
        pool = self._pool
        if self.queue and not self._busy:
            pool.waiting.append(self)
        return pool.take() if pool.free > 0 else None

    def _put(self, item: Any) -> None:
        self._wait()
        self.queue.append(item)

    def _put_first(self, item: Any) -> None:
        self._wait()
        self.queue.appendleft(item)

    def _wait(self) -> None:
        if not self._busy and not self.queue:
            self._pool.waiting.append(self)


class LaneTable:
    """The lanes of one incarnation of a process, made when they are asked for.

    ``threads`` are those of lanes and pools that have more than one; ``handlers`` is the lane whose
    threads hand requests on to pools; ``pool_draws`` returns the random stream of a pool.
    """

    __slots__ = ("_handlers", "_pool_draws", "_pools", "_threads", "by_name")

    def __init__(
        self,
        threads: dict[str, int],
        handlers: str,
        pool_draws: Callable[[str], Callable[[], float]],
    ) -> None:
        self._handlers = handlers
        self.by_name: dict[str, Lane] = {}
        self._threads = threads
        self._pools: dict[str, Pool] = {}
        self._pool_draws = pool_draws

    def lane(self, name: str) -> Lane:
        """Return a lane by name."""
        lane = self.by_name.get(name)
        if lane is None:
            lane = self.by_name[name] = self._new_lane(name)
        return lane

    def _new_lane(self, name: str) -> Lane:
        pool_name, is_pooled, _ = name.partition("/")
        threads = self._threads.get(pool_name, 1)
        if not is_pooled:
            return Lane(name, threads)
        pool = self._pools.get(pool_name)
        if pool is None:
            pool = self._pools[pool_name] = Pool(threads, self._pool_draws(pool_name))
        return PooledLane(name, pool, self.lane(self._handlers))

    def discard(self) -> None:
        """Drop all that waits: the process died."""
        for lane in self.by_name.values():
            lane.discard()


class LaneInput:
    """An input for a lane, and the event of its arrival if it takes time to get there."""

    __slots__ = ("callbacks", "item", "lane")

    _ok = True

    def __init__(self, callbacks: Any, lane: Lane, item: Any) -> None:
        self.callbacks = callbacks
        self.lane = lane
        self.item = item
