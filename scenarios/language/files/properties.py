"""Read a server.properties, or a client's properties, into a scenario.

Properties of the model are taken. Those outside it (listeners, security, paths, the quorum's
addresses), and those that have no effect here, are ignored and named once. Properties of Kafka that
are not modelled are refused, so that no user relies on a setting without effect, unless the user
allows them or they have Kafka's default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from kafkasim.model.config import BrokerConfig, Config, ConsumerConfig, ProducerConfig
from kafkasim.model.config.base import unknown
from kafkasim.model.config.kafka_names import KAFKA_NAMES
from kafkasim.scenarios.language.files.kafka_defaults import UNMODELLED_DEFAULTS
from kafkasim.scenarios.language.spec import ScenarioError

OUTSIDE = (
    "advertised.", "allow.everyone.if.no.acl.found", "authorizer.", "auto.include.jmx",
    "broker.id", "broker.rack", "confluent.",
    "control.plane.", "controller.listener", "controller.quorum.bootstrap",
    "controller.quorum.voters", "delegation.", "early.start.listeners", "host.name",
    "inter.broker.", "kafka.metrics", "listener", "log.dir", "max.connection", "metadata.log.dir",
    "metric", "node.id", "num.recovery.threads.per.data.dir", "password.", "port", "principal.",
    "process.roles", "sasl.", "security.", "share.coordinator.", "socket.", "ssl.", "super.users",
    "telemetry.", "transaction.state.log.", "zookeeper.",
)  # fmt: skip
"""Beginnings of properties that have no meaning in the simulation.

Recovery of a log costs no thread. Keys of the model count, although one
of these beginnings fits them, as it fits ``transaction.state.log.min.isr``.
"""

OTHERS = (
    "confluent.", "connect.", "cruise.control", "jmx.", "kafka.rest", "ksql.", "log4j", "rest.",
    "schema.registry",
)  # fmt: skip
"""Beginnings of properties of other programs, which lie in the same files and environments."""

CLIENTS_OUTSIDE = (
    "auto.include.jmx", "bootstrap.servers", "client.dns.lookup", "client.rack",
    "enable.metrics.push", "key.", "metric", "receive.buffer.bytes", "sasl.", "security.",
    "send.buffer.bytes", "socket.", "ssl.", "value.",
)  # fmt: skip
"""The same of clients: how they find servers, are trusted, and read values."""

OF_WORKLOAD = {"group.id": "group", "transactional.id": "transactional-id"}
"""Properties of clients that are keys of a workload."""

SYNONYMS = {
    "log.retention.minutes": ("log.retention.ms", 60_000),
    "log.retention.hours": ("log.retention.ms", 3_600_000),
    "log.roll.hours": ("log.roll.ms", 3_600_000),
}
"""Keys in coarser units, with the milliseconds of the unit: finest first."""


BOTH_ROLES = (
    "process.roles: the controllers run on hosts of their own; cluster.combined says how many of"
    " them run in brokers' processes"
)
"""What is said of a node with both roles."""


SEPARATED = re.compile(r"((?:[^\\\s=:]|\\.)+)\s*[=:\s]\s*(.*)", re.DOTALL)
"""A key, which ends at the first ``=``, ``:`` or space without a backslash, and its value."""

ESCAPED = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
CONTROLS = {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}


def parse(path: Path) -> dict[str, str]:
    """Read a Java properties file (java.util.Properties.load).

    Raises:
        ScenarioError: the file cannot be read, or a line is not ``key=value``.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError as error:
        raise ScenarioError(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ScenarioError(f"{path}: is not UTF-8 text: {error.reason}") from None
    except ValueError as error:  # a path with a null character
        raise ScenarioError(f"{str(path)!r} is no path: {error}") from None
    found = {}
    for number, text in _logical_lines(lines):
        separated = SEPARATED.fullmatch(text)
        if separated is None:
            raise ScenarioError(f"{path}:{number}: {text!r} is not key=value")
        key, value = (_unescaped(part) for part in separated.groups())
        found[key] = value.strip()
    return found


def _logical_lines(lines: list[str]) -> Iterator[tuple[int, str]]:
    """Yield each property with the number of its first line.

    A line that ends with a backslash goes on in the next one, whose indentation does not count.
    Comments do not go on.
    """
    first, text = 0, ""
    for number, line in enumerate(lines, 1):
        part = line.lstrip()
        if not text:
            if not part or part.startswith(("#", "!")):
                continue
            first = number
        text += part
        backslashes = len(text) - len(text.rstrip("\\"))
        if backslashes % 2 and number < len(lines):
            text = text[:-1]
            continue
        yield first, text.rstrip()
        text = ""


def _unescaped(text: str) -> str:
    def meant(match: re.Match[str]) -> str:
        code = match[1]
        return chr(int(code[1:], 16)) if len(code) == 5 else CONTROLS.get(code, code)

    return ESCAPED.sub(meant, text)


def without_synonyms(properties: Mapping[str, str], path: Path) -> dict[str, str]:
    """Return the properties with those in hours and minutes as milliseconds.

    The finest unit that is given counts (KafkaConfig.logRetentionTimeMillis, logRollTimeMillis).

    Raises:
        ScenarioError: one of them is no number.
    """
    found = {key: value for key, value in properties.items() if key not in SYNONYMS}
    for key, (name, unit_ms) in SYNONYMS.items():
        if key in properties:
            try:
                number = int(properties[key])
            except ValueError:
                raise ScenarioError(f"{path}: {key}: {properties[key]!r} is no number") from None
            found.setdefault(name, str(number * unit_ms if number >= 0 else number))
    return found


@dataclass(frozen=True)
class Sorted:
    """Properties by what becomes of them; all but ``taken`` are names, in the file's order.

    ``ignored`` have no meaning here, ``others`` are of other programs, ``unmodelled`` are Kafka's,
    and Kafka does not know ``unknown``.
    """

    taken: dict[str, str]
    ignored: list[str]
    others: list[str]
    unmodelled: list[str]
    unknown: list[str]


def sort(properties: Mapping[str, str], config: type[Config]) -> Sorted:
    """Sort the properties of a server or client by what becomes of them in a scenario."""
    known = {f.name.replace("_", "."): f.metadata.get("no_effect") for f in fields(config)}
    server = config is BrokerConfig
    outside = OUTSIDE if server else CLIENTS_OUTSIDE
    result = Sorted({}, [], [], [], [])
    for key, value in properties.items():
        if key in known and not known[key] and key not in OF_WORKLOAD:
            result.taken[key] = value
        elif server and UNMODELLED_DEFAULTS.get(key) == value:
            continue
        elif key.startswith(OTHERS):
            result.others.append(key)
        elif key in known or key.startswith(outside) or key in OF_WORKLOAD:
            result.ignored.append(key)
        elif key in KAFKA_NAMES[config.kind]:
            result.unmodelled.append(key)
        else:
            result.unknown.append(key)
    return result


ENSEMBLES = (5, 3, 1)
"""How many voters or ZooKeeper servers a scenario can have."""


def servers(found: Mapping[str, str]) -> dict[str, Any]:
    """Return what a server's properties say of the cluster, as keys of ``[cluster]``.

    A ZooKeeper file is ZooKeeper mode. Voters are controllers, and brokers as well if this one has
    both roles. An even number of them tolerates the loss of as many as the odd one below.
    """
    if "process.roles" not in found and "zookeeper.connect" in found:
        hosts = found["zookeeper.connect"].partition("/")[0].split(",")
        return {"mode": "zookeeper", "zookeepers": ensemble(len(hosts))}
    voters = [each for each in found.get("controller.quorum.voters", "").split(",") if each.strip()]
    if not voters:
        return {}
    result: dict[str, Any] = {"controllers": ensemble(len(voters))}
    if roles(found) == ("broker", "controller"):
        result |= {"brokers": len(voters), "combined": ensemble(len(voters))}
    return result


def ensemble(members: int) -> int:
    """Return how many of an ensemble's members a scenario can have."""
    return next((each for each in ENSEMBLES if each <= members), 1)


def roles(found: Mapping[str, str]) -> tuple[str, ...]:
    """Return the roles of process.roles, in the alphabet's order."""
    return tuple(sorted(each.strip() for each in found.get("process.roles", "").split(",") if each))


def misspelt(path: Path, key: str, config: type[Config]) -> str:
    """Return what is said of a name that Kafka does not know."""
    return f"{path}: {key}: {unknown(key, config.kind, sorted(KAFKA_NAMES[config.kind]))}"


def merge(
    data: Mapping[str, Any], folder: Path, place: str, *, allow_unmodelled: bool, notes: list[str]
) -> dict[str, Any]:
    """Return a scenario's data with each ``config-file`` read into the ``config`` beside it.

    ``cluster`` names a server's file, a producer or consumer group that of a client. Keys of
    ``config`` override the file's. Ignored properties are appended to ``notes``.

    Raises:
        ScenarioError: the file cannot be read, or has a property that is not modelled.
    """
    merged = dict(data)
    cluster, workloads = data.get("cluster"), data.get("workload")
    allowed = allow_unmodelled
    if isinstance(cluster, Mapping) and "allow-unmodelled" in cluster:
        wanted = cluster["allow-unmodelled"]
        if not isinstance(wanted, bool):
            raise ScenarioError(f"{place}: cluster.allow-unmodelled: give true or false")
        allowed = allowed or wanted
        merged["cluster"] = {k: v for k, v in cluster.items() if k != "allow-unmodelled"}
    reader = _Reader(folder, place, allowed, notes)
    if isinstance(cluster, Mapping):
        merged["cluster"] = reader.with_file(merged["cluster"], "cluster", BrokerConfig)
    if isinstance(workloads, list):
        merged["workload"] = [reader.workload(each, n) for n, each in enumerate(workloads)]
    return merged


@dataclass(frozen=True)
class _Reader:
    folder: Path
    place: str
    allowed: bool
    notes: list[str]

    def workload(self, table: Any, number: int) -> Any:
        config = CLIENTS.get(str(table.get("kind"))) if isinstance(table, Mapping) else None
        return table if config is None else self.with_file(table, f"workload.{number}", config)

    def with_file(self, table: Mapping[str, Any], key: str, config: type[Config]) -> dict[str, Any]:
        """Return a table with its config-file read into its config."""
        if "config-file" not in table:
            return dict(table)
        result = dict(table)
        name = result.pop("config-file")
        if not isinstance(name, str):
            raise ScenarioError(f"{self.place}: {key}.config-file: {name!r} is not a path")
        path = self.folder / name
        found = parse(path)
        if config is BrokerConfig:
            found = without_synonyms(found, path)
            says = servers(found)
            if table.get("mode", says.get("mode", "kraft")) != says.get("mode", "kraft"):
                says = {}
        else:
            says = {to: found[each] for each, to in OF_WORKLOAD.items() if each in found}
            if config is ProducerConfig:
                says.pop("group", None)
        says = {name: each for name, each in says.items() if name not in table}
        result = {**says, **result}
        taken = self._allowed(found, path, config)
        if says:
            said = ", ".join(f"{name} = {each}" for name, each in says.items())
            self.notes.append(f"{path}: as it says: {said}")
        if "," in found.get("process.roles", "") and "combined" not in result:
            self.notes.append(f"{path}: {BOTH_ROLES}")
        given = table.get("config", {})
        if isinstance(given, Mapping):  # whatever else it is, the check of the tables names it
            result["config"] = {**taken, **given}
        return result

    def _allowed(
        self, found: Mapping[str, str], path: Path, config: type[Config]
    ) -> dict[str, str]:
        kinds = sort(found, config)
        ignored = [*kinds.ignored, *kinds.others]
        if self.allowed:
            ignored += [*kinds.unmodelled, *kinds.unknown]
        elif kinds.unknown:
            raise ScenarioError(misspelt(path, kinds.unknown[0], config))
        elif kinds.unmodelled:
            are, them = ("is", "it") if len(kinds.unmodelled) == 1 else ("are", "them")
            raise ScenarioError(
                f"{path}: {', '.join(kinds.unmodelled)}: {are} not modelled; remove {them}, or"
                f" allow {them} with --allow-unmodelled, or allow-unmodelled = true in [cluster]"
            )
        ignored = [key for key in ignored if key not in OF_WORKLOAD]
        if ignored:
            self.notes.append(f"{path}: ignored: {', '.join(ignored)}")
        return kinds.taken


CLIENTS: Mapping[Any, type[Config]] = {
    "producer": ProducerConfig,
    "consumer-group": ConsumerConfig,
}
"""The workloads that may have a config-file, and the settings of their clients."""
