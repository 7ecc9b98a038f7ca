"""What the config topic says: connectors, their tasks, and the fencing of old tasks.

Models ClusterConfigState, and KafkaConfigBackingStore.ConsumeCallback that makes it.

    connector   a connector and its settings
    task        one task's settings, which count once the connector's commit follows
    commit      how many tasks a connector has now; the next generation of its tasks
    count       how many tasks the leader has fenced before the generation was started (KIP-618)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from kafkasim.model.connect.workers.work import Work


class ConnectorConfig(NamedTuple):
    """A connector is configured."""

    connector: str
    settings: Any


class TaskConfig(NamedTuple):
    """A task has these settings, if a commit follows."""

    work: Work
    settings: Any


class TasksCommit(NamedTuple):
    """A connector has these tasks from now on."""

    connector: str
    tasks: int


class TaskCount(NamedTuple):
    """All earlier tasks of a connector are fenced; there are at most so many to fence next."""

    connector: str
    tasks: int


@dataclass(frozen=True, slots=True)
class ClusterConfigState:
    """The configuration of a Connect cluster as of one offset of the config topic."""

    offset: int = -1  # behind the last record; −1: no record
    connectors: Mapping[str, Any] = field(default_factory=dict)
    tasks: Mapping[Work, Any] = field(default_factory=dict)
    generations: Mapping[str, int] = field(default_factory=dict)  # of tasks, by connector
    fenced: Mapping[str, int] = field(default_factory=dict)  # the last TaskCount of each
    pending: Mapping[str, None] = field(default_factory=dict)  # whose old tasks are not fenced
    deferred: Mapping[Work, Any] = field(default_factory=dict)  # tasks without a commit

    @property
    def work(self) -> tuple[Work, ...]:
        """All that has to run."""
        return (*[Work(name) for name in self.connectors], *self.tasks)

    def tasks_of(self, connector: str) -> list[Any]:
        """Return the settings of a connector's tasks, in their order."""
        return [each for work, each in sorted(self.tasks.items()) if work.connector == connector]

    def after(self, offset: int, told: Any) -> ClusterConfigState:
        """Return the state behind one more record."""
        state = replace(self, offset=offset + 1)
        if isinstance(told, ConnectorConfig):
            return replace(state, connectors={**self.connectors, told.connector: told.settings})
        if isinstance(told, TaskConfig):
            return replace(state, deferred={**self.deferred, told.work: told.settings})
        name = told.connector
        if isinstance(told, TaskCount):
            pending = {each: None for each in self.pending if each != name}
            return replace(state, fenced={**self.fenced, name: told.tasks}, pending=pending)
        assert isinstance(told, TasksCommit), told
        others = {work: each for work, each in self.tasks.items() if work.connector != name}
        own = [Work(name, number) for number in range(told.tasks)]
        settings = {**self.tasks, **self.deferred}
        if any(work not in settings for work in own):
            return state  # compaction or a zombie leader took some: inconsistent
        return replace(
            state,
            tasks={**others, **{work: settings[work] for work in own}},
            deferred={w: each for w, each in self.deferred.items() if w.connector != name},
            generations={**self.generations, name: self.generations.get(name, -1) + 1},
            pending={**self.pending, name: None},
        )
