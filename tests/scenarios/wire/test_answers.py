"""Faults of single requests: errors that no broker gave, late responses, lost ones."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from kafkasim.model.errors import Errors
from kafkasim.scenarios.wire.adapters.table import ADAPTERS
from kafkasim.scenarios.wire.failures import SessionError
from kafkasim.scenarios.wire.session import Session
from kafkasim.sim.apps.loop import generator_hooks
from tests.scenarios.wire.batches import ROWS, built
from tests.scenarios.wire.outside import KEYS, STRICT, Connection, booted


@pytest.fixture(scope="module")
def booted_session() -> Iterator[Session]:
    with generator_hooks():
        session = booted()
        Connection(session).create("orders")
        yield session


@pytest.fixture
def session(booted_session: Session) -> Iterator[Session]:
    yield booted_session
    booted_session.heal()


@pytest.fixture
def leader(session: Session) -> Connection:
    node = Connection(session).leader("orders")
    return Connection(session, node, "payments")


def test_the_next_requests_fail_and_no_broker_sees_them(
    session: Session, leader: Connection
) -> None:
    end = leader.produce("orders", built(ROWS))["BaseOffset"] + len(ROWS)
    table = {"api": "Produce", "error": "NOT_ENOUGH_REPLICAS", "count": 2, "topic": "orders"}
    assert session.answer(table) == "Produce: NOT_ENOUGH_REPLICAS, 2 left"
    told = [leader.produce("orders", built(ROWS)) for _ in range(3)]
    assert [row["ErrorCode"] for row in told] == [Errors.NOT_ENOUGH_REPLICAS] * 2 + [Errors.NONE]
    assert [row["BaseOffset"] for row in told] == [-1, -1, end]
    assert session.answers.waiting == []


def test_only_the_wanted_client_broker_and_topic_is_hit(
    session: Session, leader: Connection
) -> None:
    other = Connection(session, leader.leader("orders"), "billing")
    table: dict[str, Any] = {"api": "Fetch", "error": "NOT_LEADER_OR_FOLLOWER", "count": 9}
    session.answer({**table, "client": "billing", "topic": "orders"})
    session.answer({**table, "topic": "elsewhere"})
    assert leader.fetch("orders", 0, 18)["ErrorCode"] == Errors.NONE
    for version in (12, 18):  # by the topic's name, and by its id
        found = other.fetch("orders", 0, version)
        assert (found["ErrorCode"], found["HighWatermark"]) == (Errors.NOT_LEADER_OR_FOLLOWER, -1)


def test_a_late_response_comes_late_and_those_behind_it_wait(
    session: Session, leader: Connection
) -> None:
    session.answer({"api": "Metadata", "delay": "2s"})
    body = {"Topics": [], "AllowAutoTopicCreation": False}
    began = session.run.world.now
    leader.write("Metadata", body)
    leader.write("ApiVersions", {"ClientSoftwareName": "a", "ClientSoftwareVersion": "1"})
    first, second = leader.frame(), leader.frame()
    assert first is not None
    assert second is not None
    assert int.from_bytes(second[:4], "big") == int.from_bytes(first[:4], "big") + 1
    assert session.run.world.now - began >= 2_000_000


def test_a_lost_response_is_followed_by_silence_and_a_reset_ends_the_connection(
    session: Session, leader: Connection
) -> None:
    end = leader.produce("orders", built(ROWS))["BaseOffset"] + len(ROWS)
    lost = Connection(session, leader.leader("orders"), "lost")
    topic_id = lost.topic_id("orders")
    rows = [{"TopicId": topic_id, "PartitionData": [{"Index": 0, "Records": built(ROWS)}]}]
    session.answer({"api": "Produce", "lose": True, "client": "lost"})
    lost.write("Produce", {"Acks": -1, "TimeoutMs": 5000, "TopicData": rows})
    lost.write("Metadata", {"Topics": [], "AllowAutoTopicCreation": False})
    lost.run(5_000_000)
    assert (bytes(lost.received), lost.end) == (b"", None)
    assert leader.produce("orders", built(ROWS))["BaseOffset"] == end + len(ROWS)  # it was appended
    session.answer({"api": "Produce", "reset": True, "client": "payments"})
    leader.write("Produce", {"Acks": -1, "TimeoutMs": 5000, "TopicData": rows})
    assert (leader.frame(), leader.end) == (None, "reset")


def test_metadata_keeps_its_brokers(session: Session, leader: Connection) -> None:
    session.answer({"api": "Metadata", "error": "LEADER_NOT_AVAILABLE"})
    body = {"Topics": [{"Name": "orders", "TopicId": None}], "AllowAutoTopicCreation": False}
    found = leader.ask("Metadata", body)
    (topic,) = found["Topics"]
    assert (topic["ErrorCode"], len(found["Brokers"])) == (Errors.LEADER_NOT_AVAILABLE, 3)


def test_what_was_asked_is_counted_by_client(session: Session) -> None:
    one = Connection(session, client_id="counted")
    body = {"Topics": [], "AllowAutoTopicCreation": False}
    for _ in range(3):
        one.ask("Metadata", body)
    one.ask("DescribeCluster", {})
    assert session.asked()["outside/counted"] == {"Metadata": 3, "DescribeCluster": 1}


@pytest.mark.parametrize("key", sorted(set(ADAPTERS) - {KEYS["Metadata"]}))
def test_every_api_can_be_answered_with_an_error(session: Session, key: int) -> None:
    """The response has the fields of its schema, and the error, in each version."""
    adapter, fields = ADAPTERS[key], STRICT.apis[key]["request"]
    for version in range(adapter.low, adapter.high + 1):
        asked = {
            "Topics": [{"Name": "a", "Partitions": [{"PartitionIndex": 3, "Partition": 3}]}],
            "TopicData": [{"Name": "a", "PartitionData": [{"Index": 3}]}],
            "Groups": ["g"], "CoordinatorKeys": ["k"], "TopicNames": ["a"],
            "V3AndBelowTopics": [{"Name": "a", "Partitions": [3]}], "Resources": [{}],
            "Entries": [{}], "Creations": [{}], "Filters": [{}],
            "TopicPartitions": [{"Topic": "a", "Partitions": [3]}],
            "TransactionalIds": ["t"], "GroupIds": ["g"], "GroupsNames": ["g"],
        }  # fmt: skip
        named = {each["name"] for each in fields["fields"]}
        body = {name: value for name, value in asked.items() if name in named}
        error = Errors.COORDINATOR_NOT_AVAILABLE
        found = session.answers.error_body(key, version, body, error)
        assert repr(error) in repr(found), (STRICT.apis[key]["name"], version, found)
        STRICT.encode_response(key, version, 1, found)


@pytest.mark.parametrize(
    ("table", "said"),
    [
        ({"api": "Prduce", "lose": True}, "no API 'Prduce' is served; did you mean Produce"),
        ({"api": "Produce"}, "answer: give one of error, delay, lose, reset"),
        ({"api": "Produce", "lose": True, "reset": True}, "give one of"),
        ({"api": "Produce", "error": "NOT_LEADER"}, "did you mean NOT_LEADER_OR_FOLLOWER"),
        ({"api": "Produce", "lose": True, "node": "broker-9"}, "no broker 'broker-9'"),
        ({"api": "Produce", "lose": True, "count": 0}, "count: "),
        ({"api": "Produce", "delay": "soon"}, "delay: "),
        ({"api": "Produce", "lose": True, "often": 1}, "often: "),
    ],
)
def test_a_wrong_answer_is_one_line(session: Session, table: dict[str, Any], said: str) -> None:
    with pytest.raises(SessionError, match=said) as found:
        session.answer(table)
    assert "\n" not in str(found.value)
