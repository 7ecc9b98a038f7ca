"""HighAvailabilityTaskAssignor and the tasks of threads: cases of Kafka's own tests.

The names of the tests are those of HighAvailabilityTaskAssignorTest and
StreamsPartitionAssignorTest.
"""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from kafkasim.model.group.assignors.java import JavaHeap
from kafkasim.model.records import TopicPartition
from kafkasim.model.streams.assignment.client_state import LATEST_OFFSET, ClientState
from kafkasim.model.streams.assignment.high_availability import (
    AssignmentConfigs,
    HighAvailabilityTaskAssignor,
)
from kafkasim.model.streams.assignment.threads import to_threads
from kafkasim.model.streams.rules import StreamsRules
from kafkasim.model.streams.task_id import TaskId

FAR = 2**63 - 1
NINE = [TaskId(s, p) for s in range(3) for p in range(3)]


def client(lags: dict[TaskId, int], threads: int = 1) -> ClientState:
    made = ClientState(threads)
    made.lags = dict(lags)
    return made


def assign(
    clients: dict[str, ClientState],
    stateful: Iterable[TaskId],
    lag: int,
    warmups: int,
    standbys: int,
    stateless: Iterable[TaskId] = (),
) -> bool:
    stateful = list(stateful)
    configs = AssignmentConfigs(lag, warmups, standbys)
    assignor = HighAvailabilityTaskAssignor(clients, configs, StreamsRules())
    return assignor.assign([*stateful, *stateless], stateful)


def test_is_sticky_for_active_and_standby_tasks_while_warming_up() -> None:
    clients = {
        "P1": client(dict.fromkeys(NINE, 0)),
        "P2": client(dict.fromkeys(NINE, 10)),
        "P3": client(dict.fromkeys(NINE, FAR)),
    }
    unstable = assign(clients, NINE, 11, 2, 1)
    assert (unstable, [each.count for each in clients.values()]) == (True, [9, 9, 2])


def test_skips_warmups_when_acceptable_lag_is_max() -> None:
    clients = {
        "P1": client(dict.fromkeys(NINE, 0)),
        "P2": client(dict.fromkeys(NINE, FAR)),
        "P3": client(dict.fromkeys(NINE, FAR)),
    }
    unstable = assign(clients, NINE, FAR, 1, 1)
    assert (unstable, [each.count for each in clients.values()]) == (False, [6, 6, 6])


def test_assigns_active_stateful_tasks_evenly_over_unevenly_distributed_threads() -> None:
    lags = dict.fromkeys(NINE, 10)
    clients = {"P1": client(lags, 1), "P2": client(lags, 2), "P3": client(lags, 3)}
    unstable = assign(clients, NINE, 0, 1, 0)
    assert unstable is False
    assert [len(each.active) for each in clients.values()] == [2, 3, 4]


def test_assigns_evenly_over_stream_threads_but_best_effort_over_clients() -> None:
    lags = dict.fromkeys(NINE, 10)
    clients = {"P1": client(lags, 6), "P2": client(lags, 3)}
    assert assign(clients, NINE, 0, 1, 0) is False
    assert [len(each.active) for each in clients.values()] == [6, 3]


def test_assigns_to_the_most_caught_up_if_the_task_was_not_on_a_caught_up_client() -> None:
    task = TaskId(0, 0)
    clients = {"P1": client({task: FAR}), "P2": client({task: 1000}), "P3": client({task: 500})}
    assert assign(clients, [task], 100, 2, 1) is True
    assert [list(each.active) for each in clients.values()] == [[], [], [task]]
    assert [list(each.standby) for each in clients.values()] == [[task], [task], []]


def test_does_not_assign_more_than_max_warmup_replicas() -> None:
    tasks = [TaskId(0, p) for p in range(4)]
    clients = {
        "P1": client(dict.fromkeys(tasks, LATEST_OFFSET)),
        "P2": client(dict.fromkeys(tasks, 10_000)),
    }
    assert assign(clients, tasks, 100, 1, 0) is True
    assert [sorted(each.active) for each in clients.values()] == [tasks, []]
    assert [len(each.standby) for each in clients.values()] == [0, 1]


def test_distributes_stateless_tasks_to_balance_the_load_of_active_tasks() -> None:
    tasks = [TaskId(0, p) for p in range(2)]
    stateless = [TaskId(1, p) for p in range(4)]
    clients = {"P1": client(dict.fromkeys(tasks, 0)), "P2": client(dict.fromkeys(tasks, FAR))}
    assert assign(clients, tasks, 100, 2, 0, stateless) is True
    assert [len(each.active) for each in clients.values()] == [3, 3]


def test_an_arbitrary_process_gets_the_task_where_nobody_is_caught_up() -> None:
    class Old(StreamsRules):
        def moves_to_most_caught_up(self) -> bool:
            return False

    task = TaskId(0, 0)
    clients = {"A": client({task: 90_000}), "B": client({task: 12_000})}
    assignor = HighAvailabilityTaskAssignor(clients, AssignmentConfigs(), Old())
    assert assignor.assign([task], [task]) is False
    assert list(clients["A"].active) == [task]


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 5)), unique=True), st.data())
def test_the_heap_gives_tasks_in_order_whatever_is_removed(
    pairs: list[tuple[int, int]], data: st.DataObject
) -> None:
    tasks = [TaskId(*pair) for pair in pairs]
    heap = JavaHeap(tasks, lambda task: task)
    gone = data.draw(st.lists(st.sampled_from(tasks), unique=True)) if tasks else []
    for task in gone:
        heap.remove(task)
    polled = []
    while (task_ := heap.poll()) is not None:
        polled.append(task_)
    assert polled == sorted([task for task in tasks if task not in gone])


def with_threads(previous: dict[str, dict[TaskId, int]], lags: dict[TaskId, int]) -> ClientState:
    made = ClientState()
    for consumer, sums in previous.items():
        made.add_consumer(consumer, (), sums)
    made.lags = lags
    return made


def test_a_thread_keeps_its_tasks_by_lag_up_to_its_share() -> None:
    tasks = [TaskId(0, p) for p in range(4)]
    state = with_threads({"t1": dict.fromkeys(tasks, 5), "t2": {}}, dict(zip(tasks, (9, 1, 5, 0))))
    state.active = dict.fromkeys(tasks)
    active, standby = to_threads(state, ["t2", "t1"])
    assert active == {"t1": [tasks[3], tasks[1]], "t2": [tasks[0], tasks[2]]}
    assert standby == {"t1": [], "t2": []}


def test_counts_are_carried_from_stateful_to_standby_to_stateless_tasks() -> None:
    stateful, standbys = [TaskId(0, 0)], [TaskId(0, 1), TaskId(0, 2)]
    stateless = [TaskId(1, 0)]
    state = with_threads({"t1": {}, "t2": {}}, dict.fromkeys([*stateful, *standbys], 0))
    state.active = dict.fromkeys([*stateful, *stateless])
    state.standby = dict.fromkeys(standbys)
    active, standby = to_threads(state, ["t1", "t2"])
    assert (active, standby) == (
        {"t1": [TaskId(0, 0)], "t2": [TaskId(1, 0)]},
        {"t1": [TaskId(0, 2)], "t2": [TaskId(0, 1)]},
    )


def test_the_lag_of_a_recreated_changelog_is_all_of_it() -> None:
    task = TaskId(0, 0)
    state = ClientState()
    state.add_consumer("t1", [TopicPartition("in", 0)], {task: 500})
    state.compute_lags({task: 30, TaskId(0, 1): 7})
    state.initialize_previous({TopicPartition("in", 0): task})
    assert state.lags == {task: 30, TaskId(0, 1): 7}
    assert list(state.previous_active) == [task]
