"""A broker with several log directories, one of which fails (KIP-112, KIP-858)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.directories import UNASSIGNED
from kafkasim.model.effects import Exit
from kafkasim.model.errors import Errors
from kafkasim.model.facts import BrokerState, LogDirOffline, ReplicaFailed
from kafkasim.model.messages import (
    AssignReplicasToDirsRequest,
    CreatableTopic,
    CreateTopicsRequest,
    DeleteRecordsRequest,
    DeleteTopicsRequest,
)
from kafkasim.model.records import TopicPartition
from kafkasim.model.storage.files import DiskError
from tests.model.broker_cluster import SECOND, TP, Cluster

DIRS = {"log_dirs": "/d1,/d2", "metadata_log_dir": "/meta"}
OTHER = TopicPartition("other", 0)


def cluster(**settings: Any) -> Cluster:
    """Three brokers with two directories and a third one for metadata; orders-0 lies in /d1 and
    other-0 in /d2 of each."""
    found = Cluster(**{**DIRS, **settings})
    found.run(5 * SECOND)
    found.create()
    found.create("other")
    found.run(found.now + SECOND)
    return found


def fail(world: Cluster, number: int, path: str) -> None:
    """Let a file of a broker not be written; nothing happens yet."""
    broker = world.broker(number)
    broker.log_dir_failed(DiskError(path, "I/O error"), world.now)
    world.drain(f"broker-{number}")


def registered(world: Cluster, tp: TopicPartition = TP) -> Any:
    """A partition as broker 3's metadata has it."""
    topic = world.broker(3).loader.image.topic_by_name(tp.topic)
    assert topic is not None
    return topic.partitions[tp.partition]


def directory(world: Cluster, number: int, path: str) -> str:
    """The id of a broker's directory."""
    found = [d.id for d in world.broker(number).replicas.logs.directories if d.path == path]
    return found[0]


def test_brokers_register_their_directories_and_tell_where_replicas_lie() -> None:
    world = cluster()
    image = world.broker(3).loader.image
    for number in (1, 2, 3):
        ids = (directory(world, number, "/d1"), directory(world, number, "/d2"))
        assert image.brokers[number].directories == tuple(sorted(ids))
        assert registered(world).directory(number) == ids[0]
        assert registered(world, OTHER).directory(number) == ids[1]


def test_until_a_broker_has_told_the_controller_does_not_know() -> None:
    world = Cluster(**DIRS)
    world.run(5 * SECOND)
    wanted = (CreatableTopic("orders", -1, -1, ((1, 2, 3),)),)
    world.ask("broker-1", CreateTopicsRequest(wanted, 30000), 1)
    while world.broker(3).loader.image.topic_by_name("orders") is None:
        world.run(world.now + 5000)
    assert registered(world).directories == (UNASSIGNED,) * 3


def test_a_failed_directory_costs_leaderships_and_isrs_there_and_no_others() -> None:
    world = cluster()
    world.produce(1, 5)
    fail(world, 1, "/d1/orders-0/x.log")
    assert world.produce(1, 6, wait_us=1) in (None, (Errors.KAFKA_STORAGE_ERROR, -1))
    world.run(world.now + SECOND)
    assert (registered(world).leader, registered(world).isr) == (2, (2, 3))
    assert (registered(world, OTHER).leader, registered(world, OTHER).isr) == (1, (1, 2, 3))
    assert world.produce(1, 7) == (Errors.KAFKA_STORAGE_ERROR, -1)
    assert world.consume(1) == [Errors.KAFKA_STORAGE_ERROR]
    assert world.produce(2, 8)[0] is Errors.NONE
    assert world.partition(1, OTHER).leading
    image = world.broker(3).loader.image
    assert image.brokers[1].directories == (directory(world, 1, "/d2"),)
    assert world.seen(LogDirOffline) == [
        LogDirOffline("/d1", directory(world, 1, "/d1"), "I/O error")
    ]
    assert len(world.seen(ReplicaFailed)) == 1


def test_a_follower_in_a_failed_directory_is_not_fetched_and_not_in_sync() -> None:
    """The leader does not know why it is silent: the high watermark waits for what was caught up
    until replica.lag.time.max.ms has passed (shouldWaitForReplicaToJoinIsr)."""
    world = cluster(replica_lag_time_max_ms=1000)
    fail(world, 3, "/d1/orders-0/x.log")
    world.run(world.now + 2 * SECOND)
    assert registered(world).isr == (1, 2)
    for value in (5, 6):
        assert world.produce(1, value)[0] is Errors.NONE
    assert world.values(3) == []
    fetchers = world.broker(3).replicas.fetchers.threads.values()
    assert [tp for fetcher in fetchers for tp in fetcher.states.fetching] == [OTHER]


def test_a_follower_whose_disk_refuses_a_new_log_start_fetches_the_other_partitions_on() -> None:
    """A new log start writes the epochs' checkpoint, which a fetch reply without records causes."""
    world = cluster()
    world.produce(1, 5)
    world.run(world.now + SECOND)
    files = world.files["broker-3"]

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("/d1/orders-0/leader-epoch-checkpoint"):
            raise DiskError(name, "I/O error")
        return type(files).append(files, name, *rest)

    files.append = refuse  # type: ignore[method-assign]
    world.ask("broker-1", DeleteRecordsRequest(((TP, 1),), 30000), 1)
    world.run(world.now + 2 * SECOND)
    assert [fact.directory for fact in world.seen(LogDirOffline)] == ["/d1"]
    fetchers = world.broker(3).replicas.fetchers.threads.values()
    assert [tp for fetcher in fetchers for tp in fetcher.states.fetching] == [OTHER]


def test_a_directory_is_back_with_the_next_process() -> None:
    world = cluster()
    world.produce(1, 5)
    fail(world, 1, "/d1/orders-0/x.log")
    world.run(world.now + SECOND)
    world.produce(2, 6)
    world.crash("broker-1")
    world.run(world.now + 10 * SECOND)
    world.restart("broker-1")
    world.run(world.now + 10 * SECOND)
    assert sorted(registered(world).isr) == [1, 2, 3]
    assert world.values(1) == [5, 6]
    assert len(world.broker(3).loader.image.brokers[1].directories) == 2


def test_a_replica_in_an_offline_directory_is_not_created_anew_elsewhere() -> None:
    """createLogInAssignedDirectoryId: the log may lie in the directory that failed."""
    world = cluster()
    fail(world, 1, "/d1/orders-0/x.log")
    world.run(world.now + SECOND)
    world.crash("broker-1")
    world.run(world.now + 10 * SECOND)
    broken = world.files["broker-1"]
    path = "/d1/meta.properties"

    def refuse(name: str, *rest: Any) -> Any:
        if name.startswith("/d1/"):
            raise DiskError(name, "I/O error")
        return type(broken).read(broken, name, *rest)

    broken.read = refuse  # type: ignore[method-assign]
    assert broken.exists(path)
    world.restart("broker-1")
    world.run(world.now + 10 * SECOND)
    hosted = world.broker(1).replicas
    assert (TP in hosted.partitions, TP in hosted.hosted.offline) == (False, True)
    assert hosted.hosted.error_of_missing(TP) is Errors.KAFKA_STORAGE_ERROR
    assert world.partition(1, OTHER).log.directory == "/d2/other-0"
    assert registered(world).isr == (2, 3)


def test_clients_do_not_know_a_deleted_topic_of_a_failed_directory() -> None:
    """KafkaApis asks the metadata cache before the ReplicaManager, which keeps the partition."""
    world = cluster()
    fail(world, 1, "/d1/orders-0/x.log")
    world.run(world.now + SECOND)
    assert world.produce(1, 6) == (Errors.KAFKA_STORAGE_ERROR, -1)
    world.ask("broker-1", DeleteTopicsRequest(((TP.topic, ""),)))
    world.run(world.now + SECOND)
    assert world.produce(1, 7) == (Errors.UNKNOWN_TOPIC_OR_PARTITION, -1)
    trimmed = world.ask("broker-1", DeleteRecordsRequest(((TP, 0),), 5000))
    assert trimmed.partitions[0].error is Errors.UNKNOWN_TOPIC_OR_PARTITION
    world.create()
    world.run(world.now + SECOND)
    assert world.produce(1, 8) == (Errors.NONE, 0)


def test_a_topic_of_the_same_name_may_live_in_the_other_directory() -> None:
    """ReplicaManager.getOrCreatePartition: the offline replica is another topic's."""
    world = cluster()
    fail(world, 1, "/d1/orders-0/x.log")
    world.run(world.now + SECOND)
    world.ask("broker-2", DeleteTopicsRequest((("orders", ""),), 30000), 5 * SECOND)
    world.run(world.now + SECOND)
    assert world.partition(1).offline
    world.create()
    assert (world.partition(1).log.directory, world.partition(1).offline) == ("/d2/orders-0", False)
    assert world.produce(world.leader_known_to(2), 9)[0] is Errors.NONE


@pytest.mark.parametrize(("dirs", "path"), [("/d1,/d2", "/d1"), ("/d1", "orders-0")])
def test_without_the_metadata_directory_or_the_only_one_a_broker_halts(
    dirs: str, path: str
) -> None:
    world = Cluster(log_dirs=dirs)
    world.run(5 * SECOND)
    world.create()
    exits: list[Any] = []
    broker = world.broker(2)
    broker.log_dir_failed(DiskError(f"{path}/x", "I/O error"), world.now)
    while broker.out:
        effect = broker.out.pop(0)
        if isinstance(effect, Exit):
            exits.append(effect)
        elif type(effect).__name__ == "Post":
            effect.handler(effect.message, world.now)
    assert exits == [Exit(f"log directory failed: I/O error: {path}/x", False)]


def test_the_last_directory_ends_the_process() -> None:
    world = cluster()
    broker = world.broker(2)
    for path in ("/d1/x", "/d2/x"):
        broker.log_dir_failed(DiskError(path, "I/O error"), world.now)
    exits = []
    while broker.out:
        effect = broker.out.pop(0)
        if isinstance(effect, Exit):
            exits.append(effect.clean)
        elif type(effect).__name__ == "Post":
            effect.handler(effect.message, world.now)
    assert exits == [False]


def test_a_broker_that_cannot_tell_the_controller_stops() -> None:
    """log.dir.failure.timeout.ms (BrokerLifecycleManager.OfflineDirBrokerFailureEvent)."""
    world = cluster(log_dir_failure_timeout_ms=3000)
    world.held.append("controller-100")
    fail(world, 1, "/d1/orders-0/x.log")
    since = world.now
    world.run(world.now + 5 * SECOND)
    states = [f.state for at, name, f in world.facts
              if name == "broker-1" and isinstance(f, BrokerState) and at >= since]  # fmt: skip
    assert "PENDING_CONTROLLED_SHUTDOWN" in states


def test_a_broker_that_was_heard_goes_on() -> None:
    world = cluster(log_dir_failure_timeout_ms=3000)
    fail(world, 1, "/d1/orders-0/x.log")
    since = world.now
    world.run(world.now + 5 * SECOND)
    assert world.broker(1).lifecycle.offline_dirs == {directory(world, 1, "/d1"): True}
    assert world.seen(BrokerState, since) == []


def test_a_flush_that_fails_under_a_barrier_costs_its_directory() -> None:
    world = cluster()
    broker = world.broker(1)
    assert broker.on_barrier_failed(["/d1/orders-0/x.log"], "I/O error", world.now)
    assert world.partition(1).offline
    assert not world.partition(1, OTHER).offline
    assert not broker.on_barrier_failed(["/meta/__cluster_metadata-0/x"], "I/O error", world.now)
    world.drain("broker-1")
    world.run(world.now + SECOND)
    assert registered(world).isr == (2, 3)


def test_assignments_are_sent_until_they_are_answered() -> None:
    """AssignmentsManager: one request at a time, and a failed one is repeated."""
    world = Cluster(**DIRS)
    world.run(5 * SECOND)
    world.held.append("controller-100")
    manager = world.broker(1).assignments
    for number in range(3):
        manager.assign("T", number, "d", world.now)
    assert list(manager.ready) == [("T", 0), ("T", 1), ("T", 2)]
    world.run(world.now + SECOND)
    assert (manager.ready, manager.inflight) == ({}, {})  # there is no such topic


def test_the_controller_answers_for_each_replica() -> None:
    world = cluster()
    topic_id = world.partition(1).topic_id
    epoch = world.broker(1).broker_epoch
    asked = (("d", topic_id, 0), ("d", topic_id, 7), ("d", "nobody", 0))
    request = AssignReplicasToDirsRequest(1, epoch, asked)
    answer = world.ask("controller-100", request)
    assert [error for *_, error in answer.directories] == [
        Errors.NONE, Errors.UNKNOWN_TOPIC_OR_PARTITION, Errors.UNKNOWN_TOPIC_ID,
    ]  # fmt: skip
    stale = world.ask("controller-100", AssignReplicasToDirsRequest(1, epoch - 1, asked))
    assert (stale.error, stale.directories) == (Errors.STALE_BROKER_EPOCH, ())
    world.run(world.now + SECOND)
    assert registered(world).leader == 2  # "d" is no directory that is online
