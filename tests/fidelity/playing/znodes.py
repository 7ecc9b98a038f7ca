"""The ground truth of ZooKeeper mode: every change of a znode, in the order of ZooKeeper's log.

Real changes are read from the transaction log of a server (FileTxnLog, TxnHeader), the model's from
the log of its ensemble. Data has the fields of Kafka's JSON.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from kafkasim.model.controller.zk.store import zk_data
from kafkasim.model.zookeeper.database.transactions import Database
from kafkasim.model.zookeeper.ops import NODE_DELETED
from kafkasim.model.zookeeper.rules import ZooKeeperRules

CREATE, DELETE, SET_DATA, MULTI, CREATE2, CREATE_TTL, CREATE_CONTAINER = 1, 2, 5, 14, 15, 21, 19
CLOSE_SESSION = -11
CREATES = (CREATE, CREATE2, CREATE_TTL, CREATE_CONTAINER)


class ZnodeChange(NamedTuple):
    """A znode was created or written; ``data`` None: it is gone."""

    zxid: int
    path: str
    data: Any
    version: int


class TransactionLog:
    """Reads the transaction log of one real server."""

    def __init__(self, data_dir: Path) -> None:
        self._files = sorted((data_dir / "version-2").glob("log.*"), key=_first_zxid)
        self._versions: dict[str, int] = {}
        self._owners: dict[str, int] = {}  # ephemeral path -> session

    def last_zxid(self) -> int:
        """Return the zxid of the last transaction, 0 without one."""
        return max([zxid for zxid, *_ in self._transactions()], default=0)

    def changes(self) -> list[ZnodeChange]:
        """Return all changes."""
        found: list[ZnodeChange] = []
        for zxid, session, kind, body in self._transactions():
            found += self._apply(zxid, session, kind, body)
        return found

    def _transactions(self) -> Iterator[tuple[int, int, int, io.BytesIO]]:
        """Yield (zxid, session, type, body); the file is filled up with zeros."""
        for file in self._files:
            read = io.BytesIO(file.read_bytes())
            read.read(16)  # magic, version, database id
            while (head := read.read(12)) and len(head) == 12:
                size = struct.unpack(">qi", head)[1]
                entry = read.read(size)
                if size <= 0 or len(entry) < size or read.read(1) != b"B":
                    break
                session, _, zxid, _, kind = struct.unpack(">qiqqi", entry[:32])
                yield zxid, session, kind, io.BytesIO(entry[32:])

    def _apply(self, zxid: int, session: int, kind: int, body: io.BytesIO) -> Iterator[ZnodeChange]:
        if kind in CREATES:
            path, data = _string(body), _buffer(body)
            for _ in range(_int(body)):  # access control
                _int(body), _string(body), _string(body)
            if kind != CREATE_CONTAINER and body.read(1) == b"\x01":
                self._owners[path] = session
            self._versions[path] = 0
            yield ZnodeChange(zxid, path, _decoded(data), 0)
        elif kind == SET_DATA:
            path, data = _string(body), _buffer(body)
            self._versions[path] = _int(body)
            yield ZnodeChange(zxid, path, _decoded(data), self._versions[path])
        elif kind == DELETE:
            yield self._gone(zxid, _string(body))
        elif kind == MULTI:
            for _ in range(_int(body)):
                inner = _int(body)
                yield from self._apply(zxid, session, inner, io.BytesIO(_buffer(body)))
        elif kind == CLOSE_SESSION:
            for path in sorted(path for path, owner in self._owners.items() if owner == session):
                yield self._gone(zxid, path)

    def _gone(self, zxid: int, path: str) -> ZnodeChange:
        self._owners.pop(path, None)
        return ZnodeChange(zxid, path, None, self._versions.pop(path, -1))


def model_changes(records: Iterable[tuple[int, Any]]) -> list[ZnodeChange]:
    """Return the changes that the records (zxid, record) of the model's ensemble make."""
    database = Database(ZooKeeperRules())
    found: list[ZnodeChange] = []
    for zxid, record in records:
        if not type(record).__module__.endswith("transactions"):
            database.skip(zxid)
            continue
        _, changes = database.apply(record, zxid)
        for kind, path in changes:
            node = database.tree.nodes.get(path)
            gone = kind == NODE_DELETED or node is None
            data, version = (None, -1) if gone else (_as_kafka(node.data), node.version)
            found.append(ZnodeChange(zxid, path, data, version))
    return found


def _as_kafka(data: Any) -> Any:
    """Return the model's data of a znode with the fields of Kafka's JSON."""
    if isinstance(data, zk_data.LeaderAndIsr):
        return {
            "leader": data.leader, "leader_epoch": data.leader_epoch, "isr": list(data.isr),
            "controller_epoch": data.controller_epoch,
            "leader_recovery_state": data.leader_recovery_state,
        }  # fmt: skip
    if isinstance(data, zk_data.TopicAssignment):
        return {
            name: {str(number): list(getattr(entry, of)) for number, entry in data.partitions}
            for name, of in (
                ("partitions", "replicas"),
                ("adding_replicas", "adding"),
                ("removing_replicas", "removing"),
            )
        }
    if isinstance(data, zk_data.ControllerInfo):
        return {"brokerid": data.broker_id}
    if isinstance(data, zk_data.ConfigEntries):
        return {"config": dict(data.entries)}
    return "" if data is None else data


def _decoded(data: bytes) -> Any:
    text = data.decode(errors="replace")
    return json.loads(text) if text.startswith("{") else text


def _first_zxid(file: Path) -> int:
    return int(file.suffix[1:], 16)


def _int(read: io.BytesIO) -> int:
    number: int = struct.unpack(">i", read.read(4))[0]
    return number


def _buffer(read: io.BytesIO) -> bytes:
    return read.read(max(_int(read), 0))


def _string(read: io.BytesIO) -> str:
    return _buffer(read).decode()
