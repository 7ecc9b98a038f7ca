"""The queue of processes that wait for tasks (ConstrainedPrioritySet)."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafkasim.model.streams.task_id import TaskId


class ClientQueue:
    """Processes, the least loaded first; a client's weight is taken when it is offered.

    Models ConstrainedPrioritySet: the weights of clients that wait do not change there either, as
    each client whose load changes is offered again.
    """

    def __init__(
        self,
        clients: Iterable[str],
        weight: Callable[[str], float],
        allowed: Callable[[str, TaskId], bool],
    ) -> None:
        self._weight = weight
        self._allowed = allowed
        self._waiting = dict.fromkeys(clients)

    def offer(self, client: str) -> None:
        """Have a client wait again, by its present load."""
        self._waiting[client] = None

    def poll(self, task: TaskId, also: Callable[[str], bool] = lambda _: True) -> str | None:
        """Remove and return the least loaded client that may have a task."""
        for client in sorted(self._waiting, key=lambda each: (self._weight(each), each)):
            if self._allowed(client, task) and also(client):
                del self._waiting[client]
                return client
        return None
