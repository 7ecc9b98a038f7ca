"""RecordSource: the records of a scenario's own producers, with their keys, values and headers.

A record's id is what the checks tell records apart by. Its key is drawn; its value and its headers
are texts of the workload in which ``{key}``, ``{number}`` and ``{producer}`` are filled in. Sizes
are those of the texts' bytes. Without a text a value has ``value-size`` bytes, which nobody sees.
"""

from __future__ import annotations

import random
from bisect import bisect_left
from collections.abc import Callable
from itertools import accumulate, cycle
from typing import TYPE_CHECKING, NamedTuple

from kafkasim.model.facts import KeySent
from kafkasim.model.records import NO_HEADERS, Tombstone, headers_size
from kafkasim.scenarios.applications.session import Payload, Payloads
from kafkasim.scenarios.language.texts import template
from kafkasim.scenarios.language.units import MICROSECONDS

if TYPE_CHECKING:
    from kafkasim.scenarios.language.tables import ProducerTable


class NextRecord(NamedTuple):
    """What a producer sends next; sizes are in bytes, −1 for no value.

    ``timestamp_ms`` is what the application gives, None if it leaves that to its client.
    """

    key: str | None
    record_id: int
    value_size: int
    headers_size: int
    timestamp_ms: int | None

    @property
    def arguments(self) -> tuple[object, ...]:
        """The arguments of ``producer.send`` behind the topic; nobody asks for the result."""
        key, record_id, value_size, headers_size, timestamp_ms = self
        return key, record_id, value_size, None, False, headers_size, timestamp_ms


class RecordSource:
    """The records of one incarnation of a producer, by their numbers."""

    def __init__(
        self, table: ProducerTable, node: str, number: int, rng: random.Random, payloads: Payloads
    ) -> None:
        """``number`` makes the record ids of the producer ``node`` unique."""
        self._table = table
        self._node = node
        self._base = number << 32
        self._payloads = payloads
        self._draw_key = key_source(table.keys, rng)
        self._random = rng.random
        self._value = template(table.value or "")
        self._headers = {name: template(text) for name, text in table.headers.items()}
        self._written = table.value is not None or bool(table.headers)
        self._since = -1  # the first record's id

    def next(self, number: int, wall_us: int) -> NextRecord:
        """Return the record of a number, and keep what it carries for who reads it.

        ``wall_us`` is the time of the host's clock, in µs since 1970.
        """
        key, record_id = self._draw_key(), self._base | number
        if self._since < 0:
            self._since = record_id
        time = self._timestamp(wall_us)
        share = self._table.tombstone_share
        if share and self._random() < share:
            self._payloads.keep(record_id, Payload(None, ()))
            return NextRecord(key, Tombstone(record_id), -1, NO_HEADERS, time)
        if not self._written:
            return NextRecord(key, record_id, self._table.value_size, NO_HEADERS, time)
        places = {"key": key or "", "number": number, "producer": self._node}
        value = None
        size = self._table.value_size
        if self._table.value is not None:
            value = self._value.format(**places).encode()
            size = len(value)
        headers = tuple(
            [(name, text.format(**places).encode()) for name, text in self._headers.items()]
        )
        kept = str(record_id).encode() if value is None else value
        self._payloads.keep(record_id, Payload(kept, headers))
        return NextRecord(key, record_id, size, headers_size(headers), time)

    def _timestamp(self, wall_us: int) -> int | None:
        """Return the timestamp that the application gives its next record."""
        offset_us, unit = self._table.timestamp_offset, self._table.timestamp_unit
        if not offset_us and unit == "ms":
            return None
        return max(0, wall_us + offset_us) // MICROSECONDS[unit]

    def fact(self, record: NextRecord) -> KeySent | None:
        """Return what the judge of ordering per key needs to know, None without ``key-order``."""
        if record.key is None or not self._table.key_order:
            return None
        return KeySent(record.record_id, record.key, self._since)


def key_source(spec: str, rng: random.Random) -> Callable[[], str | None]:
    """Return the function that gives the next key of ``ProducerTable.keys``."""
    kind, *arguments = spec.split(":")
    if kind == "none":
        return lambda: None
    names = [f"key-{index}" for index in range(int(arguments[0]))]
    if kind == "cycle":
        turn = cycle(names)
        return lambda: next(turn)
    if kind == "uniform":
        return lambda: names[int(rng.random() * len(names))]
    exponent = float(arguments[1])
    # Integer weights: a running sum of floats differs between Python versions.
    weights = list(accumulate(int(1e9 / (rank + 1) ** exponent) for rank in range(len(names))))
    return lambda: names[bisect_left(weights, int(rng.random() * weights[-1]) + 1)]
