"""The znodes of one server, and what an operation does to them (DataTree, PrepRequestProcessor).

Every server applies the same operations in the order of the log, so all servers decide equally
whether a compare-and-set succeeds. In ZooKeeper the leader decides before it proposes, with the
outstanding proposals in mind, and proposes the outcome. Both decide in the order of the log, so the
outcomes are the same. An operation that fails takes a zxid, as ZooKeeper's error transaction does.

A sequential znode gets the number of children ever created below its parent. The stat's cversion
counts creations and deletions of children.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from kafkasim.model.zookeeper.ops import (
    ANY_VERSION,
    NODE_CREATED,
    NODE_DATA_CHANGED,
    NODE_DELETED,
    Check,
    Create,
    Delete,
    Exists,
    GetChildren,
    GetData,
    Multi,
    SetData,
    Stat,
    ZkError,
    ZkResult,
    parent_of,
)

Change = tuple[str, str]  # (NODE_CREATED, NODE_DELETED or NODE_DATA_CHANGED, path)
Undo = Callable[[], None]


class Znode:
    """One znode."""

    __slots__ = (
        "children",
        "creates",
        "czxid",
        "data",
        "ephemeral_owner",
        "mzxid",
        "pzxid",
        "version",
    )

    def __init__(self, data: Any, zxid: int, ephemeral_owner: int) -> None:
        self.data = data
        self.czxid = self.mzxid = self.pzxid = zxid  # created, data changed, children changed
        self.version = 0
        self.creates = 0  # children ever created
        self.ephemeral_owner = ephemeral_owner  # a session id, 0: persistent
        self.children: dict[str, None] = {}  # names, in order of creation

    def stat(self) -> Stat:
        """Return the znode's stat, as clients get it."""
        cversion = 2 * self.creates - len(self.children)
        return Stat(self.czxid, self.mzxid, self.version, cversion, self.ephemeral_owner)


class DataTree:
    """All znodes by path; the root always exists."""

    def __init__(self) -> None:
        self.nodes: dict[str, Znode] = {"/": Znode(None, 0, 0)}
        self.ephemerals: dict[int, dict[str, None]] = {}  # session -> paths
        self._on: dict[type, Any] = {
            Create: self._create,
            Delete: self._delete,
            SetData: self._set_data,
            Check: self._check,
        }

    # ----------------------------------------------------------------------------------- writes

    def apply(self, op: Any, session_id: int, zxid: int) -> tuple[ZkResult, list[Change]]:
        """Apply a write as a whole, or not at all; return its result and the changes, in order."""
        changes: list[Change] = []
        if type(op) is Multi:
            return self._multi(op, session_id, zxid, changes), changes
        return self._on[type(op)](op, session_id, zxid, changes, []), changes

    def close_session(self, session_id: int, zxid: int) -> list[Change]:
        """Delete the ephemeral znodes of a session; return the changes, in order."""
        changes: list[Change] = []
        for path in sorted(self.ephemerals.get(session_id, ())):
            self._remove(path, zxid, changes, [])
        return changes

    def _multi(self, op: Multi, session_id: int, zxid: int, changes: list[Change]) -> ZkResult:
        undo: list[Undo] = []
        results: list[ZkResult] = []
        for part in op.ops:
            result = self._on[type(part)](part, session_id, zxid, changes, undo)
            results.append(result)
            if result.error is not ZkError.OK:
                while undo:
                    undo.pop()()
                changes.clear()
                fine = ZkResult(ZkError.OK, zxid=zxid)
                skipped = ZkResult(ZkError.RUNTIMEINCONSISTENCY, zxid=zxid)
                before = len(results) - 1
                behind = len(op.ops) - len(results)
                parts = (*[fine] * before, result, *[skipped] * behind)
                return ZkResult(result.error, results=parts, zxid=zxid)
        return ZkResult(ZkError.OK, results=tuple(results), zxid=zxid)

    def _create(
        self, op: Create, session_id: int, zxid: int, changes: list[Change], undo: list[Undo]
    ) -> ZkResult:
        path = op.path
        if not _valid(path, op.sequential):
            return ZkResult(ZkError.BADARGUMENTS, zxid=zxid)
        above = parent_of(path)
        parent = self.nodes.get(above)
        if parent is None:
            return ZkResult(ZkError.NONODE, zxid=zxid)
        if op.sequential:
            path = f"{path}{parent.creates:010d}"
        if path in self.nodes:
            return ZkResult(ZkError.NODEEXISTS, zxid=zxid)
        if parent.ephemeral_owner:
            return ZkResult(ZkError.NOCHILDRENFOREPHEMERALS, zxid=zxid)
        undo.append(partial(self._uncreate, path, parent, parent.pzxid))
        node = self.nodes[path] = Znode(op.data, zxid, session_id if op.ephemeral else 0)
        parent.children[path[path.rindex("/") + 1 :]] = None
        parent.creates += 1
        parent.pzxid = zxid
        if op.ephemeral:
            self.ephemerals.setdefault(session_id, {})[path] = None
        changes.append((NODE_CREATED, path))
        return ZkResult(ZkError.OK, path, stat=node.stat(), zxid=zxid)

    def _delete(
        self, op: Delete, session_id: int, zxid: int, changes: list[Change], undo: list[Undo]
    ) -> ZkResult:
        if op.path == "/":
            return ZkResult(ZkError.BADARGUMENTS, zxid=zxid)
        node = self._of_version(op)
        if isinstance(node, ZkError):
            return ZkResult(node, zxid=zxid)
        if node.children:
            return ZkResult(ZkError.NOTEMPTY, zxid=zxid)
        self._remove(op.path, zxid, changes, undo)
        return ZkResult(ZkError.OK, op.path, zxid=zxid)

    def _set_data(
        self, op: SetData, session_id: int, zxid: int, changes: list[Change], undo: list[Undo]
    ) -> ZkResult:
        node = self._of_version(op)
        if isinstance(node, ZkError):
            return ZkResult(node, zxid=zxid)
        undo.append(partial(_unset, node, node.data, node.mzxid))
        node.data = op.data
        node.version += 1
        node.mzxid = zxid
        changes.append((NODE_DATA_CHANGED, op.path))
        return ZkResult(ZkError.OK, op.path, stat=node.stat(), zxid=zxid)

    def _check(
        self, op: Check, session_id: int, zxid: int, changes: list[Change], undo: list[Undo]
    ) -> ZkResult:
        node = self._of_version(op)
        if isinstance(node, ZkError):
            return ZkResult(node, zxid=zxid)
        return ZkResult(ZkError.OK, op.path, zxid=zxid)

    def _of_version(self, op: Delete | SetData | Check) -> Znode | ZkError:
        """Return the znode of an operation if it has the version that is asked for, or any will do
        (checkAndIncVersion)."""
        node = self.nodes.get(op.path)
        if node is None:
            return ZkError.NONODE
        return node if op.version in (ANY_VERSION, node.version) else ZkError.BADVERSION

    def _remove(self, path: str, zxid: int, changes: list[Change], undo: list[Undo]) -> None:
        node = self.nodes.pop(path)
        parent = self.nodes[parent_of(path)]
        undo.append(partial(self._unremove, path, node, parent, parent.pzxid))
        del parent.children[path[path.rindex("/") + 1 :]]
        parent.pzxid = zxid
        if node.ephemeral_owner:
            self._forget_ephemeral(node.ephemeral_owner, path)
        changes.append((NODE_DELETED, path))

    def _forget_ephemeral(self, session_id: int, path: str) -> None:
        paths = self.ephemerals[session_id]
        del paths[path]
        if not paths:
            del self.ephemerals[session_id]

    def _uncreate(self, path: str, parent: Znode, pzxid: int) -> None:
        node = self.nodes.pop(path)
        del parent.children[path[path.rindex("/") + 1 :]]
        parent.creates -= 1
        parent.pzxid = pzxid
        if node.ephemeral_owner:
            self._forget_ephemeral(node.ephemeral_owner, path)

    def _unremove(self, path: str, node: Znode, parent: Znode, pzxid: int) -> None:
        self.nodes[path] = node
        parent.children[path[path.rindex("/") + 1 :]] = None
        parent.pzxid = pzxid
        if node.ephemeral_owner:
            self.ephemerals.setdefault(node.ephemeral_owner, {})[path] = None

    # ------------------------------------------------------------------------------------ reads

    def read(self, op: GetData | Exists | GetChildren, zxid: int) -> ZkResult:
        """Return the result of a read; ``zxid`` is the last transaction that was applied."""
        node = self.nodes.get(op.path)
        if node is None:
            return ZkResult(ZkError.NONODE, op.path, zxid=zxid)
        stat = node.stat()
        if type(op) is GetChildren:
            children = tuple(sorted(node.children))
            return ZkResult(ZkError.OK, op.path, None, stat, children, zxid=zxid)
        data = node.data if type(op) is GetData else None
        return ZkResult(ZkError.OK, op.path, data, stat, zxid=zxid)


def _valid(path: str, sequential: bool) -> bool:
    return path.startswith("/") and "//" not in path and (sequential or not path.endswith("/"))


def _unset(node: Znode, data: Any, mzxid: int) -> None:
    node.data = data
    node.version -= 1
    node.mzxid = mzxid
