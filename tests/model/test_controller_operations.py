"""What operators ask the controller for: reassignments, deletion, settings, unregistering."""

from __future__ import annotations

from typing import Any

import pytest

from kafkasim.model.config import BrokerConfig
from kafkasim.model.controller.common.configs import preprocess
from kafkasim.model.controller.common.image import MetadataImage
from kafkasim.model.controller.kraft.rules import ControllerRules
from kafkasim.model.errors import Errors
from kafkasim.model.facts import ConfigChanged, PartitionChanged, TopicDeleted
from kafkasim.model.messages import (
    AlterableConfig,
    AlterPartitionData,
    AlterPartitionReassignmentsRequest,
    AlterPartitionRequest,
    BrokerHeartbeatRequest,
    BrokerRegistrationRequest,
    CreatableTopic,
    CreatePartitionsRequest,
    CreatePartitionsTopic,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    ElectLeadersRequest,
    IncrementalAlterConfigsRequest,
    ListPartitionReassignmentsRequest,
    ReassignablePartition,
    UnregisterBrokerRequest,
)
from kafkasim.model.records import TopicPartition
from tests.model.controller_harness import Harness

SECOND = 1_000_000
TP = TopicPartition("t", 0)


def reassign(h: Harness, *replicas: int, tp: TopicPartition = TP) -> Errors:
    """Ask for replicas; none of them cancels."""
    wanted = ReassignablePartition(tp, replicas or None)
    answer = h.ask(AlterPartitionReassignmentsRequest((wanted,)))
    assert answer.error is Errors.NONE
    return answer.results[0][1]


def propose(h: Harness, topic: str, leader: int, *isr: int) -> object:
    """Let a leader propose an ISR and return the result of it."""
    state = h.controller.image.partition(topic, 0)
    broker_epoch = h.controller.image.brokers[leader].epoch
    members = tuple((member, -1) for member in isr)
    data = AlterPartitionData(topic, 0, state.leader_epoch, members, state.partition_epoch)
    return h.ask(AlterPartitionRequest(leader, broker_epoch, (data,))).partitions[0]


def moving(h: Harness, topic: str) -> tuple[tuple[int, ...], ...]:
    state = h.controller.image.partition(topic, 0)
    return state.replicas, state.adding_replicas, state.removing_replicas


def six_brokers(rules: ControllerRules | None = None) -> Harness:
    return Harness(rules).activate().up(1, 2, 3, 4, 5, 6)


def test_a_reassignment_is_target_and_removed_replicas_until_all_targets_are_in_sync() -> None:
    h = six_brokers()
    topic = h.create("t", (1, 2, 3))
    assert reassign(h, 4, 5, 1) is Errors.NONE
    assert moving(h, topic) == ((4, 5, 1, 2, 3), (4, 5), (2, 3))
    assert h.partition(topic) == (1, 0, 1, (1, 2, 3))
    propose(h, topic, 1, 1, 2, 3, 4)
    assert moving(h, topic) == ((4, 5, 1, 2, 3), (4, 5), (2, 3))
    done = propose(h, topic, 1, 1, 2, 3, 4, 5)
    assert moving(h, topic) == ((4, 5, 1), (), ())
    assert h.partition(topic) == (1, 1, 3, (1, 4, 5))  # replicas removed: another leader epoch
    assert (done.error, done.leader_epoch) == (Errors.NONE, 1)
    last = h.facts_of(PartitionChanged)[-1]
    assert (last.reason, last.adding_replicas, last.replicas) == ("reassignment", (), (4, 5, 1))


def test_completion_that_removes_the_leader_answers_new_leader_elected() -> None:
    h = six_brokers()
    topic = h.create("t", (1, 2))
    reassign(h, 3, 4)
    propose(h, topic, 1, 1, 2, 3)
    done = propose(h, topic, 1, 1, 2, 3, 4)
    assert done.error is Errors.NEW_LEADER_ELECTED
    assert h.partition(topic) == (3, 1, 3, (3, 4))


def test_one_target_in_sync_completes_only_under_the_old_rule() -> None:
    """B29."""

    class AnyTarget(ControllerRules):
        def reassignment_is_complete(self, replicas: object, isr: tuple[int, ...]) -> bool:
            return bool(isr)

    for rules, isr in ((None, (1, 2, 3, 4)), (AnyTarget(), (4,))):
        h = six_brokers(rules)
        topic = h.create("t", (1, 2, 3))
        reassign(h, 4, 5, 6)
        propose(h, topic, 1, 1, 2, 3, 4)
        assert h.partition(topic)[3] == isr


def test_cancelling_goes_back_to_the_replicas_that_were_not_added() -> None:
    h = six_brokers()
    topic = h.create("t", (1, 2, 3))
    assert reassign(h) is Errors.NO_REASSIGNMENT_IN_PROGRESS
    reassign(h, 4, 2, 3)
    propose(h, topic, 1, 1, 2, 3)
    assert reassign(h) is Errors.NONE
    assert moving(h, topic) == ((2, 3, 1), (), ())
    assert h.partition(topic)[3] == (1, 2, 3)
    assert h.ask(ListPartitionReassignmentsRequest(None)).partitions == ()


def test_a_cancellation_that_leaves_no_isr_is_refused() -> None:
    h = six_brokers()
    topic = h.create("t", (1, 2))
    reassign(h, 3, 4)
    propose(h, topic, 1, 1, 2, 3)
    for broker in (1, 2):
        h.heartbeat(broker, want_fence=True)
    assert h.partition(topic)[0] == 3
    assert h.partition(topic)[3] == (3,)
    assert reassign(h) is Errors.INVALID_REPLICA_ASSIGNMENT


def test_a_reassignment_elects_nobody_uncleanly() -> None:
    """changePartitionReassignment sets no election; its cancellation does."""
    h = six_brokers()
    topic = h.create("t", (1, 2))
    for broker in (2, 1):
        h.heartbeat(broker, want_fence=True)
    h.heartbeat(2)
    assert alter(h, "topic", "t", unclean_leader_election_enable="true") is Errors.NONE
    assert reassign(h, 2, 3) is Errors.NONE
    began = h.partition(topic)
    assert reassign(h) is Errors.NONE
    assert (began[0], began[3], h.partition(topic)[0]) == (-1, (1,), 2)


def test_wrong_reassignments_are_refused() -> None:
    h = six_brokers()
    h.create("t", (1, 2))
    assert reassign(h, 1, 1) is Errors.INVALID_REPLICA_ASSIGNMENT
    assert reassign(h, 1, 9) is Errors.INVALID_REPLICA_ASSIGNMENT
    nowhere = TopicPartition("t", 7)
    assert reassign(h, 1, 2, tp=nowhere) is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_ongoing_reassignments_are_listed() -> None:
    h = six_brokers()
    h.create("t", (1, 2), (2, 3))
    reassign(h, 4, 2)
    (ongoing,) = h.ask(ListPartitionReassignmentsRequest(None)).partitions
    assert (ongoing.tp, ongoing.replicas) == (TP, (4, 2, 1))
    assert (ongoing.adding_replicas, ongoing.removing_replicas) == ((4,), (1,))
    other = ListPartitionReassignmentsRequest((TopicPartition("t", 1),))
    assert h.ask(other).partitions == ()


def test_a_deleted_topic_comes_back_as_another_one() -> None:
    h = six_brokers()
    old = h.create("t", (1, 2), min_insync_replicas="2")
    assert h.ask(DeleteTopicsRequest((("t", ""), ("u", "")))).results == (
        ("t", old, Errors.NONE, ""),
        (
            "u",
            "",
            Errors.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        ),
    )
    assert h.facts_of(TopicDeleted)[0].topic_id == old
    assert h.controller.image.configs == {}
    new = h.create("t", (1, 2))
    assert new != old
    unknown = h.ask(DeleteTopicsRequest((("", old),))).results[0][2]
    assert unknown is Errors.UNKNOWN_TOPIC_ID
    assert h.ask(DeleteTopicsRequest((("", new),))).results[0][:3] == ("t", new, Errors.NONE)


def grow(h: Harness, *topics: CreatePartitionsTopic) -> list[tuple[Errors, str]]:
    answer = h.ask(CreatePartitionsRequest(topics))
    assert [name for name, _, _ in answer.results] == [topic.topic for topic in topics]
    return [(error, message) for _, error, message in answer.results]


def test_a_topic_gets_more_partitions_with_as_many_replicas_as_its_first() -> None:
    h = six_brokers()
    topic_id = h.create("t", (1, 2), (2, 3))
    assert grow(h, CreatePartitionsTopic("t", 5)) == [(Errors.NONE, "")]
    partitions = h.controller.image.topics[topic_id].partitions
    assert list(partitions) == [0, 1, 2, 3, 4]
    for number in (2, 3, 4):
        added = partitions[number]
        assert len(added.replicas) == 2
        assert (added.isr, added.leader) == (added.replicas, added.replicas[0])
        assert (added.leader_epoch, added.partition_epoch) == (0, 0)
    assert partitions[0].replicas == (1, 2)


def test_new_partitions_may_be_assigned_by_hand() -> None:
    h = six_brokers()
    topic_id = h.create("t", (1, 2))
    assert grow(h, CreatePartitionsTopic("t", 3, ((4, 5),))) == [
        (
            Errors.INVALID_REPLICA_ASSIGNMENT,
            "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified.",
        )
    ]
    ((error, message),) = grow(h, CreatePartitionsTopic("t", 2, ((4, 5, 6),)))
    assert (error, "3 replica(s)" in message) == (Errors.INVALID_REPLICA_ASSIGNMENT, True)
    assert grow(h, CreatePartitionsTopic("t", 3, ((4, 5), (6, 1)))) == [(Errors.NONE, "")]
    assert h.controller.image.topics[topic_id].partitions[2].replicas == (6, 1)


def test_partitions_are_never_fewer_and_what_cannot_grow_leaves_the_others_alone() -> None:
    h = six_brokers()
    h.create("t", (1, 2), (2, 3))
    h.create("u", (1,))
    asked = [("t", 2), ("t", 1), ("no", 3)]
    assert [grow(h, CreatePartitionsTopic(*each))[0] for each in asked] == [
        (Errors.INVALID_PARTITIONS, "Topic already has 2 partition(s)."),
        (
            Errors.INVALID_PARTITIONS,
            "The topic t currently has 2 partition(s); 1 would not be an increase.",
        ),
        (
            Errors.UNKNOWN_TOPIC_OR_PARTITION,
            "This server does not host this topic-partition.",
        ),
    ]
    wanted = tuple([CreatePartitionsTopic(name, 4) for name in ("t", "u", "t")])
    twice = h.ask(CreatePartitionsRequest(wanted)).results
    assert [row[:2] for row in twice] == [("u", Errors.NONE), ("t", Errors.INVALID_REQUEST)]
    assert len(h.controller.image.topics[h.controller.image.topic_names["t"]].partitions) == 2


def alter(h: Harness, kind: str, name: str, **settings: str | None) -> Errors:
    changes = tuple((key.replace("_", "."), text) for key, text in settings.items())
    request = IncrementalAlterConfigsRequest((AlterableConfig(kind, name, changes),))
    return h.ask(request).results[0][2]


def test_topic_settings_change_and_go_back() -> None:
    h = six_brokers()
    h.create("t", (1, 2))
    assert alter(h, "topic", "t", min_insync_replicas="2") is Errors.NONE
    assert h.controller.image.configs == {"t": {"min.insync.replicas": "2"}}
    assert h.facts_of(ConfigChanged)[-1].resource == "topic:t"
    assert alter(h, "topic", "t", min_insync_replicas=None) is Errors.NONE
    assert h.controller.image.configs == {"t": {}}
    assert alter(h, "topic", "t", min_insync_replicas="-1") is Errors.INVALID_CONFIG
    assert alter(h, "topic", "u", min_insync_replicas="1") is Errors.UNKNOWN_TOPIC_OR_PARTITION


def test_the_default_of_all_brokers_decides_elections_of_topics_without_their_own() -> None:
    h = six_brokers()
    topic = h.create("t", (1, 2))
    propose(h, topic, 1, 1)
    h.heartbeat(1, want_fence=True)
    assert h.partition(topic)[0] == -1
    assert alter(h, "broker", "", unclean_leader_election_enable="true") is Errors.NONE
    h.advance(301 * SECOND)  # unclean.leader.election.interval.ms; all sessions end meanwhile
    for broker in (2, 3):
        h.heartbeat(broker)
    assert h.partition(topic)[0] == 2


ALTERED = [  # asked of broker 2, whose static settings are the defaults
    (("broker", "2", ("min.insync.replicas", "2")), Errors.NONE),
    (("broker", "", ("min.insync.replicas", "2")), Errors.NONE),
    (("broker", "3", ("min.insync.replicas", "2")), Errors.INVALID_REQUEST),
    (("broker", "two", ("min.insync.replicas", "2")), Errors.INVALID_REQUEST),
    (("broker", "-1", ("min.insync.replicas", "2")), Errors.INVALID_REQUEST),
    (("broker", "2", ("min.insync.replicas", "0")), Errors.INVALID_REQUEST),
    (("broker", "2", ("broker.id", "3")), Errors.INVALID_REQUEST),
    (("broker", "2", ("controller.quorum.fetch.timeout.ms", "9")), Errors.INVALID_REQUEST),
    (("broker", "2", ("no.such.key", "3")), Errors.NONE),
    (("broker", "2", ("no.such.key", "3"), ("no.such.key", "4")), Errors.INVALID_REQUEST),
    (("topic", "t", ("retention.ms", "3"), ("retention.ms", None)), Errors.INVALID_REQUEST),
    (("topic", "nowhere", ("retention.ms", "soon")), Errors.NONE),  # the controller's to refuse
]


@pytest.mark.parametrize(("wanted", "error"), ALTERED)
def test_a_broker_refuses_settings_before_it_forwards_them(wanted: Any, error: Errors) -> None:
    """ConfigAdminManager.preprocess, in its order."""
    kind, name, *changes = wanted
    resource = AlterableConfig(kind, name, tuple(changes))
    refused = preprocess((resource,), 2, MetadataImage(), BrokerConfig(), True)
    assert {place: problem[0] for place, problem in refused.items()} == (
        {} if error is Errors.NONE else {0: error}
    )


def test_a_resource_that_stands_twice_is_refused_twice() -> None:
    same = AlterableConfig("topic", "t", (("retention.ms", "3"),))
    other = AlterableConfig("topic", "u", (("retention.ms", "3"),))
    refused = preprocess((same, other, same), 2, MetadataImage(), BrokerConfig(), True)
    assert list(refused) == [0, 2]


def test_the_controller_judges_topics_by_name_then_settings_then_existence() -> None:
    h = six_brokers()
    told = [
        alter(h, "topic", name, retention_ms=text)
        for name, text in (("", "soon"), ("a b", "soon"), ("u", "soon"), ("u", "1"))
    ]
    assert told == [
        Errors.INVALID_REQUEST,
        Errors.INVALID_TOPIC_EXCEPTION,
        Errors.INVALID_CONFIG,
        Errors.UNKNOWN_TOPIC_OR_PARTITION,
    ]


def test_an_unregistered_broker_leaves_isrs_and_its_heartbeats_are_stale() -> None:
    h = six_brokers()
    topic = h.create("t", (1, 2, 3))
    epoch = h.controller.image.brokers[1].epoch
    assert h.ask(UnregisterBrokerRequest(1)).error is Errors.NONE
    assert h.partition(topic)[::3] == (2, (2, 3))
    heartbeat = BrokerHeartbeatRequest(1, epoch, 1000, False, False)
    assert h.ask(heartbeat).error is Errors.STALE_BROKER_EPOCH
    assert h.ask(UnregisterBrokerRequest(1)).error is Errors.BROKER_ID_NOT_REGISTERED


def test_the_first_process_of_a_duplicate_node_id_stays_a_zombie() -> None:
    h = six_brokers()
    old = h.controller.image.brokers[1].epoch
    second = BrokerRegistrationRequest(1, "1-second", "broker-1b", None)
    assert h.ask(second).error is Errors.DUPLICATE_BROKER_REGISTRATION
    h.advance(10 * SECOND)  # nobody is heard any more
    assert h.ask(second).error is Errors.NONE
    heartbeat = BrokerHeartbeatRequest(1, old, 10**6, False, False)
    assert h.ask(heartbeat).error is Errors.STALE_BROKER_EPOCH


def test_a_read_waits_for_what_a_timer_wrote_before_it() -> None:
    """The fencing is not committed: an answer that rests on it must not be given yet."""
    h = six_brokers()
    h.create("t", (1, 2))
    controller = h.controller
    controller.active.append(controller.active.managers.replication.fence(2), h.now)
    listed = h.send(ListPartitionReassignmentsRequest(None))
    assert listed not in h.answers
    h.raft.lead(2, h.now)  # another controller; what was not committed is gone
    h.drain()
    assert h.answers[listed].error is Errors.NOT_CONTROLLER
    assert not controller.image.brokers[2].fenced
    assert controller.image.contents() == controller.committed.image.contents()


def test_losing_leadership_reverts_exactly_to_what_is_committed() -> None:
    h = six_brokers()
    topic = h.create("t", (1, 2, 3))
    before = h.controller.image.contents()
    wanted = ReassignablePartition(TP, (4, 5, 6))
    pending = [
        h.send(AlterPartitionReassignmentsRequest((wanted,))),
        h.send(ElectLeadersRequest(0, None)),
        h.send(DeleteTopicsRequest((("t", ""),))),
    ]
    assert topic not in h.controller.image.topics
    h.raft.lead(3, h.now)
    h.drain()
    assert [h.answers[each].error for each in pending] == [Errors.NOT_CONTROLLER] * 3
    assert h.controller.image.contents() == before


def test_an_event_of_more_than_10000_records_is_several_batches() -> None:
    h = six_brokers()
    for name in ("a", "b"):
        topic = CreatableTopic(name, 6000, 3)
        assert h.ask(CreateTopicsRequest((topic,), 1000)).results[0][1] is Errors.NONE
    batches = len(h.raft.log)
    for broker in (1, 2, 3, 4):
        h.heartbeat(broker, want_fence=True)
    assert all(len(batch.records) <= 10_000 for batch in h.raft.log[batches:])
    leaders = [p.leader for t in h.controller.image.topics.values() for p in t.partitions.values()]
    assert all(leader in (-1, 5, 6) for leader in leaders)
    too_many = CreatableTopic("c", 10_001, 3)
    refused = h.ask(CreateTopicsRequest((too_many,), 1000)).results[0][1]
    assert refused is Errors.POLICY_VIOLATION


def test_balancing_elects_a_thousand_leaders_an_event_and_goes_on_in_10_ms() -> None:
    h = six_brokers()
    topic = h.create("t", *([(1, 2)] * 1500))
    h.heartbeat(1, want_fence=True)
    h.heartbeat(1)
    for number in range(1500):
        state = h.controller.image.partition(topic, number)
        data = AlterPartitionData(
            topic, number, state.leader_epoch, ((2, -1), (1, -1)), state.partition_epoch
        )
        epoch = h.controller.image.brokers[2].epoch
        h.send(AlterPartitionRequest(2, epoch, (data,)))
    h.commit()
    h.controller.timers.cancel("stale-check")
    h.advance(300 * SECOND)  # leader.imbalance.check.interval.seconds
    assert _led_by(h, topic, 1) == 1000
    h.advance(10_000)
    assert _led_by(h, topic, 1) == 1500


def test_the_unclean_scan_elects_a_thousand_leaders_an_event_and_goes_on_in_10_ms() -> None:
    """ReplicationControlManager.maybeElectUncleanLeaders."""
    h = six_brokers()
    topic = h.create("t", *([(1, 2)] * 1500))
    h.heartbeat(2, want_fence=True)
    h.heartbeat(1, want_fence=True)
    h.heartbeat(2)
    h.controller.timers.cancel("stale-check")
    h.controller.image.configs["t"] = {"unclean.leader.election.enable": "true"}
    h.advance(300 * SECOND)  # unclean.leader.election.interval.ms
    assert _led_by(h, topic, 2) == 1000
    h.advance(10_000)
    assert _led_by(h, topic, 2) == 1500


def _led_by(h: Harness, topic: str, broker: int) -> int:
    partitions = h.controller.image.topics[topic].partitions.values()
    return [partition.leader for partition in partitions].count(broker)
