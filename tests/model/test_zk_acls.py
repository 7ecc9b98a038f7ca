"""Access control lists in ZooKeeper mode: znodes, versions, notifications (AclAuthorizer)."""

from __future__ import annotations

import random
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.model.broker.zk.acls import ZkAclManager
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.zk.events import Pause
from kafkasim.model.controller.zk.store.zk_data import ACL_CHANGES, AclEntries, acl_path
from kafkasim.model.errors import Errors
from kafkasim.model.facts import AclChanged
from kafkasim.model.messages import (
    AclBinding,
    AclFilter,
    CreateAclsRequest,
    DeleteAclsRequest,
)
from kafkasim.model.zookeeper.ops import (
    Create,
    Delete,
    GetChildren,
    GetData,
    SetData,
    Stat,
    ZkError,
    ZkResult,
)

READ = AclBinding("topic", "orders", "literal", "User:bob", "*", "read", "allow")
WRITE = READ._replace(operation="write")
PREFIX = READ._replace(name="ord", pattern_type="prefixed")
ORDERS, ORD = "/kafka-acl/Topic/orders", "/kafka-acl-extended/prefixed/Topic/ord"


class FakeZooKeeper:
    """Znodes without an ensemble; ``between`` runs before each write, as another broker may."""

    def __init__(self) -> None:
        self.znodes: dict[str, list[Any]] = {}  # path -> [data, version, czxid]
        self.zxid = 0
        self.writes: list[Any] = []
        self.between: list[Any] = []

    def put(self, path: str, data: Any) -> None:
        self.zxid += 1
        known = self.znodes.get(path)
        version, created = (0, self.zxid) if known is None else (known[1] + 1, known[2])
        self.znodes[path] = [data, version, created]

    def serve(self, op: Any) -> ZkResult:
        if not isinstance(op, GetData | GetChildren) and "changes" not in op.path and self.between:
            self.between.pop(0)()
        known = self.znodes.get(op.path)
        if isinstance(op, GetChildren):
            below = [each.removeprefix(f"{op.path}/") for each in self.znodes
                     if each.startswith(f"{op.path}/")]  # fmt: skip
            return ZkResult(ZkError.OK, children=tuple([each for each in below if "/" not in each]))
        if isinstance(op, GetData):
            if known is None:
                return ZkResult(ZkError.NONODE)
            return ZkResult(ZkError.OK, data=known[0], stat=_stat(known[2], known[1]))
        self.writes.append(op)
        if isinstance(op, Create) and not op.sequential and known is not None:
            return ZkResult(ZkError.NODEEXISTS)
        if not isinstance(op, Create) and known is None:
            return ZkResult(ZkError.NONODE)
        if not isinstance(op, Create) and op.version != known[1]:  # type: ignore[index]
            return ZkResult(ZkError.BADVERSION)
        if isinstance(op, Delete):
            self.zxid += 1
            del self.znodes[op.path]
        else:
            digits = f"{self.zxid:010d}" if isinstance(op, Create) and op.sequential else ""
            self.put(f"{op.path}{digits}", op.data)
        return ZkResult(ZkError.OK, zxid=self.zxid)


def _stat(czxid: int, version: int) -> Stat:
    return SimpleNamespace(czxid=czxid, version=version)  # type: ignore[return-value]


class Authorizer:
    """One broker's cache and writer over a :class:`FakeZooKeeper`."""

    def __init__(self, zookeeper: FakeZooKeeper) -> None:
        self.zookeeper = zookeeper
        self.image = MetadataImage()
        self.process: Any = SimpleNamespace(out=[], timers=None)
        self.manager = ZkAclManager(
            self.process,
            None,
            self.image,
            random.Random(1),  # type: ignore[arg-type]
        )
        self.pauses = 0
        self.run(self.manager._load())

    def run(self, steps: Generator[Any, Any, Any]) -> Any:
        """Run an event to its end, with the results of ZooKeeper; count the pauses."""
        results: Any = None
        while True:
            try:
                asked = steps.send(results)
            except StopIteration as end:
                return end.value
            self.pauses += isinstance(asked, Pause)
            results = () if isinstance(asked, Pause) else tuple(map(self.zookeeper.serve, asked))

    def create(self, *bindings: AclBinding) -> Any:
        return self.run(self.manager._create(CreateAclsRequest(bindings))).results

    def delete(self, *filters: AclFilter) -> Any:
        return self.run(self.manager._delete(DeleteAclsRequest(filters))).results

    def hear(self) -> None:
        self.run(self.manager._notifications())

    @property
    def entries(self) -> list[AclBinding]:
        return list(self.image.acls.values())


@pytest.fixture
def zookeeper() -> FakeZooKeeper:
    return FakeZooKeeper()


def test_a_resource_has_one_znode_and_a_change_one_notification(zookeeper: FakeZooKeeper) -> None:
    broker = Authorizer(zookeeper)
    zookeeper.writes.clear()
    assert broker.create(READ, PREFIX, WRITE) == ((Errors.NONE, ""),) * 3
    assert [each.path for each in zookeeper.writes] == [
        ORDERS, "/kafka-acl-changes/acl_changes_", ORD, "/kafka-acl-extended-changes/acl_changes_",
    ]  # fmt: skip
    assert zookeeper.znodes[ORDERS][0].entries == (READ, WRITE)
    told = [fact for fact in broker.process.out if isinstance(fact, AclChanged)]
    assert [(each.added, each.operation, each.name) for each in told] == [
        (True, "read", "orders"), (True, "write", "orders"), (True, "read", "ord"),
    ]  # fmt: skip


def test_another_broker_learns_of_a_change_when_it_reads_the_notification(
    zookeeper: FakeZooKeeper,
) -> None:
    writer, other = Authorizer(zookeeper), Authorizer(zookeeper)
    writer.create(READ, PREFIX)
    assert (writer.entries, other.entries) == ([READ, PREFIX], [])
    other.hear()
    assert other.entries == [READ, PREFIX]
    writer.delete(AclFilter("topic", "orders", "literal"))
    other.hear()
    assert other.entries == [PREFIX]
    assert ORDERS not in zookeeper.znodes


def test_a_broker_that_starts_loads_every_resource(zookeeper: FakeZooKeeper) -> None:
    Authorizer(zookeeper).create(READ, PREFIX)
    for path in [each for each in zookeeper.znodes if "changes/" in each]:
        del zookeeper.znodes[path]  # they were purged
    assert Authorizer(zookeeper).entries == [READ, PREFIX]


def test_a_write_of_another_version_is_read_and_tried_again(zookeeper: FakeZooKeeper) -> None:
    broker = Authorizer(zookeeper)
    broker.create(READ)
    other = READ._replace(principal="User:carol")
    data = AclEntries(("topic", "orders", "literal"), (READ, other))
    zookeeper.between.append(lambda: zookeeper.put(ORDERS, data))
    assert broker.create(WRITE) == ((Errors.NONE, ""),)
    assert (broker.pauses, broker.entries) == (1, [READ, other, WRITE])


def test_after_eleven_attempts_a_change_is_given_up(zookeeper: FakeZooKeeper) -> None:
    broker = Authorizer(zookeeper)
    broker.create(READ)
    data = zookeeper.znodes[ORDERS][0]
    zookeeper.between += [lambda: zookeeper.put(ORDERS, data)] * 11
    assert broker.create(WRITE) == ((Errors.UNKNOWN_SERVER_ERROR, ""),)
    assert broker.pauses == 11


def test_an_entry_that_is_there_is_written_again_and_announced_to_nobody(
    zookeeper: FakeZooKeeper,
) -> None:
    broker = Authorizer(zookeeper)
    broker.create(READ)
    zookeeper.writes.clear()
    assert broker.create(READ) == ((Errors.NONE, ""),)
    assert [type(each) for each in zookeeper.writes] == [SetData]


def test_an_entry_of_two_filters_is_a_result_of_the_first(zookeeper: FakeZooKeeper) -> None:
    broker = Authorizer(zookeeper)
    broker.create(READ, WRITE, PREFIX)
    results = broker.delete(AclFilter(operation="read"), AclFilter(principal="User:bob"))
    assert [deleted for _, _, deleted in results] == [(READ, PREFIX), (WRITE,)]
    assert broker.entries == []


def test_a_filter_of_one_resource_finds_entries_that_the_cache_does_not_know(
    zookeeper: FakeZooKeeper,
) -> None:
    Authorizer(zookeeper).create(READ)
    late = Authorizer(zookeeper)
    late.image.acls.clear()
    late.manager._cache.clear()
    assert late.delete(AclFilter("topic", "orders", "match"))[0][2] == ()
    assert late.delete(AclFilter("topic", "orders", "literal"))[0][2] == (READ,)


@pytest.mark.parametrize(
    ("binding", "message"),
    [
        (READ._replace(name="a/b"), "Failed to create ACL"),
        (READ._replace(name=""), "Invalid empty resource name"),
        (READ._replace(resource_type="cluster", name="mine"),
         "The only valid name for the CLUSTER resource is kafka-cluster"),
    ],
)  # fmt: skip
def test_what_no_entry_may_be(binding: AclBinding, message: str, zookeeper: FakeZooKeeper) -> None:
    results = Authorizer(zookeeper).create(binding, READ)
    assert results == ((Errors.INVALID_REQUEST, message), (Errors.NONE, ""))


def test_a_principal_without_a_type_and_an_operation_any_are_unexpected(
    zookeeper: FakeZooKeeper,
) -> None:
    broker = Authorizer(zookeeper)
    failed = (Errors.UNKNOWN_SERVER_ERROR, "")
    assert broker.create(READ._replace(principal="bob"), READ) == (failed, (Errors.NONE, ""))
    assert broker.create(WRITE._replace(operation="any"), WRITE) == (failed, failed)


def test_the_paths_are_kafkas() -> None:
    assert acl_path("transactional-id", "t", "literal") == "/kafka-acl/TransactionalId/t"
    assert acl_path("topic", "ord", "prefixed") == ORD
    assert ACL_CHANGES["prefixed"] == "/kafka-acl-extended-changes"
