"""What a server is started with: release, cluster, node and operator, the last one wins."""

from __future__ import annotations

from kafkasim.scenarios.language.tables import ClusterTable
from kafkasim.scenarios.running.node_settings import NodeSettings

CLUSTER = ClusterTable.model_validate({
    "racks": ["a", "b"],
    "config": {"num.io.threads": 4, "replica.lag.time.max.ms": 5000},
    "nodes": {
        "broker-2": {"config": {"num.io.threads": 2}, "kafka-version": "3.9", "rack": "c"},
    },
})  # fmt: skip


def settings_of(table: ClusterTable) -> NodeSettings:
    return NodeSettings(table, [], {}, lambda *_: True)


def settings() -> NodeSettings:
    return settings_of(CLUSTER)


def test_a_node_overrides_the_cluster() -> None:
    known = settings()
    assert [known.version(node) for node in ("broker-1", "broker-2")] == ["4.0", "3.9"]
    assert [known.config(node).num_io_threads for node in ("broker-1", "broker-2")] == [4, 2]
    assert known.config("broker-2").replica_lag_time_max_ms == 5000


def test_an_operator_overrides_the_node_until_the_property_is_removed() -> None:
    known = settings()
    known.install("broker-2", "4.0", {"num.io.threads": 1, "num.replica.fetchers": 2}, [])
    assert (known.version("broker-2"), known.config("broker-2").num_io_threads) == ("4.0", 1)
    known.install("broker-2", "4.0", {}, ["num.io.threads"])
    assert known.config("broker-2").num_io_threads == 2
    assert known.version("broker-1") == "4.0"


def test_racks_go_around_and_a_node_may_have_its_own() -> None:
    known = settings()
    racks = [known.rack(f"broker-{number}", number) for number in (1, 2, 3, 4)]
    assert racks == ["a", "c", "a", "b"]


def test_rules_are_those_of_the_nodes_release_and_one_object_for_each() -> None:
    known = settings()
    assert known.rules("broker-1").raft.pre_vote()
    assert not known.rules("broker-2").raft.pre_vote()
    assert known.rules("broker-1") is known.rules()


def test_storage_is_formatted_for_the_oldest_release() -> None:
    oldest = settings_of(CLUSTER).formatted_features()
    newest = settings_of(ClusterTable.model_validate({})).formatted_features()
    assert oldest["metadata.version"] < newest["metadata.version"]


def test_clients_of_2_8_do_not_take_a_leader_that_a_response_names() -> None:  # KIP-951
    table = {"mode": "zookeeper", "kafka-version": "2.8-zk"}
    old = settings_of(ClusterTable.model_validate(table)).rules().client
    new = settings().rules().client
    assert [rules.takes_named_leader() for rules in (old, new)] == [False, True]
    assert [rules.skips_backoff(1, 2) for rules in (old, new)] == [False, True]


def test_clients_of_2_8_back_off_at_one_pace() -> None:  # KIP-580
    table = {"mode": "zookeeper", "kafka-version": "2.8-zk"}
    old = settings_of(ClusterTable.model_validate(table)).rules().client
    new = settings().rules().client
    assert [rules.backs_off_exponentially() for rules in (old, new)] == [False, True]
