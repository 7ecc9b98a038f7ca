"""ControllerApis: what a broker forwards is decided by the entries of the controller's own image.

Sources: ControllerApis.scala (handleEnvelopeRequest and the handlers), KIP-590.
"""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.effects import Peer
from kafkasim.model.errors import Errors
from kafkasim.model.facts import Authorized
from kafkasim.model.messages import (
    AclBinding,
    AlterableConfig,
    CreatableTopic,
    CreateAclsRequest,
    CreateTopicsRequest,
    CreateTopicsResponse,
    DeleteTopicsRequest,
    DeleteTopicsResponse,
    ElectLeadersRequest,
    EnvelopeRequest,
    IncrementalAlterConfigsRequest,
)
from tests.model.controller_harness import Harness

NONE, TOPIC_FAILED = Errors.NONE, Errors.TOPIC_AUTHORIZATION_FAILED
MESSAGE = "Topic authorization failed."
BROKER = Peer("User:kafka", "broker-1")


def secured() -> Harness:
    """Return a controller with an authorizer; User:kafka is a super user."""
    settings: dict[str, Any] = {
        "authorizer_class_name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super_users": "User:kafka",
    }
    harness = Harness(**settings)
    harness.controller.peer_of = lambda _connection: BROKER
    return harness


@pytest.fixture
def h() -> Harness:
    return secured().activate().up(1)


def forward(h: Harness, who: str, request: Any, host: str = "host-1") -> Any:
    return h.ask(EnvelopeRequest(request, f"User:{who}", "client", host))


def allow(h: Harness, operation: str, name: str, kind: str = "topic", host: str = "*") -> None:
    entry = AclBinding(kind, name, "literal", "User:alice", host, operation, "allow")
    assert forward(h, "kafka", CreateAclsRequest((entry,))).results == ((NONE, ""),)


def test_topics_that_the_client_may_not_create_are_refused_and_the_others_created(
    h: Harness,
) -> None:
    allow(h, "create", "mine")
    asked = tuple([CreatableTopic(name, 1, 1) for name in ("mine", "other")])
    answer = forward(h, "alice", CreateTopicsRequest(asked, 1000))
    assert answer == CreateTopicsResponse(
        (("mine", NONE, ""), ("other", TOPIC_FAILED, "Authorization failed."))
    )
    denied = [each for each in h.facts_of(Authorized) if not each.allowed]
    assert [(each.principal, each.host, each.name) for each in denied] == [
        ("User:alice", "host-1", "other")
    ]


def test_create_on_the_cluster_is_create_on_every_topic(h: Harness) -> None:
    allow(h, "create", "kafka-cluster", kind="cluster")
    answer = forward(h, "alice", CreateTopicsRequest((CreatableTopic("a", 1, 1),), 1000))
    assert answer.results == (("a", NONE, ""),)


def test_the_host_of_an_entry_is_that_of_the_client_and_not_of_the_broker(h: Harness) -> None:
    allow(h, "create", "mine", host="host-1")
    request = CreateTopicsRequest((CreatableTopic("mine", 1, 1),), 1000)
    refused = forward(h, "alice", request, host="broker-1")
    assert refused.results == (("mine", TOPIC_FAILED, "Authorization failed."),)
    assert forward(h, "alice", request).results == (("mine", NONE, ""),)


def test_whether_a_topic_exists_is_told_to_whoever_may_describe_it(h: Harness) -> None:
    for name in ("seen", "hidden"):
        forward(h, "kafka", CreateTopicsRequest((CreatableTopic(name, 1, 1),), 1000))
    allow(h, "describe", "seen")
    allow(h, "describe", "missing")
    names = ("seen", "missing", "hidden", "absent")
    answer = forward(h, "alice", DeleteTopicsRequest(tuple([(name, "") for name in names])))
    assert isinstance(answer, DeleteTopicsResponse)
    assert {name: error for name, _, error, _ in answer.results} == {
        "seen": TOPIC_FAILED,
        "missing": Errors.UNKNOWN_TOPIC_OR_PARTITION,
        "hidden": TOPIC_FAILED,
        "absent": TOPIC_FAILED,
    }


def test_a_topic_is_deleted_by_its_id_with_delete_on_its_name(h: Harness) -> None:
    forward(h, "kafka", CreateTopicsRequest((CreatableTopic("mine", 1, 1),), 1000))
    topic_id = h.controller.image.topic_names["mine"]
    request = DeleteTopicsRequest((("", topic_id),))
    refused = forward(h, "alice", request)
    assert refused.results == (("", topic_id, TOPIC_FAILED, MESSAGE),)
    allow(h, "delete", "mine")
    assert [each[2] for each in forward(h, "alice", request).results] == [NONE]


def test_settings_are_refused_resource_by_resource(h: Harness) -> None:
    allow(h, "alter-configs", "kafka-cluster", kind="cluster")
    resources = (
        AlterableConfig("broker", "1", (("log.cleaner.threads", "2"),)),
        AlterableConfig("group", "g", (("consumer.session.timeout.ms", "50000"),)),
        AlterableConfig("topic", "t", (("retention.ms", "1"),)),
    )
    answer = forward(h, "alice", IncrementalAlterConfigsRequest(resources))
    assert answer.results == (
        ("broker", "1", NONE, ""),
        ("group", "g", Errors.GROUP_AUTHORIZATION_FAILED, "Group authorization failed."),
        ("topic", "t", TOPIC_FAILED, MESSAGE),
    )


def test_what_is_for_the_cluster_is_refused_as_a_whole(h: Harness) -> None:
    answer = forward(h, "alice", ElectLeadersRequest(0, None, 1000))
    assert answer.error is Errors.CLUSTER_AUTHORIZATION_FAILED
    allow(h, "alter", "kafka-cluster", kind="cluster")
    assert forward(h, "alice", ElectLeadersRequest(0, None, 1000)).error is NONE


def test_a_broker_without_cluster_action_may_not_forward(h: Harness) -> None:
    h.controller.peer_of = lambda _connection: Peer("User:mallory", "broker-1")
    answer = forward(h, "kafka", ElectLeadersRequest(0, None, 1000))
    assert answer.error is Errors.UNKNOWN_SERVER_ERROR


def test_a_controller_that_is_not_active_refuses_a_whole_request_and_no_part(h: Harness) -> None:
    h.raft.lead(2, h.now)
    h.drain()
    whole = forward(h, "alice", ElectLeadersRequest(0, None, 1000))
    assert whole.error is Errors.CLUSTER_AUTHORIZATION_FAILED
    parts = forward(h, "alice", CreateTopicsRequest((CreatableTopic("a", 1, 1),), 1000))
    assert [error for _, error, _ in parts.results] == [Errors.NOT_CONTROLLER]


def test_a_controller_that_has_loaded_nothing_decides_for_super_users_alone() -> None:
    """AuthorizerNotReadyException is no error of the protocol."""
    h = secured()
    refused = forward(h, "alice", ElectLeadersRequest(0, None, 1000))
    assert refused.error is Errors.UNKNOWN_SERVER_ERROR
    assert forward(h, "kafka", ElectLeadersRequest(0, None, 1000)).error is Errors.NOT_CONTROLLER


def test_an_entry_counts_once_it_is_committed(h: Harness) -> None:
    entry = AclBinding("cluster", "kafka-cluster", "literal", "User:alice", "*", "alter", "allow")
    envelope = EnvelopeRequest(CreateAclsRequest((entry,)), "User:kafka", "client", "host-1")
    h.send(envelope)  # written, and not committed yet
    elections = EnvelopeRequest(ElectLeadersRequest(0, None, 1000), "User:alice", "c", "host-1")
    early = h.send(elections)
    assert h.answers[early].error is Errors.CLUSTER_AUTHORIZATION_FAILED
    h.commit()
    assert forward(h, "alice", ElectLeadersRequest(0, None, 1000)).error is NONE
