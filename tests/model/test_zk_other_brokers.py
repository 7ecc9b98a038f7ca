"""What a broker of a ZooKeeper cluster serves although it is not the controller (KafkaApis)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.controller.zk.store.zk_data import topic_path
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
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
    FindCoordinatorRequest,
    MetadataRequest,
    ReassignablePartition,
    UpdateFeaturesRequest,
)
from tests.model.zk_cluster import SECOND, TP, ZkCluster

NONE, ELSEWHERE = Errors.NONE, Errors.NOT_CONTROLLER
MOVE = ReassignablePartition(TP, (2, 3, 1))


@pytest.fixture
def cluster() -> ZkCluster:
    cluster = ZkCluster()
    cluster.create()
    assert cluster.who()[0] == 1
    return cluster


@pytest.mark.parametrize(
    ("request_", "refused"),
    [
        (
            CreateTopicsRequest((CreatableTopic("new", 1, 3),), 1000),
            CreateTopicsResponse((("new", ELSEWHERE, ""),)),
        ),
        (
            CreatePartitionsRequest((CreatePartitionsTopic("orders", 2),)),
            CreatePartitionsResponse(NONE, (("orders", ELSEWHERE, ""),)),
        ),
        (
            DeleteTopicsRequest((("orders", ""),)),
            DeleteTopicsResponse(NONE, (("orders", "", ELSEWHERE, ""),)),
        ),
        (ElectLeadersRequest(0, None, 1000), ElectLeadersResponse(NONE, ((TP, ELSEWHERE),))),
        (
            AlterPartitionReassignmentsRequest((MOVE,)),
            AlterPartitionReassignmentsResponse(ELSEWHERE, ()),
        ),
    ],
)
def test_it_refuses_what_only_the_controller_serves(
    cluster: ZkCluster, request_: Any, refused: Any
) -> None:
    before = cluster.tree(topic_path("orders"))
    assert cluster.ask("broker-2", request_, 5 * SECOND) == refused
    cluster.step(2 * SECOND)
    assert cluster.tree(topic_path("new")) is None
    assert cluster.tree(topic_path("orders")) == before


def test_the_controller_refuses_every_feature_by_itself(cluster: ZkCluster) -> None:
    """KafkaController.processFeatureUpdates."""
    answer = cluster.operate(UpdateFeaturesRequest((("group.version", 1), ("no.such", 0))))
    assert answer.error is NONE
    refused = Errors.INVALID_REQUEST
    assert [row[:2] for row in answer.results] == [("group.version", refused), ("no.such", refused)]


def test_its_metadata_names_the_controller(cluster: ZkCluster) -> None:
    assert cluster.ask("broker-3", MetadataRequest(())).controller_id == 1
    cluster.crash("broker-1")
    cluster.step(10 * SECOND)
    assert cluster.ask("broker-3", MetadataRequest(())).controller_id == cluster.who()[0] != 1


def test_it_creates_the_topics_that_its_clients_need(cluster: ZkCluster) -> None:
    """AutoTopicCreationManager.createTopicsInZk; the controller hears of it by its watch."""
    for request in (MetadataRequest(("wanted",), True), FindCoordinatorRequest("group")):
        assert cluster.ask("broker-2", request) is not None
    cluster.step(2 * SECOND)
    assert cluster.tree(topic_path("wanted")) is not None
    assert cluster.ask("broker-3", FindCoordinatorRequest("group")).error is NONE
