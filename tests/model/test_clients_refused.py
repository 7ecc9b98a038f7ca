"""What clients do when an authorizer refuses them: what fails, and what they may try again.

Sources: Metadata.maybeThrowAnyException, AbstractHeartbeatRequestManager.onErrorResponse,
ConsumerCoordinator.OffsetFetchResponseHandler, OffsetFetcherUtils, Sender.runOnce (KAFKA-13668).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from kafkasim.model.client.exceptions import KafkaError
from kafkasim.model.client.producer.producer import producer_config
from kafkasim.model.client.rules import ClientRules
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.facts import Acked, SendFailed
from kafkasim.model.messages import (
    InitProducerIdRequest,
    InitProducerIdResponse,
    ListOffsetsPartitionResponse,
    ListOffsetsRequest,
    ListOffsetsResponse,
    MetadataRequest,
    MetadataTopic,
    OffsetFetchPartitionResponse,
    OffsetFetchRequest,
    OffsetFetchResponse,
    ProduceRequest,
)
from kafkasim.model.records import TopicPartition
from kafkasim.scenarios.variants.releases import Client28
from tests.model import test_consumer_group, test_consumer_group_member, test_producer_send
from tests.model.client_harness import Harness
from tests.model.transactional_broker import TID, TransactionalCluster, send, transactional

T0 = TopicPartition("t", 0)
TOPIC_FAILED = Errors.TOPIC_AUTHORIZATION_FAILED


def refusal(h: Harness, method: str = "poll", *args: Any) -> str:
    """Return the error that a call raises, and what it names; pass over events of rebalances."""
    result = h.result(method, *((1000,) if method == "poll" else args))
    while isinstance(result, tuple) and result[0] != "records":
        result = h.result("continue")
    assert isinstance(result, KafkaError), result
    return str(result)


def scripted(h: Harness, kind: type, *answers: Any) -> None:
    """Answer the next requests of a kind so, and then as before."""
    waiting, usual = list(answers), h.cluster.handlers[kind]
    h.cluster.handlers[kind] = lambda node, message: (
        waiting.pop(0) if waiting else usual(node, message)
    )


def test_poll_raises_for_a_topic_that_may_not_be_described_and_may_be_called_again() -> None:
    h, _ = test_consumer_group.start(records=2, metadata_max_age_ms=2000)
    brokers = h.cluster.handlers[MetadataRequest]("broker-1", MetadataRequest(()))
    refused = replace(brokers, topics=(MetadataTopic("t", "", TOPIC_FAILED, ()),))
    scripted(h, MetadataRequest, refused)
    assert refusal(h) == "TOPIC_AUTHORIZATION_FAILED: t"
    assert test_consumer_group.polled(h, 20_000) == (
        "records", {T0: ((0, 0, None, 0), (1, 1, None, 0))},
    )  # fmt: skip


def test_poll_raises_for_a_topic_whose_committed_offset_may_not_be_read() -> None:
    h, _ = test_consumer_group.start(records=1)
    part = OffsetFetchPartitionResponse(T0, -1, -1, "", TOPIC_FAILED)
    scripted(h, OffsetFetchRequest, *[OffsetFetchResponse(NONE, (part,))] * 2)
    assert refusal(h) == "TOPIC_AUTHORIZATION_FAILED: t"
    assert refusal(h) == "TOPIC_AUTHORIZATION_FAILED: t"
    assert test_consumer_group.polled(h)[1]


def test_committed_raises_what_the_coordinator_refuses() -> None:
    h, _ = test_consumer_group.start()
    test_consumer_group.polled(h, 100)
    failed = Errors.GROUP_AUTHORIZATION_FAILED
    scripted(h, OffsetFetchRequest, OffsetFetchResponse(failed, ()))
    assert refusal(h, "committed", (T0,)).startswith("GROUP_AUTHORIZATION_FAILED")


def test_poll_raises_for_a_topic_whose_offsets_may_not_be_listed() -> None:
    h, _ = test_consumer_group.start(records=1)
    part = ListOffsetsPartitionResponse(T0, TOPIC_FAILED, -1, -1, -1)
    scripted(h, ListOffsetsRequest, ListOffsetsResponse((part,)))
    assert refusal(h) == "TOPIC_AUTHORIZATION_FAILED: t"
    assert test_consumer_group.polled(h)[1]


def test_a_member_whose_topics_are_refused_stays_and_joins_once_it_may() -> None:
    h, coordinator = test_consumer_group_member.start(records=1)
    coordinator.errors = [TOPIC_FAILED, TOPIC_FAILED]
    assert refusal(h) == "TOPIC_AUTHORIZATION_FAILED: group g"
    assert refusal(h) == "TOPIC_AUTHORIZATION_FAILED: group g"
    assert test_consumer_group.polled(h, 5000)[1]


def test_a_member_whose_group_is_refused_fails_for_good() -> None:
    h, coordinator = test_consumer_group_member.start(records=1)
    coordinator.errors = [Errors.GROUP_AUTHORIZATION_FAILED]
    assert refusal(h) == "GROUP_AUTHORIZATION_FAILED: group g"
    assert test_consumer_group.polled(h, 5000) == ("records", {})


def test_an_idempotent_producer_that_is_refused_an_id_fails_its_records_and_asks_again() -> None:
    h, _ = test_producer_send.start(linger_ms=0)
    failed = Errors.CLUSTER_AUTHORIZATION_FAILED
    scripted(h, InitProducerIdRequest, InitProducerIdResponse(failed, -1, -1))
    h.call("send", "t", None, 1, 10, 0, False)
    h.run(50)
    assert [(each.record_ids, each.error) for each in h.of(SendFailed)] == [((1,), failed.name)]
    h.call("send", "t", None, 2, 10, 0, False)
    h.run(50)
    assert [each.record_ids for each in h.of(Acked)] == [(2,)]


def uninitialized(rules: ClientRules | None = None) -> Harness:
    """Return a transactional producer whose first InitProducerId is going to be refused."""
    cluster = TransactionalCluster()
    cluster.script(InitProducerIdRequest, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    config = {"transactional.id": TID, "linger.ms": 0}
    return Harness(producer_config(config), cluster, rules=rules)


def test_a_transactional_producer_that_is_refused_an_id_may_be_initialized_again() -> None:
    h = uninitialized()
    assert refusal(h, "init_transactions").startswith("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    assert h.result("init_transactions") is None
    assert h.result("begin_transaction") is None
    assert send(h, 1) is None


def test_before_3_6_the_refusal_is_fatal() -> None:
    h = uninitialized(Client28())
    refused = h.result("init_transactions")
    assert str(refused).startswith("TRANSACTIONAL_ID_AUTHORIZATION_FAILED")
    again = h.result("init_transactions")
    assert str(again).startswith("TRANSACTIONAL_ID_AUTHORIZATION_FAILED: in state FATAL_ERROR")


def test_a_transaction_fails_with_a_topic_that_may_not_be_written_and_goes_on_with_the_next() -> (
    None
):
    cluster = TransactionalCluster()
    h = transactional(cluster)
    h.result("begin_transaction")
    cluster.script(ProduceRequest, TOPIC_FAILED)
    send(h, 1)
    h.run(50)
    assert [each.error for each in h.of(SendFailed)] == [TOPIC_FAILED.name]
    assert isinstance(h.result("commit_transaction"), KafkaError)
    assert h.result("abort_transaction") is None
    assert h.result("begin_transaction") is None


def test_a_transaction_whose_transactional_id_may_not_be_written_is_the_producers_end() -> None:
    cluster = TransactionalCluster()
    h = transactional(cluster)
    h.result("begin_transaction")
    cluster.script(ProduceRequest, Errors.TRANSACTIONAL_ID_AUTHORIZATION_FAILED)
    send(h, 1)
    h.run(50)
    assert isinstance(h.result("abort_transaction"), KafkaError)
