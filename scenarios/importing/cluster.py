"""Make a scenario without faults of what the files say, and tell what was made of it."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kafkasim.model.config import BrokerConfig, TopicConfig
from kafkasim.model.config.base import unknown
from kafkasim.model.config.kafka_names import KAFKA_NAMES
from kafkasim.scenarios.importing.given import Given, Server
from kafkasim.scenarios.language.files.properties import Sorted, ensemble, sort, without_synonyms
from kafkasim.scenarios.language.spec import ScenarioError

MOST_BROKERS = 100
TOPIC = "orders"
"""The topic of a scenario whose files name none."""

Data = dict[str, Any]


def scenario(given: Given) -> Data:
    """Return the scenario; what was taken, defaulted and left out is appended to ``given``.

    Raises:
        ScenarioError: the files contradict each other, or name what cannot be run.
    """
    zookeeper = _zookeeper(given.servers)
    if not zookeeper and not any(each.roles for each in given.servers):
        given.defaulted.append("process.roles = broker: no file names roles, or zookeeper.connect")
    brokers = [each for each in given.servers if each.roles != ("controller",)]
    controllers = [each for each in given.servers if "controller" in each.roles]
    # The first controllers run in the first brokers' processes.
    brokers.sort(key=lambda each: (each not in controllers, each.id is None, each.id or 0))
    cluster: Data = {"mode": "zookeeper"} if zookeeper else {}
    cluster["kafka-version"] = _version(given, zookeeper)
    cluster["brokers"] = _brokers(given, brokers)
    cluster |= _ensemble(given) if zookeeper else _quorum(given, brokers, controllers, cluster)
    hosts = {f"broker-{n}": each for n, each in enumerate(brokers, 1)}
    alone = [each for each in controllers if each not in brokers]
    first = cluster.get("combined", 0) + 1
    hosts |= {f"controller-{n}": each for n, each in enumerate(alone, first)}
    _tell_names(given, hosts)
    cluster |= _racks(given, brokers)
    base, own = _configs(given, hosts)
    if not zookeeper and (protocol := base.pop("inter.broker.protocol.version", None)):
        given.left_out.append(
            f"inter.broker.protocol.version = {protocol}: KRaft has metadata.version instead"
        )
    cluster |= {"config": _plain(base)} if base else {}
    nodes: Data = {host: {"config": _plain(config)} for host, config in own.items() if config}
    for host, rack in cluster.pop("nodes", {}).items():
        nodes.setdefault(host, {})["rack"] = rack
    cluster |= {"nodes": nodes} if nodes else {}
    topics = _topics(given, base, cluster["brokers"])
    return {
        "name": re.sub(r"[^A-Za-z0-9-]+", "-", given.name).strip("-") or "cluster",
        "claim": "Without faults every record that is acknowledged is kept and read.",
        "duration": "60s",
        "cluster": cluster,
        "topics": topics,
        "workload": _workload(given, base, cluster["brokers"], topics[0]["name"]),
    }


def _zookeeper(servers: Sequence[Server]) -> bool:
    kinds = {not each.roles for each in servers}
    if len(kinds) == 2:
        here = next(each for each in servers if not each.roles)
        raise ScenarioError(
            f"{here.place}: has no process.roles, and others have: ZooKeeper and KRaft in one"
            " cluster is a migration, which is not modelled"
        )
    return True in kinds and any("zookeeper.connect" in each.properties for each in servers)


def _version(given: Given, zookeeper: bool) -> str:
    default = "3.9" if zookeeper else "4.0"
    match = re.match(r"(\d+)\.(\d+)", given.version)
    if match is None:
        given.defaulted.append(f"kafka-version = {default}: no file names a release")
        return default
    release = int(match[1]), int(match[2])
    if zookeeper and release >= (4, 0):
        raise ScenarioError(f"Kafka {given.version} has no ZooKeeper mode; 3.9 is the last")
    if release >= (4, 0):
        nearest = "4.0" if release == (4, 0) else "4.1"
    else:
        nearest = "2.8-zk" if zookeeper and release <= (2, 8) else "3.9"
    shown = f"{match[1]}.{match[2]}"
    if nearest.partition("-")[0] == shown:
        given.took.append(f"kafka-version = {nearest}")
    else:
        given.defaulted.append(
            f"kafka-version = {nearest}: the nearest to {shown} of those modelled"
        )
    return nearest


def _brokers(given: Given, brokers: Sequence[Server]) -> int:
    if not brokers:
        raise ScenarioError(
            f"{given.servers[0].place}: process.roles = controller: give a broker's file, too"
        )
    if len(brokers) > MOST_BROKERS:
        raise ScenarioError(f"{len(brokers)} brokers: a scenario has {MOST_BROKERS} at most")
    one = brokers[0]
    if given.brokers is not None:
        if len(brokers) > 1 or given.all_servers:
            raise ScenarioError(
                f"--brokers {given.brokers}: the files have {len(brokers)} of their own; it is for"
                " one file that stands for all"
            )
        given.took.append(f"brokers = {given.brokers}: --brokers")
        return given.brokers
    if len(brokers) > 1 or given.all_servers:
        given.took.append(f"brokers = {len(brokers)}")
        return len(brokers)
    voters = _voters(one)
    if voters and "controller" in one.roles:
        given.took.append(f"brokers = {voters}: the voters, which have both roles")
        return voters
    given.defaulted.append(
        "brokers = 3: one broker's file does not say how many there are; --brokers does"
    )
    return 3


def _voters(server: Server) -> int:
    return server.hosts("controller.quorum.voters") or server.hosts(
        "controller.quorum.bootstrap.servers"
    )


def _quorum(
    given: Given, brokers: Sequence[Server], controllers: Sequence[Server], cluster: Data
) -> Data:
    named = max(_voters(each) for each in given.servers)
    voters = named or len(controllers)
    if not voters:
        given.defaulted.append("controllers = 3: no file names the voters")
        return {"controllers": 3}
    several = len(controllers) > 1
    if several and named and named != len(controllers):
        given.defaulted.append(
            f"of {len(controllers)} controllers in the files and {named} voters the voters count"
        )
    modelled = ensemble(voters)
    (given.took if modelled == voters else given.defaulted).append(
        f"controllers = {modelled}"
        + ("" if modelled == voters else f": of {voters} voters; a scenario has 1, 3 or 5")
    )
    together = len([each for each in controllers if each in brokers])
    if together and cluster["brokers"] > len(brokers):
        together = cluster["brokers"]  # one file stands for all
    combined = min(together, modelled)
    if combined:
        given.took.append(f"combined = {combined}: controllers that are brokers as well")
    return {"controllers": modelled, **({"combined": combined} if combined else {})}


def _ensemble(given: Given) -> Data:
    servers = max(each.hosts("zookeeper.connect") for each in given.servers)
    number = given.zookeepers or servers
    modelled = ensemble(number)
    (given.took if modelled == number else given.defaulted).append(
        f"zookeepers = {modelled}"
        + ("" if modelled == number else f": of {number}; a scenario has 1, 3 or 5")
    )
    return {"zookeepers": modelled}


def _tell_names(given: Given, hosts: Mapping[str, Server]) -> None:
    for host, server in hosts.items():
        number = int(host.rpartition("-")[2])
        other = server.id is not None and server.id != number
        told = f" (id {server.id} there)" if other else ""
        if len(hosts) > 1:
            given.took.append(f"{host}: {server.place}{told}")


def _racks(given: Given, brokers: Sequence[Server]) -> Data:
    racks = [each.properties.get("broker.rack", "") for each in brokers]
    if given.racks and not any(racks):
        given.defaulted.append("racks = a, b, c: the zones of the nodes are not in the file")
        return {"racks": ["a", "b", "c"]}
    names = list(dict.fromkeys(each for each in racks if each))
    if not names:
        return {}
    given.took.append(f"racks: {', '.join(names)}")
    around = [names[n % len(names)] for n in range(len(racks))]
    if racks == around and len(racks) > 1:
        return {"racks": names}
    return {"nodes": {f"broker-{n}": each for n, each in enumerate(racks, 1) if each}}


def _configs(
    given: Given, hosts: Mapping[str, Server]
) -> tuple[dict[str, str], dict[str, dict[str, str]]]:
    """Return the settings that all brokers have, and for each host those that differ."""
    of = {host: _taken(given, server) for host, server in hosts.items()}
    brokers = [config for host, config in of.items() if host.startswith("broker-")]
    base = {key: value for key, value in brokers[0].items() if all(key in each for each in brokers)}
    own = {
        host: {key: value for key, value in config.items() if base.get(key) != value}
        for host, config in of.items()
    }
    if base:
        given.took.append(f"for all servers: {', '.join(base)}")
    for host, config in own.items():
        if config:
            given.took.append(f"for {host} only: {', '.join(config)}")
    return base, own


def _taken(given: Given, server: Server) -> dict[str, str]:
    found = sort(without_synonyms(server.properties, Path(server.place)), BrokerConfig)
    read = ("node.id", "broker.id", "broker.rack", "process.roles", "controller.quorum.voters",
            "controller.quorum.bootstrap.servers", "zookeeper.connect")  # fmt: skip
    ignored = Sorted(
        found.taken, [key for key in found.ignored if key not in read],
        found.others, found.unmodelled, found.unknown,
    )  # fmt: skip
    for line in reasons(ignored, "broker"):
        if line not in given.left_out:
            given.left_out.append(line)
    return found.taken


def reasons(kinds: Sorted, kind: str) -> list[str]:
    """Return a line for each reason why properties were left out."""
    lines = []
    if kinds.ignored:
        lines.append(f"{', '.join(kinds.ignored)}: addresses, security or machines, no effect here")
    if kinds.others:
        lines.append(f"{', '.join(kinds.others)}: of another program")
    if kinds.unmodelled:
        lines.append(f"{', '.join(kinds.unmodelled)}: Kafka's, but not modelled")
    names = sorted(KAFKA_NAMES[kind])
    lines += [f"{key}: {unknown(key, kind, names)[:200]}" for key in kinds.unknown]
    return lines


def _plain(properties: Mapping[str, str]) -> Data:
    """Return properties with numbers and truth values as TOML has them."""
    words = {"true": True, "false": False}
    return {
        key: int(value) if value.isdigit() else words.get(value, value)
        for key, value in properties.items()
    }


def _topics(given: Given, base: Mapping[str, str], brokers: int) -> list[Data]:
    keys = ("default.replication.factor", "num.partitions")
    defaults = BrokerConfig.from_properties({k: base[k] for k in keys if k in base})
    replicas, partitions = defaults.default_replication_factor, defaults.num_partitions
    if not given.topics:
        given.defaulted.append(
            f"topic {TOPIC}, num.partitions = {partitions} and default.replication.factor ="
            f" {replicas}: the files name no topic"
        )
        return [{"name": TOPIC, "partitions": partitions, "replication-factor": replicas}]
    topics = []
    for each in given.topics:
        topic = {"partitions": partitions, "replication-factor": replicas, **each}
        if topic["replication-factor"] > brokers:
            raise ScenarioError(
                f"topic {topic['name']}: its {topic['replication-factor']} replicas need as many"
                f" brokers, and there are {brokers}"
            )
        if "config" in topic:
            kinds = sort(topic["config"], TopicConfig)
            topic["config"] = _plain(kinds.taken)
            given.left_out += [f"topic {topic['name']}: {line}" for line in reasons(kinds, "topic")]
        topics.append({"name": each["name"], **{k: v for k, v in topic.items() if k != "name"}})
    given.took.append(f"topics: {', '.join(each['name'] for each in topics)}")
    return topics


def _workload(given: Given, base: Mapping[str, str], brokers: int, topic: str) -> list[Data]:
    given.defaulted.append(f"a producer with acks=all and 50 records a second to {topic}")
    producer = {
        "kind": "producer",
        "topic": topic,
        "rate": "50/s",
        "keys": "uniform:1000",
        "config": {"acks": "all"},
    }
    wanted = BrokerConfig.from_properties(
        {k: base[k] for k in ("offsets.topic.replication.factor",) if k in base}
    ).offsets_topic_replication_factor
    if wanted > brokers:
        given.left_out.append(
            f"consumers: offsets.topic.replication.factor = {wanted} is more than brokers ="
            f" {brokers}, so Kafka cannot create __consumer_offsets"
        )
        return [producer]
    given.defaulted.append(f"a consumer group that reads {topic}")
    reads = {"auto.offset.reset": "earliest"}
    group = {"kind": "consumer-group", "group": "readers", "topics": [topic], "config": reads}
    return [producer, group]
