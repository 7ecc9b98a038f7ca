"""Fetch from the closest replica (KIP-392): the leader's choice, the follower, the client."""

from __future__ import annotations

from typing import Any

from kafkasim.model.client.consumer.subscription import FetchState
from kafkasim.model.config import ConsumerConfig
from kafkasim.model.controller.common.image import BrokerImage
from kafkasim.model.effects import Request
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import PreferredReadReplica, ReadServed
from kafkasim.model.messages import (
    FetchPartition,
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
)
from kafkasim.model.records import Record, TopicPartition, assigned, batch_of
from kafkasim.model.replication.rules import ReplicationRules
from tests.model.client_harness import Cluster, Harness
from tests.model.replica_harness import TOPIC_ID, TP, Trio, registration

RACK_AWARE = {"replica_selector_class": "RackAwareReplicaSelector"}


def racked(rules: ReplicationRules | None = None, **settings: Any) -> Trio:
    """Leader 1 in rack a, 2 in rack b, 3 in rack b; two committed records."""
    trio = Trio(rules, **(settings or RACK_AWARE))
    for node in trio.nodes.values():
        for broker, rack in ((1, "a"), (2, "b"), (3, "b")):
            node.image.brokers[broker] = BrokerImage(
                broker, broker, "", f"broker-{broker}", rack, False, False
            )
    trio.tell()
    trio.settle()
    trio.produce(1, 10)
    trio.produce(1, 11)
    trio.settle()
    return trio


def consume(
    trio: Trio, node: int, offset: int, rack: str = "b", wait_ms: int = 0, epoch: int = 1
) -> int:
    asked = FetchPartition(TP, TOPIC_ID, offset, -1, epoch, -1, 1 << 20)
    request = FetchRequest(-1, -1, wait_ms, 1, 1 << 20, 0, (asked,), rack_id=rack)
    trio.calls += 1
    trio.nodes[node].handle(Request(900_000 + trio.calls, 1, request, trio.now), trio.now)
    trio.drain(node)
    return trio.calls


def test_a_follower_refuses_a_consumer_that_knows_no_racks() -> None:
    trio = racked()
    asked = FetchPartition(TP, TOPIC_ID, 0, -1, -1, -1, 1 << 20)
    for node, error in ((2, Errors.NOT_LEADER_OR_FOLLOWER), (1, NONE)):
        request = FetchRequest(-1, -1, 0, 1, 1 << 20, 0, (asked,), rack_id=None)
        trio.calls += 1
        trio.nodes[node].handle(Request(900_000 + trio.calls, 1, request, trio.now), trio.now)
        trio.drain(node)
        assert answer(trio, trio.calls).error is error


def answer(trio: Trio, call: int) -> FetchPartitionResponse:
    found: FetchPartitionResponse = trio.answers[call].partitions[0]
    return found


def test_the_leader_names_the_most_advanced_replica_of_the_rack() -> None:
    trio = racked()
    leader = trio.nodes[1].leader
    leader.remotes[2].leo = 1
    found = answer(trio, consume(trio, 1, 0))
    assert (found.preferred_read_replica, found.batches, found.high_watermark) == (3, (), 2)
    leader.remotes[2].leo = 2
    leader.remotes[2].last_caught_up_us = trio.now + 1
    assert answer(trio, consume(trio, 1, 0)).preferred_read_replica == 2
    for rack in ("a", "", "elsewhere"):
        found = answer(trio, consume(trio, 1, 0, rack))
        assert (found.preferred_read_replica, len(found.batches)) == (-1, 2), rack


def test_without_a_selector_nobody_is_sent_away() -> None:
    trio = racked(num_io_threads=8)
    assert answer(trio, consume(trio, 1, 0)).preferred_read_replica == -1


def test_only_live_replicas_of_the_isr_that_have_the_offset() -> None:  # B73
    trio = racked()
    leader = trio.nodes[1].leader
    leader.isr = (1, 2)
    assert answer(trio, consume(trio, 1, 0)).preferred_read_replica == 2
    leader.remotes[2].leo = 0
    assert answer(trio, consume(trio, 1, 1)).preferred_read_replica == -1
    leader.remotes[2].leo, leader.remotes[2].log_start_offset = 2, 1
    assert answer(trio, consume(trio, 1, 0)).preferred_read_replica == -1
    assert answer(trio, consume(trio, 1, 1)).preferred_read_replica == 2
    trio.nodes[1].image.brokers[2] = BrokerImage(2, 2, "", "broker-2", "b", True, False)
    assert answer(trio, consume(trio, 1, 1)).preferred_read_replica == -1


def test_the_trace_tells_of_a_read_replica_once_in_a_partition_epoch() -> None:
    trio = racked()
    for _ in range(2):
        consume(trio, 1, 0)
    trio.registration = registration(1, 1, 1, isr=(1, 2))
    trio.tell()
    for _ in range(2):
        consume(trio, 1, 0)
    told = [each for each in trio.facts if type(each[1]) is PreferredReadReplica]
    assert told == [
        (1, PreferredReadReplica(TOPIC_ID, 0, 1, 0, 2)),
        (1, PreferredReadReplica(TOPIC_ID, 0, 1, 1, 2)),
    ]


def test_the_trace_tells_of_the_first_read_after_the_loss_of_a_role() -> None:
    class LeadsOn(ReplicationRules):
        def steps_down(self) -> bool:
            return False

    for rules, epoch, leading in ((None, 2, False), (LeadsOn(), 1, True)):
        trio = racked(rules)
        for node in (1, 3, 3):
            consume(trio, node, 0)
        trio.registration = registration(2, 2, 1)
        trio.tell()
        for _ in range(2):
            consume(trio, 1, 0, epoch=epoch, rack="a")
        told = [each for each in trio.facts if type(each[1]) is ReadServed]
        assert told == [
            (3, ReadServed(TOPIC_ID, 0, 1, "Fetch", -1, False, False)),
            (1, ReadServed(TOPIC_ID, 0, epoch, "Fetch", -1, False, leading)),
        ]


def test_a_follower_serves_up_to_its_own_high_watermark() -> None:
    trio = racked()
    follower = trio.nodes[3].partition
    follower.log.high_watermark = 1
    assert [b.base_offset for b in answer(trio, consume(trio, 3, 0)).batches] == [0]
    beyond = answer(trio, consume(trio, 3, 2))
    assert (beyond.error, beyond.batches) == (NONE, ())
    assert answer(trio, consume(trio, 3, 3)).error is Errors.OFFSET_OUT_OF_RANGE
    assert answer(trio, consume(trio, 3, 0, epoch=0)).error is Errors.FENCED_LEADER_EPOCH
    assert answer(trio, consume(trio, 3, 0, epoch=2)).error is Errors.UNKNOWN_LEADER_EPOCH


def test_a_parked_consumer_wakes_when_the_follower_hears_of_the_high_watermark() -> None:
    trio = racked()
    call = consume(trio, 3, 2, wait_ms=10_000)
    trio.produce(1, 12)
    trio.settle()
    assert call not in trio.answers
    trio.advance(500_000)  # the follower's own long poll
    trio.settle()
    assert [b.base_offset for b in answer(trio, call).batches] == [2]


def test_a_new_leader_epoch_ends_the_wait_at_the_follower() -> None:
    trio = racked()
    call = consume(trio, 3, 2, wait_ms=10_000)
    trio.elect(2)
    trio.tell(3)
    assert answer(trio, call).error is Errors.FENCED_LEADER_EPOCH


def test_divergence_does_not_lend_the_leaders_high_watermark() -> None:  # B10, KAFKA-14704
    class B10(ReplicationRules):
        def follower_hw_from_diverging(self, response: FetchPartitionResponse) -> int | None:
            return response.high_watermark

    exposed = {}
    for rules in (ReplicationRules(), B10()):
        trio = racked(rules)
        log = trio.nodes[3].partition.log
        log.append_as_follower((assigned(batch_of((Record("k", 99, 50, 0),)), 2, 1),))
        fetcher = trio.nodes[3].replicas.fetchers.threads[(1, 0)]
        state = fetcher.states.fetching[TP]
        fetcher.states.move(state, 3, 1)
        seen: list[int] = []
        watermark = log.update_high_watermark

        def spy(mark: int, seen: list[int] = seen, real: Any = watermark) -> bool:
            seen.append(mark)
            return bool(real(mark))

        object.__setattr__(log, "update_high_watermark", spy)
        found = FetchPartitionResponse(TP, NONE, 3, 3, 0, (), (1, 2))
        fetcher._truncate(state, found, (1, 2), trio.now)
        exposed[type(rules).__name__] = seen
    assert exposed == {"ReplicationRules": [], "B10": [3]}


# ------------------------------------------------------------------------------------ the consumer

T0 = TopicPartition("t", 0)
BATCHES = tuple(assigned(batch_of((Record("k", n, 50, 0),)), n, 0) for n in range(3))


class Racks:
    """Leader 0 sends its readers to 1."""

    def __init__(self, **config: Any) -> None:
        self.cluster = Cluster()
        self.follower: Any = None  # what the follower answers instead of records
        self.cluster.handlers[FetchRequest] = self.fetch
        self.cluster.handlers[ListOffsetsRequest] = lambda _n, m: ListOffsetsResponse(
            (ListOffsetsPartitionResponse(m.partitions[0].tp, NONE, -1, 0, 0),)
        )
        properties = {"client.rack": "b", "auto.offset.reset": "earliest", **config}
        self.harness = Harness(ConsumerConfig.from_properties(properties), self.cluster)
        self.harness.result("assign", (T0,))

    def fetch(self, node: str, request: FetchRequest) -> Any:
        asked = request.partitions[0]
        assert request.rack_id == "b"
        if node == "broker-1":
            if self.follower is not None:
                return self.follower(asked)
            batches = BATCHES[asked.fetch_offset :][:1]
            return FetchResponse(NONE, (FetchPartitionResponse(asked.tp, NONE, 3, 3, 0, batches),))
        away = FetchPartitionResponse(asked.tp, NONE, 3, 3, 0, (), preferred_read_replica=1)
        return FetchResponse(NONE, (away,))

    def poll(self, ms: int = 20) -> list[int]:
        _, records = self.harness.result("poll", ms)
        return [offset for found in records.values() for offset, *_ in found]

    def nodes(self) -> list[str]:
        found = [node for node, message in self.cluster.seen if type(message) is FetchRequest]
        self.cluster.seen.clear()
        return found


def test_a_consumer_reads_where_it_is_sent_until_the_lease_ends() -> None:
    racks = Racks(**{"metadata.max.age.ms": 1000})
    assert racks.poll() == [0]
    assert racks.nodes() == ["broker-0", "broker-1"]
    racks.harness.run(1100)
    racks.poll()
    racks.poll()
    assert "broker-0" in racks.nodes()


def test_out_of_range_at_the_follower_goes_back_to_the_leader_first() -> None:
    racks = Racks()
    racks.follower = lambda asked: FetchResponse(
        NONE, (FetchPartitionResponse(asked.tp, Errors.OFFSET_OUT_OF_RANGE, -1, -1, -1, ()),)
    )
    racks.poll()
    consumer: Any = racks.harness.process.clients["c"]
    state = consumer.subscription.assignment[T0]
    assert (state.state, state.position) == (FetchState.FETCHING, 0)
    assert racks.nodes()[:3] == ["broker-0", "broker-1", "broker-0"]


def test_a_lost_connection_goes_back_to_the_leader() -> None:
    racks = Racks()
    racks.follower = lambda _asked: None
    racks.poll()
    racks.harness.reset("broker-1")
    racks.nodes()
    racks.poll()
    assert racks.nodes()[:1] == ["broker-0"]
