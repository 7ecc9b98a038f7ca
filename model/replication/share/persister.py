"""What the leader's side of share groups needs of the persister (server.share.persister.Persister).

The persister keeps the state of share partitions in ``__share_group_state`` by asking the share
coordinator. It knows one read and one write for one partition; the answers come later.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from kafkasim.model.errors import Errors
from kafkasim.model.messages.share import ReadStateResult, StateBatch, StatePartitionResult


class Persister(Protocol):
    """Reads and writes the state of share partitions; ``done(result, now)`` is called later."""

    def read_state(
        self,
        group_id: str,
        topic_id: str,
        partition: int,
        leader_epoch: int,
        done: Callable[[ReadStateResult, int], None],
    ) -> None: ...

    def write_state(
        self,
        group_id: str,
        topic_id: str,
        partition: int,
        state_epoch: int,
        leader_epoch: int,
        start_offset: int,
        batches: tuple[StateBatch, ...],
        done: Callable[[StatePartitionResult, int], None],
    ) -> None: ...


LOAD_ERRORS = (
    Errors.NOT_COORDINATOR,
    Errors.COORDINATOR_NOT_AVAILABLE,
    Errors.COORDINATOR_LOAD_IN_PROGRESS,
)
KEPT_ERRORS = (Errors.GROUP_ID_NOT_FOUND, Errors.UNKNOWN_TOPIC_OR_PARTITION)


def client_error(error: Errors) -> Errors:
    """Return what a client is told of a persister's error (fetchPersisterError)."""
    if error in LOAD_ERRORS:
        return Errors.COORDINATOR_NOT_AVAILABLE
    if error in KEPT_ERRORS:
        return error
    if error in (Errors.FENCED_LEADER_EPOCH, Errors.FENCED_STATE_EPOCH):
        return Errors.NOT_LEADER_OR_FOLLOWER
    return Errors.UNKNOWN_SERVER_ERROR
