"""FallbackPriorTaskAssignor: everything back to its previous owner, when lags are not known.

It is the StickyTaskAssignor of before KIP-441 with ``mustPreserveActiveTaskAssignment``. Where that
one goes by the order of hash maps, ids decide here; and pairs of tasks are not spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from kafkasim.model.streams.assignment.client_state import ClientState
from kafkasim.model.streams.task_id import TaskId


def assign_to_previous(
    clients: Mapping[str, ClientState],
    tasks: Iterable[TaskId],
    stateful: Iterable[TaskId],
    num_standby_replicas: int,
) -> None:
    """Give active tasks to their previous owners, others to the least loaded; then standbys."""
    names = sorted(clients)
    owner = {task: name for name in names for task in clients[name].previous_active}
    for task in sorted(tasks):
        before = [name for name in names if task in clients[name].previous_standby]
        name = owner.get(task) or _least_loaded(clients, before or names)
        clients[name].assign_active(task)
    for task in sorted(stateful):
        for _ in range(num_standby_replicas):
            without = [name for name in names if not clients[name].has(task)]
            if not without:
                break
            before = [name for name in without if task in clients[name].previous_standby]
            clients[_least_loaded(clients, before or without)].assign_standby(task)


def _least_loaded(clients: Mapping[str, ClientState], names: list[str]) -> str:
    return min(names, key=lambda name: (clients[name].load, -clients[name].capacity, name))
