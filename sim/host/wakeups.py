"""Wake-ups of a process: its due timers, and the callbacks of its application.

A process has many timers, and an application may have some. The kernel's queue holds one event for
the earliest deadline. When an earlier deadline appears, another event is queued before it. The
later events stay in the queue, and are used once the earlier one has fired.
"""

from __future__ import annotations

from heapq import heappush
from typing import Any, Protocol

from kafkasim.model.effects import Reply
from kafkasim.sim.clock import HostClock
from kafkasim.sim.host.ports import ApplicationLoop
from kafkasim.sim.kernel import Kernel

FAR = 2**62


class Timers(Protocol):
    """The timers of a process (:class:`kafkasim.model.timers.Timers`)."""

    @property
    def heap(self) -> list[Any]:
        """Entries that begin with a deadline; the first is at most :meth:`next_deadline`."""
        ...

    def next_deadline(self) -> int | None:
        """Return the earliest deadline, None if there is none."""
        ...


class WakeUp:
    """The event of a deadline; ``deadline_us`` is host time, None once the event is void."""

    __slots__ = ("callbacks", "deadline_us")

    _ok = True

    def __init__(self, callbacks: Any, deadline_us: int) -> None:
        self.callbacks = callbacks
        self.deadline_us: int | None = deadline_us


class WakeUps:
    """The wake-ups and the application of one incarnation.

    ``armed_us`` is the earliest deadline with an event in the kernel's queue, ``app_ready`` whether
    the application was answered and has not run since.
    """

    __slots__ = (
        "_armed",
        "_callbacks",
        "_clock",
        "_heap",
        "_kernel",
        "_timers",
        "app",
        "app_ready",
        "app_running",
        "armed_us",
    )

    def __init__(self, kernel: Kernel, clock: HostClock, timers: Timers, callbacks: Any) -> None:
        self._kernel = kernel
        self._clock = clock
        self._timers = timers
        self._heap = timers.heap
        self._callbacks = callbacks  # of every event
        self._armed: list[WakeUp] = []  # on the kernel's queue, the earliest last
        self.armed_us = FAR
        self.app: ApplicationLoop | None = None
        self.app_ready = False
        self.app_running = False

    # ---------------------------------------------------------------------------- application

    def attach(self, app: ApplicationLoop) -> None:
        """Take an application, which is ready to run."""
        self.app = app
        self.app_ready = True

    def detach(self) -> ApplicationLoop | None:
        """Return the application and keep it no longer."""
        app, self.app = self.app, None
        self.app_ready = False
        return app

    def reply(self, reply: Reply) -> None:
        """Give the application the answer to a call."""
        if self.app is not None:
            self.app.on_reply(reply)
            self.app_ready = not self.app_running  # it takes the answer up in this very run

    def run_due_app(self, now: int) -> None:
        """Run the application if it was answered or a timer of it is due."""
        if self.app is not None:
            deadline = self.app.next_deadline()
            if self.app_ready or (deadline is not None and deadline <= now):
                self.run_app(now)

    def run_app(self, now: int) -> None:
        """Let the application run until it has nothing ready, however its calls are answered."""
        assert not self.app_running
        self.app_running = True
        self.app_ready = True
        while self.app_ready and self.app is not None:
            self.app_ready = False  # set again if another one was attached meanwhile
            self.app.run(now)
        self.app_running = False

    # ------------------------------------------------------------------------------- deadlines

    def arm(self) -> None:
        """Queue an event for the earliest deadline, unless one for then or before is queued."""
        heap = self._heap
        deadline = heap[0][0] if heap else None
        if deadline is not None and deadline < self.armed_us:
            deadline = self._timers.next_deadline()  # the heap's top may be stale
        if self.app is not None:
            wanted = self.app.next_deadline()
            if wanted is not None and (deadline is None or wanted < deadline):
                deadline = wanted
        if deadline is not None and deadline < self.armed_us:
            self.armed_us = deadline
            event = WakeUp(self._callbacks, deadline)
            self._armed.append(event)
            kernel = self._kernel
            at = self._clock.simulated(deadline, kernel._now)
            heappush(kernel._queue, (at, 1, next(kernel._eid), event))

    def rang(self, event: WakeUp) -> bool:
        """Void an event that rings now; return False if it was void already."""
        if event.deadline_us is None:
            return False  # forgotten, or another event of the same instant came first
        armed = self._armed
        while event.deadline_us is not None:
            armed.pop().deadline_us = None
        earliest = armed[-1].deadline_us if armed else FAR
        assert earliest is not None, armed
        self.armed_us = earliest
        return True

    def forget(self) -> None:
        """Void all events: the process died, or its clock has another rate now."""
        for event in self._armed:
            event.deadline_us = None
        self._armed.clear()
        self.armed_us = FAR
