"""Requests that wait until the metadata cache shows what they wrote to ZooKeeper.

Models DelayedCreatePartitions (every new partition has a leader) and DelayedDeleteTopics (the
topics are gone) in ZkAdminManager's topicPurgatory. UpdateMetadata requests of the controller
change the cache.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafkasim.model.controller.common.image import MetadataImage
    from kafkasim.model.timers import Timers

LANE = "purgatory"
Done = Callable[[int], None]
"""Called once with the time in microseconds."""


class TopicPurgatory:
    """Holds requests until their topics are as wanted, or their timeout is over."""

    def __init__(self, timers: Timers, image: MetadataImage) -> None:
        self._timers = timers
        self._image = image
        self._waiting: dict[int, tuple[Callable[[], bool], Done]] = {}
        self._last = 0

    def leaderless(self, topic: str, partitions: int) -> bool:
        """Return whether one of a topic's first partitions is unknown or has no leader."""
        known = self._image.topic_by_name(topic)
        if known is None:
            return True
        entries = [known.partitions.get(number) for number in range(partitions)]
        return any(entry is None or entry.leader < 0 for entry in entries)

    def exists(self, topic: str) -> bool:
        """Return whether the metadata cache has a topic."""
        return topic in self._image.topic_names

    def wait(self, ready: Callable[[], bool], timeout_ms: int, done: Done, now: int) -> None:
        """Call ``done(now)`` when ``ready()``, at the latest after the timeout."""
        if timeout_ms <= 0 or ready():
            done(now)
            return
        self._last += 1
        number = self._last
        self._waiting[number] = (ready, done)
        key = ("topics", number)
        self._timers.arm(key, now + timeout_ms * 1000, LANE, lambda at: self._end(number, at))

    def try_complete(self, now: int) -> None:
        """End the requests that are ready: the metadata cache has changed."""
        for number in [number for number, (ready, _) in self._waiting.items() if ready()]:
            self._timers.cancel(("topics", number))
            self._end(number, now)

    def _end(self, number: int, now: int) -> None:
        _, done = self._waiting.pop(number)
        done(now)
