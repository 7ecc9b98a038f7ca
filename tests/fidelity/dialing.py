"""Connections to one broker from several addresses: what their clients see of its limits.

The real broker is dialled from 127.0.0.2 and following, which are all this machine's. An answer is
a Metadata response; how long it took counts, which is why the limits are far apart.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Protocol

from kafkasim.scenarios.language.spec import parse
from kafkasim.scenarios.wire.session import OUTSIDE_PREFIX, LiveRun, Session
from tests.fidelity import wire
from tests.fidelity.adapter import VERSIONS
from tests.fidelity.one_broker import ALONE, OneBroker
from tests.scenarios.wire.outside import KEYS, STRICT, Connection

CLOSED, SILENT = "closed", "silent"
METADATA: dict[str, Any] = {"Topics": []}


class Caller(Protocol):
    """An open connection of one client."""

    def ask(
        self, within_s: float, api: str = "Metadata", body: Mapping[str, Any] = METADATA
    ) -> dict[str, Any] | str:
        """Send a request; return the response, CLOSED, or SILENT if there is none in time.

        After SILENT the response is still to come: ``wait`` for it.
        """
        ...

    def wait(self, within_s: float) -> dict[str, Any] | str:
        """Wait on for the response to what was asked."""
        ...

    def close(self) -> None:
        """Close the connection."""
        ...


class Dialer(Protocol):
    """One broker, and the clock of its clients."""

    def dial(self, address: str, *, second: bool = False) -> Caller:
        """Open a connection from an address, to the broker's second listener if that is said.

        Whether the broker takes it shows when it is used.
        """
        ...

    def settle(self, seconds: float) -> None:
        """Let time pass."""
        ...

    def now(self) -> float:
        """Return the seconds that have passed."""
        ...


class RealCaller:
    """A connection to a real broker."""

    def __init__(self, schemas: wire.Schemas, port: int, address: str) -> None:
        self._connection = wire.Connection(schemas, port, source=address)

    def ask(
        self, within_s: float, api: str = "Metadata", body: Mapping[str, Any] = METADATA
    ) -> dict[str, Any] | str:
        self._api = api
        if not self._connection.send(api, dict(body), VERSIONS[api]):
            return CLOSED
        return self.wait(within_s)

    def wait(self, within_s: float) -> dict[str, Any] | str:
        self._connection.socket.settimeout(within_s)
        try:
            answer = self._connection.receive(self._api, VERSIONS[self._api])
        except TimeoutError:
            return SILENT
        return CLOSED if answer is None else answer

    def close(self) -> None:
        self._connection.close()


class RealDialer:
    """A real broker, which is node 1 of its cluster."""

    def __init__(self, cluster: OneBroker) -> None:
        self._schemas = wire.Schemas(cluster.clients_jar)
        self._cluster = cluster

    def dial(self, address: str, *, second: bool = False) -> Caller:
        port = self._cluster.second_port if second else self._cluster.ports[1]
        return RealCaller(self._schemas, port, address)

    def settle(self, seconds: float) -> None:
        time.sleep(seconds)

    def now(self) -> float:
        return time.monotonic()


class ModelCaller:
    """A connection to the model's broker; its client's id is its address."""

    def __init__(self, session: Session, address: str) -> None:
        self._connection = Connection(session, "broker-1", address)
        session.hosts[f"{OUTSIDE_PREFIX}{address}"].card.ip = address

    def ask(
        self, within_s: float, api: str = "Metadata", body: Mapping[str, Any] = METADATA
    ) -> dict[str, Any] | str:
        self._api = api
        self._connection.write(api, dict(body), VERSIONS[api])
        return self.wait(within_s)

    def wait(self, within_s: float) -> dict[str, Any] | str:
        answer = self._connection.frame(int(within_s * 1_000_000))
        if answer is not None:
            return STRICT.decode_response(KEYS[self._api], VERSIONS[self._api], answer)
        return SILENT if self._connection.end is None else CLOSED

    def close(self) -> None:
        self._connection.session.close(self._connection.number)


class ModelDialer:
    """The model's broker in a live session, without sockets.

    The operator that made the session's topics stays connected, so ``max.connections`` is one more.
    """

    def __init__(self, settings: Mapping[str, str]) -> None:
        if "max.connections" in settings:
            settings = {**settings, "max.connections": str(int(settings["max.connections"]) + 1)}
        table = {
            "name": "dialled", "claim": "Its connections are limited.", "duration": "60s",
            "cluster": {"brokers": 1, "controllers": 1, "config": {**ALONE, **settings}},
        }  # fmt: skip
        run = LiveRun(parse(table, "dialled"), 1, None, [])
        run.boot()
        self._session = Session(run, {"broker-1": ("127.0.0.1", 9092)}, STRICT)
        self._kernel = run.world.kernel

    def dial(self, address: str, *, second: bool = False) -> Caller:
        assert not second, "a broker of the model has one listener"
        caller = ModelCaller(self._session, address)
        self.settle(0.005)  # the handshake of TCP
        return caller

    def settle(self, seconds: float) -> None:
        self._kernel.run_until(self._kernel.now + int(seconds * 1_000_000))

    def now(self) -> float:
        return float(self._kernel.now) / 1_000_000
