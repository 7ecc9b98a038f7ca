"""Admin: create topics over a failing broker, describe until leaders are known."""

from __future__ import annotations

from model.config import ClientConfig
from model.errors import NONE, Errors
from model.messages import CreatableTopic, CreateTopicsRequest, CreateTopicsResponse
from model.records import TopicPartition
from tests.model.client_harness import Cluster, Harness


def test_create_topics_is_retried_and_existing_then_counts_as_created() -> None:
    cluster = Cluster()
    answers = [
        CreateTopicsResponse((("n", Errors.NOT_CONTROLLER, ""),)),
        CreateTopicsResponse((("n", Errors.TOPIC_ALREADY_EXISTS, ""),)),
    ]
    cluster.handlers[CreateTopicsRequest] = lambda _node, _m: answers.pop(0)
    h = Harness(ClientConfig(), cluster)
    assert h.result("create_topics", (CreatableTopic("n", 1, 1),)) == (("n", NONE, ""),)


def test_describe_waits_for_leaders() -> None:
    cluster = Cluster()
    cluster.leaders[TopicPartition("t", 0)] = (-1, 0)
    h = Harness(ClientConfig(), cluster)
    call = h.call("describe", ("t",))
    h.run(1000)
    assert call not in h.replies
    cluster.leaders[TopicPartition("t", 0)] = (1, 1)
    h.run(2000)
    assert h.replies[call].topics[0].partitions[0].leader == 1
