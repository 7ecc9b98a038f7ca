"""The operations of a ZooKeeper client, their results, and watch events.

Names and error codes are those of org.apache.zookeeper (ZooDefs.OpCode, KeeperException.Code,
Watcher.Event.EventType). The data of a znode is any immutable Python value but None; Kafka's JSON
documents are such values. Not modelled: ACLs, containers, TTL nodes, quotas, persistent and
recursive watches, reconfig.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from kafkasim.model.values import value

ANY_VERSION = -1
"""As the version of a write: whatever the znode's version is."""


class ZkError(Enum):
    """Why an operation failed (KeeperException.Code); compare with ``is``."""

    OK = 0
    RUNTIMEINCONSISTENCY = -2  # of a multi: an operation after the one that failed
    CONNECTIONLOSS = -4  # the operation may have been executed or not
    BADARGUMENTS = -8
    NONODE = -101
    BADVERSION = -103
    NOCHILDRENFOREPHEMERALS = -108
    NODEEXISTS = -110
    NOTEMPTY = -111
    SESSIONEXPIRED = -112


# ------------------------------------------------------------------------------------ writes


@value
class Create:
    """Create a znode; ``sequential`` appends the parent's counter, in ten digits, to the name."""

    path: str
    data: Any
    ephemeral: bool = False
    sequential: bool = False


@value
class Delete:
    """Delete a znode without children, if its version is ``version``."""

    path: str
    version: int = ANY_VERSION


@value
class SetData:
    """Replace a znode's data, if its version is ``version``."""

    path: str
    data: Any
    version: int = ANY_VERSION


@value
class Check:
    """Check that a znode has this version; change nothing."""

    path: str
    version: int


@value
class Multi:
    """Execute all of these operations, or none if one of them fails."""

    ops: tuple[Create | Delete | SetData | Check, ...]


# ------------------------------------------------------------------------------------- reads


@value
class GetData:
    """Read data and stat; ``watch`` asks for one event, when the data changes or the znode goes."""

    path: str
    watch: bool = False


@value
class Exists:
    """Read the stat; ``watch`` asks for one event, when the znode comes, changes or goes."""

    path: str
    watch: bool = False


@value
class GetChildren:
    """Read the children's names, sorted; ``watch`` asks for one event, when they change."""

    path: str
    watch: bool = False


@value
class Sync:
    """Wait until the server has applied every write that the leader proposed before this."""

    path: str


Op = Create | Delete | SetData | Check | Multi | GetData | Exists | GetChildren | Sync
WRITES: tuple[type, ...] = (Create, Delete, SetData, Check, Multi)

# ------------------------------------------------------------------------------------ results


@value
class Stat:
    """What a client gets of a znode besides its data."""

    czxid: int  # the transaction that created it
    mzxid: int  # the last transaction that changed its data
    version: int  # changes of its data
    cversion: int  # creations and deletions of its children
    ephemeral_owner: int  # a session id, 0 for a persistent znode


@value
class ZkResult:
    """The answer to an operation; a field that does not concern it has its default."""

    error: ZkError
    path: str = ""  # of a Create: with the digits of a sequential znode
    data: Any = None
    stat: Stat | None = None
    children: tuple[str, ...] = ()
    results: tuple[ZkResult, ...] = ()  # of a Multi, one for each operation
    zxid: int = -1  # a write's transaction; for a read the last one that the server had applied


NODE_CREATED = "NodeCreated"
NODE_DELETED = "NodeDeleted"
NODE_DATA_CHANGED = "NodeDataChanged"
NODE_CHILDREN_CHANGED = "NodeChildrenChanged"


@value
class WatchEvent:
    """A watch fired. It is gone: a client that wants the next event reads and watches again."""

    type: str
    path: str


def parent_of(path: str) -> str:
    """Return the path of a znode's parent."""
    return path[: path.rindex("/")] or "/"
