"""Check the faults: when they strike, whom, and with which parameters."""

from __future__ import annotations

import random

from kafkasim.model.config import BrokerConfig
from kafkasim.model.records import SHARE_GROUP_STATE_TOPIC
from kafkasim.scenarios.language.checks.allowed import some
from kafkasim.scenarios.language.checks.messages import check_awaited, check_selection
from kafkasim.scenarios.language.nodes import ANY, ROLES, candidates, log_dirs_of
from kafkasim.scenarios.language.tables import FaultTable, OperationTable, Scenario
from kafkasim.scenarios.language.translate import condition, translate
from kafkasim.scenarios.language.units import EVER, duration_text
from kafkasim.sim.faults.kinds import KINDS, FaultError, validate, validate_when

DISK = (
    "slow-disk", "disk-stall", "disk-full", "disk-read-error", "flush-error", "disk-failure",
    "bit-rot",
)  # fmt: skip
"""The kinds that hit a disk and nothing else."""

SERVERS = ("broker-", "controller-", "zookeeper-")

CLIENTS = (
    "producer-", "consumer-", "processor-", "any-producer", "any-consumer", "any-processor",
)  # fmt: skip

WATCHED_ROLES = ("leader:", "follower:", "active-controller")
"""Roles that the host of a fact may have; the trace tells who has them."""


def check_faults(scenario: Scenario, nodes: list[str]) -> None:
    """Check every fault; ``nodes`` are the names of all hosts.

    Raises:
        ValueError: for the first mistake.
    """
    for index, fault in enumerate(scenario.faults):
        place = f"faults.{index}"
        _check_times(place, fault)
        check_when(place, fault, scenario, nodes)
        if fault.kind == "nemesis":
            if fault.for_ == EVER:
                raise ValueError(f"{place}.for: a nemesis ends; allowed: a duration or a range")
            for kind in fault.kinds:
                if kind not in KINDS:
                    raise ValueError(
                        f"{place}.kinds: no kind {kind!r}; allowed: {', '.join(KINDS)}"
                    )
        elif fault.kind == "rack-loss":
            if fault.rack not in scenario.cluster.racks:
                racks = some(scenario.cluster.racks) or "none: cluster.racks is empty"
                raise ValueError(f"{place}.rack: no rack {fault.rack!r}; allowed: {racks}")
        elif fault.node is None and not fault.nodes:
            raise ValueError(f"{place}.node: is missing")
        for key, names in (("node", [fault.node]), ("nodes", fault.nodes), ("peers", fault.peers)):
            for name in names:
                if name is not None:
                    check_node(f"{place}.{key}", name, scenario, nodes)
        _check_disk(place, fault, scenario, nodes)
        check_selection(place, fault)
        if fault.kind != "nemesis":
            _check_parameters(place, fault, scenario, nodes)


def check_idle(scenario: Scenario) -> None:
    """Refuse what never happens: a fault or an operation too late, or a node cut from itself.

    Draws of ``search`` have such faults, too: what chance gives is no mistake of a user.

    Raises:
        ValueError: for the first of them.
    """
    for index, fault in enumerate(scenario.faults):
        _check_begin(f"faults.{index}", fault, scenario.duration)
        _check_sides(f"faults.{index}", fault)
    for index, operation in enumerate(scenario.operations):
        _check_begin(f"operations.{index}", operation, scenario.duration)


def _check_times(place: str, fault: FaultTable) -> None:
    if fault.kind != "nemesis" and fault.at is None and fault.when is None:
        raise ValueError(
            f"{place}: give at, when, or both: at is then the delay after the condition"
        )
    if fault.every is not None and fault.at is None:
        raise ValueError(f"{place}.every: needs at")
    if fault.count > 1 and fault.every is None:
        raise ValueError(f"{place}.count: needs every")


def _check_begin(place: str, table: FaultTable | OperationTable, duration: int) -> None:
    times = {} if table.at is None else {"at": table.at.low}
    if table.when is not None:
        times["when.after"] = table.when.after
    if isinstance(table, FaultTable) and table.until is not None:
        times["until.after"] = table.until.after
    for key, time in times.items():
        if time >= duration:
            raise ValueError(
                f"{place}.{key}: {duration_text(time)} is not within the run; allowed: less than"
                f" duration, {duration_text(duration)}, when faults and operations end"
            )


def _check_sides(place: str, fault: FaultTable) -> None:
    """Refuse a link of a node with itself.

    An any-KIND selector draws anew for each side. A broker sends requests to itself, too. These may
    be held, cut or reset; the network has no part in them.
    """
    if fault.kind not in ("partition", "partition-oneway"):
        return
    for name in (fault.node, *fault.nodes):
        if name in fault.peers and name not in ANY:
            raise ValueError(
                f"{place}.peers: {name} is on both sides of the link; allowed: nodes that are"
                " not in node or nodes"
            )


def _check_disk(place: str, fault: FaultTable, scenario: Scenario, nodes: list[str]) -> None:
    """Refuse a fault of the disk of a client that keeps nothing on one."""
    if fault.kind not in DISK:
        return
    servers = [name for name in nodes if name.startswith(SERVERS)]
    keeping = _keeping(scenario)
    for key, names in (("node", [fault.node]), ("nodes", fault.nodes)):
        for name in names:
            if name is None or not name.startswith(CLIENTS) or name in keeping:
                continue
            if name == "any-consumer" and keeping:
                continue
            raise ValueError(
                f"{place}.{key}: {name} has nothing on a disk; allowed:"
                f" {some([*servers, *keeping])}, or a selector of a server"
            )


def _keeping(scenario: Scenario) -> list[str]:
    """Return the consumers that may have a database or an audit's counts on their disks."""
    keeps = [
        workload.kind == "consumer-group" and bool(workload.store or workload.audit or workload.app)
        for workload in scenario.workload
        if workload.kind in ("consumer-group", "share-group")
        for _ in range(workload.count)
    ]
    return [f"consumer-{number}" for number, kept in enumerate(keeps, 1) if kept]


def check_when(
    place: str, table: FaultTable | OperationTable, scenario: Scenario, nodes: list[str]
) -> None:
    """Check the conditions of a fault or an operation, and that ``@node`` has one.

    Raises:
        ValueError: no such fact, field or host.
    """
    if table.when is None and "@node" in (table.node, *table.nodes):
        raise ValueError(f"{place}.node: '@node' needs a when")
    until = table.until if isinstance(table, FaultTable) else None
    for key, when in (("when", table.when), ("until", until)):
        if when is None:
            continue
        try:
            check_awaited(f"{place}.{key}", when)
            validate_when(condition(when), f"{place}.{key}")
        except FaultError as error:
            raise ValueError(str(error)) from None
        if when.node is not None:
            if when.node not in nodes and not when.node.startswith(WATCHED_ROLES):
                allowed = "leader:TOPIC-P, follower:TOPIC-P, active-controller"
                raise ValueError(
                    f"{place}.{key}.node: no node {when.node!r}; allowed: {some(nodes)}, {allowed}"
                )
            check_node(f"{place}.{key}.node", when.node, scenario, nodes)


def _check_parameters(place: str, fault: FaultTable, scenario: Scenario, nodes: list[str]) -> None:
    """Let the simulator judge the fault that this one becomes."""
    combined = scenario.cluster.combined
    log_dirs = log_dirs_of(scenario.cluster, fault.node)
    _check_dir(place, fault, log_dirs)
    try:
        validate(translate(fault, nodes, random.Random(0), combined=combined, log_dirs=log_dirs))
    except FaultError as error:
        raise ValueError(f"{place}.{error.field}: {error.problem}") from None


def _check_dir(place: str, fault: FaultTable, log_dirs: tuple[str, ...]) -> None:
    if fault.dir is None:
        return
    if "path" not in KINDS[fault.kind].parameters:
        raise ValueError(f"{place}.dir: {fault.kind} does not hit a directory")
    if fault.path is not None:
        raise ValueError(f"{place}.dir: give dir or path, not both")
    if fault.dir not in log_dirs:
        known = ", ".join(log_dirs) or "none: log.dirs is not set"
        raise ValueError(f"{place}.dir: no log directory {fault.dir!r}; allowed: {known}")


def check_node(place: str, name: str, scenario: Scenario, nodes: list[str]) -> None:
    """Check that a name is a host's or a selector.

    Raises:
        ValueError: it is neither, or a selector of a partition or group that does not exist.
    """
    if name in nodes:
        return
    if not name.startswith((*ROLES, "any-")):
        raise ValueError(
            f"{place}: no node {name!r}; allowed: {some(nodes)}, or a selector"
            " (leader:TOPIC-P, follower:TOPIC-P, active-controller, coordinator:GROUP,"
            " transaction-coordinator:ID, any-broker)"
        )
    selector, _, argument = name.partition(":")
    if selector in ("leader", "follower"):
        topic, _, partition = argument.rpartition("-")
        known = {**_share_states(scenario), **{t.name: t.partitions for t in scenario.topics}}
        if topic not in known:
            raise ValueError(f"{place}: no topic {topic!r}; allowed: {some(known)}")
        if partition not in map(str, range(known[topic])):
            raise ValueError(f"{place}: {topic} has partitions 0 to {known[topic] - 1}")
    elif selector == "coordinator":
        groups = [w.group for w in scenario.workload if w.kind != "producer"]
        groups += [table.application_id for table in scenario.streams]
        if argument not in groups:
            raise ValueError(f"{place}: no group {argument!r}; allowed: {some(groups)}")
    elif name.startswith("any-"):
        if name not in ANY:
            raise ValueError(f"{place}: no selector {name!r}; allowed: {some(ANY)}")
        if not candidates(name, nodes, scenario.cluster.combined):
            raise ValueError(f"{place}: {name} selects no node; allowed: {some(nodes)}")


def _share_states(scenario: Scenario) -> dict[str, int]:
    """Return the partitions of the topic that keeps the states of share groups, if there are any.

    Their leaders are the share coordinators. Which of them has a share partition depends on the
    topic's id, so no selector names a coordinator by its group.
    """
    if all(each.kind != "share-group" for each in scenario.workload):
        return {}
    config = BrokerConfig.from_properties(scenario.cluster.config)
    return {SHARE_GROUP_STATE_TOPIC: config.share_coordinator_state_topic_num_partitions}
