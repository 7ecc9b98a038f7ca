"""What clients meet without a privilege: Kafka's errors, of the whole request or of its parts."""

from __future__ import annotations

import re
from typing import Any

import pytest

from kafkasim.scenarios.language.library import ScenarioError, parse
from kafkasim.scenarios.running.runner import Result, run

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def scenario(
    acls: list[dict[str, Any]], workload: list[dict[str, Any]], **more: Any
) -> dict[str, Any]:
    return {
        "name": "access", "claim": "Nobody does what no entry allows.", "duration": "6s",
        "cluster": {
            "brokers": 1, "controllers": 1, "principal": "User:kafka",
            "config": {
                "authorizer.class.name": STANDARD, "super.users": "User:kafka",
                "offsets.topic.replication.factor": 1, "offsets.topic.num.partitions": 1,
                "transaction.state.log.replication.factor": 1,
                "transaction.state.log.num.partitions": 1, "transaction.state.log.min.isr": 1,
                "group.initial.rebalance.delay.ms": 0,
            },
        },
        "topics": [{"name": "orders"}, {"name": "payments"}],
        "acls": acls,
        "workload": [{"principal": "User:alice", **each} for each in workload],
        **more,
    }  # fmt: skip


def outcome(acls: list[dict[str, Any]], workload: list[dict[str, Any]], **more: Any) -> Result:
    return run(parse(scenario(acls, workload, **more), "access"), 1)


WRITE = {"allow": "User:alice", "operations": ["write"], "topic": "orders"}
READ = {"allow": "User:alice", "operations": ["read"], "topic": "orders"}
GROUP = {"allow": "User:alice", "operations": ["read"], "group": "billing"}
PRODUCER = {"kind": "producer", "rate": "20/s"}
CONSUMER = {"kind": "consumer-group", "group": "billing",
            "config": {"auto.offset.reset": "earliest"}}  # fmt: skip


def test_write_on_one_topic_is_enough_for_an_idempotent_producer() -> None:
    """KIP-679: InitProducerId needs IDEMPOTENT_WRITE or WRITE on any topic."""
    result = outcome([WRITE], [PRODUCER])
    assert result.verdict == "pass"
    assert "send-failed" not in result.observations


def test_a_consumer_needs_its_group_and_its_topic() -> None:
    result = outcome([WRITE, READ, GROUP], [PRODUCER, CONSUMER])
    assert result.verdict == "pass"
    without_group = outcome([WRITE, READ], [PRODUCER, CONSUMER])
    [finding] = [each for each in without_group.findings if each.name == "application-failed"]
    assert "GROUP_AUTHORIZATION_FAILED" in finding.text


def test_a_transactional_id_is_a_privilege_of_its_own() -> None:
    sends = {**PRODUCER, "transactional-id": "pay", "transaction-records": 5}
    of_id = {"allow": "User:alice", "operations": ["write"], "transactional-id": "pa",
             "pattern": "prefixed"}  # fmt: skip
    assert "transaction-committed" in outcome([WRITE, of_id], [sends]).observations
    refused = outcome([WRITE], [sends])
    assert "transaction-committed" not in refused.observations
    assert "denied:User:alice" in refused.observations


def test_a_deny_by_prefix_beats_the_allow_of_everybody() -> None:
    everybody = {"allow": "User:*", "operations": ["all"], "topic": "*"}
    deny = {"deny": "User:alice", "operations": ["write"], "topic": "ord", "pattern": "prefixed"}
    result = outcome([everybody, deny], [{**PRODUCER, "config": {"delivery.timeout.ms": 40_000}}])
    assert "send-failed:TOPIC_AUTHORIZATION_FAILED" in result.observations


@pytest.mark.parametrize(
    ("change", "line"),
    [
        ({"acls": [{"operations": ["read"], "topic": "orders"}]},
         "acls.0: give either allow or deny"),
        ({"acls": [{"allow": "User:a", "operations": ["read"]}]},
         "acls.0: give one of topic, group, transactional-id, cluster = true"),
        ({"acls": [{"allow": "alice", "operations": ["read"], "topic": "orders"}]},
         "acls.0: 'alice' is not TYPE:NAME, e.g. User:alice"),
        ({"acls": [WRITE], "cluster": {"brokers": 1}},
         "acls.0: needs authorizer.class.name in cluster.config"),
        ({"cluster": {"config": {"authorizer.class.name": STANDARD}}},
         "cluster.principal: 'User:ANONYMOUS' is not in super.users = ''"),
    ],
)  # fmt: skip
def test_mistakes_are_one_line(change: dict[str, Any], line: str) -> None:
    with pytest.raises(ScenarioError, match=re.escape(line)):
        parse({**scenario([], [PRODUCER]), **change}, "access")


def test_a_producer_learns_at_once_that_it_may_not_describe_its_topic() -> None:
    result = outcome([], [{**PRODUCER, "config": {"enable.idempotence": False}}])
    assert "send-failed:TOPIC_AUTHORIZATION_FAILED" in result.observations
    assert "send-failed:TIMED_OUT" not in result.observations
