"""Two queues whose order decides an assignment: ConstrainedPrioritySet, and java.util's heap."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

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


class JavaHeap:
    """A java.util.PriorityQueue of tasks: its iterator gives the heap as it lies."""

    def __init__(self, tasks: Iterable[TaskId]) -> None:
        self._heap = list(tasks)
        for at in range(len(self._heap) // 2 - 1, -1, -1):
            self._sift_down(at, self._heap[at])

    def __len__(self) -> int:
        return len(self._heap)

    def __contains__(self, task: TaskId) -> bool:
        return task in self._heap

    def __iter__(self) -> Iterator[TaskId]:
        return iter(list(self._heap))

    def poll(self) -> TaskId | None:
        """Remove and return the first task."""
        if not self._heap:
            return None
        first, last = self._heap[0], self._heap.pop()
        if self._heap:
            self._sift_down(0, last)
        return first

    def remove(self, task: TaskId) -> None:
        """Remove a task that is in the queue (removeAt)."""
        at = self._heap.index(task)
        last = self._heap.pop()
        if at < len(self._heap):
            self._sift_down(at, last)
            if self._heap[at] == last:
                self._sift_up(at, last)

    def _sift_down(self, at: int, task: TaskId) -> None:
        heap = self._heap
        while at < len(heap) // 2:
            child = 2 * at + 1
            if child + 1 < len(heap) and heap[child] > heap[child + 1]:
                child += 1
            if task <= heap[child]:
                break
            heap[at] = heap[child]
            at = child
        heap[at] = task

    def _sift_up(self, at: int, task: TaskId) -> None:
        heap = self._heap
        while at > 0:
            parent = (at - 1) // 2
            if task >= heap[parent]:
                break
            heap[at] = heap[parent]
            at = parent
        heap[at] = task
