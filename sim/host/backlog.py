"""Inputs that become due while a process is paused, in the order in which they run later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.sim.kernel import Kernel
from kafkasim.sim.net.sockets import Packet

Due = tuple[int, float, int, Callable[[Any], None], Any]


class Backlog:
    """Postponed events by due time; ties by a draw, but what one connection brings in its order.

    ``draw`` is the host's random stream; it returns 0 <= x < 1.
    """

    __slots__ = ("_draw", "_entries", "_kernel")

    def __init__(self, kernel: Kernel, draw: Callable[[], float]) -> None:
        self._kernel = kernel
        self._draw = draw
        self._entries: list[Due] = []  # when, tie, index, callback, event

    def postpone(self, callback: Callable[[Any], None], event: Any) -> None:
        """Keep an event that falls due now, for ``callback(event)`` on resume."""
        now, entries = self._kernel._now, self._entries
        tie = None
        if type(event) is Packet:
            for at, earlier, _, _, other in reversed(entries):
                if at != now:
                    break
                if type(other) is Packet and other.socket is event.socket:
                    tie = earlier
                    break
        if tie is None:
            tie = self._draw()
        entries.append((now, tie, len(entries), callback, event))

    def add(self, at_us: int, callback: Callable[[Any], None], event: Any) -> None:
        """Add an event that fell due at a simulated time."""
        self._entries.append((at_us, self._draw(), len(self._entries), callback, event))

    def take(self) -> list[Due]:
        """Return what is to be handled, in order, and keep it no longer."""
        taken, self._entries = self._entries, []
        taken.sort(key=_rank)
        return taken

    def clear(self) -> None:
        """Drop everything: the process died."""
        self._entries.clear()


def _rank(entry: Due) -> tuple[int, float, int]:
    return entry[:3]
