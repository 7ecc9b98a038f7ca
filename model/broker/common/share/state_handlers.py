"""One share partition's part of a request to the share coordinator.

Kafka: PersisterStateManagerHandler, its subclasses, and RequestCoalescerHelper.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.model.share.calls import KINDS
from kafkasim.model.share.records import SharePartitionKey

RETRIABLE = (
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
    Errors.NOT_COORDINATOR,
)
"""Errors after which the coordinator is looked up again."""


class StateHandler:
    """A share partition that waits for its coordinator or for the coordinator's answer."""

    __slots__ = ("asked", "attempts", "done", "key", "kind", "lookups")

    def __init__(
        self, kind: type, key: SharePartitionKey, asked: Any, done: Callable[[Any, int], None]
    ) -> None:
        self.kind = kind  # of request
        self.key = key
        self.asked = asked  # its part of the request
        self.done = done
        self.lookups = 0  # that failed since the coordinator was found last
        self.attempts = 0  # of the request

    def fail(self, error: Errors, now: int) -> None:
        """Give up."""
        self.done(KINDS[self.kind].result(self.key.partition, error), now)

    def result_in(self, response: Any) -> Any | None:
        """Return the share partition's result, the first if there are several; None: no result."""
        for topic_id, results in response.results:
            if topic_id == self.key.topic_id:
                for result in results:
                    if result.partition == self.key.partition:
                        return result
        return None


def coalesced(kind: type, group_id: str, handlers: list[StateHandler]) -> Any:
    """Return one request for all share partitions of a group."""
    by_topic: dict[str, list[Any]] = {}
    for handler in handlers:
        by_topic.setdefault(handler.key.topic_id, []).append(handler.asked)
    topics = tuple([(topic_id, tuple(asked)) for topic_id, asked in by_topic.items()])
    return kind(group_id, topics)
