"""One reader serves every fetch: bound, byte budget and minimum are the same whoever asks, whether
the fetch has a session, and whether it had to wait."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
from kafkasim.model.effects import Request, Respond, Then
from kafkasim.model.fetch_session import FINAL_EPOCH, INITIAL_EPOCH
from kafkasim.model.messages import (
    FetchPartition,
    FetchRequest,
    FetchResponse,
    ProducePartition,
    ProduceRequest,
)
from kafkasim.model.records import Record, TopicPartition, batch_of
from kafkasim.model.replication.rules import ReplicationRules
from tests.model.replica_harness import TOPIC_ID, Node, registration

PARTITIONS = (TopicPartition("t", 0), TopicPartition("t", 1))
BIG = 1 << 20


class Leader:
    """Broker 1 leads two partitions with three records each; nobody else replicates them."""

    def __init__(self, **settings: Any) -> None:
        properties = {key.replace("_", "."): value for key, value in settings.items()}
        self.node = Node(1, BrokerConfig.from_properties(properties), ReplicationRules())
        self.now = 1_000_000
        delta = MetadataDelta(self.node.image)
        for number in range(2):
            state = registration(1, 1, 0, isr=(1,), replicas=(1, 2))
            self.node.topic.partitions[number] = state
            delta.changed_partitions[(TOPIC_ID, number)] = state
        self.node.replicas.apply_delta(delta, self.now)
        for effect in [effect for effect in self.node.out if type(effect) is Then]:
            effect.handler(self.now)
        self.now += 60_000_000  # follower 2 holds the high watermark back no longer
        for value in range(3):
            self.produce(value)

    def produce(self, value: int) -> None:
        """Append a record to each partition."""
        data = tuple(
            ProducePartition(tp, batch_of((Record("k", value, 50, 0),))) for tp in PARTITIONS
        )
        self._send(ProduceRequest(1, 30_000, data))

    def _send(self, message: Any) -> Any:
        self.node.out.clear()
        self.node.handle(Request(77, 1, message, self.now), self.now)
        return self.answered()

    def answered(self) -> Any:
        """The response in the outbox, None while the request waits."""
        return next((e.message for e in self.node.out if isinstance(e, Respond)), None)

    def fetch(self, replica: int, session: bool, parked: bool, max_bytes: int) -> list[int]:
        """Fetch both partitions from the start; return how many batches each answer has."""
        asked = tuple(FetchPartition(tp, TOPIC_ID, 0, 0, 1, -1, BIG) for tp in PARTITIONS)
        epoch = INITIAL_EPOCH if session else FINAL_EPOCH
        request = FetchRequest(replica, replica, 0, 1, max_bytes, 0, asked, 0, epoch)
        if parked:  # for more bytes than there are, until its time is over
            request = replace(request, max_wait_ms=500, min_bytes=BIG)
        response = self._send(request)
        if parked:
            assert response is None
            self.now += 500_000
            while (popped := self.node.timers.pop_due(self.now)) is not None:
                self.node.timers.fire(popped[0], popped[1], self.now)
            response = self.answered()
        assert isinstance(response, FetchResponse)
        return [len(partition.batches) for partition in response.partitions]


WAYS = pytest.mark.parametrize(
    ("replica", "session"),
    [(-1, False), (2, False), (2, True)],
    ids=["consumer", "full", "session"],
)


@WAYS
@pytest.mark.parametrize("parked", [False, True], ids=["at-once", "parked"])
def test_all_fetches_share_the_budget_and_the_minimum(
    replica: int, session: bool, parked: bool
) -> None:
    """A response has at least one batch, else no more than max.bytes in all."""
    leader = Leader()
    size = leader.node.replicas.partitions[PARTITIONS[0]].log.segments[-1].batches[0].size
    found = [leader.fetch(replica, session, parked, max_bytes) for max_bytes in (1, 4 * size, BIG)]
    assert found == [[1, 0], [3, 1], [3, 3]]


@WAYS
@pytest.mark.parametrize("parked", [False, True], ids=["at-once", "parked"])
def test_fetch_max_bytes_of_the_broker_bounds_every_fetch(
    replica: int, session: bool, parked: bool
) -> None:
    """KafkaApis.handleFetchRequest: the smaller of the request's and the broker's limit."""
    leader = Leader(fetch_max_bytes=1024)
    for value in range(20):
        leader.produce(value)
    assert leader.fetch(replica, session, parked, BIG)[1] == 0


@pytest.mark.parametrize("parked", [False, True], ids=["at-once", "parked"])
def test_consumers_read_up_to_the_high_watermark_followers_up_to_the_log_end(parked: bool) -> None:
    leader = Leader()
    for partition in leader.node.replicas.partitions.values():
        partition.log.high_watermark = 2
    found = [
        leader.fetch(replica, session, parked, BIG)
        for replica, session in ((-1, False), (2, False), (2, True))
    ]
    assert found == [[2, 2], [3, 3], [3, 3]]
