"""What a controller and the metadata quorum need of each other, and the rules of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

from kafkasim.model.controller.common.acls import AuthorizerRules
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.effects import Request
from kafkasim.model.raft.rules import RaftRules
from kafkasim.model.records import RecordBatch
from kafkasim.model.storage.rules import StorageRules


class PartRules(Protocol):
    """The rules of a controller's parts."""

    @property
    def authorizer(self) -> AuthorizerRules: ...
    @property
    def controller(self) -> ControllerRules: ...
    @property
    def raft(self) -> RaftRules: ...
    @property
    def storage(self) -> StorageRules: ...


class Raft(Protocol):
    """What a controller needs of :class:`kafkasim.model.raft.client.RaftClient`."""

    @property
    def is_leader(self) -> bool: ...
    @property
    def log_end_offset(self) -> int: ...
    @property
    def cause(self) -> str: ...

    def kraft_version(self) -> int: ...
    def start(self, now: int) -> None: ...
    def schedule_append(self, epoch: int, records: list[object], now: int) -> int | None: ...
    def create_snapshot(self, end_offset: int, epoch: int, values: list[Any], now: int) -> None: ...
    def shutdown(self, now: int, done: Callable[[int], None]) -> None: ...
    def on_request(self, item: Request, now: int) -> None: ...


class MetadataListener(Protocol):
    """What the Raft client tells the owner of a replicated image, on lane ``raft``."""

    def on_leader_change(self, leader_id: int, epoch: int, now: int) -> None: ...
    def on_commit(
        self, batches: tuple[RecordBatch, ...], high_watermark: int, now: int
    ) -> None: ...
    def on_snapshot(self, end_offset: int, epoch: int, values: list[Any], now: int) -> None: ...


class Listeners:
    """Tells several listeners what the Raft client tells one, in the order in which they were added
    (KafkaRaftClient.register)."""

    def __init__(self, first: MetadataListener) -> None:
        self.all = [first]

    def add(self, listener: MetadataListener) -> None:
        """Tell another listener everything from now on."""
        self.all.append(listener)

    def on_leader_change(self, leader_id: int, epoch: int, now: int) -> None:
        """Tell that a leader is known, or −1 that none is."""
        for listener in self.all:
            listener.on_leader_change(leader_id, epoch, now)

    def on_commit(self, batches: tuple[RecordBatch, ...], high_watermark: int, now: int) -> None:
        """Tell that batches are committed."""
        for listener in self.all:
            listener.on_commit(batches, high_watermark, now)

    def on_snapshot(self, end_offset: int, epoch: int, values: list[Any], now: int) -> None:
        """Hand over a snapshot that replaces all metadata below ``end_offset``."""
        for listener in self.all:
            listener.on_snapshot(end_offset, epoch, values, now)
