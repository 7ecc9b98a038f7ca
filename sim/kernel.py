"""The event loop: simpy's environment with a faster loop for light events.

simpy schedules any object that has ``callbacks`` and ``_ok``. Our events are messages, inputs and
wake-ups. They are *light*: objects of few slots, one heap entry each, whose ``callbacks`` are a
shared tuple of one function. simpy's own events and generators run too, but nothing here needs
them: applications are the only sequential code, and have an event loop of their own
(:mod:`kafkasim.sim.apps.loop`).

``run_until`` does what simpy's ``run`` does (events at ``until`` are not run), without a method
call and a try block for each event. The end of a run is an event too, ahead of all others of its
instant, so that the loop looks at nothing but the heap.
"""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from typing import Any

import simpy


class DeferredCall:
    """An event that calls a function with arguments."""

    __slots__ = ("_args", "_function", "callbacks")

    _ok = True
    _CALLBACKS: tuple[Callable[[Any], None], ...] = ()

    def __init__(self, function: Callable[..., object], args: tuple[Any, ...]) -> None:
        self._function = function
        self._args = args
        self.callbacks: Any = DeferredCall._CALLBACKS

    def run(self) -> None:
        """Call the function."""
        self._function(*self._args)


DeferredCall._CALLBACKS = (DeferredCall.run,)


class _Stop:
    """The end of one :meth:`Kernel.run_until`; if that failed, a later call passes over it."""

    __slots__ = ()

    callbacks = None


class Kernel(simpy.Environment):
    """The environment of one world; time is an int of microseconds."""

    _now: int
    _queue: list[Any]

    def __init__(self) -> None:
        super().__init__(0)

    def push(self, at_us: int, event: Any) -> None:
        """Schedule an event at an absolute time, behind all that are already due then."""
        assert at_us >= self._now, (at_us, self._now)
        heappush(self._queue, (at_us, 1, next(self._eid), event))

    def at(self, at_us: int, function: Callable[..., object], *args: Any) -> None:
        """Call ``function(*args)`` at an absolute time, or now if that has passed."""
        self.push(max(at_us, self._now), DeferredCall(function, args))

    def run_until(self, until_us: int) -> None:
        """Run all events before ``until_us``, which is the time afterwards."""
        assert until_us >= self._now, (until_us, self._now)
        queue, stop = self._queue, _Stop()
        heappush(queue, (until_us, -1, next(self._eid), stop))
        while True:
            self._now, _, _, event = heappop(queue)
            callbacks = event.callbacks
            if type(callbacks) is tuple:
                callbacks[0](event)
            elif event is stop:
                return
            elif callbacks is not None:
                event.callbacks = None
                for callback in callbacks:
                    callback(event)
                if not event._ok and not hasattr(event, "_defused"):
                    raise event._value
