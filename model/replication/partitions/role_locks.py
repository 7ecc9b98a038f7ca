"""RoleLocks: requests wait while a partition becomes leader (Partition.leaderIsrUpdateLock).

Kafka holds that lock while it fsyncs the entry of the new leader epoch, so no request can see the
leadership before. A handler of the model never waits. Instead the partition is *locked*: a request
for it is put aside and served, in an event of its own, once the partition is released. In both the
connection of the request is muted meanwhile. What a thread of the broker does waits in the same
way (:meth:`RoleLocks.defer`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from kafkasim.model.effects import Post, Request

if TYPE_CHECKING:
    from kafkasim.model.records import TopicPartition

REQUESTS = "requests"  # the lane of the request handlers


class RoleLocks:
    """The locked partitions of one broker and the requests that wait for them."""

    __slots__ = ("_out", "_serve", "_waiting", "held")

    def __init__(self, out: list[Any], serve: Callable[[Request, int], None]) -> None:
        self.held: dict[TopicPartition, object] = {}  # with the partition that holds the lock
        self._waiting: list[tuple[Callable[[Any, int], None], Any]] = []
        self._out = out
        self._serve = serve

    def acquire(self, tp: TopicPartition, holder: object) -> None:
        """Lock a partition; ``holder`` takes over a lock that is held already."""
        self.held[tp] = holder

    def release(self, tp: TopicPartition) -> None:
        """Unlock a partition if it is locked; go on with all that was put aside."""
        if self.held.pop(tp, None) is not None and self._waiting:
            waiting, self._waiting = self._waiting, []
            for serve, item in waiting:
                self._out.append(Post(REQUESTS, serve, item))

    def put_aside(self, item: Request, also: Iterable[TopicPartition] = ()) -> bool:
        """Put a request aside if it concerns a locked partition; return whether it was.

        ``also``: partitions that the request does not name, those of its fetch session. Callers ask
        only while :attr:`held` is not empty, since this is on the hot path.
        """
        return self.wait_for({part.tp for part in item.message.partitions} | set(also), item)

    def wait_for(self, asked: Iterable[TopicPartition], item: Request) -> bool:
        """Put a request aside if one of ``asked`` is locked; return whether it was."""
        asked = set(asked)
        if not any(tp in asked for tp in self.held):
            return False
        self._waiting.append((self._serve, item))
        return True

    def defer(self, tp: TopicPartition, action: Callable[[int], None]) -> bool:
        """Call ``action(now)`` once a partition is released; return False if it is not locked."""
        if tp not in self.held:
            return False
        self._waiting.append((_call, action))
        return True


def _call(action: Callable[[int], None], now: int) -> None:
    action(now)
