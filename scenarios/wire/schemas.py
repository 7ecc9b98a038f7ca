"""Kafka's requests and responses as bytes and as dicts keyed by Kafka's field names.

``schemas.json`` says which fields a message has in which versions. ``make fidelity`` compares it
with the schemas in the jar of Kafka's clients (``tests/fidelity/schema_table.py``). Of each
message, version and direction a function is compiled when it is first needed
(:mod:`kafkasim.scenarios.wire.compiling`).

A frame is what follows its 4 bytes of length. The header of a request has api key, version,
correlation id and client id; headers of flexible versions have tagged fields (KIP-482), but the
response to ApiVersions never has, since a client reads it before it knows the versions (KIP-511).
"""

from __future__ import annotations

import functools
import json
import struct
from collections.abc import Callable
from importlib import resources
from typing import Any, NamedTuple

from kafkasim.scenarios.wire.compiling import Compiler, within
from kafkasim.scenarios.wire.varints import read_unsigned

API_VERSIONS = 18
_HEAD = struct.Struct(">hhih")
_MALFORMED = (IndexError, ValueError, struct.error, OverflowError)


class Malformed(Exception):
    """Bytes that are no message; Kafka closes the connection (InvalidRequestException)."""


class Header(NamedTuple):
    """The header of a request."""

    key: int
    version: int
    correlation: int
    client_id: str | None


@functools.cache
def served_schemas() -> Schemas:
    """Return the schemas of Kafka 4.1, from the committed table."""
    text = resources.files("kafkasim.scenarios.wire").joinpath("schemas.json").read_text("utf-8")
    return Schemas(json.loads(text))


class Schemas:
    """Encodes and decodes messages by a table.

    Args:
        table: api key (as text) -> name, and of request and response the valid and flexible
            versions, fields, common structs.
        strict: whether encoding a dict with a key that is no field's name raises KeyError.
    """

    def __init__(self, table: dict[str, Any], strict: bool = False) -> None:
        self.apis: dict[int, dict[str, Any]] = {int(key): api for key, api in table.items()}
        self.keys: dict[str, int] = {api["name"]: key for key, api in self.apis.items()}
        self._strict = strict
        self._compiled: dict[tuple[int, str, int, bool], tuple[Callable[..., Any], bool]] = {}

    def is_valid(self, key: int, version: int) -> bool:
        """Return whether the table has a version of an API."""
        return key in self.apis and within(version, self.apis[key]["request"]["valid"])

    def newest(self, key: int) -> int:
        """Return the highest version of an API that the table has."""
        return max(version for version in range(1 << 8) if self.is_valid(key, version))

    def decode_header(self, frame: bytes) -> tuple[Header, int]:
        """Return a request's header without its tagged fields, and the position after it.

        Raises:
            Malformed: the frame is too short, or the client id is no UTF-8.
        """
        try:
            key, version, correlation, size = _HEAD.unpack_from(frame)
            at = _HEAD.size + max(size, 0)
            if at > len(frame):
                raise Malformed(f"a client id of {size} bytes in a frame of {len(frame)}")
            client_id = None if size < 0 else frame[_HEAD.size : at].decode()
        except _MALFORMED as error:
            raise Malformed(f"no request header: {error}") from None
        return Header(key, version, correlation, client_id), at

    def decode_request(self, header: Header, frame: bytes, at: int) -> dict[str, Any]:
        """Return the body of a request, whose header without tagged fields ends at ``at``.

        Bytes behind the body are ignored, as Kafka does: librdkafka's Metadata has some.

        Raises:
            Malformed: the body is short or wrong. The version must be valid.
        """
        return self._decode(header.key, "request", header.version, frame, at)

    def encode_request(self, header: Header, body: dict[str, Any]) -> bytearray:
        """Return a request with its length in front."""
        encode, flexible = self._function(header.key, "request", header.version, False)
        name = None if header.client_id is None else header.client_id.encode()
        out = bytearray(4)
        out += _HEAD.pack(*header[:3], -1 if name is None else len(name)) + (name or b"")
        if flexible:
            out.append(0)
        return _framed(encode(out, body))

    def encode_response(
        self, key: int, version: int, correlation: int, body: dict[str, Any]
    ) -> bytearray:
        """Return a response with its length in front."""
        encode, flexible = self._function(key, "response", version, False)
        out = bytearray(8)
        struct.pack_into(">i", out, 4, correlation)
        if flexible and key != API_VERSIONS:
            out.append(0)
        return _framed(encode(out, body))

    def decode_response(self, key: int, version: int, frame: bytes) -> dict[str, Any]:
        """Return the body of a response, a frame without its length.

        Raises:
            Malformed: it is short, long or wrong.
        """
        return self._decode(key, "response", version, frame, 4, tags=key != API_VERSIONS)

    def _decode(
        self, key: int, side: str, version: int, frame: bytes, at: int, tags: bool = True
    ) -> dict[str, Any]:
        decode, flexible = self._function(key, side, version, True)
        try:
            if flexible and tags:
                at = _skip_tags(frame, at)
            body: dict[str, Any]
            body, at = decode(frame, at)
        except _MALFORMED as error:
            name = self.apis[key]["name"]
            raise Malformed(f"{name} {side} v{version}: {error}") from None
        if at > len(frame) or (at < len(frame) and side == "response"):
            raise Malformed(
                f"{self.apis[key]['name']} {side} v{version}: {at} bytes in a frame of {len(frame)}"
            )
        return body

    def _function(
        self, key: int, side: str, version: int, decodes: bool
    ) -> tuple[Callable[..., Any], bool]:
        found = self._compiled.get((key, side, version, decodes))
        if found is None:
            schema = self.apis[key][side]
            flexible = within(version, schema["flexible"])
            compiler = Compiler(schema, version, flexible, self._strict)
            function = compiler.decoder() if decodes else compiler.encoder()
            found = self._compiled[key, side, version, decodes] = function, flexible
        return found


def _skip_tags(frame: bytes, at: int) -> int:
    count, at = read_unsigned(frame, at)
    for _ in range(count):
        _, at = read_unsigned(frame, at)
        size, at = read_unsigned(frame, at)
        at += size
    return at


def _framed(out: bytearray) -> bytearray:
    struct.pack_into(">i", out, 0, len(out) - 4)
    return out
