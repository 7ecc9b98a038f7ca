"""Every error code that a coordinator can answer is answered in some test.

What it can answer is read from its source: each ``Errors.X`` that is not merely compared, mapped
from, or listed. What is answered is in the answers of real Kafka to raw requests, which the model
repeats (tests/fidelity), and for the rest here.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import kafkasim
from kafkasim.model.coordinator.runtime import client_error
from kafkasim.model.errors import Errors
from tests.fidelity import test_requests
from tests.model.consumer_group_harness import ConsumerBench, joining, leaving
from tests.model.group_harness import T0, commit, fetch, join
from tests.model.transaction_harness import Bench as TransactionBench

MODEL = Path(kafkasim.__path__[0]) / "model"
FIDELITY = Path(test_requests.__file__).parent
RAW = ("answers/4.0.0.txt", "answers/3.9.1-zookeeper.txt", "consumer_groups/4.0.0.txt")

SOURCES = {
    "classic": ("group/classic",),
    "consumer": ("group/modern",),
    "offsets": ("group/offsets.py", "group/offset_commits.py", "group/rules.py"),
    "shared": ("group/coordinator.py", "group/administration.py", "group/transactional"),
    "transaction": ("transaction",),
}
"""Coordinator to its modules."""


def answerable(source: str) -> set[str]:
    """Return the codes of a module, but for those that it compares with, maps from or lists."""
    tree = ast.parse(source)
    passed: set[int] = set()
    for node in ast.walk(tree):
        skipped: list[ast.AST] = []
        if isinstance(node, ast.Compare):
            skipped = [node]
        elif isinstance(node, ast.Dict):
            skipped = [key for key in node.keys if key is not None]
        elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Tuple):
            skipped = [node.value]
        passed.update(id(each) for root in skipped for each in ast.walk(root))
    return {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "Errors"
        and id(node) not in passed
    } - {"NONE"}


def codes(coordinator: str) -> set[str]:
    """Return all codes that a coordinator can answer."""
    paths = [MODEL / each for each in SOURCES[coordinator]]
    files = [file for path in paths for file in (sorted(path.rglob("*.py")) or [path])]
    found = {code for file in files for code in answerable(file.read_text())}
    if coordinator == "shared":  # what becomes of the error of an append
        found |= {client_error(each).name for each in Errors if client_error(each) is not each}
    return found


def raw_codes() -> set[str]:
    """Return the codes in the answers of real Kafka that the model repeats."""
    differ = {label for reasons in test_requests.DIFFERENT.values() for label in reasons}
    lines = [line for name in RAW for line in (FIDELITY / name).read_text().splitlines()]
    kept = [line for line in lines if line.split(": ")[0] not in differ]
    return {word for line in kept for word in re.findall(r"[A-Z][A-Z_]{6,}", line)}


def _bench(**options: Any) -> ConsumerBench:
    bench = ConsumerBench(**options)
    bench.elect()
    return bench


def _unwritable(**options: Any) -> ConsumerBench:
    bench = _bench(**options)
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    return bench


def _loading() -> ConsumerBench:
    bench = _bench()
    bench.get(commit(5, tp=T0))
    after = ConsumerBench(log=bench.log)
    after.group.on_elected(0, 2, 0)
    return after


def _unfinished() -> Any:
    """A commit to the Scala coordinator that no replica takes, until its time is over."""
    bench = _bench(new_coordinator=False)
    bench.auto_replicate = False
    asked = bench.ask(commit(5, tp=T0))
    bench.wait(6)
    return bench.answers[asked].results[0][1]


def _unstable() -> Any:
    bench = _bench(new_coordinator=False)
    bench.auto_replicate = False
    bench.ask(commit(5, tp=T0))
    return bench.get(fetch(T0)).partitions[0].error


def _too_large(new_coordinator: bool) -> Any:
    bench = _bench(new_coordinator=new_coordinator)
    bench.log.error = Errors.MESSAGE_TOO_LARGE
    return bench.get(commit(5, tp=T0)).results[0][1]


def _in_first_join() -> Any:
    bench = _bench()
    bench.ask(join(bench.member_id("a"), client="a"))
    return bench.get(joining("b")).error


def _exhausted() -> Any:
    bench = TransactionBench().elect()
    bench.next_producer_id = None
    return bench.init()[0]


def _unwritable_transaction() -> Any:
    bench = TransactionBench().elect()
    bench.log.error = Errors.NOT_ENOUGH_REPLICAS
    return bench.init()[0]


HERE: dict[str, dict[str, Callable[[], Any]]] = {
    "classic": {
        "GROUP_MAX_SIZE_REACHED": lambda: _full_classic(),
        "COORDINATOR_NOT_AVAILABLE": lambda: _unwritable().get(join()).error,
        "COORDINATOR_LOAD_IN_PROGRESS": lambda: _loading().get(join()).error,
    },
    "consumer": {
        "GROUP_MAX_SIZE_REACHED": lambda: _full_consumer(),
        "UNKNOWN_SERVER_ERROR": _in_first_join,
    },
    "offsets": {
        "INVALID_COMMIT_OFFSET_SIZE": lambda: _too_large(False),
        "REQUEST_TIMED_OUT": _unfinished,
        "UNSTABLE_OFFSET_COMMIT": _unstable,
        "COORDINATOR_NOT_AVAILABLE": lambda: _unwritable().get(commit(5)).results[0][1],
    },
    "shared": {
        "COORDINATOR_LOAD_IN_PROGRESS": lambda: _loading().get(joining("a")).error,
        "COORDINATOR_NOT_AVAILABLE": lambda: _unwritable().get(joining("a")).error,
        "UNKNOWN_SERVER_ERROR": lambda: _too_large(True),
    },
    "transaction": {
        "COORDINATOR_LOAD_IN_PROGRESS": _exhausted,
        "COORDINATOR_NOT_AVAILABLE": _unwritable_transaction,
    },
}
"""Coordinator to the codes that are answered here."""


def _full_classic() -> Any:
    bench = _bench(group_max_size=1)
    bench.form("a")
    return bench.get(join(client="b")).error


def _full_consumer() -> Any:
    bench = _bench(group_consumer_max_size=1)
    bench.get(joining("a"))
    found = bench.get(joining("b")).error
    bench.get(leaving("a"))
    return found


@pytest.mark.parametrize("coordinator", SOURCES)
def test_every_code_that_a_coordinator_can_answer_is_answered(coordinator: str) -> None:
    raw = raw_codes()
    assert sorted(codes(coordinator) - raw - {*HERE[coordinator]}) == []


@pytest.mark.parametrize(
    ("coordinator", "code"), [(who, code) for who, some in HERE.items() for code in some]
)
def test_the_code_is_answered(coordinator: str, code: str) -> None:
    assert HERE[coordinator][code]() is Errors[code]


def test_a_code_that_is_only_compared_mapped_or_listed_is_no_answer() -> None:
    source = (
        "A = (Errors.A_A,)\nB = {Errors.B_B: Errors.C_C}\nif e is Errors.D_D:\n    x = Errors.E_E"
    )
    assert answerable(source) == {"C_C", "E_E"}
