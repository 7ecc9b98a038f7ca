"""A session in process, without sockets: requests as bytes in, responses as bytes out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib import resources
from pathlib import Path
from typing import Any

from kafkasim.scenarios.language.spec import parse, read_toml
from kafkasim.scenarios.language.tables import Scenario
from kafkasim.scenarios.wire.adapters.table import ADAPTERS
from kafkasim.scenarios.wire.gateway import Client, Link
from kafkasim.scenarios.wire.journal import Journal
from kafkasim.scenarios.wire.schemas import Header, Schemas
from kafkasim.scenarios.wire.session import LiveRun, Session

FOLDER = resources.files("kafkasim.scenarios.wire")
STRICT = Schemas(json.loads(FOLDER.joinpath("schemas.json").read_text("utf-8")), strict=True)
KEYS = STRICT.keys
PORTS = {f"broker-{number}": ("127.0.0.1", 9091 + number) for number in (1, 2, 3)}
WITHIN_US = 30_000_000


def cluster() -> Scenario:
    """Return the scenario that ``kafkasim serve`` has by default."""
    return parse(read_toml(Path(str(FOLDER / "cluster.toml"))), "cluster.toml")


def booted() -> Session:
    """Return a session whose cluster is ready."""
    run = LiveRun(cluster(), 1, None, [])
    run.boot()
    return Session(run, PORTS, STRICT)


class Connection:
    """A client's connection to one broker; it asks one request at a time."""

    count = 0

    def __init__(self, session: Session, node: str = "broker-1", client_id: str = "test") -> None:
        Connection.count += 1
        self.session, self.number, self.client_id = session, Connection.count, client_id
        self.received = bytearray()
        self.end: str | None = None
        self._correlation = 0
        session.open(self.number, node, client_id, self)

    def send(self, data: bytes | bytearray) -> None:
        self.received += data

    def ended(self, reason: str) -> None:
        self.end = reason

    def feed(self, data: bytes | bytearray) -> None:
        self.session.data(self.number, bytes(data))

    def run(self, us: int) -> None:
        """Simulate for some time."""
        kernel = self.session.run.world.kernel
        kernel.run_until(kernel._now + us)

    def frame(self, within_us: int = WITHIN_US) -> bytes | None:
        """Return the next response without its length, None within the time limit or at an end."""
        for _ in range(within_us // 10_000):
            if len(self.received) >= 4:
                size = int.from_bytes(self.received[:4], "big")
                found = bytes(self.received[4 : 4 + size])
                del self.received[: 4 + size]
                return found
            if self.end is not None:
                return None
            self.run(10_000)
        return None

    def write(self, api: str, body: dict[str, Any], version: int | None = None) -> int:
        """Send a request in a version, the newest by default; return the version."""
        key = KEYS[api]
        version = ADAPTERS[key].high if version is None else version
        self._correlation += 1
        header = Header(key, version, self._correlation, self.client_id)
        self.feed(STRICT.encode_request(header, body))
        return version

    def ask(self, api: str, body: dict[str, Any], version: int | None = None) -> dict[str, Any]:
        """Send a request and return its response."""
        version = self.write(api, body, version)
        found = self.frame()
        assert found is not None, (api, self.end)
        assert int.from_bytes(found[:4], "big") == self._correlation
        return STRICT.decode_response(KEYS[api], version, found)

    def create(self, name: str, partitions: int = 3, **config: str) -> None:
        """Create a topic, and wait until all brokers know it."""
        configs = [{"Name": key.replace("_", "."), "Value": value} for key, value in config.items()]
        topic = {"Name": name, "NumPartitions": partitions, "ReplicationFactor": 3}
        body = {"Topics": [{**topic, "Assignments": [], "Configs": configs}], "TimeoutMs": 5000}
        (row,) = self.ask("CreateTopics", body)["Topics"]
        assert row["ErrorCode"] == 0, row
        self.run(1_000_000)

    def leader(self, name: str, partition: int = 0) -> str:
        """Return the node that leads a partition."""
        body = {"Topics": [{"Name": name, "TopicId": None}], "AllowAutoTopicCreation": False}
        (topic,) = self.ask("Metadata", body)["Topics"]
        for row in topic["Partitions"]:
            if row["PartitionIndex"] == partition:
                return f"broker-{row['LeaderId']}"
        raise LookupError(topic)

    def produce(self, name: str, data: bytes, acks: int = -1, partition: int = 0) -> dict[str, Any]:
        """Send a batch to a partition; return what the response says of it."""
        rows = [
            {
                "TopicId": self.topic_id(name),
                "PartitionData": [{"Index": partition, "Records": data}],
            }
        ]
        body = {"Acks": acks, "TimeoutMs": 5000, "TopicData": rows}
        answer = self.ask("Produce", body)["Responses"][0]["PartitionResponses"][0]
        assert isinstance(answer, dict)
        return answer

    def fetch(self, name: str, offset: int, version: int = 12) -> dict[str, Any]:
        """Fetch partition 0 of a topic; return what the response says of it."""
        part = {"Partition": 0, "FetchOffset": offset, "PartitionMaxBytes": 1 << 20}
        topic: dict[str, Any] = {"Topic": name, "Partitions": [part]}
        if version >= 13:
            topic = {"TopicId": self.topic_id(name), "Partitions": [part]}
        body = {"MaxWaitMs": 100, "MinBytes": 1, "MaxBytes": 1 << 20, "Topics": [topic]}
        answer = self.ask("Fetch", body, version)["Responses"][0]["Partitions"][0]
        assert isinstance(answer, dict)
        return answer

    def topic_id(self, name: str) -> str:
        """Return the id of a topic."""
        body = {"Topics": [{"Name": name, "TopicId": None}], "AllowAutoTopicCreation": False}
        return str(self.ask("Metadata", body)["Topics"][0]["TopicId"])


class Recorded(Session):
    """A session that writes its inputs to a journal, as the server does."""

    def __init__(self, run: LiveRun, ports: Any, schemas: Schemas, journal: Journal) -> None:
        super().__init__(run, ports, schemas)
        self._journal = journal

    def _note(self, *what: Any) -> None:
        self._journal.write(self.run.world.kernel._now, *what)

    def open(self, number: int, node: str, client_id: str, client: Client) -> Link:
        self._note("open", number, node, client_id)
        return super().open(number, node, client_id, client)

    def data(self, number: int, data: bytes) -> None:
        self._note("data", number, data)
        super().data(number, data)

    def close(self, number: int) -> None:
        self._note("close", number)
        super().close(number)

    def inject(self, data: Mapping[str, Any]) -> str:
        self._note("fault", dict(data))
        return super().inject(data)
