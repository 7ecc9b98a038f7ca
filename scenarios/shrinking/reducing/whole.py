"""Take a topic, a partition or a host out of a scenario together with all that names it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from kafkasim.scenarios.language.files.data import Data

LISTS = ("workload", "faults", "operations")
"""Lists whose tables may name topics and hosts."""


def without_topics(data: Data, names: list[str]) -> Data:
    """Return the data without the tables that name one of the topics."""
    made = dict(data)
    for key in LISTS:
        if key in made:
            made[key] = [table for table in made[key] if not _names(table, names)]
    return made


def _names(value: Any, topics: list[str]) -> bool:
    if isinstance(value, Mapping):
        return any(_names(inner, topics) for inner in value.values())
    if isinstance(value, list):
        return any(_names(inner, topics) for inner in value)
    topic = re.sub(r"^\w+:(.*)-\d+$", r"\1", value) if isinstance(value, str) else None
    return topic in topics


# ---------------------------------------------------------------------------------- partitions


def without_partition(data: Data) -> Iterator[Data]:
    """Yield the data without one partition of a topic, for each partition; the last one first.

    The partitions behind it get the numbers before theirs.
    """
    for index, topic in enumerate(data.get("topics", [])):
        assignment = topic.get("assignment", [])
        count = max(topic.get("partitions", 1), len(assignment))
        for number in reversed(range(count)):
            if count < 2:
                break
            smaller = {**topic, "partitions": count - 1}
            if assignment:
                smaller["assignment"] = assignment[:number] + assignment[number + 1 :]
            topics = [*data["topics"][:index], smaller, *data["topics"][index + 1 :]]
            made = {**data, "topics": topics}
            for key in LISTS:
                if key in made:
                    made[key] = [_renumbered(table, topic["name"], number) for table in made[key]]
            yield made


def _renumbered(table: Any, topic: str, gone: int) -> Any:
    """Return a table in which the partitions behind the one that is gone have new numbers.

    What names the one that is gone goes on naming its number, which is another partition now.
    """

    def number(old: int) -> int:
        return old - 1 if old > gone else old

    def text(value: Any) -> Any:
        match = (
            re.fullmatch(rf"(\w+:{re.escape(topic)}-)(\d+)", value)
            if isinstance(value, str)
            else None
        )
        return f"{match[1]}{number(int(match[2]))}" if match else value

    made: Any = _mapped(table, text)
    if isinstance(made, dict) and made.get("topic") == topic and "partition" in made:
        made["partition"] = number(made["partition"])
    fields = made.get("when", {}).get("fields", {}) if isinstance(made, dict) else {}
    if "partition" in fields:
        made["when"] = {
            **made["when"],
            "fields": {**fields, "partition": number(fields["partition"])},
        }
    return made


def _mapped(value: Any, change: Any) -> Any:
    """Return a value with every text and number in it changed by a function."""
    if isinstance(value, Mapping):
        return {key: _mapped(inner, change) for key, inner in value.items()}
    if isinstance(value, list):
        return [_mapped(inner, change) for inner in value]
    return change(value)


# --------------------------------------------------------------------------------------- hosts


def without_host(data: Data) -> Iterator[Data]:
    """Yield the data without one broker, for each broker; the last one first.

    The brokers behind it get the names and ids before theirs. Its replicas go, where each partition
    loses one or none does.
    """
    brokers = data.get("cluster", {}).get("brokers", 3)
    for gone in reversed(range(1, brokers + 1)):
        if brokers < 2:
            return

        def number(old: int, gone: int = gone) -> int:
            return old - 1 if old > gone else old

        def name(value: Any, number: Any = number) -> Any:
            match = re.fullmatch(r"broker-(\d+)", value) if isinstance(value, str) else None
            return f"broker-{number(int(match[1]))}" if match else value

        made = {**data, "cluster": _without_node(data.get("cluster", {}), f"broker-{gone}", name)}
        made["cluster"]["brokers"] = brokers - 1
        if "topics" in made:
            made["topics"] = [_without_replica(each, gone, number) for each in made["topics"]]
        for key in LISTS:
            if key in made:
                kept = [table for table in made[key] if not _hits(table, gone)]
                made[key] = [_moved(_mapped(table, name), gone, number) for table in kept]
        yield made


def _without_node(cluster: Data, gone: str, name: Any) -> Data:
    made = dict(cluster)
    if "nodes" in made:
        made["nodes"] = {name(key): value for key, value in made["nodes"].items() if key != gone}
    return made


def _without_replica(topic: Data, gone: int, number: Any) -> Data:
    if not topic.get("assignment"):
        return topic
    rows = [[number(b) for b in row if b != gone] for row in topic["assignment"]]
    least = min(len(row) for row in rows)
    made = {**topic, "assignment": [row[:least] for row in rows]}
    if least < len(topic["assignment"][0]):
        made["replication-factor"] = least
    return made


def _hits(table: Data, gone: int) -> bool:
    """Return whether a fault or an operation is about one broker, and about no other."""
    name = f"broker-{gone}"
    return table.get("node") == name or table.get("nodes") == [name] or table.get("peers") == [name]


def _moved(table: Any, gone: int, number: Any) -> Any:
    """Return a table whose lists of brokers are those of the smaller cluster."""
    if isinstance(table, dict) and isinstance(table.get("replicas"), list):
        table["replicas"] = [number(broker) for broker in table["replicas"] if broker != gone]
    return table
