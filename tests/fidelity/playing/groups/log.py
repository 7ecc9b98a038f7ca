"""The records of ``__consumer_offsets`` as real Kafka writes them, read from a broker's files.

The schemas come from the jar of Kafka's group coordinator (``common/message/*Key.json``,
``*Value.json``) and, for what is inside of a member's subscription and assignment, from the jar of
its clients. A record is what ``kafka-dump-log --offsets-decoder`` prints.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

from kafkasim.model.values import value
from kafkasim.scenarios.wire.compiling import within
from tests.fidelity.playing.metadata_log import batches
from tests.fidelity.schema_table import read_schemas
from tests.fidelity.wire import fields_of


@value
class Entry:
    """One record. ``key`` and ``fields`` have Kafka's names; ``fields`` is None for a tombstone."""

    offset: int
    epoch: int  # of the leader that wrote it
    kind: str  # OffsetCommit, GroupMetadata, ConsumerGroupMetadata, …
    key: dict[str, Any]
    fields: dict[str, Any] | None


class GroupLogReader:
    """Reads the partitions of ``__consumer_offsets`` of one version of Kafka."""

    def __init__(self, libs: Path) -> None:
        """``libs`` is the directory with Kafka's jars."""
        coordinator = next(libs.glob("kafka-group-coordinator-[0-9]*.jar"))
        schemas = read_schemas(coordinator, r"common/message/\w+(Key|Value)\.json")
        clients = next(libs.glob("kafka-clients-*.jar"))
        schemas += read_schemas(clients, r"common/message/ConsumerProtocol\w+\.json")
        self._schemas = {each["name"]: each for each in schemas}
        self._kinds = {
            number: each["name"].removesuffix("Key")
            for each in schemas
            if each["name"].endswith("Key")
            for number in _numbers(each)
        }

    def entries(self, file: Path) -> list[Entry]:
        """Return the records of a segment, without control records."""
        return [
            self._entry(offset, batch.epoch, key, data)
            for batch in batches(file)
            if not batch.control
            for offset, (key, data) in enumerate(batch.records, batch.base)
        ]

    def _entry(self, offset: int, epoch: int, key: bytes | None, data: bytes | None) -> Entry:
        assert key is not None, "every record of the coordinator has a key"
        number = struct.unpack(">h", key[:2])[0]
        kind = self._kinds[number]
        told = self._decode(f"{kind}Key", key, number)
        fields = None if data is None else self._decode(f"{kind}Value", data)
        if (
            fields is not None and fields.get("protocolType") == "consumer"
        ):  # not of Connect workers
            for member in fields["members"]:
                member["subscription"] = self._subscription(member["subscription"])
                data = member["assignment"]
                member["assignment"] = self._assignment(data)
                member["assignmentUserData"] = self._assignment_user_data(data)
        return Entry(offset, epoch, kind, told, fields)

    def _decode(self, name: str, data: bytes, version: int | None = None) -> dict[str, Any]:
        """Return the fields of a struct that begins with its version."""
        schema = self._schemas[name]
        version = struct.unpack(">h", data[:2])[0] if version is None else version
        assert version is not None
        # A key of 4.1 has the version 0, and the number of its kind before it instead.
        own = 0 if "apiKey" in schema and name.endswith("Key") else version
        return fields_of(schema, own, data[2:], flexible=version)

    def _subscription(self, data: bytes) -> dict[str, Any]:
        found = self._decode("ConsumerProtocolSubscription", data)
        user_data = found["userData"]
        if user_data is not None and len(user_data) == 4:  # of the cooperative sticky assignor
            user_data = struct.unpack(">i", user_data)[0]
        owned = _partitions(found.get("ownedPartitions") or [])
        return found | {"ownedPartitions": owned, "userData": user_data}

    def _assignment(self, data: bytes) -> list[tuple[str, int]]:
        found = self._decode("ConsumerProtocolAssignment", data) if data else {}
        return _partitions(found.get("assignedPartitions") or [])

    def _assignment_user_data(self, data: bytes) -> Any:
        return None  # a subclass knows an assignor that gives some


def _numbers(schema: dict[str, Any]) -> list[int]:
    """Return the numbers that a record's kind has: until 4.0 they were versions of its key."""
    if "apiKey" in schema:
        return [int(schema["apiKey"])]
    return [version for version in range(1 << 8) if within(version, schema["validVersions"])]


def _partitions(topics: list[dict[str, Any]]) -> list[tuple[str, int]]:
    return [(each["topic"], number) for each in topics for number in each["partitions"]]
