"""Serializers for applications: strings, JSON and Avro (``from kafkasim import serializers``).

Each is a pair of functions, for ``value_serializer=`` and ``value_deserializer=`` of the clients.
Bytes need none. A deserializer that fails makes the consumer raise RecordDeserializationError.
"""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Serde(NamedTuple):
    """A pair of functions that undo each other."""

    serializer: Callable[[Any], bytes]
    deserializer: Callable[[bytes], Any]


string = Serde(str.encode, bytes.decode)
"""UTF-8 (StringSerializer)."""

json_text = Serde(
    lambda value: json.dumps(value, separators=(",", ":"), sort_keys=True).encode(), json.loads
)
"""JSON without blanks, keys in order, so that equal values are equal bytes."""


def avro(schema: dict[str, Any]) -> Serde:
    """Return Avro's binary encoding by a schema, without a header and without a registry.

    Raises:
        fastavro.schema.SchemaParseException: it is no schema.
    """
    import fastavro

    parsed = fastavro.parse_schema(schema)

    def serializer(value: Any) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, value)
        return out.getvalue()

    def deserializer(data: bytes) -> Any:
        rest = io.BytesIO(data)
        value = fastavro.schemaless_reader(rest, parsed, None)
        if rest.read(1):
            raise ValueError("bytes are left behind the record")
        return value

    return Serde(serializer, deserializer)
