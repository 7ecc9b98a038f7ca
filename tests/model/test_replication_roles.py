"""Leadership is not visible before its epoch is durable; roles and where they come from."""

from __future__ import annotations

from typing import Any

from kafkasim.model.effects import Barrier, Request, Then
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import BecameLeader
from kafkasim.model.messages import FetchPartition, FetchRequest, ProducePartition, ProduceRequest
from kafkasim.model.records import Record, batch_of
from kafkasim.model.replication.rules import ReplicationRules
from tests.model.replica_harness import TOPIC_ID, TP, Trio, registration


def begin(trio: Trio, number: int) -> list[Any]:
    """Let a node replay the present metadata; return its outbox, not carried out yet."""
    node = trio.nodes[number]
    node.adopt(trio.registration, trio.now)
    return node.out


def send(trio: Trio, number: int, message: Any) -> int:
    """Hand a request to a node on another lane, while its metadata lane waits for the disk."""
    node = trio.nodes[number]
    held, node.out[:] = list(node.out), []
    trio.calls += 1
    node.handle(Request(900_000 + trio.calls, 1, message, trio.now), trio.now)
    trio.drain(number)
    node.out[:] = held
    return trio.calls


def test_a_leader_settles_until_its_epoch_is_durable() -> None:
    trio = Trio()
    out = begin(trio, 1)
    partition = trio.nodes[1].partition
    kinds = [type(effect) for effect in out]
    assert kinds.index(Barrier) < kinds.index(Then)
    assert (partition.leading, partition.leader_epoch) == (False, 1)
    asked = FetchPartition(TP, TOPIC_ID, 0, 0, 1, -1, 1 << 20)
    fetch = send(trio, 1, FetchRequest(2, 2, 0, 1, 1 << 20, 0, (asked,)))
    data = ProducePartition(TP, batch_of((Record("k", 7, 50, 0),)))
    produce = send(trio, 1, ProduceRequest(1, 30000, (data,)))
    assert (fetch in trio.answers, produce in trio.answers) == (False, False)
    trio.drain(1)  # the disk is done
    assert partition.leading
    assert trio.answers[fetch].partitions[0].error is NONE
    assert trio.answers[produce].partitions[0].base_offset == 0
    assert [type(fact) for _, fact in trio.facts].count(BecameLeader) == 1


def test_a_leadership_that_is_overtaken_never_shows() -> None:
    trio = Trio()
    begin(trio, 1)
    asked = FetchPartition(TP, TOPIC_ID, 0, 0, 1, -1, 1 << 20)
    fetch = send(trio, 1, FetchRequest(2, 2, 0, 1, 1 << 20, 0, (asked,)))
    trio.registration = registration(2, 2, 1)
    begin(trio, 1)
    trio.drain(1)
    assert not trio.nodes[1].partition.leading
    assert trio.answers[fetch].partitions[0].error is Errors.FENCED_LEADER_EPOCH
    assert not [fact for _, fact in trio.facts if type(fact) is BecameLeader]
    assert trio.nodes[1].replicas.locks.held == {}


def test_states_may_come_from_elsewhere_than_the_metadata_log() -> None:
    trio = Trio()
    node = trio.nodes[1]
    states = {TP: (TOPIC_ID, registration(1, 1, 0))}
    assert node.replicas.roles.become_leader_or_follower(states, trio.now) == {}
    trio.drain(1)
    assert node.partition.leading
    other = {TP: ("another", registration(2, 2, 1))}
    failed = node.replicas.roles.become_leader_or_follower(other, trio.now)
    assert failed == {TP: Errors.INCONSISTENT_TOPIC_ID}
    node.replicas.roles.stop(TP, TOPIC_ID, trio.now, delete=False)
    assert (node.partition.leading, TP in node.replicas.partitions) == (False, True)
    node.replicas.roles.stop(TP, TOPIC_ID, trio.now)
    assert node.replicas.partitions == {}


def test_an_election_without_an_epoch_entry_leaves_nothing_to_ask_for() -> None:  # B07
    class B07(ReplicationRules):
        def assigns_epoch_at_election(self) -> bool:
            return False

    entries = {}
    for rules in (ReplicationRules(), B07()):
        trio = Trio(rules)
        trio.registration = registration(1, 3, 0)
        trio.tell(1)
        entries[type(rules).__name__] = trio.nodes[1].partition.log.epochs.entries
    assert entries == {"ReplicationRules": [(3, 0)], "B07": []}


def test_in_a_controlled_shutdown_a_replica_that_leaves_the_isr_is_fetched_no_more() -> None:
    """ReplicaManager.applyLocalFollowersDelta, isInControlledShutdown."""
    fetched = {}
    for shuts_down in (False, True):
        trio = Trio()
        trio.tell()
        node = trio.nodes[3]
        node.replicas.roles.in_controlled_shutdown = shuts_down
        trio.registration = registration(1, 1, 1, (1, 2))
        trio.tell()
        trio.produce(1, 7)
        trio.settle()
        fetched[shuts_down] = (len(node.replicas.fetchers.threads), len(trio.log(3)))
    assert fetched == {False: (1, 1), True: (0, 0)}
