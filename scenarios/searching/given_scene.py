"""A given scenario as the draws need it: with the timers and counts that it leaves to defaults.

The draws depend on the timers of the cluster and of its clients, also if they are defaults. So the
scene of a scenario has all timers, and starts without faults and operations.
"""

from __future__ import annotations

from kafkasim.model.config import BrokerConfig, ConsumerConfig, ProducerConfig
from kafkasim.scenarios.language.files.data import Data, as_data
from kafkasim.scenarios.language.tables import Scenario

OF_SERVERS = (
    "replica.fetch.wait.max.ms", "replica.lag.time.max.ms", "broker.session.timeout.ms",
    "zookeeper.session.timeout.ms",
)  # fmt: skip
OF_CONSUMERS = ("session.timeout.ms", "request.timeout.ms")
OF_PRODUCERS = ("request.timeout.ms",)
OF_TRANSACTIONS = ("request.timeout.ms", "transaction.timeout.ms")


def scene(scenario: Scenario) -> Data:
    """Return the data of a scenario with the keys that draws read, its own faults left out."""
    given = as_data(scenario)
    cluster = scenario.cluster
    servers = _defaults(BrokerConfig(), OF_SERVERS)
    counts = ("mode", "brokers", "controllers", "combined", "zookeepers")
    return {
        "topics": [
            {"partitions": topic.partitions, "replication-factor": topic.replication_factor, **data}
            for topic, data in zip(scenario.topics, given.get("topics", []), strict=True)
        ],
        "cluster": {
            **{name: getattr(cluster, name) for name in counts},
            "config": {**servers, **cluster.config},
        },
        "workload": [
            _workload(data, table.count, getattr(table, "group", None))
            for table, data in zip(scenario.workload, given.get("workload", []), strict=True)
        ],
        "faults": [],
        "operations": [],
        "expect": {},
    }


def _workload(data: Data, count: int, group: str | None) -> Data:
    """Return a workload with its timers; a group has a name."""
    named = {} if group is None else {"group": group}
    filled = {**named, **data, "count": count, "config": dict(data.get("config", {}))}
    if data["kind"] == "producer":
        timers = OF_TRANSACTIONS if "transactional-id" in data else OF_PRODUCERS
        filled["config"] = {**_defaults(ProducerConfig(), timers), **filled["config"]}
    else:
        filled["config"] = {**_defaults(ConsumerConfig(), OF_CONSUMERS), **filled["config"]}
    if data["kind"] == "processor":
        own = data.get("producer-config", {})
        filled["producer-config"] = {**_defaults(ProducerConfig(), OF_TRANSACTIONS), **own}
    return filled


def _defaults(
    config: BrokerConfig | ConsumerConfig | ProducerConfig, names: tuple[str, ...]
) -> Data:
    return {name: getattr(config, name.replace(".", "_")) for name in names}
