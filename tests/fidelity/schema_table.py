"""Makes ``scenarios/wire/schemas.json`` from the message schemas in a jar of Kafka's clients.

The table has the names, types, versions, tags and defaults of the requests that a broker's listener
takes, and of their responses. ``python -m tests.fidelity --write schemas`` writes it.
"""

from __future__ import annotations

import json
import re
import zipfile
from pathlib import Path
from typing import Any

from tests.fidelity.real_kafka import jars

VERSION = "4.1.0"
TABLE = Path(__file__).parents[2] / "scenarios" / "wire" / "schemas.json"

_COMMENT = re.compile(r"(?m)^\s*(//.*|/\*.*\*/)$|(?<=[,\]}\s])//[^\"\n]*$")


def read_schemas(jar_file: Path, pattern: str) -> list[dict[str, Any]]:
    """Return the schemas in those files of a jar whose names match."""
    with zipfile.ZipFile(jar_file) as jar:
        return [
            _capitalised(json.loads(_COMMENT.sub("", jar.read(name).decode())))
            for name in jar.namelist()
            if re.fullmatch(pattern, name)
        ]


def table_of(clients_jar: Path, listener: str | None = "broker") -> dict[str, Any]:
    """Return the table of a jar's messages by api key; with None, those of all listeners."""
    found = read_schemas(clients_jar, r"common/message/\w+(Request|Response)\.json")
    requests = {each["apiKey"]: each for each in found if each["type"] == "request"}
    responses = {each["apiKey"]: each for each in found if each["type"] == "response"}
    return {
        str(key): {
            "name": request["name"].removesuffix("Request"),
            "request": side(request),
            "response": side(responses[key]),
        }
        for key, request in sorted(requests.items())
        if request["validVersions"] != "none"
        and (listener is None or listener in request.get("listeners", ()))
    }


def side(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the row of one request, response or struct."""
    low, dash, high = schema["validVersions"].partition("-")
    if schema.get("latestVersionUnstable") and dash:
        high = str(int(high) - 1)
    return {
        "valid": low + dash + high,
        "flexible": schema["flexibleVersions"],
        "structs": {s["name"]: _fields(s["fields"]) for s in schema.get("commonStructs", ())},
        "fields": _fields(schema["fields"]),
    }


_KEPT = {
    "name": "name", "type": "type", "versions": "versions", "nullableVersions": "null",
    "tag": "tag", "taggedVersions": "tagged", "default": "default", "flexibleVersions": "flexible",
}  # fmt: skip


def _fields(fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
    found = []
    for field in fields:
        row = {short: field[name] for name, short in _KEPT.items() if name in field}
        if "fields" in field:
            row["fields"] = _fields(field["fields"])
        found.append(row)
    return found


def _capitalised(node: Any) -> Any:
    """Return a schema with capitals at the start of all field names (a few have none)."""
    if isinstance(node, list):
        return [_capitalised(each) for each in node]
    if not isinstance(node, dict):
        return node
    found = {key: _capitalised(value) for key, value in node.items()}
    if isinstance(found.get("name"), str):
        found["name"] = found["name"][:1].upper() + found["name"][1:]
    return found


def ask(version: str) -> list[str]:
    """Return the lines of the table's file, an API a line."""
    table = table_of(next(jars(version).glob("kafka-clients-*.jar")))
    rows = [
        f"{json.dumps(key)}:{json.dumps(api, separators=(',', ':'))}" for key, api in table.items()
    ]
    return ["{", *[f"{row}," for row in rows[:-1]], rows[-1], "}"]
