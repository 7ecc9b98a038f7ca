"""HighAvailabilityTaskAssignor (KIP-441): balance, but never wait for a restore if you need not.

It first assigns the tasks as if every process had their state. Then it moves each active task from
a process that is not caught up to one that is, or at least is further, and leaves a *warm-up* in
its place: a standby that restores. A probing rebalance looks later whether the warm-up has caught
up. Left out: rack awareness (KIP-925, client tags).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from kafkasim.model.streams.assignment.client_state import LATEST_OFFSET, ClientState
from kafkasim.model.streams.assignment.priority import ClientQueue
from kafkasim.model.streams.rules import StreamsRules
from kafkasim.model.streams.task_id import TaskId

Clients = dict[str, ClientState]
"""By process id."""


@dataclass(frozen=True, slots=True)
class AssignmentConfigs:
    """The settings of an assignment of tasks, under their names in StreamsConfig."""

    acceptable_recovery_lag: int = 10_000  # records; a replica within it is caught up
    max_warmup_replicas: int = 2  # of the whole group at a time
    num_standby_replicas: int = 0


class HighAvailabilityTaskAssignor:
    """One assignment; ``clients`` get their tasks."""

    def __init__(
        self, clients: Mapping[str, ClientState], configs: AssignmentConfigs, rules: StreamsRules
    ) -> None:
        self._clients: Clients = {each: clients[each] for each in sorted(clients)}
        self._configs = configs
        self._rules = rules
        self._warmups_left = configs.max_warmup_replicas
        self.warmups: dict[tuple[str, TaskId], None] = {}
        self._caught_up: dict[TaskId, list[str]] = {}  # processes whose lag is acceptable
        self._by_lag: dict[TaskId, list[str]] = {}  # all processes

    def assign(self, tasks: Iterable[TaskId], stateful: Iterable[TaskId]) -> bool:
        """Assign all tasks; return whether a probing rebalance has to follow."""
        stateful_tasks = sorted(stateful)
        self._assign_stateful(stateful_tasks)
        self._assign_standbys(stateful_tasks)
        for task in stateful_tasks:
            self._caught_up[task] = [c for c in self._clients if self._is_caught_up(c, task)]
            self._by_lag[task] = sorted(self._clients, key=lambda c: self._clients[c].lags[task])
        moved = self._move_actives() + self._move_standbys()
        keep = dict.fromkeys(stateful_tasks)
        self._assign_stateless([task for task in sorted(tasks) if task not in keep])
        return moved > 0

    # As if all had the state.

    def _assign_stateful(self, tasks: list[TaskId]) -> None:
        names = list(self._clients)
        for number, task in enumerate(tasks):
            self._clients[names[number % len(names)]].assign_active(task)
        self._balance(lambda client: client.active)

    def _assign_standbys(self, tasks: list[TaskId]) -> None:
        """Put each replica on the least loaded process that has none of the task."""
        if not self._configs.num_standby_replicas:
            return
        clients = self._clients
        queue = ClientQueue(
            clients, lambda c: clients[c].load, lambda c, task: not clients[c].has(task)
        )
        for task in tasks:
            for _ in range(self._configs.num_standby_replicas):
                client = queue.poll(task)
                if client is None:
                    break
                clients[client].assign_standby(task)
                queue.offer(client)
        self._balance(lambda client: client.standby)

    def _assign_stateless(self, tasks: list[TaskId]) -> None:
        clients = self._clients
        queue = ClientQueue(clients, lambda c: clients[c].active_load, lambda _c, _task: True)
        for task in tasks:
            client = queue.poll(task)
            assert client is not None, tasks
            clients[client].assign_active(task)
            queue.offer(client)

    def _balance(self, role: Callable[[ClientState], dict[TaskId, None]]) -> None:
        """Move tasks of one role as long as that makes loads more equal."""
        moved = True
        while moved:
            moved = False
            for source in self._clients.values():
                for target in self._clients.values():
                    if source is not target:
                        moved |= self._even_out(source, target, role)

    @staticmethod
    def _even_out(
        source: ClientState,
        target: ClientState,
        role: Callable[[ClientState], dict[TaskId, None]],
    ) -> bool:
        moved = False
        for task in sorted(role(source)):
            if not _improves(source, target):
                break
            if not target.has(task):
                del role(source)[task]
                role(target)[task] = None
                moved = True
        return moved

    # To where the state is.

    def _is_caught_up(self, client: str, task: TaskId) -> bool:
        lag = self._clients[client].lags[task]
        return lag == LATEST_OFFSET or 0 <= lag <= self._configs.acceptable_recovery_lag

    def _should_move(self, task: TaskId, client: str) -> bool:
        """Return whether a process is not caught up, and another one is further."""
        if client in self._caught_up[task]:
            return False
        if not self._rules.moves_to_most_caught_up():
            return bool(self._caught_up[task])
        best = self._by_lag[task][0]
        return self._clients[best].lags[task] < self._clients[client].lags[task]

    def _movements(
        self, role: Callable[[ClientState], dict[TaskId, None]]
    ) -> list[tuple[int, TaskId, str]]:
        """Return (caught-up processes, task, process) to move, the fewest processes first."""
        return sorted(
            [
                (len(self._caught_up[task]), task, name)
                for name, client in self._clients.items()
                for task in role(client)
                if (name, task) not in self.warmups and self._should_move(task, name)
            ]
        )

    def _caught_up_queue(self) -> ClientQueue:
        clients, caught_up = self._clients, self._caught_up
        return ClientQueue(clients, lambda c: clients[c].load, lambda c, t: c in caught_up[t])

    def _move_actives(self) -> int:
        """Give active tasks to processes that have their state (assignActiveTaskMovements)."""
        queue = self._caught_up_queue()
        clients = self._clients
        movements = self._movements(lambda client: client.active)
        for _, task, target in movements:
            source = queue.poll(task, lambda c, task=task: task in clients[c].standby)  # type: ignore[misc]
            if source is None:
                source = queue.poll(task)
            if source is None:
                source = self._by_lag[task][0]
            if task in clients[source].standby:
                self._swap(task, source, target)
            else:
                self._move_active(task, source, target)
            queue.offer(source)
            queue.offer(target)
        return len(movements)

    def _swap(self, task: TaskId, source: str, target: str) -> None:
        self._clients[source].standby.pop(task)
        self._clients[source].assign_active(task)
        self._clients[target].active.pop(task)
        self._clients[target].assign_standby(task)

    def _move_active(self, task: TaskId, source: str, target: str) -> None:
        self._clients[source].assign_active(task)
        self._clients[target].active.pop(task)
        if self._take_warmup():
            self._clients[target].assign_standby(task)
            self.warmups[target, task] = None

    def _take_warmup(self) -> bool:
        """Return whether the group may have one more warm-up, and count it."""
        self._warmups_left -= 1
        return self._warmups_left >= 0

    def _move_standbys(self) -> int:
        """The same for standbys; return how many were moved (assignStandbyTaskMovements)."""
        queue = self._caught_up_queue()
        clients = self._clients
        moved = 0
        for _, task, target in self._movements(lambda client: client.standby):

            def free(client: str, task: TaskId = task) -> bool:
                return not clients[client].has(task)

            source = queue.poll(task, free)
            if source is None:
                before = self._by_lag[task][: self._by_lag[task].index(target)]
                source = next((client for client in before if free(client)), None)
            if source is None:
                continue
            clients[source].assign_standby(task)
            if self._take_warmup():
                self.warmups[target, task] = None
            else:
                del clients[target].standby[task]
            queue.offer(source)
            queue.offer(target)
            moved += 1
        return moved


def _improves(source: ClientState, target: ClientState) -> bool:
    """Return whether a task less here and one more there is better (shouldMoveATask)."""
    skew = source.load - target.load
    if skew <= 0:
        return False
    proposed = (source.count - 1) / source.capacity - (target.count + 1) / target.capacity
    return 0 <= proposed < skew
