"""Who may do what: StandardAuthorizer's decisions, and AclControlManager's records."""

from __future__ import annotations

import random
import tomllib

import pytest

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.acls import (
    Action,
    Authorizer,
    AuthorizerRules,
    binding_problem,
    selects,
)
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import (
    AccessControlEntryRecord,
    RemoveAccessControlEntryRecord,
)
from kafkasim.model.controller.kraft.managers.acls import AclControlManager
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.errors import Errors
from kafkasim.model.messages import (
    AclBinding,
    AclFilter,
    CreateAclsRequest,
    DeleteAclsRequest,
)
from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.running.runner import run

STANDARD = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


def entry(
    who: str,
    operation: str,
    name: str,
    *,
    permission: str = "allow",
    pattern: str = "literal",
    kind: str = "topic",
    host: str = "*",
) -> AclBinding:
    return AclBinding(kind, name, pattern, f"User:{who}", host, operation, permission)


def decides(
    entries: list[AclBinding],
    who: str,
    operation: str,
    name: str,
    *,
    everyone: bool = False,
    host: str = "host-1",
) -> bool:
    named = {str(number): each for number, each in enumerate(entries)}
    authorizer = Authorizer(named, ("User:root",), everyone, AuthorizerRules())
    return authorizer.decide(Action(f"User:{who}", host, operation, "topic", name)).allowed


def test_nobody_but_a_super_user_may_do_what_no_entry_allows() -> None:
    assert not decides([], "alice", "read", "orders")
    assert decides([], "root", "read", "orders")
    assert decides([entry("root", "read", "orders", permission="deny")], "root", "read", "orders")


def test_a_deny_beats_every_allow() -> None:
    allowed = [entry("alice", "read", "orders"), entry("*", "all", "*")]
    assert decides(allowed, "alice", "read", "orders")
    denied = entry("*", "read", "ord", permission="deny", pattern="prefixed")
    assert not decides([*allowed, denied], "alice", "read", "orders")
    assert decides([*allowed, denied], "alice", "read", "payments")


@pytest.mark.parametrize("operation", ["read", "write", "delete", "alter", "describe", "all"])
def test_allow_implies_describe(operation: str) -> None:
    assert decides([entry("alice", operation, "orders")], "alice", "describe", "orders")


def test_a_deny_of_read_does_not_deny_describe() -> None:
    entries = [entry("alice", "describe", "orders"),
               entry("alice", "read", "orders", permission="deny")]  # fmt: skip
    assert decides(entries, "alice", "describe", "orders")
    assert not decides(entries, "alice", "read", "orders")


def test_alter_configs_implies_describe_configs_and_nothing_else() -> None:
    entries = [entry("alice", "alter-configs", "orders")]
    assert decides(entries, "alice", "describe-configs", "orders")
    assert not decides(entries, "alice", "describe", "orders")


def test_everyone_counts_only_for_a_resource_without_any_entry() -> None:
    entries = [entry("bob", "write", "orders")]
    assert decides(entries, "alice", "write", "payments", everyone=True)
    assert not decides(entries, "alice", "write", "orders", everyone=True)
    prefix = entry("bob", "read", "pay", pattern="prefixed")
    assert not decides([prefix], "alice", "write", "payments", everyone=True)


def test_an_entry_of_a_host_is_for_that_host() -> None:
    entries = [entry("alice", "read", "orders", host="host-1")]
    assert decides(entries, "alice", "read", "orders")
    assert not decides(entries, "alice", "read", "orders", host="host-2")


@pytest.mark.parametrize(
    ("entries", "allowed"),
    [
        ([], False),
        ([entry("alice", "write", "orders")], True),
        ([entry("alice", "read", "orders")], False),
        ([entry("alice", "write", "orders"),
          entry("alice", "write", "orders", permission="deny")], False),
        ([entry("alice", "write", "orders"),
          entry("alice", "write", "ord", permission="deny", pattern="prefixed")], False),
        ([entry("alice", "write", "ord", pattern="prefixed"),
          entry("alice", "write", "orders", permission="deny")], True),
        ([entry("alice", "write", "orders"),
          entry("*", "all", "*", permission="deny")], False),
    ],
)  # fmt: skip
def test_write_on_any_topic(entries: list[AclBinding], allowed: bool) -> None:
    named = {str(number): each for number, each in enumerate(entries)}
    authorizer = Authorizer(named, (), False, AuthorizerRules())
    asked = Action("User:alice", "host-1", "write", "topic", "hardcode")
    assert authorizer.decide_by_type(asked).allowed is allowed


def test_filters() -> None:
    prefixed = entry("alice", "read", "ord", pattern="prefixed")
    literal, every = entry("alice", "read", "orders"), entry("bob", "read", "*")
    matched = AclFilter("topic", "orders", "match")
    assert [selects(matched, each) for each in (prefixed, literal, every)] == [True] * 3
    exact = AclFilter("topic", "orders", "literal")
    assert [selects(exact, each) for each in (prefixed, literal, every)] == [False, True, False]
    assert selects(AclFilter(principal="User:bob"), every)
    assert not selects(AclFilter(principal="User:bob"), literal)


def manager(image: MetadataImage, secured: bool = True) -> AclControlManager:
    config = BrokerConfig.from_properties({"authorizer.class.name": STANDARD} if secured else {})
    return AclControlManager(image, config, ControllerRules(), random.Random(1))


def test_an_entry_that_exists_or_is_named_twice_is_one_record() -> None:
    image, wanted = MetadataImage(), entry("alice", "read", "orders")
    records, answer = manager(image).create(CreateAclsRequest((wanted, wanted)))
    assert [type(each) for each in records] == [AccessControlEntryRecord]
    assert answer.results == ((Errors.NONE, ""),) * 2
    image.apply(records[0], 0, 0)
    assert manager(image).create(CreateAclsRequest((wanted,)))[0] == []


def test_what_two_filters_name_is_removed_once_and_told_twice() -> None:
    image, known = MetadataImage(), entry("alice", "read", "orders")
    image.apply(AccessControlEntryRecord("1", known), 0, 0)
    asked = DeleteAclsRequest((AclFilter("topic"), AclFilter(principal="User:alice")))
    records, answer = manager(image).delete(asked)
    assert records == [RemoveAccessControlEntryRecord("1")]
    assert [deleted for _, _, deleted in answer.results] == [(known,), (known,)]


def test_without_an_authorizer_there_are_no_entries() -> None:
    open_manager = manager(MetadataImage(), secured=False)
    asked = CreateAclsRequest((entry("alice", "read", "orders"),))
    assert open_manager.create(asked)[1].results[0][0] is Errors.SECURITY_DISABLED
    removed = open_manager.delete(DeleteAclsRequest((AclFilter(),)))[1]
    assert removed.results[0][0] is Errors.SECURITY_DISABLED


@pytest.mark.parametrize(
    ("binding", "problem"),
    [
        (entry("alice", "read", ""), "Invalid empty resource name"),
        (entry("alice", "read", "other", kind="cluster"),
         "The only valid name for the CLUSTER resource is kafka-cluster"),
        (AclBinding("topic", "a", "literal", ":", "*", "read", "allow"), ""),
        (AclBinding("topic", "a", "literal", "alice", "*", "read", "allow"),
         "Could not parse principal from `alice` (no colon is present)"),
    ],
)  # fmt: skip
def test_what_no_entry_may_be(binding: AclBinding, problem: str) -> None:
    assert binding_problem(binding) == problem


def test_an_entry_of_any_operation_fails_the_whole_request() -> None:
    wanted = entry("alice", "read", "orders"), entry("alice", "any", "orders")
    records, answer = manager(MetadataImage()).create(CreateAclsRequest(wanted))
    assert (records, answer.results) == ([], ((Errors.UNKNOWN_SERVER_ERROR, ""),) * 2)


def test_both_parts_of_a_combined_node_know_who_asks() -> None:
    raw = tomllib.loads(library.path("A01-prefix-shadow").read_text(encoding="utf-8"))
    raw["cluster"]["combined"] = 1
    result = run(parse(raw, "combined"), 1)
    assert (result.verdict, result.anomalies) == ("pass", [])
