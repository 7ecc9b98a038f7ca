"""The assignor of Connect's workers, in drawn groups, against what Kafka's own class assigned."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from kafkasim.model.connect.workers.assignor import IncrementalCooperativeAssignor
from kafkasim.model.connect.workers.rules import WorkerRules
from kafkasim.model.connect.workers.work import CONNECTOR, Work
from tests.fidelity.kafka_worker_assignor import ASSIGNMENTS, GROUPS, VERSIONS, drawn

Items = tuple[Work, ...]


class Group:
    """A drawn group, played on the model."""

    def __init__(self, max_delay_ms: int, rules: WorkerRules) -> None:
        self._assignor = IncrementalCooperativeAssignor(max_delay_ms, rules)
        self._running: dict[str, Items] = {}
        self._before: dict[str, Items] = {}  # the last assignment

    def round(self, generation: int, text: str) -> str:
        """Play a round; return what the Java program prints of it."""
        now, missed, configured, comes = text.split(" ")
        counts = {name: int(tasks) for name, tasks in _pairs(configured)}
        running = {name: self._comes(name, how, list(counts)) for name, how in _pairs(comes)}
        wanted = [Work(name, task) for name in counts for task in range(-1, counts[name])]
        completed = generation - 1 - int(missed)
        found = self._assignor.assign(wanted, running, completed, generation, int(now))
        self._before = running
        self._running = {
            name: (*start, *[each for each in running[name] if each not in (*start, *stop)])
            for name, (start, stop) in found.items()
        }
        told = [
            f"{name}:+{_text(start)}-{_text(sorted(stop))}" for name, (start, stop) in found.items()
        ]
        return " ".join([str(self._assignor.delay_ms), *told])

    def _comes(self, name: str, how: str, connectors: list[str]) -> Items:
        running = self._running.get(name, ())
        if how == "fresh":
            return ()
        if how == "missed":
            return self._before.get(name, ())
        if how.startswith("claims"):
            connector = connectors[int(how.removeprefix("claims")) % len(connectors)]
            return tuple(dict.fromkeys([*running, Work(connector), Work(connector, 0)]))
        return running


def _pairs(text: str) -> list[list[str]]:
    return [word.split(":") for word in text.split(",")]


def _text(items: Iterable[Work]) -> str:
    """Return connectors, then tasks: each kind in its own order."""
    found = list(items)
    connectors = [each.connector for each in found if each.task == CONNECTOR]
    return ",".join([*connectors, *[f"{c}.{n}" for c, n in found if n != CONNECTOR]])


def differences(version: str, rules: WorkerRules) -> list[str]:
    """Return the first round of each group that the model plays otherwise."""
    found = []
    stored = (ASSIGNMENTS / f"{version}.txt").read_text().splitlines()
    for seed, kafka in zip(range(GROUPS), stored, strict=True):
        max_delay_ms, *rounds = drawn(seed).split("|")
        group = Group(int(max_delay_ms), rules)
        for number, (text, theirs) in enumerate(zip(rounds, kafka.split("|"), strict=True), 1):
            ours = group.round(number, text)
            if ours != theirs:
                place = f"group {seed}, round {number}, at most {max_delay_ms} ms: {text}"
                found.append(f"{place}\n  model: {ours}\n  Kafka: {theirs}")
                break  # the rounds behind it follow from this one
    return found


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
def test_the_model_assigns_work_as_kafka_does(version: str) -> None:
    assert differences(version, WorkerRules()) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ("missing_of_present_workers_is_lost", True),  # KAFKA-9848
        ("may_revoke_twice", False),  # KAFKA-12495
        ("reassigns_without_delay", False),  # KAFKA-15693
    ],
)
def test_the_drawn_groups_tell_each_old_rule_from_kafka_s(rule: str, answer: bool) -> None:
    old = type("Old", (WorkerRules,), {rule: lambda _: answer})
    assert len(differences(VERSIONS[-1], old())) >= 5
