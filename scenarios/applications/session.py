"""What one incarnation of a user's application has: its host, its settings, and what it wrote."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from kafkasim.model.records import Tombstone
from kafkasim.sim.apps.client_port import ClientPort


@dataclass(frozen=True)
class Payload:
    """What a record carries beside its id: the bytes that an application wrote."""

    value: bytes | None
    headers: tuple[tuple[str, bytes], ...] = ()


class Payloads:
    """The payloads of all records that applications wrote in a run, by record id.

    A record's id is what the checks tell records apart by; its payload travels with it.
    """

    def __init__(self) -> None:
        self._payloads: dict[int, Payload] = {}
        self._next: dict[str, int] = {}  # host -> the number of its next record

    def new(self, node: str, number: int, payload: Payload) -> int:
        """Return the id of a host's next record: ``number << 32 | counter``."""
        count = self._next.get(node, 0)
        self._next[node] = count + 1
        record_id = number << 32 | count
        if payload.value is None:
            record_id = Tombstone(record_id)
        self._payloads[record_id] = payload
        return record_id

    def keep(self, record_id: int, payload: Payload) -> None:
        """Keep the payload of a record that has its id."""
        self._payloads[record_id] = payload

    def written(self, record_id: int) -> Payload | None:
        """Return a record's payload, None for a record that is a size only."""
        return self._payloads.get(record_id)

    def of(self, record_id: int) -> Payload:
        """Return a record's payload; without one, its id in decimal."""
        return self._payloads.get(record_id) or Payload(str(record_id).encode())


@dataclass
class Session:
    """One incarnation: what its clients need to know of the run."""

    port: ClientPort
    node: str
    number: int  # of the host, for record ids
    group: str
    defaults: Mapping[str, Any]  # of the workload's config, under Kafka's names
    producer_defaults: Mapping[str, Any]
    topic_ids: Mapping[str, str]
    caught: dict[str, str]  # host -> the last error that a client has raised
    returned: dict[str, None]  # hosts whose application has come to its end
    handling: dict[str, None]  # hosts whose application has got records since it polled last
    assumed: dict[str, None]  # groups whose application does not say what it has processed
    ignored: dict[str, None]  # arguments of clients that have no effect here
    payloads: Payloads
    rng: random.Random
    created: dict[str, None]  # topics that applications of the run have created
    tells: bool = False  # the application says itself what it has processed
    consumers: list[str] = field(default_factory=list)  # those that are started
    notes: list[Callable[[], None]] = field(default_factory=list)  # what consumers handed out
    opened: dict[str, int] = field(default_factory=dict)  # kind of client -> how many

    def client_name(self, kind: str) -> str:
        """Return a name for a new client: producer-1, consumer-1 …"""
        self.opened[kind] = self.opened.get(kind, 0) + 1
        return f"{kind}-{self.opened[kind]}"


CURRENT: ContextVar[Session] = ContextVar("kafkasim application")


def session() -> Session:
    """Return the session of the running application.

    Raises:
        RuntimeError: no simulated application runs.
    """
    try:
        return CURRENT.get()
    except LookupError:
        raise RuntimeError("no simulated application runs here") from None
