"""A consumer's fetch sessions (KIP-227): its requests, and what it does when one is refused."""

from __future__ import annotations

from typing import Any

from kafkasim.model.client.rules import ClientRules
from kafkasim.model.config import ConsumerConfig
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.fetch_session import FINAL_EPOCH
from kafkasim.model.messages import (
    FetchPartitionResponse,
    FetchRequest,
    FetchResponse,
    MetadataRequest,
)
from kafkasim.model.records import Record, RecordBatch, TopicPartition
from tests.model.client_harness import Cluster, Harness
from tests.model.test_consumer_group import Group

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class Broker:
    """Both partitions are led by broker-0, which answers from a script, then not at all."""

    def __init__(self, **settings: Any) -> None:
        self.cluster = Cluster(partitions=2, brokers=1)
        Group(self.cluster, 0)
        self.answers: list[FetchResponse] = []
        self.cluster.handlers[FetchRequest] = self.fetch
        self.rules = settings.pop("rules", ClientRules())
        config = ConsumerConfig(auto_offset_reset="earliest", enable_auto_commit=False, **settings)
        self.h = Harness(config, self.cluster, self.rules)
        self.h.call("assign", (T0, T1))

    def fetch(self, _node: str, message: FetchRequest) -> FetchResponse | None:
        if message.session_epoch == FINAL_EPOCH:
            return FetchResponse(NONE, ())
        return self.answers.pop(0) if self.answers else None

    def poll(self) -> list[tuple[int, int, dict[int, int], list[int]]]:
        """Poll; return (session, epoch, offsets by partition, forgotten) of the new fetches."""
        before = len(self.cluster.requests(FetchRequest))
        self.h.result("poll", 100)
        self.h.run(5)
        return [
            (
                m.session_id,
                m.session_epoch,
                {p.tp.partition: p.fetch_offset for p in m.partitions},
                [tp.partition for _, tp in m.forgotten],
            )
            for m in self.cluster.requests(FetchRequest)[before:]
        ]


def rows(session: int, *counts: int) -> FetchResponse:
    """An answer with a partition for each count: so many records from offset 0; −1 for none."""
    found = []
    for number, count in enumerate(counts):
        if count >= 0:
            records = tuple([Record(None, value, 10, 0) for value in range(count)])
            batch = RecordBatch(0, count - 1, 0, -1, -1, -1, records, 100, 0)
            batches = (batch,) if records else ()
            tp = TopicPartition("t", number)
            found.append(FetchPartitionResponse(tp, NONE, count, count, 0, batches))
    return FetchResponse(NONE, tuple(found), session)


def test_after_a_full_fetch_only_positions_that_moved_are_named() -> None:
    broker = Broker()
    broker.answers = [rows(9, 2, 0), rows(9)]
    assert broker.poll() == [(0, 0, {0: 0, 1: 0}, []), (9, 1, {0: 2}, [])]
    assert broker.poll() == [(9, 2, {}, [])]


def test_a_paused_partition_leaves_the_session() -> None:
    broker = Broker()
    broker.answers = [rows(9, 1, 0), rows(9)]
    broker.poll()
    broker.h.call("pause", (T1,))
    assert broker.poll() == [(9, 2, {}, [1])]


def test_a_refused_session_is_opened_again() -> None:
    for error, named in (
        (Errors.FETCH_SESSION_ID_NOT_FOUND, 0),
        (Errors.INVALID_FETCH_SESSION_EPOCH, 9),
    ):
        broker = Broker()
        broker.answers = [rows(9, 0, 0), FetchResponse(error, ())]
        asked = broker.poll()
        assert asked[1:] == [(9, 1, {}, []), (named, 0, {0: 0, 1: 0}, [])]


def test_an_error_of_topic_ids_asks_for_metadata() -> None:
    broker = Broker()
    broker.answers = [rows(9, 0, 0), FetchResponse(Errors.FETCH_SESSION_TOPIC_ID_ERROR, ())]
    broker.poll()
    broker.h.run(200)
    assert len(broker.cluster.requests(MetadataRequest)) == 2


def test_a_node_is_not_fetched_from_while_records_of_it_are_buffered() -> None:
    """KAFKA-17182: the session keeps its partitions. Before 4.0 one left it at each such fetch."""

    class Before(ClientRules):
        def spares_nodes_of_buffered(self) -> bool:
            return False

    found = []
    for rules in (ClientRules(), Before()):
        broker = Broker(max_poll_records=2, rules=rules)
        broker.answers = [rows(9, 3, 0), rows(9)]
        found.append([broker.poll()[1:], broker.poll()])
    assert found == [
        [[], [(9, 1, {0: 3}, [])]],
        [[(9, 1, {}, [0])], [(9, 2, {0: 3}, [])]],
    ]


def test_what_max_poll_records_end_with_is_buffered_until_the_next_poll() -> None:
    """CompletedFetch.nextFetchedRecord has to look for another record to find that none is left."""
    broker = Broker(max_poll_records=2)
    broker.answers = [rows(9, 2, 0), rows(9)]
    assert [broker.poll()[1:], broker.poll()] == [[], [(9, 1, {0: 2}, []), (9, 2, {}, [])]]


def test_a_closed_consumer_closes_its_session() -> None:
    """KAFKA-7109: else it stays in the broker's cache until it is stale."""
    broker = Broker()
    broker.answers = [rows(9, 0, 0)]
    broker.poll()
    broker.h.result("close")
    last = broker.cluster.requests(FetchRequest)[-1]
    assert (last.session_id, last.session_epoch, last.partitions) == (9, FINAL_EPOCH, ())
