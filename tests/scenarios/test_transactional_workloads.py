"""Keys of transactional workloads: what is refused, and what hosts are made of them."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.scenarios.language.nodes import epochs_used, node_names, select
from kafkasim.scenarios.language.spec import ScenarioError, parse
from kafkasim.scenarios.running.runner import run
from kafkasim.sim.streams import Streams

PRODUCER: dict[str, Any] = {"kind": "producer", "topic": "in", "rate": "20/s"}
PROCESSOR: dict[str, Any] = {"kind": "processor", "topics": ["in"], "output": "out"}


def scenario(*workload: dict[str, Any], **keys: Any) -> dict[str, Any]:
    topics = [{"name": name, "replication-factor": 3} for name in ("in", "out")]
    return {
        "name": "s", "claim": "c", "duration": "6s", "topics": topics, "workload": list(workload),
        "cluster": {"controllers": 1, "config": {"group.initial.rebalance.delay.ms": 0}}, **keys,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("workload", "message"),
    [
        (PRODUCER | {"abort-share": 0.5}, "workload.0.abort-share: needs transactional-id"),
        (PRODUCER | {"transaction-records": 5}, "workload.0.transaction-records: needs"),
        (PRODUCER | {"transactional-id": "a", "config": {"acks": "1"}}, "transactional.id: needs"),
        (PRODUCER | {"config": {"transactional.id": "a"}}, "write transactional-id beside config"),
        (PRODUCER | {"transactional-id": ""}, "workload.0.transactional-id: '' is not valid"),
        (PRODUCER | {"transactional-id": "a", "abort-share": 2}, "workload.0.abort-share: 2 is"),
        (PRODUCER | {"epochs-used": 5}, "workload.0.epochs-used: needs transactional-id"),
        (PRODUCER | {"transactional-id": "a", "epochs-used": -1}, "workload.0.epochs-used: -1 is"),
        (PRODUCER | {"transactional-id": "a", "epochs-used": 32768}, "epochs-used: 32768 is"),
        (PROCESSOR | {"guarantee": "at-least-once", "epochs-used": 5}, "epochs-used: needs guar"),
        ({"kind": "processor"}, "workload.0.output: is missing"),
        (PROCESSOR | {"output": "x"}, "workload.0.output: no topic 'x'; allowed: in, out"),
        (PROCESSOR | {"output": "in"}, "workload.0.output: 'in' is a topic that it reads"),
        (PROCESSOR | {"guarantee": "at-least-once", "abort-share": 0.1}, "abort-share: needs"),
        (PROCESSOR | {"guarantee": "at-most-once", "transactional-id": "a"}, "needs guarantee"),
        (PROCESSOR | {"guarantee": "twice"}, "allowed: 'exactly-once', 'at-least-once' or"),
        (PROCESSOR | {"config": {"enable.auto.commit": True}}, "a processor commits by itself"),
        (PROCESSOR | {"producer-config": {"acks": "0"}}, "producer-config.transactional.id: needs"),
    ],
)
def test_a_mistake_is_one_line(workload: dict[str, Any], message: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        parse(scenario(workload), "f.toml")
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_workloads_that_share_an_id_cannot_give_it_two_histories() -> None:
    of = PRODUCER | {"transactional-id": "p-1"}
    processors = PROCESSOR | {"transactional-id": "p", "count": 2, "epochs-used": 7}
    alike = parse(scenario(of, processors, of | {"epochs-used": 7}), "f.toml")
    assert epochs_used(alike) == {"p-1": 7, "p-2": 7}
    with pytest.raises(ScenarioError) as raised:
        parse(scenario(processors, of | {"epochs-used": 8}), "f.toml")
    assert str(raised.value) == "f.toml: workload.1.epochs-used: p-1 has 8 here and 7 before"


@pytest.mark.parametrize(("version", "rotated"), [("3.9", False), ("4.0", True)])
def test_each_transaction_costs_an_epoch_from_transaction_version_2_on(
    version: str, rotated: bool
) -> None:
    producer = PRODUCER | {"transactional-id": "a", "epochs-used": 32_760}
    data = scenario(producer | {"transaction-records": 5})
    data["cluster"]["kafka-version"] = version
    result = run(parse(data, "f.toml"), 1)
    assert (result.verdict, "producer-id-rotated" in result.observations) == ("pass", rotated)


def test_a_processor_goes_on_with_another_producer_id() -> None:
    """Two members rotate in turn; offsets and outputs stay in one transaction."""
    data = scenario(PRODUCER, PROCESSOR | {"count": 2, "epochs-used": 32_764})
    data["expect"] = {"must-see": ["producer-id-rotated"], "never": ["send-failed"]}
    result = run(parse(data, "f.toml"), 1)
    assert (result.verdict, result.anomalies) == ("pass", [])


def test_processors_are_hosts_of_their_own() -> None:
    parsed = parse(scenario(PROCESSOR | {"count": 2}), "f.toml")
    assert node_names(parsed)[-2:] == ["processor-1", "processor-2"]


def test_a_producer_may_be_transactional() -> None:
    parsed = parse(scenario(PRODUCER | {"transactional-id": "a", "abort-share": 0.1}), "f.toml")
    assert node_names(parsed)[-1] == "producer-1"


def test_a_transaction_coordinator_is_the_leader_of_the_ids_partition() -> None:
    rng = Streams(1).stream("x")
    chosen = select("transaction-coordinator:tx", [], rng, transaction_partitions=1)
    assert chosen == "leader:__transaction_state-0"


def test_a_processor_whose_sequence_is_out_of_order_goes_on_with_a_new_producer() -> None:
    """The leader forgets a producer, whose next marker overtakes its record.

    The leader then knows an epoch without a sequence. The processor is committing when the error
    comes, so its producer would keep its epoch and be refused for ever.
    """
    processor = PROCESSOR | {"topics": ["in"], "abort-share": 0.5}
    reader = {
        "kind": "consumer-group", "group": "readers", "topics": ["out"],
        "config": {"auto.offset.reset": "earliest", "isolation.level": "read_committed"},
    }  # fmt: skip
    data = scenario(PRODUCER | {"rate": "1/s"}, processor, reader)
    for topic in data["topics"]:
        topic |= {"partitions": 1}
    data["topics"][1] |= {"assignment": [[2, 3, 1]]}
    data["cluster"] |= {"brokers": 3, "kafka-version": "3.9"}
    data["cluster"]["config"] |= {
        "offsets.topic.num.partitions": 1, "transaction.state.log.num.partitions": 1,
        "producer.id.expiration.ms": 700, "producer.id.expiration.check.interval.ms": 50,
    }  # fmt: skip
    begun = {"fact": "TransactionBegun", "node": "processor-1", "count": 3}
    data["faults"] = [
        {"kind": "reset", "node": "processor-1", "peers": ["broker-2"], "when": begun}
    ]
    data["expect"] = {
        "must-see": ["send-failed:OUT_OF_ORDER_SEQUENCE_NUMBER"],
        "permits": ["duplicate"],
        "within": "3s",
    }
    result = run(parse(data, "f.toml"), 12)
    assert (result.verdict, result.missing) == ("expected", [])


@pytest.mark.parametrize("guarantee", ["at-least-once", "at-most-once"])
def test_a_processor_without_transactions_writes_what_it_reads(guarantee: str) -> None:
    data = scenario(PRODUCER, PROCESSOR | {"guarantee": guarantee})
    result = run(parse(data, "f.toml"), 1)
    assert (result.verdict, result.anomalies) == ("pass", [])


@pytest.mark.parametrize(
    "workload",
    [
        PRODUCER | {"transactional-id": "a", "config": {"transaction.timeout.ms": 1_000_000}},
        PROCESSOR | {"producer-config": {"transaction.timeout.ms": 1_000_000}},
    ],
)
def test_a_timeout_that_the_brokers_refuse_ends_the_application(workload: dict[str, Any]) -> None:
    """A new producer would have the same transaction.timeout.ms, and get the same answer."""
    result = run(parse(scenario(workload), "f.toml"), 0)
    assert result.anomalies == ["application-failed"]
    (found,) = result.findings
    refused = "transaction.timeout.ms is above the broker's transaction.max.timeout.ms"
    assert refused in found.text
