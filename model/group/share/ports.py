"""What share groups need of their broker: the persister (Persister)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

Done = Callable[[Any, int], None]
"""(result, now): a share partition's result, with its error. Callable on any lane."""


class Persister(Protocol):
    """Asks the share coordinators, as far as the group coordinator does."""

    def initialize_state(
        self,
        group_id: str,
        topic_id: str,
        partition: int,
        state_epoch: int,
        start_offset: int,
        done: Done,
    ) -> None:
        """Have a share partition begin."""
        ...

    def delete_state(self, group_id: str, topic_id: str, partition: int, done: Done) -> None:
        """Have a share partition forgotten."""
        ...

    def read_summary(
        self, group_id: str, topic_id: str, partition: int, leader_epoch: int, done: Done
    ) -> None:
        """Read where a share partition starts."""
        ...


Partition = tuple[str, int]
"""Topic id and number."""

AllDone = Callable[[dict[Partition, Any], int], None]
"""(results by partition, now)."""


class Gathering:
    """Waits for the results of several share partitions, then calls ``done(results, now)``."""

    def __init__(self, partitions: list[Partition], done: AllDone) -> None:
        self._results: dict[Partition, Any] = dict.fromkeys(partitions)
        self._missing = len(self._results)
        self._done = done

    def taker(self, topic_id: str, number: int) -> Done:
        """Return what takes the result of one partition."""

        def take(result: Any, now: int) -> None:
            self._results[topic_id, number] = result
            self._missing -= 1
            if not self._missing:
                self._done(self._results, now)

        return take
