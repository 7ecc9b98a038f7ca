"""The tasks of one process, given to its threads (StreamsPartitionAssignor.assignTasksToThreads).

A thread is a consumer of the group. Threads are balanced; as far as that allows, a stateful task
stays with the thread that had it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from kafkasim.model.group.assignors.java import JavaHashSet, JavaHeap
from kafkasim.model.streams.assignment.client_state import ClientState
from kafkasim.model.streams.task_id import TaskId, java_hash

ByThread = dict[str, list[TaskId]]


def to_threads(state: ClientState, consumers: Sequence[str]) -> tuple[ByThread, ByThread]:
    """Return the active and the standby tasks of each thread of a process.

    First the stateful active tasks are given away, then standbys, then stateless tasks; each step
    counts what a thread has from those before.
    """
    load: dict[str, int] = {}
    ordered = sorted(consumers)
    stateful = [task for task in state.active if task in state.lags]
    stateless = [task for task in state.active if task not in state.lags]
    active = _give(_in_hash_order(stateful), True, ordered, state, load)
    standby = _give(sorted(state.standby), True, ordered, state, load)
    for thread, tasks in _give(_in_hash_order(stateless), False, ordered, state, load).items():
        active[thread] += tasks
    return active, standby


def _in_hash_order(tasks: Iterable[TaskId]) -> list[TaskId]:
    """Return tasks as a Java HashSet iterates over them that they were added to in order."""
    ordered = JavaHashSet[TaskId](java_hash)
    for task in sorted(tasks):
        ordered.add(task)
    return list(ordered)


def _give(
    tasks: list[TaskId],
    stateful: bool,
    consumers: list[str],
    state: ClientState,
    load: dict[str, int],
) -> ByThread:
    given: ByThread = {consumer: [] for consumer in consumers}
    least = (len(tasks) + sum(load.values())) // len(consumers)
    left = JavaHeap(tasks, lambda task: task)
    if len(left):
        to_fill, skipped = _give_back(given, left, least, stateful, state, load)
        while to_fill:
            consumer, task = to_fill.pop(0), left.poll()
            assert task is not None, (given, to_fill)
            given[consumer].append(task)
            if len(given[consumer]) + load.get(consumer, 0) < least:
                to_fill.append(consumer)
        _give_remainder(given, left, least, skipped, load)
    for consumer, own in given.items():
        load[consumer] = load.get(consumer, 0) + len(own)
    return given


def _give_back(
    given: ByThread,
    left: JavaHeap[TaskId],
    least: int,
    stateful: bool,
    state: ClientState,
    load: dict[str, int],
) -> tuple[list[str], dict[TaskId, str]]:
    """Give tasks to the threads that had them, up to the least number for each.

    Return the threads with fewer, and the tasks that were too many for their previous owner.
    """
    to_fill: list[str] = []
    skipped: dict[TaskId, str] = {}
    for consumer, own in given.items():
        target = least - load.get(consumer, 0)
        for task in state.previous_by_lag(consumer) if stateful else ():
            if task not in left:
                continue
            if len(own) < target:
                own.append(task)
                left.remove(task)
            else:
                skipped[task] = consumer
        if len(own) < target:
            to_fill.append(consumer)
    return to_fill, skipped


def _give_remainder(
    given: ByThread,
    left: JavaHeap[TaskId],
    least: int,
    skipped: dict[TaskId, str],
    load: dict[str, int],
) -> None:
    """Give the tasks above the least number away: to their previous owners, then to any."""
    if not len(left):
        return
    at_least = [each for each, own in given.items() if len(own) + load.get(each, 0) == least]
    for task in sorted(skipped):
        consumer = skipped[task]
        if consumer in at_least and task in left:
            given[consumer].append(task)
            left.remove(task)
            at_least.remove(consumer)
    for task in left:
        given[at_least.pop(0)].append(task)
