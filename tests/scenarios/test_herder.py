"""The herder of a Connect worker: which earlier tasks its leader fences (KIP-618)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafkasim.model.connect.config import MirrorConfig
from kafkasim.model.connect.rules import MirrorRules
from kafkasim.model.connect.workers.configs import (
    ClusterConfigState,
    ConnectorConfig,
    TaskConfig,
    TaskCount,
    TasksCommit,
)
from kafkasim.model.connect.workers.work import Work
from kafkasim.model.errors import Errors
from kafkasim.scenarios.running.herding import Herder
from kafkasim.scenarios.running.mirroring import Contents, Flow

NAME = "MirrorSourceConnector"


def configured(*told: Any) -> ClusterConfigState:
    """Return the state behind some records of the config topic."""
    state = ClusterConfigState()
    for offset, each in enumerate((ConnectorConfig(NAME, {}), *told)):
        state = state.after(offset, each)
    return state


def tasks(count: int) -> list[Any]:
    return [*[TaskConfig(Work(NAME, n), n) for n in range(count)], TasksCommit(NAME, count)]


class Port:
    """A port whose config topic is read as soon as it is written; it notes what it is asked for."""

    def __init__(self, error: Errors = Errors.NONE) -> None:
        self.herder: Herder
        self.contents = Contents(1, {})
        self.error = error
        self.fenced: list[str] = []
        self.written: list[Any] = []

    async def call(self, method: str, *args: Any) -> Any:
        if method == "configs.end_offsets":
            return dict.fromkeys(args[0], self.herder._store.offset)
        assert method == "target-admin.fence_producers", method
        self.fenced += args[0]
        return [(each, self.error, 0, 0) for each in args[0]]

    def call_acked(self, method: str, *args: Any) -> tuple[Any, asyncio.Future[Any]]:
        assert method == "producer.send", method
        told, offset = self.contents.said[args[2]], self.herder._store.offset
        self.written.append(told)
        self.herder._store = self.herder._store.after(offset, told)
        done = asyncio.get_running_loop().create_future()
        done.set_result((0, offset, 0, False))
        return None, done


def fence(state: ClusterConfigState, error: Errors = Errors.NONE) -> tuple[str, Port]:
    """Have a leader fence the tasks of the connector; return its error, and the port."""
    port = Port(error)

    async def run() -> str:
        flow = Flow(
            source="a", target="b", config=MirrorConfig(), rules=MirrorRules(), clients={},
            contents=port.contents, emits_back=False,
        )  # fmt: skip
        made: Any = port
        port.herder = Herder(made, flow, {})
        port.herder._store = state
        return await port.herder._fence(NAME)

    return asyncio.run(run()), port


@pytest.mark.parametrize(
    ("told", "fenced", "written"),
    [(tasks(2), [], [TaskCount(NAME, 2)]),  # nobody has run with transactions before
     ([*tasks(1), TaskCount(NAME, 1), *tasks(1)], [], [TaskCount(NAME, 1)]),  # it fences itself
     ([*tasks(2), TaskCount(NAME, 2), *tasks(3)], [0, 1], [TaskCount(NAME, 3)]),
     ([*tasks(1), TaskCount(NAME, 1), *tasks(2)], [0], [TaskCount(NAME, 2)]),
     ([*tasks(2), TaskCount(NAME, 2)], [], [])],  # they are fenced already
)  # fmt: skip
def test_the_leader_fences_as_many_tasks_as_there_were(
    told: list[Any], fenced: list[int], written: list[Any]
) -> None:
    error, port = fence(configured(*told))
    assert (error, port.fenced, port.written) == (
        "", [f"a-mm2-{NAME}-{number}" for number in fenced], written,
    )  # fmt: skip


def test_a_fencing_that_fails_counts_no_tasks() -> None:
    state = configured(*tasks(2), TaskCount(NAME, 2), *tasks(2))
    error, port = fence(state, Errors.COORDINATOR_NOT_AVAILABLE)
    assert (error, port.written) == (f"a-mm2-{NAME}-0: COORDINATOR_NOT_AVAILABLE", [])
