"""A server's one-shot watches (WatchManager, DataTree.setWatches)."""

from kafkasim.model.zookeeper.database.tree import DataTree
from kafkasim.model.zookeeper.database.watches import WatchManager
from kafkasim.model.zookeeper.ops import Create, Delete, SetData, WatchEvent
from kafkasim.model.zookeeper.rules import ZooKeeperRules

CREATED = "NodeCreated"
DELETED = "NodeDeleted"
CHANGED = "NodeDataChanged"
CHILDREN = "NodeChildrenChanged"


def grow(*ops):
    tree = DataTree()
    for zxid, op in enumerate(ops, 1):
        tree.apply(op, 1, zxid)
    return tree


def test_a_watch_fires_once_in_the_order_of_registration():
    watches = WatchManager(ZooKeeperRules())
    for connection in (3, 1, 2, 3):
        watches.add("/a", connection, child=False)

    event = WatchEvent(CHANGED, "/a")
    assert watches.trigger([(CHANGED, "/a")]) == [(3, event), (1, event), (2, event)]
    assert watches.trigger([(CHANGED, "/a")]) == []


def test_a_creation_tells_who_asked_for_the_znode_and_who_reads_the_parent():
    watches = WatchManager(ZooKeeperRules())
    watches.add("/a/b", 1, child=False)
    watches.add("/a", 2, child=True)
    watches.add("/a", 3, child=False)  # of the parent's data: not concerned

    told = watches.trigger([(CREATED, "/a/b")])

    assert told == [(1, WatchEvent(CREATED, "/a/b")), (2, WatchEvent(CHILDREN, "/a"))]


def test_a_deletion_tells_a_connection_once_and_the_parent_afterwards():
    watches = WatchManager(ZooKeeperRules())
    watches.add("/a", 1, child=False)
    watches.add("/a", 1, child=True)
    watches.add("/a", 2, child=True)
    watches.add("/", 1, child=True)

    told = watches.trigger([(DELETED, "/a")])

    assert told == [
        (1, WatchEvent(DELETED, "/a")),
        (2, WatchEvent(DELETED, "/a")),
        (1, WatchEvent(CHILDREN, "/")),
    ]
    assert (watches.data, watches.child) == ({}, {})


def test_a_client_that_comes_back_hears_what_it_missed():
    tree = grow(
        Create("/same", 1),  # zxid 1
        Create("/changed", 1),
        Create("/gone", 1),
        Create("/parent", 1),
        Create("/quiet", 1),
        SetData("/changed", 2),  # zxid 6
        Delete("/gone"),
        Create("/parent/x", 1),
        Create("/new", 1),
    )
    watches = WatchManager(ZooKeeperRules())

    missed = watches.set_watches(
        5, tree, 5, ("/same", "/changed", "/gone"), ("/new", "/never"), ("/parent", "/quiet")
    )

    assert missed == [
        WatchEvent(CHANGED, "/changed"),
        WatchEvent(DELETED, "/gone"),
        WatchEvent(CREATED, "/new"),
        WatchEvent(CHILDREN, "/parent"),
    ]
    assert (watches.data, watches.child) == (
        {"/same": {5: None}, "/never": {5: None}},
        {"/quiet": {5: None}},
    )


def test_a_closed_connection_is_forgotten():
    watches = WatchManager(ZooKeeperRules())
    watches.add("/a", 1, child=False)
    watches.add("/a", 2, child=False)
    watches.add("/b", 1, child=True)

    watches.drop(1)

    assert (watches.data, watches.child) == ({"/a": {2: None}}, {})
