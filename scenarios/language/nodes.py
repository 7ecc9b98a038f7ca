"""The hosts of a scenario: names, ids of controllers and of transactions, selectors of faults.

Hosts are named ``broker-N``, ``controller-N``, ``zookeeper-N``, ``producer-N``, ``consumer-N`` and
``processor-N``, each counted from 1. In combined mode (process.roles = broker,controller) the first
controllers run in the processes of ``broker-1``, ``broker-2``…
"""

from __future__ import annotations

import random

from kafkasim.model.config import BrokerConfig
from kafkasim.model.coordinator.hashing import partition_for
from kafkasim.scenarios.language.tables import (
    ClusterTable,
    ProcessorTable,
    ProducerTable,
    Scenario,
)

FIRST_CONTROLLER_ID = 3001

ANY = (
    "any-broker",
    "any-controller",
    "any-zookeeper",
    "any-producer",
    "any-consumer",
    "any-processor",
    "any-streams",
)
"""Selectors for which each seed draws a host of the kind."""

ROLES = (
    "leader:",
    "follower:",
    "coordinator:",
    "transaction-coordinator:",
    "active-controller",
    "@node",
)
"""Beginnings of selectors that name a host by its role at the moment a fault starts."""

OFFSETS_PARTITIONS = 50
"""The default of offsets.topic.num.partitions."""

TRANSACTION_PARTITIONS = 50
"""The default of transaction.state.log.num.partitions."""


def controller_id(number: int, combined: int) -> int:
    """Return the node id of the ``number``-th controller; a combined one has its broker's id."""
    return number if number <= combined else FIRST_CONTROLLER_ID + number - 1


def controller_hosts(count: int, combined: int) -> dict[int, str]:
    """Return the hosts of ``count`` controllers by node id, in the order of their numbers."""
    hosts: dict[int, str] = {}
    for number in range(1, count + 1):
        kind = "broker" if number <= combined else "controller"
        hosts[controller_id(number, combined)] = f"{kind}-{number}"
    return hosts


def node_names(scenario: Scenario) -> list[str]:
    """Return the names of all hosts of servers and clients."""
    cluster = scenario.cluster
    names = [f"broker-{i}" for i in range(1, cluster.brokers + 1)]
    if cluster.mode == "zookeeper":
        names += [f"zookeeper-{i}" for i in range(1, cluster.zookeepers + 1)]
    else:
        last = cluster.controllers + cluster.standby_controllers
        names += [f"controller-{i}" for i in range(cluster.combined + 1, last + 1)]
    producers = sum(w.count for w in scenario.workload if w.kind == "producer")
    members = ("consumer-group", "share-group")
    consumers = sum(w.count for w in scenario.workload if w.kind in members)
    names += [f"producer-{i}" for i in range(1, producers + 1)]
    names += [f"consumer-{i}" for i in range(1, consumers + 1)]
    processors = sum(w.count for w in scenario.workload if w.kind == "processor")
    names += [f"processor-{i}" for i in range(1, processors + 1)]
    instances = sum(table.count for table in scenario.streams)
    names += [f"streams-{i}" for i in range(1, instances + 1)]
    return names


def candidates(selector: str, nodes: list[str], combined: int) -> list[str]:
    """Return the hosts that an any-KIND selector draws from.

    The first ``combined`` brokers count as controllers, too.
    """
    kind = selector.removeprefix("any-")
    some = [node for node in nodes if node.startswith(f"{kind}-")]
    if kind == "controller":
        some += [f"broker-{number}" for number in range(1, combined + 1)]
    return some


def select(
    name: str,
    nodes: list[str],
    rng: random.Random,
    *,
    offsets_partitions: int = OFFSETS_PARTITIONS,
    transaction_partitions: int = TRANSACTION_PARTITIONS,
    combined: int = 0,
) -> str:
    """Return the host or role that a name in a scenario stands for.

    ``any-KIND`` becomes a drawn host of :func:`candidates`. ``coordinator:GROUP`` becomes the
    leader of the group's partition of __consumer_offsets, ``transaction-coordinator:ID`` the leader
    of a transactional id's partition of __transaction_state. Any other name is returned as it is.
    """
    if name.startswith("any-"):
        some = candidates(name, nodes, combined)
        return some[int(rng.random() * len(some))]
    if name.startswith("coordinator:"):
        group = name.partition(":")[2]
        return f"leader:__consumer_offsets-{partition_for(group, offsets_partitions)}"
    if name.startswith("transaction-coordinator:"):
        transactional_id = name.partition(":")[2]
        partition = partition_for(transactional_id, transaction_partitions)
        return f"leader:__transaction_state-{partition}"
    return name


def log_dirs_of(cluster: ClusterTable, node: str | None) -> tuple[str, ...]:
    """Return the log.dirs of a host; for a role or None, those of the cluster's config."""
    own = cluster.nodes[node].config if node is not None and node in cluster.nodes else {}
    text = own.get("log.dirs", cluster.config.get("log.dirs", ()))
    return BrokerConfig.from_properties({"log.dirs": text}).log_dirs


def transactional_id(table: ProducerTable | ProcessorTable, member: int) -> str | None:
    """Return the transactional id of the ``member``-th host of a workload, from 1, or None."""
    if isinstance(table, ProcessorTable):
        exactly_once = table.guarantee == "exactly-once"
        return f"{table.transactional_id or table.group}-{member}" if exactly_once else None
    if table.transactional_id is None or table.count == 1:
        return table.transactional_id
    return f"{table.transactional_id}-{member}"


def epochs_used(scenario: Scenario) -> dict[str, int]:
    """Return how many epochs each transactional id has used before the run, if it has used any.

    A run begins with an empty ``__transaction_state``, and a producer id has 32 767 epochs for
    producers (0 to 32 766, TransactionMetadata.isEpochExhausted). ``epochs-used`` lets an id begin
    near their end; what a coordinator makes of it is told in
    ``model/transaction/requests/init_producer_id.py``.

    Raises:
        ValueError: two workloads say different things about an id that both have.
    """
    known: dict[str, int] = {}
    for index, table in enumerate(scenario.workload):
        if not isinstance(table, ProducerTable | ProcessorTable) or not table.epochs_used:
            continue
        for member in range(1, table.count + 1):
            name = transactional_id(table, member)
            if name is not None and known.setdefault(name, table.epochs_used) != table.epochs_used:
                given = f"{name} has {table.epochs_used} here and {known[name]} before"
                raise ValueError(f"workload.{index}.epochs-used: {given}")
    return known
