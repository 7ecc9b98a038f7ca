"""The one-shot watches that clients left at one server (WatchManager, DataTree.setWatches).

A watch belongs to a connection and a path. Reading data or the stat leaves one in the data table,
reading children one in the child table; an event takes the watch away. A deletion tells a
connection once, even if it watches both.
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

Table = dict[str, dict[int, None]]  # path -> connections, in the order in which they came


class WatchManager:
    """Who waits for what; connections are numbers."""

    def __init__(self, rules: ZooKeeperRules) -> None:
        self.rules = rules
        self.data: Table = {}
        self.child: Table = {}

    def add(self, path: str, connection: int, child: bool) -> None:
        """Leave a watch; twice is once."""
        table = self.child if child else self.data
        table.setdefault(path, {})[connection] = None

    def trigger(self, changes: list[Change]) -> list[tuple[int, WatchEvent]]:
        """Take the watches that these changes fire; return whom to tell what, in order."""
        told: list[tuple[int, WatchEvent]] = []
        if not self.data and not self.child:
            return told
        for type_, path in changes:
            watchers = self.data.pop(path, {})
            if type_ == NODE_DELETED:
                watchers = {**watchers, **self.child.pop(path, {})}
            event = WatchEvent(type_, path)
            told += [(connection, event) for connection in watchers]
            if type_ != NODE_DATA_CHANGED:
                parent = parent_of(path)
                watchers = self.child.pop(parent, {})
                event = WatchEvent(NODE_CHILDREN_CHANGED, parent)
                told += [(connection, event) for connection in watchers]
        return told

    def set_watches(
        self,
        connection: int,
        tree: DataTree,
        relative_zxid: int,
        data: tuple[str, ...],
        exist: tuple[str, ...],
        child: tuple[str, ...],
    ) -> list[WatchEvent]:
        """Take over the watches of a client that reconnected; return the events it missed."""
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
        """Forget a connection that is gone."""
        for table in (self.data, self.child):
            for path in list(table):
                table[path].pop(connection, None)
                if not table[path]:
                    del table[path]
