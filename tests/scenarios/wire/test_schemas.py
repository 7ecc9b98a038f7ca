"""Messages as bytes: the codec against kafka-python's, and against damaged frames."""

from __future__ import annotations

import contextlib
import importlib
import json
import pkgutil
import random
from importlib import resources
from typing import Any

import pytest

from kafkasim.scenarios.wire.compiling import within
from kafkasim.scenarios.wire.schemas import Header, Malformed, Schemas, served_schemas

TABLE = json.loads(
    resources.files("kafkasim.scenarios.wire").joinpath("schemas.json").read_text("utf-8")
)
STRICT = Schemas(TABLE, strict=True)

OTHERWISE = {("ApiVersions", "response")}
"""kafka-python reads a response with an error as version 0, which is what a broker answers with
when it does not know the version."""


def _peers() -> dict[tuple[int, str], Any]:
    """Return kafka-python's class of each (api key, side)."""
    found = {}
    for folder in ("admin", "consumer", "metadata", "producer"):
        package = importlib.import_module(f"kafka.protocol.{folder}")
        for info in pkgutil.iter_modules(package.__path__):
            module = importlib.import_module(f"{package.__name__}.{info.name}")
            for item in vars(module).values():
                data = getattr(item, "_json", None)
                if isinstance(item, type) and data and data.get("type") in ("request", "response"):
                    found[data["apiKey"], data["type"]] = item
    return found


class Draw:
    """Draws the body of a message by its schema."""

    def __init__(self, rng: random.Random, schema: dict[str, Any], version: int) -> None:
        self.rng, self.schema, self.version = rng, schema, version

    def body(self, fields: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            field["name"]: self.value(field, field["type"])
            for field in fields
            if within(self.version, field.get("versions") or field["tagged"])
        }

    def value(self, field: dict[str, Any], kind: str) -> Any:
        rng = self.rng
        tagged = "tag" in field and within(self.version, field["tagged"])
        if within(self.version, field.get("null", "none")) and not tagged and rng.random() < 0.3:
            return None
        if kind == "bool":
            return rng.random() < 0.5
        if kind == "float64":
            return rng.random()
        if kind.lstrip("u") in ("int8", "int16", "int32", "int64"):
            bits = int(kind.lstrip("uint"))
            return rng.getrandbits(bits) - (0 if kind[0] == "u" else 1 << bits - 1)
        if kind == "uuid":
            return "".join(rng.choice("abcXYZ019_") for _ in range(21)) + "A"
        if kind == "string":
            return "".join(rng.choice("aé水-") for _ in range(rng.choice([0, 3, 130])))
        if kind in ("bytes", "records"):
            return rng.randbytes(rng.choice([0, 3, 130]))
        if kind.startswith("[]"):
            element = {key: each for key, each in field.items() if key != "null"}
            return [self.value(element, kind[2:]) for _ in range(rng.choice([0, 1, 2]))]
        return self.body(field.get("fields") or self.schema["structs"][kind])


MESSAGES = [
    (key, side, version)
    for key, api in STRICT.apis.items()
    for side in ("request", "response")
    for version in range(30)
    if within(version, api[side]["valid"])
]


def _encoded(key: int, side: str, version: int, body: dict[str, Any]) -> bytes:
    if side == "request":
        return bytes(STRICT.encode_request(Header(key, version, 7, "me"), body)[4:])
    return bytes(STRICT.encode_response(key, version, 7, body)[4:])


def _decoded(key: int, side: str, version: int, frame: bytes) -> dict[str, Any]:
    if side == "request":
        header, at = STRICT.decode_header(frame)
        assert header == Header(key, version, 7, "me")
        return STRICT.decode_request(header, frame, at)
    return STRICT.decode_response(key, version, frame)


def test_every_message_in_every_version_comes_back_as_it_was() -> None:
    rng = random.Random(1)
    for key, side, version in MESSAGES:
        schema = STRICT.apis[key][side]
        body = Draw(rng, schema, version).body(schema["fields"])
        frame = _encoded(key, side, version, body)
        assert _decoded(key, side, version, frame) == body, (key, side, version)


def test_kafka_python_reads_and_writes_the_same_bytes() -> None:
    rng, peers, compared = random.Random(2), _peers(), 0
    for key, side, version in MESSAGES:
        peer = peers.get((key, side))
        known = peer is not None and version <= peer.max_version
        if not known or (STRICT.apis[key]["name"], side) in OTHERWISE:
            continue
        schema = STRICT.apis[key][side]
        body = Draw(rng, schema, version).body(schema["fields"])
        function, _ = STRICT._function(key, side, version, False)
        ours = bytes(function(bytearray(), body))
        read = peer.decode(ours, version=version)
        read._header = None
        theirs = bytes(read.encode(version=version))
        assert theirs == ours, (STRICT.apis[key]["name"], side, version, body)
        compared += 1
    assert compared > 250


def test_damaged_frames_are_malformed_and_nothing_else() -> None:
    rng = random.Random(3)
    for key, side, version in MESSAGES:
        if side == "response":
            continue
        schema = STRICT.apis[key][side]
        frame = _encoded(key, side, version, Draw(rng, schema, version).body(schema["fields"]))
        for damaged in (frame[:-1], frame[: rng.randrange(len(frame))]):
            with pytest.raises(Malformed):
                _decoded(key, side, version, damaged)
        if len(frame) == 12:
            continue  # a header without a body
        flipped = bytearray(frame)
        flipped[rng.randrange(12, len(frame))] ^= 1 << rng.randrange(8)
        with contextlib.suppress(Malformed):
            _decoded(key, side, version, bytes(flipped))


def test_bytes_behind_a_request_are_ignored_as_brokers_do() -> None:
    frame = _encoded(3, "request", 13, {"Topics": None})
    assert _decoded(3, "request", 13, frame + b"\0\0\0")["Topics"] is None


def test_a_large_array_that_is_not_there_takes_no_memory() -> None:
    frame = _encoded(3, "request", 1, {"Topics": []})
    with pytest.raises(Malformed, match="the frame ends inside Topics"):
        _decoded(3, "request", 1, frame[:-4] + b"\x7f\xff\xff\xff")


def test_a_name_that_is_no_field_is_an_error_of_the_adapter() -> None:
    with pytest.raises(KeyError, match="Topic"):
        _encoded(3, "request", 1, {"Topic": []})


def test_the_table_is_that_of_kafka_4_1() -> None:
    schemas = served_schemas()
    assert schemas.apis[schemas.keys["Produce"]]["request"]["valid"] == "3-13"
    assert schemas.is_valid(1, 18)
    assert not schemas.is_valid(1, 3)
    assert not schemas.is_valid(999, 0)
