"""Compiles a message schema of one version to a Python function over bytes and dicts.

A schema is a row of ``schemas.json``: ``fields``, ``structs`` (by name, what several fields share),
``valid`` and ``flexible`` versions. A field has ``name``, ``type`` and ``versions``, and where they
are not the usual ones ``null`` (nullable versions), ``tag`` with ``tagged`` (versions), ``default``
and ``flexible``. Kafka's MessageGenerator makes Java classes of the same schemas.
"""

from __future__ import annotations

import base64
import functools
import struct
from collections.abc import Callable
from typing import Any

from kafkasim.scenarios.wire.varints import read_unsigned, write_unsigned

NULL_UUID = "AAAAAAAAAAAAAAAAAAAAAA"

_NUMBERS = {
    "bool": "?", "int8": "b", "int16": "h", "uint16": "H",
    "int32": "i", "uint32": "I", "int64": "q", "float64": "d",
}  # fmt: skip
_BYTES = ("string", "bytes", "records")


@functools.cache
def _range(text: str) -> tuple[int, int]:
    if text == "none":
        return 1, 0
    low, dash, high = text.partition("-")
    if low.endswith("+"):
        return int(low[:-1]), 1 << 15
    return int(low), int(high) if dash else int(low)


def within(version: int, text: str) -> bool:
    """Return whether a version is in a range as schemas write it: ``0+``, ``3-7``, ``5``."""
    low, high = _range(text)
    return low <= version <= high


def default_of(field: dict[str, Any]) -> Any:
    """Return a field's default as Kafka's MessageGenerator has it."""
    given, kind = field.get("default"), field["type"]
    if given == "null":
        return None
    if kind == "bool":
        return given in (True, "true")
    if kind == "float64":
        return float(given or 0)
    if kind in _NUMBERS:
        return int(str(given), 0) if given not in (None, "") else 0
    if kind == "string":
        return given or ""
    if kind in ("bytes", "records"):
        return b""
    if kind == "uuid":
        return NULL_UUID
    return [] if kind.startswith("[]") else {}


def uuid_text(data: bytes) -> str:
    """Return 16 bytes as Kafka's Uuid prints them, in URL-safe base 64."""
    if len(data) != 16:
        raise ValueError("a uuid is short")
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


@functools.lru_cache(4096)
def uuid_bytes(text: str) -> bytes:
    """Return a Uuid's 16 bytes; of "" all are 0."""
    return base64.urlsafe_b64decode(text + "==") if text else bytes(16)


def _null(name: str) -> ValueError:
    return ValueError(f"{name} is null")


def _short(name: str) -> ValueError:
    return ValueError(f"the frame ends inside {name}")


class Compiler:
    """Writes the source of one message's function, and runs it."""

    def __init__(self, schema: dict[str, Any], version: int, flexible: bool, strict: bool) -> None:
        self._schema, self._version, self._flexible = schema, version, flexible
        self._strict = strict
        self._source: list[str] = []
        self._names = 0
        self._scope: dict[str, Any] = {
            "read_unsigned": read_unsigned, "write_unsigned": write_unsigned,
            "uuid_text": uuid_text, "uuid_bytes": uuid_bytes, "null": _null, "short": _short,
        }  # fmt: skip
        for kind, code in _NUMBERS.items():
            self._scope[f"unpack_{kind}"] = struct.Struct(f">{code}").unpack_from
            self._scope[f"pack_{kind}"] = struct.Struct(f">{code}").pack

    def decoder(self) -> Callable[[bytes, int], tuple[dict[str, Any], int]]:
        """Return a function of (data, position) to (body, position after it)."""
        return self._compiled(self._decode_struct(self._schema["fields"]))

    def encoder(self) -> Callable[[bytearray, dict[str, Any]], bytearray]:
        """Return a function that appends a body to an array of bytes, and returns the array."""
        return self._compiled(self._encode_struct(self._schema["fields"]))

    def _compiled(self, name: str) -> Callable[..., Any]:
        exec("\n".join(self._source), self._scope)
        found: Callable[..., Any] = self._scope[name]
        return found

    def _new(self, letter: str) -> str:
        self._names += 1
        return f"{letter}{self._names}"

    def _constant(self, found: Any) -> str:
        name = self._new("K")
        self._scope[name] = found
        return name

    def _present(self, fields: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [f for f in fields if within(self._version, f.get("versions") or f["tagged"])]

    def _is_tagged(self, field: dict[str, Any]) -> bool:
        return "tag" in field and within(self._version, field["tagged"])

    def _is_nullable(self, field: dict[str, Any]) -> bool:
        return within(self._version, field.get("null", "none"))

    def _is_flexible(self, field: dict[str, Any]) -> bool:
        return self._flexible and within(self._version, field.get("flexible", "0+"))

    def _fields_of(self, field: dict[str, Any], kind: str) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = field.get("fields") or self._schema["structs"][kind]
        return found

    # Decoding: each method returns lines that read from ``b`` at ``p`` and assign to ``to``.

    def _decode_struct(self, fields: list[dict[str, Any]]) -> str:
        name = self._new("decode_")
        lines, tagged = [f"def {name}(b, p):", "  r = {}"], []
        for field in self._present(fields):
            to = f"r[{field['name']!r}]"
            if self._is_tagged(field):
                tagged.append(field)
                lines.append(f"  {to} = {self._default(field)}")
            else:
                lines += _indented(self._decode(field, field["type"], to))
        if self._flexible:
            lines += [
                "  count, p = read_unsigned(b, p)", "  for _ in range(count):",
                "    tag, p = read_unsigned(b, p)", "    size, p = read_unsigned(b, p)",
                "    after = p + size",
                "    if after > len(b): raise short('a tagged field')",
            ]  # fmt: skip
            for field in tagged:
                lines.append(f"    if tag == {field['tag']}:")
                lines += _indented(self._decode(field, field["type"], f"r[{field['name']!r}]"), 6)
            lines.append("    p = after")
        self._source.append("\n".join([*lines, "  return r, p"]))
        return name

    def _default(self, field: dict[str, Any]) -> str:
        """Return an expression that makes a field's default, a new one if it can be changed."""
        found = default_of(field)
        if found == [] and isinstance(found, list):
            return "[]"
        if found == {} and isinstance(found, dict):
            return "None" if self._is_nullable(field) else "{}"
        return self._constant(found)

    def _decode(self, field: dict[str, Any], kind: str, to: str) -> list[str]:
        label = repr(field["name"])
        if kind in _NUMBERS:
            size = struct.calcsize(f">{_NUMBERS[kind]}")
            return [f"{to} = unpack_{kind}(b, p)[0]; p += {size}"]
        if kind == "uuid":
            return [f"{to} = uuid_text(b[p:p + 16]); p += 16"]
        null = f"{to} = None" if self._is_nullable(field) else f"raise null({label})"
        if kind in _BYTES:
            text = "b[p:p + n].decode()" if kind == "string" else "bytes(b[p:p + n])"
            return [
                *self._decode_size(field, kind), f"if n < 0: {null}",
                f"elif p + n > len(b): raise short({label})",
                f"else: {to} = {text}; p += n",
            ]  # fmt: skip
        if kind.startswith("[]"):
            element, each = self._new("x"), self._new("list_")
            inner = self._decode(_element(field), kind[2:], element)
            return [
                *self._decode_size(field, kind), f"if n < 0: {null}",
                f"elif n > len(b) - p: raise short({label})",
                "else:", f"  {each} = []", "  for _ in range(n):",
                *_indented(inner, 4), f"    {each}.append({element})", f"  {to} = {each}",
            ]  # fmt: skip
        function = self._decode_struct(self._fields_of(field, kind))
        if self._is_nullable(field):
            return [
                "n = unpack_int8(b, p)[0]; p += 1",
                f"if n {'<=' if self._is_tagged(field) else '<'} 0: {to} = None",
                f"else: {to}, p = {function}(b, p)",
            ]
        return [f"{to}, p = {function}(b, p)"]

    def _decode_size(self, field: dict[str, Any], kind: str) -> list[str]:
        if self._is_flexible(field):
            return ["n, p = read_unsigned(b, p); n -= 1"]
        if kind == "string":
            return ["n = unpack_int16(b, p)[0]; p += 2"]
        return ["n = unpack_int32(b, p)[0]; p += 4"]

    # Encoding: each method returns lines that append ``x`` to ``w``.

    def _encode_struct(self, fields: list[dict[str, Any]]) -> str:
        name = self._new("encode_")
        lines, tagged = [f"def {name}(w, r):"], []
        if self._strict:
            known = self._constant(frozenset(field["name"] for field in fields))
            lines.append(
                f"  if not r.keys() <= {known}: raise KeyError(sorted(r.keys() - {known}))"
            )
        for field in self._present(fields):
            if self._is_tagged(field):
                tagged.append(field)
                continue
            value = self._new("x")
            lines.append(
                f"  {value} = r.get({field['name']!r}, {self._constant(default_of(field))})"
            )
            lines += _indented(self._encode(field, field["type"], value))
        if self._flexible:
            lines.append("  tags = []")
            for field in sorted(tagged, key=lambda field: int(field["tag"])):
                value, default = self._new("x"), self._constant(default_of(field))
                lines.append(f"  {value} = r.get({field['name']!r}, {default})")
                lines.append(f"  if {value} != {default} and {value} is not None:")
                inner = self._encode(field, field["type"], value)
                lines += ["    outer, w = w, bytearray()", *_indented(inner, 4)]
                lines.append(f"    tags.append(({int(field['tag'])}, w)); w = outer")
            lines += [
                "  write_unsigned(w, len(tags))", "  for tag, data in tags:",
                "    write_unsigned(w, tag); write_unsigned(w, len(data)); w += data",
            ]  # fmt: skip
        self._source.append("\n".join([*lines, "  return w"]))
        return name

    def _encode(self, field: dict[str, Any], kind: str, value: str) -> list[str]:
        if kind in _NUMBERS:
            return [f"w += pack_{kind}({value})"]
        if kind == "uuid":
            return [f"w += uuid_bytes({value})"]
        flexible = self._is_flexible(field)
        short = "int16" if kind == "string" else "int32"
        null = "w.append(0)" if flexible else f"w += pack_{short}(-1)"
        if not self._is_nullable(field) and (kind in _BYTES or kind.startswith("[]")):
            null = f"raise null({field['name']!r})"
        if kind in _BYTES:
            data = self._new("data_")
            size = (
                f"write_unsigned(w, len({data}) + 1)"
                if flexible
                else f"w += pack_{short}(len({data}))"
            )
            made = f"{value}.encode()" if kind == "string" else value
            return [
                f"if {value} is None: {null}",
                "else:",
                f"  {data} = {made}",
                f"  {size}; w += {data}",
            ]
        if kind.startswith("[]"):
            size = (
                f"write_unsigned(w, len({value}) + 1)"
                if flexible
                else f"w += pack_int32(len({value}))"
            )
            each = self._new("x")
            inner = self._encode(_element(field), kind[2:], each)
            return [
                f"if {value} is None: {null}", "else:", f"  {size}",
                f"  for {each} in {value}:", *_indented(inner, 4),
            ]  # fmt: skip
        function = self._encode_struct(self._fields_of(field, kind))
        if self._is_nullable(field):
            return [
                f"if {value} is None or {value} == {{}}: w.append(255)",
                f"else: w.append(1); {function}(w, {value})",
            ]
        return [f"{function}(w, {value} or {{}})"]


def _indented(lines: list[str], by: int = 2) -> list[str]:
    return [" " * by + line for line in lines]


def _element(field: dict[str, Any]) -> dict[str, Any]:
    """Return the field of an array's elements: the array may be null, they are not."""
    return {key: found for key, found in field.items() if key != "null"}
