"""The ground truth of ZooKeeper mode: ZooKeeper's transaction log, and its normal form."""

from __future__ import annotations

import json
import struct
from pathlib import Path
from typing import Any

from tests.fidelity.playing.znode_history import ZnodeHistory
from tests.fidelity.playing.znodes import (
    CLOSE_SESSION,
    CREATE,
    DELETE,
    MULTI,
    SET_DATA,
    TransactionLog,
    ZnodeChange,
)

STATE = "/brokers/topics/orders/partitions/0/state"


def buffer(data: bytes) -> bytes:
    return struct.pack(">i", len(data)) + data


def created(path: str, data: str, ephemeral: bool = False) -> bytes:
    acl = struct.pack(">ii", 1, 31) + buffer(b"world") + buffer(b"anyone")
    return buffer(path.encode()) + buffer(data.encode()) + acl + bytes([ephemeral]) + bytes(4)


def written(path: str, data: str, version: int) -> bytes:
    return buffer(path.encode()) + buffer(data.encode()) + struct.pack(">i", version)


def log_of(place: Path, *transactions: tuple[int, int, bytes]) -> TransactionLog:
    """Write a server's log of (session, type, body), filled up with zeros; return its reader."""
    file = place / "version-2" / "log.1"
    file.parent.mkdir()
    data = b"ZKLG" + bytes(12)
    for zxid, (session, kind, body) in enumerate(transactions, 1):
        entry = struct.pack(">qiqqi", session, 1, zxid, 0, kind) + body
        data += struct.pack(">qi", 0, len(entry)) + entry + b"B"
    file.write_bytes(data + bytes(1000))
    return TransactionLog(place)


def test_a_transaction_log_is_read(tmp_path: Path) -> None:
    guarded = struct.pack(">i", 2) + b"".join(
        struct.pack(">i", kind) + buffer(body)
        for kind, body in ((13, buffer(b"/controller_epoch")), (SET_DATA, written("/a", "2", 1)))
    )
    log = log_of(
        tmp_path,
        (7, CREATE, created("/a", "1")),
        (7, CREATE, created("/b", '{"brokerid": 2}', ephemeral=True)),
        (7, MULTI, guarded),
        (7, -1, struct.pack(">i", -110)),  # a create that failed
        (7, DELETE, buffer(b"/a")),
        (7, CLOSE_SESSION, b""),
    )
    assert log.last_zxid() == 6
    assert log.changes() == [
        ZnodeChange(1, "/a", "1", 0),
        ZnodeChange(2, "/b", {"brokerid": 2}, 0),
        ZnodeChange(3, "/a", "2", 1),
        ZnodeChange(5, "/a", None, 1),
        ZnodeChange(6, "/b", None, 0),
    ]


def state(leader: int, epoch: int, *isr: int, controller: int = 4) -> dict[str, Any]:
    found = {"leader": leader, "leader_epoch": epoch, "isr": list(isr)}
    return json.loads(json.dumps({**found, "controller_epoch": controller}))


def test_a_history_counts_from_the_start() -> None:
    changes = [
        ZnodeChange(1, "/controller_epoch", "4", 1),
        ZnodeChange(2, "/controller", {"brokerid": 3}, 0),
        ZnodeChange(3, "/brokers/ids/3", {}, 0),
        ZnodeChange(4, STATE, state(3, 8, 3, 1), 20),
        ZnodeChange(5, "/controller", None, 0),
        ZnodeChange(5, "/brokers/ids/3", None, 1),
        ZnodeChange(6, "/controller", {"brokerid": 1}, 0),
        ZnodeChange(6, "/controller_epoch", "5", 2),
        ZnodeChange(7, STATE, state(-1, 9, 1, controller=5), 21),
        ZnodeChange(8, "/brokers/ids/3", {}, 0),
        ZnodeChange(9, "/brokers/ids/3", {}, 1),
    ]
    assert ZnodeHistory(4).lines(changes) == [
        "controller: A at the start",
        "controller: none",
        "controller: B",
        "broker 3: registered at the start",
        "broker 3: gone",
        "broker 3: registers",
        "orders-0 at the start: leader 3; isr 3,1; controller +0",
        "orders-0 +1/+1: leader none; isr 1; controller +1",
    ]
