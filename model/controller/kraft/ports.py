"""What a controller needs of the metadata quorum."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kafkasim.model.effects import Request


class Raft(Protocol):
    """What a controller needs of :class:`kafkasim.model.raft.client.RaftClient`."""

    is_leader: bool
    log_end_offset: int

    def start(self, now: int) -> None: ...
    def schedule_append(self, epoch: int, records: list[object], now: int) -> int | None: ...
    def create_snapshot(self, end_offset: int, epoch: int, values: list[Any], now: int) -> None: ...
    def shutdown(self, now: int, done: Callable[[int], None]) -> None: ...
    def on_request(self, item: Request, now: int) -> None: ...
