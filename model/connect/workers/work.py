"""What a Connect cluster has to run, and who runs what (ConnectProtocol)."""

from __future__ import annotations

from typing import NamedTuple

from kafkasim.model.values import value

CONNECTOR = -1
"""The task number of a connector itself."""

NO_ERROR, CONFIG_MISMATCH = 0, 1
"""The errors of an assignment (ConnectProtocol.Assignment)."""


class Work(NamedTuple):
    """A connector, or one of its tasks (ConnectorTaskId)."""

    connector: str
    task: int = CONNECTOR

    def __str__(self) -> str:
        return self.connector if self.task == CONNECTOR else f"{self.connector}-{self.task}"


@value
class WorkerState:
    """What a worker says of itself when it joins (ExtendedWorkerState)."""

    url: str  # of its REST interface; here the name of its host
    offset: int  # the end of the config topic as far as it has read; −1: nothing
    running: tuple[Work, ...]  # its last assignment


@value
class WorkerAssignment:
    """What the leader has for one worker (ExtendedAssignment)."""

    error: int  # CONFIG_MISMATCH: the leader had not read the config topic as far as others
    leader: str  # a member id
    leader_url: str
    offset: int  # of the config topic: a worker that has read less reads on before it starts work
    assigned: tuple[Work, ...]  # to be started
    revoked: tuple[Work, ...]  # to be stopped
    delay_ms: int  # after which the group rebalances again; 0: not by itself

    @property
    def failed(self) -> bool:
        """Whether the worker has to join again."""
        return self.error != NO_ERROR
