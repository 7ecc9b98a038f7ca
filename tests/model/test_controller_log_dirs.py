"""Log directories at the KRaft controller (KIP-858)."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.controller.common.deltas.metadata_delta import MetadataDelta
from kafkasim.model.controller.common.deltas.snapshot import Snapshot, image_values, load_snapshot
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.common.records import (
    BrokerRegistrationChangeRecord,
    PartitionRecord,
    RegisterBrokerRecord,
    TopicRecord,
    chain_digest,
)
from kafkasim.model.directories import MIGRATING, UNASSIGNED
from kafkasim.model.errors import Errors
from kafkasim.model.facts import BrokerRegistration
from kafkasim.model.messages import (
    AlterPartitionReassignmentsRequest,
    AssignReplicasToDirsRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    CreatableTopic,
    CreateTopicsRequest,
    ReassignablePartition,
)
from kafkasim.model.records import Record, TopicPartition, batch_of
from tests.model.controller_harness import Harness


def register(h: Harness, broker: int, *log_dirs: str) -> Errors:
    """Register and unfence a broker with these directories; return the error."""
    request = BrokerRegistrationRequest(
        broker, f"{broker}-a", f"broker-{broker}", None, log_dirs=log_dirs
    )
    answer = h.ask(request)
    if answer.error is Errors.NONE:
        h.heartbeat(broker)
    return Errors(answer.error)


def create(h: Harness, *replicas: int) -> Any:
    """Create a topic of one partition; return a function that gives its present state."""
    h.ask(CreateTopicsRequest((CreatableTopic("t", -1, -1, (replicas,)),), 1000))
    topic = h.controller.image.topic_by_name("t")
    assert topic is not None
    return lambda: topic.partitions[0]


def beat(h: Harness, broker: int, *offline: str) -> None:
    """Send a heartbeat that names failed directories."""
    image = h.controller.image
    epoch = image.brokers[broker].epoch
    h.ask(BrokerHeartbeatRequest(broker, epoch, image.offset, False, False, offline))


def test_new_replicas_lie_where_the_controller_can_say_so() -> None:
    """ClusterControlManager.defaultDir."""
    h = Harness().activate()
    register(h, 1, "a")
    register(h, 2, "b", "c")
    register(h, 3)
    partition = create(h, 1, 2, 3)
    assert partition().directories == ("a", UNASSIGNED, MIGRATING)


def test_a_cluster_without_directories_names_none() -> None:
    h = Harness().activate().up(1, 2)
    partition = create(h, 1, 2)
    assert (partition().directories, partition().directory(2)) == ((), MIGRATING)


@pytest.mark.parametrize("log_dirs", [("a",), ("b", "b"), ("b", UNASSIGNED)])
def test_a_directory_is_real_and_belongs_to_one_broker(log_dirs: tuple[str, ...]) -> None:
    """ClusterControlManager.registerBroker."""
    h = Harness().activate()
    register(h, 1, "a")
    assert register(h, 2, *log_dirs) is Errors.INVALID_REGISTRATION


def test_an_offline_directory_is_taken_once() -> None:
    """handleDirectoriesOffline: a repeated heartbeat finds nothing new."""
    h = Harness().activate()
    register(h, 1, "a")
    register(h, 2, "b", "c")
    partition = create(h, 1, 2)
    h.facts.clear()
    beat(h, 1, "a")
    after = partition()
    beat(h, 1, "a")
    assert (partition(), after.leader, after.isr) == (after, 2, (2,))
    beat(h, 2, "c")
    assert h.controller.image.brokers[2].directories == ("b",)
    changes = [fact.change for fact in h.facts_of(BrokerRegistration)]
    assert "dir-offline" in changes


def test_nobody_leads_from_an_offline_directory() -> None:
    """ReplicationControlManager.LeaderAcceptor; unclean elections included."""
    h = Harness(unclean_leader_election_enable=True).activate()
    register(h, 1, "a", "x")
    register(h, 2, "b", "y")
    partition = create(h, 1, 2)
    image = h.controller.image
    topic_id = image.topic_names["t"]
    assign(h, 1, topic_id, "a")
    assign(h, 2, topic_id, "b")
    beat(h, 1, "a")
    beat(h, 2, "b")
    assert (partition().leader, partition().isr) == (-1, (2,))


def assign(h: Harness, broker: int, topic_id: str, directory: str) -> None:
    epoch = h.controller.image.brokers[broker].epoch
    h.ask(AssignReplicasToDirsRequest(broker, epoch, ((directory, topic_id, 0),)))


def test_a_broker_that_is_no_replica_assigns_nothing() -> None:
    h = Harness().activate()
    register(h, 1, "a", "x")
    register(h, 2, "b", "y")
    partition = create(h, 1)
    topic_id = h.controller.image.topic_names["t"]
    epoch = h.controller.image.brokers[2].epoch
    answer = h.ask(AssignReplicasToDirsRequest(2, epoch, (("b", topic_id, 0),)))
    assert answer.directories == (("b", topic_id, 0, Errors.NOT_LEADER_OR_FOLLOWER),)
    assert partition().directories == (UNASSIGNED,)


def test_an_added_replica_gets_its_brokers_default_directory() -> None:
    h = Harness().activate()
    register(h, 1, "a")
    register(h, 2, "b")
    partition = create(h, 1)
    wanted = (ReassignablePartition(TopicPartition("t", 0), (2,)),)
    h.ask(AlterPartitionReassignmentsRequest(wanted))
    assert (partition().replicas, partition().directories) == ((2, 1), ("b", "a"))


RECORDS = [
    RegisterBrokerRecord(1, "i", "broker-1", None, log_dirs=("a", "b")),
    TopicRecord("t", "T"),
    PartitionRecord("T", 0, (1,), (1,), 1, directories=("a",)),
]


def test_a_snapshot_keeps_directories() -> None:
    image = MetadataImage()
    for offset, record in enumerate(RECORDS):
        image.apply(record, offset, 1)
    image.apply(BrokerRegistrationChangeRecord(1, 0, log_dirs=("b",)), 3, 1)
    loaded = MetadataImage()
    load_snapshot(MetadataDelta(loaded), Snapshot(4, 1, image_values(image, 0)))
    assert loaded.contents() == image.contents()
    assert loaded.brokers[1].directories == ("b",)
    assert loaded.topics["T"].partitions[0].directory(1) == "a"


def test_logs_that_differ_in_directories_alone_differ() -> None:
    """META compares digests; the repr of records leaves directories out."""

    def digest(*values: Any) -> int:
        return chain_digest(0, batch_of(tuple([Record(None, each, 50, 0) for each in values])))

    other = RegisterBrokerRecord(1, "i", "broker-1", None, log_dirs=("a", "c"))
    assert digest(RECORDS[0]) != digest(other)
    assert repr(RECORDS[0]) == repr(other)
