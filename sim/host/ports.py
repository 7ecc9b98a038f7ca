"""The Protocols that a host uses: the trace, and an application's event loop."""

from __future__ import annotations

from typing import Any, Protocol

from kafkasim.model.effects import Reply


class Recorder(Protocol):
    """The trace, as a host needs it."""

    def record(self, t_us: int, node: str, fact: Any) -> None:
        """Append a fact of a node at a simulated time."""
        ...


class ApplicationLoop(Protocol):
    """The event loop of a host's applications (:mod:`kafkasim.sim.apps.client_port`)."""

    def on_reply(self, reply: Reply) -> None:
        """Note the answer to a call; :meth:`run` follows, or takes it up if it is in progress."""
        ...

    def run(self, now: int) -> None:
        """Run all callbacks that are ready or due at host time ``now``."""
        ...

    def next_deadline(self) -> int | None:
        """Return the host time of the earliest timer, None if there is none."""
        ...

    def failures(self) -> list[Any]:
        """Return the facts of tasks that failed without anybody looking at it, each once."""
        ...

    def discard(self) -> None:
        """Drop all tasks without running their ``finally``: the host died."""
        ...
