"""A mistake in a scenario is one line that names the file, the key and what is allowed."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest

from kafkasim.scenarios.language import library
from kafkasim.scenarios.language.spec import ScenarioError, load, override, parse

VALID: dict[str, Any] = {
    "name": "example",
    "claim": "It holds.",
    "duration": "10s",
    "cluster": {"brokers": 3, "controllers": 1},
    "topics": [{"name": "orders", "partitions": 2, "replication-factor": 3}],
    "workload": [
        {"kind": "producer", "topic": "orders", "config": {}},
        {"kind": "consumer-group", "topics": ["orders"], "config": {}},
    ],
    "faults": [{"kind": "crash", "node": "broker-1", "at": "2s"}],
    "expect": {},
}

HOLD = {"kind": "hold", "node": "broker-1", "peers": ["broker-2"], "at": "2s"}

MISTAKES: dict[str, tuple[dict[str, Any], tuple[str, ...]]] = {
    "wrong key": ({"durration": "10s"}, ("durration: unknown key", "duration", "workload")),
    "wrong key of a fault": (
        {"faults.0.nod": "broker-1"},
        ("faults.0.nod: unknown key", "allowed: api, at, count"),
    ),
    "property of a client beside its config": (
        {"workload.0.acks": 1},
        ("workload.0.acks: unknown key; acks is a", "its key is workload.0.config.acks"),
    ),
    "property of servers and topics, without a table": (
        {"min": {"insync": {"replicas": 2}}},
        (
            "min: unknown key; min.insync.replicas is a property of Kafka; its key is ",
            "cluster.config.min.insync.replicas or topics.0.config.min.insync.replicas",
        ),
    ),
    "property of other clients": (
        {"workload.1.linger": {"ms": 5}},
        ("workload.1.linger: unknown key; allowed: app",),
    ),
    "wrong key of a workload": (
        {"workload.0.rates": "5/s"},
        ("workload.0.rates: unknown key", "rate", "value-size"),
    ),
    "wrong type": ({"cluster.brokers": "three"}, ("cluster.brokers: ", "integer", "'three'")),
    "not a duration": (
        {"duration": "10 parsecs"},
        ("duration: '10 parsecs' is not a duration", '"20s"'),
    ),
    "not a range": ({"faults.0.at": ["5s", "2s"]}, ("faults.0.at: ", "5s is above 2s")),
    "not a rate": ({"workload.0.rate": "fast"}, ("workload.0.rate: 'fast' is not a rate",)),
    "wrong word": (
        {"cluster.mode": "zk"},
        ("cluster.mode: 'zk' is not valid; allowed: 'kraft' or 'zookeeper'",),
    ),
    "number out of range": (
        {"cluster.brokers": 0},
        ("cluster.brokers: 0 is not valid; allowed: 1",),
    ),
    "not a name": (
        {"name": "my scenario"},
        ("name: 'my scenario' is not valid; give letters, digits and dashes",),
    ),
    "unknown kind of keys": (
        {"workload.0.keys": "zipf"},
        ("workload.0.keys: 'zipf' is not valid; allowed: none, uniform:N, zipf:N:S, cycle:N",),
    ),
    "unknown kind of workload": (
        {"workload.0.kind": "reader"},
        ("workload.0.kind: 'reader' is unknown; allowed: 'producer', 'consumer-group'",),
    ),
    "selector without a host": (
        {"faults.0.node": "any-zookeeper"},
        ("faults.0.node: any-zookeeper selects no node; allowed: broker-1",),
    ),
    "unknown selector": (
        {"faults.0.node": "any-server"},
        ("faults.0.node: no selector 'any-server'; allowed: any-broker",),
    ),
    "unknown API": (
        {"faults": [{**HOLD, "api": "Produse"}]},
        ("faults.0.api: no API 'Produse'; allowed: Produce",),
    ),
    "answers to followers": (
        {"faults": [{**HOLD, "api": "FetchFollower", "direction": "response"}]},
        ("faults.0.api: FetchFollower is a request", "allowed for responses: Fetch"),
    ),
    "unknown purpose": (
        {"faults": [{**HOLD, "purpose": "fetching"}]},
        ("faults.0.purpose: no purpose 'fetching'; allowed: produce, fetch",),
    ),
    "setting without an effect": (
        {"cluster.nodes": {"broker-1": {"fsync": "2ms"}}},
        ("cluster.nodes.broker-1.fsync: is not modelled",),
    ),
    "unknown node": (
        {"cluster.nodes": {"broker-9": {}}},
        ("cluster.nodes.broker-9: no such node", "allowed: broker-1, broker-2, broker-3"),
    ),
    "impossible replication factor": (
        {"topics.0.replication-factor": 4},
        ("topics.0.replication-factor: 4 is more than the 3 brokers", "allowed: 1 to 3"),
    ),
    "impossible min ISR": (
        {"topics.0.config": {"min.insync.replicas": 4}},
        ("topics.0.config.min.insync.replicas: 4 is more than replication-factor 3",),
    ),
    "assignment of too few partitions": (
        {"topics.0.assignment": [[1, 2, 3]]},
        ("topics.0.assignment: 1 lists of replicas for 2 partitions; give one list for each",),
    ),
    "assignment with a broker twice": (
        {"topics.0.assignment": [[1, 2, 3], [1, 1, 2]]},
        ("topics.0.assignment: [1, 1, 2] are not 3 different brokers",),
    ),
    "assignment to no broker": (
        {"topics.0.assignment": [[1, 2, 3], [1, 2, 4]]},
        ("topics.0.assignment: [1, 2, 4] are not all in 1 to 3",),
    ),
    "unknown fact to end at": (
        {"faults.0.until": {"fact": "Elected"}},
        ("faults.0.until.fact: 'Elected' is none of", "HostStopped"),
    ),
    "fault on a node that does not exist": (
        {"faults.0.node": "broker-7"},
        ("faults.0.node: no node 'broker-7'", "allowed: broker-1", "leader:TOPIC-P"),
    ),
    "fault on a partition that does not exist": (
        {"faults.0.node": "leader:orders-2"},
        ("faults.0.node: orders has partitions 0 to 1",),
    ),
    "fault on the coordinator of no group": (
        {"faults.0.node": "coordinator:biling"},
        ("faults.0.node: no group 'biling'; allowed: ",),
    ),
    "fault of an unknown kind": ({"faults.0.kind": "fire"}, ("faults.0.kind: ", "'gc-pause'")),
    "fault without a time": ({"faults.0.at": None}, ("faults.0: give at, when",)),
    "fault on an unknown fact": (
        {"faults.0.when": {"fact": "Elected"}},
        ("faults.0.when.fact: 'Elected' is none of", "RaftRole"),
    ),
    "condition on a role that nobody can have": (
        {"faults.0.when": {"fact": "RaftRole", "node": "any-broker"}},
        ("faults.0.when.node: no node 'any-broker'", "leader:TOPIC-P"),
    ),
    "condition on the leader of no partition": (
        {"faults.0.when": {"fact": "RaftRole", "node": "leader:orders-7"}},
        ("faults.0.when.node: orders has partitions 0 to 1",),
    ),
    "bound of a field that has no size": (
        {"faults.0.when": {"fact": "RaftRole", "at-most": {"role": 1}}},
        ("faults.0.when.role: only numbers and lists can be bounded",),
    ),
    "bound of a field that the fact has not": (
        {"faults.0.until": {"fact": "PartitionChanged", "at-least": {"isrs": 2}}},
        ("faults.0.until.isrs: PartitionChanged has", "isr"),
    ),
    "fault on the node of no fact": (
        {"faults.0.node": "@node"},
        ("faults.0.node: '@node' needs a when",),
    ),
    "fault on a fact without such a field": (
        {"faults.0.when": {"fact": "RaftRole", "fields": {"roll": "leader"}}},
        ("faults.0.when", "roll"),
    ),
    "link fault without its parameter": (
        {"faults.0.kind": "flaky"},
        ("faults.0.loss: ",),
    ),
    "fault of a directory that the node has not": (
        {
            "faults.0.kind": "disk-failure",
            "faults.0.dir": "/d3",
            "cluster.config": {"log.dirs": ["/d1", "/d2"]},
        },
        ("faults.0.dir: no log directory '/d3'; allowed: /d1, /d2",),
    ),
    "fault of a directory where none has a name": (
        {"faults.0.kind": "disk-full", "faults.0.dir": "/d3"},
        ("faults.0.dir: no log directory '/d3'; allowed: none: log.dirs is not set",),
    ),
    "fault of a directory that is none": (
        {"faults.0.dir": "/d1"},
        ("faults.0.dir: crash does not hit a directory",),
    ),
    "fault of a directory and a path": (
        {"faults.0.kind": "disk-failure", "faults.0.dir": "/d1", "faults.0.path": "/d1/x"},
        ("faults.0.dir: give dir or path, not both",),
    ),
    "log directories in each other": (
        {"cluster.config": {"log.dirs": ["/d", "/d/1"]}},
        ("cluster.config.log.dirs: '/d/1' lies in, or is, another log directory",),
    ),
    "unknown observation": (
        {"expect.must-see": ["isr-srhink"]},
        ("expect.must-see: no observation 'isr-srhink'; did you mean isr-shrink?", "allowed: "),
    ),
    "unknown anomaly": (
        {"expect.permits": ["data-loss"]},
        ("expect.permits: no anomaly 'data-loss'", "lost-write"),
    ),
    "misspelled anomaly": (
        {"expect.permits": ["reordered"]},
        ("expect.permits: no anomaly 'reordered'; did you mean reordered-key", "allowed: "),
    ),
    "unknown topic": (
        {"workload.1.topics": ["order"]},
        ("workload.1.topics: no topic 'order'", "allowed: orders"),
    ),
    "unknown broker property": (
        {"cluster.config": {"replica.lag.max.ms": 3000}},
        ("cluster.config.replica.lag.max.ms: ", "replica.lag.time.max.ms"),
    ),
    "unknown producer property": (
        {"workload.0.config": {"ack": "all"}},
        ("workload.0.config.ack: ", "acks"),
    ),
    "producer property out of range": (
        {"workload.0.config": {"delivery.timeout.ms": 10}},
        ("workload.0.config.delivery.timeout.ms: ", "request.timeout.ms"),
    ),
    "unknown consumer property": (
        {"workload.1.config": {"session.timeout": 6000}},
        ("workload.1.config.session.timeout: ", "session.timeout.ms"),
    ),
}


def _with(changes: dict[str, Any]) -> dict[str, Any]:
    data = copy.deepcopy(VALID)
    for path, value in changes.items():
        *parents, last = path.split(".")
        table: Any = data
        for part in parents:
            table = table[int(part)] if part.isdigit() else table[part]
        if value is None:
            del table[last]
        else:
            table[last] = value
    return data


def test_the_example_is_valid() -> None:
    assert parse(VALID, "example.toml").name == "example"


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_one_line(mistake: str) -> None:
    changes, words = MISTAKES[mistake]
    with pytest.raises(ScenarioError) as caught:
        parse(_with(changes), "example.toml")
    message = str(caught.value)
    assert message.startswith("example.toml: ")
    assert "\n" not in message
    assert [word for word in words if word not in message] == [], message


@pytest.mark.parametrize("release", ["4.0", 4.0])
def test_a_release_may_be_written_as_a_number(release: object) -> None:
    assert parse(_with({"cluster.kafka-version": release}), "x").cluster.kafka_version == "4.0"


def test_a_missing_key() -> None:
    data = {key: value for key, value in VALID.items() if key != "claim"}
    with pytest.raises(ScenarioError, match=r"^example\.toml: claim: is missing$"):
        parse(data, "example.toml")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match=r"nowhere\.toml: no such file$"):
        load(tmp_path / "nowhere.toml")


def test_a_file_that_is_not_toml(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("name =", encoding="utf-8")
    with pytest.raises(ScenarioError, match=r"broken\.toml: not TOML: "):
        load(path)


def test_an_unknown_scenario_names_what_is_near() -> None:
    with pytest.raises(ScenarioError, match=r"did you mean .*stuck-consumer"):
        library.source("stuck-consumers")


def test_override_by_path() -> None:
    changed = override(VALID, "workload.0.config.acks", "1", "example.toml")
    assert changed["workload"][0]["config"] == {"acks": "1"}
    assert VALID["workload"][0]["config"] == {}
    with pytest.raises(ScenarioError, match=r"workload has entries 0 to 1, not '7'"):
        override(VALID, "workload.7.rate", "1/s", "example.toml")


@pytest.mark.parametrize("name", library.names())
def test_the_catalogue_is_valid(name: str) -> None:
    scenario, _ = library.scenario(name)
    assert scenario.name == name
    assert scenario.twin is not None
    library.scenario(name, twin=True)
    assert len((library.CATALOGUE / f"{name}.toml").read_text(encoding="utf-8").splitlines()) < 100


def test_a_misspelled_key_is_named_and_not_the_key_that_it_leaves_missing() -> None:
    data = {"name": "mine", "claim": "x", "durations": "5s"}
    with pytest.raises(ScenarioError, match="mine: durations: unknown key"):
        parse(data, "mine")
    with pytest.raises(ScenarioError, match="mine: duration: is missing"):
        parse({"name": "mine", "claim": "x"}, "mine")


def test_a_feature_is_set_by_its_name_with_dots() -> None:
    given = {"cluster": {"features": {"group.version": 1}}}
    path = "cluster.features.eligible.leader.replicas.version"
    features = override(given, path, 1, "mine")["cluster"]["features"]
    assert features == {"group.version": 1, "eligible.leader.replicas.version": 1}


def test_an_assignment_says_how_many_partitions_and_replicas_there_are() -> None:
    topics = [{"name": "orders", "assignment": [[1, 2], [2, 3], [3, 1]]}]
    [topic] = parse(_with({"topics": topics}), "example.toml").topics
    assert (topic.partitions, topic.replication_factor) == (3, 2)
