"""The swarm draws every value of the scenario language's enumerations, but for named exceptions.

The enumerations are read from the tables and from the clients' configurations, so a value that is
added there is drawn, or is an exception with a reason. Nothing runs here.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator
from typing import Any, Literal, get_args, get_origin

import pytest

from kafkasim.model.client.producer.partitioner import partitioner_class
from kafkasim.model.config import ConsumerConfig, ProducerConfig, ShareGroupSettings
from kafkasim.model.config.clients import ASSIGNOR_CLASSES, PARTITIONER_CLASSES
from kafkasim.model.group.assignors import assignor_class
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import ConsumerGroupTable, FaultTable, ShareGroupTable
from kafkasim.scenarios.language.vocabulary import VERBS
from kafkasim.scenarios.searching.choices.clients import COMMITS, OLD_COMMITS, permit_by_commits
from kafkasim.scenarios.searching.choices.offsets import KINDS, tamper_with_offsets
from kafkasim.scenarios.searching.draw import draw

SEEDS = range(1600)

RARE = 8
"""A value that fewer of these seeds have is not drawn as often as it should be."""

Value = tuple[str, str]
"""The enumeration and its value."""

BREAKS = "it costs records by itself, whatever Kafka does"
NO_AUTHORIZER = "no drawn cluster has an authorizer"
EXCEPTIONS: dict[Value, str] = {
    ("faults.kind", "bit-rot"): BREAKS,
    ("faults.kind", "disk-read-error"): BREAKS,
    ("faults.kind", "flush-error"): BREAKS,
    ("operations.kind", "add-acls"): NO_AUTHORIZER,
    ("operations.kind", "remove-acls"): NO_AUTHORIZER,
    ("faults.kind", "rack-loss"): "it takes more brokers away than the no-loss budget allows",
}


USERS_OWN = "module:name"
"""Stands for all classes and functions of users."""


def _literals(table: Any, name: str) -> list[str]:
    annotation = table.model_fields[name].annotation
    assert get_origin(annotation) is Literal, annotation
    return [str(each) for each in get_args(annotation)]


def _allowed(config: Any, name: str) -> list[str]:
    return list(config.__dataclass_fields__[name].metadata["allowed"])


ENUMERATIONS = {
    "commit": _literals(ConsumerGroupTable, "commit"),
    "faults.kind": _literals(FaultTable, "kind"),
    "operations.kind": list(VERBS),
    "compression.type": _allowed(ProducerConfig, "compression_type"),
    "partitioner.class": [*PARTITIONER_CLASSES, USERS_OWN],
    "isolation.level": _allowed(ConsumerConfig, "isolation_level"),
    "group.protocol": _allowed(ConsumerConfig, "group_protocol"),
    "partition.assignment.strategy": [*ASSIGNOR_CLASSES, USERS_OWN],
    "shares.acknowledge": _literals(ShareGroupTable, "acknowledge"),
    "shares.commit": _literals(ShareGroupTable, "commit"),
    "shares.on-poison": _literals(ShareGroupTable, "on_poison"),
    "share.auto.offset.reset": _allowed(ShareGroupSettings, "share_auto_offset_reset"),
    "share.isolation.level": _allowed(ShareGroupSettings, "share_isolation_level"),
}


def _own(name: str) -> str:
    return USERS_OWN if ":" in name else name


def _values(data: dict[str, Any]) -> Iterator[Value]:
    """Yield what one drawn scenario has; what a table does not say is its default."""
    for fault in data["faults"]:
        yield "faults.kind", fault["kind"]
        yield from [("faults.kind", kind) for kind in fault.get("kinds", ())]
    for operation in data.get("operations", ()):
        yield "operations.kind", operation["kind"]
    for each in data["workload"]:
        if each["kind"] == "share-group":
            yield from _of_shares(each)
            continue
        if each["kind"] != "producer" and each.get("protocol") != "zookeeper":
            yield "isolation.level", each["config"].get("isolation.level", "read_uncommitted")
            yield "group.protocol", each["config"].get("group.protocol", "classic")
            strategies = each["config"].get("partition.assignment.strategy", ())
            yield from [("partition.assignment.strategy", _own(name)) for name in strategies]
        if each["kind"] == "consumer-group":
            yield "commit", each.get("commit", "auto")
        else:
            config = each.get("producer-config", each["config"])
            yield "compression.type", config.get("compression.type", "none")
            yield "partitioner.class", _own(config.get("partitioner.class", ""))


def _of_shares(group: dict[str, Any]) -> Iterator[Value]:
    for key in ("acknowledge", "commit", "on-poison"):
        if key in group:
            yield f"shares.{key}", group[key]
    for key in ("share.auto.offset.reset", "share.isolation.level"):
        yield key, group["group-config"][key]


@pytest.fixture(scope="module")
def drawn() -> list[dict[str, Any]]:
    return [draw(seed) for seed in SEEDS]


@pytest.fixture(scope="module")
def found(drawn: list[dict[str, Any]]) -> Counter[Value]:
    return Counter([value for data in drawn for value in dict.fromkeys(_values(data))])


@pytest.mark.parametrize("enumeration", ENUMERATIONS)
def test_every_value_is_drawn_or_an_exception(enumeration: str, found: Counter[Value]) -> None:
    every = [(enumeration, value) for value in ENUMERATIONS[enumeration]]
    rare = {value: found[value] for value in every if found[value] < RARE}
    assert rare == {value: 0 for value in every if value in EXCEPTIONS}


def test_groups_commit_in_all_ways_about_equally_often(drawn: list[dict[str, Any]]) -> None:
    for old, ways in ((False, COMMITS), (True, OLD_COMMITS)):
        counts = Counter([
            each.get("commit", "auto")
            for data in drawn
            for each in data["workload"]
            if each["kind"] == "consumer-group" and ("protocol" in each) is old
        ])  # fmt: skip
        total = sum(list(counts.values()))
        assert counts.keys() == set(ways)
        assert min([counts[way] for way in ways]) > 0.7 * total / len(ways), counts


def test_the_members_of_a_group_commit_alike(drawn: list[dict[str, Any]]) -> None:
    for data in drawn:
        ways = {(w["group"], w["commit"]) for w in data["workload"] if "commit" in w}
        assert len(ways) == len({group for group, _ in ways})


@pytest.mark.parametrize(
    ("group", "permitted"),
    [
        ({"commit": "first"}, ["skipped-by-commit"]),
        ({"commit": "auto"}, ["skipped-by-commit"]),
        ({"commit": "none"}, []),
        ({"commit": "none", "handover": True}, []),
        ({"commit": "sync"}, []),
        ({"commit": "sync", "handover": True}, ["skipped-by-commit"]),
        ({"commit": "async"}, []),
        ({"commit": "async-ordered-retry"}, []),
        ({"commit": "async-retry"}, ["reordered-commit"]),
    ],
)
def test_what_a_way_of_committing_means_is_permitted_and_no_more(
    group: dict[str, Any], permitted: list[str]
) -> None:
    for before in (["duplicate"], ["duplicate", "skipped-by-commit"]):
        data = {
            "workload": [{"kind": "consumer-group", "config": {}, **group}],
            "expect": {"permits": before},
        }
        permit_by_commits(data)
        assert data["expect"]["permits"] == ["duplicate", *permitted]


def test_an_unclean_election_may_skip_records_however_a_group_commits() -> None:
    permits = ["inconsistent-offsets", "skipped-by-commit"]
    workload = [{"kind": "consumer-group", "config": {}, "commit": "sync"}]
    data = {"workload": workload, "expect": {"permits": list(permits)}}
    permit_by_commits(data)
    assert data["expect"]["permits"] == permits


def test_compressing_and_partitioning_producers_are_valid(drawn: list[dict[str, Any]]) -> None:
    scenarios = [parse(data, data["name"]) for data in drawn[:100]]
    producers = [each for one in scenarios for each in one.workload if each.kind == "producer"]
    codecs = Counter([each.config.get("compression.type", "none") for each in producers])
    assert codecs.keys() == set(_allowed(ProducerConfig, "compression_type"))
    partitioners = Counter([str(each.config.get("partitioner.class", "")) for each in producers])
    kinds = Counter([_own(name) for name in partitioners.elements()])
    assert kinds.keys() == {*PARTITIONER_CLASSES, USERS_OWN}
    assert min(kinds.values()) > 0.2 * len(producers), kinds
    assert all(callable(partitioner_class(name)()) for name in partitioners if name)


def test_the_members_of_a_group_have_the_same_assignor_of_a_user(
    drawn: list[dict[str, Any]],
) -> None:
    own: Counter[str] = Counter()
    for data in drawn:
        groups: dict[str, list[str]] = {}
        for each in data["workload"]:
            strategy = each["config"].get("partition.assignment.strategy", ())
            if any(":" in name for name in strategy) and "protocol" not in each:
                groups.setdefault(each["group"], []).append(*strategy)
        own.update([names[0] for names in groups.values()])
        assert all(len(set(names)) == 1 for names in groups.values()), data["name"]
    assert {assignor_class(name).name for name in own} == {"failover", "keeping"}


def _at_a_step(fault: dict[str, Any]) -> bool:
    """Return whether a fault strikes the client of a message, or of a transaction that it begins.

    test_swarm_seldom.py holds that these messages are of clients.
    """
    when = fault.get("when", {})
    of_client = when.keys() & {"request", "response"} or when.get("fact") == "TransactionBegun"
    return fault.get("node") == "@node" and bool(of_client)


def test_only_clients_have_faults_beside_a_second_process_of_a_broker(
    drawn: list[dict[str, Any]],
) -> None:
    second = [
        data
        for data in drawn
        if any(each["kind"] == "duplicate-broker" for each in data.get("operations", ()))
    ]
    hit = [
        name
        for data in second
        for each in data["faults"]
        for name in (each.get("node", ""), *each.get("nodes", ()))
        if name and not _at_a_step(each)
    ]
    assert {name.rstrip("0123456789") for name in hit} <= {
        "producer-", "consumer-", "processor-", "any-producer", "any-consumer",
    }  # fmt: skip
    assert hit


def test_a_group_whose_offsets_are_changed_is_away_as_a_whole() -> None:
    """Its members are all stopped before and started after; a reset never skips a record."""
    data: dict[str, Any] = {
        "topics": [{"name": "orders"}],
        "workload": [
            {"kind": "consumer-group", "group": name, "count": count, "config": {}}
            for name, count in (("a", 2), ("b", 1), ("a", 1))
        ],
    }
    away: Counter[tuple[str, ...]] = Counter()
    for seed in range(400):
        drawn: dict[str, Any] = {**data, "workload": data["workload"][:]}
        tamper_with_offsets(random.Random(seed), drawn)
        done = drawn.get("operations", [])
        changed = [each for each in done if each["kind"] in KINDS]
        stopped = tuple([each["node"] for each in done if each["kind"] == "stop"])
        assert stopped == tuple([each["node"] for each in done if each["kind"] == "start"])
        assert all(each.get("to", "earliest") == "earliest" for each in changed)
        if changed:
            away[changed[0]["group"], *stopped] += 1
    assert away.keys() == {
        ("a",), ("b",), ("b", "consumer-3"), ("a", "consumer-1", "consumer-2", "consumer-4"),
    }  # fmt: skip
