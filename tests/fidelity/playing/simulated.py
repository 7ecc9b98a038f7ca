"""A schedule on the model: an ordinary run of the scenario, and the metadata log that it leaves."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kafkasim.analysis.judging.verdict import Result
from kafkasim.model import facts
from kafkasim.model.broker.kraft.combined import CombinedNode
from kafkasim.model.controller.common import records as model
from kafkasim.model.controller.kraft.controller import Controller
from kafkasim.model.raft.quorum.states import LeaderChange
from kafkasim.model.raft.quorum.voters import VotersRecord
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.running.cluster import Cluster
from kafkasim.scenarios.running.runner import ScenarioRun
from tests.fidelity.playing.history import History
from tests.fidelity.playing.metadata_log import Entry

SEED = 1

SEEDS = {"leader-removed": 3}
"""Schedules whose history needs another seed: with it the admin client asks one broker throughout.
On the real side the operator asks the first broker that answers; an AdminClient takes any node."""

RENAMED = {
    "partition": "partitionId",
    "elr": "eligibleLeaderReplicas",
    "last_known_elr": "lastKnownElr",
}
"""Kafka's names of fields that the model calls otherwise."""

TOPIC_RESOURCE, BROKER_RESOURCE = 2, 4


class SimulatedPlay:
    """One schedule on the model."""

    def __init__(self, scenario: Scenario, variants: Sequence[str] = ()) -> None:
        self.run = ScenarioRun(scenario, SEEDS.get(scenario.name, SEED), None, variants)
        self.result: Result | None = None
        self._start = 0
        self._answers: list[str] = []
        self.run.trace.subscribe(facts.Phase, self._on_phase)
        self.run.trace.subscribe(facts.Operated, self._on_operated)

    def play(self) -> list[str]:
        """Run the schedule and return its history."""
        self.result = self.run.execute()
        return self._history() + self._answers

    def _history(self) -> list[str]:
        """Return the text of the ground truth from the start of the schedule on."""
        return History(self._start).lines(self._entries())

    def _on_phase(self, _seq: int, _t: int, _node: str, fact: facts.Phase) -> None:
        if fact.phase == "ready":
            self._start = self._log().log_end_offset

    def _on_operated(self, _seq: int, _t: int, _node: str, fact: facts.Operated) -> None:
        if fact.operation not in ("stop", "start", "restart", "replace-disk"):
            self._answers.append(f"answer to {fact.operation} {fact.target}: {fact.error}")

    def _log(self, cluster: Cluster | None = None) -> Any:
        """Return the log of a quorum's leader, the one of the greatest epoch."""
        cluster = cluster or self.run.cluster
        processes = [cluster.world.hosts[name].process for name in cluster.hosts.values()]
        combined = [each.controller for each in processes if isinstance(each, CombinedNode)]
        controllers = [each for each in processes if isinstance(each, Controller)]
        logs = [controller.raft.log for controller in [*combined, *controllers]]
        return max(logs, key=lambda log: (log.epochs.latest_epoch, log.log_end_offset))

    def _entries(self, cluster: Cluster | None = None) -> list[Entry]:
        return [
            Entry(batch.base_offset + delta, batch.leader_epoch, *_as_kafka(record.value))
            for batch in self._log(cluster).batches_from(0)
            for delta, record in enumerate(batch.records)
        ]


class SimulatedClientPlay(SimulatedPlay):
    """A schedule with clients on the model; its history ends before all is healed."""

    _lines: list[str]

    def _told(self) -> list[str]:
        """Return the text of the ground truth that the coordinators have left."""
        raise NotImplementedError

    def _on_phase(self, _seq: int, _t: int, _node: str, fact: facts.Phase) -> None:
        if fact.phase == "liveness":
            self._lines = self._told()

    def _history(self) -> list[str]:
        return self._lines

    def _replica(self, topic: str, number: int, cluster: Cluster | None = None) -> Any:
        """Return the log of a partition that has all that is committed, None without replicas."""
        tp = TopicPartition(topic, number)
        cluster = cluster or self.run.cluster
        brokers = [cluster.broker_process(host.name) for host in cluster.brokers]
        hosted = [broker.replicas.partitions.get(tp) for broker in brokers if broker is not None]
        logs = [each.log for each in hosted if each is not None]
        key = lambda log: (log.epochs.latest_epoch, log.log_end_offset)  # noqa: E731
        return max(logs, key=key, default=None)


def _as_kafka(record: Any) -> tuple[str, dict[str, Any]]:
    """Return a record's kind and fields under Kafka's names."""
    if isinstance(record, LeaderChange):
        return "LeaderChange", {"leaderId": record.leader_id}
    if isinstance(record, VotersRecord):
        return "Voters", {}
    if isinstance(record, model.ConfigRecord):
        return "ConfigRecord", _config(TOPIC_RESOURCE, record.topic, record)
    if isinstance(record, model.BrokerConfigRecord):
        name = "" if record.broker_id < 0 else str(record.broker_id)
        return "ConfigRecord", _config(BROKER_RESOURCE, name, record)
    if isinstance(record, model.ClearElrRecord):
        return "ClearElrRecord", {"topicName": record.topic}
    fields = {
        RENAMED.get(name, _camel(name)): _listed(getattr(record, name))
        for name in type(record).__dataclass_fields__
    }
    return type(record).__name__, fields


def _config(resource: int, name: str, record: Any) -> dict[str, Any]:
    return {
        "resourceType": resource, "resourceName": name, "name": record.name, "value": record.value,
    }  # fmt: skip


def _listed(found: Any) -> Any:
    return list(found) if isinstance(found, tuple) else found


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(part.capitalize() for part in rest)
