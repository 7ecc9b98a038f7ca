"""The operator and the producers of a schedule on real Kafka, over the wire."""

from __future__ import annotations

import math
import random
import threading
import time
from collections.abc import Callable, Sequence
from typing import Any

from kafkasim.model import messages as m
from kafkasim.model.client.producer.partitioner import partition_for_key
from kafkasim.model.errors import Errors
from kafkasim.model.messages.clients.admin import BROKER, TOPIC
from kafkasim.model.records import Record, TopicPartition, batch_of
from kafkasim.scenarios.applications.records.source import key_source
from kafkasim.scenarios.language.tables import OperationTable, Scenario, TopicTable
from kafkasim.scenarios.language.vocabulary import ALL_BROKERS
from kafkasim.scenarios.running.operations import PREFERRED, UNCLEAN, properties_text
from kafkasim.scenarios.running.operators.features import UPGRADE_TYPES
from tests.fidelity.adapter import VERSIONS, from_wire, to_wire
from tests.fidelity.playing.nodes import Nodes
from tests.fidelity.real_kafka import NoKafka
from tests.fidelity.wire import Connection, Schemas

TIMEOUT_SECONDS = 20.0

UNKNOWN_COORDINATOR = {Errors.NOT_COORDINATOR, Errors.COORDINATOR_LOAD_IN_PROGRESS}
"""Errors after which a client looks the coordinator up again."""

Outcome = tuple[str, Errors]


class Operator:
    """Asks brokers for what a schedule's operations say, and keeps their answers."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self.schemas = Schemas(next(nodes.libs.glob("kafka-clients-*.jar")))
        self.answers: list[str] = []

    def ask(self, broker: int, message: m.Message, timeout: float = TIMEOUT_SECONDS) -> Any:
        """Return a broker's answer, or None if it gave none in time."""
        api, body = to_wire(message)
        try:
            connection = Connection(self.schemas, self.nodes.ports[broker][1], timeout)
            try:
                answer = connection.ask(api, body, VERSIONS[api])
            finally:
                connection.close()
        except OSError:
            return None
        return None if answer is None else from_wire(message, answer, {})

    def ask_any(self, message: m.Message) -> Any:
        """Return the answer of the first broker that gives one."""
        for name in self.nodes.answering():
            answer = self.ask(self.nodes.brokers[name], message)
            if answer is not None:
                return answer
        return None

    def create_topics(self, topics: Sequence[TopicTable]) -> None:
        """Create the schedule's topics once all brokers are unfenced."""
        self.wait_until_converged(60.0)
        wanted = []
        for topic in topics:
            assert topic.assignment, f"{topic.name}: Kafka draws replicas, so a schedule gives them"
            assignment = tuple(tuple(replicas) for replicas in topic.assignment)
            settings = properties_text(topic.config)
            wanted.append(m.CreatableTopic(topic.name, -1, -1, assignment, settings))
        if wanted:
            answer = self.ask_any(m.CreateTopicsRequest(tuple(wanted), 10_000))
            assert all(error is Errors.NONE for _, error, _ in answer.results), answer

    def wait_until_converged(self, seconds: float) -> None:
        """Wait until every broker is unfenced and every ISR full, as each broker sees it.

        Raises:
            NoKafka: it does not happen in that time.
        """
        end = time.monotonic() + seconds
        while not all(self._is_well(broker) for broker in self.nodes.brokers.values()):
            if time.monotonic() > end:
                raise NoKafka(f"the cluster has not converged within {seconds:.0f} s")
            time.sleep(0.2)

    def _is_well(self, broker: int) -> bool:
        answer = self.ask(broker, m.MetadataRequest(None), 5.0)
        if answer is None or len(answer.brokers) < len(self.nodes.brokers):
            return False
        partitions = [each for topic in answer.topics for each in topic.partitions]
        return all(each.leader >= 0 and set(each.isr) == set(each.replicas) for each in partitions)

    def serves(self, name: str) -> bool:
        """Return whether a node is up: a controller listens, a broker answers."""
        if not self.nodes.listens(name):
            return False
        broker = self.nodes.brokers.get(name)
        return broker is None or self.ask(broker, m.MetadataRequest(()), 1.0) is not None

    def leader(self, partition: str) -> int:
        """Return the leader of ``topic-number``."""
        topic, _, number = partition.rpartition("-")
        answer = self.ask_any(m.MetadataRequest((topic,), False))
        return next(
            int(each.leader)
            for each in answer.topics[0].partitions
            if each.partition == int(number)
        )

    # ------------------------------------------------------------------------------- operations

    def call(self, operation: OperationTable) -> None:
        """Carry out one operation and keep its answer."""
        outcomes = _CALLS[operation.kind](self, operation)
        assert len(outcomes) == 1, "a schedule's operation names one partition"
        target, error = outcomes[0]
        self.answers.append(f"answer to {operation.kind} {target}: {error.name}")

    def _partitions(self, operation: OperationTable) -> tuple[TopicPartition, ...]:
        assert operation.topic is not None, operation
        if operation.partition is not None:
            return (TopicPartition(operation.topic, operation.partition),)
        answer = self.ask_any(m.MetadataRequest((operation.topic,), False))
        numbers = sorted(each.partition for each in answer.topics[0].partitions)
        return tuple(TopicPartition(operation.topic, number) for number in numbers)

    def _elect_leader(self, operation: OperationTable) -> list[Outcome]:
        kind = UNCLEAN if operation.election == "unclean" else PREFERRED
        wanted = None if operation.topic is None else self._partitions(operation)
        answer = self.ask_any(m.ElectLeadersRequest(kind, wanted, 15_000))
        results = [(str(tp), error) for tp, error in sorted(answer.results)]
        return results or [("all", answer.error)]

    def _reassign(self, operation: OperationTable) -> list[Outcome]:
        replicas = None if operation.cancel else tuple(operation.replicas)
        wanted = tuple(m.ReassignablePartition(tp, replicas) for tp in self._partitions(operation))
        answer = self.ask_any(m.AlterPartitionReassignmentsRequest(wanted, 15_000))
        return [(str(tp), error) for tp, error, _ in answer.results]

    def _alter_config(self, operation: OperationTable) -> list[Outcome]:
        changes: list[tuple[str, str | None]] = [*properties_text(operation.config)]
        changes += [(key, None) for key in operation.remove]
        kind, name, asked = TOPIC, operation.topic or "", None
        if operation.node is not None:
            kind = BROKER
            name = "" if operation.node == ALL_BROKERS else operation.node.rpartition("-")[2]
            asked = int(name) if name else None
        resource = m.AlterableConfig(kind, name, tuple(changes))
        request = m.IncrementalAlterConfigsRequest((resource,))
        answer = self.ask_any(request) if asked is None else self.ask(asked, request)
        return [(f"{of}:{name}", error) for of, name, error, _ in answer.results]

    def _create_topic(self, operation: OperationTable) -> list[Outcome]:
        assert operation.topic is not None, operation
        assert operation.assignment, operation
        assignment = tuple(tuple(replicas) for replicas in operation.assignment)
        settings = properties_text(operation.config)
        wanted = m.CreatableTopic(operation.topic, -1, -1, assignment, settings)
        answer = self.ask_any(m.CreateTopicsRequest((wanted,), 15_000))
        return [(topic, error) for topic, error, _ in answer.results]

    def _create_partitions(self, operation: OperationTable) -> list[Outcome]:
        assert operation.topic is not None, operation
        assert operation.assignment, operation
        assignment = tuple(tuple(replicas) for replicas in operation.assignment)
        wanted = m.CreatePartitionsTopic(operation.topic, operation.partitions, assignment)
        answer = self.ask_any(m.CreatePartitionsRequest((wanted,), 15_000))
        return [(topic, error) for topic, error, _ in answer.results]

    def _delete_topic(self, operation: OperationTable) -> list[Outcome]:
        assert operation.topic is not None, operation
        answer = self.ask_any(m.DeleteTopicsRequest(((operation.topic, ""),), 15_000))
        return [(topic, error) for topic, _, error, _ in answer.results]

    def _delete_records(self, operation: OperationTable) -> list[Outcome]:
        found = []
        for tp in self._partitions(operation):
            leader = self.leader(str(tp))
            request = m.DeleteRecordsRequest(((tp, operation.offset),), 15_000)
            found += [(str(p.tp), p.error) for p in self.ask(leader, request).partitions]
        return found

    def _reset_offsets(self, operation: OperationTable) -> list[Outcome]:
        """Commit an offset for a group without members, as a consumer that is in no group does."""
        group = operation.group or ""
        offsets = tuple((tp, int(operation.to or 0), -1, "") for tp in self._partitions(operation))
        request = m.OffsetCommitRequest(group, -1, "", None, offsets)
        end = time.monotonic() + TIMEOUT_SECONDS
        while True:  # the first look-up creates the topic of the coordinators
            found = self.ask_any(m.FindCoordinatorRequest(group))
            results = []
            if found.error is Errors.NONE:
                results = self.ask(found.node_id, request).results
            if results and {error for _, error in results}.isdisjoint(UNKNOWN_COORDINATOR):
                return [(f"{group} {tp}", error) for tp, error in results]
            if time.monotonic() > end:
                raise NoKafka(f"no coordinator of {group} within {TIMEOUT_SECONDS:.0f} s")
            time.sleep(0.1)

    def _unregister_broker(self, operation: OperationTable) -> list[Outcome]:
        assert operation.node is not None, operation
        broker = int(operation.node.rpartition("-")[2])
        answer = self.ask_any(m.UnregisterBrokerRequest(broker))
        return [(operation.node, answer.error)]

    def _add_voter(self, operation: OperationTable) -> list[Outcome]:
        name, nodes = operation.node, self.nodes
        assert name is not None, operation
        voter, directory_id = nodes.controllers[name], nodes.directories.directory_id(name)
        address = f"127.0.0.1:{nodes.controller_ports[voter][0]}"
        answer = self.ask_any(m.AddRaftVoterRequest(voter, directory_id, address))
        return [(name, answer.error)]

    def _remove_voter(self, operation: OperationTable) -> list[Outcome]:
        name, nodes = operation.node, self.nodes
        assert name is not None, operation
        voter, directory_id = nodes.controllers[name], nodes.directories.directory_id(name)
        answer = self.ask_any(m.RemoveRaftVoterRequest(voter, directory_id))
        return [(name, answer.error)]

    def _update_features(self, operation: OperationTable) -> list[Outcome]:
        levels = tuple(sorted(operation.features.items()))
        kind = UPGRADE_TYPES[operation.downgrade]
        return [("features", self.ask_any(m.UpdateFeaturesRequest(levels, kind)).error)]


_CALLS: dict[str, Callable[[Operator, OperationTable], list[Outcome]]] = {
    "elect-leader": Operator._elect_leader,
    "reassign": Operator._reassign,
    "alter-config": Operator._alter_config,
    "create-topic": Operator._create_topic,
    "create-partitions": Operator._create_partitions,
    "delete-topic": Operator._delete_topic,
    "delete-records": Operator._delete_records,
    "reset-offsets": Operator._reset_offsets,
    "unregister-broker": Operator._unregister_broker,
    "add-voter": Operator._add_voter,
    "remove-voter": Operator._remove_voter,
    "update-features": Operator._update_features,
}


class ProducerThread(threading.Thread):
    """A producer that sends single records to all partitions of a topic in turn, or by their keys.

    It is no KafkaProducer: nothing is retried. A schedule needs it because replicas fall behind
    only while there are records. With keys that come in turn, these decide the partitions, and
    the producer ends after as many records as the model's sends until ``stop``. Drawn keys are left
    out.
    """

    def __init__(self, operator: Operator, workload: Any, scenario: Scenario) -> None:
        super().__init__(daemon=True)
        assert workload.kind == "producer", "a schedule's workloads are producers"
        assert workload.config.get("enable.idempotence") is False, "producers are not idempotent"
        self.ended = threading.Event()
        self._operator = operator
        self._topic = workload.topic or scenario.topics[0].name
        self._pause = 1.0 / workload.rate
        self._acks = -1 if str(workload.config.get("acks", "all")) in ("all", "-1") else 1
        self._first = workload.start / 1e6
        self._last = scenario.duration / 1e6 if workload.stop is None else workload.stop / 1e6
        in_turn = workload.keys.startswith("cycle:")
        self._keys = key_source(workload.keys if in_turn else "none", random.Random())
        self._left = -1  # records to be sent; below 0: until the time is over
        if in_turn:
            self._left = round(workload.rate * (self._last - self._first))
            self._last = math.inf
        self._leaders: dict[int, int] = {}
        self._connections: dict[int, Connection] = {}

    def run(self) -> None:
        """Send until the end."""
        began = time.monotonic()
        self.ended.wait(self._first)
        number = 0
        while self._left and not self.ended.is_set() and time.monotonic() < began + self._last:
            number += 1
            if not self._leaders:
                self._look_up()
            else:
                self._left -= 1
                if not self._send(number):
                    self._leaders.clear()
            self.ended.wait(self._pause)
        for connection in self._connections.values():
            connection.close()

    def _look_up(self) -> None:
        answer = self._operator.ask_any(m.MetadataRequest((self._topic,), False))
        if answer is not None:
            self._leaders = {each.partition: each.leader for each in answer.topics[0].partitions}

    def _send(self, number: int) -> bool:
        """Send one record; return whether the leader took it."""
        key, partition = self._keys(), sorted(self._leaders)[number % len(self._leaders)]
        if key is not None:
            partition = partition_for_key(key.encode(), len(self._leaders))
        leader = self._leaders[partition]
        if leader < 0:
            return False
        batch = batch_of((Record(key, number, 100, 0),))
        tp = TopicPartition(self._topic, partition)
        request = m.ProduceRequest(self._acks, 1000, (m.ProducePartition(tp, batch),))
        api, body = to_wire(request)
        try:
            if leader not in self._connections:
                port = self._operator.nodes.ports[leader][1]
                self._connections[leader] = Connection(self._operator.schemas, port, 1.5)
            answer = self._connections[leader].ask(api, body, VERSIONS[api])
        except OSError:
            answer = None
        if answer is None:
            found = self._connections.pop(leader, None)
            if found is not None:
                found.close()
            return False
        return all(p.error is Errors.NONE for p in from_wire(request, answer, {}).partitions)
