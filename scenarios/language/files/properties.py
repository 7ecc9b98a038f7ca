"""Read a broker's server.properties into a scenario.

Properties of the model are taken. Those outside it (listeners, security, paths, the quorum's
addresses), and those that have no effect here, are ignored and named once. Properties of Kafka that
are not modelled are refused, so that no user relies on a setting without effect, unless the user
allows them or they have Kafka's default.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

from kafkasim.model.config import BrokerConfig
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


def merge(
    data: Mapping[str, Any], folder: Path, place: str, *, allow_unmodelled: bool, notes: list[str]
) -> dict[str, Any]:
    """Return a scenario's data with ``cluster.config-file`` read into ``cluster.config``.

    Keys of ``cluster.config`` override the file's. Ignored properties are appended to ``notes``.

    Raises:
        ScenarioError: the file cannot be read, or has a property that is not modelled.
    """
    given = data.get("cluster")
    if not isinstance(given, Mapping) or "config-file" not in given:
        return dict(data)
    cluster = dict(given)
    allowed = cluster.pop("allow-unmodelled", False)
    if not isinstance(allowed, bool):
        raise ScenarioError(f"{place}: cluster.allow-unmodelled: give true or false")
    name = cluster.pop("config-file")
    if not isinstance(name, str):
        raise ScenarioError(f"{place}: cluster.config-file: {name!r} is not a path")
    path = folder / name
    known = {f.name.replace("_", "."): f.metadata["no_effect"] for f in fields(BrokerConfig)}
    taken: dict[str, str] = {}
    ignored: list[str] = []
    refused: list[str] = []
    found = without_synonyms(parse(path), path)
    for key, value in found.items():
        if key in known and not known[key]:
            taken[key] = value
        elif UNMODELLED_DEFAULTS.get(key) == value:
            continue
        elif key in known or key.startswith(OUTSIDE) or allow_unmodelled or allowed:
            ignored.append(key)
        else:
            refused.append(key)
    if refused:
        are, them = ("is", "it") if len(refused) == 1 else ("are", "them")
        raise ScenarioError(
            f"{path}: {', '.join(refused)}: {are} not modelled; remove {them}, or allow {them}"
            " with --allow-unmodelled, or allow-unmodelled = true in [cluster]"
        )
    if ignored:
        notes.append(f"{path}: ignored: {', '.join(ignored)}")
    if "," in found.get("process.roles", "") and "combined" not in cluster:
        notes.append(f"{path}: {BOTH_ROLES}")
    own = cluster.get("config", {})
    if isinstance(own, Mapping):  # whatever else it is, the check of the tables names it
        cluster["config"] = {**taken, **own}
    return {**data, "cluster": cluster}
