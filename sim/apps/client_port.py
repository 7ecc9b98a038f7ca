"""Applications: ``async def`` functions on a client host that talk to its client process.

An application gets a :class:`ClientPort`. ``await port.call("producer.send", …)`` hands a ``Call``
to the client process on the same host and waits for its ``Reply``; what comes back later for the
same call (an acknowledgement) is a ``Reply`` under the negative number.

The host keeps one :class:`Applications` per incarnation and drives it: ``run`` and
``next_deadline`` (:class:`kafkasim.sim.apps.loop.HostLoop`'s), ``on_reply`` (:meth:`run` must follow, or is in
progress and takes the reply up), and :meth:`~Applications.discard` when it crashes. :func:`launch`
makes one for a host that runs.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, TypeAlias

from kafkasim.model.effects import Call, Reply
from kafkasim.sim.apps.loop import HostLoop, HostTask, new_loop

if TYPE_CHECKING:
    from kafkasim.sim.host.lifecycle import Host

Submit: TypeAlias = Callable[[Call], None]
Record: TypeAlias = Callable[[Any], None]
Application: TypeAlias = "Callable[[ClientPort], Coroutine[Any, Any, None]]"


class ClientPort:
    """What an application sees of its host: the client process, the clock, the trace."""

    __slots__ = ("_last_call", "_loop", "_pending", "_record", "_submit")

    def __init__(self, loop: HostLoop, submit: Submit, record: Record) -> None:
        self._loop = loop
        self._submit = submit
        self._record = record
        self._last_call = 0
        self._pending: dict[int, asyncio.Future[Any]] = {}

    @property
    def dead(self) -> bool:
        """Whether the host crashed; only a discarded application could see this as True."""
        return self._loop.dead

    @property
    def now_us(self) -> int:
        """The host's monotonic time in microseconds."""
        return self._loop.now

    def call(self, method: str, *args: Any) -> asyncio.Future[Any]:
        """Call a method of the client process; the future ends with its reply.

        An exception in the reply that nobody awaits is not an error.
        """
        number = self._last_call + 1
        self._last_call = number
        future: asyncio.Future[Any] = asyncio.Future(loop=self._loop)
        self._pending[number] = future
        if not self._loop.dead:
            self._submit(Call(number, method, args))
        return future

    def call_acked(
        self, method: str, *args: Any
    ) -> tuple[asyncio.Future[Any], asyncio.Future[Any]]:
        """Call a method that replies twice: once when taken, once when it is done.

        Returns the futures of both: of ``Reply(n)`` and of ``Reply(-n)``. An error in the first
        reply ends both.
        """
        taken = self.call(method, *args)
        done: asyncio.Future[Any] = asyncio.Future(loop=self._loop)
        self._pending[-self._last_call] = done
        return taken, done

    def post(self, method: str, *args: Any) -> None:
        """Call a method and do not wait; its replies are dropped."""
        self._last_call += 1
        if not self._loop.dead:
            self._submit(Call(self._last_call, method, args))

    def record(self, fact: Any) -> None:
        """Write a fact into the trace, as this host."""
        if not self._loop.dead:
            self._record(fact)

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
    """

    __slots__ = ("loop", "next_deadline", "on_reply", "port", "run")

    def __init__(self, name: str, submit: Submit, record: Record, now: int) -> None:
        self.loop = loop = new_loop(name, now)
        self.port = ClientPort(loop, submit, record)
        # What a host calls all the time: the loop's own methods, which saves a call each.
        self.run = loop.run
        self.next_deadline = loop.next_deadline
        self.on_reply = self.port._on_reply

    def start(self, application: Application, name: str | None = None) -> HostTask:
        """Start an application; it takes its first step in the next :meth:`run`."""
        return self.loop.spawn(application(self.port), name)

    def discard(self) -> None:
        """Drop all applications where they stand: the host crashed."""
        self.loop.discard()
        self.port._discard()

    def release(self) -> None:
        """Free what is left; call it once the trace is closed.

        Raises:
            BaseException: a task failed and nobody ever looked at it.
        """
        self.discard()
        self.port._pending.clear()
        self.loop.release()


def launch(host: Host, *applications: Application) -> Applications:
    """Start applications on a host whose process runs; they die with it.

    To have them after every restart, call it from ``host.on_start``.
    """
    assert host.process is not None, f"{host.name} has no process to call"
    node, kernel, trace = host.process.name, host.kernel, host.trace

    def record(fact: Any) -> None:
        trace.record(int(kernel.now), node, fact)

    apps = Applications(host.name, host.call, record, host.local_now())
    for application in applications:
        apps.start(application)
    host.attach(apps)
    return apps


def _resolve(future: asyncio.Future[Any], reply: Reply) -> None:
    if reply.error is None:
        future.set_result(reply.result)
    else:
        future.set_exception(reply.error)
        future.exception()  # seen: a client's error is a value, nobody has to await it


def _dropped(_: Any) -> None:
    """Take what a discarded application still says; nobody hears it."""
