"""A failed log directory with ZooKeeper: /log_dir_event_notification (KIP-112)."""

from __future__ import annotations

from typing import Any

from kafkasim.model.controller.zk.store.zk_data import LOG_DIR_EVENTS, state_path
from kafkasim.model.errors import Errors
from kafkasim.model.facts import PartitionChanged
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import DiskError
from tests.model.zk_cluster import SECOND, TP, ZkCluster

OTHER = TopicPartition("other", 0)


def cluster(**settings: Any) -> ZkCluster:
    """Three brokers with two directories; orders-0 lies in /d1, other-0 in /d2 of each."""
    found = ZkCluster(log_dirs="/d1,/d2", replica_lag_time_max_ms=1000, **settings)
    found.create()
    found.create("other")
    return found


def fail(world: ZkCluster, number: int, path: str) -> None:
    broker = world.broker(number)
    broker.log_dir_failed(DiskError(path, "I/O error"), world.now)
    world.drain(f"broker-{number}")
    world.step(2 * SECOND)


def events(world: ZkCluster) -> list[str]:
    """The notifications that nobody has worked off."""
    nodes = world.processes["zookeeper-1"].database.tree.nodes
    return [path for path in nodes if path.startswith(f"{LOG_DIR_EVENTS}/")]


def test_the_controller_elects_others_for_what_lay_in_the_directory() -> None:
    world = cluster()
    assert world.produce(1, 5) == (Errors.NONE, 0)
    fail(world, 1, "/d1/orders-0/x.log")
    state = world.tree(state_path(TP))
    assert (state.leader, state.isr) == (2, (2, 3))
    other = world.tree(state_path(OTHER))
    assert (other.leader, other.isr, other.leader_epoch) == (1, (1, 2, 3), 0)
    assert world.controller().context.offline_dirs == {1: {TP: None}}
    assert events(world) == []
    assert [fact.reason for fact in world.seen(PartitionChanged)][-1] == "dir-offline"
    assert world.produce(1, 6) == (Errors.KAFKA_STORAGE_ERROR, -1)
    assert world.produce(2, 7) == (Errors.NONE, 1)


def test_a_follower_leaves_the_isr() -> None:
    world = cluster()
    fail(world, 3, "/d1/orders-0/x.log")
    state = world.tree(state_path(TP))
    assert (state.leader, state.isr) == (1, (1, 2))
    assert world.produce(1, 5) == (Errors.NONE, 0)
    assert world.partition(3).offline


def test_a_new_controller_asks_again() -> None:
    """The answers to its first LeaderAndIsr tell it what its predecessor knew."""
    world = cluster()
    fail(world, 3, "/d1/orders-0/x.log")
    first = world.who()[0]
    assert first != 3
    world.crash(f"broker-{first}")
    world.step(20 * SECOND)
    assert world.who()[0] != first
    assert world.controller().context.offline_dirs[3] == {TP: None}


def test_with_the_next_process_the_replica_is_back() -> None:
    world = cluster()
    world.produce(1, 5)
    fail(world, 3, "/d1/orders-0/x.log")
    world.crash("broker-3")
    world.step(10 * SECOND)
    world.restart("broker-3")
    world.step(10 * SECOND)
    assert sorted(world.tree(state_path(TP)).isr) == [1, 2, 3]
    assert world.controller().context.offline_dirs.get(3, {}) == {}
    assert world.values(3) == [5]


def test_a_new_topic_is_placed_in_the_directory_that_is_left() -> None:
    """LogManager.getOrCreateLog: only what is new is not looked for in the failed one."""
    world = cluster()
    fail(world, 1, "/d1/orders-0/x.log")
    world.create("third")
    third = TopicPartition("third", 0)
    assert world.partition(1, third).log.directory == "/d2/third-0"
    assert world.partition(1, third).leading
