"""When a client forgets what it knows and asks bootstrap.servers again (KIP-899, KIP-1102)."""

from __future__ import annotations

from kafkasim.model.config import ProducerConfig
from kafkasim.model.errors import NONE
from kafkasim.model.facts import Acked, Rebootstrapped
from kafkasim.model.messages import (
    MetadataBroker,
    MetadataRequest,
    MetadataResponse,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import Cluster, Harness

TP = TopicPartition("t", 0)


class Moving(Cluster):
    """Three brokers in bootstrap.servers; ``live`` are those that metadata names."""

    def __init__(self) -> None:
        super().__init__(brokers=3)
        self.live = (0, 1)
        self.handlers[ProduceRequest] = self.produce

    def metadata(self, node: str, message: MetadataRequest) -> MetadataResponse:
        response = super().metadata(node, message)
        brokers = tuple(MetadataBroker(i, self.brokers[i], None) for i in self.live)
        return MetadataResponse(brokers, 0, response.topics)

    def produce(self, _node: str, message: ProduceRequest) -> ProduceResponse:
        return ProduceResponse(
            tuple(ProducePartitionResponse(p.tp, NONE, 0, -1, 0) for p in message.partitions)
        )

    def move_to_third(self) -> None:
        """Take the two known brokers down; the third leads."""
        self.down = {"broker-0": None, "broker-1": None}
        self.live = (2,)
        self.leaders[TP] = (2, 1)


def started(cluster: Moving, **properties: object) -> Harness:
    """A producer that has sent record 0."""
    more = {key.replace("_", "."): value for key, value in properties.items()}
    h = Harness(ProducerConfig.from_properties({"linger.ms": 0, **more}), cluster)
    h.call("send", "t", None, 0, 10, 0, False)
    h.run(100)
    h.cluster.seen.clear()
    return h


def lose_known_brokers(h: Harness, cluster: Moving) -> None:
    """Let the third broker take over, and send record 1 once the others are gone."""
    cluster.move_to_third()
    for address in cluster.down:
        h.reset(address)
    h.run(1)
    h.call("send", "t", None, 1, 10, 0, False)


def test_without_an_available_node_a_client_asks_the_bootstrap_servers() -> None:
    cluster = Moving()
    h = started(cluster)
    lose_known_brokers(h, cluster)
    h.run(10_000)
    assert [r.reason for r in h.of(Rebootstrapped)] == ["no-node"]
    assert [a.record_ids for a in h.of(Acked)] == [(0,), (1,)]
    assert [node for node, m in cluster.seen if type(m) is ProduceRequest] == ["broker-2"]


def test_with_strategy_none_it_asks_the_nodes_that_it_knows_forever() -> None:
    cluster = Moving()
    h = started(cluster, metadata_recovery_strategy="none", delivery_timeout_ms=400_000)
    lose_known_brokers(h, cluster)
    h.run(399_000)
    assert h.of(Rebootstrapped) == []
    assert [a.record_ids for a in h.of(Acked)] == [(0,)]
    assert cluster.seen == []


def test_a_client_that_gets_no_metadata_for_the_trigger_interval_starts_again() -> None:
    cluster = Moving()
    trigger = {"metadata_recovery_rebootstrap_trigger_ms": 45_000, "metadata_max_age_ms": 1_000}
    h = started(cluster, **trigger)
    cluster.live = (2,)
    cluster.leaders[TP] = (2, 1)
    answer = cluster.metadata
    cluster.handlers[MetadataRequest] = (  # the known brokers hang: their connections stay up
        lambda node, message: answer(node, message) if node == "broker-2" else None
    )
    begun = h.now
    while not h.of(Rebootstrapped) and h.now < begun + 60_000_000:
        h.run(100)
    # The first attempt began when the metadata, some 100 ms old by then, was a second old.
    assert 45_900_000 <= h.now - begun <= 46_000_000
    assert [r.reason for r in h.of(Rebootstrapped)] == ["trigger"]


def test_leader_epochs_outlive_a_rebootstrap() -> None:
    """Metadata.bootstrap replaces the snapshot and keeps lastSeenLeaderEpochs."""
    cluster = Moving()
    cluster.leaders[TP] = (0, 5)
    h = started(cluster)
    lose_known_brokers(h, cluster)
    cluster.leaders[TP] = (2, 4)  # broker-2 has stale metadata
    h.run(5_000)
    assert [a.record_ids for a in h.of(Acked)] == [(0,)]
    cluster.leaders[TP] = (2, 6)
    h.run(5_000)
    assert [a.record_ids for a in h.of(Acked)] == [(0,), (1,)]
