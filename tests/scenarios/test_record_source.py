"""The records of a scenario's own producers: keys, values, headers, and the sizes of all three."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafkasim.model.facts import KeySent
from kafkasim.model.records import headers_size, record_size
from kafkasim.scenarios.applications.records.source import RecordSource
from kafkasim.scenarios.applications.session import Payload, Payloads
from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.language.tables import ProducerTable

BASE = 3 << 32
NOW_US = 1_700_000_000_123_456


def source(**table: Any) -> tuple[RecordSource, Payloads]:
    payloads = Payloads()
    made = ProducerTable.model_validate({"kind": "producer", **table})
    return RecordSource(made, "producer-3", 3, random.Random(1), payloads), payloads


def test_a_text_is_filled_in_and_has_the_size_of_its_bytes() -> None:
    records, payloads = source(
        keys="uniform:1", value="{{Zoë, {key}, {number}}}", headers={"from": "{producer}", "n": ""}
    )
    record = records.next(7, NOW_US)
    value = "{Zoë, key-0, 7}".encode()
    headers = (("from", b"producer-3"), ("n", b""))
    assert record == ("key-0", BASE | 7, len(value), headers_size(headers), None)
    assert payloads.of(BASE | 7) == Payload(value, headers)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ('{"id": {number}, "by": {"key": "{key}"}}', '{"id": 7, "by": {"key": "key-0"}}'),
        ("{", "{"),
        ("<{number:05d}>", "<00007>"),
        ("{{number}} {number}", "{number} 7"),
        ("{}", "{}"),
    ],
)
def test_other_braces_stay_and_doubled_ones_are_written_once(text: str, filled: str) -> None:
    records, payloads = source(keys="uniform:1", value=text)
    records.next(7, NOW_US)
    assert payloads.of(BASE | 7).value == filled.encode()


def test_the_keys_of_a_cycle_come_in_turn() -> None:
    records, _ = source(keys="cycle:3")
    keys = [records.next(number, NOW_US).key for number in range(4)]
    assert keys == ["key-0", "key-1", "key-2", "key-0"]


def test_without_a_text_a_record_weighs_its_value_size_and_reads_as_its_id() -> None:
    records, payloads = source(**{"value-size": 500})
    assert records.next(0, NOW_US) == (None, BASE, 500, 1, None)
    assert payloads.of(BASE) == Payload(str(BASE).encode())


def test_the_bytes_of_headers_are_those_of_the_wire() -> None:
    """DefaultRecord.writeTo: count, then length and bytes of each name and value; -1 is null."""
    assert headers_size(()) == 1
    assert headers_size((("k", b"vv"), ("none", None))) == 1 + (1 + 1 + 1 + 2) + (1 + 4 + 1)
    plain = record_size(-1, 10, 0, 0)
    assert record_size(-1, 10, 0, 0, headers_size((("k", b"vv"),))) == plain + 5


@pytest.mark.parametrize(
    ("table", "timestamp"),
    [
        ({"timestamp-offset": "-2s"}, 1_699_999_998_123),
        ({"timestamp-unit": "us"}, 1_700_000_000_123_456),
        ({"timestamp-unit": "s", "timestamp-offset": "1s"}, 1_700_000_001),
    ],
)
def test_a_timestamp_is_what_the_application_takes_for_milliseconds(
    table: dict[str, str], timestamp: int
) -> None:
    records, _ = source(**table)
    assert records.next(0, NOW_US).arguments == (None, BASE, 100, None, False, 1, timestamp)


def test_keys_are_told_for_the_judge_of_their_order_only() -> None:
    silent, _ = source(keys="uniform:1")
    telling, _ = source(keys="uniform:1", **{"key-order": True})
    told = [telling.fact(telling.next(number, NOW_US)) for number in (4, 5)]
    assert told == [KeySent(BASE | 4, "key-0", BASE | 4), KeySent(BASE | 5, "key-0", BASE | 4)]
    assert silent.fact(silent.next(0, NOW_US)) is None


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({"value": '{"a": {id}}'}, "workload.0.value: {id} is unknown; allowed: key, number, prod"),
        ({"headers": {"h": "{number:k}"}}, "workload.0.headers.h: Unknown format code 'k'"),
        ({"value": "x", "value-size": 5}, "workload.0.value-size: the value has the size"),
        ({"key-order": True}, "workload.0.key-order: needs keys"),
    ],
)
def test_what_cannot_be_is_refused(keys: dict[str, Any], said: str) -> None:
    spec = {"name": "n", "claim": "C.", "duration": "1s", "cluster": {"brokers": 1},
            "topics": [{"name": "t"}], "workload": [{"kind": "producer", **keys}]}  # fmt: skip
    with pytest.raises(ValueError, match="workload") as refused:
        parse(spec, "n")
    assert said in str(refused.value)
