"""Applications: ``async def`` functions on a client host that talk to the client process there.

An application gets a :class:`ClientPort`. ``await port.call("producer.send", …)`` hands a ``Call``
to the client process on the same host and waits for its ``Reply``. A later answer to the same call
(an acknowledgement) is a ``Reply`` with the negative number of the call.

The host has one :class:`Applications` for each incarnation of its process. It calls ``run`` and
``next_deadline`` of the loop (:class:`kafkasim.sim.apps.loop.HostLoop`), ``on_reply`` (``run``
follows, or is in progress and takes the reply up), and ``discard`` when the process dies.
:func:`launch` makes one for a host whose process runs.
"""

from __future__ import annotations

import asyncio
import re
import sys
import traceback
from collections.abc import Callable, Coroutine
from signal import SIGTERM
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkasim.model.effects import Call, Reply
from kafkasim.model.facts import ApplicationFailed
from kafkasim.sim.apps.loop import HostLoop, HostTask, new_loop

if TYPE_CHECKING:
    from kafkasim.sim.host.lifecycle import Host

Submit: TypeAlias = Callable[[Call], None]
Record: TypeAlias = Callable[[Any], None]
Application: TypeAlias = "Callable[[ClientPort], Coroutine[Any, Any, None]]"


class ClientPort:
    """An application's access to its host: the client process, the clock, the trace."""

    __slots__ = (
        "_exit", "_handlers", "_last_call", "_loop", "_pending", "_record", "_submit",
        "_wall_offset", "stopping",
    )  # fmt: skip

    def __init__(
        self,
        loop: HostLoop,
        submit: Submit,
        record: Record,
        wall_offset: Callable[[], int],
        exit_process: Callable[[str], None],
    ) -> None:
        self.stopping = False  # whether the application has caught a request to stop
        self._handlers: dict[int, Callable[[], object]] = {}  # by the number of the signal
        self._loop = loop
        loop.port = self
        self._exit = exit_process
        self._wall_offset = wall_offset
        self._submit = submit
        self._record = record
        self._last_call = 0
        self._pending: dict[int, asyncio.Future[Any]] = {}

    @property
    def dead(self) -> bool:
        """Whether the process of the host died; no application that still runs sees True."""
        return self._loop.dead

    @property
    def now_us(self) -> int:
        """The host's monotonic time in microseconds."""
        return self._loop.now

    @property
    def wall_us(self) -> int:
        """The host's wall clock in microseconds since 1970; faults may step it."""
        return self._loop.now + self._wall_offset()

    def call(self, method: str, *args: Any) -> asyncio.Future[Any]:
        """Call a method of the client process; return the future of its reply.

        An exception in the reply does not fail the run if nobody awaits the future.
        """
        number = self._last_call + 1
        self._last_call = number
        future: asyncio.Future[Any] = asyncio.Future(loop=self._loop)
        self._pending[number] = future
        self._give(Call(number, method, args))
        return future

    def call_acked(
        self, method: str, *args: Any
    ) -> tuple[asyncio.Future[Any], asyncio.Future[Any]]:
        """Call a method that replies twice: when the call is taken, and when it is done.

        Returns the futures of ``Reply(n)`` and of ``Reply(-n)``. An error in the first reply ends
        both.
        """
        taken = self.call(method, *args)
        done: asyncio.Future[Any] = asyncio.Future(loop=self._loop)
        self._pending[-self._last_call] = done
        return taken, done

    def post(self, method: str, *args: Any) -> None:
        """Call a method and drop its replies."""
        self._last_call += 1
        self._give(Call(self._last_call, method, args))

    def record(self, fact: Any) -> None:
        """Write a fact into the trace, as this node.

        What a judge of the trace raises ends the run.
        """
        loop = self._loop
        if not loop.dead:
            try:
                self._record(fact)
            except BaseException as error:
                loop.bug = error
                raise

    def other_tasks(self) -> list[HostTask]:
        """Return the tasks of the host that are not done, but for the running one, by number."""
        running = asyncio.current_task()
        return [task for task in self._loop.tasks() if task is not running]

    def exit(self) -> None:
        """End the process: its application has returned; clients that it left open are cut."""
        if not self._loop.dead:
            self._exit("shutdown" if self.stopping else "application-returned")

    def catch_signal(self, number: int, handler: Callable[[], object] | None) -> None:
        """Have a signal call ``handler()`` in the loop; None: what it does by default.

        SIGTERM is what asks a process to stop. Without a handler its clients are closed, and it
        ends. No other signal is ever sent.
        """
        if number == SIGTERM and (handler is None) == (number in self._handlers):
            self._watch_stop(handler is not None)
        if handler is None:
            self._handlers.pop(number, None)
        else:
            self._handlers[number] = handler

    def _watch_stop(self, catch: bool) -> None:
        _, told = self.call_acked("catch_stop", catch)
        told.add_done_callback(self._on_stop)

    def _on_stop(self, _told: asyncio.Future[Any]) -> None:
        self.stopping = True
        self._watch_stop(True)
        self._handlers[SIGTERM]()

    def _give(self, call: Call) -> None:
        """Give a call to the client process, which handles it now.

        What the process itself raises is a bug of the model: it ends the run, whatever the
        application does about the exception.
        """
        loop = self._loop
        if not loop.dead:
            try:
                self._submit(call)
            except BaseException as error:
                loop.bug = error
                raise

    def _on_reply(self, reply: Reply) -> None:
        future = self._pending.pop(reply.call, None)
        if future is not None and not future.done():
            if reply.error is None:
                future.set_result(reply.result)
            else:
                _resolve(future, reply)
        if reply.error is not None and reply.call > 0:
            acked = self._pending.pop(-reply.call, None)
            if acked is not None and not acked.done():
                _resolve(acked, reply)

    def _discard(self) -> None:
        self._submit = _dropped
        self._record = _dropped


class Applications:
    """The applications of one incarnation of a host.

    Args:
        name: of the host.
        submit: takes each ``Call`` for the client process, in order.
        record: takes each fact for the trace.
        now: the host's monotonic time in µs.
        end: ends the process of the host when a main task has failed, which becomes a fact first.
            Without it ``run`` raises the exception.
        wall_offset: what the wall clock shows beyond the monotonic time, in µs.
        leave: ends the process of the host for a reason, when the application has returned.
    """

    __slots__ = ("_end", "_record", "loop", "next_deadline", "on_reply", "port", "run")

    def __init__(
        self,
        name: str,
        submit: Submit,
        record: Record,
        now: int,
        end: Callable[[], None] | None = None,
        wall_offset: Callable[[], int] = int,
        leave: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.loop = loop = new_loop(name, now)
        self._record = record
        self._end = end
        if end is not None:
            loop.on_failure = self._on_failure
        self.port = ClientPort(loop, submit, record, wall_offset, leave)
        # The host calls these all the time; the loop's own methods save a call each.
        self.run = loop.run
        self.next_deadline = loop.next_deadline
        self.on_reply = self.port._on_reply

    def start(self, application: Application, name: str | None = None) -> HostTask:
        """Start an application; its first step is taken in the next ``run``."""
        return self.loop.spawn(application(self.port), name)

    def failures(self) -> list[ApplicationFailed]:
        """Return the failures of tasks whose exception nobody has looked at, each only once.

        They are known when the applications end: until then somebody might await the task.
        """
        return [_failed(task, False, error) for task, error in self.loop.unseen()]

    def _on_failure(self, task: str, error: BaseException) -> None:
        assert self._end is not None
        self._record(_failed(task, True, error))
        self._end()

    def discard(self) -> None:
        """Drop all applications where they stand: the process died."""
        self.loop.discard()
        self.port._discard()

    def release(self) -> None:
        """Free all that is left; call it once the trace is closed.

        Raises:
            BaseException: a task failed and nobody ever looked at it.
        """
        self.discard()
        self.port._pending.clear()
        self.loop.release()


def launch(host: Host, *applications: Application) -> Applications:
    """Start applications on a host whose process runs; they die with the process.

    To start them again after every restart, call this from ``host.on_start``. One that raises ends
    its process, as Java ends one without other threads than daemons: no client is closed.
    """
    assert host.process is not None, f"{host.name} has no process to call"
    process, kernel, trace = host.process, host.kernel, host.trace
    node = process.name

    def record(fact: Any) -> None:
        trace.record(int(kernel.now), node, fact)

    def wall_offset() -> int:
        return process.clock_offset_us

    apps = Applications(
        host.name, host.call, record, host.local_now(), host.abort, wall_offset, host.leave
    )
    for application in applications:
        apps.start(application)
    host.attach(apps)
    return apps


def _resolve(future: asyncio.Future[Any], reply: Reply) -> None:
    if reply.error is None:
        future.set_result(reply.result)
    else:
        future.set_exception(reply.error)
        future.exception()  # marks it as seen: nobody has to await a client's error


def _failed(task: str, ended: bool, error: BaseException) -> ApplicationFailed:
    """Return the fact of a failure.

    It has the frames of the application and of what it calls, without Python's own library and
    without addresses: they differ between machines and versions of Python. The last frame is the
    last one of a user's own code, if there is any. The reason does not repeat the exception's name,
    with which the text of an aiokafka error begins. Of a group of exceptions it is each of them
    with its own place, as that of the group is only where it was gathered.
    """
    frames = []
    for frame, line in traceback.walk_tb(error.__traceback__):
        module = str(frame.f_globals.get("__name__", "?"))
        if module.partition(".")[0] not in sys.stdlib_module_names:
            frames.append(f"{module}:{line} in {frame.f_code.co_name}")
    own = [place for place, frame in enumerate(frames) if not frame.startswith("kafkasim.")]
    frames = frames[: own[-1] + 1] if own else frames
    name, text = type(error).__name__, str(error)
    if isinstance(error, BaseExceptionGroup):
        text = f"{error.message}: {'; '.join(_causes(task, error))}"
    text = "" if text == name else text.removeprefix(f"{name}: ")
    reason = re.sub(r" at 0x[0-9a-f]+", "", text)
    return ApplicationFailed(task, ended, name, reason, tuple(frames))


def _causes(task: str, group: BaseExceptionGroup[BaseException]) -> list[str]:
    """Return the exceptions of a group in words, those of groups inside it as well."""
    found = []
    for each in group.exceptions:
        if isinstance(each, BaseExceptionGroup):
            found += _causes(task, each)
            continue
        fact = _failed(task, False, each)
        place = f", at {fact.traceback[-1]}" if fact.traceback else ""
        found.append(f"{fact.exception}: {fact.reason}{place}")
    return found


def _dropped(_: Any) -> None:
    """Drop a call or a fact of a discarded application."""
