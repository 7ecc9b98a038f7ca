"""An asyncio event loop over a host's time, for applications written as ``async def``.

The loop has no selector and never waits. The host calls :meth:`HostLoop.run` with its monotonic
time; the loop runs all callbacks that are due until none is left, and
:meth:`HostLoop.next_deadline` says when to call again. ``sleep``, ``gather``, ``timeout``,
``Queue``, ``Event``, ``Lock`` and ``TaskGroup`` are asyncio's own. Threads, sockets, subprocesses,
executors and a real ``time.sleep`` are refused: the loop offers none, and an audit hook refuses the
calls that go past the loop (Python audits ``time.sleep`` since 3.13 and threads since 3.12; earlier
Pythons let those two pass).

Determinism: ready callbacks run in the order in which they became ready, timers by (deadline, order
of arming); tasks hash by their number, so that sets of tasks (``wait``, ``TaskGroup``) have one
order. Sets of plain futures or coroutines (``as_completed`` of coroutines) have none: use lists and
tasks. ``wait_for`` takes other steps in Python 3.11 than in later ones: use ``asyncio.timeout``.

A crash (:meth:`HostLoop.discard`) drops all coroutines where they stand. Python would run their
``finally`` blocks as soon as the last reference goes. The loop therefore keeps them until
:meth:`HostLoop.release`, after the run, when no effect of theirs can be seen any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import functools
import inspect
import sys
import warnings
from _thread import get_ident
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterator
from heapq import heappop, heappush
from typing import Any

from kafkasim.sim.apps.refusals import INSIDE, NotSimulated, install_audit_hook

STEPS_MAX = 1_000_000
"""Most callbacks in one :meth:`HostLoop.run`; an application with more never waits."""


CLOSES_MAX = 100
"""Most ``finally`` blocks that wait, one around the other, in a coroutine that is closed."""


class _Handle:
    """A callback to run: asyncio.Handle and TimerHandle without their cost."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context", "_when")

    def __init__(
        self,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> None:
        self._when = when
        self._callback = callback
        self._args = args
        self._context = contextvars.copy_context() if context is None else context
        self._cancelled = False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        return self._when


class HostTask(asyncio.Task[Any]):
    """A task whose hash is its number in the loop, not its address."""

    number = 0

    def __hash__(self) -> int:
        return self.number

    def __eq__(self, other: object) -> bool:
        return self is other


class HostLoop(asyncio.AbstractEventLoop):
    """The event loop of one incarnation of a client host.

    Args:
        name: of the host, for messages.
        now: the host's monotonic time in µs.
    """

    def __init__(self, name: str, now: int) -> None:
        self.name = name
        self.now = now
        self.dead = False
        self._running = False
        self._ready: deque[_Handle] = deque()
        self._timers: list[tuple[int, int, _Handle]] = []
        self._armed = 0
        self._tasks: dict[int, HostTask] = {}  # not finished, by number
        self._failed: list[HostTask] = []
        self._last_task = 0
        self._errors: list[BaseException] = []
        self.on_failure: Callable[[str, BaseException], None] | None = None  # task, error
        self.port: Any = None  # of the host's process, which signals go to
        self.bug: BaseException | None = None  # raised by the simulator inside a call
        # What asyncio asks for all the time is answered by C functions, without a frame of ours.
        self.create_future = functools.partial(asyncio.Future, loop=self)  # type: ignore[method-assign]
        install_audit_hook()

    # What the host calls.

    def run(self, now: int) -> None:
        """Run all callbacks that are ready or due at ``now``, and those they make ready.

        A main task or a callback that fails is given to ``on_failure``.

        Raises:
            BaseException: there is no ``on_failure``; or the simulator itself failed in a call.
        """
        if self.dead:
            return
        assert not self._running, f"{self.name}: the loop runs already"
        assert now >= self.now, (self.name, now, self.now)
        if not _closing_generators:
            with generator_hooks():
                self.run(now)
            return
        self.now = now
        outer = asyncio._get_running_loop()
        asyncio._set_running_loop(self)
        self._running = True
        INSIDE[0] = get_ident()
        ready, timers = self._ready, self._timers
        steps = 0
        try:
            while True:
                while timers and timers[0][0] <= now:
                    ready.append(heappop(timers)[2])
                if not ready:
                    break
                while ready:
                    handle = ready.popleft()
                    if not handle._cancelled:
                        handle._context.run(handle._callback, *handle._args)
                    steps += 1
                    if steps > STEPS_MAX:
                        raise RuntimeError(f"{self.name}: an application spins without waiting")
        except Exception as error:  # of a callback, or of the loop that spins
            self._errors.append(error)
        except SystemExit as error:  # it ends a real loop, too, and with it the process
            self._errors.insert(0, error)
        finally:
            INSIDE[0] = None
            self._running = False
            asyncio._set_running_loop(outer)
        if self.bug is not None:
            raise self.bug
        if self._errors:
            self._fail(self._raiser(self._errors[0]), self._errors[0])

    def next_deadline(self) -> int | None:
        """Return the host time at which :meth:`run` must be called again, None for never."""
        if self.dead:
            return None
        if self._ready:
            return self.now
        timers = self._timers
        while timers and timers[0][2]._cancelled:
            heappop(timers)
        return timers[0][0] if timers else None

    def spawn(self, coroutine: Coroutine[Any, Any, Any], name: str | None) -> HostTask:
        """Start a main task: its failure is given to ``on_failure``, or else raised by ``run``."""
        task = self.create_task(coroutine, name=name)
        task.add_done_callback(self._on_main_done)
        return task

    def discard(self) -> None:
        """Drop all tasks and timers, as the crash of the host does; no ``finally`` runs.

        A step that runs now (its call ended the process) goes on to its next ``await``; what it
        calls or records is dropped.
        """
        if self.dead:
            return
        self.dead = True
        self._ready.clear()
        self._timers.clear()
        _discarded.append(self)
        for task in self._tasks.values():
            task._log_destroy_pending = False  # type: ignore[attr-defined]

    def release(self) -> None:
        """Close the coroutines that :meth:`discard` kept, or that wait at the end of the run.

        This does run their ``finally`` blocks: call it when the trace is closed. A coroutine that
        goes on waiting in a ``finally`` is given up.

        Raises:
            BaseException: a task failed and nobody ever looked at it.
        """
        self.discard()
        if self in _discarded:
            _discarded.remove(self)
        failed = self.unseen()
        tasks, self._tasks = self._tasks, {}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)  # "was never awaited"
            for task in tasks.values():
                _close(task.get_coro())
        for _, error in failed:
            raise error

    # What asyncio calls.

    def time(self) -> float:
        """Return the host's monotonic time in seconds."""
        return self.now / 1_000_000

    get_debug = staticmethod(bool)  # False, to every future that is made

    def is_running(self) -> bool:
        return self._running

    def is_closed(self) -> bool:
        return self.dead

    def create_task(  # type: ignore[override]
        self,
        coro: Coroutine[Any, Any, Any],
        *,
        name: str | None = None,
        context: contextvars.Context | None = None,
        **options: Any,
    ) -> HostTask:
        number = self._last_task + 1
        self._last_task = HostTask.number = number  # the constructor registers it by its hash
        name = f"{self.name}-task-{number}" if name is None else name
        task = HostTask(coro, loop=self, name=name, context=context, **options)
        task.number = number
        HostTask.number = 0
        if not task.done():
            self._tasks[number] = task
            task.add_done_callback(self._on_done)
        return task

    def call_soon(  # type: ignore[override]
        self,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> _Handle:
        handle = _Handle(0.0, callback, args, context)
        if not self.dead:
            self._ready.append(handle)
        return handle

    def call_later(  # type: ignore[override]
        self,
        delay: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> _Handle:
        when_us = self.now + (round(delay * 1_000_000) if delay > 0 else 0)
        return self._arm(when_us, when_us / 1_000_000, callback, args, context)

    def call_at(  # type: ignore[override]
        self,
        when: float,
        callback: Callable[..., object],
        *args: Any,
        context: contextvars.Context | None = None,
    ) -> _Handle:
        return self._arm(round(when * 1_000_000), when, callback, args, context)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        """Take an exception that asyncio could only log for a failure: nothing is swallowed."""
        error = context.get("exception") or RuntimeError(f"{self.name}: {context['message']}")
        if not self.dead:
            self._errors.append(error)

    def add_signal_handler(  # type: ignore[override]
        self, sig: int, callback: Callable[..., object], *args: Any
    ) -> None:
        """Call a function when the process is sent a signal (ClientPort.catch_signal)."""
        self.port.catch_signal(sig, functools.partial(callback, *args))

    def remove_signal_handler(self, sig: int) -> bool:
        """Have a signal do what it does by default."""
        self.port.catch_signal(sig, None)
        return True

    # Inside.

    def _arm(
        self,
        when_us: int,
        when: float,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: contextvars.Context | None,
    ) -> _Handle:
        handle = _Handle(when, callback, args, context)
        if not self.dead:
            self._armed += 1
            heappush(self._timers, (when_us, self._armed, handle))
        return handle

    def _on_done(self, task: asyncio.Future[Any]) -> None:
        assert isinstance(task, HostTask), task
        del self._tasks[task.number]
        if not task.cancelled() and _unseen(task):
            self._failed.append(task)

    def _on_main_done(self, task: asyncio.Future[Any]) -> None:
        if not task.cancelled():
            error = task.exception()
            if error is not None and not self.dead:
                assert isinstance(task, HostTask), task
                self._fail(task.get_name(), error)

    def _raiser(self, error: BaseException) -> str:
        """Return the name of the task that an error has just ended; else it was a callback."""
        for task in self._tasks.values():
            if task.done() and not task.cancelled() and task.exception() is error:
                return task.get_name()
        return f"{self.name}-callback"

    def _fail(self, task: str, error: BaseException) -> None:
        """Give a failure to ``on_failure``; without one, ``run`` raises it."""
        if self.on_failure is None:
            if error not in self._errors:
                self._errors.append(error)
            if not self._running:
                raise error
        elif self.bug is None:
            try:
                self.on_failure(task, error)
            except BaseException as bug:
                self.bug = bug
                raise

    def tasks(self) -> list[HostTask]:
        """Return the tasks that are not done, in the order in which they were made."""
        return list(self._tasks.values())

    def unseen(self) -> list[tuple[str, BaseException]]:
        """Return the tasks that failed with nobody to look at the exception, each only once."""
        found = []
        for task in self._failed:
            error = None if task.cancelled() or not _unseen(task) else task.exception()
            if error is not None:
                found.append((task.get_name(), error))
        self._failed = []
        return found


@contextlib.contextmanager
def generator_hooks() -> Iterator[None]:
    """Close async generators that are dropped in the loop they ran in, as asyncio does.

    Python keeps one such hook for each thread, and setting it is slow: a world sets it once a run.
    """
    hooks = sys.get_asyncgen_hooks()
    sys.set_asyncgen_hooks(None, _finalize_generator)
    _closing_generators.append(True)
    try:
        yield
    finally:
        _closing_generators.pop()
        sys.set_asyncgen_hooks(*hooks)


def _finalize_generator(generator: AsyncGenerator[Any, Any]) -> None:
    loop = asyncio._get_running_loop()
    if isinstance(loop, HostLoop) and not loop.dead:
        loop.create_task(generator.aclose())


def _unseen(task: HostTask) -> bool:
    """Return whether a task failed and nobody has asked for its exception yet."""
    return bool(task._log_traceback)


def _close(coroutine: Any) -> None:
    """Close a coroutine, from the innermost one that it awaits outwards.

    A ``finally`` that waits makes the close fail, and would leave the inner ones to Python.
    """
    awaited = getattr(coroutine, "cr_await", None)
    if inspect.iscoroutine(awaited):
        _close(awaited)
    for _ in range(CLOSES_MAX):
        try:
            coroutine.close()
            return
        except BaseException:  # raised in a finally block of a host that died: nobody cares
            continue
    _stubborn.append(coroutine)  # collecting it would only report the same again


_discarded: list[HostLoop] = []  # whoever drops a loop does not thereby run its finally blocks
_stubborn: list[Any] = []


_closing_generators: list[bool] = []  # not empty within generator_hooks


def new_loop(name: str, now: int) -> HostLoop:
    """Return the loop of one incarnation; the methods it lacks raise NotSimulated."""
    return HostLoop(name, now)  # type: ignore[abstract]


def _refuse(name: str) -> Callable[..., Any]:
    def refused(*_: Any, **__: Any) -> Any:
        raise NotSimulated(f"loop.{name}(): the simulation has no threads, sockets or processes")

    refused.__name__ = name
    return refused


for _name in [
    name
    for name in dir(asyncio.AbstractEventLoop)
    if not name.startswith("__") and name not in vars(HostLoop)
]:
    setattr(HostLoop, _name, _refuse(_name))
