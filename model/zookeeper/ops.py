"""What a ZooKeeper client may ask, and what it gets: operations, results, watch events.

Names and error codes are those of org.apache.zookeeper (ZooDefs.OpCode, KeeperException.Code,
Watcher.Event.EventType). The data of a znode is any immutable value that is not None; Kafka's JSON
documents are values here. Not modelled: ACLs, containers, TTL nodes, quotas, persistent and
recursive watches, reconfig.
"""

from __future__ import annotations

from enum import Enum
from typing import Any

from kafkasim.model.values import value

ANY_VERSION = -1


class ZkError(Enum):
    """KeeperException.Code; compare with ``is``."""

    OK = 0
    RUNTIMEINCONSISTENCY = -2  # an operation of a failed multi that was not the culprit's cause
    CONNECTIONLOSS = -4
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
    """Create a znode; ``sequential`` appends ten digits counted by the parent."""

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
    """Check a znode's version; changes nothing."""

    path: str
    version: int


@value
class Multi:
    """Create, Delete, SetData and Check operations: all of them or none."""

    ops: tuple[Create | Delete | SetData | Check, ...]


# ------------------------------------------------------------------------------------- reads


@value
class GetData:
    """Read data and stat; ``watch``: tell once of the next change of data, or the deletion."""

    path: str
    watch: bool = False


@value
class Exists:
    """Read the stat; ``watch``: tell once of the creation, change of data or deletion."""

    path: str
    watch: bool = False


@value
class GetChildren:
    """Read the children's names, sorted; ``watch``: tell once of the next change of them."""

    path: str
    watch: bool = False


@value
class Sync:
    """Let the server catch up with all that was committed before."""

    path: str


Op = Create | Delete | SetData | Check | Multi | GetData | Exists | GetChildren | Sync
WRITES: tuple[type, ...] = (Create, Delete, SetData, Check, Multi)

# ------------------------------------------------------------------------------------ results


@value
class Stat:
    """A znode's stat; ``ephemeral_owner`` is a session id, 0 for a persistent znode."""

    czxid: int
    mzxid: int
    version: int
    cversion: int
    ephemeral_owner: int


@value
class ZkResult:
    """The answer to an operation.

    ``path`` is the name of what was created, ``results`` one per operation of a Multi. ``zxid``
    is the transaction of a write, and for a read the last one that the server had applied.
    """

    error: ZkError
    path: str = ""
    data: Any = None
    stat: Stat | None = None
    children: tuple[str, ...] = ()
    results: tuple[ZkResult, ...] = ()
    zxid: int = -1


NODE_CREATED = "NodeCreated"
NODE_DELETED = "NodeDeleted"
NODE_DATA_CHANGED = "NodeDataChanged"
NODE_CHILDREN_CHANGED = "NodeChildrenChanged"


@value
class WatchEvent:
    """A watch fired: it is gone, whatever happens next must be read and watched again."""

    type: str
    path: str


def parent_of(path: str) -> str:
    """Return the path of a znode's parent."""
    return path[: path.rindex("/")] or "/"
