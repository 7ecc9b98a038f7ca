"""The worker group of Connect: who runs which connectors and tasks (KIP-415)."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from kafkasim.model.config import ConfigError
from kafkasim.model.connect.config import MirrorConfig
from kafkasim.model.connect.workers.assignor import IncrementalCooperativeAssignor
from kafkasim.model.connect.workers.configs import (
    ClusterConfigState,
    ConnectorConfig,
    TaskConfig,
    TaskCount,
    TasksCommit,
)
from kafkasim.model.connect.workers.rules import WorkerRules
from kafkasim.model.connect.workers.work import CONNECTOR, Work

DELAY_MS = 300_000
CONNECTORS = ("a", "b")
CONFIGURED = [Work(name, task) for name in CONNECTORS for task in (CONNECTOR, 0, 1, 2, 3)]


class Group:
    """Workers that take what the leader's assignor gives them, unless a test has them miss it."""

    def __init__(self, *members: str, delay_ms: int = DELAY_MS, rules: WorkerRules) -> None:
        self.assignor = IncrementalCooperativeAssignor(delay_ms, rules)
        self.running: dict[str, tuple[Work, ...]] = dict.fromkeys(members, ())
        self.generation = 0
        self.completed = -1
        self.now_ms = 1_000

    def rebalance(self, *, missed: tuple[str, ...] = ()) -> int:
        """Rebalance once; return how much work the members were told to stop."""
        self.generation += 1
        given = self.assignor.assign(
            CONFIGURED, self.running, self.completed, self.generation, self.now_ms
        )
        for member, (assigned, revoked) in given.items():
            if member not in missed:
                kept = [item for item in self.running[member] if item not in revoked]
                self.running[member] = (*assigned, *kept)
        self.completed = self.generation
        return sum(len(revoked) for _, revoked in given.values())

    def settle(self) -> None:
        """Rebalance until nothing is revoked."""
        while self.rebalance():
            pass

    def leaves(self, member: str) -> tuple[Work, ...]:
        return self.running.pop(member)

    def shares(self) -> dict[str, tuple[int, int]]:
        """Return how many connectors and tasks each member runs."""
        return {
            member: (
                sum(item.task == CONNECTOR for item in items),
                sum(item.task != CONNECTOR for item in items),
            )
            for member, items in self.running.items()
        }

    @property
    def runners(self) -> Counter[Work]:
        return Counter([item for items in self.running.values() for item in items])


def group(*members: str, delay_ms: int = DELAY_MS, rules: type[WorkerRules] = WorkerRules) -> Group:
    made = Group(*members, delay_ms=delay_ms, rules=rules())
    made.settle()
    return made


def test_the_first_assignment_is_even_and_has_all() -> None:
    made = group("w1", "w2", "w3")
    assert made.shares() == {"w1": (1, 3), "w2": (1, 3), "w3": (0, 2)}
    assert made.runners == Counter(CONFIGURED)


def test_a_worker_that_joins_gets_what_others_give_up_first() -> None:
    made = group("w1")
    made.running["w2"] = ()
    assert made.rebalance() == 5
    assert made.shares() == {"w1": (1, 4), "w2": (0, 0)}
    assert made.rebalance() == 0
    assert made.shares() == {"w1": (1, 4), "w2": (1, 4)}


def test_lost_work_waits_for_the_delay_and_then_goes_to_the_rest() -> None:
    made = group("w1", "w2")
    lost = made.leaves("w2")
    made.rebalance()
    assert made.assignor.delay_ms == DELAY_MS
    made.now_ms += 100_000
    made.rebalance()
    assert (made.assignor.delay_ms, made.shares()) == (200_000, {"w1": (1, 4)})
    made.now_ms += 200_000
    made.rebalance()
    assert (made.assignor.delay_ms, made.shares()) == (0, {"w1": (2, 8)})
    assert made.running["w1"][: len(lost)] != ()


def test_a_worker_that_is_back_within_the_delay_gets_the_same_work_when_it_ends() -> None:
    made = group("w1", "w2")
    lost = made.leaves("w2")
    made.rebalance()
    made.running["w2-again"] = ()
    made.now_ms += 100_000
    made.rebalance()
    assert made.shares() == {"w1": (1, 4), "w2-again": (0, 0)}
    made.now_ms += 200_000
    made.rebalance()
    assert sorted(made.running["w2-again"]) == sorted(lost)


class WaitsForPresentWorkers(WorkerRules):
    def missing_of_present_workers_is_lost(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("rules", "delay_ms", "shares"),
    [(WorkerRules, 0, {"w1": (1, 4), "w2": (1, 4)}),
     (WaitsForPresentWorkers, DELAY_MS, {"w1": (1, 4), "w2": (0, 0)})],
)  # fmt: skip
def test_work_that_a_present_worker_was_not_told_of_is_given_out_at_once(
    rules: type[WorkerRules], delay_ms: int, shares: dict[str, tuple[int, int]]
) -> None:
    made = Group("w1", "w2", rules=rules())
    made.rebalance(missed=("w2",))
    made.rebalance()
    assert (made.assignor.delay_ms, made.shares()) == (delay_ms, shares)


class KeepsLost(WorkerRules):
    def reassigns_without_delay(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("rules", "shares"), [(WorkerRules, {"w1": (2, 8)}), (KeepsLost, {"w1": (1, 4)})]
)
def test_without_a_delay_lost_work_is_given_out_in_the_same_rebalance(
    rules: type[WorkerRules], shares: dict[str, tuple[int, int]]
) -> None:
    made = group("w1", "w2", delay_ms=0, rules=rules)
    made.leaves("w2")
    made.rebalance()
    assert (made.assignor.delay_ms, made.shares()) == (0, shares)


class RevokesOnce(WorkerRules):
    def may_revoke_twice(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("rules", "delays", "shares"),
    [(WorkerRules, [0, 40, 0, 0], {"w1": (1, 3), "w2": (1, 3), "w3": (0, 2)}),
     (RevokesOnce, [0, 0], {"w1": (1, 4), "w2": (1, 2), "w3": (0, 2)})],
)  # fmt: skip
def test_a_second_revocation_in_a_row_waits_and_then_evens_the_load_out(
    rules: type[WorkerRules], delays: list[int], shares: dict[str, tuple[int, int]]
) -> None:
    made = group("w1", rules=rules)
    made.running["w2"] = ()
    made.rebalance()
    found = [made.assignor.delay_ms]
    made.running["w3"] = ()
    for _ in range(1, len(delays)):
        made.rebalance()
        found.append(made.assignor.delay_ms)
        made.now_ms += made.assignor.delay_ms
    assert (found, made.shares()) == (delays, shares)


def test_what_two_workers_run_is_taken_from_both_and_given_to_one() -> None:
    made = group("w1", "w2")
    twice = made.running["w2"][0]
    made.running["w1"] = (*made.running["w1"], twice)
    assert made.rebalance() == 2
    assert made.runners[twice] == 0
    made.settle()
    assert made.runners == Counter(CONFIGURED)


def test_a_leader_that_missed_the_last_assignment_takes_no_work_for_lost() -> None:
    made = group("w1", "w2")
    made.leaves("w2")
    made.completed = made.generation - 1
    made.rebalance()
    assert (made.assignor.delay_ms, made.shares()) == (0, {"w1": (2, 8)})


@pytest.mark.parametrize("seed", range(20))
def test_whatever_comes_and_goes_all_work_runs_once_and_evenly_in_the_end(seed: int) -> None:
    rng = random.Random(seed)
    made = group("w0")
    for number in range(1, 40):
        if rng.random() < 0.5 and len(made.running) > 1:
            made.leaves(rng.choice(sorted(made.running)))
        else:
            made.running[f"w{number}"] = ()
        made.rebalance(missed=tuple(rng.sample(sorted(made.running), rng.randrange(2))))
        made.now_ms += rng.choice((0, 10, 1_000, 100_000))
        assert max(made.runners.values(), default=1) == 1
    for _ in range(10):
        made.now_ms += DELAY_MS
        made.rebalance()
    assert made.runners == Counter(CONFIGURED)
    tasks = [shares[1] for shares in made.shares().values()]
    assert max(tasks) - min(tasks) <= 1


def test_tasks_count_once_their_commit_is_read_and_old_ones_go() -> None:
    told = [
        ConnectorConfig("a", {}),
        TaskConfig(Work("a", 0), "x"),
        TaskConfig(Work("a", 1), "y"),
        TasksCommit("a", 2),
        TaskCount("a", 2),
        TaskConfig(Work("a", 0), "z"),
    ]
    states = [ClusterConfigState()]
    for offset, each in enumerate(told):
        states.append(states[-1].after(offset, each))
    assert [len(each.work) for each in states] == [0, 1, 1, 1, 3, 3, 3]
    assert (states[4].generations, states[4].pending) == ({"a": 0}, {"a": None})
    assert (states[5].fenced, states[5].pending) == ({"a": 2}, {})
    last = states[-1].after(6, TasksCommit("a", 1))
    assert (last.offset, last.tasks_of("a"), last.generations) == (7, ["z"], {"a": 1})


def test_a_commit_without_the_settings_of_a_task_changes_nothing() -> None:
    state = ClusterConfigState().after(0, ConnectorConfig("a", {}))
    assert state.after(1, TasksCommit("a", 1)).work == (Work("a"),)


def test_a_session_without_room_for_a_heartbeat_is_refused() -> None:
    with pytest.raises(ConfigError) as refused:
        MirrorConfig.from_properties({"session.timeout.ms": 3000})
    assert str(refused.value).startswith("heartbeat.interval.ms: 3000 is not below")
