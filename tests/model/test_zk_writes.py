"""The ZooKeeper controller's store: a write that was refused, but may be ours all the same."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from kafkasim.model.controller.zk.context import Leadership
from kafkasim.model.controller.zk.events import ControllerMoved
from kafkasim.model.controller.zk.rules import ZkControllerRules
from kafkasim.model.controller.zk.store.controller_store import ControllerStore
from kafkasim.model.controller.zk.store.zk_data import LeaderAndIsr
from kafkasim.model.facts import PartitionChanged
from kafkasim.model.records import TopicPartition
from kafkasim.model.zookeeper.ops import ZkError, ZkResult

TP = TopicPartition("orders", 0)
BEFORE = LeaderAndIsr(1, 4, (1, 2), 1)
AFTER = LeaderAndIsr(2, 5, (2,), 1)
REFUSED = ZkResult(ZkError.BADVERSION, results=(ZkResult(ZkError.OK), ZkResult(ZkError.BADVERSION)))


def _store() -> ControllerStore:
    assignment = SimpleNamespace(replicas=(1, 2), adding=(), removing=())
    context: Any = SimpleNamespace(
        epoch=1,
        epoch_zk_version=1,
        assignments={TP: assignment},
        topic_ids={"orders": "topic-id"},
        leaderships={TP: Leadership(BEFORE, 7)},
    )
    store = ControllerStore([], context, ZkControllerRules())
    store.because("fenced")
    return store


def _finish(steps: Any, *answers: ZkResult) -> Any:
    """Run an event's steps whose one request ZooKeeper answers so."""
    next(steps)
    with pytest.raises(StopIteration) as stop:
        steps.send(answers)
    return stop.value.value


def _found(state: LeaderAndIsr, version: int, zxid: int) -> ZkResult:
    stat: Any = SimpleNamespace(version=version, mzxid=zxid)
    return ZkResult(ZkError.OK, data=state, stat=stat)


def _told(store: ControllerStore) -> list[Any]:
    return [fact for fact in store.out if isinstance(fact, PartitionChanged)]


def _refuse(store: ControllerStore, unclean: bool = False) -> None:
    """Write AFTER over version 7; the answer to a first attempt was lost, the second is refused."""
    steps = store.update_states({TP: Leadership(AFTER, 7)}, (TP,) if unclean else ())
    written, retry = _finish(steps, REFUSED)
    assert (written, retry, _told(store)) == ({}, [TP], [])


@pytest.mark.parametrize(("unclean", "reason"), [(False, "fenced"), (True, "unclean")])
def test_what_is_read_back_as_it_was_written_was_ours(unclean: bool, reason: str) -> None:
    store = _store()
    _refuse(store, unclean)
    found = _finish(store.read_states([TP]), _found(AFTER, 8, 99))
    assert found == {TP: Leadership(AFTER, 8)}
    (told,) = _told(store)
    assert (told.offset, told.leader, told.leader_epoch, told.partition_epoch) == (99, 2, 5, 8)
    assert (told.isr, told.reason, told.unclean) == ((2,), reason, unclean)


@pytest.mark.parametrize(("state", "version"), [(BEFORE, 8), (AFTER, 9)])
def test_what_another_wrote_is_his_to_tell(state: LeaderAndIsr, version: int) -> None:
    store = _store()
    _refuse(store)
    _finish(store.read_states([TP]), _found(state, version, 99))
    assert _told(store) == []


def test_it_is_told_once() -> None:
    store = _store()
    _refuse(store)
    for _ in range(2):
        _finish(store.read_states([TP]), _found(AFTER, 8, 99))
    assert len(_told(store)) == 1


def test_a_partition_nobody_wrote_is_just_read() -> None:
    store = _store()
    _finish(store.read_states([TP]), _found(AFTER, 8, 99))
    assert _told(store) == []


def test_a_refusal_by_the_guard_is_a_new_controller() -> None:
    store = _store()
    steps = store.update_states({TP: Leadership(AFTER, 7)})
    next(steps)
    moved = ZkResult(ZkError.BADVERSION, results=(ZkResult(ZkError.BADVERSION),) * 2)
    with pytest.raises(ControllerMoved):
        steps.send((moved,))
