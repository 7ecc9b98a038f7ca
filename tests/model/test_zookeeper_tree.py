"""The znode tree (DataTree, PrepRequestProcessor): versions, ephemerals, sequences, multi."""

import random

import pytest

from kafkasim.model.zookeeper.database.tree import DataTree
from kafkasim.model.zookeeper.ops import (
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
)

SESSION = 7


class Applied:
    """A tree and the zxid of the next write."""

    def __init__(self):
        self.tree = DataTree()
        self.zxid = 0

    def __call__(self, op, session=SESSION):
        self.zxid += 1
        result, self.changes = self.tree.apply(op, session, self.zxid)
        assert result.zxid == self.zxid
        return result

    def read(self, op):
        return self.tree.read(op, self.zxid)

    def dump(self):
        return {
            path: (node.data, node.stat(), node.pzxid, sorted(node.children))
            for path, node in sorted(self.tree.nodes.items())
        }, {s: sorted(paths) for s, paths in sorted(self.tree.ephemerals.items())}


@pytest.fixture
def tree():
    return Applied()


def test_create_and_read(tree):
    created = tree(Create("/a", "data"))

    assert created == ZkResult(ZkError.OK, "/a", stat=Stat(1, 1, 0, 0, 0), zxid=1)
    assert tree.changes == [("NodeCreated", "/a")]
    assert tree.read(GetData("/a")) == ZkResult(
        ZkError.OK, "/a", "data", Stat(1, 1, 0, 0, 0), zxid=1
    )


def test_set_data_counts_the_version_and_keeps_the_creation(tree):
    tree(Create("/a", 1))
    tree(SetData("/a", 2, 0))
    result = tree(SetData("/a", 3))

    assert result.stat == Stat(czxid=1, mzxid=3, version=2, cversion=0, ephemeral_owner=0)
    assert tree.changes == [("NodeDataChanged", "/a")]


@pytest.mark.parametrize(
    ("op", "error"),
    [
        (Create("/a", 1), ZkError.NODEEXISTS),
        (Create("/none/a", 1), ZkError.NONODE),
        (Create("/e/a", 1), ZkError.NOCHILDRENFOREPHEMERALS),
        (Create("/a/", 1), ZkError.BADARGUMENTS),
        (Create("a", 1), ZkError.BADARGUMENTS),
        (Delete("/none"), ZkError.NONODE),
        (Delete("/a", 3), ZkError.BADVERSION),
        (Delete("/a"), ZkError.NOTEMPTY),
        (Delete("/"), ZkError.BADARGUMENTS),
        (SetData("/none", 1), ZkError.NONODE),
        (SetData("/a", 1, 1), ZkError.BADVERSION),
        (Check("/none", -1), ZkError.NONODE),
        (Check("/a", 1), ZkError.BADVERSION),
    ],
)
def test_a_refused_write_changes_nothing_and_takes_a_zxid(tree, op, error):
    tree(Create("/a", 1))
    tree(Create("/a/b", 1))
    tree(Create("/e", 1, ephemeral=True))
    before = tree.dump()

    assert tree(op) == ZkResult(error, zxid=4)
    assert tree.changes == []
    assert tree.dump() == before


def test_cversion_counts_creates_and_deletes_of_children(tree):
    tree(Create("/a", None))
    tree(Create("/a/b", None))
    tree(Create("/a/c", None))
    tree(Delete("/a/b"))

    result = tree.read(GetChildren("/a"))

    assert (result.children, result.stat.cversion) == (("c",), 3)
    assert tree.tree.nodes["/a"].pzxid == 4


def test_children_are_sorted(tree):
    tree(Create("/a", None))
    for name in ("c", "a", "b"):
        tree(Create(f"/a/{name}", None))

    assert tree.read(GetChildren("/a")).children == ("a", "b", "c")


def test_sequential_znodes_are_numbered_by_creates_and_never_twice(tree):
    tree(Create("/q", None))
    first = tree(Create("/q/n-", None, sequential=True))
    tree(Delete(first.path))
    tree(Create("/q/other", None))
    second = tree(Create("/q/n-", None, ephemeral=True, sequential=True))

    assert [first.path, second.path] == ["/q/n-0000000000", "/q/n-0000000002"]


def test_the_end_of_a_session_deletes_its_ephemeral_znodes_alone(tree):
    tree(Create("/b", 1, ephemeral=True))
    tree(Create("/a", 1, ephemeral=True))
    tree(Create("/mine", 1, ephemeral=True), session=8)
    tree(Create("/stays", 1))

    changes = tree.tree.close_session(SESSION, 9)

    assert changes == [("NodeDeleted", "/a"), ("NodeDeleted", "/b")]
    assert sorted(tree.tree.nodes) == ["/", "/mine", "/stays"]
    assert tree.tree.ephemerals == {8: {"/mine": None}}
    assert tree.tree.close_session(SESSION, 10) == []


def test_a_deleted_ephemeral_znode_is_not_deleted_again_when_the_session_ends(tree):
    tree(Create("/a", 1, ephemeral=True))
    tree(Delete("/a"))
    tree(Create("/a", 2))

    assert tree.tree.close_session(SESSION, 9) == []
    assert tree.read(Exists("/a")).stat.ephemeral_owner == 0


def test_a_multi_sees_its_own_changes(tree):
    result = tree(Multi((Create("/a", 1), SetData("/a", 2, 0), Create("/a/b", 1), Check("/a", 1))))

    assert result.error is ZkError.OK
    assert [part.error for part in result.results] == [ZkError.OK] * 4
    assert result.results[1].stat == Stat(1, 1, 1, 0, 0)
    assert tree.changes == [
        ("NodeCreated", "/a"),
        ("NodeDataChanged", "/a"),
        ("NodeCreated", "/a/b"),
    ]


def test_a_failed_multi_undoes_all_and_names_the_culprit(tree):
    tree(Create("/controller_epoch", 1))
    tree(Create("/e", 1, ephemeral=True))
    tree(Create("/d", 1))
    before = tree.dump()

    result = tree(
        Multi(
            (
                Create("/controller", 2, ephemeral=True),
                Create("/d/s-", 2, sequential=True),
                SetData("/d", 2),
                Delete("/e"),
                SetData("/controller_epoch", 2, 5),
                Create("/x", 1),
            )
        )
    )

    ok, bad, rest = ZkError.OK, ZkError.BADVERSION, ZkError.RUNTIMEINCONSISTENCY
    assert (result.error, [part.error for part in result.results]) == (
        bad,
        [ok, ok, ok, ok, bad, rest],
    )
    assert tree.changes == []
    assert tree.dump() == before


def test_failed_multis_leave_no_trace_whatever_they_hold():
    """Random multis that end in a failure against a tree that never saw them."""
    rng = random.Random(5)
    tree = Applied()
    paths = ["/a", "/b", "/a/x", "/a/y", "/b/x"]

    def draw():
        path = rng.choice(paths)
        return rng.choice(
            [
                Create(path, rng.random(), ephemeral=rng.random() < 0.3),
                Create(path, 0, sequential=True),
                Delete(path),
                SetData(path, rng.random(), rng.choice([-1, -1, 0, 1])),
                Check(path, 0),
            ]
        )

    for _ in range(300):
        if rng.random() < 0.5:
            tree(draw(), session=rng.choice([1, 2]))
        before = tree.dump()
        ops = tuple(draw() for _ in range(rng.randrange(1, 5)))
        failed = tree(Multi((*ops, Check("/nowhere", 0))), session=rng.choice([1, 2]))
        assert failed.error is not ZkError.OK
        assert tree.dump() == before


def test_reading_what_is_not_there(tree):
    for op in (GetData("/a"), Exists("/a"), GetChildren("/a")):
        assert tree.read(op) == ZkResult(ZkError.NONODE, "/a", zxid=0)
