"""Where an admin client sends its calls (LeastLoadedNodeProvider, ControllerNodeProvider)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.client.exceptions import KafkaTimeoutError
from kafkasim.model.config import ClientConfig
from kafkasim.model.errors import NONE, Errors
from kafkasim.model.messages import (
    AlterableConfig,
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsResponse,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    ElectLeadersResponse,
    IncrementalAlterConfigsRequest,
    IncrementalAlterConfigsResponse,
    ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    MetadataRequest,
    MetadataResponse,
)
from kafkasim.model.records import TopicPartition
from tests.model.client_harness import Cluster, Harness

TP = TopicPartition("t", 0)
ELSEWHERE = Errors.NOT_CONTROLLER


def deleted(error: Errors) -> DeleteTopicsResponse:
    return DeleteTopicsResponse(NONE, (("t", "", error, ""),))


@pytest.fixture
def cluster() -> Cluster:
    """Three brokers, of which broker-2 is the controller."""
    cluster = Cluster(brokers=3)
    cluster.controller = 2
    cluster.handlers[DeleteTopicsRequest] = lambda node, _: deleted(
        NONE if node == f"broker-{cluster.controller}" else ELSEWHERE
    )
    return cluster


def admin(cluster: Cluster) -> Harness:
    return Harness(ClientConfig(), cluster)


def asked(cluster: Cluster) -> list[Any]:
    """Who was asked for what, but for the broker that was asked for metadata."""
    return ["metadata" if type(m) is MetadataRequest else node for node, m in cluster.seen]


def test_metadata_is_asked_for_once_and_names_the_controller(cluster: Cluster) -> None:
    h = admin(cluster)
    assert h.result("delete_topics", (("t", ""),)) == deleted(NONE)
    assert h.result("delete_topics", (("t", ""),)) == deleted(NONE)
    assert asked(cluster) == ["metadata", "broker-2", "broker-2"]


def test_after_not_controller_the_metadata_is_asked_for_again(cluster: Cluster) -> None:
    h = admin(cluster)
    h.result("delete_topics", (("t", ""),))
    cluster.controller = 1
    assert h.result("delete_topics", (("t", ""),)) == deleted(NONE)
    assert asked(cluster) == ["metadata", "broker-2", "broker-2", "metadata", "broker-1"]


def test_a_stale_cache_leads_to_the_old_controller_again(cluster: Cluster) -> None:
    answers = [deleted(ELSEWHERE), deleted(ELSEWHERE), deleted(NONE)]
    cluster.handlers[DeleteTopicsRequest] = lambda _node, _m: answers.pop(0)
    h = admin(cluster)
    assert h.result("delete_topics", (("t", ""),)) == deleted(NONE)
    assert asked(cluster) == ["metadata", "broker-2"] * 3


def test_a_call_waits_until_metadata_names_a_controller_that_is_alive(cluster: Cluster) -> None:
    cluster.controller = 7
    h = admin(cluster)
    call = h.call("delete_topics", (("t", ""),))
    h.run(1000)
    assert call not in h.replies
    assert len(cluster.requests(MetadataRequest)) > 3
    cluster.controller = 0
    h.run(500)
    assert h.replies[call] == deleted(NONE)
    assert cluster.seen[-1][0] == "broker-0"


def test_a_call_times_out_while_there_is_no_controller_and_is_not_sent_later(
    cluster: Cluster,
) -> None:
    cluster.controller = -1
    h = admin(cluster)
    assert isinstance(h.result("delete_topics", (("t", ""),)), KafkaTimeoutError)
    assert h.now == 61_000_000  # default.api.timeout.ms
    cluster.controller = 0
    h.run(5000)
    assert cluster.requests(DeleteTopicsRequest) == []


def test_not_controller_of_an_election_is_the_answer_of_a_partition(cluster: Cluster) -> None:
    answer = ElectLeadersResponse(NONE, ((TP, ELSEWHERE),))
    cluster.handlers[ElectLeadersRequest] = lambda _node, _m: answer
    assert admin(cluster).result("elect_leaders", 0, (TP,)) == answer
    assert asked(cluster) == ["metadata", "broker-2"]


@pytest.mark.parametrize(
    ("request_type", "method", "argument", "answers"),
    [
        (
            CreateTopicsRequest,
            "create_topics",
            (CreatableTopic("n", 1, 1),),
            [CreateTopicsResponse((("n", error, ""),)) for error in (ELSEWHERE, NONE)],
        ),
        (
            CreatePartitionsRequest,
            "create_partitions",
            (CreatePartitionsTopic("t", 2),),
            [CreatePartitionsResponse(NONE, (("t", error, ""),)) for error in (ELSEWHERE, NONE)],
        ),
        (
            ListPartitionReassignmentsRequest,
            "list_partition_reassignments",
            None,
            [ListPartitionReassignmentsResponse(error, ()) for error in (ELSEWHERE, NONE)],
        ),
    ],
)
def test_not_controller_of_a_topic_or_of_the_request_is_tried_again(
    cluster: Cluster, request_type: type, method: str, argument: Any, answers: list[Any]
) -> None:
    last = answers[-1]
    cluster.handlers[request_type] = lambda _node, _m: answers.pop(0)
    found = admin(cluster).result(method, argument)
    assert found == (last.results if request_type is CreateTopicsRequest else last)
    assert asked(cluster) == ["metadata", "broker-2"] * 2


TOPIC = CreatableTopic("n", 1, 1)


def configuring(cluster: Cluster) -> tuple[AlterableConfig, IncrementalAlterConfigsResponse]:
    """Settings of a topic, and the answer of any broker to them."""
    answer = IncrementalAlterConfigsResponse(NONE, (("topic", "t", NONE, ""),))
    cluster.handlers[IncrementalAlterConfigsRequest] = lambda _node, _m: answer
    return AlterableConfig("topic", "t", (("retention.ms", "1"),)), answer


def test_metadata_comes_before_the_first_request_of_any_kind(cluster: Cluster) -> None:
    resource, answer = configuring(cluster)
    h = admin(cluster)
    assert h.result("incremental_alter_configs", (resource,)) == answer
    assert h.result("incremental_alter_configs", (resource,)) == answer
    kinds = [type(message) for _, message in cluster.seen]
    assert kinds == [MetadataRequest] + [IncrementalAlterConfigsRequest] * 2


def test_a_call_waits_until_metadata_names_brokers(cluster: Cluster) -> None:
    resource, answer = configuring(cluster)
    cluster.handlers[MetadataRequest] = lambda _node, _m: MetadataResponse((), -1, ())
    h = admin(cluster)
    call = h.call("incremental_alter_configs", (resource,))
    h.run(1000)
    assert call not in h.replies
    assert 8 < len(cluster.requests(MetadataRequest)) < 13  # every retry.backoff.ms
    cluster.handlers[MetadataRequest] = cluster.metadata
    h.run(500)
    assert h.replies[call] == answer


def test_a_call_without_metadata_times_out_and_is_not_sent_later(cluster: Cluster) -> None:
    resource, _ = configuring(cluster)
    cluster.handlers[MetadataRequest] = lambda _node, _m: None
    h = admin(cluster)
    found = h.result("incremental_alter_configs", (resource,))
    assert isinstance(found, KafkaTimeoutError)
    assert h.now == 61_000_000  # default.api.timeout.ms
    cluster.handlers[MetadataRequest] = cluster.metadata
    h.run(60_000)
    assert cluster.requests(IncrementalAlterConfigsRequest) == []


def test_topics_of_a_simulation_are_created_without_metadata(cluster: Cluster) -> None:
    answer = CreateTopicsResponse((("n", NONE, ""),))
    cluster.handlers[CreateTopicsRequest] = lambda _node, _m: answer
    h = admin(cluster)
    assert h.result("create_topics_at_once", (TOPIC,)) == answer.results
    assert h.result("create_topics", (TOPIC,)) == answer.results
    kinds = [type(message) for _, message in cluster.seen]
    assert kinds == [CreateTopicsRequest, MetadataRequest, CreateTopicsRequest]
