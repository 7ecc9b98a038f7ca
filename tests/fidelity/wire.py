"""Requests to real Kafka and its answers, and the structs of its logs, by its own schemas.

The codec is that of ``kafkasim serve`` (:mod:`kafkasim.scenarios.wire.compiling`). Its table is
made from the jar of the version that is asked, so a new version of Kafka needs no new code.
Record batches are made and read in :mod:`tests.fidelity.batches`.
"""

from __future__ import annotations

import functools
import json
import socket
import struct
from pathlib import Path
from typing import Any

from kafkasim.scenarios.wire import schemas
from kafkasim.scenarios.wire.compiling import NULL_UUID, Compiler, default_of, within
from tests.fidelity.schema_table import side, table_of

CLIENT_ID = "fidelity"
NULL_UUID_TEXT = NULL_UUID


class Schemas:
    """The requests and responses of one version of Kafka, by the name of their API."""

    def __init__(self, clients_jar: Path) -> None:
        self._schemas = schemas.Schemas(table_of(clients_jar, None), strict=True)

    def newest(self, api: str) -> int:
        """Return the highest stable version of an API (``Produce``)."""
        return self._schemas.newest(self._schemas.keys[api])

    def encode(self, api: str, version: int, correlation: int, body: dict[str, Any]) -> bytes:
        """Return a whole request, without its size."""
        header = schemas.Header(self._schemas.keys[api], version, correlation, CLIENT_ID)
        return bytes(self._schemas.encode_request(header, body)[4:])

    def decode(self, api: str, version: int, data: bytes) -> dict[str, Any]:
        """Return the body of a whole response."""
        return self._schemas.decode_response(self._schemas.keys[api], version, data)


def fields_of(
    schema: dict[str, Any], version: int, data: bytes, flexible: int | None = None
) -> dict[str, Any]:
    """Return the fields of a struct, defaults in place of those that its version lacks.

    Names have small first letters, as Kafka's tools print them. ``flexible`` is the version by
    which flexible ones are told, if it is another.
    """
    known = version if flexible is None else flexible
    decode = _decoder(json.dumps(schema), version, within(known, schema["flexibleVersions"]))
    fields, _ = decode(data, 0)
    absent = {each["name"]: default_of(each) for each in schema["fields"]}
    found: dict[str, Any] = uncapitalised(absent | fields)
    return found


@functools.cache
def _decoder(schema: str, version: int, flexible: bool) -> Any:
    return Compiler(side(json.loads(schema)), version, flexible, strict=False).decoder()


def uncapitalised(node: Any) -> Any:
    """Return decoded fields under names with small first letters."""
    if isinstance(node, list):
        return [uncapitalised(each) for each in node]
    if not isinstance(node, dict):
        return node
    return {name[:1].lower() + name[1:]: uncapitalised(found) for name, found in node.items()}


class Connection:
    """One TCP connection to a broker: requests are answered one at a time, in order.

    ``user`` authenticates by SASL/PLAIN, with the name as password; "" does not authenticate.
    ``source`` is the address from which the broker sees the connection come.
    """

    def __init__(
        self,
        schemas: Schemas,
        port: int,
        timeout: float = 40.0,
        *,
        user: str = "",
        source: str = "127.0.0.1",
    ) -> None:
        self.schemas = schemas
        self.correlation = 0
        self._received = b""
        self.socket = socket.create_connection(("127.0.0.1", port), timeout, (source, 0))
        if user:
            self.ask("SaslHandshake", {"Mechanism": "PLAIN"})
            answer = self.ask("SaslAuthenticate", {"AuthBytes": f"\0{user}\0{user}".encode()})
            assert answer is not None, user
            assert answer["ErrorCode"] == 0, answer

    def ask(
        self, api: str, body: dict[str, Any], version: int | None = None, *, answered: bool = True
    ) -> dict[str, Any] | None:
        """Send a request and return the answer; None when the broker closed the connection, or
        when ``answered`` is False and it did not."""
        version = self.schemas.newest(api) if version is None else version
        sent = self.send(api, body, version)
        return self.receive(api, version) if sent and answered else None

    def send(self, api: str, body: dict[str, Any], version: int) -> bool:
        """Send a request; return False if the broker has closed the connection."""
        self.correlation += 1
        data = self.schemas.encode(api, version, self.correlation, body)
        try:
            self.socket.sendall(struct.pack(">i", len(data)) + data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def receive(self, api: str, version: int) -> dict[str, Any] | None:
        """Return the next answer, None when the broker closed the connection.

        Raises:
            TimeoutError: there is none within the socket's timeout; the next call waits on.
        """
        while True:
            whole = 4 + struct.unpack(">i", self._received[:4])[0] if self._received[3:] else 4
            if len(self._received) >= whole > 4:
                found, self._received = self._received[4:whole], self._received[whole:]
                return self.schemas.decode(api, version, found)
            try:
                more = self.socket.recv(whole - len(self._received))
            except ConnectionResetError:
                return None
            if not more:
                return None
            self._received += more

    def close(self) -> None:
        """Close the connection."""
        self.socket.close()
