"""Access control lists over the wire, as kafka-acls asks for them."""

from __future__ import annotations

from typing import Any

from kafkasim.model.errors import Errors
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.wire.session import LiveRun, Session
from kafkasim.sim.apps.loop import generator_hooks
from tests.scenarios.wire.outside import PORTS, STRICT, Connection, booted

LITERAL, PREFIXED, MATCH = 3, 4, 2
TOPIC, WRITE, READ, ALLOW, ANY = 2, 4, 3, 3, 1


def entry(name: str, operation: int, pattern: int) -> dict[str, Any]:
    return {
        "ResourceType": TOPIC, "ResourceName": name, "ResourcePatternType": pattern,
        "Principal": "User:alice", "Host": "*", "Operation": operation, "PermissionType": ALLOW,
    }  # fmt: skip


def wanted(name: str | None, pattern: int) -> dict[str, Any]:
    return {
        "ResourceTypeFilter": TOPIC, "ResourceNameFilter": name, "PatternTypeFilter": pattern,
        "PrincipalFilter": None, "HostFilter": None, "Operation": ANY, "PermissionType": ANY,
    }  # fmt: skip


def secured() -> Session:
    config = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    table = {
        "name": "secured", "claim": "It has an authorizer.", "duration": "5s",
        "cluster": {"brokers": 1, "controllers": 1, "config": config},
    }  # fmt: skip
    run = LiveRun(parse(table, "secured"), 1, None, [])
    run.boot()
    return Session(run, {"broker-1": PORTS["broker-1"]}, STRICT)


def test_entries_are_created_listed_by_match_and_deleted() -> None:
    with generator_hooks():
        client = Connection(secured())
        creations = [entry("ord", WRITE, PREFIXED), entry("orders", READ, LITERAL)]
        created = client.ask("CreateAcls", {"Creations": creations})["Results"]
        assert [row["ErrorCode"] for row in created] == [0, 0]
        client.run(1_000_000)
        matched = client.ask("DescribeAcls", wanted("orders", MATCH))["Resources"]
        assert [(row["ResourceName"], row["PatternType"]) for row in matched] == [
            ("ord", PREFIXED),
            ("orders", LITERAL),
        ]
        assert matched[0]["Acls"] == [
            {"Principal": "User:alice", "Host": "*", "Operation": WRITE, "PermissionType": ALLOW}
        ]
        filters = {"Filters": [wanted("ord", PREFIXED)]}
        (result,) = client.ask("DeleteAcls", filters)["FilterResults"]
        assert [row["ResourceName"] for row in result["MatchingAcls"]] == ["ord"]
        client.run(1_000_000)
        left = client.ask("DescribeAcls", wanted(None, ANY))["Resources"]
        assert [row["ResourceName"] for row in left] == ["orders"]


def test_without_an_authorizer_security_is_disabled() -> None:
    with generator_hooks():
        client = Connection(booted())
        answer = client.ask("DescribeAcls", wanted(None, ANY))
        assert answer["ErrorCode"] == Errors.SECURITY_DISABLED
        assert answer["ErrorMessage"] == "No Authorizer is configured."
        created = client.ask("CreateAcls", {"Creations": [entry("ord", WRITE, PREFIXED)]})
        assert created["Results"][0]["ErrorCode"] == Errors.SECURITY_DISABLED


def test_unknown_elements_end_the_connection() -> None:
    """Kafka cannot parse such a request (CreateAclsRequest.validate)."""
    with generator_hooks():
        session = booted()
        asked: dict[str, dict[str, Any]] = {
            "CreateAcls": {"Creations": [entry("ord", 0, LITERAL)]},
            "DeleteAcls": {"Filters": [wanted("ord", 0)]},
            "DescribeAcls": wanted("ord", 0),
        }
        for api, body in asked.items():
            client = Connection(session)
            client.write(api, body)
            assert client.end == "an access control list has UNKNOWN elements"
