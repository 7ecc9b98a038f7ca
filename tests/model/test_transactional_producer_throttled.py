"""A transactional producer above its quota: a node that asks to wait gets nothing meanwhile.

NetworkClient.canSendRequest, NetworkClientUtils.awaitReady, Sender.awaitNodeReady (KIP-219).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafkasim.model.client.net.connections import Connections
from kafkasim.model.facts import TransactionEnded
from kafkasim.model.messages import MetadataRequest, ProduceRequest
from tests.model.client_harness import Harness
from tests.model.transactional_broker import TransactionalCluster, send, transactional

END = "EndTxn commit v2 epoch 0"


class ThrottlingCluster(TransactionalCluster):
    """broker-1 coordinates the id and leads partition 1; Produce exceeds the quota."""

    def __init__(self, throttle_ms: int) -> None:
        super().__init__()
        self.throttle_ms = throttle_ms

    def produce(self, node: str, message: ProduceRequest) -> Any:
        return replace(super().produce(node, message), throttle_time_ms=self.throttle_ms)


def producer(throttle_ms: int) -> tuple[ThrottlingCluster, Harness, int]:
    """Return a producer that has an answer with a throttle time, and when it may send again."""
    cluster = ThrottlingCluster(throttle_ms)
    h = transactional(cluster, request_timeout_ms=2000, metadata_recovery_strategy="none")
    h.result("begin_transaction")
    send(h, 1, 1)
    while cluster.wire != ["Produce t-1 epoch 0 seq 0 v2"]:
        h.step(h.now + 1_000_000)
    h.run(5)
    until = connections(h).channel(1, "broker-1").throttled_until
    assert h.now - 10_000 < until - throttle_ms * 1000 <= h.now
    cluster.wire.clear()
    return cluster, h, until


def connections(h: Harness) -> Connections:
    found: Connections = h.process.clients["c"].metadata.connections  # type: ignore[union-attr]
    return found


def test_a_commit_waits_until_the_node_takes_requests_again() -> None:
    cluster, h, until = producer(1500)
    h.call("commit_transaction")
    h.run((until - h.now) // 1000 - 1)
    assert cluster.wire == []
    h.run(50)
    assert cluster.wire == [END]
    assert [fact.outcome for fact in h.of(TransactionEnded)] == ["committed"]


def test_a_commit_that_waits_for_the_request_timeout_looks_its_coordinator_up() -> None:
    cluster, h, until = producer(3000)
    h.call("commit_transaction")
    h.run(1990)
    assert cluster.wire == []
    h.run(30)
    assert cluster.wire == ["FindCoordinator tx"]
    h.run((until - h.now) // 1000 - 1)
    assert cluster.wire == ["FindCoordinator tx"]
    h.run(200)
    assert cluster.wire == ["FindCoordinator tx", END]


def test_a_commit_waits_no_more_for_a_node_whose_connection_is_gone() -> None:
    cluster, h, until = producer(1500)
    h.reset("broker-0")
    h.call("commit_transaction")
    h.run(100)
    assert cluster.wire == []
    h.reset("broker-1")
    h.run(500)
    assert cluster.wire == ["FindCoordinator tx"]
    h.run((until - h.now) // 1000 - 1)
    assert cluster.wire == ["FindCoordinator tx"]
    h.run(300)
    assert cluster.wire == ["FindCoordinator tx", "ApiVersions", END]  # a new connection


def test_metadata_is_not_asked_from_a_node_that_asks_to_wait() -> None:
    """If all do, the request waits for the first that takes requests again."""
    cluster, h, until = producer(1500)
    assert asked(cluster, h, 100) == ["broker-0"]
    connections(h).channel(0, "broker-0").throttle(5000, h.now)
    assert asked(cluster, h, (until - h.now) // 1000 - 1) == []
    h.run(50)
    assert [node for node, _ in cluster.seen] == ["broker-1"]


def asked(cluster: ThrottlingCluster, h: Harness, ms: int) -> list[str]:
    """Return which brokers an update of metadata asks within a time."""
    del cluster.seen[:]
    h.process.clients["c"].metadata.request_update(h.now)  # type: ignore[union-attr]
    h.drain()
    h.run(ms)
    assert all(type(message) is MetadataRequest for _, message in cluster.seen), cluster.seen
    return [node for node, _ in cluster.seen]
