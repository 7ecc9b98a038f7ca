"""The one-shot watches that clients left at one server (WatchManager, DataTree.setWatches).

A watch belongs to a connection and a path. A read of data or of the stat leaves it in the data
table, a read of children in the child table; the event that fires it removes it. A connection that
watches a znode in both tables gets one event for the deletion.
"""

from __future__ import annotations

from kafkasim.model.zookeeper.database.tree import Change, DataTree
from kafkasim.model.zookeeper.ops import (
    NODE_CHILDREN_CHANGED,
    NODE_CREATED,
    NODE_DATA_CHANGED,
    NODE_DELETED,
    WatchEvent,
    parent_of,
)
from kafkasim.model.zookeeper.rules import ZooKeeperRules

WatchTable = dict[str, dict[int, None]]  # path -> connections, in the order of their watches


class WatchManager:
    """Which connection, by number, watches which path."""

    def __init__(self, rules: ZooKeeperRules) -> None:
        self.rules = rules
        self.data: WatchTable = {}
        self.child: WatchTable = {}

    def add(self, path: str, connection: int, child: bool) -> None:
        """Leave a watch; leaving it twice makes no difference."""
        table = self.child if child else self.data
        table.setdefault(path, {})[connection] = None

    def trigger(self, changes: list[Change]) -> list[tuple[int, WatchEvent]]:
        """Remove the watches that these changes fire; return (connection, event) in order."""
        fired: list[tuple[int, WatchEvent]] = []
        if not self.data and not self.child:
            return fired
        for type_, path in changes:
            watchers = self.data.pop(path, {})
            if type_ == NODE_DELETED:
                watchers = {**watchers, **self.child.pop(path, {})}
            event = WatchEvent(type_, path)
            fired += [(connection, event) for connection in watchers]
            if type_ != NODE_DATA_CHANGED:
                parent = parent_of(path)
                watchers = self.child.pop(parent, {})
                event = WatchEvent(NODE_CHILDREN_CHANGED, parent)
                fired += [(connection, event) for connection in watchers]
        return fired

    def set_watches(
        self,
        connection: int,
        tree: DataTree,
        relative_zxid: int,
        data: tuple[str, ...],
        exist: tuple[str, ...],
        child: tuple[str, ...],
    ) -> list[WatchEvent]:
        """Leave the watches of a client that reconnected; return the events that it missed.

        A watch whose event was missed is not left: the event uses it up.
        """
        missed: list[WatchEvent] = []
        changed = self.rules.missed_event
        for path in data:
            node = tree.nodes.get(path)
            if node is None:
                missed.append(WatchEvent(NODE_DELETED, path))
            elif changed(node.mzxid, relative_zxid):
                missed.append(WatchEvent(NODE_DATA_CHANGED, path))
            else:
                self.add(path, connection, False)
        for path in exist:
            if path in tree.nodes:
                missed.append(WatchEvent(NODE_CREATED, path))
            else:
                self.add(path, connection, False)
        for path in child:
            node = tree.nodes.get(path)
            if node is None:
                missed.append(WatchEvent(NODE_DELETED, path))
            elif changed(node.pzxid, relative_zxid):
                missed.append(WatchEvent(NODE_CHILDREN_CHANGED, path))
            else:
                self.add(path, connection, True)
        return missed

    def drop(self, connection: int) -> None:
        """Remove the watches of a closed connection."""
        for table in (self.data, self.child):
            for path in list(table):
                table[path].pop(connection, None)
                if not table[path]:
                    del table[path]
