"""Kafka's wire protocol, from the message schemas that lie in its clients' jar.

``common/message/*.json`` of kafka-clients describes every request and response: fields, types, the
versions that have them, since when they are flexible (KIP-482). This module reads those schemas and
turns dicts, keyed by Kafka's field names, into bytes and back. Record batches (magic 2) are made
and read in :mod:`tests.fidelity.batches`.
"""

from __future__ import annotations

import base64
import io
import json
import re
import socket
import struct
import zipfile
from pathlib import Path
from typing import Any

CLIENT_ID = "fidelity"
NULL_UUID = bytes(16)
NULL_UUID_TEXT = "AAAAAAAAAAAAAAAAAAAAAA"

_PACKED = {
    "bool": ">?",
    "int8": ">b",
    "int16": ">h",
    "uint16": ">H",
    "int32": ">i",
    "uint32": ">I",
    "int64": ">q",
    "float64": ">d",
}


class Versions:
    """A range of versions as schemas write it: ``0+``, ``3-7``, ``5``, ``none``."""

    def __init__(self, text: str) -> None:
        low, _, high = ("1-0" if text == "none" else text).partition("-")
        self.low = int(low.rstrip("+"))
        self.high = 1 << 29 if text.endswith("+") else int(high or low)

    def __contains__(self, version: int) -> bool:
        return self.low <= version <= self.high


def _versions(field: dict[str, Any]) -> Versions:
    """Return the versions of a message that have a field; a tagged one may say it only so."""
    return Versions(field.get("versions") or field.get("taggedVersions", "0+"))


def read_schemas(jar_file: Path, pattern: str) -> list[dict[str, Any]]:
    """Return the schemas in those files of a jar whose names match."""
    found = []
    with zipfile.ZipFile(jar_file) as jar:
        for name in jar.namelist():
            if re.fullmatch(pattern, name):
                text = re.sub(
                    r"(?m)^\s*//.*$|(?<=[,\]}\s])//[^\"\n]*$", "", jar.read(name).decode()
                )
                found.append(_capitalised(json.loads(text)))
    return found


class Schemas:
    """The schemas of the requests and responses of one version of Kafka."""

    def __init__(self, clients_jar: Path) -> None:
        schemas = read_schemas(clients_jar, r"common/message/\w+(Request|Response)\.json")
        self.by_name = {schema["name"]: schema for schema in schemas}

    def newest(self, api: str) -> int:
        """Return the highest stable version of an API (``Produce``)."""
        schema = self.by_name[f"{api}Request"]
        high = Versions(schema["validVersions"]).high
        return high - 1 if schema.get("latestVersionUnstable") else high

    def encode(self, api: str, version: int, correlation: int, body: dict[str, Any]) -> bytes:
        """Return a whole request, without its size."""
        schema = self.by_name[f"{api}Request"]
        flexible = version in Versions(schema["flexibleVersions"])
        out = io.BytesIO()
        out.write(struct.pack(">hhi", schema["apiKey"], version, correlation))
        out.write(struct.pack(">h", len(CLIENT_ID)) + CLIENT_ID.encode())
        if flexible:
            _write_varint(out, 0)
        Codec(schema, version, flexible).write_struct(out, schema["fields"], body)
        return out.getvalue()

    def decode(self, api: str, version: int, data: bytes) -> dict[str, Any]:
        """Return the body of a whole response."""
        schema = self.by_name[f"{api}Response"]
        flexible = version in Versions(schema["flexibleVersions"])
        read = io.BytesIO(data)
        read.read(4)  # the correlation id
        if flexible and api != "ApiVersions":
            _skip_tags(read)
        body = Codec(schema, version, flexible).read_struct(read, schema["fields"])
        assert not read.read(1), f"{api} v{version}: bytes are left"
        return body


class Codec:
    """Writes and reads the structs of one message in one version."""

    def __init__(self, schema: dict[str, Any], version: int, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible
        self.structs = {each["name"]: each["fields"] for each in schema.get("commonStructs", [])}

    def write_struct(self, out: io.BytesIO, fields: list[dict[str, Any]], body: Any) -> None:
        unknown = set(body) - {field["name"] for field in fields}
        assert not unknown, f"no such fields: {sorted(unknown)}"
        tagged = []
        for field in fields:
            if self.version not in _versions(field):
                continue
            given = body.get(field["name"], default_of(field))
            if self._is_tagged(field):
                if field["name"] in body:
                    tagged.append((int(field["tag"]), field, given))
                continue
            self._write(out, field, field["type"], given)
        if self.flexible:
            _write_varint(out, len(tagged))
            for tag, field, given in sorted(tagged, key=lambda item: item[0]):
                inner = io.BytesIO()
                self._write(inner, field, field["type"], given)
                _write_varint(out, tag)
                _write_varint(out, len(inner.getvalue()))
                out.write(inner.getvalue())

    def read_struct(self, read: io.BytesIO, fields: list[dict[str, Any]]) -> dict[str, Any]:
        body: dict[str, Any] = {}
        tags: dict[int, dict[str, Any]] = {}
        for field in fields:
            if self.version not in _versions(field):
                continue
            if self._is_tagged(field):
                tags[int(field["tag"])] = field
                body[field["name"]] = default_of(field)
            else:
                body[field["name"]] = self._read(read, field, field["type"])
        if self.flexible:
            for _ in range(_read_varint(read)):
                tag, size = _read_varint(read), _read_varint(read)
                data = io.BytesIO(read.read(size))
                if tag in tags:
                    body[tags[tag]["name"]] = self._read(data, tags[tag], tags[tag]["type"])
        return body

    def _is_tagged(self, field: dict[str, Any]) -> bool:
        return "tag" in field and self.version in Versions(field["taggedVersions"])

    def _fields_of(self, field: dict[str, Any], kind: str) -> list[dict[str, Any]]:
        return field.get("fields") or self.structs[kind]

    def _write(self, out: io.BytesIO, field: dict[str, Any], kind: str, given: Any) -> None:
        if kind in _PACKED:
            out.write(struct.pack(_PACKED[kind], given))
        elif kind == "uuid":
            out.write(NULL_UUID if not given else base64.urlsafe_b64decode(given + "=="))
        elif kind == "string":
            self._write_length(out, None if given is None else len(given.encode()), ">h")
            out.write(b"" if given is None else given.encode())
        elif kind in ("bytes", "records"):
            self._write_length(out, None if given is None else len(given), ">i")
            out.write(given or b"")
        elif kind.startswith("[]"):
            self._write_length(out, None if given is None else len(given), ">i")
            for each in given or ():
                self._write(out, _element(field), kind[2:], each)
        elif "nullableVersions" in field and self.version in Versions(field["nullableVersions"]):
            out.write(b"\xff" if given is None else b"\x01")
            if given is not None:
                self.write_struct(out, self._fields_of(field, kind), given)
        else:
            self.write_struct(out, self._fields_of(field, kind), given or {})

    def _read(self, read: io.BytesIO, field: dict[str, Any], kind: str) -> Any:
        if kind in _PACKED:
            packed = _PACKED[kind]
            return struct.unpack(packed, read.read(struct.calcsize(packed)))[0]
        if kind == "uuid":
            return base64.urlsafe_b64encode(read.read(16)).decode().rstrip("=")
        if kind == "string":
            size = self._read_length(read, ">h")
            return None if size is None else read.read(size).decode()
        if kind in ("bytes", "records"):
            size = self._read_length(read, ">i")
            return None if size is None else read.read(size)
        if kind.startswith("[]"):
            size = self._read_length(read, ">i")
            if size is None:
                return None
            return [self._read(read, _element(field), kind[2:]) for _ in range(size)]
        if "nullableVersions" in field and self.version in Versions(field["nullableVersions"]):
            if struct.unpack(">b", read.read(1))[0] <= 0:  # −1; in a tagged field 0
                return None
        return self.read_struct(read, self._fields_of(field, kind))

    def _write_length(self, out: io.BytesIO, length: int | None, packed: str) -> None:
        if self.flexible:
            _write_varint(out, 0 if length is None else length + 1)
        else:
            out.write(struct.pack(packed, -1 if length is None else length))

    def _read_length(self, read: io.BytesIO, packed: str) -> int | None:
        if self.flexible:
            length = _read_varint(read) - 1
        else:
            length = struct.unpack(packed, read.read(struct.calcsize(packed)))[0]
        return None if length < 0 else length


class Connection:
    """One TCP connection to a broker: requests are answered one at a time, in order."""

    def __init__(self, schemas: Schemas, port: int, timeout: float = 40.0) -> None:
        self.schemas = schemas
        self.correlation = 0
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=timeout)

    def ask(
        self, api: str, body: dict[str, Any], version: int | None = None, *, answered: bool = True
    ) -> dict[str, Any] | None:
        """Send a request and return the answer; None when the broker closed the connection, or
        when ``answered`` is False and it did not."""
        version = self.schemas.newest(api) if version is None else version
        self.correlation += 1
        data = self.schemas.encode(api, version, self.correlation, body)
        self.socket.sendall(struct.pack(">i", len(data)) + data)
        if not answered:
            return None
        head = self._receive(4)
        if head is None:
            return None
        found = self._receive(struct.unpack(">i", head)[0])
        return None if found is None else self.schemas.decode(api, version, found)

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()

    def _receive(self, size: int) -> bytes | None:
        data = b""
        while len(data) < size:
            try:
                more = self.socket.recv(size - len(data))
            except ConnectionResetError:
                return None
            if not more:
                return None
            data += more
        return data


def _element(field: dict[str, Any]) -> dict[str, Any]:
    """Return the field of an array's elements: the array may be null, they are not."""
    return {key: value for key, value in field.items() if key != "nullableVersions"}


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


def default_of(field: dict[str, Any]) -> Any:
    """Return a field's default as MessageGenerator has it."""
    given, kind = field.get("default"), field["type"]
    if given == "null":
        return None
    if kind in _PACKED:
        if kind == "bool":
            return given in (True, "true")
        if kind == "float64":
            return float(given or 0)
        return int(str(given), 0) if given not in (None, "") else 0
    if kind == "string":
        return given or ""
    if kind == "bytes":
        return b""
    return [] if kind.startswith("[]") else None


def _write_varint(out: io.BytesIO, number: int) -> None:
    while number >= 0x80:
        out.write(bytes([number & 0x7F | 0x80]))
        number >>= 7
    out.write(bytes([number]))


def _read_varint(read: io.BytesIO) -> int:
    number = shift = 0
    while True:
        byte = read.read(1)[0]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number
        shift += 7


def _skip_tags(read: io.BytesIO) -> None:
    for _ in range(_read_varint(read)):
        _read_varint(read)
        read.read(_read_varint(read))
