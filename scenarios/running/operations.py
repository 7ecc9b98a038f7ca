"""Carry out the operations of a scenario: what an operator does to machines and to the cluster.

Operations on machines (stop, start, restart, upgrade, replace a disk, start a second process of a
broker) change the simulated hosts. All others are Kafka API requests of the admin client on
``admin-1``. The answer to each, or its timeout, is in the trace (fact ``Operated``). An operation
begins at a time, or some time after a fact (:class:`Moments`).
"""

from __future__ import annotations

import random
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, Protocol

from kafkasim.analysis.judging.progress import Progress
from kafkasim.model import facts
from kafkasim.model.config import BrokerConfig
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    EARLIEST_TIMESTAMP,
    LATEST_TIMESTAMP,
    AlterableConfig,
    CreatableTopic,
    CreatePartitionsTopic,
    ReassignablePartition,
)
from kafkasim.model.messages.clients.admin import BROKER, GROUP, TOPIC
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.language.nodes import node_names, select
from kafkasim.scenarios.language.tables import OperationTable
from kafkasim.scenarios.language.translate import condition
from kafkasim.scenarios.language.vocabulary import ALL_BROKERS
from kafkasim.scenarios.running.cluster import Cluster
from kafkasim.scenarios.running.node_settings import properties_text
from kafkasim.scenarios.running.operators.acls import add_acls, remove_acls
from kafkasim.scenarios.running.operators.features import update_features
from kafkasim.scenarios.running.operators.quorum import describe_quorum
from kafkasim.scenarios.running.operators.quotas import alter_client_quotas
from kafkasim.scenarios.running.operators.unregistering import StartedAnew, unregister_broker
from kafkasim.sim.apps.client_port import ClientPort
from kafkasim.sim.faults.kinds import When
from kafkasim.sim.trace.recording import Facts
from kafkasim.sim.world import World

Outcome = tuple[str, Errors, str]
"""What was operated on, the error in Kafka's answer, and its message."""

ROLLING = ("rolling-restart", "rolling-deploy", "upgrade")
"""Operations that stop and start one node after the other."""

POLL_US = 200_000
"""How often an operation looks whether a process that it stopped is down."""

ROLL_POLL_US = 500_000
"""How often a rolling restart looks whether a node is up again and the ISRs are full."""

PREFERRED, UNCLEAN = 0, 1
"""Kafka's ElectionType."""

OFFSETS = {"earliest": EARLIEST_TIMESTAMP, "latest": LATEST_TIMESTAMP}


class Moments(Protocol):
    """Tells when a condition is met, and who has a role (:class:`Injector`)."""

    def watch(self, when: When, after_us: int, act: Callable[..., None], what: Any) -> None:
        """Call ``act(what, node)`` ``after_us`` after a fact of ``node`` has met a condition."""
        ...

    def place(self, name: str, node: str | None = None) -> str | None:
        """Return the host that a role names now, None if nobody has it."""
        ...


class Operations:
    """All that an operator does to one cluster."""

    def __init__(
        self,
        world: World,
        trace: Facts,
        *,
        cluster: Cluster,
        progress: Progress,
        moments: Moments,
    ) -> None:
        self.world = world
        self.trace = trace
        self.cluster = cluster
        self.progress = progress
        self._moments = moments
        self._healed = False
        self._follows_polls = False  # which topics of a name do members read?
        trace.subscribe(facts.TopicCreated, self._on_topic)
        self._started_anew = StartedAnew(world, trace, progress, lambda: self._healed)
        self._stopping: dict[str, Any] = {}  # node -> the process that is asked to shut down
        self._machines: dict[str, Callable[[OperationTable, str], None]] = {
            "stop": self._stop,
            "start": self._start,
            "restart": self._restart,
            "replace-disk": self._replace_disk,
            "duplicate-broker": self._duplicate,
        }
        self._calls: dict[
            str, Callable[[Any, OperationTable], Coroutine[Any, Any, list[Outcome]]]
        ] = {
            "elect-leader": self._elect_leader,
            "reassign": self._reassign,
            "alter-config": self._alter_config,
            "alter-client-quotas": alter_client_quotas,
            "add-acls": add_acls,
            "remove-acls": remove_acls,
            "create-topic": self._create_topic,
            "create-partitions": self._create_partitions,
            "delete-topic": self._delete_topic,
            "delete-records": self._delete_records,
            "unregister-broker": unregister_broker,
            "update-features": update_features,
            "add-voter": self._add_voter,
            "remove-voter": self._remove_voter,
            "describe-quorum": describe_quorum,
            "reset-offsets": self._reset_offsets,
            "delete-offsets": self._delete_offsets,
            "delete-group": self._delete_group,
            "abort-hanging": self._abort_hanging,
        }

    def arm(self, ready_us: int) -> None:
        """Arm every operation; their times count from ``ready_us``."""
        for index, operation in enumerate(self.cluster.scenario.operations):
            rng = self.world.streams.stream("scenario", "operation", index)
            after_us = 0 if operation.at is None else operation.at.draw(rng)
            armed = (operation, self._select(operation, rng))
            if operation.when is None:
                self.world.at(ready_us + after_us, self._begin, armed, None)
            else:
                self._moments.watch(condition(operation.when), after_us, self._begin, armed)

    def heal(self) -> None:
        """Begin no more operations, and kill processes that are still shutting down."""
        self._healed = True
        for node, process in self._stopping.items():
            if self.world.hosts[node].process is process:
                self.world.hosts[node].crash()
        self._stopping.clear()
        self.cluster.stop_duplicates()
        self._started_anew.heal()

    def _on_topic(self, _seq: int, _t: int, _node: str, fact: facts.TopicCreated) -> None:
        """Tell the applications the id of a topic that was created (again)."""
        control = self.cluster.clients.control
        known = fact.topic_id in self.progress.deleted
        again = not known and control.learn_topic(fact.topic, fact.topic_id)
        if again and not self._follows_polls:
            self._follows_polls = True
            self.trace.subscribe(facts.Polled, control.on_polled)

    def _select(self, operation: OperationTable, rng: random.Random) -> str:
        """Return the host or role on which an operation on a machine works, else ""."""
        if operation.kind not in self._machines:
            return ""
        assert operation.node is not None, operation
        scenario = self.cluster.scenario
        properties = BrokerConfig.from_properties(scenario.cluster.config)
        return select(
            operation.node,
            node_names(scenario),
            rng,
            offsets_partitions=properties.offsets_topic_num_partitions,
            transaction_partitions=properties.transaction_state_log_num_partitions,
            combined=self.cluster.combined,
        )

    def _begin(self, armed: tuple[OperationTable, str], node: str | None) -> None:
        """Begin an operation; ``node`` is the host of the fact that it waited for."""
        operation, target = armed
        if self._healed:
            return
        if operation.kind in self._calls:
            self._call(operation)
        elif operation.kind in ROLLING:
            self._restart_next(operation, operation.nodes or self._rolled(operation))
        else:
            host = self._moments.place(target, node)
            if host is None:
                skipped = facts.Operated(operation.kind, target, "SKIPPED", "nobody has the role")
                self.trace.record(self.world.now, "admin-1", skipped)
            else:
                self._operate(operation, host)

    def _rolled(self, operation: OperationTable) -> list[str]:
        """Return the nodes of a rolling restart in their order; an upgrade begins with the
        controllers that are not combined, a deployment has the members of a group."""
        if operation.group is not None:
            return list(self.cluster.clients.members[operation.group])
        first = self.cluster.controllers if operation.kind == "upgrade" else []
        return [host.name for host in (*first, *self.cluster.brokers)]

    # Machines.

    def _operate(self, operation: OperationTable, node: str) -> None:
        self._machines[operation.kind](operation, node)
        self._record(operation.kind, (node, Errors.NONE, ""))

    def _duplicate(self, _: OperationTable, node: str) -> None:
        self.cluster.start_duplicate(node)

    def _stop(self, operation: OperationTable, node: str) -> None:
        host = self.world.hosts[node]
        if operation.kill:
            host.crash()
        elif host.alive:
            self._stopping[node] = host.process
            host.stop()

    def _start(self, operation: OperationTable, node: str) -> None:
        """Start a node; while its process still shuts down, wait, as systemd's start jobs do.

        A client that its workload starts later is left to it.
        """
        host = self.world.hosts[node]
        if not host.alive:
            if host.incarnation >= 0:
                host.boot()
        elif host.process is self._stopping.get(node):
            self.world.at(self.world.now + POLL_US, self._start, operation, node)

    def _restart(self, operation: OperationTable, node: str) -> None:
        self._stop(operation, node)
        self._when_down(operation, node, None)

    def _replace_disk(self, operation: OperationTable, node: str) -> None:
        self._stop(operation, node)
        self._when_down(operation, node, self._wipe)

    def _install(self, operation: OperationTable, node: str) -> None:
        """Give a node another release and the properties that the operator changes with it."""
        settings, version = self.cluster.settings, operation.kafka_version
        assert version is not None, operation
        before = settings.version(node)
        settings.install(node, version, operation.config, operation.remove)
        changed = ", ".join([f"{k} = {operation.config[k]}" for k in sorted(operation.config)])
        told = f"{before} to {version}" + (f", {changed}" if changed else "")
        self._record("upgrade", (node, Errors.NONE, told))

    def _deploy(self, operation: OperationTable, node: str) -> None:
        """Give a client's next process other properties."""
        self.cluster.clients.reconfigure(node, operation.config, operation.remove)
        told = ", ".join([f"{key} = {text}" for key, text in properties_text(operation.config)])
        self._record("rolling-deploy", (node, Errors.NONE, told))

    def _wipe(self, node: str) -> None:
        self.world.hosts[node].replace_disk()
        gone = self.cluster.directory_ids(node)
        self.trace.record(self.world.now, node, facts.DiskReplaced(gone))

    def _when_down(
        self, operation: OperationTable, node: str, then: Callable[[str], None] | None
    ) -> None:
        """Once the process is down, call ``then``, and start the node after the pause."""
        if self._healed:
            return
        if self.world.hosts[node].alive:
            self.world.at(self.world.now + POLL_US, self._when_down, operation, node, then)
            return
        if then is not None:
            then(node)
        self.world.at(self.world.now + operation.pause, self._start, operation, node)

    def _restart_next(self, operation: OperationTable, nodes: list[str]) -> None:
        """Restart the first of ``nodes``, and the others after it is up with full ISRs."""
        if self._healed or not nodes:
            return
        installs = {"upgrade": self._install, "rolling-deploy": self._deploy}
        if operation.kind in installs:
            self._stop(operation, nodes[0])
            self._when_down(operation, nodes[0], partial(installs[operation.kind], operation))
        else:
            self._restart(operation, nodes[0])
        self.world.at(self.world.now + POLL_US, self._when_restarted, operation, nodes, False)

    def _when_restarted(self, operation: OperationTable, nodes: list[str], was_down: bool) -> None:
        """Go on with the next node once the first went down, came up and all ISRs are full."""
        if self._healed:
            return
        down = not self.world.hosts[nodes[0]].alive
        if down or not was_down:
            again = ROLL_POLL_US if down else POLL_US
            self.world.at(
                self.world.now + again, self._when_restarted, operation, nodes, was_down or down
            )
        elif self.progress.unsettled():
            self.world.at(
                self.world.now + ROLL_POLL_US, self._when_restarted, operation, nodes, True
            )
        else:
            self._restart_next(operation, nodes[1:])

    # The admin client.

    def _call(self, operation: OperationTable) -> None:
        host = self.cluster.clients.admin_host
        target = operation.topic or operation.node or operation.group or "all"
        if host.app is None:  # the operator's host is in a site that is lost
            down = facts.Operated(operation.kind, target, "TIMED_OUT", f"{host.name} is down")
            self.trace.record(self.world.now, host.name, down)
            return

        async def application(port: ClientPort) -> None:
            try:
                outcomes = await self._calls[operation.kind](port, operation)
            except Exception as error:  # default.api.timeout.ms is over
                port.record(facts.Operated(operation.kind, target, "TIMED_OUT", str(error)))
                return
            for outcome in _summary(target, outcomes):
                port.record(facts.Operated(operation.kind, *_row(outcome)))

        host.app.start(application, operation.kind)  # type: ignore[attr-defined]
        host.attach(host.app)

    def _record(self, kind: str, outcome: Outcome) -> None:
        self.trace.record(self.world.now, "admin-1", facts.Operated(kind, *_row(outcome)))

    def _partitions(self, operation: OperationTable) -> tuple[TopicPartition, ...]:
        """Return the partition that an operation names, or all of its topic."""
        assert operation.topic is not None, operation
        if operation.partition is not None:
            return (TopicPartition(operation.topic, operation.partition),)
        numbers = self.progress.partitions_of(operation.topic)
        return tuple([TopicPartition(operation.topic, number) for number in numbers])

    async def _elect_leader(self, port: ClientPort, operation: OperationTable) -> list[Outcome]:
        election = UNCLEAN if operation.election == "unclean" else PREFERRED
        wanted = None if operation.topic is None else self._partitions(operation)
        answer = await port.call("admin.elect_leaders", election, wanted)
        results = [(str(tp), error, "") for tp, error in answer.results]
        return results or [("all", answer.error, "")]

    async def _reassign(self, port: ClientPort, operation: OperationTable) -> list[Outcome]:
        replicas = None if operation.cancel else tuple(operation.replicas)
        wanted = tuple([ReassignablePartition(tp, replicas) for tp in self._partitions(operation)])
        answer = await port.call("admin.alter_partition_reassignments", wanted)
        return [(str(tp), error, message) for tp, error, message in answer.results]

    async def _alter_config(self, port: ClientPort, operation: OperationTable) -> list[Outcome]:
        changes: list[tuple[str, str | None]] = [*properties_text(operation.config)]
        changes += [(key, None) for key in operation.remove]
        kind, name = TOPIC, operation.topic or ""
        if operation.node is not None:
            kind = BROKER
            name = "" if operation.node == ALL_BROKERS else operation.node.rpartition("-")[2]
        elif operation.group is not None:
            kind, name = GROUP, operation.group
        resource = AlterableConfig(kind, name, tuple(changes))
        answer = await port.call("admin.incremental_alter_configs", (resource,))
        return [(f"{of}:{name}", error, message) for of, name, error, message in answer.results]

    async def _create_topic(self, port: ClientPort, operation: OperationTable) -> list[Outcome]:
        assert operation.topic is not None, operation
        assignment = tuple([tuple(replicas) for replicas in operation.assignment])
        topic = CreatableTopic(
            operation.topic,
            -1 if assignment else operation.partitions,
            -1 if assignment else operation.replication_factor,
            assignment,
            properties_text(operation.config),
        )
        return list(await port.call("admin.create_topics", (topic,)))

    async def _create_partitions(
        self, port: ClientPort, operation: OperationTable
    ) -> list[Outcome]:
        assert operation.topic is not None, operation
        assignment = tuple([tuple(replicas) for replicas in operation.assignment])
        wanted = CreatePartitionsTopic(operation.topic, operation.partitions, assignment)
        answer = await port.call("admin.create_partitions", (wanted,))
        return [(name, error, message or f"{wanted.count} partitions")
                for name, error, message in answer.results]  # fmt: skip

    async def _delete_topic(self, port: ClientPort, operation: OperationTable) -> list[Outcome]:
        answer = await port.call("admin.delete_topics", ((operation.topic, ""),))
        return [(name, error, message) for name, _, error, message in answer.results]

    async def _delete_records(self, port: ClientPort, operation: OperationTable) -> list[Outcome]:
        offsets = tuple([(tp, operation.offset) for tp in self._partitions(operation)])
        results = await port.call("admin.delete_records", offsets)
        return [(str(tp), error, f"low watermark {low}") for tp, low, error in results]

    async def _add_voter(self, port: ClientPort, operation: OperationTable) -> list[Outcome]:
        assert operation.node is not None, operation
        voter, directory_id, address = self.cluster.voter(operation.node)
        answer = await port.call("admin.add_raft_voter", voter, directory_id, address)
        return [(operation.node, answer.error, f"voter {voter}")]

    async def _remove_voter(self, port: ClientPort, operation: OperationTable) -> list[Outcome]:
        """Remove a voter by its id and the directory id that the quorum has for it, if it has."""
        assert operation.node is not None, operation
        voter, directory_id, _ = self.cluster.voter(operation.node)
        quorum = await port.call("admin.describe_quorum")
        known = {replica.id: replica.directory_id for replica in quorum.voters}
        directory_id = known.get(voter) or directory_id  # "" of a static quorum
        answer = await port.call("admin.remove_raft_voter", voter, directory_id)
        return [(operation.node, answer.error, f"voter {voter}")]

    async def _reset_offsets(self, port: ClientPort, operation: OperationTable) -> list[Outcome]:
        to = OFFSETS.get(str(operation.to))
        to = int(operation.to) if to is None else to
        given: tuple[Any, ...] = (operation.group, (operation.topic,), to)
        if operation.by_duration is not None:
            given += ((port.wall_us - operation.by_duration) // 1000,)
        results = await port.call("admin.reset_offsets", *given)
        return [(f"{operation.group} {tp}", error, f"to {offset}") for tp, offset, error in results]

    async def _delete_offsets(self, port: ClientPort, operation: OperationTable) -> list[Outcome]:
        tps, group = tuple(self._partitions(operation)), str(operation.group)
        error, results = await port.call("admin.delete_offsets", group, tps)
        if error:
            return [(group, error, "")]
        return [(f"{group} {tp}", results[tp], "") for tp in sorted(results)]

    async def _delete_group(self, port: ClientPort, operation: OperationTable) -> list[Outcome]:
        error, _ = await port.call("admin.delete_group", operation.group)
        return [(str(operation.group), error, "")]

    async def _abort_hanging(self, port: ClientPort, operation: OperationTable) -> list[Outcome]:
        """Find transactions that no coordinator will end, and abort them (TransactionsCommand)."""
        open_for_ms = operation.open_for // 1000
        tps = tuple(self._partitions(operation))
        port.record(facts.HangingSought(str(operation.topic)))
        hanging = await port.call("admin.find_hanging_transactions", tps, open_for_ms)
        outcomes = []
        for tp, state in hanging:
            producer = (state.producer_id, state.producer_epoch)
            epoch = max(state.coordinator_epoch, 0)  # there may have been no marker yet
            topic_id = self.cluster.clients.control.topic_ids[tp.topic]
            hole = ("unlisted-id", topic_id, tp.partition, "", "", state.producer_id)
            port.record(facts.HoleEntered(*hole))
            error = await port.call("admin.abort_transaction", tp, *producer, epoch)
            told = f"producer {producer[0]}, open since {state.current_txn_start_offset}"
            outcomes.append((str(tp), error, told))
        return outcomes or [(str(operation.topic), Errors.NONE, "no hanging transaction")]


def _summary(target: str, outcomes: list[Outcome]) -> list[Outcome]:
    """Return the outcomes that failed, and one that sums up the successes."""
    failed = [outcome for outcome in outcomes if outcome[1] is not Errors.NONE]
    if len(well := [outcome for outcome in outcomes if outcome[1] is Errors.NONE]) == 1:
        return [*failed, *well]
    return [*failed, (target, Errors.NONE, f"{len(well)} of {len(outcomes)}")] if well else failed


def _row(outcome: Outcome) -> tuple[str, str, str]:
    return outcome[0], outcome[1].name, outcome[2]
