"""How long clients wait before they try again: KIP-580 and KAFKA-9800."""

from __future__ import annotations

import itertools
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from kafkasim.model.client.net.backoff import RetryBackoff
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.config import ClientConfig, ConsumerConfig, ProducerConfig
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    CreatableTopic,
    FetchRequest,
    FetchResponse,
    FindCoordinatorRequest,
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataPartition,
    MetadataRequest,
    MetadataResponse,
    MetadataTopic,
    ProducePartitionResponse,
    ProduceRequest,
    ProduceResponse,
)
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.variants.releases import Client28
from tests.model.client_harness import LATENCY_US, Cluster, Harness
from tests.model.test_consumer_group import polled, start
from tests.model.test_consumer_retries import moved, script

TP = TopicPartition("t", 0)
GROWING_MS = [100, 200, 400, 800, 1000, 1000]


class Draws:
    """A random source that always draws the same."""

    def __init__(self, draw: float) -> None:
        self.draw = draw

    def random(self) -> float:
        return self.draw


def exponential_backoff_ms(first: int, most: int, attempts: int, factor: float) -> float:
    """Calculate as ExponentialBackoff.backoff does; its attempts count from 0."""
    exponent_most = math.log(most / max(first, 1)) / math.log(2) if most > first else 0
    first = min(most, first)
    if exponent_most == 0:
        return first
    return min(factor * first * 2 ** min(attempts, exponent_most), most)


milliseconds = st.integers(0, 5000)


@given(milliseconds, milliseconds, st.integers(1, 40), st.floats(0, 1, exclude_max=True))
def test_waits_are_those_of_exponential_backoff(
    first: int, most: int, attempts: int, draw: float
) -> None:
    config = ProducerConfig(retry_backoff_ms=first, retry_backoff_max_ms=most)
    backoff = RetryBackoff(config, True, Draws(draw))  # type: ignore[arg-type]
    expected = exponential_backoff_ms(first, most, attempts - 1, 0.8 + 0.4 * draw)
    assert abs(backoff.after_us(attempts) - expected * 1000) <= 1


@given(milliseconds, milliseconds, st.integers(1, 40))
def test_before_kip_580_each_wait_is_the_first(first: int, most: int, attempts: int) -> None:
    config = ProducerConfig(retry_backoff_ms=first, retry_backoff_max_ms=most)
    backoff = RetryBackoff(config, Client28().backs_off_exponentially(), Draws(0.9))  # type: ignore[arg-type]
    assert backoff.after_us(attempts) == first * 1000


class Leaderless(Cluster):
    """A cluster that knows no leader of its one partition, and when it was asked."""

    def __init__(self) -> None:
        super().__init__(brokers=2)
        self.leaders[TP] = (-1, 0)
        self.error = Errors.LEADER_NOT_AVAILABLE
        self.host: Harness | None = None
        self.asked_us: list[int] = []
        self.handlers[ProduceRequest] = lambda _node, message: ProduceResponse(
            tuple(ProducePartitionResponse(p.tp, NONE, 0, -1, 0) for p in message.partitions)
        )

    def metadata(self, node: str, message: MetadataRequest) -> MetadataResponse:
        if self.host is not None:
            self.asked_us.append(self.host.now)
        response = super().metadata(node, message)
        leader, epoch = self.leader(TP)
        error = self.error if leader < 0 else NONE
        part = MetadataPartition(0, error, leader, epoch, (0, 1), (0, 1), ())
        topics = (MetadataTopic("t", "id-t", NONE, (part,)),)
        return MetadataResponse(response.brokers, 0, topics if response.topics else ())

    def elect(self, leader: int) -> None:
        self.leaders[TP] = (leader, self.leader(TP)[1] + 1)


def producing(rules: ClientRules | None = None, **config: Any) -> tuple[Harness, Leaderless]:
    """Send a record to a partition without a leader."""
    cluster = Leaderless()
    h = Harness(ProducerConfig(linger_ms=0, enable_idempotence=False, **config), cluster, rules)
    cluster.host = h
    h.call("send", "t", None, 0, 10, 0, False)
    return h, cluster


def gaps_ms(cluster: Leaderless) -> list[float]:
    """The milliseconds between two requests for metadata, less their two latencies."""
    asked = cluster.asked_us
    return [(b - a - 2 * LATENCY_US) / 1000 for a, b in itertools.pairwise(asked)]


def within(waits: list[float], expected: list[int], jitter: float = 0.2) -> bool:
    """Whether waits are as expected, in milliseconds; no wait is longer than a second."""
    return len(waits) >= len(expected) and all(
        (1 - jitter) * middle - 1 <= wait <= min((1 + jitter) * middle, 1000) + 1
        for wait, middle in zip(waits, expected)
    )


def test_metadata_that_tells_nothing_new_is_asked_for_ever_more_seldom() -> None:
    """Metadata.timeToAllowUpdate: the first answer told a new epoch, those after it nothing."""
    h, cluster = producing()
    h.run(6000)
    assert within(gaps_ms(cluster), [100, *GROWING_MS]), gaps_ms(cluster)


def test_the_producer_finds_a_new_leader_at_the_next_request_for_metadata() -> None:
    h, cluster = producing()
    h.run(3000)
    cluster.elect(1)
    before = len(cluster.asked_us)
    h.run(700)
    waited = cluster.asked_us[before] - cluster.asked_us[before - 1]
    assert 800_000 <= waited <= 1_002_000
    assert len(cluster.requests(ProduceRequest)) == 1


def test_a_new_leader_epoch_begins_the_count_anew() -> None:
    """Metadata.updateLatestMetadata sets equivalentResponseCount to 0."""
    h, cluster = producing()
    h.run(3500)
    cluster.elect(-1)  # a new epoch, and still no leader
    before = len(cluster.asked_us)
    h.run(3000)
    assert within(gaps_ms(cluster)[before:], [100, 100, 200, 400]), gaps_ms(cluster)


def test_a_request_for_something_new_begins_the_count_anew() -> None:
    """Metadata.requestUpdate(true)."""
    h, cluster = producing()
    h.run(3500)
    before = len(cluster.asked_us)
    h.process.clients["c"].metadata.request_update(h.now, fresh=True)  # type: ignore[union-attr]
    h.drain()
    h.run(1500)
    assert within(gaps_ms(cluster)[before:], [100, 200, 400]), gaps_ms(cluster)


def test_before_kip_580_metadata_is_asked_for_at_one_pace() -> None:
    h, cluster = producing(Client28(), retry_backoff_ms=150)
    h.run(1550)
    assert gaps_ms(cluster)[1:] == [150] * 9  # the first connection was still to be opened


def test_requests_for_metadata_that_fail_wait_longer_and_those_after_begin_anew() -> None:
    """Metadata.failedUpdate. An answer without brokers is one that failed."""
    h, cluster = producing()
    h.run(3500)
    cluster.handlers[MetadataRequest] = lambda node, m: MetadataResponse(
        (), -1, cluster.metadata(node, m).topics
    )
    before = len(cluster.asked_us)
    h.run(4000)
    assert within(gaps_ms(cluster)[before:], [*GROWING_MS[:5]]), gaps_ms(cluster)


def test_an_admin_client_asks_for_metadata_at_one_pace() -> None:
    """AdminMetadataManager.delayBeforeNextAttemptMs: refreshBackoffMs, without jitter."""
    cluster = Leaderless()
    cluster.controller = -1
    h = Harness(ClientConfig(), cluster)
    cluster.host = h
    nobody = lambda node, m: MetadataResponse(cluster.metadata(node, m).brokers, -1, ())  # noqa: E731
    cluster.handlers[MetadataRequest] = nobody
    h.call("create_topics", (CreatableTopic("n", 1, 1),))
    h.run(1000)
    assert set(gaps_ms(cluster)[1:]) == {100}  # the first connection was still to be opened
    assert len(cluster.asked_us) == 10


def test_what_is_asked_for_during_a_request_its_answer_tells() -> None:
    """Metadata.update takes back needFullUpdate."""
    cluster = Cluster(brokers=2)
    h = Harness(ConsumerConfig(), cluster)
    h.call("assign", (("t", 0),))
    metadata = h.process.clients["c"].metadata  # type: ignore[union-attr]
    metadata.request_update(h.now)
    h.run(5)
    assert len(cluster.requests(MetadataRequest)) == 1
    h.run(1000)
    assert len(cluster.requests(MetadataRequest)) == 1


def test_a_topic_that_came_during_a_request_for_metadata_is_asked_for_at_once() -> None:
    """ProducerMetadata.requestUpdateForTopic."""
    cluster = Cluster(brokers=2)
    cluster.topics["u"] = 1
    cluster.handlers[ProduceRequest] = lambda _node, message: ProduceResponse(
        tuple(ProducePartitionResponse(p.tp, NONE, 0, -1, 0) for p in message.partitions)
    )
    h = Harness(ProducerConfig(linger_ms=0), cluster)
    h.call("send", "t", None, 0, 10, 0, False)
    h.call("send", "u", None, 1, 10, 0, False)
    h.run(10)
    assert [m.topics for m in cluster.requests(MetadataRequest)] == [("t",), ("t", "u")]
    assert sum(len(m.partitions) for m in cluster.requests(ProduceRequest)) == 2


def test_a_producer_asks_for_its_id_at_one_pace() -> None:
    """TransactionManager.TxnRequestHandler.retryBackoffMs."""
    cluster = Cluster(brokers=1)
    asked: list[int] = []

    def refuse(_node: str, _message: InitProducerIdRequest) -> InitProducerIdResponse:
        asked.append(h.now)
        return InitProducerIdResponse(Errors.COORDINATOR_LOAD_IN_PROGRESS, -1, -1)

    cluster.handlers[InitProducerIdRequest] = refuse
    h = Harness(ProducerConfig(linger_ms=0), cluster)
    h.call("send", "t", None, 0, 10, 0, False)
    h.run(2000)
    waits = [b - a - 2 * LATENCY_US for a, b in itertools.pairwise(asked)]
    assert set(waits) == {100_000}
    assert len(waits) > 15


def test_the_waits_of_a_batch_grow() -> None:
    """RecordAccumulator.shouldBackoff."""
    cluster = Cluster(brokers=1)
    sent: list[int] = []

    def refuse(_node: str, message: ProduceRequest) -> ProduceResponse:
        sent.append(h.now)
        error = Errors.NOT_ENOUGH_REPLICAS
        parts = tuple(ProducePartitionResponse(p.tp, error, -1, -1, 0) for p in message.partitions)
        return ProduceResponse(parts)

    cluster.handlers[ProduceRequest] = refuse
    h = Harness(ProducerConfig(linger_ms=0), cluster)
    h.call("send", "t", None, 0, 10, 0, False)
    h.run(6000)
    waits = [(b - a - 2 * LATENCY_US) / 1000 for a, b in itertools.pairwise(sent)]
    assert within(waits, GROWING_MS), waits


def test_an_offset_is_looked_up_at_one_pace() -> None:
    """OffsetFetcherUtils.onSuccessfulRequestForResettingPositions adds retryBackoffMs."""
    cluster = Cluster(brokers=1)
    asked: list[int] = []

    def refuse(_node: str, _message: ListOffsetsRequest) -> ListOffsetsResponse:
        asked.append(h.now)
        part = ListOffsetsPartitionResponse(TP, Errors.LEADER_NOT_AVAILABLE, -1, -1, -1)
        return ListOffsetsResponse((part,))

    cluster.handlers[ListOffsetsRequest] = refuse
    cluster.handlers[FetchRequest] = lambda _node, _m: FetchResponse(())
    h = Harness(ConsumerConfig(auto_offset_reset="earliest"), cluster)
    h.call("assign", (("t", 0),))
    h.call("poll", 2000)
    h.run(1900)
    waits = {b - a - 2 * LATENCY_US for a, b in itertools.pairwise(asked)}
    assert (waits, len(asked) > 15) == ({100_000}, True)


# The group coordinator.


def lookups(h: Harness) -> list[int]:
    """Note when the coordinator is looked up, and always in vain."""
    asked: list[int] = []

    def refuse(_node: str, message: Any) -> Any:
        asked.append(h.now)
        return moved(message)

    h.cluster.handlers[FindCoordinatorRequest] = refuse
    return asked


def test_a_classic_member_looks_its_coordinator_up_with_new_metadata() -> None:
    """AbstractCoordinator.ensureCoordinatorReady sleeps, and then awaits metadata."""
    h, _ = start()
    asked = lookups(h)
    h.call("poll", 60_000)
    h.run(5000)
    waits = [(b - a) / 1000 for a, b in itertools.pairwise(asked)]
    assert all(wait >= 0.8 * middle for wait, middle in zip(waits, GROWING_MS)), waits
    assert len(h.cluster.requests(MetadataRequest)) == len(asked)


def test_the_next_poll_looks_the_coordinator_up_at_once() -> None:
    h, _ = start()
    asked = lookups(h)
    begun = []
    for _ in range(5):
        begun.append(h.now)
        assert polled(h, 300) == ("records", {})
    waits = [min(at for at in asked if at >= begin) - begin for begin in begun]
    assert waits[1:] == [LATENCY_US] * 4


def test_a_lookup_goes_on_until_there_is_a_coordinator() -> None:
    h, _ = start(records=1)
    script(h, FindCoordinatorRequest, *[moved] * 6)
    assert [r[0] for r in polled(h, 20_000)[1][TP]] == [0]
