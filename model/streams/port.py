"""What an instance of an application may cause: calls of its clients, sleeping, serialization.

A stream thread blocks often, so its code is written as coroutines that await these calls, in the
order of Kafka's code. Whoever runs them resumes a coroutine when its call has a result; a crash
drops them where they stand.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Protocol


class Promise(Protocol):
    """A result to come; awaiting it gives the result, or raises its exception."""

    def __await__(self) -> Any: ...

    def done(self) -> bool:
        """Return whether it has a result."""
        ...

    def exception(self) -> BaseException | None:
        """Return its exception, None if it has a result."""
        ...

    def result(self) -> Any:
        """Return the result, or raise the exception."""
        ...

    def set_result(self, result: Any) -> None:
        """Give it a result."""
        ...

    def add_done_callback(self, callback: Callable[[Any], object]) -> None:
        """Call ``callback(promise)`` when it has a result."""
        ...


class Port(Protocol):
    """The access of one incarnation of an instance to its process, clock and trace."""

    @property
    def now_us(self) -> int:
        """The host's monotonic time in microseconds."""
        ...

    @property
    def wall_us(self) -> int:
        """The host's wall clock in microseconds."""
        ...

    def call(self, method: str, *args: Any) -> Promise:
        """Call a method of the client process."""
        ...

    def call_acked(self, method: str, *args: Any) -> tuple[Promise, Promise]:
        """Call a method that replies twice: when the call is taken, and when it is done."""
        ...

    def record(self, fact: Any) -> None:
        """Write a fact into the trace."""
        ...

    def sleep(self, seconds: float) -> Awaitable[None]:
        """Sleep on the host's monotonic clock."""
        ...

    def promise(self) -> Promise:
        """Return a result that another coroutine will give."""
        ...

    def spawn(self, steps: Coroutine[Any, Any, None], name: str) -> None:
        """Start another thread of the instance."""
        ...


class Serdes(Protocol):
    """Serialization: what a record carries as its key and value, and what they were.

    A value rides on a record id, which is unique in a run; a key is a str or bytes.
    """

    def key_out(self, topic: str, key: Any) -> str | bytes | None:
        """Return a key as a record of a topic carries it."""
        ...

    def key_in(self, topic: str, key: Any) -> Any:
        """Return the key that a record of a topic carries."""
        ...

    def value_out(self, value: Any) -> tuple[int, int]:
        """Return (record id, bytes) of a value; −1 bytes for None, which deletes."""
        ...

    def value_in(self, record_id: int) -> Any:
        """Return the value of a record."""
        ...


class Client:
    """One client of the instance: ``client.call("poll", 100)``."""

    def __init__(self, port: Port, name: str) -> None:
        self._port = port
        self.name = name

    def call(self, method: str, *args: Any) -> Promise:
        """Call a method of the client."""
        return self._port.call(f"{self.name}.{method}", *args)

    def call_acked(self, method: str, *args: Any) -> tuple[Promise, Promise]:
        """Call a method that replies twice."""
        return self._port.call_acked(f"{self.name}.{method}", *args)


def wall_ms(port: Port) -> int:
    """Return the wall clock in milliseconds (Time.milliseconds)."""
    return port.wall_us // 1000
